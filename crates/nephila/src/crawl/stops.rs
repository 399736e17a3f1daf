//! Whom an operator has stopped: the frontier is told when somebody is met, and told again when the order is gone.
//!
//! An order names hosts by name, by domain or by address, the frontier knows hosts one by one. So a host is looked up in
//! the orders when its name is resolved and right before each request; one that is stopped is stopped in the log of its
//! partition, where its queue stays as it is and the reason stands beside it. When orders are taken back, the hosts that they
//! had stopped go on.
//!
//! What always holds: no request is made to whom an order in force names; only stops that came from orders are undone.

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nephila_core::entry::HostChange;
use nephila_core::frontier::views::HOSTS_PAGE_MAX;
use nephila_core::key::HostKey;
use nephila_core::orders::{Order, Orders, Target};
use nephila_core::url::CrawlUrl;

use super::shared::Shared;
use crate::worker::{Command, Stopped};

/// How the reason of a stop begins that comes from an order; its target follows.
const MARK: &str = "stop-list ";
/// How often it is looked whether orders have changed.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// Hosts are gone through this often even if none has changed: some may have come from another node.
const ROUND_EVERY: Duration = Duration::from_secs(3_600);

/// The order that stops a host, or the address that it would be asked at.
pub(crate) fn order_of(orders: &Orders, url: &CrawlUrl, address: Option<IpAddr>) -> Option<Order> {
    let by_address = || address.and_then(|address| orders.stop_of_address(address));
    orders.stop_of_host(url.host_str()).or_else(by_address).cloned()
}

/// Stops a host in the log of its partition, because of an order. Returns once that is durable.
pub(crate) async fn stop(shared: &Shared, host: HostKey, order: &Order) -> Result<(), Stopped> {
    let by = if order.author.is_empty() { "an operator" } else { &order.author };
    let why = format!("{MARK}{} by {by}: {}", order.target, order.reason);
    shared.handle.command(Command::Host(HostChange::Stop(host, why.into()))).await
}

/// The target in the reason of a stop that came from an order.
fn target_of(why: &str) -> Option<Target> {
    why.strip_prefix(MARK)?.split(' ').next()?.parse().ok()
}

/// Lets hosts go on whose order is gone, until it is dropped or the session is over.
pub(crate) async fn undo(shared: Weak<Shared>) {
    let mut seen: Option<Arc<Orders>> = None;
    let mut round: Option<Instant> = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(shared) = shared.upgrade() else { return };
        let orders = shared.orders();
        let same = seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &orders));
        if same && round.is_some_and(|round| round.elapsed() < ROUND_EVERY) {
            continue;
        }
        match go_on(&shared, &orders).await {
            Ok(()) => (seen, round) = (Some(orders), Some(Instant::now())),
            Err(_) => return,
        }
    }
}

/// One round through all hosts.
async fn go_on(shared: &Shared, orders: &Orders) -> Result<(), Stopped> {
    let mut from = None;
    loop {
        let hosts = shared.handle.hosts(from, HOSTS_PAGE_MAX).await?;
        let whole = hosts.len() >= HOSTS_PAGE_MAX;
        from = hosts.last().and_then(|(key, _)| key.next());
        for (key, record) in hosts {
            let gone = target_of(&record.stopped)
                .is_some_and(|target| orders.iter().all(|order| order.target != target));
            if gone {
                shared.handle.command(Command::Host(HostChange::Resume(key))).await?;
            }
        }
        if !whole || from.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_in_a_record_names_the_order_it_came_from() {
        for target in ["a.example", "*.a.example", "192.0.2.0/24", "2001:db8::1"] {
            let target: Target = target.parse().unwrap();
            assert_eq!(target_of(&format!("{MARK}{target} by me: it is loud")), Some(target));
        }
        assert_eq!(target_of("asked to by mail"), None, "somebody else's stop");
        assert_eq!(target_of(""), None);
        assert_eq!(target_of(MARK), None);
    }
}
