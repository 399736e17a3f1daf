//! Listeners: one per address of a case, all plain ones on one port and all TLS ones on another.
//!
//! A port is found by binding `good` to a free one and then all others to the same; when another process holds that
//! port on one of our addresses, another port is tried. Invariant: only loopback addresses are bound.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use socket2::{Domain, Socket, Type};
use tokio::task::JoinSet;

use super::{CASES, Case, INSIDE, INSIDE_ADDRESS, LIFE_MAX, Ports, Scheme, Shared, serve};

/// Ports tried before we give up.
const PORTS_TRIED_MAX: usize = 50;
/// Connections one address serves at once; more wait in the backlog.
const CONNECTIONS_MAX: usize = 4096;
const BACKLOG: i32 = 1024;
/// Connections used to fill a black hole's backlog; Linux lets one in at backlog 0.
const FILLERS_MAX: usize = 4;
const FILL_WAIT: Duration = Duration::from_millis(50);
/// The receive buffer of the server that does not read (TCP-07); the kernel rounds the size up to its minimum.
const TINY_BUFFER: usize = 1;
const ACCEPT_REST: Duration = Duration::from_millis(20);
/// Where the name server lives.
const DNS_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 80, 0, 53);

/// Cases that also listen on the second plain port.
const ON_OTHER_PORT: &[&str] = &["red-05", "red-06"];
/// Addresses without a listener: a connect is refused.
const REFUSED: &[(&str, &str)] = &[("tcp-02", "refused"), ("dns-13", "dead")];
/// Addresses where every SYN is dropped.
const BLACK_HOLES: &[(&str, &str)] = &[("tcp-01", ""), ("dns-13", "blackhole")];

/// The tripwire, see `INSIDE`.
static TRIPWIRE: Case = Case::both(INSIDE, &[("/", "an ordinary page nobody should get")]);

/// Which case a listener serves, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Door {
    pub(super) case: &'static Case,
    pub(super) label: &'static str,
    /// Whether this is the TLS port.
    pub(super) tls: bool,
}

/// A listener whose backlog is full, and the connections that fill the backlog.
#[derive(Debug)]
pub(super) struct BlackHole {
    _listener: Socket,
    _fillers: Vec<TcpStream>,
}

pub(super) struct Bound {
    pub(super) ports: Ports,
    pub(super) listeners: Vec<(TcpListener, Door)>,
    pub(super) black_holes: Vec<BlackHole>,
    pub(super) dns: DnsSockets,
}

pub(super) struct DnsSockets {
    pub(super) udp: UdpSocket,
    pub(super) tcp: TcpListener,
    pub(super) udp_only: UdpSocket,
    /// Sends answers from a port that no client asked.
    pub(super) stranger: UdpSocket,
}

/// Binds everything.
pub(super) fn bind_all() -> anyhow::Result<Bound> {
    let (plain, (mut listeners, mut black_holes)) =
        try_ports(|port| bind_doors(port, false)).context("no free port for the plain servers")?;
    let (tls, (more, more_holes)) =
        try_ports(|port| bind_doors(port, true)).context("no free port for the TLS servers")?;
    listeners.extend(more);
    black_holes.extend(more_holes);
    let (other, (more, _)) = try_ports(|port| {
        let mut found = Vec::new();
        for door in doors(false).filter(|(_, door)| ON_OTHER_PORT.contains(&door.case.id)) {
            found.push((listener(door.0, port, &door.1)?, door.1));
        }
        Ok((found, Vec::new()))
    })
    .context("no free second port")?;
    listeners.extend(more);
    let (dns_port, dns) = bind_dns()?;
    let dns_udp_only = dns.udp_only.local_addr()?;
    let ports = Ports { plain, tls, other, dns: (DNS_ADDRESS, dns_port).into(), dns_udp_only };
    Ok(Bound { ports, listeners, black_holes, dns })
}

type Doors = (Vec<(TcpListener, Door)>, Vec<BlackHole>);

