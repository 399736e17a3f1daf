//! The active faults of a crawl, decided from counters alone, each with the time since when it is active.
//!
//! The names are from a closed set: metrics, alerts and the dashboard use the same.

use std::collections::BTreeMap;

use nephila_core::time::Timestamp;
use nephila_engine::crawl::held::Facts;
use nephila_engine::human::count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sampler::Counters;

/// A disk that is full within this time is an alarm.
pub const FULL_SOON_S: u64 = 4 * 3_600;
/// A crawl whose hosts are ready and that has requested nothing for this time is stalled.
pub const STALLED_S: u64 = 60;
/// Answers of this time are looked at.
pub const LATELY_S: u64 = 300;
/// Above this part of 429 and 5xx, in percent, we are blocked.
pub const BLOCKED_PERCENT: u64 = 20;
/// Fewer page requests than this say nothing about being blocked.
pub const BLOCKED_PAGES_MIN: u64 = 50;

/// An active fault.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct AlarmSaid {
    /// Name of the fault: `disk`, `disk-full-soon`, `objects`, `lease`, `blocked`, `stalled`, `webhooks`,
    /// `cluster`.
    pub name: String,
    /// The fault in a sentence: what happens, and what to do.
    pub text: String,
    /// Since when it is active, as far as this process saw it.
    pub since: String,
}

/// What decides.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen<'a> {
    /// The facts of this moment.
    pub(super) facts: Option<&'a Facts>,
    /// What was counted in the last [`LATELY_S`] seconds.
    pub(super) lately: Counters,
    /// Page requests that ended in the last [`STALLED_S`] seconds; none if the process is younger.
    pub(super) pages_last_minute: Option<u64>,
    /// Seconds until the disk is full.
    pub(super) full_in_s: Option<u64>,
    /// Webhooks that have failed for long, each in a sentence.
    pub(super) webhooks: Vec<String>,
}

/// The active faults: name and sentence.
pub(super) fn active(seen: &Seen<'_>) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let Some(facts) = seen.facts else { return all };
    if facts.without_lease > 0 {
        let text = "it holds no lease, so it fetches nothing: do the NATS servers answer it?";
        all.push(("lease", text.to_owned()));
    }
    if !facts.disk_full.is_empty() || facts.disk_low.is_some() {
        all.push(("disk", "its disk is full: it fetches nothing until there is room".to_owned()));
    } else if let Some(full) = seen.full_in_s.filter(|full| *full <= FULL_SOON_S) {
        all.push(("disk-full-soon", format!("its disk is full in {}: free some space", in_words(full))));
    }
    if facts.objects_away > 0 {
        let pages = count(facts.objects_away);
        all.push(("objects", format!("the object store does not take media: {pages} pages wait for it")));
    }
    let (pages, refused) = (seen.lately.pages(), seen.lately.rate_limited + seen.lately.server_error);
    if pages >= BLOCKED_PAGES_MIN && refused * 100 > pages * BLOCKED_PERCENT {
        let percent = refused * 100 / pages;
        let text = format!(
            "{percent} % of the answers of the last {} were 429 or 5xx: ask less often (frontier.host_delay), or find out \
             which hosts refuse us",
            in_words(LATELY_S)
        );
        all.push(("blocked", text));
    }
    let works = facts.jobs_running > 0 && facts.stopping == 0 && !facts.at_limit && facts.without_lease == 0;
    let may = works && facts.disk_full.is_empty() && facts.disk_low.is_none();
    if may && facts.hosts.ready > 0 && facts.hosts.fetching == 0 && seen.pages_last_minute == Some(0) {
        let hosts = count(facts.hosts.ready);
        all.push(("stalled", format!("{hosts} hosts are ready, and nothing was fetched for a minute")));
    }
    if !seen.webhooks.is_empty() {
        all.push(("webhooks", seen.webhooks.join("; ")));
    }
    all
}

