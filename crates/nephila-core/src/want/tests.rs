//! Wants: their size, how two of them join, and the way of an attribute from a message to the log.

use proptest::prelude::*;

use super::*;
use crate::cluster::NodeId;
use crate::cluster::message::Message;
use crate::entry::{Admission, Entry, FoundHost, FoundUrl, FoundUrls, Group, open, seal};
use crate::frontier::offers::OfferedUrl;
use crate::frontier::{Config, Frontier, Offered};
use crate::key::{HostKey, Prefixes, Secret, UrlKey};
use crate::state::{MemoryState, Position, State};
use crate::time::{Now, Seconds, Timestamp};
use crate::url::CrawlUrl;

const SECRET: Secret = Secret([7; 16]);

#[test]
fn a_want_takes_no_more_memory_than_its_fields() {
    // Millions of these wait in buffers.
    assert_eq!((size_of::<Want>(), size_of::<OfferedUrl>(), size_of::<FoundUrl>()), (32, 88, 72));
}

#[test]
fn of_two_offers_the_more_urgent_and_the_more_specific_count() {
    let mut kept = Want { priority: 2, hops: Hops::new(1, 0), hits: 2, ..Want::of(JobId(1)).at(4) };
    let other = Want { read_as: ReadAs::Feed, hits: u32::MAX, via: Some(Via::seed()), ..Want::of(JobId(2)) };
    kept.join(&other);
    let joined = Want { priority: 2, read_as: ReadAs::Feed, hits: u32::MAX, ..Want::of(JobId(1)).at(4) };
    assert_eq!(kept, joined);
}

fn url(text: &str) -> CrawlUrl {
    CrawlUrl::parse(text).unwrap()
}

/// Links of one page to its own domain and to others.
fn links() -> Vec<OfferedUrl> {
    let source = UrlKey::of(&url("https://www.paper.example/"), &SECRET).host.domain;
    let far = Want { source, ..Want::of(JobId(3)).at(2) };
    vec![
        OfferedUrl::new(&url("http://a.test/1"), far.clone(), &SECRET),
        OfferedUrl::new(&url("http://a.test/2"), far, &SECRET),
        OfferedUrl::new(&url("https://www.paper.example/3"), Want::of(JobId(3)).at(2), &SECRET),
    ]
}

