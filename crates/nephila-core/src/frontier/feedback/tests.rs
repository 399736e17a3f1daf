//! Feedback of owners: the bytes, and how senders apply them.

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
    hot.note(host(1, 1), FeedbackReason::Robots, HOT_LINKS - 1, 0);
    hot.note(host(2, 1), FeedbackReason::Budget, HOT_LINKS, 0);
    assert_eq!(hot.closed(10), [(host(2, 1), FeedbackReason::Budget)], "the other is not worth a record");
    hot.note(host(1, 1), FeedbackReason::Robots, 1, 20);
    assert_eq!(hot.closed(20), [(host(1, 1), FeedbackReason::Robots), (host(2, 1), FeedbackReason::Budget)]);
    // Senders drop the links, so none come, and the feedback is taken back.
    assert_eq!(hot.closed(LIFE), []);
    hot.note(host(1, 1), FeedbackReason::Robots, HOT_LINKS, LIFE + 5);
    assert_eq!(hot.closed(LIFE + 5), [(host(1, 1), FeedbackReason::Robots)]);
    // New rules: nothing that was counted holds.
    hot.forget(host(1, 1), host(1, 1));
    assert_eq!(hot.closed(LIFE + 6), []);
}

#[test]
fn what_is_counted_and_said_is_bounded_and_the_hottest_are_said() {
    let mut hot = Hot::default();
    for number in 0..COUNTED_MAX as u64 * 2 {
        hot.note(host(number, 0), FeedbackReason::Robots, HOT_LINKS + number, 0);
    }
    assert!(hot.hosts.len() <= COUNTED_MAX);
    let closed = hot.closed(1);
    assert_eq!(closed.len(), CLOSED_MAX);
    assert!(closed.is_sorted());
    let coldest = COUNTED_MAX as u64 - CLOSED_MAX as u64;
    assert!(closed.iter().all(|(host, _)| host.domain.0 >= coldest), "{closed:?}");
    let feedback = PartitionFeedback { lags: true, closed };
    assert!(feedback.encode().len() < 4 << 10, "{}", feedback.encode().len());
    // A later host finds a place once the counts before are old.
    hot.note(host(u64::MAX, 0), FeedbackReason::Budget, HOT_LINKS, LIFE);
    hot.note(host(u64::MAX, 0), FeedbackReason::Budget, HOT_LINKS, LIFE);
    assert_eq!(hot.closed(LIFE), [(host(u64::MAX, 0), FeedbackReason::Budget)]);
}

#[test]
fn links_to_a_closed_host_are_dropped_and_counted_and_nothing_else_is() {
    let link = url("http://giant.test/share?u=1", 3);
    let mut table = FeedbackTable::default();
    assert_eq!(table.drops(4, &link), None);
    let feedback = PartitionFeedback { lags: false, closed: vec![(link.key.host, FeedbackReason::Robots)] };
    table.set(BTreeMap::from([(4, feedback)]));
    assert_eq!(table.drops(4, &link), Some(FeedbackReason::Robots));
    assert_eq!(table.drops(5, &link), None, "the feedback of another partition");
    assert_eq!(table.drops(4, &url("http://other.test/", 3)), None);
    assert_eq!(table.drops(4, &url("http://giant.test/", 0)), None, "a seed is never dropped");
    let with = |want: Want| OfferedUrl { want, ..link.clone() };
    let urgent = with(Want { priority: URGENT, ..link.want.clone() });
    assert_eq!(table.drops(4, &urgent), None);
    let sitemap = with(Want { read_as: ReadAs::Sitemap, ..link.want.clone() });
    assert_eq!(table.drops(4, &sitemap), None);
    assert_eq!(
        table.dropped().collect::<Vec<_>>(),
        [(FeedbackReason::Robots, 1), (FeedbackReason::Budget, 0)]
    );
    table.set(BTreeMap::new());
    assert_eq!(table.drops(4, &link), None, "the feedback was taken back");
}

#[test]
fn an_inbox_lags_from_one_limit_on_and_until_it_is_below_the_other() {
    assert!(!lags(false, LAG_BYTES) && lags(false, LAG_BYTES + 1));
    assert!(lags(true, CAUGHT_UP_BYTES + 1) && !lags(true, CAUGHT_UP_BYTES));
}

#[test]
fn a_word_that_was_taken_back_says_nothing() {
    assert!(PartitionFeedback::decode(&[]).unwrap().is_empty());
    assert!(PartitionFeedback::decode(&PartitionFeedback::default().encode()).unwrap().is_empty());
}

proptest! {
    #[test]
    fn a_word_comes_back_as_it_was(lags: bool, hosts in prop::collection::btree_map((any::<u64>(), any::<u32>()), any::<bool>(), 0..CLOSED_MAX)) {
        let closed = hosts
            .into_iter()
            .map(|((domain, number), robots)| {
                let reason = if robots { FeedbackReason::Robots } else { FeedbackReason::Budget };
                (host(domain, number), reason)
            })
            .collect();
        let feedback = PartitionFeedback { lags, closed };
        prop_assert_eq!(PartitionFeedback::decode(&feedback.encode()).unwrap(), feedback);
    }

    #[test]
    fn damaged_words_are_noticed(at in 0..40_usize, bit in 0..8_u8, cut in 0..40_usize) {
        let closed = vec![(host(7, 8), FeedbackReason::Robots), (host(9, 8), FeedbackReason::Budget)];
        let feedback = PartitionFeedback { lags: true, closed };
        let mut bytes = feedback.encode();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        prop_assert!(PartitionFeedback::decode(&bytes).is_err());
        let whole = feedback.encode();
        let cut = 1 + cut % (whole.len() - 1);
        prop_assert!(PartitionFeedback::decode(&whole[..cut]).is_err());
    }
}
