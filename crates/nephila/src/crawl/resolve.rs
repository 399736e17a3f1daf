//! The addresses of a host, before it is due.

use nephila_core::frontier::key::HostKey;
use nephila_core::frontier::ticket::Ticket;
use nephila_core::spider::Outcome;
use nephila_core::url::{CrawlUrl, Host};

use super::shared::Shared;
use crate::worker::Stopped;

/// Looks up the name of a host and tells the frontier.
pub(crate) async fn resolve(shared: &Shared, host: HostKey, origin: &str) -> Result<(), Stopped> {
    let Ok(url) = CrawlUrl::parse(origin) else {
        return shared.handle.unresolved(host, Outcome::UrlBadHost).await;
    };
    let found = match url.host() {
        Host::Ip(address) => Ok([address].as_slice().into()),
        Host::Name(name) => shared.spider.resolver().resolve(name).await.0,
    };
    match found {
        // A public site may know who asks.
        Ok(addresses) if !addresses.iter().all(|address| shared.may_ask(*address)) => {
            shared.handle.unresolved(host, Outcome::NoContact).await
        }
        Ok(addresses) => shared.handle.resolved(host, &addresses).await,
        Err(outcome) => shared.handle.unresolved(host, outcome).await,
    }
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
        Ok(addresses) if addresses.len() > 1 => shared.handle.resolved(ticket.key.host, &addresses).await,
        _ => Ok(()),
    }
}
