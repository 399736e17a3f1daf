//! The loaded URLs of a host, packed into one allocation: a million hosts hold some.

use super::ticket::Place;
use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::handler::ReadAs;
use crate::job::{Hops, JobId};
use crate::state::queue::{LaterKey, QueueKey};

/// A loaded URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The last part of its key.
    pub(crate) path: u64,
    /// The queue place or plan that the URL was read from.
    pub(crate) place: Place,
    pub(crate) job: JobId,
    pub(crate) depth: u8,
    pub(crate) hops: Hops,
    pub(crate) read_as: ReadAs,
    pub(crate) retries: u8,
    /// Whether the URL was requested before; such a fetch is no additional page.
    pub(crate) asked: bool,
    /// Path and query.
    pub(crate) text: Box<str>,
}

/// Bits of the flag byte of a loaded URL.
mod flag {
    /// The low bits: the kind of place.
    pub(super) const PLACE: u8 = 3;
    /// A byte of hops follows the retries; without this flag there are none.
    pub(super) const HOPS: u8 = 4;
    /// A byte with the reading follows; without this flag the URL is read as a page.
    pub(super) const READ_AS: u8 = 8;
    /// The URL was requested before.
    pub(super) const ASKED: u8 = 16;
}

/// The loaded URLs of a host, first to last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads {
    bytes: Box<[u8]>,
    /// Offset of the first remaining URL.
    at: u32,
    left: u16,
}

impl Heads {
    /// Packs these URLs. At most 65,535 are taken; settings stay far below.
    pub(crate) fn pack(heads: &[Head]) -> Heads {
        let mut out = Vec::with_capacity(heads.iter().map(|head| 32 + head.text.len()).sum());
        let heads = &heads[..heads.len().min(usize::from(u16::MAX))];
        for head in heads {
            out.extend(head.path.to_be_bytes());
            let mut flags = 0;
            if !head.hops.is_none() {
                flags |= flag::HOPS;
            }
            if !head.read_as.is_page() {
                flags |= flag::READ_AS;
            }
            if head.asked {
                flags |= flag::ASKED;
            }
            match head.place {
                Place::Queue(place) => {
                    out.push(flags);
                    out.extend(place.to_bytes());
                }
                Place::Parked(place) => {
                    out.push(flags | 1);
                    out.extend(place.to_bytes());
                }
                Place::Later(place) => {
                    out.push(flags | 2);
                    out.extend(place.to_bytes());
                }
            }
            put_u64(&mut out, head.job.0.into());
            out.extend([head.depth, head.retries]);
            if !head.hops.is_none() {
                out.push(head.hops.code());
            }
            if !head.read_as.is_page() {
                out.push(head.read_as.code());
            }
            put_bytes(&mut out, head.text.as_bytes());
        }
        Heads { bytes: out.into_boxed_slice(), at: 0, left: heads.len() as u16 }
    }

    pub(crate) fn len(&self) -> usize {
        self.left.into()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes and returns the first URL.
    pub(crate) fn pop(&mut self) -> Option<Head> {
        self.left = self.left.checked_sub(1)?;
        let mut reader = Reader::new(&self.bytes[self.at as usize..]);
        let head = read(&mut reader).expect("we packed it ourselves");
        self.at = (self.bytes.len() - reader.rest().len()) as u32;
        if self.left == 0 {
            *self = Heads::default();
        }
        Some(head)
    }

    /// All remaining URLs, first to last.
    pub(crate) fn all(&self) -> Vec<Head> {
        let mut reader = Reader::new(&self.bytes[self.at as usize..]);
        (0..self.left).map(|_| read(&mut reader).expect("we packed it ourselves")).collect()
    }
}

fn read(reader: &mut Reader<'_>) -> Result<Head, Damaged> {
    let path = reader.fixed_u64("key")?;
    let flags = reader.u8("place")?;
    let place = match flags & flag::PLACE {
        0 => Place::Queue(QueueKey::from_bytes(reader.take(QueueKey::BYTES, "place")?)),
        1 => Place::Parked(QueueKey::from_bytes(reader.take(QueueKey::BYTES, "place")?)),
        _ => Place::Later(LaterKey::from_bytes(reader.take(LaterKey::BYTES, "place")?)),
    };
    Ok(Head {
        path,
        place,
        job: JobId(reader.u32("job")?),
        depth: reader.u8("depth")?,
        retries: reader.u8("retries")?,
        asked: flags & flag::ASKED != 0,
        hops: if flags & flag::HOPS != 0 { Hops::by_code(reader.u8("hops")?) } else { Hops::NONE },
        read_as: match flags & flag::READ_AS {
            0 => ReadAs::Page,
            _ => ReadAs::by_code(reader.u8("reading")?).ok_or(Damaged("reading"))?,
        },
        text: reader.text("text")?.into(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Seconds;

    proptest! {
        #[test]
        fn heads_come_out_as_they_went_in(urls in prop::collection::vec((any::<u64>(), 0..3u8, any::<u32>(), "[ -~]{0,40}"), 0..20)) {
            let heads: Vec<Head> = urls.into_iter().map(|(path, kind, n, text)| Head {
                path,
                place: match kind {
                    0 => Place::Queue(QueueKey { band: 3, age: Seconds(n), low: 9 }),
                    1 => Place::Parked(QueueKey { band: 255, age: Seconds(n), low: 9 }),
                    _ => Place::Later(LaterKey { due: Seconds(n), path }),
                },
                job: JobId(n), depth: n as u8, hops: Hops::by_code((n >> 8) as u8 % 3),
                read_as: ReadAs::ALL[n as usize % 3], retries: 2, asked: n % 2 == 0, text: text.into(),
            }).collect();
            let mut packed = Heads::pack(&heads);
            prop_assert_eq!(&packed.all(), &heads);
            for (i, head) in heads.iter().enumerate() {
                prop_assert_eq!(packed.len(), heads.len() - i);
                let popped = packed.pop();
                prop_assert_eq!(popped.as_ref(), Some(head));
            }
            prop_assert!(packed.is_empty() && packed.pop().is_none() && packed.bytes() == 0);
        }
    }
}
