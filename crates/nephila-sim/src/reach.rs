//! Checks that no site is given up too early. The failures of a site in a row are counted here, as the world answered:
//! its name, its robots.txt and its pages.
//!
//! A URL that was never requested ends without a request only if its robots.txt forbids the fetch, if its job is held
//! back, or if its site was given up: the last of `retries_max` failures and one more in a row was one that every URL
//! of the site would have met (no address, no connection, no certificate), or the resolver said that a name does not
//! exist, and no other answer ever came for that name. Each such end says how the site failed, and is compared with
//! these books when the entry is written.
//!
//! The count here is never below the frontier's: where only the frontier can know (a host without its place, a hop that
//! was not followed), a failure is assumed.

use nephila_core::entry::{Ended, Entry, Group, NO_FETCH};
use nephila_core::spider::outcome::{Action, Outcome};
use nephila_core::state::State;

use crate::facts::Fact;
use crate::harness::Sim;
use crate::{Checker, Violation};

#[derive(Clone, Debug, Default)]
struct Book {
    /// Failures in a row.
    failures: u32,
    /// Failures in a row according to the log.
    known: u32,
    /// Whether its name has an address, as far as this process knows.
    named: bool,
    /// How the site may have been given up, and when, in the order of all events.
    causes: Vec<(Outcome, u64)>,
    /// How the site may have been given up, since the world began.
    ever: Vec<Outcome>,
}

/// Books about sites that cannot be reached.
#[derive(Debug)]
pub struct Reach {
    hosts: Vec<Book>,
    retries_max: u32,
    events: u64,
}

/// The meaning of an answer for its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The site answered.
    None,
    /// Nothing: the failure was our own, or that of one address.
    Ours,
    /// The request failed.
    Failed,
    /// The request failed, and every other request to the site would have failed, with this outcome.
    Unreachable(Outcome),
}

impl Failure {
    /// The meaning of a page's outcome.
    pub(crate) fn of_page(outcome: Outcome) -> Failure {
        match outcome {
            Outcome::LocalFiles => Failure::Ours,
            Outcome::TlsExpired | Outcome::ConnectRefused => Failure::Unreachable(outcome),
            Outcome::RateLimited | Outcome::Unavailable | Outcome::Challenged => Failure::Failed,
            Outcome::ServerError | Outcome::Reset | Outcome::TotalTimeout => Failure::Failed,
            _ => Failure::None,
        }
    }
}

impl Reach {
    /// Empty books.
    pub fn new(hosts: usize, retries_max: u8) -> Reach {
        Reach { hosts: vec![Book::default(); hosts], retries_max: retries_max.into(), events: 0 }
    }

    /// An answer arrived. Returns the failures in a row, for the log.
    fn handle(&mut self, host: usize, failure: Failure, before: u32) -> u32 {
        self.events += 1;
        let book = &mut self.hosts[host];
        match failure {
            Failure::None => book.failures = 0,
            Failure::Ours => {}
            Failure::Failed => book.failures += 1,
            Failure::Unreachable(outcome) => {
                if book.failures + before >= self.retries_max {
                    book.causes.push((outcome, self.events));
                    book.ever.push(outcome);
                    // No request that is under way now reaches the site at another address either.
                    book.named = false;
                }
                book.failures += 1;
            }
        }
        book.failures
    }

    /// Whether a failure belongs to one address alone: the site's name has others.
    pub(crate) fn is_elsewhere(&self, host: usize) -> bool {
        self.hosts[host].named
    }

    /// A site was given up, regardless of its count.
    fn give_up(&mut self, host: usize, outcome: Outcome) {
        let book = &mut self.hosts[host];
        book.causes.push((outcome, self.events));
        book.ever.push(outcome);
    }

    /// This count of failures is in the log.
    pub(crate) fn handle_known(&mut self, host: usize, failures: u32) {
        self.hosts[host].known = failures;
    }

    /// The log says that the site's name was found at this moment: earlier reasons to give the site up no longer count.
    pub(crate) fn handle_found(&mut self, host: usize, at: u64) {
        self.hosts[host].causes.retain(|(_, given_up)| *given_up > at);
    }

    /// The process died: only the facts in the log remain.
    pub fn handle_crash(&mut self) {
        for book in &mut self.hosts {
            (book.failures, book.named) = (book.known, false);
            book.causes.clear();
        }
    }

    /// Whether a URL of this site may end with this outcome without a request.
    pub fn was_given_up(&self, host: usize, outcome: Outcome) -> bool {
        self.hosts[host].ever.contains(&outcome)
    }

