//! Resolves the addresses of a host, before the host is due.

use std::net::IpAddr;

use nephila_core::key::HostKey;
use nephila_core::spider::Outcome;
use nephila_core::stop_list::StopOrder;
use nephila_core::url::{CrawlUrl, Host};

use super::shared::Shared;
use super::stops::{order_of, stop};
use super::troubles;
use crate::worker::Stopped;

/// Looks up the name of a host and reports the addresses to the frontier.
pub(super) async fn resolve(shared: &Shared, host: HostKey, origin: &str) -> Result<(), Stopped> {
    let Ok(url) = CrawlUrl::parse(origin) else {
        return shared.handle.unresolved(host, Outcome::UrlBadHost).await;
    };
    let stop_list = shared.stop_list();
    if let Some(order) = order_of(&stop_list, &url, None) {
        return stop_instead(shared, host, &order).await;
    }
    let found = match url.host() {
        Host::Ip(address) => Ok([address].as_slice().into()),
        Host::Name(name) => shared.stages.fetch.resolve(name).await,
    };
    match found {
        Ok(addresses) => {
            // If some of its addresses are stopped, or not permitted for us, the host is requested at the others.
            let free: Vec<IpAddr> = addresses
                .iter()
                .copied()
                .filter(|it| stop_list.stop_of_address(*it).is_none() && shared.may_ask(*it).is_ok())
                .collect();
            if free.is_empty() {
                let order = addresses.iter().find_map(|address| stop_list.stop_of_address(*address));
                let why = addresses.iter().find_map(|address| shared.may_ask(*address).err());
                if let Some(why) = why {
                    shared.troubles.host_failed(url.origin(), troubles::words(why, None, ""));
                }
                return match (order, why) {
                    (Some(order), _) => stop_instead(shared, host, order).await,
                    (None, Some(why)) => shared.handle.unresolved(host, why).await,
                    (None, None) => shared.handle.unresolved(host, Outcome::DnsNodata).await,
                };
            }
            let open: Vec<IpAddr> =
                free.iter().copied().filter(|it| shared.stages.fetch.may_dial(&url, *it)).collect();
            // A host without a permitted address ends with the reason, which the dialler gives best.
            shared.handle.resolved(host, if open.is_empty() { &free } else { &open }).await
        }
        Err(outcome) => {
            shared.troubles.host_failed(url.origin(), troubles::words(outcome, None, ""));
            shared.handle.unresolved(host, outcome).await
        }
    }
}

/// Stops a host that was to be resolved. Only then is the host reported as unresolved: so its URLs stay unchanged.
pub(super) async fn stop_instead(shared: &Shared, host: HostKey, order: &StopOrder) -> Result<(), Stopped> {
    stop(shared, host, order).await?;
    shared.handle.unresolved(host, Outcome::StopList).await
}

/// Whether the host of a URL has other addresses that may answer where one did not.
pub(super) async fn has_others(shared: &Shared, url: &CrawlUrl) -> bool {
    match url.host() {
        Host::Name(name) => shared.stages.fetch.resolve(name).await.is_ok_and(|found| found.len() > 1),
        Host::Ip(_) => false,
    }
}
