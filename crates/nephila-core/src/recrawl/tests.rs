//! The estimate, the plan, and a web of 20,000 pages whose changes are known.

mod web;

use proptest::prelude::*;

use super::*;
use crate::codec::Reader;

fn hours(hours: u64) -> Duration {
    Duration::from_secs(3_600 * hours)
}

fn adaptive() -> Settings {
    Settings { policy: Policy::Adaptive, ..Settings::default() }
}

/// A page that changes by chance after this gap, seen by 40 visits at this interval: the estimated gap in hours.
fn estimated(gap: u64, interval: u64, number: u64) -> u64 {
    let (mut page, mut site) = (Seen::default(), Site::default());
    let mut chance = crate::chance::Chance(number);
    let (mut now, mut next) = (0, chance.wait(gap * 3_600));
    for _ in 0..40 {
        let before = now;
        now += interval * 3_600;
        let mut changed = false;
        while next <= now {
            changed = true;
            next += chance.wait(gap * 3_600);
        }
        page.handle_visit(Duration::from_secs(now - before), changed, &mut site);
    }
    page.gap(&site).as_secs() / 3_600
}

#[test]
fn the_estimate_comes_near_the_truth() {
    for (gap, interval) in [(10, 5), (24, 24), (24, 6), (100, 24), (500, 24), (48, 48)] {
        // The median of several pages, since one may be lucky.
        let mut gaps: Vec<u64> = (0..15).map(|n| estimated(gap, interval, n)).collect();
        gaps.sort_unstable();
        let got = gaps[7];
        assert!(
            (gap / 2..=gap * 2).contains(&got),
            "changes each {gap} h, visited each {interval} h: {got} h"
        );
    }
}

#[test]
fn a_page_that_changes_at_every_visit_is_visited_sooner_and_one_that_never_does_later() {
    let settings = adaptive();
    let price = settings.price_first();
    for changes in [true, false] {
        let (mut page, mut site) = (Seen::default(), Site::default());
        let first = interval(&settings, &page, &site, price).unwrap();
        for _ in 0..30 {
            let wait = interval(&settings, &page, &site, price).unwrap();
            page.handle_visit(wait, changes, &mut site);
        }
        let last = interval(&settings, &page, &site, price).unwrap();
        assert!(
            if changes { last < first / 2 } else { last > first * 3 },
            "{changes}: {first:?} to {last:?}"
        );
    }
}

#[test]
fn a_new_page_is_taken_for_one_of_its_site() {
    let settings = adaptive();
    let price = settings.price_first();
    let plan = |changes: bool| {
        let mut site = Site::default();
        for _ in 0..50 {
            let mut page = Seen::default();
            page.handle_visit(hours(24), changes, &mut site);
        }
        interval(&settings, &Seen::default(), &site, price).unwrap()
    };
    assert!(plan(true) * 3 < plan(false), "{:?} {:?}", plan(true), plan(false));
}

#[test]
fn the_visits_of_a_day_fill_it() {
    for visits in [1, 7, 48, 9_999, 10_000, 50_000, 86_400] {
        let takes = Settings { host_visits_per_day: visits, ..adaptive() }.host_visit_seconds();
        assert!(takes * visits >= 86_400 && (takes - 1) * visits < 86_400, "{visits}: {takes} s each");
    }
    assert_eq!(Settings { host_visits_per_day: 0, ..adaptive() }.host_visit_seconds(), 0);
}

#[test]
fn once_is_never_again_and_fixed_is_fixed() {
    let (page, site) = (Seen::default(), Site::default());
    let of = |policy| interval(&Settings { policy, ..Settings::default() }, &page, &site, 1.0);
    assert_eq!((of(Policy::Once), of(Policy::Fixed)), (None, Some(hours(24))));
}

#[test]
fn the_price_follows_the_need() {
    assert_eq!(price_next(100.0, 10.0, 10.0), 100.0);
    assert_eq!(price_next(100.0, 15.0, 10.0), 150.0);
    assert_eq!(price_next(100.0, 1_000.0, 10.0), 200.0);
    assert_eq!(price_next(100.0, 1.0, 10.0), 50.0);
    assert_eq!(price_next(100.0, 0.0, 0.0), 100.0);
}

proptest! {
    #[test]
    fn our_exponential_is_the_exponential(x in 0.0f64..50.0) {
        let want = (-x).exp();
        prop_assert!((rate::exp_neg(x) - want).abs() <= want * 1e-9 + 1e-300);
    }

    #[test]
    fn the_best_interval_gains_its_price(rate in 1e-8f64..1e-3, price in 1.0f64..1e6) {
        let wait = best_interval(rate, price);
        prop_assert!(wait > 0.0 && wait.is_finite());
        if rate * price <= SHARE_MAX {
            prop_assert!((gain(rate, wait) / price - 1.0).abs() < 1e-6, "{} {}", gain(rate, wait), price);
        }
        // Dearer visits are rarer.
        prop_assert!(best_interval(rate, price * 1.5) >= wait);
    }

    #[test]
    fn any_visits_give_a_wait_within_bounds_and_are_stored(
        visits in prop::collection::vec((any::<u32>(), any::<bool>()), 0..100),
        price in 0.0f64..1e9,
    ) {
        let (mut page, mut site) = (Seen::default(), Site::default());
        let settings = adaptive();
        for (seconds, changed) in visits {
            page.handle_visit(Duration::from_secs(u64::from(seconds)), changed, &mut site);
            let wait = interval(&settings, &page, &site, price).unwrap();
            prop_assert!(wait >= settings.interval_min && wait <= settings.interval_max);
            let mut bytes = Vec::new();
            page.put(&mut bytes);
            site.put(&mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Seen::read(&mut reader), Ok(page));
            prop_assert_eq!(Site::read(&mut reader), Ok(site));
        }
    }
}
