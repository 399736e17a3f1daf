//! Folds the URLs that were found: new records, places in queues, and the counts of hosts and domains.

use super::Folding;
use crate::entry::{Admission, FoundUrls};
use crate::handler::ReadAs;
use crate::job::JobId;
use crate::key::UrlKey;
use crate::state::Queued;
use crate::state::record::{HostRecord, UrlRecord, UrlState};
use crate::time::Seconds;

impl Folding {
    pub(super) fn found(&mut self, found: &FoundUrls) {
        for of_host in &found.hosts {
            let key = of_host.key;
            if let Some(origin) = of_host.origin.as_ref().filter(|_| of_host.displaced) {
                self.meta().displaced.insert((key.domain, origin.clone()), key.host);
            }
            let domain = self.domains.entry(key.domain).or_default();
            if domain.found == Seconds(0) {
                // New, or an operator gave an order before the domain was found.
                domain.found = found.at;
            }
            if let Some(origin) = &of_host.origin {
                // An operator may have given an order before the host was found; the order stays.
                let host = self.hosts.entry(key).or_default();
                (host.origin, host.found) = (origin.clone(), found.at);
                domain.hosts = domain.hosts.saturating_add(1);
            }
            // URLs of a host that was itself refused have no host.
            let mut nobody = HostRecord::default();
            let host = self.hosts.get_mut(&key).unwrap_or(&mut nobody);
            for url in &of_host.urls {
                // Others are known already.
                let is_new = !matches!(
                    url.admission,
                    Admission::Unpark(_) | Admission::Raise(_) | Admission::Again(_)
                );
                if is_new && self.prefixes.holds(key.domain) {
                    let tally = self.counted.tally.entry(url.want.job.0).or_default();
                    tally.found += 1;
                    if let Admission::Refuse(refusal) = url.admission {
                        *tally.refused.entry(refusal.code()).or_default() += 1;
                    }
                }
                let state = match url.admission {
                    Admission::Queue(_) => {
                        host.waiting += 1;
                        domain.admitted += 1;
                        UrlState::Waiting
                    }
                    Admission::Unpark(_) => {
                        host.waiting += 1;
                        domain.admitted += 1;
                        domain.bare = domain.bare.saturating_sub(1);
                        UrlState::Waiting
                    }
                    Admission::Park(_) => {
                        host.parked += 1;
                        domain.parked += 1;
                        UrlState::Parked
                    }
                    Admission::ParkBare => {
                        domain.bare += 1;
                        UrlState::ParkedBare
                    }
                    Admission::Raise(_) => UrlState::Waiting,
                    Admission::Again(_) => {
                        let known = self.urls.get(&UrlKey { host: key, path: url.path });
                        match known.map(|known| known.state) {
                            Some(UrlState::Waiting) => UrlState::Waiting,
                            // The budget decides: the URL comes when there is room, with its new properties.
                            Some(UrlState::Parked) => UrlState::Parked,
                            Some(UrlState::Later(_)) => {
                                host.waiting += 1;
                                host.later = host.later.saturating_sub(1);
                                UrlState::Waiting
                            }
                            _ => {
                                host.waiting += 1;
                                UrlState::Waiting
                            }
                        }
                    }
                    Admission::Refuse(refusal) => UrlState::Refused(refusal),
                };
                let url_key = UrlKey { host: key, path: url.path };
                let known = self.urls.get(&url_key);
                let was_open = known.is_some_and(|known| known.state.is_open());
                let mut record = match (url.admission, known) {
                    (Admission::Raise(_) | Admission::Again(_), Some(known)) => {
                        let mut known = known.clone();
                        // A raised URL may have ended meanwhile: then the URL stays ended.
                        if matches!(url.admission, Admission::Again(_)) {
                            known.state = state;
                            known.depth = known.depth.min(url.want.depth);
                            if known.job != url.want.job {
                                if was_open {
                                    let moved = [(known.job, -1), (url.want.job, 1)];
                                    self.opened.extend(moved.map(|(job, more)| (key.domain, job, more)));
                                }
                                known.belongs_to(&url.want);
                            }
                        } else if url.want.read_as == ReadAs::Feed {
                            // A job follows this feed from now on, however the feed was found.
                            known.depth = known.depth.min(url.want.depth);
                        }
                        known.priority = url.want.priority;
                        known.hits = known.hits.saturating_add(url.want.hits);
                        known.hops = known.hops.min(url.want.hops);
                        // A feed stays one though another feed names it as a story.
                        known.read_as = known.read_as.max(url.want.read_as);
                        known
                    }
                    // A key alone is all that is kept.
                    (Admission::ParkBare, _) => UrlRecord::new(state, JobId(0), 0, 0, Seconds(0)),
                    _ => UrlRecord::of(state, &url.want, found.at),
                };
                match url.admission {
                    Admission::Queue(place)
                    | Admission::Park(place)
                    | Admission::Unpark(place)
                    | Admission::Raise(place)
                    | Admission::Again(place) => {
                        self.changes.queued.push((key, Queued { place, text: url.text.clone() }));
                    }
                    // A refused URL has no other place for its text, and people will ask for the list.
                    Admission::Refuse(_) => record.text = Some(url.text.clone()),
                    Admission::ParkBare => {}
                }
                if record.state.is_open() && !was_open {
                    self.opened.push((key.domain, record.job, 1));
                }
                if self.urls.contains_key(&url_key) {
                    self.urls.insert(url_key, record.clone());
                }
                self.changes.urls.push((url_key, record));
            }
        }
    }
}
