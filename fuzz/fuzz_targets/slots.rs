//! Packets between nodes about turns: for any packet of a node of the ring, a node answers with packets that can be
//! read, counts its turns right and has something to do at a known time, or nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::cluster::slots::{Event, FLUSH, Slots};
use nephila_core::cluster::{Incarnation, NodeId};
use nephila_core::frontier::slot::SlotKey;
use xxhash_rust::xxh3::xxh3_64;

const ME: (NodeId, Incarnation) = (NodeId(1), Incarnation(10));
const OTHER: (NodeId, Incarnation) = (NodeId(2), Incarnation(20));
/// A node outside the ring.
const STRANGER: (NodeId, Incarnation) = (NodeId(3), Incarnation(30));
/// Number of slots: a packet of a few bytes can name them.
const SLOTS: u32 = 4;
/// Enough for two nodes to agree on their ring.
const ROUNDS: usize = 8;
/// Milliseconds between two packets: long enough that something is sent again.
const STEP: u64 = 700;

fuzz_target!(|data: &[u8]| {
    let _ = Slots::new(ME.0, ME.1, 7).handle_packet(0, data);

    let (mut me, mut other) = (Slots::new(ME.0, ME.1, 7), Slots::new(OTHER.0, OTHER.1, 8));
    me.handle_view(0, &[ME, OTHER]);
    other.handle_view(0, &[ME, OTHER]);
    let mut now = STEP;
    for _ in 0..ROUNDS {
        carry(now, &mut me, &mut other);
        carry(now, &mut other, &mut me);
        now += FLUSH;
    }
    assert!(me.is_agreed(), "what follows is about nodes that go by one ring");
    (0..SLOTS).for_each(|slot| me.ask(now, SlotKey::V4(slot)));

    let mut rest = data;
    while let Some((body, behind)) = next(rest) {
        rest = behind;
        now += STEP;
        // A liar is believed, but our packets to others can always be read.
        let _ = me.handle_packet(now, &body);
        let mut granted = 0;
        while let Some(event) = me.poll_event() {
            let (Event::Granted { slot, .. } | Event::Wanted { slot }) = event;
            granted += usize::from(matches!(event, Event::Granted { .. }));
            assert!(me.holds(slot), "an event about a turn that it does not have");
        }
        let (held, asked) = me.count();
        assert!(granted <= held && held + asked <= SLOTS as usize, "turns that nobody asked for");
        carry(now, &mut me, &mut other);
        assert!(me.next_wake().is_none_or(|at| at > now), "it is due and says nothing");
    }
});

/// Carries all packets of one node to the other, which drops packets for other nodes.
fn carry(now: u64, from: &mut Slots, to: &mut Slots) {
    while let Some(parcel) = from.poll_packet(now) {
        to.handle_packet(now, &parcel.bytes).expect("what we write we can read");
    }
}

/// A packet with a right head and hash, and the remaining bytes. The first byte gives the sender and the length; then
/// follow acknowledgement, number and items.
fn next(data: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (&first, rest) = data.split_first()?;
    let from = if first & 0x80 == 0 { OTHER } else { STRANGER };
    let (items, behind) = rest.split_at(usize::from(first & 0x7f).min(rest.len()));
    let mut bytes = b"NS\x01".to_vec();
    for number in [from.0.0, from.1.0, ME.1.0] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(items);
    let hash = xxh3_64(&bytes);
    bytes.extend(hash.to_be_bytes());
    Some((bytes, behind))
}
