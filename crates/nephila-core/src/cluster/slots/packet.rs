//! Messages between nodes about slots, as bytes.
//!
//! Invariants: a packet carries its version and a hash over everything before the hash; damaged bytes are a
//! [`Damaged`], never a panic; no packet has more than [`ITEMS_MAX`] items.

use xxhash_rust::xxh3::xxh3_64;

use crate::cluster::{Incarnation, NodeId};
use crate::codec::{Damaged, Reader, put_u64};
use crate::frontier::slot::SlotKey;

/// Maximum number of items in a packet. Each takes 30 bytes at most.
pub const ITEMS_MAX: usize = 1_024;

const MAGIC: &[u8; 2] = b"NS";
const VERSION: u8 = 1;

/// One message from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// I use this ring from here on, the `term`th ring that I use. All my earlier messages are void. The turns that I
    /// hold of your slots follow.
    Enter { ring: u64, term: u64 },
    /// I use the same ring as you in this term of yours, and have claimed all turns that I hold of your slots.
    Agree { term: u64 },
    /// I have the turn, since this ask of mine.
    Claim { slot: SlotKey, ask: u64 },
    /// I ask for the turn.
    Ask { slot: SlotKey, ask: u64 },
    /// I no longer have the turn, or no longer want the turn. For `rested` milliseconds nothing has happened on the
    /// slot.
    GiveBack { slot: SlotKey, ask: u64, rested: u64 },
    /// You have the turn. For `rested` milliseconds nothing has happened on the slot. `wanted` says whether others
    /// wait.
    Grant { slot: SlotKey, ask: u64, rested: u64, wanted: bool },
    /// Another node waits for the turn that you have.
    Wanted { slot: SlotKey, ask: u64 },
}

/// The first byte of an item. These numbers never change.
mod kind {
    pub(super) const ENTER: u8 = 1;
    pub(super) const AGREE: u8 = 2;
    pub(super) const CLAIM: u8 = 3;
    pub(super) const ASK: u8 = 4;
    pub(super) const GIVE_BACK: u8 = 5;
    pub(super) const GRANT: u8 = 6;
    pub(super) const GRANT_WANTED: u8 = 7;
    pub(super) const WANTED: u8 = 8;
}

/// The first byte of a slot.
mod slot_kind {
    pub(super) const V4: u8 = 4;
    pub(super) const V6: u8 = 6;
    pub(super) const FLEET: u8 = 7;
}

/// Several items in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) from: (NodeId, Incarnation),
    pub(super) to: Incarnation,
    /// The number of the last item received from the addressee.
    pub(super) ack: u64,
    /// The number of the first item here.
    pub(super) first: u64,
    pub(super) items: Vec<Item>,
}

impl Packet {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.items.len() * 16);
        out.extend(MAGIC);
        out.push(VERSION);
        out.extend(self.from.0.0.to_be_bytes());
        out.extend(self.from.1.0.to_be_bytes());
        out.extend(self.to.0.to_be_bytes());
        put_u64(&mut out, self.ack);
        put_u64(&mut out, self.first);
        put_u64(&mut out, self.items.len() as u64);
        self.items.iter().for_each(|item| put_item(&mut out, item));
        let hash = xxh3_64(&out);
        out.extend(hash.to_be_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Packet, Damaged> {
        let len = bytes.len().checked_sub(8).ok_or(Damaged("length of a packet"))?;
        let (body, hash) = bytes.split_at(len);
        if hash != xxh3_64(body).to_be_bytes() {
            return Err(Damaged("hash of a packet"));
        }
        let mut reader = Reader::new(body);
        if reader.take(2, "mark of a packet")? != MAGIC || reader.u8("version of a packet")? != VERSION {
            return Err(Damaged("version of a packet"));
        }
        let node = NodeId(reader.fixed_u64("sender of a packet")?);
        let from = (node, Incarnation(reader.fixed_u64("sender of a packet")?));
        let to = Incarnation(reader.fixed_u64("receiver of a packet")?);
        let (ack, first) = (reader.u64("ack of a packet")?, reader.u64("number of a packet")?);
        let count = reader.u64("items of a packet")?;
        if count > ITEMS_MAX as u64 || first.checked_add(count).is_none() {
            return Err(Damaged("items of a packet"));
        }
        let mut items = Vec::with_capacity(count as usize);
        for _ in 0..count {
            items.push(get_item(&mut reader)?);
        }
        if !reader.is_empty() {
            return Err(Damaged("end of a packet"));
        }
        Ok(Packet { from, to, ack, first, items })
    }
}

