//! A page was visited again: the log entry beside the outcome.
//!
//! Invariant: the fold adds whole numbers that the owner decided on, so that another estimate in a later program does
//! not change the past.

use super::rate::Visit;
use super::trust::{Ask, VisitResult};
use crate::codec::{Damaged, Reader, put_u64};
use crate::key::UrlKey;
use crate::time::Seconds;

/// A page was visited again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visited {
    /// The page.
    pub key: UrlKey,
    /// The number of the fetch, for deduplication: the same fetch again changes nothing.
    pub fetch: u64,
    /// The visit, added to the sums of the page and its site.
    pub visit: Visit,
    /// The kind of request and the answer, if the page had validators.
    pub claim: Option<(Ask, VisitResult)>,
    /// Whether its body was large, if there was one.
    pub large: Option<bool>,
    /// Up to when the time of its host is booked from now on, if the time is limited.
    pub booked: Option<Seconds>,
}

impl Visited {
    /// Appends the written form.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.key.to_bytes());
        put_u64(out, self.fetch);
        put_u64(out, self.visit.seconds.into());
        put_u64(out, self.visit.changes.into());
        let large = match self.large {
            None => 0,
            Some(large) => 64 | u8::from(large) << 5,
        };
        let booked = u8::from(self.booked.is_some()) << 7;
        out.push(
            booked
                | large
                | match self.claim {
                    None => 0,
                    Some((ask, found)) => {
                        let ask = match ask {
                            Ask::Get => 1,
                            Ask::Conditional => 2,
                            Ask::Head => 3,
                        };
                        ask | match found {
                            VisitResult::Unchanged => 4,
                            VisitResult::Whole { changed, same_validators } => {
                                u8::from(changed) << 3 | u8::from(same_validators) << 4
                            }
                        }
                    }
                },
        );
        if let Some(booked) = self.booked {
            put_u64(out, booked.0.into());
        }
    }

    /// Reads the written form.
    pub fn read(reader: &mut Reader<'_>) -> Result<Visited, Damaged> {
        let key = reader.take(UrlKey::BYTES, "key of a visit")?;
        let key = UrlKey::from_bytes(key.try_into().expect("as many were taken"));
        let fetch = reader.u64("fetch of a visit")?;
        let visit = Visit { seconds: reader.u32("visit")?, changes: reader.u32("visit")? };
        let claim = reader.u8("claim of a visit")?;
        let found = match claim & 4 {
            0 => VisitResult::Whole { changed: claim & 8 != 0, same_validators: claim & 16 != 0 },
            _ => VisitResult::Unchanged,
        };
        let ask = [None, Some(Ask::Get), Some(Ask::Conditional), Some(Ask::Head)][usize::from(claim & 3)];
        let large = (claim & 64 != 0).then_some(claim & 32 != 0);
        let booked = match claim & 128 {
            0 => None,
            _ => Some(Seconds(reader.u32("time of a visit")?)),
        };
        Ok(Visited { key, fetch, visit, claim: ask.map(|ask| (ask, found)), large, booked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{DomainKey, HostKey};

    // The bytes outlive us: a log of today is folded by the node of tomorrow.
    #[test]
    fn golden_visit() {
        let key = UrlKey { host: HostKey { domain: DomainKey(0x0102), host: 3 }, path: 4 };
        let whole =
            |changed, same_validators| Some((Ask::Get, VisitResult::Whole { changed, same_validators }));
        let booked = Some(Seconds(300));
        let claims = [
            (None, None, None, vec![0]),
            (Some((Ask::Conditional, VisitResult::Unchanged)), None, None, vec![6]),
            (whole(true, false), Some(false), None, vec![9 | 64]),
            (whole(false, true), Some(true), None, vec![17 | 96]),
            (Some((Ask::Head, VisitResult::Unchanged)), None, booked, vec![7 | 128, 0xac, 0x02]),
        ];
        for (claim, large, booked, bytes) in claims {
            let visit = Visit { seconds: 86_400, changes: 5 };
            let visited = Visited { key, fetch: 300, visit, claim, large, booked };
            let mut out = Vec::new();
            visited.put(&mut out);
            let mut golden = vec![0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4];
            golden.extend([0xac, 0x02, 0x80, 0xa3, 0x05, 5]);
            golden.extend(bytes);
            assert_eq!(out, golden);
            assert_eq!(Visited::read(&mut Reader::new(&out)), Ok(visited));
        }
    }
}
