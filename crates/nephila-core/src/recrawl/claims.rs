//! What a site states about its own changes, and how reliable these claims are.
//!
//! A sitemap names the day on which a page was changed, and a feed the moment. A page that was changed since our last
//! fetch is visited now instead of at its planned time. Some sites tell the truth, and some always say "now". So a
//! few of the pages that are brought forward are remembered as **pending**; the visit shows whether the claim was
//! true. A site whose claims are mostly wrong is not believed: then one page at a time is still brought forward, to
//! see whether the site has mended its ways.
//!
//! The record also has whether the pages of the site are large: that decides whether HEAD is worth a request of its
//! own ([`super::trust`]).
//!
//! And the record has up to when the site's time is **booked**: each visit books its part of the day, so that pages
//! which change at every visit (a new ad, a new token) do not bring us back without end. No visit books further ahead
//! than [`BOOKED_AHEAD_MAX`]; a booking further ahead was written while the clock was wrong, and is ignored.
//!
//! Invariant: a site is remembered in a few bytes, at most [`PENDING_MAX`] paths among them.

use super::trust::HEAD_BYTES_MIN;
use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::key::HostKey;
use crate::time::Seconds;

/// A page, and when the page was changed, as claimed by its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// The page's key within its host.
    pub path: u64,
    /// Modification time.
    pub modified: Seconds,
}

/// Maximum number of pages that one response may list. The rest is left out: a sitemap has as many at most.
pub const LISTED_MAX: usize = 50_000;

/// Maximum number of pages that one response may bring forward, while its site is believed.
pub const FORWARD_MAX: usize = 1_000;

/// Maximum number of pages that one response may bring forward, while its site is not believed.
pub const FORWARD_DOUBTED_MAX: usize = 1;

/// The time of a site is booked this far ahead at most, in seconds: a year.
pub const BOOKED_AHEAD_MAX: u32 = 365 * 86_400;

/// A clock that is set back by no more than this was right: its bookings stay, in seconds.
const SET_BACK_MAX: u32 = 86_400;

/// Maximum number of pending pages of a site.
pub const PENDING_MAX: usize = 8;

/// With this number of wrong claims, and more wrong than right ones, the site is not believed.
pub const WRONG_MIN: u8 = 3;

/// After this number of claims the counts are halved.
const SEEN_MAX: u8 = 16;

/// Pages are large when the large ones among the last exceed the others by this number.
const LARGE_MIN: u8 = 4;
const LARGE_MAX: u8 = 8;

/// How reliable the claims of a site are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    right: u8,
    wrong: u8,
    large: u8,
    booked: Seconds,
    pending: Vec<u64>,
}

impl Claims {
    /// Whether the site's claims about its changes are believed.
    pub fn is_believed(&self) -> bool {
        self.wrong < WRONG_MIN || self.wrong <= self.right
    }

    /// Maximum number of pages that one response may bring forward.
    pub fn forward_max(&self) -> usize {
        if self.is_believed() { FORWARD_MAX } else { FORWARD_DOUBTED_MAX }
    }

    /// Up to when the site's time is booked by planned visits.
    pub fn booked(&self) -> Seconds {
        self.booked
    }

    /// Books the site's time until then; 0 changes nothing. The writer of this time knew the booking before, and an
    /// earlier time corrects a wrong one.
    pub fn handle_booked(&mut self, booked: Seconds) {
        if booked > Seconds(0) {
            self.booked = booked;
        }
    }

    /// Whether the site's pages are so large that HEAD is cheaper.
    pub fn has_large_pages(&self) -> bool {
        self.large >= LARGE_MIN
    }

    /// These pages are brought forward.
    pub fn handle_forward(&mut self, forward: &Forward) {
        for path in &forward.paths {
            self.pending.retain(|pending| pending != path);
            self.pending.push(*path);
        }
        let over = self.pending.len().saturating_sub(PENDING_MAX);
        self.pending.drain(..over);
    }

    /// A page was visited: whether the page had changed, and whether its body was large, if there was one.
    pub fn handle_visit(&mut self, path: u64, changed: bool, large: Option<bool>) {
        match large {
            Some(true) => self.large = (self.large + 1).min(LARGE_MAX),
            Some(false) => self.large = self.large.saturating_sub(1),
            None => {}
        }
        let Some(at) = self.pending.iter().position(|pending| *pending == path) else { return };
        self.pending.remove(at);
        if changed {
            self.right += 1;
        } else {
            self.wrong += 1;
        }
        if self.right + self.wrong >= SEEN_MAX {
            (self.right, self.wrong) = (self.right / 2, self.wrong / 2);
        }
    }

    /// The stored form.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend([self.right, self.wrong, self.large]);
        put_u64(out, self.booked.0.into());
        let paths: Vec<u8> = self.pending.iter().flat_map(|path| path.to_be_bytes()).collect();
        put_bytes(out, &paths);
    }

    /// Reads the stored form.
    pub fn read(reader: &mut Reader<'_>) -> Result<Claims, Damaged> {
        let mut next = || reader.u8("claims of a host");
        let (right, wrong, large) = (next()?.min(SEEN_MAX), next()?.min(SEEN_MAX), next()?.min(LARGE_MAX));
        let booked = Seconds(reader.u32("claims of a host")?);
        let (paths, rest) = reader.bytes("claims of a host")?.as_chunks::<8>();
        if !rest.is_empty() || paths.len() > PENDING_MAX {
            return Err(Damaged("claims of a host"));
        }
        let pending = paths.iter().map(|path| u64::from_be_bytes(*path)).collect();
        Ok(Claims { right, wrong, large, booked, pending })
    }
}

