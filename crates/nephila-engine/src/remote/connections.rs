//! The control connections of spiders: lines in both directions.
//!
//! Invariant: a connection that does not read what it is sent is closed after [`WRITE_TIMEOUT`], and holds at most the
//! lines of its open URLs.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use nephila_core::remote::desk::Speaks;
use nephila_core::remote::line::{Lines, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::Shared;
use crate::settings::Spiders;

/// Maximum time to write what is to be sent.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time to connect, from either side.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// First and longest wait before a spider, or a node, is dialled again.
pub(super) const DIAL_WAIT: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// Pause before a failed `accept` (too many open files) is retried.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const READ_BYTES: usize = 16 << 10;

/// Who may connect, and how many at the same time.
#[derive(Clone)]
pub(super) struct Gate {
    networks: Arc<[IpNet]>,
    speaks: Speaks,
    connections_max: usize,
}

impl Gate {
    pub(super) fn new(spiders: &Spiders) -> Gate {
        Gate {
            networks: spiders.v1_from.clone().into(),
            speaks: spiders.dialect.into(),
            connections_max: spiders.connections_max,
        }
    }

    /// Whether a spider may have this address.
    pub(super) fn check(&self, ip: IpAddr) -> Result<(), String> {
        let ip = ip.to_canonical();
        match self.networks.iter().any(|network| network.contains(&ip)) {
            true => Ok(()),
            false => Err(format!("{ip} is in no network of spiders.v1_from")),
        }
    }

    /// Accepts connections from permitted addresses, at most `connections_max` at the same time.
    pub(super) async fn accept<F: Future<Output = ()> + Send + 'static>(
        &self,
        listener: TcpListener,
        what: &str,
        serve: impl Fn(TcpStream, SocketAddr, OwnedSemaphorePermit) -> F,
    ) {
        let room = Arc::new(Semaphore::new(self.connections_max));
        let mut connections = JoinSet::new();
        loop {
            let Ok((stream, peer)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            while connections.try_join_next().is_some() {}
            let permit = self.check(peer.ip()).and_then(|()| {
                let full =
                    |_| format!("there are {} connections (spiders.connections_max)", self.connections_max);
                room.clone().try_acquire_owned().map_err(full)
            });
            match permit {
                Ok(permit) => _ = connections.spawn(serve(stream, peer, permit)),
                Err(why) => tracing::warn!(%peer, "a connection {what} is refused: {why}"),
            }
        }
    }
}

/// Serves spiders that connect to this node.
pub(super) async fn serve(listener: TcpListener, gate: Gate, shared: Arc<Shared>) {
    let speaks = gate.speaks;
    gate.accept(listener, "of a spider", move |stream, peer, permit| {
        let shared = shared.clone();
        async move {
            let _permit = permit;
            run(stream, &peer.to_string(), speaks, &shared).await;
        }
    })
    .await;
}

/// Connects to a spider, again and again.
pub(super) async fn dial(address: SocketAddr, gate: Gate, shared: Arc<Shared>) {
    let mut wait = DIAL_WAIT[0];
    loop {
        match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                wait = DIAL_WAIT[0];
                run(stream, &address.to_string(), gate.speaks, &shared).await;
            }
            Ok(Err(error)) => tracing::warn!(%address, "the spider at {address} cannot be reached: {error}"),
            Err(_) => tracing::warn!(%address, "the spider at {address} does not answer"),
        }
        // Up to half as long again, so that nodes that lost the same spider do not come back together.
        let jitter = wait.mul_f64(rand_fraction() / 2.0);
        tokio::time::sleep(wait + jitter).await;
        wait = (wait * 2).min(DIAL_WAIT[1]);
    }
}

/// A number from 0 to 1.
pub(super) fn rand_fraction() -> f64 {
    let random = uuid::Uuid::new_v4().as_u128() as u32;
    f64::from(random) / f64::from(u32::MAX)
}

/// Carries the lines of one connection until it ends.
async fn run(stream: TcpStream, name: &str, speaks: Speaks, shared: &Shared) {
    _ = stream.set_nodelay(true);
    let (mut from, mut to) = stream.into_split();
    let (lines, mut to_write) = mpsc::unbounded_channel();
    let connected = shared.with(|state, now| {
        let number = state.number();
        // The desk may send at once.
        state.connections.insert(number, lines);
        let connected = state.desk.connected(now, number, name, speaks);
        if connected.is_err() {
            state.connections.remove(&number);
        }
        connected.map(|()| number)
    });
    let number = match connected {
        Ok(number) => number,
        Err(error) => return tracing::warn!(spider = %name, "the spider {name} is refused: {error}"),
    };
    tracing::info!(spider = %name, "the spider {name} is connected");
    let writing = async {
        while let Some(bytes) = to_write.recv().await {
            if !matches!(tokio::time::timeout(WRITE_TIMEOUT, to.write_all(&bytes)).await, Ok(Ok(()))) {
                return;
            }
        }
    };
    let reading = async {
        let (mut lines, mut bytes) = (Lines::default(), vec![0; READ_BYTES]);
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            lines.push(&bytes[..count], |line| {
                let reply = line.and_then(Reply::read);
                shared.with(|state, now| state.desk.line(now, number, reply));
            });
        }
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
    shared.with(|state, now| {
        state.connections.remove(&number);
        state.desk.closed(now, number);
    });
    tracing::info!(spider = %name, "the connection to the spider {name} has ended");
}
