//! How to request a page again, and whether to believe the answer.
//!
//! A page that gave validators is requested with them (conditional request): 304 costs nothing. A host that ignores
//! validators sends everything each time; there HEAD tells whether a large page changed, if the host's HEAD is
//! reliable. Both are claims, so one visit in [`CHECK_EVERY`] requests the page in full. If the content changed while
//! its validators stayed, a 304 would have been wrong, and HEAD too: after [`WRONG_MAX`] such checks the host is no
//! longer believed, until [`AGAIN_AFTER`] checks in a row have been right.
//!
//! Invariants: only the host's past answers decide, remembered in a few bytes; whatever a host claims, on average one
//! visit in [`CHECK_EVERY`] fetches the page in full.

use crate::codec::{Damaged, Reader};

/// One visit in this number requests the page in full.
pub const CHECK_EVERY: u64 = 20;

/// After this number of wrong claims the host is not believed.
pub const WRONG_MAX: u8 = 2;

/// This number of checks in a row must be right before the host is believed again.
pub const AGAIN_AFTER: u8 = 50;

/// A host that sends an unchanged page in full this number of times without a 304 between them ignores validators.
pub const IGNORED_MAX: u8 = 3;

/// HEAD is worth a request of its own only for bodies of at least this size, in bytes.
pub const HEAD_BYTES_MIN: u64 = 64 * 1024;

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// In full.
    Get,
    /// In full, unless the page is unchanged.
    Conditional,
    /// The head first; in full only if the head has changed.
    Head,
}

/// The known facts about a page to be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Whether the page gave validators.
    pub validators: bool,
    /// The size of its body, in bytes.
    pub body_bytes: u64,
    /// Whether the page has more likely changed than not: HEAD would be a request too many.
    pub likely_changed: bool,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitResult {
    /// 304, or a HEAD with the known validators.
    Unchanged,
    /// The whole page.
    Whole {
        /// The content differs from the last content.
        changed: bool,
        /// The validators are the same as before.
        same_validators: bool,
    },
}

/// How reliable a host's claims are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    wrong: u8,
    right_since: u8,
    ignored: u8,
}

impl Trust {
    /// The kind of request for a page. `chance` is any number that differs from visit to visit.
    pub fn ask(&self, page: &Known, chance: u64) -> Ask {
        if !page.validators || !self.is_believed() || chance.is_multiple_of(CHECK_EVERY) {
            return Ask::Get;
        }
        if !self.ignores() {
            return Ask::Conditional;
        }
        if page.body_bytes >= HEAD_BYTES_MIN && !page.likely_changed { Ask::Head } else { Ask::Conditional }
    }

    /// Takes in an answer. Only for pages whose validators we had.
    pub fn handle_answer(&mut self, asked: Ask, found: VisitResult) {
        match (asked, found) {
            (Ask::Conditional, VisitResult::Unchanged) => self.ignored = 0,
            (_, VisitResult::Unchanged) => {}
            (_, VisitResult::Whole { changed: true, same_validators: true }) => {
                self.wrong = self.wrong.saturating_add(1);
                self.right_since = 0;
            }
            (asked, VisitResult::Whole { changed, same_validators }) => {
                if same_validators && asked == Ask::Conditional {
                    self.ignored = self.ignored.saturating_add(1);
                }
                // Either nothing changed, or the validators showed the change.
                let tells = changed != same_validators;
                self.right_since = if tells { self.right_since.saturating_add(1) } else { self.right_since };
                if self.right_since >= AGAIN_AFTER {
                    (self.wrong, self.right_since) = (0, 0);
                }
            }
        }
    }

    /// Whether the host ignores validators and sends everything.
    pub fn ignores(&self) -> bool {
        self.ignored >= IGNORED_MAX
    }

    /// Whether the host's claims are believed.
    pub fn is_believed(&self) -> bool {
        self.wrong < WRONG_MAX
    }

    /// The stored form.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.wrong, self.right_since, self.ignored]);
    }

    /// Reads the stored form.
    pub fn read(reader: &mut Reader<'_>) -> Result<Trust, Damaged> {
        let mut next = || reader.u8("what a host's claims are worth");
        Ok(Trust { wrong: next()?, right_since: next()?, ignored: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Known = Known { validators: true, body_bytes: 200_000, likely_changed: false };
    const SAME: VisitResult = VisitResult::Whole { changed: false, same_validators: true };
    const LIE: VisitResult = VisitResult::Whole { changed: true, same_validators: true };
    const HONEST: VisitResult = VisitResult::Whole { changed: true, same_validators: false };

    #[test]
    fn validators_are_used_and_checked_one_time_in_twenty() {
        let trust = Trust::default();
        let asked: Vec<Ask> = (0..100).map(|chance| trust.ask(&PAGE, chance)).collect();
        assert_eq!(asked.iter().filter(|ask| **ask == Ask::Get).count(), 5);
        assert_eq!(asked.iter().filter(|ask| **ask == Ask::Conditional).count(), 95);
        assert_eq!(trust.ask(&Known { validators: false, ..PAGE }, 1), Ask::Get);
    }

    #[test]
    fn a_host_that_ignores_validators_is_asked_for_heads_of_large_pages() {
        let mut trust = Trust::default();
        for _ in 0..3 {
            assert_eq!(trust.ask(&PAGE, 1), Ask::Conditional);
            trust.handle_answer(Ask::Conditional, SAME);
        }
        assert_eq!(trust.ask(&PAGE, 1), Ask::Head);
        assert_eq!(trust.ask(&Known { body_bytes: 1_000, ..PAGE }, 1), Ask::Conditional);
        assert_eq!(trust.ask(&Known { likely_changed: true, ..PAGE }, 1), Ask::Conditional);
        trust.handle_answer(Ask::Conditional, VisitResult::Unchanged);
        assert_eq!(trust.ask(&PAGE, 1), Ask::Conditional);
    }

    #[test]
    fn a_host_whose_304_is_wrong_is_found_and_not_believed() {
        // Its page changes at every visit and its validators never.
        let mut trust = Trust::default();
        let mut fetched = 0;
        for visit in 0..200 {
            let ask = trust.ask(&PAGE, visit);
            let found = if ask == Ask::Get { LIE } else { VisitResult::Unchanged };
            fetched += u32::from(ask == Ask::Get);
            trust.handle_answer(ask, found);
        }
        assert!(!trust.is_believed());
        assert_eq!(fetched, 1 + 180, "from the second check on every visit is in full");
    }

    #[test]
    fn a_host_that_mends_its_ways_is_believed_again() {
        let mut trust = Trust::default();
        trust.handle_answer(Ask::Get, LIE);
        trust.handle_answer(Ask::Get, LIE);
        for n in 0..50 {
            assert!(!trust.is_believed());
            trust.handle_answer(Ask::Get, if n % 2 == 0 { SAME } else { HONEST });
        }
        assert!(trust.is_believed());
        let mut bytes = Vec::new();
        trust.put(&mut bytes);
        assert_eq!(Trust::read(&mut Reader::new(&bytes)), Ok(trust));
    }
}
