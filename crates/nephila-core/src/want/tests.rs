//! Wants: their size, and how two of them join.

use super::*;
use crate::entry::FoundUrl;
use crate::frontier::offers::OfferedUrl;

#[test]
fn a_want_takes_no_more_memory_than_its_fields() {
    // Millions of these wait in buffers.
    assert_eq!((size_of::<Want>(), size_of::<OfferedUrl>(), size_of::<FoundUrl>()), (24, 80, 64));
}

#[test]
fn of_two_offers_the_more_urgent_and_the_more_specific_count() {
    let mut kept = Want { priority: 2, hops: Hops::new(1, 0), hits: 2, ..Want::of(JobId(1)).at(4) };
    let other = Want { read_as: ReadAs::Feed, hits: u32::MAX, via: Some(Via::seed()), ..Want::of(JobId(2)) };
    kept.join(&other);
    let joined = Want { priority: 2, read_as: ReadAs::Feed, hits: u32::MAX, ..Want::of(JobId(1)).at(4) };
    assert_eq!(kept, joined);
}
