//! How often a page changes, estimated from visits that found the page changed or not.
//!
//! A visit after the time t that found a change shows at least one change: on average l t / (1 - e^(-l t)) of them,
//! if l is the estimate so far. Changes counted in this way, divided by the time watched, are the estimate; the
//! estimate settles where estimate and count agree. A page with few visits is assumed to be like its site: half a
//! change is added, and the site's time for half a change. So the first visits of a page are planned by its site, the
//! first of a site by [`GAP_UNKNOWN`], and later ones by the visits so far.
//!
//! Invariants: a page is remembered in ten bytes, the last visits counting most; the estimate is never zero.

use std::time::Duration;

use crate::codec::{Damaged, Reader, put_u64};

/// The assumed time between changes for an unknown site.
pub const GAP_UNKNOWN: Duration = Duration::from_secs(7 * 86_400);

/// The visits of a page, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Changes, in parts of [`PARTS`].
    changes: u32,
    /// Seconds from the first visit that counts to the last.
    seconds: u32,
    visits: u8,
}

/// The visits of all pages of a site, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Site {
    changes: u64,
    seconds: u64,
}

/// One visit, as stored in the log: adding the visit up needs no further estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// Seconds since the visit before.
    pub seconds: u32,
    /// Changes in that time, in parts of one.
    pub changes: u32,
}

impl Seen {
    /// Takes in a visit, this long after the visit before, and whether the page had changed. The site takes the visit
    /// in as well.
    pub fn handle_visit(&mut self, since: Duration, changed: bool, site: &mut Site) {
        let visit = self.visit(since, changed, site);
        self.take(visit);
        site.take(visit);
    }

    /// A visit this long after the visit before, with the number of changes estimated.
    pub fn visit(&self, since: Duration, changed: bool, site: &Site) -> Visit {
        let seconds = u32::try_from(since.as_secs()).unwrap_or(u32::MAX).clamp(1, SECONDS_MAX);
        let changes = if changed { self.changes_in(f64::from(seconds), site) } else { 0 };
        Visit { seconds, changes }
    }

    /// Adds a visit.
    pub fn take(&mut self, visit: Visit) {
        let Visit { seconds, changes } = visit;
        // The counts are halved when enough is known: pages change how they change.
        if self.visits >= VISITS_MAX || self.seconds > SECONDS_MAX {
            *self = Seen { changes: self.changes / 2, seconds: self.seconds / 2, visits: self.visits / 2 };
        }
        self.changes = self.changes.saturating_add(changes);
        self.seconds = self.seconds.saturating_add(seconds);
        self.visits += 1;
    }

    /// Estimated number of changes, given that there was one.
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

    /// The stored form.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, u64::from(self.changes));
        put_u64(out, u64::from(self.seconds));
        out.push(self.visits);
    }

    /// Reads the stored form.
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

    /// The stored form.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.changes);
        put_u64(out, self.seconds);
    }

    /// Reads the stored form.
    pub fn read(reader: &mut Reader<'_>) -> Result<Site, Damaged> {
        let (changes, seconds) = (reader.u64("changes of a site")?, reader.u64("time of a site")?);
        Ok(Site { changes: changes.min(u64::MAX / 4), seconds: seconds.min(u64::MAX / 4) })
    }
}

/// e^-x for x from 0 on, by sums and products alone: the result of a machine's own library may differ in the last
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

/// Number of parts of one change.
const PARTS: f64 = 256.0;

/// Weight of the site's estimate, in changes. Sites have pages of all kinds, so not many.
const WEIGHT: f64 = 0.5;

/// After this number of visits the counts are halved.
const VISITS_MAX: u8 = 32;

/// Maximum number of changes counted for one visit.
const CHANGES_PER_VISIT_MAX: f64 = 1_000.0;

/// Ten years.
const SECONDS_MAX: u32 = 10 * 365 * 86_400;

/// A million pages for a year.
const SITE_SECONDS_MAX: u64 = 1_000_000 * 365 * 86_400;
