//! Deduplication: the links sent lately, and the batch that carries each.

use crate::frontier::offers::OfferedUrl;
use crate::key::UrlKey;

/// The identity of a link for deduplication: the URL, the job that wants it, and the refusal.
pub(super) fn mark(url: &OfferedUrl) -> (u64, u64) {
    let UrlKey { host, path } = url.key;
    let beside =
        u64::from(url.want.job.0) << 8 | u64::from(url.want.refusal.map_or(0, |refusal| refusal.code()));
    (path, host.domain.0 ^ beside.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A lossy cache of links sent lately, and the batch that carries each. Links may be evicted at any time; every link
/// in the cache is right.
#[derive(Debug)]
pub(super) struct Recent {
    places: Box<[(u64, u64, u64)]>,
}

impl Recent {
    /// A cache for this number of links, rounded up to a power of two.
    pub(super) fn new(max: usize) -> Recent {
        Recent { places: vec![(0, 0, 0); max.next_power_of_two()].into_boxed_slice() }
    }

    fn place(&mut self, mark: (u64, u64)) -> &mut (u64, u64, u64) {
        &mut self.places[mark.0 as usize & (self.places.len() - 1)]
    }

    pub(super) fn batch_of(&mut self, mark: (u64, u64)) -> Option<u64> {
        let (path, beside, number) = *self.place(mark);
        (number != 0 && (path, beside) == mark).then_some(number)
    }

    pub(super) fn note(&mut self, mark: (u64, u64), number: u64) {
        *self.place(mark) = (mark.0, mark.1, number);
    }
}