/// From when on the time of a site booked up to `booked` is free: never before today. A booking further ahead than
/// the maximum comes from a clock that was wrong by years, and must not silence the site for years.
pub fn free_from(booked: Seconds, today: Seconds) -> Seconds {
    let ahead = booked.0.saturating_sub(today.0);
    if ahead > BOOKED_AHEAD_MAX + SET_BACK_MAX { today } else { booked.max(today) }
}

/// Up to when the time of a site is booked after one more visit, which takes `takes` seconds.
pub fn book(booked: Seconds, today: Seconds, takes: u32) -> Seconds {
    let until = free_from(booked, today).0.saturating_add(takes);
    Seconds(until.min(today.0.saturating_add(BOOKED_AHEAD_MAX)))
}

/// Whether a body is large.
pub fn is_large(bytes: u64) -> bool {
    bytes >= HEAD_BYTES_MIN
}

/// Pages were brought forward because their site reported changes. Stands in the log beside the queue's own entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The site.
    pub host: HostKey,
    /// Some of the pages, at most [`PENDING_MAX`].
    pub paths: Vec<u64>,
}

impl Forward {
    /// Appends the written form.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.host.to_bytes());
        put_u64(out, self.paths.len() as u64);
        self.paths.iter().for_each(|path| out.extend(path.to_be_bytes()));
    }

    /// Reads the written form.
    pub fn read(reader: &mut Reader<'_>) -> Result<Forward, Damaged> {
        let host = reader.take(HostKey::BYTES, "host of a claim")?;
        let host = HostKey::from_bytes(host.try_into().expect("as many were taken"));
        let mut paths = Vec::new();
        for _ in 0..reader.u64("pages of a claim")? {
            paths.push(reader.fixed_u64("page of a claim")?);
        }
        Ok(Forward { host, paths })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::DomainKey;

    fn forward(paths: &[u64]) -> Forward {
        Forward { host: HostKey { domain: DomainKey(5), host: 1 }, paths: paths.to_vec() }
    }

    #[test]
    fn a_site_that_always_says_now_is_not_believed_until_it_mends_its_ways() {
        let mut claims = Claims::default();
        for path in 0..3 {
            assert!(claims.is_believed());
            claims.handle_forward(&forward(&[path]));
            claims.handle_visit(path, false, None);
        }
        assert!(!claims.is_believed());
        assert_eq!(claims.forward_max(), FORWARD_DOUBTED_MAX);
        for path in 0..3 {
            // Pages that were not brought forward say nothing about the site's claims.
            claims.handle_visit(path + 100, true, None);
            claims.handle_forward(&forward(&[path]));
            claims.handle_visit(path, true, None);
        }
        assert!(claims.is_believed());
    }

    #[test]
    fn a_few_pages_are_remembered_and_stored() {
        let mut claims = Claims::default();
        claims.handle_forward(&forward(&[1, 2, 3, 4, 5, 6]));
        claims.handle_forward(&forward(&[7, 8, 9, 2]));
        assert_eq!(claims.pending, [3, 4, 5, 6, 7, 8, 9, 2]);
        for _ in 0..4 {
            assert!(!claims.has_large_pages());
            claims.handle_visit(99, true, Some(true));
        }
        assert!(claims.has_large_pages());
        claims.handle_booked(Seconds(300));
        claims.handle_booked(Seconds(0));
        assert_eq!(claims.booked(), Seconds(300));
        let mut bytes = Vec::new();
        claims.put(&mut bytes);
        assert_eq!(Claims::read(&mut Reader::new(&bytes)), Ok(claims));
    }

    #[test]
    fn each_visit_books_its_part_and_nothing_is_booked_beyond_a_year() {
        let today = Seconds(200_000_000);
        let mut booked = Seconds(0);
        for visit in 1..=10 {
            booked = book(booked, today, 60);
            assert_eq!(booked, Seconds(today.0 + visit * 60));
        }
        for _ in 0..400 {
            booked = book(booked, today, 86_400);
        }
        assert_eq!(booked, Seconds(today.0 + BOOKED_AHEAD_MAX));
        assert_eq!(free_from(booked, Seconds(today.0 - 3_600)), booked, "a clock set back by an hour");
        assert_eq!(free_from(Seconds(7), today), today, "the past is free");
    }

    #[test]
    fn a_clock_that_was_wrong_by_years_books_nothing_once_it_is_right() {
        let (wrong, today) = (Seconds(500_000_000), Seconds(200_000_000));
        let mut claims = Claims::default();
        claims.handle_booked(book(claims.booked(), wrong, 60));
        assert_eq!(free_from(claims.booked(), today), today);
        claims.handle_booked(book(claims.booked(), today, 60));
        assert_eq!(claims.booked(), Seconds(today.0 + 60), "and is taken back by the next visit");
    }

    // The bytes outlive us: a log of today is folded by the node of tomorrow.
    #[test]
    fn golden_forward() {
        let mut out = Vec::new();
        forward(&[7, 256]).put(&mut out);
        let golden = [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 1, 0];
        assert_eq!(out, golden);
        assert_eq!(Forward::read(&mut Reader::new(&out)), Ok(forward(&[7, 256])));
    }
}
