//! The dialler: the only place that opens a connection to a crawled host.
//!
//! Every address passes the filter here, immediately before the dial, whatever its source (a name, a literal in a URL,
//! a redirect) and whatever the kind of fetch. Addresses of a name are tried in order. When one is slow, the next is
//! tried in parallel, and the first connection wins.
//!
//! Invariant: a socket is connected only to an address that [`AddressFilter`] has just passed or that a person has
//! typed.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nephila_core::spider::Outcome;
use nephila_core::spider::address::AddressFilter;
use nephila_core::spider::door::Opened;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::error;

/// Requests are small. With a small buffer, bytes accepted by the kernel are nearly sent, and a server that reads
/// nothing is noticed during the write.
const SEND_BUFFER_BYTES: u32 = 16 * 1024;
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
/// Maximum addresses of one name tried in parallel.
const BESIDE_MAX: usize = 2;

/// Opens connections.
#[derive(Debug)]
pub(crate) struct Dialler {
    pub(crate) filter: AddressFilter,
    /// Timeout for connecting. An open connection whose data stays unacknowledged for this time is dead too: a NAT
    /// dropped its entry, or a cable is cut.
    pub(crate) timeout: Duration,
    pub(crate) fallback: Duration,
}

/// A connection, and the addresses that did not answer before it.
pub(crate) struct Dialled {
    pub(crate) stream: TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) dead: Vec<IpAddr>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) struct NotDialled {
    pub(crate) outcome: Outcome,
    pub(crate) detail: String,
}

impl Dialler {
    /// Whether this address may be dialled for a URL with these exceptions.
    pub(crate) fn check(&self, address: IpAddr, opened: Opened) -> Result<(), NotDialled> {
        if address.is_unspecified() {
            return Err(NotDialled {
                outcome: Outcome::DnsNullAddress,
                detail: format!("{address} is no address"),
            });
        }
        if opened.address(address) {
            return Ok(());
        }
        self.filter.check(address).map_err(|denied| NotDialled {
            outcome: Outcome::AddressPrivate,
            detail: format!("{address}: {denied}; spider.allow_addresses can open a range"),
        })
    }

    /// Connects to the first of these addresses that answers.
    pub(crate) async fn dial(
        &self,
        addresses: &[IpAddr],
        port: u16,
        opened: Opened,
    ) -> Result<Dialled, NotDialled> {
        let mut refused = None;
        let mut waiting: Vec<IpAddr> = Vec::new();
        for address in addresses {
            match self.check(*address, opened) {
                Ok(()) => waiting.push(*address),
                Err(denied) => refused = Some(denied),
            }
        }
        waiting.reverse();
        let deadline = Instant::now() + self.timeout;
        let mut trying = JoinSet::new();
        let mut open: Vec<IpAddr> = Vec::new();
        let mut dead = Vec::new();
        let mut failure =
            refused.unwrap_or(NotDialled { outcome: Outcome::ConnectTimeout, detail: "no address".into() });
        if waiting.len() == 1 {
            return self.dial_one((waiting[0], port).into(), deadline).await;
        }
        loop {
            if open.len() < BESIDE_MAX
                && let Some(next) = waiting.pop()
            {
                // Nothing changes the address between the check above and this line: the checked value is dialled.
                let target = SocketAddr::from((next, port));
                open.push(next);
                let dead_after = self.timeout;
                trying.spawn(async move { (next, connect(target, dead_after).await) });
            } else if open.is_empty() {
                return Err(failure);
            }
            let more = !waiting.is_empty() && open.len() < BESIDE_MAX;
            tokio::select! {
                Some(done) = trying.join_next() => {
                    let (address, result) = done.expect("a connect neither panics nor is aborted before this returns");
                    open.retain(|other| *other != address);
                    match result {
                        Ok(stream) => {
                            dead.extend(open);
                            return Ok(Dialled { stream, address: (address, port).into(), dead });
                        }
                        Err(error) => {
                            let outcome = error::of_socket(&error);
                            failure = NotDialled { outcome, detail: format!("{address}: {error}") };
                            if matches!(outcome, Outcome::LocalFiles | Outcome::LocalPorts) {
                                return Err(failure);
                            }
                            dead.push(address);
                        }
                    }
                }
                () = sleep(self.fallback), if more => {}
                () = sleep_until(deadline) => return Err(timed_out(&open)),
            }
        }
    }

    async fn dial_one(&self, target: SocketAddr, deadline: Instant) -> Result<Dialled, NotDialled> {
        match tokio::time::timeout_at(deadline, connect(target, self.timeout)).await {
            Ok(Ok(stream)) => Ok(Dialled { stream, address: target, dead: Vec::new() }),
            Ok(Err(error)) => Err(NotDialled {
                outcome: error::of_socket(&error),
                detail: format!("{}: {error}", target.ip()),
            }),
            Err(_) => Err(timed_out(&[target.ip()])),
        }
    }
}

fn timed_out(open: &[IpAddr]) -> NotDialled {
    let names: Vec<String> = open.iter().map(ToString::to_string).collect();
    NotDialled { outcome: Outcome::ConnectTimeout, detail: format!("{} did not answer", names.join(", ")) }
}

async fn connect(target: SocketAddr, dead_after: Duration) -> std::io::Result<TcpStream> {
    let socket = if target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    let stream = socket.connect(target).await?;
    stream.set_nodelay(true)?;
    let options = SockRef::from(&stream);
    options.set_tcp_user_timeout(Some(dead_after))?;
    options
        .set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_AFTER))?;
    Ok(stream)
}
