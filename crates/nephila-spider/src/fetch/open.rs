//! How a fetch gets a new connection: resolve, dial or tunnel through a proxy, TLS.
//!
//! Invariants: no address that the filter denies is dialled, directly or through a proxy; connections kept for other
//! names of an address are closed before one more would exceed the limit there.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use nephila_core::spider::Outcome;
use nephila_core::url::{CrawlUrl, Host};
use tokio::time::{Instant, timeout_at};

use super::{Failed, Inner, Request};
use crate::connection::{Connection, Facts};
use crate::dial::Dialled;
use crate::error::Hints;
use crate::fetched::Timings;
use crate::proxy::Proxy;

impl Inner {
    /// Opens a new connection: resolve, dial, TLS.
    pub(super) async fn open(
        &self,
        request: &Request,
        deadline: Instant,
        h2: bool,
        timings: &mut Timings,
        address: &mut Option<SocketAddr>,
    ) -> Result<Connection, Failed> {
        let url = &request.url;
        let dialled = match request.address {
            Some(address) => {
                self.make_room(&[address], request.connections_max).await;
                self.reach_at(url, address, deadline, timings).await?
            }
            None => self.reach(request, deadline, timings).await?,
        };
        *address = Some(dialled.address);
        let proxied = self.proxies.of(url.is_https(), url.host_str()).is_some();
        let mut facts = Facts { address: dialled.address, proxied, tls: None };
        let start = |e: (Outcome, String, Hints)| Failed { hints: e.2, h2, ..Failed::new(e.0, e.1) };
        if !url.is_https() {
            return Connection::start(dialled.stream, false, facts, &self.settings).await.map_err(start);
        }
        let began = Instant::now();
        timings.starts.tls = Some(self.after_begin(deadline, began));
        let until = (began + self.settings.tls_timeout).min(deadline);
        let shaken = timeout_at(until, self.tls.connect(url.host_str(), dialled.stream, h2)).await;
        timings.tls = Some(began.elapsed());
        let (stream, is_h2, info) = match shaken {
            Ok(Ok(shaken)) => shaken,
            Ok(Err((outcome, detail))) => return Err(Failed::new(outcome, detail)),
            Err(_) => return Err(Failed::new(Outcome::TlsTimeout, "the handshake did not end in time")),
        };
        facts.tls = Some(info);
        let started = timeout_at(deadline, Connection::start(stream, is_h2, facts, &self.settings)).await;
        started
            .map_err(|_| Failed::new(Outcome::TotalTimeout, "no connection before the end of the fetch"))?
            .map_err(start)
    }

    /// Opens a stream to the host, directly or through a proxy.
    async fn reach(
        &self,
        request: &Request,
        deadline: Instant,
        timings: &mut Timings,
    ) -> Result<Dialled, Failed> {
        let url = &request.url;
        let (addresses, old) = self.addresses(url, deadline, timings).await?;
        self.make_room(&addresses, request.connections_max).await;
        let began = Instant::now();
        timings.starts.connect = Some(self.after_begin(deadline, began));
        let result = match self.proxies.of(url.is_https(), url.host_str()) {
            Some(proxy) => self.through(proxy, &addresses, url, deadline).await,
            None => match self.dialler.dial(&addresses, url.port(), self.opened(url)).await {
                Err(failed) if old && self.names_a_host(url) && failed.outcome != Outcome::AddressPrivate => {
                    // The host may have moved since: resolve again, once, and dial only new addresses.
                    self.resolver.forget(url.host_str());
                    let (now_at, _) = self.addresses(url, deadline, timings).await?;
                    let moved = now_at.iter().any(|address| !addresses.contains(address));
                    if moved {
                        self.dialler.dial(&now_at, url.port(), self.opened(url)).await.map_err(Failed::from)
                    } else {
                        Err(failed.into())
                    }
                }
                other => other.map_err(Failed::from),
            },
        };
        timings.connect = Some(began.elapsed());
        if let Ok(dialled) = &result {
            for dead in &dialled.dead {
                self.resolver.note_failed(*dead);
            }
            self.resolver.note_reached(dialled.address.ip());
        }
        result
    }

