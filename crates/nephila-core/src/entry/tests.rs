//! Entries as bytes: entries survive a round trip, damaged bytes are refused, and old versions are still read.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::feed::record::NewStory;
use crate::handler::ReadAs;
use crate::job::{Hops, Via};
use crate::recrawl::rate::Visit;
use crate::recrawl::trust::{Ask, VisitResult as Seen};
use crate::state::Position;
use crate::state::record::{RobotsPolicy, RobotsRecord, Unread};

/// One group with every kind of entry, as version 1 writes it.
const GOLDEN: &[u8] = include_bytes!("../../tests/golden/group-v1.bin");

/// One group with the additions of version 2.
const GOLDEN_2: &[u8] = include_bytes!("../../tests/golden/group-v2.bin");

/// One group with the additions of version 3.
const GOLDEN_3: &[u8] = include_bytes!("../../tests/golden/group-v3.bin");

/// Path of one group with the additions of version 4.
const GOLDEN_4: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/group-v4.bin");

/// The position of the golden group in its log.
const GOLDEN_BEHIND: Position = Position { sequence: 299, chain: 0x0123_4567_89ab_cdef };

fn host(domain: u64, host: u32) -> HostKey {
    HostKey { domain: DomainKey(domain), host }
}

fn place(band: u8, age: u32, low: u32) -> QueueKey {
    QueueKey { band, age: Seconds(age), low }
}

fn found(path: u64, text: &str, admission: Admission) -> FoundUrl {
    found_as(path, text, admission, Want::of(JobId(3)).at(2))
}

fn found_as(path: u64, text: &str, admission: Admission, want: Want) -> FoundUrl {
    FoundUrl { path, text: text.into(), want, admission }
}

/// One of every kind, each field with a value of its own.
fn every_kind() -> Group {
    let key = host(0x1122_3344_5566_7788, 0x99aa_bbcc);
    let urls = vec![
        found(0x0a01, "/", Admission::Queue(place(127, 216_950_400, 0x0a01))),
        found(0x0a02, "/caf\u{e9}", Admission::Queue(place(127, 216_950_400, 0x0a02))),
        found(0x0a03, "/caf\u{e8}?a=1", Admission::Park(place(255, 9, 8))),
        found_as(0x0a04, "", Admission::ParkBare, Want { hits: 300, depth: 2, ..Want::of(JobId(70_000)) }),
        found(0x0a05, "/unparked", Admission::Unpark(place(1, 2, 3))),
        found_as(
            0x0a06,
            "/urgent",
            Admission::Raise(place(0, 4, 5)),
            Want { depth: 255, priority: 0, ..Want::of(JobId(3)) },
        ),
        found(u64::MAX, "/a/a/a/a", Admission::Refuse(Refusal::TrapRepeat)),
    ];
    let later = LaterKey { due: Seconds(216_950_999), path: 7 };
    let ended = Ended {
        key: UrlKey { host: key, path: 0x0a01 },
        text: "/".into(),
        fetch: 1 << 40 | 5,
        at: Seconds(216_950_401),
        outcome: Outcome::Fetched,
        status: 200,
        digest: 0xfeed,
        simhash: 0,
        bytes: 0,
        shapes: [11, 12],
        alike_max: 20,
        etag: "\"v1\"".into(),
        last_modified: "Sun, 15 Nov 2026 05:00:00 GMT".into(),
        from: Origin::Queue,
        next: Some(Seconds(217_036_800)),
        retries: 1,
        floor: place(127, 216_950_400, 0x0a01),
        later_floor: later,
        rest_until: Timestamp(1_794_787_201_000),
        failures: 2,
    };
    let turned_away = Ended {
        outcome: Outcome::RobotsDenied,
        status: 0,
        digest: 0,
        shapes: [0, 0],
        etag: Box::default(),
        last_modified: Box::default(),
        from: Origin::Parked,
        next: None,
        later_floor: LaterKey::MIN,
        ..ended.clone()
    };
    let robots = RobotsRecord {
        policy: RobotsPolicy::Rules,
        fetched: Seconds(216_950_402),
        expires: Seconds(217_036_802),
        unreachable_since: Seconds(0),
        crawl_delay: 1_500,
        unread: None,
    };
    let read = RobotsRead {
        host: key,
        record: robots,
        body: Some(Box::from(*b"User-agent: *\nDisallow: /x\n")),
        rest_until: Timestamp(0),
        failures: 0,
    };
    let mut job = Job::new(JobId(3), "press");
    job.scope.seeds.push("https://news.example/".into());
    Group {
        epoch: 6,
        entries: vec![
            Entry::Found(FoundUrls {
                at: Seconds(216_950_400),
                hosts: vec![
                    FoundHost { key, origin: Some("https://news.example".into()), displaced: false, urls },
                    FoundHost { key: host(u64::MAX, 1), origin: None, displaced: true, urls: Vec::new() },
                ],
            }),
            Entry::Ended(Box::new(ended.clone())),
            Entry::Ended(Box::new(turned_away)),
            Entry::Ended(Box::new(Ended { from: Origin::Later, ..ended })),
            Entry::Robots(Box::new(read.clone())),
            Entry::Robots(Box::new(RobotsRead { body: None, failures: 3, ..read })),
            Entry::Host(HostChange::Stop(key, "asked to by mail".into())),
            Entry::Host(HostChange::Resume(key)),
            Entry::Host(HostChange::Delay(key, 10_000)),
            Entry::Domain(DomainChange::Budget(key.domain, Some(0))),
            Entry::Domain(DomainChange::Budget(key.domain, None)),
            Entry::Job(Box::new(job)),
            Entry::JobRemoved(JobId(2)),
            Entry::Inbox { name: "links".into(), position: 1_000_000 },
            Entry::Split(Prefixes { first: 0x1000, last: 0x1fff }),
        ],
    }
}