/// A time in one unit.
pub(super) fn in_words(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Since when faults are active.
#[derive(Debug, Default)]
pub(super) struct Since(BTreeMap<&'static str, Timestamp>);

impl Since {
    /// The active faults with their times; faults that are over are forgotten.
    pub(super) fn note(&mut self, active: Vec<(&'static str, String)>, now: Timestamp) -> Vec<AlarmSaid> {
        self.0.retain(|name, _| active.iter().any(|(active, _)| active == name));
        let said = active.into_iter().map(|(name, text)| {
            let since = *self.0.entry(name).or_insert(now);
            AlarmSaid { name: name.to_owned(), text, since: since.warc_date() }
        });
        said.collect()
    }
}

#[cfg(test)]
mod tests {
    use nephila_engine::crawl::held::HostsWait;

    use super::*;

    fn names(seen: &Seen<'_>) -> Vec<&'static str> {
        active(seen).into_iter().map(|(name, _)| name).collect()
    }

    fn facts() -> Facts {
        Facts { nodes: 1, jobs_running: 1, ..Facts::default() }
    }

    #[test]
    fn a_crawl_without_faults_has_no_alarm() {
        let facts = facts();
        assert_eq!(names(&Seen { facts: Some(&facts), ..Seen::default() }), [""; 0]);
        assert_eq!(names(&Seen::default()), [""; 0]);
    }

    #[test]
    fn each_fault_has_its_alarm() {
        let full = Facts { disk_full: vec!["/a".into()], objects_away: 2, without_lease: 1, ..facts() };
        let seen = Seen { facts: Some(&full), full_in_s: Some(1), ..Seen::default() };
        assert_eq!(names(&seen), ["lease", "disk", "objects"], "a full disk need not be full soon");
        let fine = facts();
        let soon = Seen { facts: Some(&fine), full_in_s: Some(FULL_SOON_S), ..Seen::default() };
        assert_eq!(names(&soon), ["disk-full-soon"]);
        let later = Seen { full_in_s: Some(FULL_SOON_S + 1), ..soon };
        assert_eq!(names(&later), [""; 0]);
    }

    #[test]
    fn we_are_blocked_when_a_fifth_of_many_answers_refuses() {
        let facts = facts();
        let seen = |ok, rate_limited, server_error| Seen {
            facts: Some(&facts),
            lately: Counters {
                ok,
                client_error: rate_limited,
                rate_limited,
                server_error,
                ..Counters::default()
            },
            ..Seen::default()
        };
        assert_eq!(names(&seen(79, 10, 11)), ["blocked"]);
        assert_eq!(names(&seen(80, 10, 10)), [""; 0]);
        assert_eq!(names(&seen(0, 10, 10)), [""; 0], "too few to say");
    }

    #[test]
    fn a_crawl_is_stalled_when_hosts_are_ready_and_nothing_comes() {
        let ready = Facts { hosts: HostsWait { ready: 3, ..HostsWait::default() }, ..facts() };
        let seen = Seen { facts: Some(&ready), pages_last_minute: Some(0), ..Seen::default() };
        assert_eq!(names(&seen), ["stalled"]);
        assert_eq!(names(&Seen { pages_last_minute: Some(1), ..seen.clone() }), [""; 0]);
        assert_eq!(names(&Seen { pages_last_minute: None, ..seen.clone() }), [""; 0], "it has just begun");
        let paused = Facts { jobs_running: 0, jobs_halted: 1, ..ready.clone() };
        assert_eq!(names(&Seen { facts: Some(&paused), ..seen }), [""; 0]);
    }

    #[test]
    fn webhooks_that_fail_for_long_are_one_alarm() {
        let facts = facts();
        let webhooks = vec!["a has failed".to_owned(), "b is gone".to_owned()];
        let said = active(&Seen { facts: Some(&facts), webhooks, ..Seen::default() });
        assert_eq!(said, [("webhooks", "a has failed; b is gone".to_owned())]);
    }

    #[test]
    fn an_alarm_keeps_its_time_until_it_is_over() {
        let mut since = Since::default();
        let disk = || vec![("disk", "full".to_owned())];
        let first = since.note(disk(), Timestamp::from_secs(100));
        assert_eq!(since.note(disk(), Timestamp::from_secs(200)), first);
        assert_eq!(since.note(Vec::new(), Timestamp::from_secs(300)), []);
        assert_ne!(since.note(disk(), Timestamp::from_secs(400)), first);
    }
}
