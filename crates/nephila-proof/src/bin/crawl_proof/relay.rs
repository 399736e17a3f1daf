//! One resolver for two webs: names of the good web are asked of its name server, all others of the hostile one's.
//!
//! Questions and answers pass unchanged, byte for byte, so that the answers of a hostile name server reach the crawler.
//! Invariant: at most [`OPEN_MAX`] questions are open, each for [`OPEN_FOR`] at most.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nephila_testweb::model::World;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum number of open questions; more are dropped, as by a busy resolver.
const OPEN_MAX: usize = 4_096;
/// Answers are passed on for this long. Longer than the crawler waits for one.
const OPEN_FOR: Duration = Duration::from_secs(2);
/// The longest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Bytes of a message before its question.
const HEAD_BYTES: usize = 12;
/// Ports tried until one is free for both UDP and TCP.
const PORTS_TRIED_MAX: u32 = 16;
/// Rest after a socket error, so that one that stays does not spin.
const ERROR_REST: Duration = Duration::from_millis(20);

/// Where questions go.
struct Relay {
    world: Arc<World>,
    good: SocketAddr,
    hostile: SocketAddr,
    room: Arc<Semaphore>,
}

/// Begins to answer on a free port of 127.0.0.1, UDP and TCP, and returns the address. The relay ends with the runtime.
pub async fn start(world: Arc<World>, good: SocketAddr, hostile: SocketAddr) -> anyhow::Result<SocketAddr> {
    let mut tries = 0;
    let (udp, tcp) = loop {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.context("bind the resolver")?;
        match TcpListener::bind(udp.local_addr()?).await {
            Ok(tcp) => break (udp, tcp),
            Err(_) if tries < PORTS_TRIED_MAX => tries += 1,
            Err(error) => return Err(error).context("bind the resolver for TCP"),
        }
    };
    let address = udp.local_addr()?;
    let relay = Arc::new(Relay { world, good, hostile, room: Arc::new(Semaphore::new(OPEN_MAX)) });
    tokio::spawn(datagrams(Arc::new(udp), relay.clone()));
    tokio::spawn(connections(tcp, relay));
    Ok(address)
}

async fn datagrams(socket: Arc<UdpSocket>, relay: Arc<Relay>) {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        // An error is about an earlier answer whose port was closed meanwhile.
        let Ok((len, from)) = socket.recv_from(&mut buffer).await else { continue };
        let Ok(place) = relay.room.clone().try_acquire_owned() else { continue };
        let question = buffer[..len].to_vec();
        let (server, is_good) = relay.server(&question);
        let socket = socket.clone();
        tokio::spawn(async move {
            // The client repeats a lost question.
            _ = timeout(OPEN_FOR, pass(&socket, from, server, is_good, &question)).await;
            drop(place);
        });
    }
}

/// Asks one server and passes its answers on: one of the good server, all that come from the hostile one.
async fn pass(
    socket: &UdpSocket,
    from: SocketAddr,
    server: SocketAddr,
    is_good: bool,
    question: &[u8],
) -> std::io::Result<()> {
    let asks = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    asks.connect(server).await?;
    asks.send(question).await?;
    let mut answer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let len = asks.recv(&mut answer).await?;
        socket.send_to(&answer[..len], from).await?;
        if is_good {
            return Ok(());
        }
    }
}

async fn connections(listener: TcpListener, relay: Arc<Relay>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(ERROR_REST).await;
            continue;
        };
        let Ok(place) = relay.room.clone().try_acquire_owned() else { continue };
        let relay = relay.clone();
        tokio::spawn(async move {
            _ = timeout(OPEN_FOR, pass_stream(&mut stream, &relay)).await;
            drop(place);
        });
    }
}

/// The first question decides for the whole connection.
async fn pass_stream(stream: &mut TcpStream, relay: &Relay) -> std::io::Result<()> {
    let len = stream.read_u16().await?;
    let mut question = vec![0; usize::from(len)];
    stream.read_exact(&mut question).await?;
    let mut server = TcpStream::connect(relay.server(&question).0).await?;
    server.write_all(&[&len.to_be_bytes()[..], &question].concat()).await?;
    tokio::io::copy_bidirectional(stream, &mut server).await?;
    Ok(())
}

impl Relay {
    /// The server for the name of a question, and whether that is the good one.
    fn server(&self, question: &[u8]) -> (SocketAddr, bool) {
        let is_good = name(question).is_some_and(|name| self.world.host_of(&name).is_some());
        (if is_good { self.good } else { self.hostile }, is_good)
    }
}

/// The name a message asks for.
fn name(message: &[u8]) -> Option<String> {
    let mut rest = message.get(HEAD_BYTES..)?;
    let mut labels = Vec::new();
    loop {
        let (len, after) = rest.split_first()?;
        if *len == 0 {
            return Some(labels.join("."));
        }
        let label = after.get(..usize::from(*len))?;
        labels.push(String::from_utf8_lossy(label).into_owned());
        rest = &after[label.len()..];
    }
}