// The bytes outlive us: a log of today is folded by the node of tomorrow.
#[test]
fn a_group_of_version_1_is_read_and_costs_no_byte_more_today() {
    let (group, behind) = open(GOLDEN, GOLDEN_BEHIND).expect("yesterday's bytes are read");
    assert_eq!(group, every_kind());
    assert_eq!(behind.sequence, 300);
    let mut today = GOLDEN.to_vec();
    today[2] = 4;
    assert_eq!(seal(&group, GOLDEN_BEHIND).0, rehashed(today), "only its version differs");
}

/// The additions of version 2, each with a value of its own.
fn version_2() -> Group {
    let mut group = every_kind();
    group.entries.truncate(2);
    if let Entry::Found(found) = &mut group.entries[0] {
        let urls = &mut found.hosts[0].urls;
        (urls[1].want.hops, urls[1].want.read_as) = (Hops::by_code(2), ReadAs::Sitemap);
        // As the one before: not written again.
        (urls[2].want.hops, urls[2].want.read_as) = (Hops::by_code(2), ReadAs::Sitemap);
        urls[4].want.read_as = ReadAs::Feed;
        urls[5].want.hops = Hops::by_code(255);
    }
    if let Entry::Ended(ended) = &mut group.entries[1] {
        ended.bytes = 1_234_567;
    }
    group
}

#[test]
fn a_group_of_version_2_is_read_and_costs_no_byte_more_today() {
    let (group, _) = open(GOLDEN_2, GOLDEN_BEHIND).expect("yesterday's bytes are read");
    assert_eq!(group, version_2());
    let mut today = GOLDEN_2.to_vec();
    today[2] = 4;
    assert_eq!(seal(&group, GOLDEN_BEHIND).0, rehashed(today), "only its version differs");
}