    fn check_given_up(&self, host: usize, outcome: Outcome, url: &str) -> Result<(), Violation> {
        let book = &self.hosts[host];
        if book.causes.iter().any(|(cause, _)| *cause == outcome) {
            return Ok(());
        }
        let what = format!(
            "{url} ends with {outcome} without a request, its site failed {} times in a row and is given up for {:?}",
            book.failures, book.causes
        );
        Err(Violation::new(Checker::Completeness, what))
    }
}

impl Sim {
    /// A request to a site was answered, or failed.
    pub(crate) fn site_answered(&mut self, host: usize, failure: Failure) {
        // A hop that will not be followed may count already; the log will tell.
        let before = u32::from(self.awaits_hop(host));
        let failures = self.reach.handle(host, failure, before);
        self.site_known(host, failures);
    }

    /// A name could not be looked up.
    pub(crate) fn name_failed(&mut self, host: usize, outcome: Outcome) {
        let unheard = outcome == Outcome::DnsNxdomain && self.obedience.is_unheard(host);
        match outcome.action() {
            // Our own resolver is away: loaded URLs are put off.
            Action::Pause => self.site_answered(host, Failure::Ours),
            _ => self.site_answered(host, Failure::Unreachable(outcome)),
        }
        if unheard || outcome.action() == Action::Pause {
            self.reach.give_up(host, outcome);
        }
        self.reach.hosts[host].named = false;
    }

    /// A name was looked up.
    pub(crate) fn name_found(&mut self, host: usize) {
        self.reach.events += 1;
        self.reach.hosts[host].named = true;
        let fact = Fact::Found { host, at: self.reach.events };
        self.parts[self.world.hosts[host].partition].facts.push(fact);
    }

    fn site_known(&mut self, host: usize, failures: u32) {
        self.parts[self.world.hosts[host].partition].facts.push(Fact::Failures { host, failures });
    }

    /// Checks that every URL that ends in this group without a request belongs to a site given up with that outcome.
    pub(crate) fn check_given_up(&mut self, partition: usize, group: &Group) -> Result<(), Violation> {
        for entry in &group.entries {
            let Entry::Ended(ended) = entry else { continue };
            let Ended { key, fetch, outcome, .. } = **ended;
            let judged =
                matches!(outcome, Outcome::RobotsDenied | Outcome::Cancelled | Outcome::LimitReached);
            if fetch & NO_FETCH == 0 || judged {
                continue;
            }
            // The entry may be in the log a second time.
            let record = self.front().state(partition).url(&key)?;
            if record.and_then(|record| record.last).is_some_and(|last| last.fetch == fetch) {
                continue;
            }
            let Some(&url) = self.world.by_path.get(&key.path) else { continue };
            let host = self.world.urls[url as usize].host;
            self.reach.check_given_up(host, outcome, &self.world.url(url))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAD: Failure = Failure::Unreachable(Outcome::TlsExpired);

    #[test]
    fn a_site_is_given_up_after_its_retries_and_not_before() {
        let mut reach = Reach::new(1, 2);
        let check = |reach: &Reach, outcome| reach.check_given_up(0, outcome, "x").is_ok();
        for failure in [DEAD, Failure::Failed] {
            reach.handle(0, failure, 0);
            assert!(!check(&reach, Outcome::TlsExpired));
        }
        reach.handle(0, Failure::Failed, 0);
        assert!(!check(&reach, Outcome::TlsExpired), "a failure that others might not have met");
        reach.handle(0, DEAD, 0);
        assert!(check(&reach, Outcome::TlsExpired) && !check(&reach, Outcome::ConnectRefused));
        reach.handle_found(0, reach.events);
        assert!(!check(&reach, Outcome::TlsExpired), "it is there again");
        assert!(reach.was_given_up(0, Outcome::TlsExpired));
    }

    #[test]
    fn an_answer_ends_the_row_once_it_is_in_the_log() {
        let mut reach = Reach::new(1, 1);
        let failures = reach.handle(0, Failure::Failed, 0);
        reach.handle_known(0, failures);
        reach.handle(0, Failure::None, 0);
        reach.handle(0, DEAD, 0);
        assert!(!reach.was_given_up(0, Outcome::TlsExpired), "the first in a row");
        reach.handle_crash();
        reach.handle(0, DEAD, 0);
        assert!(reach.was_given_up(0, Outcome::TlsExpired), "the answer was forgotten, the failure was not");
    }
}
