//! The record of a host's robots.txt: its policy, its expiry, and why the file could not be read.

use std::fmt;

use crate::codec::{Damaged, Reader, put_u64};
use crate::spider::outcome::Outcome;
use crate::time::Seconds;

/// The robots.txt in force for a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RobotsRecord {
    /// The policy by the last answer.
    pub policy: RobotsPolicy,
    /// When the policy was found.
    pub fetched: Seconds,
    /// When robots.txt has to be requested again.
    pub expires: Seconds,
    /// Since when there has been no answer; 0 if there is one.
    pub unreachable_since: Seconds,
    /// The crawl delay that robots.txt asks for, in milliseconds; 0 if none.
    pub crawl_delay: u32,
    /// Why robots.txt could not be read the last time, if that failed and the reason is known.
    pub unread: Option<Unread>,
}

/// Why a robots.txt could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The server answered with this status.
    Status(u16),
    /// There was no answer, because of this outcome.
    Failed(Outcome),
}

/// The policy of a host's robots.txt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RobotsPolicy {
    /// Never requested: only robots.txt itself may be fetched.
    #[default]
    Unknown,
    /// The rules that are kept beside the record.
    Rules,
    /// There are no rules.
    AllowAll,
    /// Unreachable, and no older copy.
    DisallowAll,
}

impl RobotsPolicy {
    /// The stored code.
    pub const fn code(self) -> u8 {
        match self {
            RobotsPolicy::Unknown => 0,
            RobotsPolicy::Rules => 1,
            RobotsPolicy::AllowAll => 2,
            RobotsPolicy::DisallowAll => 3,
        }
    }

    /// Reads the stored code.
    pub const fn by_code(code: u8) -> Option<RobotsPolicy> {
        match code {
            0 => Some(RobotsPolicy::Unknown),
            1 => Some(RobotsPolicy::Rules),
            2 => Some(RobotsPolicy::AllowAll),
            3 => Some(RobotsPolicy::DisallowAll),
            _ => None,
        }
    }
}

impl RobotsRecord {
    /// Set in the first byte if the cause follows the other fields.
    const UNREAD: u8 = 0x80;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.policy.code() | if self.unread.is_some() { RobotsRecord::UNREAD } else { 0 });
        for number in [self.fetched.0, self.expires.0, self.unreachable_since.0, self.crawl_delay] {
            put_u64(out, number.into());
        }
        if let Some(unread) = self.unread {
            put_u64(out, unread.number().into());
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<RobotsRecord, Damaged> {
        const WHAT: &str = "robots of a host";
        let first = reader.u8(WHAT)?;
        let mut record = RobotsRecord {
            policy: RobotsPolicy::by_code(first & !RobotsRecord::UNREAD).ok_or(Damaged(WHAT))?,
            fetched: Seconds(reader.u32(WHAT)?),
            expires: Seconds(reader.u32(WHAT)?),
            unreachable_since: Seconds(reader.u32(WHAT)?),
            crawl_delay: reader.u32(WHAT)?,
            unread: None,
        };
        if first & RobotsRecord::UNREAD != 0 {
            record.unread = Some(Unread::by_number(reader.u32(WHAT)?).ok_or(Damaged(WHAT))?);
        }
        Ok(record)
    }
}

impl Unread {
    /// Numbers from here on are outcomes, lower ones are statuses.
    const OUTCOMES: u32 = 1 << 16;

    fn number(self) -> u32 {
        match self {
            Unread::Status(status) => status.into(),
            Unread::Failed(outcome) => Unread::OUTCOMES + u32::from(outcome.code()),
        }
    }

    fn by_number(number: u32) -> Option<Unread> {
        match number.checked_sub(Unread::OUTCOMES) {
            None => u16::try_from(number).ok().map(Unread::Status),
            Some(code) => u8::try_from(code).ok().and_then(Outcome::by_code).map(Unread::Failed),
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Status(status) => write!(f, "it answered {status}"),
            Unread::Failed(outcome) => write!(f, "{outcome}: {}", outcome.in_short()),
        }
    }
}
