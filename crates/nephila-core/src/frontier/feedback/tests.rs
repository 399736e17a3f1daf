//! Words of owners: the bytes, and how senders apply them.

use proptest::prelude::*;

use super::*;
use crate::job::JobId;
use crate::key::Secret;
use crate::url::CrawlUrl;

fn host(domain: u64, host: u32) -> HostKey {
    HostKey { domain: DomainKey(domain), host }
}

fn url(text: &str, depth: u8) -> OfferedUrl {
    let url = CrawlUrl::parse(text).unwrap();
    OfferedUrl::new(&url, Want::of(JobId(1)).at(depth), &Secret([1; 16]))
}

#[test]
fn a_host_is_closed_when_it_is_hot_and_open_again_when_nothing_comes() {
    let mut hot = Hot::default();
    hot.note(host(1, 1), Why::Robots, HOT_LINKS - 1, 0);
    hot.note(host(2, 1), Why::Budget, HOT_LINKS, 0);
    assert_eq!(hot.closed(10), [(host(2, 1), Why::Budget)], "the other is not worth a word");
    hot.note(host(1, 1), Why::Robots, 1, 20);
    assert_eq!(hot.closed(20), [(host(1, 1), Why::Robots), (host(2, 1), Why::Budget)]);
    // Senders drop the links, so none come, and the word is taken back.
    assert_eq!(hot.closed(LIFE), []);
    hot.note(host(1, 1), Why::Robots, HOT_LINKS, LIFE + 5);
    assert_eq!(hot.closed(LIFE + 5), [(host(1, 1), Why::Robots)]);
    // New rules: nothing that was counted holds.
    hot.forget(host(1, 1), host(1, 1));
    assert_eq!(hot.closed(LIFE + 6), []);
}

#[test]
fn what_is_counted_and_said_is_bounded_and_the_hottest_are_said() {
    let mut hot = Hot::default();
    for number in 0..COUNTED_MAX as u64 * 2 {
        hot.note(host(number, 0), Why::Robots, HOT_LINKS + number, 0);
    }
    assert!(hot.hosts.len() <= COUNTED_MAX);
    let closed = hot.closed(1);
    assert_eq!(closed.len(), CLOSED_MAX);
    assert!(closed.is_sorted());
    let coldest = COUNTED_MAX as u64 - CLOSED_MAX as u64;
    assert!(closed.iter().all(|(host, _)| host.domain.0 >= coldest), "{closed:?}");
    let word = Word { lags: true, closed };
    assert!(word.encode().len() < 4 << 10, "{}", word.encode().len());
    // A later host finds a place once the counts before are old.
    hot.note(host(u64::MAX, 0), Why::Budget, HOT_LINKS, LIFE);
    hot.note(host(u64::MAX, 0), Why::Budget, HOT_LINKS, LIFE);
    assert_eq!(hot.closed(LIFE), [(host(u64::MAX, 0), Why::Budget)]);
}

#[test]
fn links_to_a_closed_host_are_dropped_and_counted_and_nothing_else_is() {
    let link = url("http://giant.test/share?u=1", 3);
    let mut words = Words::default();
    assert_eq!(words.drops(4, &link), None);
    let word = Word { lags: false, closed: vec![(link.key.host, Why::Robots)] };
    words.set(BTreeMap::from([(4, word)]));
    assert_eq!(words.drops(4, &link), Some(Why::Robots));
    assert_eq!(words.drops(5, &link), None, "the word of another partition");
    assert_eq!(words.drops(4, &url("http://other.test/", 3)), None);
    assert_eq!(words.drops(4, &url("http://giant.test/", 0)), None, "a seed is never dropped");
    let with = |want: Want| OfferedUrl { want, ..link.clone() };
    let urgent = with(Want { priority: URGENT, ..link.want.clone() });
    assert_eq!(words.drops(4, &urgent), None);
    let sitemap = with(Want { read_as: ReadAs::Sitemap, ..link.want.clone() });
    assert_eq!(words.drops(4, &sitemap), None);
    assert_eq!(words.dropped().collect::<Vec<_>>(), [(Why::Robots, 1), (Why::Budget, 0)]);
    words.set(BTreeMap::new());
    assert_eq!(words.drops(4, &link), None, "the word was taken back");
}

#[test]
fn an_inbox_lags_from_one_limit_on_and_until_it_is_below_the_other() {
    assert!(!lags(false, LAG_BYTES) && lags(false, LAG_BYTES + 1));
    assert!(lags(true, CAUGHT_UP_BYTES + 1) && !lags(true, CAUGHT_UP_BYTES));
}

#[test]
fn a_word_that_was_taken_back_says_nothing() {
    assert!(Word::decode(&[]).unwrap().is_empty());
    assert!(Word::decode(&Word::default().encode()).unwrap().is_empty());
}

proptest! {
    #[test]
    fn a_word_comes_back_as_it_was(lags: bool, hosts in prop::collection::btree_map((any::<u64>(), any::<u32>()), any::<bool>(), 0..CLOSED_MAX)) {
        let closed = hosts
            .into_iter()
            .map(|((domain, number), robots)| (host(domain, number), if robots { Why::Robots } else { Why::Budget }))
            .collect();
        let word = Word { lags, closed };
        prop_assert_eq!(Word::decode(&word.encode()).unwrap(), word);
    }

    #[test]
    fn damaged_words_are_noticed(at in 0..40_usize, bit in 0..8_u8, cut in 0..40_usize) {
        let word = Word { lags: true, closed: vec![(host(7, 8), Why::Robots), (host(9, 8), Why::Budget)] };
        let mut bytes = word.encode();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        prop_assert!(Word::decode(&bytes).is_err());
        let whole = word.encode();
        let cut = 1 + cut % (whole.len() - 1);
        prop_assert!(Word::decode(&whole[..cut]).is_err());
    }
}
