//! After a group of entries is durable: hosts are loaded, judged again, stopped or given a new rest.

use super::workbench::{ActiveHost, HostIndex, RobotsPhase};
use super::{Frontier, REST_MAX, dates, retry};
use crate::entry::{Admission, DomainChange, Entry, Group, HostChange};
use crate::job;
use crate::key::HostKey;
use crate::planted::{self, Bug};
use crate::state::record::{HostRecord, RobotsPolicy};
use crate::state::{State, StateError};
use crate::time::Now;

impl<S: State> Frontier<S> {
    /// Applies a folded group to the workbench.
    pub(super) fn after(&mut self, partition: usize, group: &Group, now: Now) -> Result<(), StateError> {
        for entry in &group.entries {
            match entry {
                Entry::Found(found) => {
                    for host in &found.hosts {
                        let queued = host
                            .urls
                            .iter()
                            .any(|url| !matches!(url.admission, Admission::Refuse(_) | Admission::ParkBare));
                        if queued {
                            self.has_work(partition, &host.key, now)?;
                        }
                    }
                }
                Entry::Ended(ended) => {
                    if let Some(index) = self.bench.ordinary(&ended.key.host) {
                        let host = self.bench.host_mut(index);
                        if let Some(at) = host.unfolded.iter().position(|path| *path == ended.key.path) {
                            host.unfolded.swap_remove(at);
                        }
                        if let Some(due) = ended.next {
                            host.later_next = Some(host.later_next.map_or(due, |next| next.min(due)));
                        }
                        self.look_again(index, now);
                    } else {
                        self.partitions[partition].awakes(&ended.key.host);
                    }
                }
                Entry::Robots(read) => {
                    self.robots.forget(&read.host);
                    if let Some(index) = self.bench.index(&read.host) {
                        self.robots_in_force(partition, index, now)?;
                    }
                }
                Entry::Host(HostChange::Stop(host, _)) => {
                    if let Some(index) = self.bench.index(host) {
                        self.bench.host_mut(index).leaving = true;
                        self.give_up_place(index, now);
                    } else {
                        // The outlook may count work of this host; the next search removes that work.
                        self.partitions[partition].search();
                    }
                }
                Entry::Host(HostChange::Resume(host)) => {
                    if let Some(index) = self.bench.index(host) {
                        self.bench.host_mut(index).leaving = self.partitions[partition].closing;
                    }
                    self.has_work(partition, host, now)?;
                }
                Entry::Host(HostChange::Delay(host, delay)) => {
                    if let Some(index) = self.bench.index(host) {
                        let record = self.partitions[partition].state.host(host)?.unwrap_or_default();
                        self.bench.set_rest_asked(index, record.delay.max(record.robots.crawl_delay));
                        self.strand_if_long(index, now);
                    } else {
                        self.bench.rest_elsewhere(*host, *delay, now.mono);
                    }
                }
                Entry::Domain(_) | Entry::Job(_) | Entry::JobRemoved(_) => {
                    if let Entry::Domain(DomainChange::Budget(domain, _)) = entry {
                        let host = |host| HostKey { domain: *domain, host };
                        self.partitions[partition].hot.forget(host(0), host(u32::MAX));
                        // URLs kept as keys alone may be offered again at once.
                        self.recent.forget(*domain);
                    }
                    // Any host may have become eligible: the next search examines every host.
                    self.partitions[partition].search();
                    // URLs of a job that no longer runs are unloaded: they are read again, and denied.
                    let held = matches!(entry, Entry::Job(job) if job.state != job::State::Running);
                    let held = held && !planted::is(Bug::HeldAtHand);
                    if held {
                        // Another job may offer them at once, and have them from then on.
                        let prefixes = self.partitions[partition].prefixes;
                        self.recent.forget_all(prefixes);
                    }
                    for index in Vec::from_iter(self.bench.indexes()) {
                        if self.bench.host(index).guest {
                            continue;
                        }
                        if held && self.partition_of(&self.bench.host(index).key) == Some(partition) {
                            self.bench.drop_heads(index);
                        }
                        self.bench.host_mut(index).more = true;
                        self.make_hungry(index);
                    }
                }
                Entry::Inbox { .. }
                | Entry::Split(_)
                | Entry::Polled(_)
                | Entry::Stream(_)
                | Entry::Visited(_)
                | Entry::EventContext(_)
                | Entry::Forward(_)
                | Entry::Sighted(_)
                | Entry::Spread(_)
                | Entry::Streamed(_) => {}
            }
        }
        Ok(())
    }

    /// The queue of a host received a URL.
    fn has_work(&mut self, partition: usize, key: &HostKey, now: Now) -> Result<(), StateError> {
        match self.bench.index(key) {
            Some(index) if self.bench.host(index).guest => {
                let record = self.partitions[partition].state.host(key)?.unwrap_or_default();
                self.adopt(partition, index, &record, now);
            }
            Some(index) => {
                self.bench.host_mut(index).more = true;
                if self.bench.host(index).heads.is_empty() {
                    self.make_hungry(index);
                }
                self.bench.wait(index);
            }
            None if self.bench.has_room_for(key.domain) => {
                if let Some(record) = self.partitions[partition].state.host(key)? {
                    self.activate(*key, &record, now);
                }
            }
            None => {
                self.starved = true;
                self.partitions[partition].search();
            }
        }
        Ok(())
    }

    pub(super) fn make_hungry(&mut self, index: HostIndex) {
        let host = self.bench.host_mut(index);
        if !std::mem::replace(&mut host.hungry, true) {
            self.hungry.push_back(index);
        }
    }

    /// Loads a host into the workbench unless the host is stopped, nameless or of a closing partition.
    pub(super) fn activate(&mut self, key: HostKey, record: &HostRecord, now: Now) {
        let closing = self.partition_of(&key).is_some_and(|partition| self.partitions[partition].closing);
        if !record.stopped.is_empty() || record.origin.is_empty() || closing {
            return;
        }
        let mut host = ActiveHost::fresh(key, record.origin.clone());
        host.cursor = record.floor;
        host.later_cursor = record.later_floor;
        if let Some(partition) = self.partition_of(&key) {
            let ahead_max = self.plan_ahead_max(partition);
            let planned = self.partitions[partition].plans_due(&key, record);
            host.later_next = planned.map(|due| dates::believed(due, ahead_max, now.wall));
            self.partitions[partition].awakes(&key);
        }
        host.remember(record);
        host.robots = robots_phase(record, &self.config.retry, now);
        let wait = dates::rest_until(record, now.wall).0.saturating_sub(now.wall.0).min(REST_MAX);
        // The earlier rest is over by now: a longer rest that is set later counts from here.
        let index = self.bench.activate(host, now.mono + wait);
        self.make_hungry(index);
    }
}

/// The robots.txt phase of a host that is loaded into the workbench.
pub(super) fn robots_phase(record: &HostRecord, retry: &retry::Settings, now: Now) -> RobotsPhase {
    match record.robots.policy {
        RobotsPolicy::Unknown | RobotsPolicy::DisallowAll => RobotsPhase::Wanted,
        RobotsPolicy::Rules | RobotsPolicy::AllowAll => {
            RobotsPhase::Until(dates::robots_until(record, retry, now.wall))
        }
    }
}
