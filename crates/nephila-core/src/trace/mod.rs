//! Traces of tickets: which tickets are sampled, the ids of traces and spans, spans as values ([`span`]), their bytes on
//! the wire ([`otlp`]), and the reaction to an answer of the collector ([`delivery`]).
//!
//! A ticket is one trace. The ids follow the W3C Trace Context: 16 bytes for a trace and 8 bytes for a span, none all zero.
//!
//! Invariants: whether a ticket is sampled depends on its number and on the share alone, so every node decides alike and
//! a smaller share takes a subset of the tickets of a larger one; the ids of two tickets of one crawl differ.

pub mod delivery;
pub mod otlp;
pub mod span;

use std::fmt;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::frontier::ticket::TicketId;
use crate::key::Secret;
use crate::time::Timestamp;

/// Chooses the sampled tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// Tickets whose hash is below are sampled: 2^64 takes all, 0 takes none.
    below: u128,
}

impl Sampler {
    /// Samples this share of all tickets, between 0 and 1.
    pub fn new(share: f64) -> Sampler {
        // A float converts with saturation, and a share that is no number takes none.
        Sampler { below: (share.clamp(0.0, 1.0) * 2f64.powi(64)) as u128 }
    }

    /// Whether a ticket is sampled.
    pub fn takes(self, ticket: TicketId) -> bool {
        u128::from(xxh3_64(&ticket.0.to_le_bytes())) < self.below
    }
}

/// The id of a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub [u8; 16]);

impl TraceId {
    /// The trace of a ticket, in a run of a crawl that began at this time. The secret tells crawls apart, the time tells
    /// the runs of a crawl apart whose state is in memory: their tickets begin with the same number.
    pub fn of(secret: &Secret, run: Timestamp, ticket: TicketId) -> TraceId {
        let mut hasher = SipHasher13::new_with_key(&secret.0);
        hasher.write(b"trace");
        hasher.write(&run.0.to_le_bytes());
        hasher.write(&ticket.0.to_le_bytes());
        let bytes = hasher.finish128().as_u128().max(1).to_be_bytes();
        TraceId(bytes)
    }

    /// The id of a span of this trace, by the span's number; the root is number 0.
    pub fn span(&self, number: usize) -> SpanId {
        SpanId(xxh3_64_with_seed(&self.0, number as u64).max(1).to_be_bytes())
    }
}

/// The id of a span.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub [u8; 8]);

impl fmt::Display for TraceId {
    /// 32 lower-case hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SpanId {
    /// 16 lower-case hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The numbers of the first tickets of a few epochs.
    fn tickets(count: u64) -> impl Iterator<Item = TicketId> {
        (1..=4).flat_map(move |epoch| {
            (1..=count / 4).map(move |serial| TicketId(TicketId::first(epoch).0 + serial))
        })
    }

    #[test]
    fn a_share_of_the_tickets_is_sampled_and_a_smaller_share_is_a_part_of_it() {
        let (small, large) = (Sampler::new(0.001), Sampler::new(0.01));
        let taken = |sampler: Sampler| tickets(1_000_000).filter(|ticket| sampler.takes(*ticket)).count();
        // Five standard deviations.
        assert!((840..=1_160).contains(&taken(small)), "{}", taken(small));
        assert!((9_500..=10_500).contains(&taken(large)), "{}", taken(large));
        assert!(tickets(1_000_000).all(|ticket| !small.takes(ticket) || large.takes(ticket)));
        assert!(tickets(100_000).all(|ticket| Sampler::new(1.0).takes(ticket)));
        assert!(tickets(100_000).all(|ticket| !Sampler::new(0.0).takes(ticket)));
        assert!(tickets(100_000).all(|ticket| !Sampler::new(f64::NAN).takes(ticket)));
    }

    #[test]
    fn ids_of_tickets_runs_crawls_and_spans_differ() {
        let mut ids = BTreeSet::new();
        for secret in [Secret([1; 16]), Secret([2; 16])] {
            for run in [Timestamp(1), Timestamp(2)] {
                ids.extend(tickets(4_000).map(|ticket| TraceId::of(&secret, run, ticket)));
            }
        }
        assert_eq!(ids.len(), 16_000);
        let spans: BTreeSet<SpanId> =
            ids.iter().flat_map(|id| (0..20).map(|number| id.span(number))).collect();
        assert_eq!(spans.len(), 320_000);
        let id = TraceId::of(&Secret([1; 16]), Timestamp(1), TicketId(7));
        assert_eq!(id, TraceId::of(&Secret([1; 16]), Timestamp(1), TicketId(7)));
        let (trace, span) = (id.to_string(), id.span(3).to_string());
        assert_eq!((trace.len(), span.len()), (32, 16));
        assert!((trace + &span).bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
    }
}
