//! The last outcome of each host that was requested lately, for lists of hosts.
//!
//! The state of the frontier has the outcome of each URL, and no outcome of a host as such; the log has all of them,
//! and is too long to be searched for every row of a list. Kept in memory alone.
//!
//! Invariant: at most [`HOSTS_MAX`] hosts are kept; when there are more, the half with the oldest outcomes is dropped.

use std::collections::HashMap;
use std::sync::Mutex;

use nephila_core::spider::Outcome;
use nephila_core::time::Timestamp;

/// Maximum number of hosts with a known last outcome.
pub const HOSTS_MAX: usize = 20_000;

/// See the module.
#[derive(Debug, Default)]
pub struct Lasts(Mutex<HashMap<Box<str>, (Outcome, Timestamp)>>);

impl Lasts {
    /// A request to a host ended.
    pub fn note(&self, origin: &str, outcome: Outcome, at: Timestamp) {
        let mut known = self.0.lock().expect("nobody panics holding it");
        if let Some(last) = known.get_mut(origin) {
            *last = (outcome, at);
            return;
        }
        if known.len() >= HOSTS_MAX {
            let mut times: Vec<Timestamp> = known.values().map(|(_, at)| *at).collect();
            let half = times.len() / 2;
            let (_, middle, _) = times.select_nth_unstable(half);
            let middle = *middle;
            known.retain(|_, (_, at)| *at > middle);
        }
        known.insert(origin.into(), (outcome, at));
    }

    /// The last outcome of a host, if it was requested lately.
    pub fn of(&self, origin: &str) -> Option<(Outcome, Timestamp)> {
        self.0.lock().expect("nobody panics holding it").get(origin).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_outcome_counts_and_the_oldest_hosts_are_forgotten() {
        let lasts = Lasts::default();
        for number in 0..HOSTS_MAX as u64 + 1 {
            lasts.note(&format!("http://{number}.test"), Outcome::Fetched, Timestamp(number));
        }
        let last = HOSTS_MAX as u64;
        lasts.note(&format!("http://{last}.test"), Outcome::NotFound, Timestamp(last + 1));
        assert_eq!(lasts.of("http://0.test"), None, "the oldest half made room");
        assert_eq!(lasts.of(&format!("http://{last}.test")), Some((Outcome::NotFound, Timestamp(last + 1))));
        assert!(lasts.0.lock().unwrap().len() <= HOSTS_MAX);
    }

    #[test]
    fn equal_times_make_room_too() {
        let lasts = Lasts::default();
        for number in 0..2 * HOSTS_MAX {
            lasts.note(&format!("http://{number}.test"), Outcome::Fetched, Timestamp(7));
        }
        assert!(lasts.0.lock().unwrap().len() <= HOSTS_MAX);
    }
}
