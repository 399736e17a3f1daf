//! The addresses of a host, before it is due.

use std::net::IpAddr;

use nephila_core::frontier::key::HostKey;
use nephila_core::frontier::ticket::Ticket;
use nephila_core::orders::Order;
use nephila_core::spider::Outcome;
use nephila_core::url::{CrawlUrl, Host};

use super::shared::Shared;
use super::stops::{order_of, stop};
use crate::worker::Stopped;

/// Looks up the name of a host and tells the frontier.
pub(crate) async fn resolve(shared: &Shared, host: HostKey, origin: &str) -> Result<(), Stopped> {
    let Ok(url) = CrawlUrl::parse(origin) else {
        return shared.handle.unresolved(host, Outcome::UrlBadHost).await;
    };
    let orders = shared.orders();
    if let Some(order) = order_of(&orders, &url, None) {
        return stop_instead(shared, host, &order).await;
    }
    let found = match url.host() {
        Host::Ip(address) => Ok([address].as_slice().into()),
        Host::Name(name) => shared.spider.resolver().resolve(name).await.0,
    };
    match found {
        Ok(addresses) => {
            // A public site may know who asks, and wants to be left in peace.
            if let Some(why) = addresses.iter().find_map(|address| shared.may_ask(*address).err()) {
                return shared.handle.unresolved(host, why).await;
            }
            // Where some of its addresses are stopped, it is asked at the others.
            let free: Vec<IpAddr> =
                addresses.iter().copied().filter(|it| orders.stop_of_address(*it).is_none()).collect();
            match addresses.iter().find_map(|address| orders.stop_of_address(*address)) {
                Some(order) if free.is_empty() => stop_instead(shared, host, order).await,
                _ => shared.handle.resolved(host, &free).await,
            }
        }
        Err(outcome) => shared.handle.unresolved(host, outcome).await,
    }
}

/// Stops a host that was to be resolved. It is told to be without an address only then: so its URLs stay as they are.
async fn stop_instead(shared: &Shared, host: HostKey, order: &Order) -> Result<(), Stopped> {
    stop(shared, host, order).await?;
    shared.handle.unresolved(host, Outcome::StopList).await
}

/// If the address of a ticket did not answer, the next fetch tries another one of its host's name, if there is one.
pub(crate) async fn try_another(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    outcome: Outcome,
) -> Result<(), Stopped> {
    if !matches!(outcome, Outcome::ConnectRefused | Outcome::ConnectTimeout | Outcome::ConnectUnreachable) {
        return Ok(());
    }
    let Host::Name(name) = url.host() else { return Ok(()) };
    let resolver = shared.spider.resolver();
    resolver.demote(name, ticket.address);
    match resolver.resolve(name).await.0 {
        Ok(addresses) if addresses.len() > 1 => {
            let orders = shared.orders();
            let free: Vec<IpAddr> =
                addresses.iter().copied().filter(|it| orders.stop_of_address(*it).is_none()).collect();
            if free.is_empty() { Ok(()) } else { shared.handle.resolved(ticket.key.host, &free).await }
        }
        _ => Ok(()),
    }
}
