//! Checks that every queue and table stays within its bound: the frontier's gauges against its settings, and the
//! frontier's count of open tickets against our own count.

use nephila_core::frontier::errand::ERRANDS_MAX;
use nephila_core::frontier::{Gauges, Settings};

use crate::{Checker, Violation};

/// Entries that a group may hold beside one for each open ticket and one for each URL loaded in memory: commands of the
/// operator, discoveries.
const ENTRIES_BESIDE: usize = 4_096;

/// Bytes that one host may take on the workbench, without its URLs.
const HOST_BYTES: usize = 8_192;

/// Open work, as counted by the simulation.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Tickets that were given out and have neither been reported nor expired.
    pub tickets: usize,
    /// Name lookups without an answer yet.
    pub resolves: usize,
    /// The most offers that wait in one partition.
    pub offers: usize,
}

/// Checks all bounds.
pub fn check(settings: &Settings, gauges: &Gauges, counted: Counted) -> Result<(), Violation> {
    under("hosts at hand", gauges.hosts_active - gauges.guests, settings.hosts_active_max)?;
    under("hosts at hand for others", gauges.guests, ERRANDS_MAX)?;
    under("errands", gauges.errands, ERRANDS_MAX)?;
    under("open tickets", gauges.tickets_open, settings.tickets_open_max)?;
    under("names being resolved", counted.resolves, settings.resolves_open_max)?;
    under("offers waiting", counted.offers, settings.offers_max)?;
    let bytes = (settings.hosts_active_max + gauges.guests) * (HOST_BYTES + settings.visit_bytes_max);
    under("bytes of the bench", gauges.bench_bytes, bytes.max(1 << 18))?;
    if gauges.tickets_open != counted.tickets {
        let what = format!("{} tickets are open, it counts {}", counted.tickets, gauges.tickets_open);
        return Err(Violation::new(Checker::Liveness, what));
    }
    Ok(())
}

/// Checks the number of entries of one group.
pub fn check_group(settings: &Settings, entries: usize) -> Result<(), Violation> {
    let at_hand = settings.hosts_active_max.saturating_mul(settings.visit_urls_max);
    under("entries in a group", entries, settings.tickets_open_max + at_hand + ENTRIES_BESIDE)
}

fn under(what: &str, is: usize, max: usize) -> Result<(), Violation> {
    if is <= max {
        return Ok(());
    }
    Err(Violation::new(Checker::Bounds, format!("{what}: {is}, at most {max} are allowed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_offer_too_many_is_noticed() {
        let settings = Settings { offers_max: 3, ..Settings::default() };
        let counted = |offers| Counted { tickets: 0, resolves: 0, offers };
        check(&settings, &Gauges::default(), counted(3)).unwrap();
        assert_eq!(check(&settings, &Gauges::default(), counted(4)).unwrap_err().checker, Checker::Bounds);
    }
}
