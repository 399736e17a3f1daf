//! Sockets that listen: one port on all addresses of a web.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use super::{BACKLOG, LISTENERS_MAX};
use crate::model::World;

/// How often another port is tried when one is free on the first address only.
const PORT_TRIES_MAX: u32 = 16;

/// The listeners of one port.
pub(crate) struct Listeners {
    /// The port they share.
    pub(crate) port: u16,
    /// The sockets.
    pub(crate) sockets: Vec<TcpListener>,
    /// Whether ::1 is among them.
    pub(crate) ipv6: bool,
}

/// Listens on one port of every address; on any port that is free on all of them at 0.
pub(crate) fn bind(world: &World, port: u16) -> anyhow::Result<Listeners> {
    let mut tries = 0;
    loop {
        match bind_port(world, port) {
            Ok(listeners) => return Ok(listeners),
            Err(_) if port == 0 && tries < PORT_TRIES_MAX => tries += 1,
            Err(error) => return Err(error).with_context(|| format!("listen on port {port}")),
        }
    }
}

fn bind_port(world: &World, port: u16) -> std::io::Result<Listeners> {
    let settings = world.settings();
    let mut port = port;
    let mut sockets = Vec::new();
    if settings.addresses <= LISTENERS_MAX {
        for n in 0..settings.addresses {
            let socket = listen(IpAddr::V4(world.address(n)), port, false)?;
            port = socket.local_addr()?.port();
            sockets.push(socket);
        }
    } else {
        let socket = listen(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port, true)?;
        port = socket.local_addr()?.port();
        sockets.push(socket);
    }
    let mut ipv6 = false;
    if (settings.ipv6 || settings.ipv6_only_share > 0.0) && has_ipv6() {
        sockets.push(listen(IpAddr::V6(Ipv6Addr::LOCALHOST), port, false)?);
        ipv6 = true;
    }
    Ok(Listeners { port, sockets, ipv6 })
}

/// Whether this machine has ::1.
fn has_ipv6() -> bool {
    std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// One listening socket; only for connections through the loopback device when `device` is set.
pub(super) fn listen(address: IpAddr, port: u16, device: bool) -> std::io::Result<TcpListener> {
    let address = SocketAddr::new(address, port);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if device {
        socket.bind_device(Some(b"lo"))?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}
