//! The guarantees of the shelf, in virtual time.

use std::collections::HashSet;
use std::time::Duration;

use super::*;

const ONE: Limits = Limits { host: 1, slot: 1 };

fn slot(number: u8) -> Option<SlotKey> {
    Some(SlotKey::of([127, 1, 1, number].into()))
}

#[tokio::test(start_paused = true)]
async fn fin_09_no_host_holds_up_another_whatever_the_order_of_the_list() {
    let shelf = Shelf::new(ONE);
    // 50 hosts of 100 URLs each, one host after the other, as the list of a site map is.
    for number in 0..5_000u64 {
        assert!(shelf.put(number, &format!("http://h{}.test/{number}", number / 100)).unwrap());
    }
    shelf.end();
    let (began, mut seen) = (Instant::now(), HashSet::new());
    let mut first = HashSet::new();
    // Two workers' worth of time: each fetch takes no time, each host rests for a second.
    while let Some(taken) = shelf.next().await.unwrap() {
        if began.elapsed() < Duration::from_secs(1) {
            first.insert(taken.host.clone());
        }
        assert!(seen.insert(taken.number), "once");
        let taken = shelf.at(taken, slot(7)).expect("nobody else asks this address");
        shelf.done(&taken, Instant::now() + Duration::from_secs(1), Instant::now());
    }
    assert_eq!(seen.len(), 5_000);
    assert_eq!(first.len(), 50, "all hosts are asked in the first second");
    assert!(began.elapsed() < Duration::from_secs(102), "{:?}", began.elapsed());
    assert_eq!(shelf.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn fin_09_hosts_of_one_address_wait_on_the_shelf_and_hold_no_worker() {
    let shelf = Shelf::new(ONE);
    for number in 0..10u64 {
        shelf.put(number, &format!("http://shared{number}.test/")).unwrap();
    }
    shelf.put(10, "http://alone.test/").unwrap();
    shelf.end();
    let first = shelf.next().await.unwrap().unwrap();
    let first = shelf.at(first, slot(1)).expect("nobody asks it yet");
    // One more worker passes all other hosts without waiting, and finds the one that is alone.
    let mut alone = None;
    while let Ok(taken) = tokio::time::timeout(Duration::from_millis(1), shelf.next()).await {
        let taken = taken.unwrap().unwrap();
        let address = if &*taken.host == "alone.test" { slot(2) } else { slot(1) };
        alone = alone.or(shelf.at(taken, address));
    }
    let alone = alone.expect("it was found");
    assert_eq!(&*alone.host, "alone.test");
    shelf.done(&alone, Instant::now(), Instant::now());
    let mut starts = Vec::new();
    let mut open = Some(first);
    while let Some(taken) = open.take() {
        starts.push(Instant::now());
        shelf.done(&taken, Instant::now(), Instant::now() + Duration::from_secs(1));
        open = shelf.next().await.unwrap();
    }
    assert_eq!(starts.len(), 10);
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_secs(1)), "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn fin_09_a_long_list_lies_in_files_and_comes_back_whole_and_in_order() {
    let shelf = Shelf::new(ONE);
    // One host with far more URLs than fit in memory, and many others behind it.
    for number in 0..20_000u64 {
        shelf.put(number, &format!("http://large.test/{number}")).unwrap();
    }
    for number in 20_000..20_500u64 {
        shelf.put(number, &format!("http://small{number}.test/")).unwrap();
    }
    assert!(shelf.inner().held < 1_000, "{}", shelf.inner().held);
    shelf.end();
    let (mut large, mut small) = (Vec::new(), 0);
    while let Some(taken) = shelf.next().await.unwrap() {
        match &*taken.host {
            "large.test" => large.push(taken.number),
            _ => small += 1,
        }
        shelf.done(&taken, Instant::now(), Instant::now());
    }
    assert_eq!((large, small), (Vec::from_iter(0..20_000), 500));
}
