//! The outbox: when parcels leave, which pages wait for them, and that a lost acknowledgement costs nothing.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::job::JobId;
use crate::refusal::Refusal;
use crate::url::CrawlUrl;
use crate::want::Want;

const SECRET: Secret = Secret([7; 16]);

fn link(n: u64) -> OfferedUrl {
    link_as(n, want())
}

fn want() -> Want {
    Want::of(JobId(1)).at(1)
}

fn link_as(n: u64, want: Want) -> OfferedUrl {
    let url = CrawlUrl::parse(&format!("http://h{}.test/{n}", n % 3)).unwrap();
    OfferedUrl::new(&url, want, &SECRET)
}

fn urgent(n: u64) -> OfferedUrl {
    link_as(n, Want { priority: URGENT, ..want() })
}

fn outbox() -> Outbox {
    outbox_of(Settings { parcel_bytes: 1_000, waiting_bytes_max: 4_000, ..Settings::default() })
}

fn outbox_of(settings: Settings) -> Outbox {
    Outbox::new(settings, NodeId(1), SECRET, 77)
}

fn links_of(parcel: &Parcel) -> Vec<OfferedUrl> {
    match Message::decode(&parcel.bytes, &SECRET).unwrap() {
        Message::Offers { offers, .. } => offers,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_link_waits_until_it_is_old_enough() {
    let mut outbox = outbox();
    assert_eq!(outbox.push(100, 4, link(1), 1), Pushed::Taken);
    assert_eq!(outbox.push(900, 4, link(2), 1), Pushed::Taken);
    assert_eq!((outbox.poll(1_099), outbox.poll_timeout()), (None, Some(1_100)));
    let parcel = outbox.poll(1_100).unwrap();
    assert_eq!((parcel.partition, parcel.pages, links_of(&parcel).len()), (4, 1, 2));
    assert_eq!((outbox.poll(9_000), outbox.poll_timeout()), (None, None), "one is on its way");
}

/// Pages of 100 links, 20 a second for this long, to two destinations. Returns the parcels that left and the end.
fn busy_for(outbox: &mut Outbox, from: u64, millis: u64) -> (Vec<Parcel>, u64) {
    let mut parcels = Vec::new();
    for now in (from..from + millis).step_by(50) {
        for n in 0..100 {
            // Two of them are new.
            let link = link(if n < 2 { now * 100 + n } else { n });
            outbox.push(now, (n % 2) as u32, link, now);
        }
        outbox.finish(now);
        while let Some(parcel) = outbox.poll(now) {
            outbox.handle_acked(now, parcel.id);
            parcels.push(parcel);
        }
        while outbox.poll_safe().is_some() {}
    }
    (parcels, from + millis)
}

#[test]
fn small_parcels_of_a_busy_node_wait_longer_and_leave_soon_once_it_is_idle() {
    let mut outbox = outbox_of(Settings::default());
    let (_, now) = busy_for(&mut outbox, 0, 2_000);
    let (parcels, now) = busy_for(&mut outbox, now, 24_000);
    assert!((6..=12).contains(&parcels.len()), "{} parcels in 24 s to two destinations", parcels.len());
    // No more links come. A caller that sleeps as told sends the waiting links within the usual time and the window.
    let mut clock = now;
    while outbox.pages() > 0 {
        clock = outbox.poll_timeout().expect("something waits").max(clock);
        while let Some(parcel) = outbox.poll(clock) {
            outbox.handle_acked(clock, parcel.id);
        }
    }
    assert!(clock <= now + PACE_WINDOW + 1_000, "{} ms", clock - now);
}

#[test]
fn while_a_partition_is_handed_over_small_parcels_do_not_wait_longer() {
    let mut outbox = outbox_of(Settings::default());
    let (_, now) = busy_for(&mut outbox, 0, 4_000);
    outbox.hurry(now);
    let (parcels, now) = busy_for(&mut outbox, now, 8_000);
    assert!(parcels.len() >= 12, "{} parcels in 8 s to two destinations", parcels.len());
    let (_, now) = busy_for(&mut outbox, now, 8_000);
    let (parcels, _) = busy_for(&mut outbox, now, 12_000);
    assert!(parcels.len() <= 8, "{} parcels in 12 s to two destinations", parcels.len());
}

#[test]
fn when_many_pages_wait_small_parcels_do_not() {
    let mut outbox = outbox_of(Settings::default());
    let (_, now) = busy_for(&mut outbox, 0, 4_000);
    // Each page waits for the same small parcel.
    outbox.push(now, 9, link(1_000_001), 1_000_000);
    for page in 0..PAGES_MANY as u64 {
        outbox.push(now, 9, link(1_000_001), 1_000_000 + page);
    }
    outbox.push(now + 10, 9, link(1_000_001), 1);
    let at = outbox.poll_timeout().unwrap();
    assert!(at <= now + 1_000, "it leaves after the usual time");
    let parcels: Vec<Parcel> = std::iter::from_fn(|| outbox.poll(now + 1_000)).collect();
    assert!(parcels.iter().any(|parcel| parcel.partition == 9 && parcel.pages > PAGES_MANY));
}

#[test]
fn a_destination_that_lags_is_sent_a_parcel_now_and_then_until_it_keeps_up() {
    let mut outbox = outbox();
    outbox.set_slow(0, &BTreeSet::from([4]));
    let (mut page, mut parcels, mut full) = (0, 0, 0);
    // Links come all the time, for it and for another.
    for now in (0..40_000).step_by(50) {
        page += 1;
        full += usize::from(outbox.push(now, 4, link(page), page) == Pushed::Full);
        assert_ne!(outbox.push(now, 5, link(page + 1_000_000), page), Pushed::Full);
        outbox.finish(page);
        while let Some(parcel) = outbox.poll(now) {
            parcels += usize::from(parcel.partition == 4);
            outbox.handle_acked(now, parcel.id);
        }
    }
    assert!((9..=10).contains(&parcels), "{parcels} parcels in 40 s");
    assert!(full > 0, "who has more waits");
    outbox.set_slow(40_000, &BTreeSet::new());
    let parcel = std::iter::from_fn(|| outbox.poll(40_000)).find(|parcel| parcel.partition == 4);
    assert!(parcel.is_some(), "it keeps up again");
    outbox.handle_acked(40_000, parcel.unwrap().id);
    // Urgent links leave at once all the same.
    outbox.set_slow(40_000, &BTreeSet::from([4]));
    outbox.push(40_001, 4, urgent(9_999_999), 1);
    assert!(std::iter::from_fn(|| outbox.poll(40_001)).any(|parcel| parcel.partition == 4));
}

#[test]
fn an_urgent_link_leaves_at_once_and_takes_those_before_it_along() {
    let mut outbox = outbox();
    outbox.push(0, 4, link(1), 1);
    assert_eq!(outbox.push(5, 4, urgent(2), 1), Pushed::Taken);
    assert_eq!(links_of(&outbox.poll(5).unwrap()).len(), 2);
    // Taken again although sent a moment ago: a caller wants the URL now.
    assert_eq!(outbox.push(6, 4, urgent(2), 1), Pushed::Taken);
}

#[test]
fn a_full_parcel_leaves_at_once_and_the_next_waits_for_it() {
    let mut outbox = outbox();
    let sent = (0..).take_while(|&n| {
        outbox.poll_timeout() != Some(50) && {
            assert_eq!(outbox.push(50, 4, link(n), 1), Pushed::Taken);
            true
        }
    });
    assert!((5..20).contains(&sent.count()));
    let parcel = outbox.poll(50).unwrap();
    for n in 100..120 {
        outbox.push(50, 4, link(n), 2);
    }
    assert_eq!(outbox.poll(10_000), None);
    outbox.handle_acked(10_000, parcel.id);
    assert!(outbox.poll(10_000).is_some_and(|next| next.id > parcel.id));
}

#[test]
fn a_page_is_safe_when_its_last_parcel_is_acknowledged() {
    let mut outbox = outbox();
    outbox.push(0, 4, link(1), 1);
    outbox.push(0, 5, link(2), 1);
    outbox.finish(1);
    let (first, second) = (outbox.poll(2_000).unwrap(), outbox.poll(2_000).unwrap());
    outbox.handle_acked(2_000, second.id);
    assert_eq!(outbox.poll_safe(), None);
    outbox.handle_acked(2_000, first.id);
    assert_eq!(
        (outbox.poll_safe(), outbox.poll_safe(), outbox.pages(), outbox.bytes()),
        (Some(1), None, 0, 0)
    );
    outbox.handle_acked(2_000, first.id);
    outbox.finish(2);
    assert_eq!(outbox.poll_safe(), Some(2), "it named nobody else's pages");
}

#[test]
fn a_page_is_not_safe_before_it_is_finished() {
    let mut outbox = outbox();
    outbox.push(0, 4, link(1), 1);
    let parcel = outbox.poll(2_000).unwrap();
    outbox.handle_acked(2_000, parcel.id);
    assert_eq!(outbox.poll_safe(), None);
    outbox.finish(1);
    assert_eq!(outbox.poll_safe(), Some(1));
}

#[test]
fn a_page_whose_link_was_dropped_waits_for_the_parcel_that_carries_it() {
    let mut outbox = outbox();
    outbox.push(0, 4, link(1), 1);
    outbox.finish(1);
    assert_eq!(outbox.push(10, 4, link(1), 2), Pushed::Recent);
    outbox.finish(2);
    let parcel = outbox.poll(2_000).unwrap();
    assert_eq!(outbox.push(2_000, 4, link(1), 3), Pushed::Recent, "it is on its way");
    outbox.finish(3);
    assert_eq!(outbox.poll_safe(), None);
    outbox.handle_acked(2_100, parcel.id);
    let safe: BTreeSet<u64> = std::iter::from_fn(|| outbox.poll_safe()).collect();
    assert_eq!(safe, [1, 2, 3].into());
    assert_eq!(outbox.push(2_200, 4, link(1), 4), Pushed::Recent, "it has arrived");
    outbox.finish(4);
    assert_eq!(outbox.poll_safe(), Some(4));
}

#[test]
fn another_job_and_another_verdict_are_another_link() {
    let mut outbox = outbox();
    outbox.push(0, 4, link(1), 1);
    assert_eq!(outbox.push(0, 4, link_as(1, Want::of(JobId(2)).at(1)), 1), Pushed::Taken);
    let refused = link_as(1, Want { refusal: Some(Refusal::Depth), ..want() });
    assert_eq!(outbox.push(0, 4, refused.clone(), 1), Pushed::Taken);
    assert_eq!(outbox.push(0, 4, refused, 1), Pushed::Recent);
}

#[test]
fn what_is_sent_again_has_the_same_number_and_bytes() {
    let mut outbox = outbox();
    outbox.push(0, 4, link(1), 1);
    let parcel = outbox.poll(1_000).unwrap();
    outbox.push(1_000, 4, link(2), 2);
    outbox.handle_failed(1_000, parcel.id);
    assert_eq!(outbox.poll(1_000 + AGAIN_AFTER - 1), None);
    let again = outbox.poll(1_000 + AGAIN_AFTER).unwrap();
    assert_eq!((again.id, &again.bytes), (parcel.id, &parcel.bytes));
    outbox.handle_failed(2_000, again.id);
    assert_eq!(outbox.poll_timeout(), Some(2_000 + 2 * AGAIN_AFTER));
    assert_eq!(outbox.stats().again, 2);
}

#[test]
fn a_slow_destination_holds_back_those_that_feed_it_and_nobody_else() {
    let mut outbox = outbox();
    let taken = (0..1_000).take_while(|&n| outbox.push(0, 4, link(n), 1) == Pushed::Taken).count();
    assert!((10..60).contains(&taken) && outbox.is_full(4) && !outbox.is_full(5), "{taken} were taken");
    assert_eq!(outbox.push(0, 4, link(0), 2), Pushed::Recent, "what is there already needs no room");
    assert_eq!(outbox.push(0, 5, link(5_000), 1), Pushed::Taken);
    while outbox.is_full(4) {
        let parcel = outbox.poll(0).unwrap();
        outbox.handle_acked(0, parcel.id);
    }
    assert_eq!(outbox.push(0, 4, link(6_000), 1), Pushed::Taken);
}

#[test]
fn a_page_that_is_forgotten_is_never_called_safe() {
    let mut outbox = outbox();
    outbox.push(0, 4, link(1), 1);
    outbox.push(0, 4, link(2), 2);
    outbox.finish(1);
    outbox.finish(2);
    outbox.forget(1);
    let parcel = outbox.poll(5_000).unwrap();
    assert_eq!((parcel.pages, links_of(&parcel).len()), (1, 2));
    outbox.handle_acked(5_000, parcel.id);
    assert_eq!((outbox.poll_safe(), outbox.poll_safe()), (Some(2), None));
}

#[derive(Clone, Debug)]
enum Step {
    Push { link: u64, page: u64 },
    Finish(u64),
    Send,
    Ack(prop::sample::Index),
    Fail(prop::sample::Index),
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..40, 0u64..10).prop_map(|(link, page)| Step::Push { link, page }),
        1 => (0u64..10).prop_map(Step::Finish),
        2 => Just(Step::Send),
        2 => any::<prop::sample::Index>().prop_map(Step::Ack),
        1 => any::<prop::sample::Index>().prop_map(Step::Fail),
        1 => (0u64..2_000).prop_map(Step::Wait),
    ]
}