/// The additions of version 3, each with a value of its own.
fn version_3() -> Group {
    let key = host(0x1122_3344_5566_7788, 0x99aa_bbcc);
    let visited = Visited {
        key: UrlKey { host: key, path: 0x0a01 },
        fetch: 1 << 40 | 5,
        visit: Visit { seconds: 86_400, changes: 3 },
        claim: Some((Ask::Head, Seen::Whole { changed: true, same_validators: false })),
        large: Some(true),
        booked: Some(Seconds(216_960_000)),
    };
    let context = EventContext {
        at: Seconds(216_950_401),
        origins: [(key, "https://news.example".into())].into(),
        visits: [(1 << 40 | 5, true), (1 << 40 | 6, false)].into(),
        stories: vec![(1 << 40 | 7, vec![NewStory::new("https://news.example/a", "Caf\u{e9}")])],
    };
    let forward = Forward { host: key, paths: vec![0x0a01, u64::MAX] };
    let entries = vec![
        Entry::Visited(visited),
        Entry::Forward(Box::new(forward)),
        Entry::EventContext(Box::new(context)),
    ];
    Group { epoch: 6, entries }
}

#[test]
fn a_group_of_version_3_is_read_and_costs_no_byte_more_today() {
    let (group, _) = open(GOLDEN_3, GOLDEN_BEHIND).expect("yesterday's bytes are read");
    assert_eq!(group, version_3());
    let mut today = GOLDEN_3.to_vec();
    today[2] = 4;
    assert_eq!(seal(&group, GOLDEN_BEHIND).0, rehashed(today), "only its version differs");
}

/// The addition of version 4: where a URL was found.
fn version_4() -> Group {
    let mut group = every_kind();
    group.entries.truncate(1);
    let page = crate::url::CrawlUrl::parse("https://news.example/front?p=1").unwrap();
    let trail = crate::job::Trail::SEED.hop('L').hop('E');
    if let Entry::Found(found) = &mut group.entries[0] {
        let urls = &mut found.hosts[0].urls;
        urls[0].want.via = Some(Via::seed());
        urls[1].want.via = Some(Arc::new(Via::of(&page, trail, true)));
        // As the one before: not written again.
        urls[2].want.via = urls[1].want.via.clone();
        urls[5].want.via = Some(Arc::new(Via::of(&page, trail.hop('R'), false)));
    }
    group
}

#[test]
fn out_01_a_group_of_version_4_is_read_and_written_as_it_was() {
    let golden = std::fs::read(GOLDEN_4).expect("it is kept with the tests");
    let (bytes, behind) = seal(&version_4(), GOLDEN_BEHIND);
    assert_eq!(bytes, golden);
    assert_eq!(open(&golden, GOLDEN_BEHIND), Ok((version_4(), behind)), "yesterday's bytes are read");
}

#[test]
#[ignore = "writes the golden group anew"]
fn write_golden_4() {
    std::fs::write(GOLDEN_4, seal(&version_4(), GOLDEN_BEHIND).0).unwrap();
}

#[test]
fn out_01_links_of_one_page_share_where_they_were_found() {
    let page = crate::url::CrawlUrl::parse("https://news.example/front?p=1").unwrap();
    let via = Arc::new(Via::of(&page, crate::job::Trail::SEED.hop('L'), true));
    let bytes = |via: Option<&Arc<Via>>| {
        let one = |n: u32| {
            let want = Want { via: via.cloned(), ..Want::of(JobId(3)).at(2) };
            found_as(n.into(), &format!("/{n}"), Admission::Queue(place(127, 216_950_400, n)), want)
        };
        let key = host(1, 2);
        let hosts =
            vec![FoundHost { key, origin: None, displaced: false, urls: (0..100).map(one).collect() }];
        let group = Group { epoch: 1, entries: vec![Entry::Found(FoundUrls { at: Seconds(9), hosts })] };
        seal(&group, GOLDEN_BEHIND).0.len()
    };
    assert_eq!(bytes(Some(&via)) - bytes(None), 12, "for a hundred links: hops, length, /front?p=1");
}

#[test]
fn every_cut_and_every_flipped_bit_is_noticed() {
    for len in 0..GOLDEN.len() {
        assert!(matches!(open(&GOLDEN[..len], GOLDEN_BEHIND), Err(ChainError::Damaged(_))), "cut at {len}");
    }
    let mut bytes = GOLDEN.to_vec();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(open(&bytes, GOLDEN_BEHIND), Err(ChainError::Damaged(_))), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    bytes.push(0);
    assert!(open(&bytes, GOLDEN_BEHIND).is_err(), "a byte too many");
}

