//! Reasons for which a URL in scope is not fetched.

use super::trap::Trap;

macro_rules! refusals {
    ($($(#[doc = $doc:literal])+ $variant:ident = $code:literal, $name:literal;)+) => {
        /// The reason for which a URL is not fetched. The number of each is written into records and never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Refusal {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Refusal {
            /// All reasons.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$variant,)+];

            /// The name that users see.
            pub const fn name(self) -> &'static str {
                match self { $(Refusal::$variant => $name,)+ }
            }

            /// The meaning, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Refusal::$variant => concat!($($doc),+),)+ }
            }

            /// The stored number.
            pub const fn code(self) -> u8 {
                match self { $(Refusal::$variant => $code,)+ }
            }

            /// The reason with this stored number.
            pub const fn by_code(code: u8) -> Option<Refusal> {
                match code {
                    $($code => Some(Refusal::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

refusals! {
    /// A trap: path segments repeat.
    TrapRepeat = 1, "trap-repeat";
    /// A trap: more path segments than any site needs.
    TrapDeep = 2, "trap-deep";
    /// A trap: more parameters, or one more often, than any site needs.
    TrapParams = 3, "trap-params";
    /// A trap: longer than any site needs.
    TrapLong = 4, "trap-long";
    /// A trap: pages under URLs of this shape are all the same.
    TrapAlike = 5, "trap-alike";
    /// A trap: the domain has more host names than any needs.
    TrapHosts = 6, "trap-hosts";
    /// A trap: dates far from today.
    TrapDates = 7, "trap-dates";
    /// The URL is deeper than the job allows.
    Depth = 8, "depth";
    /// The job has reached a limit.
    Limit = 9, "limit";
}

impl From<Trap> for Refusal {
    fn from(trap: Trap) -> Refusal {
        match trap {
            Trap::Repeat => Refusal::TrapRepeat,
            Trap::Deep => Refusal::TrapDeep,
            Trap::Params => Refusal::TrapParams,
            Trap::Long => Refusal::TrapLong,
            Trap::Alike => Refusal::TrapAlike,
            Trap::HostFlood => Refusal::TrapHosts,
            Trap::Dates => Refusal::TrapDates,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_unique() {
        for (i, a) in Refusal::ALL.iter().enumerate() {
            assert_eq!(Refusal::by_code(a.code()), Some(*a));
            assert!(Refusal::ALL[i + 1..].iter().all(|b| b.code() != a.code() && b.name() != a.name()));
        }
        assert_eq!(Refusal::by_code(0), None);
        assert!(Trap::ALL.iter().all(|trap| Refusal::from(*trap).name() == trap.name()));
    }
}
