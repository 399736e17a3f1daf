//! A TCP proxy on loopback, for networks that break.
//!
//! Each connection has two threads, one per direction. A command to the proxy holds for present and future connections.
//!
//! Invariants: bytes arrive in order and unchanged, or the connection ends; threads end with the proxy.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;

/// Polling interval of a waiting thread.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Bytes read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Connect timeout to the server.
const DIAL_WAIT: Duration = Duration::from_secs(3);

const OPEN: u8 = 0;
const CUT: u8 = 1;
const MUTE: u8 = 2;
const HOLD: u8 = 3;

#[derive(Debug)]
struct State {
    mode: AtomicU8,
    delay_ms: AtomicU64,
    is_over: AtomicBool,
}

impl State {
    fn mode(&self) -> u8 {
        if self.is_over.load(Ordering::Acquire) { CUT } else { self.mode.load(Ordering::Acquire) }
    }
}

/// A proxy in front of one address.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

impl Proxy {
    /// Listens on loopback and leads to this address.
    pub fn to(target: SocketAddr) -> Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            mode: AtomicU8::new(OPEN),
            delay_ms: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let shared = state.clone();
        std::thread::spawn(move || accept(&listener, target, &shared));
        Ok(Proxy { address, state })
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a NATS address.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Ends all connections, and every new one at once.
    pub fn cut(&self) {
        self.state.mode.store(CUT, Ordering::Release);
    }

    /// Connections stay, and the server's bytes do not arrive until [`Proxy::heal`]; the client's bytes do.
    pub fn mute(&self) {
        self.state.mode.store(MUTE, Ordering::Release);
    }

    /// Connections stay, and nothing arrives in either direction until [`Proxy::heal`].
    pub fn hold(&self) {
        self.state.mode.store(HOLD, Ordering::Release);
    }

    /// Everything arrives again.
    pub fn heal(&self) {
        self.state.mode.store(OPEN, Ordering::Release);
    }

    /// Every piece that passes waits this long, in each direction.
    pub fn delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.state.delay_ms.store(millis, Ordering::Release);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Release);
    }
}

fn accept(listener: &TcpListener, target: SocketAddr, state: &Arc<State>) {
    while !state.is_over.load(Ordering::Acquire) {
        let client = match listener.accept() {
            Ok((client, _)) => client,
            Err(_) => {
                std::thread::sleep(LOOK_INTERVAL);
                continue;
            }
        };
        if state.mode() == CUT {
            continue;
        }
        // A client is disconnected when the server cannot be reached, as with a server that is down.
        let Ok(server) = TcpStream::connect_timeout(&target, DIAL_WAIT) else { continue };
        _ = connect(client, server, state);
    }
}

fn connect(client: TcpStream, server: TcpStream, state: &Arc<State>) -> std::io::Result<()> {
    for stream in [&client, &server] {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK_INTERVAL))?;
    }
    let ways = [(client.try_clone()?, server.try_clone()?, false), (server, client, true)];
    for (from, to, is_answer) in ways {
        let state = state.clone();
        std::thread::spawn(move || carry(from, to, is_answer, &state));
    }
    Ok(())
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_answer: bool, state: &State) {
    let mut chunk = vec![0; CHUNK_BYTES];
    'carrying: loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if state.mode() == CUT {
                    break;
                }
                continue;
            }
            Err(_) => break,
        };
        std::thread::sleep(Duration::from_millis(state.delay_ms.load(Ordering::Acquire)));
        loop {
            match state.mode() {
                CUT => break 'carrying,
                OPEN => break,
                MUTE if !is_answer => break,
                _ => std::thread::sleep(LOOK_INTERVAL),
            }
        }
        if to.write_all(&chunk[..read]).is_err() {
            break;
        }
    }
    _ = from.shutdown(Shutdown::Both);
    _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that echoes its input.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().take(4).flatten() {
                std::thread::spawn(move || {
                    let (mut from, mut to) = (stream.try_clone().unwrap(), stream);
                    _ = std::io::copy(&mut from, &mut to);
                });
            }
        });
        address
    }

    fn exchange(stream: &mut TcpStream, text: &[u8]) -> std::io::Result<()> {
        stream.write_all(text)?;
        let mut back = vec![0; text.len()];
        stream.read_exact(&mut back)?;
        assert_eq!(back, text);
        Ok(())
    }

    #[test]
    fn a_cut_ends_connections_and_a_healed_proxy_takes_new_ones() {
        let proxy = Proxy::to(echo()).unwrap();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        exchange(&mut stream, b"before").unwrap();
        proxy.cut();
        assert!(exchange(&mut stream, b"cut").is_err());
        proxy.heal();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        exchange(&mut stream, b"after").unwrap();
    }

    #[test]
    fn a_muted_answer_arrives_once_it_is_healed() {
        let proxy = Proxy::to(echo()).unwrap();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        exchange(&mut stream, b"before").unwrap();
        proxy.mute();
        stream.write_all(b"unheard").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut back = [0; 7];
        assert!(stream.read_exact(&mut back).is_err());
        proxy.heal();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"unheard");
    }
}
