//! How often a page changes, estimated from visits that found it changed or not.
//!
//! A visit after the time t that found a change says that there was at least one: on average l t / (1 - e^(-l t)) of them,
//! if l is what we believe so far. Changes so counted, divided by the time watched, are the estimate; it settles where
//! belief and count agree. A page that was hardly visited is believed to be like its site: half a change is added, and the
//! time that the site takes for half a change. So the first visits of a page are planned by its site, the first of a site
//! by [`GAP_UNKNOWN`], and later ones by what was seen.
//!
//! What always holds: a page is remembered in ten bytes, the last visits counting most; the estimate is never zero.

use std::time::Duration;

use crate::codec::{Damaged, Reader, put_u64};

/// What is believed of a site nothing is known of.
pub const GAP_UNKNOWN: Duration = Duration::from_secs(7 * 86_400);

/// What visits have shown of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Changes, in parts of [`PARTS`].
    changes: u32,
    /// Seconds from the first visit that counts to the last.
    seconds: u32,
    visits: u8,
}

/// What visits have shown of all pages of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Site {
    changes: u64,
    seconds: u64,
}

/// What a visit adds to what is known, as it is written down: adding it up needs no estimate any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// Seconds since the visit before.
    pub seconds: u32,
    /// Changes in that time, in parts of one.
    pub changes: u32,
}

impl Seen {
    /// Takes in a visit, this long after the one before, and what it found. The site learns of it too.
    pub fn handle_visit(&mut self, since: Duration, changed: bool, site: &mut Site) {
        let visit = self.visit(since, changed, site);
        self.take(visit);
        site.take(visit);
    }

    /// What a visit adds, this long after the one before, which found this.
    pub fn visit(&self, since: Duration, changed: bool, site: &Site) -> Visit {
        let seconds = u32::try_from(since.as_secs()).unwrap_or(u32::MAX).clamp(1, SECONDS_MAX);
        let changes = if changed { self.changes_in(f64::from(seconds), site) } else { 0 };
        Visit { seconds, changes }
    }

    /// Adds a visit.
    pub fn take(&mut self, visit: Visit) {
        let Visit { seconds, changes } = visit;
        // Half of what was is forgotten when enough is known: pages change how they change.
        if self.visits >= VISITS_MAX || self.seconds > SECONDS_MAX {
            *self = Seen { changes: self.changes / 2, seconds: self.seconds / 2, visits: self.visits / 2 };
        }
        self.changes = self.changes.saturating_add(changes);
        self.seconds = self.seconds.saturating_add(seconds);
        self.visits += 1;
    }

    /// How many changes there were, given that there was one.
    fn changes_in(&self, seconds: f64, site: &Site) -> u32 {
        let x = self.rate(site) * seconds;
        let changes = if x < 1e-3 { 1.0 + x / 2.0 } else { x / (1.0 - exp_neg(x)) };
        (changes.min(CHANGES_PER_VISIT_MAX) * PARTS) as u32
    }

    /// Changes a second.
    pub fn rate(&self, site: &Site) -> f64 {
        let changes = f64::from(self.changes) / PARTS + WEIGHT;
        changes / (f64::from(self.seconds) + WEIGHT / site.rate())
    }

    /// The mean time between changes.
    pub fn gap(&self, site: &Site) -> Duration {
        Duration::from_secs_f64((1.0 / self.rate(site)).min(1e10))
    }

    /// As it is stored.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, u64::from(self.changes));
        put_u64(out, u64::from(self.seconds));
        out.push(self.visits);
    }

    /// From what was stored.
    pub fn read(reader: &mut Reader<'_>) -> Result<Seen, Damaged> {
        Ok(Seen {
            changes: reader.u32("changes of a page")?,
            seconds: reader.u32("time of a page")?,
            visits: reader.u8("visits of a page")?.min(VISITS_MAX),
        })
    }
}

impl Site {
    /// Adds a visit of one of its pages.
    pub fn take(&mut self, visit: Visit) {
        let (seconds, changes) = (u64::from(visit.seconds), u64::from(visit.changes));
        if self.seconds > SITE_SECONDS_MAX {
            (self.changes, self.seconds) = (self.changes / 2, self.seconds / 2);
        }
        self.changes += changes;
        self.seconds += seconds;
    }

    /// Changes of a page a second, on average.
    pub fn rate(&self) -> f64 {
        let unknown = GAP_UNKNOWN.as_secs_f64();
        (self.changes as f64 / PARTS + 1.0) / (self.seconds as f64 + unknown)
    }

    /// As it is stored.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.changes);
        put_u64(out, self.seconds);
    }

    /// From what was stored.
    pub fn read(reader: &mut Reader<'_>) -> Result<Site, Damaged> {
        let (changes, seconds) = (reader.u64("changes of a site")?, reader.u64("time of a site")?);
        Ok(Site { changes: changes.min(u64::MAX / 4), seconds: seconds.min(u64::MAX / 4) })
    }
}

/// e^-x for x from 0 on, by sums and products alone: what a machine's own library makes of it may differ in the last
/// digit, and then two nodes would plan differently.
pub(super) fn exp_neg(x: f64) -> f64 {
    if x > 700.0 {
        return 0.0;
    }
    let y = -x / 1_024.0;
    let mut e =
        1.0 + y * (1.0 + y / 2.0 * (1.0 + y / 3.0 * (1.0 + y / 4.0 * (1.0 + y / 5.0 * (1.0 + y / 6.0)))));
    for _ in 0..10 {
        e *= e;
    }
    e
}

/// Into so many parts a change is divided.
const PARTS: f64 = 256.0;

/// How many changes what is believed of the site counts for. Sites have pages of all kinds, so not many.
const WEIGHT: f64 = 0.5;

/// After so many visits half is forgotten.
const VISITS_MAX: u8 = 32;

/// No more than this is made of one visit.
const CHANGES_PER_VISIT_MAX: f64 = 1_000.0;

/// Ten years.
const SECONDS_MAX: u32 = 10 * 365 * 86_400;

/// A million pages for a year.
const SITE_SECONDS_MAX: u64 = 1_000_000 * 365 * 86_400;
