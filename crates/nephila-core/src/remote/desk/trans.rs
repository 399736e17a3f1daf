//! TRANS: the number of one sending of a URL, which leads back to its ask without a search.

/// Number of bits of a generation and of a place.
const BITS: u32 = 24;

/// Maximum number of places.
pub(super) const PLACES_MAX: usize = 1 << BITS;

/// The three pieces of a TRANS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trans {
    /// Counts the sendings from a place, so that a late reply finds nothing.
    pub(super) generation: u32,
    /// The place of the ask.
    pub(super) place: u32,
    /// The seat of the connection.
    pub(super) seat: u16,
}

impl Trans {
    /// As it stands in a line.
    pub(super) fn number(self) -> u64 {
        u64::from(self.generation) << 40 | u64::from(self.place) << 16 | u64::from(self.seat)
    }

    /// The pieces of any number.
    pub(super) fn of(number: u64) -> Trans {
        let mask = (1 << BITS) - 1;
        Trans {
            generation: (number >> 40) as u32 & mask,
            place: (number >> 16) as u32 & mask,
            seat: number as u16,
        }
    }

    /// The generation after this one.
    pub(super) fn after(generation: u32) -> u32 {
        (generation + 1) & ((1 << BITS) - 1)
    }
}