pub(super) fn put_slot(out: &mut Vec<u8>, slot: SlotKey) {
    match slot {
        SlotKey::V4(bits) => {
            out.push(slot_kind::V4);
            out.extend(bits.to_be_bytes());
        }
        SlotKey::V6(bits) => {
            out.push(slot_kind::V6);
            out.extend(bits.to_be_bytes());
        }
        SlotKey::Fleet { fleet, lane } => {
            out.push(slot_kind::FLEET);
            out.extend(fleet.to_be_bytes());
            out.extend(lane.to_be_bytes());
        }
    }
}

fn get_slot(reader: &mut Reader<'_>) -> Result<SlotKey, Damaged> {
    const WHAT: &str = "a slot";
    match reader.u8(WHAT)? {
        slot_kind::V4 => reader.fixed_u32(WHAT).map(SlotKey::V4),
        slot_kind::V6 => reader.fixed_u64(WHAT).map(SlotKey::V6),
        slot_kind::FLEET => {
            Ok(SlotKey::Fleet { fleet: reader.fixed_u32(WHAT)?, lane: reader.fixed_u32(WHAT)? })
        }
        _ => Err(Damaged(WHAT)),
    }
}

fn put_item(out: &mut Vec<u8>, item: &Item) {
    let mut put = |kind: u8, slot: Option<SlotKey>, numbers: &[u64]| {
        out.push(kind);
        slot.iter().for_each(|slot| put_slot(out, *slot));
        numbers.iter().for_each(|number| put_u64(out, *number));
    };
    match *item {
        Item::Enter { ring, term } => put(kind::ENTER, None, &[ring, term]),
        Item::Agree { term } => put(kind::AGREE, None, &[term]),
        Item::Claim { slot, ask } => put(kind::CLAIM, Some(slot), &[ask]),
        Item::Ask { slot, ask } => put(kind::ASK, Some(slot), &[ask]),
        Item::GiveBack { slot, ask, rested } => put(kind::GIVE_BACK, Some(slot), &[ask, rested]),
        Item::Grant { slot, ask, rested, wanted } => {
            put(if wanted { kind::GRANT_WANTED } else { kind::GRANT }, Some(slot), &[ask, rested]);
        }
        Item::Wanted { slot, ask } => put(kind::WANTED, Some(slot), &[ask]),
    }
}

fn get_item(reader: &mut Reader<'_>) -> Result<Item, Damaged> {
    const WHAT: &str = "an item";
    Ok(match reader.u8(WHAT)? {
        kind::ENTER => Item::Enter { ring: reader.u64(WHAT)?, term: reader.u64(WHAT)? },
        kind::AGREE => Item::Agree { term: reader.u64(WHAT)? },
        kind::CLAIM => Item::Claim { slot: get_slot(reader)?, ask: reader.u64(WHAT)? },
        kind::ASK => Item::Ask { slot: get_slot(reader)?, ask: reader.u64(WHAT)? },
        kind::GIVE_BACK => {
            Item::GiveBack { slot: get_slot(reader)?, ask: reader.u64(WHAT)?, rested: reader.u64(WHAT)? }
        }
        grant @ (kind::GRANT | kind::GRANT_WANTED) => Item::Grant {
            slot: get_slot(reader)?,
            ask: reader.u64(WHAT)?,
            rested: reader.u64(WHAT)?,
            wanted: grant == kind::GRANT_WANTED,
        },
        kind::WANTED => Item::Wanted { slot: get_slot(reader)?, ask: reader.u64(WHAT)? },
        _ => return Err(Damaged(WHAT)),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all() -> Packet {
        let (slot, v6) = (SlotKey::V4(7), SlotKey::V6(u64::MAX));
        let fleet = SlotKey::Fleet { fleet: 9, lane: 3 };
        let items = vec![
            Item::Enter { ring: u64::MAX, term: 1 },
            Item::Agree { term: 2 },
            Item::Claim { slot: v6, ask: 3 },
            Item::Ask { slot, ask: 4 },
            Item::GiveBack { slot: fleet, ask: 5, rested: 6 },
            Item::Grant { slot, ask: 7, rested: 8, wanted: true },
            Item::Grant { slot, ask: 7, rested: 8, wanted: false },
            Item::Wanted { slot: v6, ask: 9 },
        ];
        Packet { from: (NodeId(1), Incarnation(2)), to: Incarnation(3), ack: 4, first: 5, items }
    }

    #[test]
    fn what_is_written_is_read_and_what_is_cut_or_changed_is_not() {
        let bytes = all().encode();
        assert_eq!(Packet::decode(&bytes), Ok(all()));
        for at in 0..bytes.len() {
            assert!(Packet::decode(&bytes[..at]).is_err());
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Packet::decode(&changed).is_err());
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_are_an_answer_too(body: Vec<u8>, right: bool) {
            let mut bytes = if right { [&MAGIC[..], &[VERSION], &body].concat() } else { body };
            bytes.extend(xxh3_64(&bytes).to_be_bytes());
            _ = Packet::decode(&bytes);
        }
    }
}
