//! Why hosts could not be requested: the last cause for each of them, for progress messages and the end report.
//!
//! The frontier knows that a robots.txt is out of reach and for how long; the cause (a closed port, a certificate, a
//! status) is known here. Kept in memory alone: a resumed crawl makes these requests again.
//!
//! Invariant: at most [`ORIGINS_MAX`] hosts and [`NOTICES_MAX`] notices are kept.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use nephila_core::spider::Outcome;
use nephila_core::text::shown;

/// Maximum number of hosts with a known cause. Of further hosts only the rest is known.
pub(crate) const ORIGINS_MAX: usize = 10_000;
/// Maximum number of seeds that are named as soon as they fail; further ones are named at the end.
pub(crate) const NOTICES_MAX: usize = 10;

/// See the module.
#[derive(Debug, Default)]
pub struct Troubles(Mutex<Known>);

#[derive(Debug, Default)]
pub struct Known {
    causes: HashMap<String, String>,
    /// Origins of the seeds.
    seeds: HashSet<String>,
    /// Seeds and hosts that were named already, and pending notices.
    named: HashSet<String>,
    notices: Vec<String>,
    /// Whether a seed has failed.
    seed_failed: bool,
}

/// A cause in words: the outcome, the status if there is one, and the detail.
pub(crate) fn words(outcome: Outcome, status: Option<u16>, detail: &str) -> String {
    let what = outcome.in_short();
    let mut words = match status {
        Some(status) if outcome == Outcome::of_status(status) => {
            format!("{outcome}: it answered {status}")
        }
        Some(status) => format!("{outcome}: {} (status {status})", lower(what)),
        None => format!("{outcome}: {}", lower(what)),
    };
    if !detail.is_empty() && status.is_none() {
        words += &format!(" ({})", shown(detail));
    }
    words
}

pub(crate) fn lower(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    // Abbreviations and numbers stay as they are.
    match chars.clone().next() {
        Some(second) if second.is_uppercase() => text.to_owned(),
        _ => first + chars.as_str(),
    }
}

impl Troubles {
    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("nobody panics holding it")
    }

    /// Sets the hosts of the seeds.
    pub fn set_seeds(&self, origins: impl Iterator<Item = String>) {
        self.known().seeds = origins.collect();
    }

    /// Records that a host could not be requested.
    pub fn host_failed(&self, origin: &str, cause: String) {
        let mut known = self.known();
        if known.seeds.contains(origin) {
            known.say(origin, &cause);
        }
        known.remember(origin, cause);
    }

    /// Records that a page of a host failed. Its seeds may have been answered.
    pub fn page_failed(&self, origin: &str, cause: String) {
        self.known().remember(origin, cause);
    }

    /// Records that a host has answered.
    pub fn host_answered(&self, origin: &str) {
        let mut known = self.known();
        if !known.causes.is_empty() {
            known.causes.remove(origin);
        }
    }

    /// Records that a seed, or the target of its redirect, failed.
    pub fn seed_failed(&self, url: &str, cause: &str) {
        self.known().say(url, cause);
    }

    /// The last cause for which a host could not be requested.
    pub fn of(&self, origin: &str) -> Option<String> {
        self.known().causes.get(origin).cloned()
    }

    /// Takes the pending notices. Also returns whether a seed has failed so far.
    pub fn news(&self) -> (Vec<String>, bool) {
        let mut known = self.known();
        (std::mem::take(&mut known.notices), known.seed_failed)
    }
}

impl Known {
    pub fn remember(&mut self, origin: &str, cause: String) {
        if self.causes.len() < ORIGINS_MAX || self.causes.contains_key(origin) {
            self.causes.insert(origin.to_owned(), cause);
        }
    }

    pub fn say(&mut self, who: &str, cause: &str) {
        self.seed_failed = true;
        if self.named.len() < NOTICES_MAX && self.named.insert(who.to_owned()) {
            self.notices.push(format!("seed {} could not be fetched: {cause}", shown(who)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fin_02_a_cause_is_told_in_words() {
        assert_eq!(words(Outcome::ConnectRefused, None, ""), "connect-refused: the connection was refused");
        assert_eq!(words(Outcome::ServerError, Some(500), ""), "server-error: it answered 500");
        assert_eq!(words(Outcome::DnsNxdomain, None, ""), "dns-nxdomain: the name does not exist");
    }

    #[test]
    fn fin_02_a_page_that_fails_is_not_its_seed() {
        let troubles = Troubles::default();
        troubles.set_seeds(["http://a.test".to_owned()].into_iter());
        troubles.page_failed("http://a.test", "server-error: it answered 503".into());
        assert_eq!(troubles.news(), (vec![], false));
        assert!(troubles.of("http://a.test").is_some());
    }

    #[test]
    fn fin_02_a_seed_is_named_once_and_others_are_remembered() {
        let troubles = Troubles::default();
        troubles.set_seeds(["http://a.test".to_owned()].into_iter());
        for _ in 0..3 {
            troubles.host_failed("http://a.test", "robots.txt answered 500".into());
            troubles.host_failed("http://b.test", "connect-refused".into());
        }
        let (notices, failed) = troubles.news();
        assert_eq!((notices.len(), failed), (1, true), "{notices:?}");
        assert_eq!(troubles.of("http://b.test").as_deref(), Some("connect-refused"));
        troubles.host_answered("http://b.test");
        assert_eq!((troubles.of("http://b.test"), troubles.news().0), (None, vec![]));
    }
}