fn try_ports(bind: impl Fn(u16) -> io::Result<Doors>) -> io::Result<(u16, Doors)> {
    let mut last = io::Error::other("never tried");
    for _ in 0..PORTS_TRIED_MAX {
        let port = TcpListener::bind((DNS_ADDRESS, 0))?.local_addr()?.port();
        match bind(port) {
            Ok(doors) => return Ok((port, doors)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Every address with its door, for one of the two ports.
fn doors(tls: bool) -> impl Iterator<Item = (Ipv4Addr, Door)> {
    let wanted = move |case: &&Case| !tls || case.scheme != Scheme::Http;
    let cases = CASES.iter().filter(wanted).flat_map(move |case| {
        case.addresses().map(move |(address, label)| (address, Door { case, label, tls }))
    });
    cases.chain(std::iter::once((INSIDE_ADDRESS, Door { case: &TRIPWIRE, label: "", tls })))
}

fn bind_doors(port: u16, tls: bool) -> io::Result<Doors> {
    let (mut listeners, mut black_holes) = Doors::default();
    for (address, door) in doors(tls) {
        let here = (door.case.id, door.label);
        if REFUSED.contains(&here) {
            continue;
        }
        if BLACK_HOLES.contains(&here) {
            black_holes.push(black_hole(address.into(), port)?);
        } else {
            listeners.push((listener(address, port, &door)?, door));
        }
    }
    if !tls {
        // DNS-14. A machine without IPv6 has a dead path there as well, so a failure changes nothing.
        black_holes.extend(black_hole(Ipv6Addr::LOCALHOST.into(), port));
    }
    Ok((listeners, black_holes))
}

fn listener(address: Ipv4Addr, port: u16, door: &Door) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if door.case.id == "tcp-07" {
        socket.set_recv_buffer_size(TINY_BUFFER)?;
    }
    socket.bind(&SocketAddr::from((address, port)).into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn black_hole(address: IpAddr, port: u16) -> io::Result<BlackHole> {
    let address = SocketAddr::from((address, port));
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.bind(&address.into())?;
    socket.listen(0)?;
    let mut fillers = Vec::new();
    for _ in 0..FILLERS_MAX {
        match TcpStream::connect_timeout(&address, FILL_WAIT) {
            Ok(filler) => fillers.push(filler),
            Err(_) => break,
        }
    }
    Ok(BlackHole { _listener: socket, _fillers: fillers })
}

fn bind_dns() -> anyhow::Result<(u16, DnsSockets)> {
    for _ in 0..PORTS_TRIED_MAX {
        let udp = UdpSocket::bind((DNS_ADDRESS, 0))?;
        let port = udp.local_addr()?.port();
        let Ok(tcp) = TcpListener::bind((DNS_ADDRESS, port)) else { continue };
        tcp.set_nonblocking(true)?;
        let udp_only = UdpSocket::bind((DNS_ADDRESS, 0))?;
        let stranger = UdpSocket::bind((DNS_ADDRESS, 0))?;
        for socket in [&udp, &udp_only, &stranger] {
            socket.set_nonblocking(true)?;
        }
        return Ok((port, DnsSockets { udp, tcp, udp_only, stranger }));
    }
    anyhow::bail!("no port is free for both UDP and TCP")
}

/// Accepts for one door until the hostile web is dropped.
pub(super) async fn accept(listener: tokio::net::TcpListener, door: Door, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let mut moved = shared.moved.subscribe();
    let moves = door.case.id == "dns-12" && door.label.is_empty();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => {
                    let life = tokio::time::timeout(LIFE_MAX, serve::connection(stream, door, shared.clone()));
                    // A client that leaves in the middle is the subject of half of the cases.
                    connections.spawn(async move { drop(life.await) });
                }
                // Out of descriptors: try again when some have been given back.
                Err(_) => tokio::time::sleep(ACCEPT_REST).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            _ = moved.changed(), if moves => return,
        }
    }
}
