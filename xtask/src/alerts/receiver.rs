//! A receiver of webhooks on loopback that can refuse deliveries.
//!
//! Invariants: a delivery has at most [`BYTES_MAX`] bytes and [`IDLE`] time; a refused one is welcome again a second later, so
//! the crawl does not wait longer and longer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;

/// Maximum size of a delivery with its head.
const BYTES_MAX: u64 = 8 << 20;
/// Maximum time without a byte.
const IDLE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct State {
    refuses: AtomicBool,
    accepted: AtomicU64,
}

/// See the module.
pub(super) struct Receiver {
    address: SocketAddr,
    state: Arc<State>,
}

impl Receiver {
    /// Accepts deliveries.
    pub(super) fn open() -> Result<Receiver> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::<State>::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A crawl that goes away is no trouble of the receiver.
                _ = answer(&stream, &shared);
            }
        });
        Ok(Receiver { address, state })
    }

    /// Where deliveries go.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on deliveries are refused, or accepted.
    pub(super) fn refuse(&self, on: bool) {
        self.state.refuses.store(on, Relaxed);
    }

    /// Number of accepted deliveries.
    pub(super) fn accepted(&self) -> u64 {
        self.state.accepted.load(Relaxed)
    }
}

/// Reads one delivery and answers it.
fn answer(mut stream: &TcpStream, state: &State) -> std::io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    let mut reader = BufReader::new(stream.take(BYTES_MAX));
    let mut length = 0_u64;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap_or(0);
            }
            None if line.trim().is_empty() => break,
            _ => {}
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
    let status = if state.refuses.load(Relaxed) {
        "500 Internal Server Error\r\nRetry-After: 1"
    } else {
        state.accepted.fetch_add(1, Relaxed);
        "200 OK"
    };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}
