//! The home of a domain decides which of its hosts stay when the domain is spread.
//!
//! Invariant: a host stays if and only if the host is known behind the group that spreads its domain.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Partition;
use crate::entry::{Entry, FoundHost};
use crate::frontier::workbench::Workbench;
use crate::key::{DomainKey, HostKey, Secret};
use crate::spread::STAYING_MAX;
use crate::state::{State, StateError};

/// Number of hosts read at once.
const HOSTS_AT_ONCE: usize = 1_024;

/// Where a host belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// Here.
    Here,
    /// In the partition of another key: its domain is spread.
    Elsewhere,
    /// This is being decided.
    Unsure,
}

impl<S: State> Partition<S> {
    /// Where the host of an offer belongs.
    pub(crate) fn home(&self, host: HostKey, origin: &str, secret: &Secret) -> Home {
        let deciding = self.in_flight.as_ref().is_some_and(|group| group.spread.contains(&host.domain));
        match self.state.meta().spread.host_of(host, origin, secret) == host {
            _ if deciding => Home::Unsure,
            true => Home::Here,
            false => Home::Elsewhere,
        }
    }

    /// Completes the wishes to spread a domain among the entries of the next group, which are otherwise complete.
    /// Leaves out a domain that is spread already, or that has too many known hosts.
    pub(super) fn decide_spread(
        &mut self,
        entries: &mut Vec<Entry>,
        bench: &Workbench,
    ) -> Result<(), StateError> {
        let mut domains = BTreeSet::new();
        entries.retain(|entry| match entry {
            Entry::Spread(wish) => {
                self.prefixes.holds(wish.domain)
                    && self.state.meta().spread.get(wish.domain).is_none()
                    && domains.insert(wish.domain)
            }
            _ => true,
        });
        for domain in domains {
            let mut staying = self.known_hosts(domain)?;
            for entry in entries.iter() {
                if let Entry::Found(found) = entry {
                    let is_new = |host: &&FoundHost| host.key.domain == domain && host.origin.is_some();
                    let hosts = found.hosts.iter().filter(is_new);
                    staying.extend(hosts.map(|host| host.key.host));
                }
            }
            // A guest may have a request under way, and is not in the state.
            let active = bench.indexes().map(|index| bench.host(index).key);
            staying.extend(active.filter(|host| host.domain == domain).map(|host| host.host));
            let fits = staying.len() <= STAYING_MAX;
            entries.retain(|entry| fits || !matches!(entry, Entry::Spread(wish) if wish.domain == domain));
            let staying = Arc::new(staying);
            for entry in entries.iter_mut() {
                if let Entry::Spread(wish) = entry
                    && wish.domain == domain
                {
                    wish.staying = Arc::clone(&staying);
                }
            }
        }
        Ok(())
    }

    /// The hosts of a domain in the state, up to one more than may stay.
    fn known_hosts(&mut self, domain: DomainKey) -> Result<BTreeSet<u32>, StateError> {
        let (mut known, mut from) = (BTreeSet::new(), Some(HostKey { domain, host: 0 }));
        let mut some = Vec::with_capacity(HOSTS_AT_ONCE);
        while let Some(next) = from
            && known.len() <= STAYING_MAX
        {
            some.clear();
            self.state.hosts_from(next, HOSTS_AT_ONCE, &mut some)?;
            known.extend(some.iter().filter(|(key, _)| key.domain == domain).map(|(key, _)| key.host));
            let last = some.last().filter(|(key, _)| key.domain == domain && some.len() == HOSTS_AT_ONCE);
            from = last.and_then(|(key, _)| key.next());
        }
        Ok(known)
    }
}