fn message(offers: Vec<OfferedUrl>) -> Vec<u8> {
    Message::Offers { from: NodeId(1), offers }.encode(&SECRET)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_source_of_a_link_arrives_at_its_partition_and_stands_in_the_log() {
    let sent = message(links());
    let Ok(Message::Offers { offers, .. }) = Message::decode(&sent, &SECRET) else { panic!("a message") };
    assert_eq!(offers, links());
    let states = vec![(Prefixes::ALL, MemoryState::new())];
    let mut frontier = Frontier::new(Config::default(), SECRET, states, None);
    for offered in &offers {
        assert_eq!(frontier.offer(offered.offer()), Offered::Taken);
    }
    let now = Now { mono: 0, wall: Timestamp(1_794_700_800_000) };
    let bytes = frontier.poll_group(0, now).unwrap().expect("the URLs are new");
    let (group, _) = open(&bytes, Position::default()).unwrap();
    let [Entry::Found(found), ..] = &*group.entries else { panic!("{group:?}") };
    let of = |host: &FoundHost| host.urls.iter().map(|url| url.want.source).collect::<Vec<_>>();
    for host in &found.hosts {
        let expected = match host.key == offers[0].key.host {
            true => vec![offers[2].key.host.domain; 2],
            false => vec![NO_SOURCE],
        };
        assert_eq!(of(host), expected, "the key of the page's domain");
    }
    frontier.handle_committed(0, now).unwrap();
    // The record has no source: eight bytes for every URL of the crawl.
    let record = frontier.state(0).url(&offers[0].key).unwrap().expect("folded");
    assert_eq!(record.want().source, NO_SOURCE);
}

/// A group with links from another domain.
fn group() -> Group {
    let [first, second, near] = links().try_into().unwrap();
    let found =
        |link: OfferedUrl, admission| FoundUrl { path: 9, text: link.text, want: link.want, admission };
    let urls = vec![
        found(near, Admission::ParkBare),
        found(first, Admission::Refuse(Refusal::Depth)),
        found(second, Admission::ParkBare),
    ];
    let key = HostKey { domain: DomainKey(1), host: 2 };
    let hosts = vec![FoundHost { key, origin: None, displaced: false, urls }];
    Group { epoch: 1, entries: vec![Entry::Found(FoundUrls { at: Seconds(5), hosts })] }
}

// The second link of the page inherits the source.
const GOLDEN_GROUP: &str = concat!(
    "4e470501010000000000000000010105010000000000000001000000020c0203020500000000000000000900022f330f",
    "050808d84223277fc2e55400000000000000090101310a00000000000000090101322693e3b9e35d32a3",
);
const GOLDEN_MESSAGE: &str = concat!(
    "4e4d030100000000000000014d636662e0cd282929b0d2d74fd42b492d2e6160d2376466626060656060e2b8e1a4ac5e",
    "7fe869082ba311238b68b195be7e7979b95e4162416a915e6a45626e414e2a0393be31543d0300a69dfd4b839bef6c",
);

#[test]
fn golden_source() {
    let (bytes, behind) = seal(&group(), Position::default());
    assert_eq!(hex(&bytes), GOLDEN_GROUP);
    assert_eq!(open(&bytes, Position::default()), Ok((group(), behind)));
    let golden: Vec<u8> = (0..GOLDEN_MESSAGE.len() / 2)
        .map(|at| u8::from_str_radix(&GOLDEN_MESSAGE[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    // Deflated bytes may differ between versions of the library: a golden message is read alone.
    let read = Message::decode(&golden, &SECRET);
    assert_eq!(read, Ok(Message::Offers { from: NodeId(1), offers: links() }), "{}", hex(&message(links())));
}

#[test]
fn an_older_program_reads_everything_without_a_source_and_leaves_the_rest_to_a_newer_one() {
    let near = links().split_off(2);
    assert_eq!((message(links())[2], message(near)[2]), (3, 2));
    let version = |group: &Group| seal(group, Position::default()).0[2];
    let mut old = group();
    let Entry::Found(found) = &mut old.entries[0] else { unreachable!("the only entry") };
    found.hosts[0].urls.truncate(1);
    assert_eq!((version(&group()), version(&old)), (5, 4));
}

#[test]
fn attributes_of_a_newer_program_are_skipped() {
    let want = &links()[0].want;
    let mut bytes = Vec::new();
    want.put(&mut bytes);
    let at = bytes.len() - 9;
    assert_eq!(bytes[at], 8, "the length of the attributes without a bit");
    bytes[at] += 3;
    bytes.extend([1, 2, 3]);
    let mut reader = Reader::new(&bytes);
    assert_eq!((Want::read(&mut reader, 3).as_ref(), reader.is_empty()), (Ok(want), true));
}

prop_compose! {
    fn a_want()(depth in 0..2u8, hits in 0..2u32, has_via: bool, source in 0..3u64) -> Want {
        Want { hits, via: has_via.then(Via::seed), source: DomainKey(source), ..Want::of(JobId(1)).at(depth) }
    }
}

proptest! {
    #[test]
    fn any_want_is_read_as_it_was_written(wants in prop::collection::vec(a_want(), 0..8)) {
        let mut bytes = Vec::new();
        let mut before = None;
        for want in &wants {
            want.put(&mut bytes);
            let behind = Behind::new(want, before);
            bytes.extend([behind.bits(), behind.has_more().into()]);
            behind.put(&mut bytes);
            before = Some(want);
        }
        let (mut reader, mut before) = (Reader::new(&bytes), None);
        for want in &wants {
            prop_assert_eq!(&Want::read(&mut reader, 3).unwrap(), want);
            let (bits, has_more) = (reader.u8("bits").unwrap(), reader.u8("more").unwrap() != 0);
            let read = Want::read_behind(&mut reader, bits, has_more, before).unwrap();
            prop_assert_eq!(&read, want);
            before = Some(want);
        }
        prop_assert!(reader.is_empty());
    }
}
