//! The operator's stop list at work: the frontier stops a host when an order matches, and resumes the host when the
//! order is removed.
//!
//! An order names hosts by name, by domain or by address; the frontier knows single hosts. Therefore a host is matched
//! with the orders when its name is resolved and right before each request. A matching host is stopped in the log of
//! its partition, where its queue stays unchanged and the reason stands beside. When orders are removed, the hosts that
//! they had stopped resume.
//!
//! Invariants: no request is made to a host or an address that an order in force names; only stops that came from
//! orders are undone.

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nephila_core::entry::HostChange;
use nephila_core::frontier::views::HOSTS_PAGE_MAX;
use nephila_core::key::HostKey;
use nephila_core::stop_list::{StopList, StopOrder, Target};
use nephila_core::url::CrawlUrl;

use tokio::task::JoinHandle;

use super::feed_health;
use super::shared::Shared;
use crate::stop_list::{self, LiveStopList};
use crate::worker::{Command, Stopped};

/// Prefix of the reason of a stop that comes from an order; the target follows.
pub const MARK: &str = "stop-list ";
/// Interval at which the stop list is checked for changes.
pub const LOOK_EVERY: Duration = Duration::from_secs(3);
/// Interval at which all hosts are checked even if no order has changed: some may have come from another node.
pub const ROUND_EVERY: Duration = Duration::from_secs(3_600);

/// The order that stops a host, or the address to be dialled.
pub fn order_of(stop_list: &StopList, url: &CrawlUrl, address: Option<IpAddr>) -> Option<StopOrder> {
    let by_address = || address.and_then(|address| stop_list.stop_of_address(address));
    stop_list.stop_of_host(url.host_str()).or_else(by_address).cloned()
}

/// Stops a host in the log of its partition, because of an order. Returns once the stop is durable.
pub async fn stop(shared: &Shared, host: HostKey, order: &StopOrder) -> Result<(), Stopped> {
    let by = if order.author.is_empty() { "an operator" } else { &order.author };
    let why = format!("{MARK}{} by {by}: {}", order.target, order.reason);
    shared.handle.command(Command::Host(HostChange::Stop(host, why.into()))).await
}

/// The target of the order, from the reason of a stop.
pub fn target_of(why: &str) -> Option<Target> {
    why.strip_prefix(MARK)?.split(' ').next()?.parse().ok()
}

/// Resumes hosts whose order is removed, until the future is dropped or the session ends.
pub async fn undo(shared: Weak<Shared>) {
    let mut seen: Option<Arc<StopList>> = None;
    let mut round: Option<Instant> = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(shared) = shared.upgrade() else { return };
        let stop_list = shared.stop_list();
        let same = seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &stop_list));
        if same && round.is_some_and(|round| round.elapsed() < ROUND_EVERY) {
            continue;
        }
        match go_on(&shared, &stop_list).await {
            Ok(()) => (seen, round) = (Some(stop_list), Some(Instant::now())),
            Err(_) => return,
        }
    }
}

/// One round through all hosts.
pub async fn go_on(shared: &Shared, stop_list: &StopList) -> Result<(), Stopped> {
    let mut from = None;
    loop {
        let hosts = shared.handle.hosts(from, HOSTS_PAGE_MAX).await?;
        let whole = hosts.len() >= HOSTS_PAGE_MAX;
        from = hosts.last().and_then(|(key, _)| key.next());
        for (key, record) in hosts {
            let gone = target_of(&record.stopped)
                .is_some_and(|target| stop_list.iter().all(|order| order.target != target));
            if gone {
                shared.handle.command(Command::Host(HostChange::Resume(key))).await?;
            }
        }
        if !whole || from.is_none() {
            return Ok(());
        }
    }
}

/// Tasks that keep the stop list in force, and the one that counts the feeds. Dropping this ends them.
#[derive(Debug)]
pub struct Obeying([JoinHandle<()>; 3]);

impl Drop for Obeying {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Reads the stop list of the crawl's folder, before the first request, and follows its changes.
pub fn obey(shared: Shared) -> anyhow::Result<(Arc<Shared>, Obeying)> {
    let live = Arc::new(LiveStopList::default());
    live.set(stop_list::read(&shared.folder)?);
    let shared = Arc::new(shared.with_stop_list(live.clone()));
    let follow = stop_list::follow(shared.folder.clone(), live, shared.handle.clone());
    let undo = undo(Arc::downgrade(&shared));
    let feeds = feed_health::run(Arc::downgrade(&shared));
    Ok((shared, Obeying([tokio::spawn(follow), tokio::spawn(undo), tokio::spawn(feeds)])))
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