proptest! {
    /// With any loss and repetition: a page is safe only if all its links were stored, one parcel at a time, and in
    /// the end every page is safe.
    #[test]
    fn a_safe_page_has_everything_in_the_inboxes(steps in proptest::collection::vec(any_step(), 1..200)) {
        let settings = Settings { parcel_bytes: 700, waiting_bytes_max: 2_000, recent_max: 16, ..Settings::default() };
        let mut outbox = outbox_of(settings);
        let mut now = 0;
        let mut named: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let (mut finished, mut stored, mut safe) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut seen: BTreeMap<u128, Bytes> = BTreeMap::new();
        let mut on_their_way: Vec<Parcel> = Vec::new();
        for step in steps {
            match step {
                Step::Push { link: n, page } if !finished.contains(&page) => {
                    if outbox.push(now, (n % 3) as u32, link(n), page) != Pushed::Full {
                        named.entry(page).or_default().insert(n);
                    }
                }
                Step::Push { .. } => {}
                Step::Finish(page) => {
                    if finished.insert(page) {
                        outbox.finish(page);
                    }
                }
                Step::Send => {
                    if let Some(parcel) = outbox.poll(now) {
                        prop_assert!(on_their_way.iter().all(|other| other.partition != parcel.partition));
                        let bytes = seen.entry(parcel.id).or_insert_with(|| parcel.bytes.clone());
                        prop_assert_eq!(&*bytes, &parcel.bytes);
                        on_their_way.push(parcel);
                    }
                }
                Step::Ack(at) if !on_their_way.is_empty() => {
                    let parcel = on_their_way.swap_remove(at.index(on_their_way.len()));
                    stored.extend(links_of(&parcel).iter().map(|link| link.key));
                    outbox.handle_acked(now, parcel.id);
                }
                Step::Fail(at) if !on_their_way.is_empty() => {
                    let parcel = on_their_way.swap_remove(at.index(on_their_way.len()));
                    outbox.handle_failed(now, parcel.id);
                }
                Step::Ack(_) | Step::Fail(_) => {}
                Step::Wait(ms) => now += ms,
            }
            prop_assert!(outbox.bytes() <= 3 * (2_000 + 300));
            while let Some(page) = outbox.poll_safe() {
                let missing = named.get(&page).into_iter().flatten().filter(|n| !stored.contains(&link(**n).key));
                prop_assert_eq!(missing.count(), 0, "page {}", page);
                prop_assert!(finished.contains(&page) && safe.insert(page));
            }
        }
        for page in 0..10 {
            if finished.insert(page) {
                outbox.finish(page);
            }
        }
        on_their_way.iter().for_each(|parcel| outbox.handle_failed(now, parcel.id));
        while let Some(at) = outbox.poll_timeout() {
            let parcel = outbox.poll(at).unwrap();
            outbox.handle_acked(at, parcel.id);
        }
        safe.extend(std::iter::from_fn(|| outbox.poll_safe()));
        prop_assert_eq!((safe, outbox.pages(), outbox.bytes()), ((0..10).collect(), 0, 0));
    }
}
