//! How a URL was reached, as far as limits depend on the hops.

use std::fmt;

/// Links in a row out of scope, and redirects in a row, that led to a URL. Fewer links out come before fewer redirects;
/// fifteen of either stands for that many or more.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hops(u8);

impl Hops {
    /// The maximum of either count.
    pub const MOST: u8 = 15;

    /// Within scope, by a link.
    pub const NONE: Hops = Hops(0);

    /// With these numbers of links out of scope and redirects.
    pub fn new(out: u8, redirects: u8) -> Hops {
        Hops(out.min(Hops::MOST) << 4 | redirects.min(Hops::MOST))
    }

    /// Links in a row out of scope.
    pub fn out(self) -> u8 {
        self.0 >> 4
    }

    /// Redirects in a row.
    pub fn redirects(self) -> u8 {
        self.0 & Hops::MOST
    }

    /// Whether both counts are zero.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The number that is stored.
    pub fn code(self) -> u8 {
        self.0
    }

    /// The hops with this stored number.
    pub fn by_code(code: u8) -> Hops {
        Hops(code)
    }
}

impl fmt::Debug for Hops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hops({} out, {} redirects)", self.out(), self.redirects())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_counted_and_end_at_the_most() {
        let hops = Hops::new(3, 200);
        assert_eq!((hops.out(), hops.redirects(), hops.is_none()), (3, Hops::MOST, false));
        assert_eq!(Hops::by_code(hops.code()), hops);
        assert!(Hops::new(0, 9) < Hops::new(1, 0) && Hops::NONE.is_none());
    }
}