    /// Closes connections kept for other names of these addresses if one more would exceed the limit there, and waits
    /// until they are closed.
    async fn make_room(&self, addresses: &[IpAddr], connections_max: u32) {
        if connections_max == 0 {
            return;
        }
        let connections_max = usize::try_from(connections_max).unwrap_or(usize::MAX);
        for address in addresses {
            for key in self.pool.make_room(*address, connections_max) {
                self.closing.over(&key).await;
            }
        }
    }

    /// Like [`Inner::reach`], at this address only.
    async fn reach_at(
        &self,
        url: &CrawlUrl,
        address: IpAddr,
        deadline: Instant,
        timings: &mut Timings,
    ) -> Result<Dialled, Failed> {
        let began = Instant::now();
        timings.starts.connect = Some(self.after_begin(deadline, began));
        let result = match self.proxies.of(url.is_https(), url.host_str()) {
            Some(proxy) => self.through(proxy, &[address], url, deadline).await,
            None => {
                let opened = self.opened(url);
                let dialled = self.dialler.dial(&[address], url.port(), opened).await.map_err(Failed::from);
                match &dialled {
                    Ok(_) => self.resolver.note_reached(address),
                    Err(failed) if failed.outcome.is_unconnected() => self.resolver.note_failed(address),
                    Err(_) => {}
                }
                dialled
            }
        };
        timings.connect = Some(began.elapsed());
        result
    }

    async fn addresses(
        &self,
        url: &CrawlUrl,
        deadline: Instant,
        timings: &mut Timings,
    ) -> Result<(Arc<[IpAddr]>, bool), Failed> {
        let name = match url.host() {
            Host::Ip(address) => return Ok((Arc::from([address]), false)),
            Host::Name(name) => name,
        };
        let began = Instant::now();
        timings.starts.resolve = Some(self.after_begin(deadline, began));
        let (answer, old) = timeout_at(deadline, self.resolver.resolve(name))
            .await
            .map_err(|_| Failed::new(Outcome::TotalTimeout, "no address before the end of the fetch"))?;
        timings.resolve = Some(began.elapsed());
        answer
            .map(|addresses| (addresses, old))
            .map_err(|outcome| Failed::new(outcome, format!("{name}: {}", outcome.meaning().trim())))
    }

    /// The operator configures the proxy, so its address is not filtered; the target's address is.
    async fn through(
        &self,
        proxy: &Proxy,
        addresses: &[IpAddr],
        url: &CrawlUrl,
        deadline: Instant,
    ) -> Result<Dialled, Failed> {
        let opened = self.opened(url);
        let mut target = Err(Failed::new(Outcome::DnsNodata, "no address"));
        for address in addresses {
            target = self
                .dialler
                .check(*address, opened)
                .map(|()| SocketAddr::from((*address, url.port())))
                .map_err(Failed::from);
            if target.is_ok() {
                break;
            }
        }
        let target = target?;
        let away = |error: std::io::Error| Failed::new(Outcome::ProxyFailed, format!("{proxy:?}: {error}"));
        let until = (Instant::now() + self.settings.connect_timeout).min(deadline);
        let reached = timeout_at(until, async {
            let mut stream = tokio::net::TcpStream::connect((proxy.host.as_str(), proxy.port)).await?;
            stream.set_nodelay(true)?;
            proxy.tunnel(&mut stream, target).await?;
            Ok(stream)
        });
        let stream = reached.await.map_err(|_| away(std::io::ErrorKind::TimedOut.into()))?.map_err(away)?;
        Ok(Dialled { stream, address: target, dead: Vec::new() })
    }

    fn names_a_host(&self, url: &CrawlUrl) -> bool {
        matches!(url.host(), Host::Name(_))
    }
}
