//! 20,000 pages that change hourly to never, visited for 21 virtual days with the same number of fetches under each
//! policy. The time after the first week counts: the share of pages whose copies are current, and the delay from a
//! change to its capture.

// The figures are worth seeing.
#![allow(clippy::disallowed_macros)]

use std::collections::BTreeSet;

use super::*;
use crate::chance::Chance;

const PAGES: usize = 20_000;
const SITES: usize = 200;
const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;
const END: u64 = 21 * DAY;
const COUNTED_FROM: u64 = 7 * DAY;
const TICK: u64 = 600;
/// Each page once a day, on average.
const FETCHES_PER_TICK: usize = PAGES * TICK as usize / DAY as usize;

/// A page: the mean time between its changes (0 for never), and when the page changes.
struct Page {
    gap: u64,
    changes: Vec<u32>,
}

fn web() -> Vec<Page> {
    let mut chance = Chance(7);
    (0..PAGES)
        .map(|n| {
            // Hourly to never. Pages of one site are somewhat alike.
            let kinds = [HOUR, 3 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY, 30 * DAY, 90 * DAY, 0];
            let at = if chance.next().is_multiple_of(2) { (n % SITES) as u64 } else { chance.next() };
            let share = [0, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 8, 8, 8];
            let gap = kinds[share[(at % 20) as usize]];
            let mut changes = Vec::new();
            let mut time = if gap > 0 { chance.wait(gap) } else { END };
            while time < END {
                changes.push(time as u32);
                time += chance.wait(gap);
            }
            Page { gap, changes }
        })
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Plan {
    Fixed,
    Adaptive,
    Oracle,
}

#[derive(Debug)]
struct Figures {
    fetches: u64,
    current: f64,
    delay_median: u64,
}

fn run(web: &[Page], plan: Plan) -> Figures {
    let settings = Settings { interval_min: hours(1) / 6, ..adaptive() };
    let mut price = settings.price_first();
    let mut seen = vec![(Seen::default(), 0u64); PAGES];
    let mut sites = vec![Site::default(); SITES];
    // All were fetched at the start; the first visits are spread over a day.
    let mut due: BTreeSet<(u64, usize)> =
        (0..PAGES).map(|page| (page as u64 * DAY / PAGES as u64, page)).collect();
    let (mut fetches, mut stale) = (0, 0);
    let mut delays = Vec::new();
    for now in (0..END).step_by(TICK as usize) {
        for _ in 0..FETCHES_PER_TICK {
            // The first due page comes first, early if none is due yet: every policy makes as many fetches.
            let (_, page) = due.pop_first().expect("every page has a time");
            let (history, last) = &mut seen[page];
            let changes = &web[page].changes;
            let from = changes.partition_point(|at| u64::from(*at) <= *last);
            let to = changes.partition_point(|at| u64::from(*at) <= now);
            if from < to {
                let since = u64::from(changes[from]).max(COUNTED_FROM);
                stale += now.saturating_sub(since);
                let counted =
                    changes[from..to].iter().map(|at| u64::from(*at)).filter(|at| *at >= COUNTED_FROM);
                delays.extend(counted.map(|at| now - at));
            }
            let site = &mut sites[page % SITES];
            if now > *last {
                history.handle_visit(Duration::from_secs(now - *last), from < to, site);
            }
            *last = now;
            fetches += 1;
            let wait = match plan {
                Plan::Fixed => DAY,
                Plan::Adaptive => interval(&settings, history, site, price).unwrap().as_secs(),
                Plan::Oracle => {
                    let rate = if web[page].gap == 0 { 0.0 } else { 1.0 / web[page].gap as f64 };
                    let bounds = (settings.interval_min.as_secs_f64(), settings.interval_max.as_secs_f64());
                    best_interval(rate, price).clamp(bounds.0, bounds.1) as u64
                }
            };
            due.insert((now + wait.max(1), page));
        }
        // More is due than could be done: dearer. Nothing is due: cheaper.
        let head = due.first().expect("every page has a time").0;
        price = if head < now { price_next(price, 1.01, 1.0) } else { price_next(price, 0.99, 1.0) };
    }
    for (page, (_, last)) in web.iter().zip(&seen) {
        let from = page.changes.partition_point(|at| u64::from(*at) <= *last);
        if let Some(first) = page.changes.get(from) {
            stale += END - u64::from(*first).max(COUNTED_FROM);
            delays.extend(
                page.changes[from..]
                    .iter()
                    .map(|at| u64::from(*at))
                    .filter(|at| *at >= COUNTED_FROM)
                    .map(|at| END - at),
            );
        }
    }
    delays.sort_unstable();
    let watched = (END - COUNTED_FROM) * PAGES as u64;
    Figures { fetches, current: 1.0 - stale as f64 / watched as f64, delay_median: delays[delays.len() / 2] }
}

#[test]
fn adaptive_visits_keep_more_pages_current_and_find_changes_sooner() {
    let web = web();
    let [fixed, adaptive, oracle] = [Plan::Fixed, Plan::Adaptive, Plan::Oracle].map(|plan| run(&web, plan));
    for (name, figures) in [("fixed", &fixed), ("adaptive", &adaptive), ("oracle", &oracle)] {
        let (current, delay) = (100.0 * figures.current, figures.delay_median / 60);
        println!("{name:<9} {} fetches, {current:.1} % current, median delay {delay} min", figures.fetches);
    }
    assert!(fixed.fetches == adaptive.fetches && fixed.fetches == oracle.fetches);
    assert!(adaptive.current >= 0.8 * oracle.current, "{adaptive:?} {oracle:?}");
    assert!(adaptive.current >= fixed.current, "{adaptive:?} {fixed:?}");
    assert!(adaptive.delay_median as f64 * 1.5 <= fixed.delay_median as f64, "{adaptive:?} {fixed:?}");
}