/// The bytes with a matching hash: for a reader that must not trust the hash.
fn rehashed(mut body: Vec<u8>) -> Vec<u8> {
    body.truncate(body.len() - 8);
    let hash = xxhash_rust::xxh3::xxh3_64(&body);
    body.extend(hash.to_be_bytes());
    body
}

#[test]
fn clu_20_a_group_that_a_newer_program_wrote_is_told_apart_from_a_damaged_one() {
    let mut newer = GOLDEN.to_vec();
    newer[2] = 9;
    let whole = rehashed(newer.clone());
    assert_eq!(open(&whole, GOLDEN_BEHIND), Err(ChainError::Newer { version: 9 }));
    // A damaged group may only look like a newer one.
    assert!(matches!(open(&newer, GOLDEN_BEHIND), Err(ChainError::Damaged(_))));
    newer[2] = 0;
    assert!(matches!(open(&rehashed(newer), GOLDEN_BEHIND), Err(ChainError::Damaged(_))));
}

#[test]
fn a_damaged_group_under_a_right_hash_is_an_error_and_no_panic() {
    let mut refused = 0;
    for at in 0..GOLDEN.len() - 8 {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = GOLDEN.to_vec();
            bytes[at] = value;
            if let Err(error) = open(&rehashed(bytes), GOLDEN_BEHIND) {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
        let cut = [&GOLDEN[..at], &[0; 8]].concat();
        assert!(open(&rehashed(cut), GOLDEN_BEHIND).is_err(), "cut at {at}");
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn a_group_is_taken_only_where_it_belongs() {
    let group = Group { epoch: 1, entries: vec![Entry::JobRemoved(JobId(1))] };
    let other = Group { epoch: 2, ..group.clone() };
    let (first, after_first) = seal(&group, Position::default());
    let (second, after_second) = seal(&group, after_first);
    let (third, _) = seal(&group, after_second);
    assert_eq!(open(&first, Position::default()).unwrap(), (group.clone(), after_first));
    assert_eq!(open(&second, after_first).unwrap(), (group, after_second));
    assert_eq!(open(&first, after_first), Err(ChainError::Old { sequence: 1 }));
    assert_eq!(open(&first, after_second), Err(ChainError::Old { sequence: 1 }));
    assert_eq!(open(&third, after_first), Err(ChainError::Gap { expected: 2, found: 3 }));
    // Another history: the same number, another first group.
    let (_, after_other) = seal(&other, Position::default());
    assert_ne!(after_other, after_first);
    assert_eq!(open(&second, after_other), Err(ChainError::Forked { sequence: 2 }));
}

#[test]
fn a_link_of_a_site_takes_few_bytes_even_before_compression() {
    let sections =
        ["world/europe", "world/asia", "business/markets", "sport/football", "culture/film-and-television"];
    let mut texts: Vec<String> = (0..1_000u32)
        .map(|i| {
            let (section, day) = (sections[i as usize % sections.len()], 1 + i % 28);
            format!("/2026/11/{day:02}/{section}/the-{}-day-of-a-long-story-{i}.html", i * 7919 % 1_000)
        })
        .collect();
    texts.sort();
    let raw: usize = texts.iter().map(String::len).sum();
    let key = host(1, 1);
    let urls = texts.iter().enumerate().map(|(i, text)| {
        let path = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        found(path, text, Admission::Queue(place(127, 216_950_400, path as u32)))
    });
    let hosts = vec![FoundHost {
        key,
        origin: Some("https://news.example".into()),
        displaced: false,
        urls: urls.collect(),
    }];
    let group =
        Group { epoch: 1, entries: vec![Entry::Found(FoundUrls { at: Seconds(216_950_400), hosts })] };
    let (bytes, behind) = seal(&group, Position::default());
    assert_eq!(open(&bytes, Position::default()).unwrap(), (group, behind));
    // Eleven bytes are key, flags and lengths; the rest is the difference from the URL before.
    let (each, text) = (bytes.len() / 1_000, raw / 1_000);
    assert!(each <= 48 && each * 100 <= text * 75, "{each} bytes a URL, its text has {text}");
}

fn a_place() -> impl Strategy<Value = QueueKey> {
    (any::<u8>(), 0..3u32, any::<u32>()).prop_map(|(band, age, low)| place(band, age, low))
}

fn an_admission() -> impl Strategy<Value = Admission> {
    prop_oneof![
        a_place().prop_map(Admission::Queue),
        a_place().prop_map(Admission::Park),
        Just(Admission::ParkBare),
        a_place().prop_map(Admission::Unpark),
        a_place().prop_map(Admission::Raise),
        a_place().prop_map(Admission::Again),
        prop::sample::select(Refusal::ALL).prop_map(Admission::Refuse),
    ]
}

fn a_via() -> impl Strategy<Value = Via> {
    const PAGES: &[&str] = &["http://a.test/", "http://a.test/caf\u{e9}?x", "https://b.test/"];
    (prop::sample::select(PAGES), any::<bool>(), "[LERMS]{0,30}").prop_map(|(page, near, hops)| {
        let page = crate::url::CrawlUrl::parse(page).unwrap();
        Via::of(&page, hops.chars().fold(crate::job::Trail::SEED, crate::job::Trail::hop), near)
    })
}

prop_compose! {
    fn a_found_url()(
        path: u64, text in "[/a-c\u{e9}\u{4e2d}\u{1f577}]{0,12}", job in 0..3u32, depth in 0..2u8, priority in 0..2u8,
        hops in (0..2u8).prop_map(Hops::by_code), read_as in prop::sample::select(ReadAs::ALL),
        hits in 0..2u32, usual: bool, via in proptest::option::of(a_via()), admission in an_admission(),
    ) -> FoundUrl {
        // The place that most have: its last part is the low half of the key.
        let low = |at: QueueKey| if usual { QueueKey { band: 1, low: path as u32, ..at } } else { at };
        let admission = match admission {
            Admission::Queue(at) => Admission::Queue(low(at)),
            Admission::Park(at) => Admission::Park(low(at)),
            other => other,
        };
        let via = via.map(Arc::new);
        let want = Want { depth, hops, read_as, priority, hits, via, ..Want::of(JobId(job)) };
        FoundUrl { path, text: text.into(), want, admission }
    }
}

prop_compose! {
    fn a_host()(domain: u64, number: u32) -> HostKey {
        host(domain, number)
    }
}

prop_compose! {
    fn an_ended()(
        key in (a_host(), any::<u64>()), words in ("[ -~\u{e9}]{0,20}", "[ -~]{0,9}", "[ -~]{0,9}"),
        fetch: u64, bytes in prop_oneof![Just(0), any::<u64>()], at: u32, outcome in prop::sample::select(Outcome::ALL), status: u16, digest: u64, simhash: u64,
        shapes: [u64; 2], alike_max: u16, from in prop::sample::select(&[Origin::Queue, Origin::Parked, Origin::Later][..]),
        next in prop::option::of(any::<u32>().prop_map(Seconds)), retries: u8,
        floors in (a_place(), any::<(u32, u64)>()), rest: u64, failures: u8,
    ) -> Ended {
        Ended {
            key: UrlKey { host: key.0, path: key.1 },
            text: words.0.into(), fetch, at: Seconds(at), outcome, status, digest, simhash, bytes, shapes, alike_max,
            etag: words.1.into(), last_modified: words.2.into(), from, next, retries,
            floor: floors.0,
            later_floor: LaterKey { due: Seconds(floors.1.0), path: floors.1.1 },
            rest_until: Timestamp(rest), failures,
        }
    }
}

fn an_entry() -> impl Strategy<Value = Entry> {
    let of_host = (
        a_host(),
        prop::option::of("[ -~]{0,20}"),
        any::<bool>(),
        prop::collection::vec(a_found_url(), 0..8),
    )
        .prop_map(|(key, origin, displaced, urls)| FoundHost {
            key,
            origin: origin.map(Into::into),
            displaced,
            urls,
        });
    let policies =
        [RobotsPolicy::Unknown, RobotsPolicy::Rules, RobotsPolicy::AllowAll, RobotsPolicy::DisallowAll];
    let unread = || {
        let failed = prop::sample::select(Outcome::ALL.to_vec()).prop_map(Unread::Failed);
        prop::option::of(prop_oneof![any::<u16>().prop_map(Unread::Status), failed])
    };
    let robots = (
        a_host(),
        prop::sample::select(policies.to_vec()),
        any::<(u32, u32, u32, u32)>(),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
        any::<(u64, u8)>(),
        unread(),
    )
        .prop_map(
            |(host, policy, (fetched, expires, since, crawl_delay), body, (rest, failures), unread)| {
                RobotsRead {
                    host,
                    record: RobotsRecord {
                        policy,
                        fetched: Seconds(fetched),
                        expires: Seconds(expires),
                        unreachable_since: Seconds(since),
                        crawl_delay,
                        unread,
                    },
                    body: body.map(Into::into),
                    rest_until: Timestamp(rest),
                    failures,
                }
            },
        );
    prop_oneof![
        (any::<u32>(), prop::collection::vec(of_host, 0..4))
            .prop_map(|(at, hosts)| Entry::Found(FoundUrls { at: Seconds(at), hosts })),
        an_ended().prop_map(|ended| Entry::Ended(Box::new(ended))),
        robots.prop_map(|read| Entry::Robots(Box::new(read))),
        (a_host(), "[ -~]{0,20}").prop_map(|(host, why)| Entry::Host(HostChange::Stop(host, why.into()))),
        a_host().prop_map(|host| Entry::Host(HostChange::Resume(host))),
        (a_host(), any::<u32>()).prop_map(|(host, delay)| Entry::Host(HostChange::Delay(host, delay))),
        (any::<u64>(), prop::option::of(prop_oneof![any::<u64>(), Just(u64::MAX)]))
            .prop_map(|(domain, budget)| Entry::Domain(DomainChange::Budget(DomainKey(domain), budget))),
        (any::<u32>(), "[a-z]{1,9}").prop_map(|(id, name)| Entry::Job(Box::new(Job::new(JobId(id), name)))),
        any::<u32>().prop_map(|job| Entry::JobRemoved(JobId(job))),
        ("[ -~]{0,20}", any::<u64>())
            .prop_map(|(name, position)| Entry::Inbox { name: name.into(), position }),
        any::<(u16, u16)>().prop_map(|(first, last)| Entry::Split(Prefixes { first, last })),
        (any::<u64>(), "[a-z.]{1,20}", prop::collection::btree_set(any::<u32>(), 0..5)).prop_map(
            |(domain, name, staying)| {
                let (domain, name, staying) = (DomainKey(domain), name.into(), std::sync::Arc::new(staying));
                Entry::Spread(crate::spread::DomainSpread { domain, name, staying })
            }
        ),
    ]
}

proptest! {
    #[test]
    fn any_group_is_read_as_it_was_written(
        epoch: u64, sequence in 0..u64::MAX, chain: u64, entries in prop::collection::vec(an_entry(), 0..8),
    ) {
        let (group, behind) = (Group { epoch, entries }, Position { sequence, chain });
        let (bytes, after) = seal(&group, behind);
        prop_assert_eq!(open(&bytes, behind), Ok((group, after)));
        prop_assert_eq!(after.sequence, sequence + 1);
    }

    #[test]
    fn any_bytes_are_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..200usize) {
        prop_assert!(open(&bytes, Position::default()).is_err());
        // The same behind a head that is right, so that the entries themselves are read.
        let (head, _) = seal(&Group::default(), Position::default());
        let head = &head[..head.len() - 9];
        let body = [head, &bytes[..cut.min(bytes.len())], &[0; 8]].concat();
        let _ = open(&rehashed(body), Position::default());
    }
}
