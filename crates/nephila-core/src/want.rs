//! How a URL is wanted: by which job, how urgently, how the URL was reached, and how its response is to be read.
//!
//! A [`Want`] travels with its URL from the page with the link to the partition of the URL. There are two written
//! forms: one for messages between nodes, one for entries of the log. Both are here, beside the rule for URLs that are
//! offered twice, so that another attribute is one more field, with its bytes and its rule, and no other module of the
//! way names the field.
//!
//! Invariants: a want survives a round trip through a message unchanged. An entry has no refusal: the decision about
//! the URL says so.

use std::sync::Arc;

use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::handler::ReadAs;
use crate::job::{Hops, JobId, PRIORITY_USUAL, Via};
use crate::key::DomainKey;
use crate::refusal::Refusal;

const NO_SOURCE: DomainKey = DomainKey(0);

/// How a URL is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The job that wants the URL.
    pub job: JobId,
    /// Number of links from a seed.
    pub depth: u8,
    /// Links out of scope and redirects that led to the URL.
    pub hops: Hops,
    /// How to read the response.
    pub read_as: ReadAs,
    /// 0 is the most urgent: such an offer is sifted even if the URL was offered a moment ago.
    pub priority: u8,
    /// How often a stream named the URL.
    pub hits: u32,
    /// The rule that refuses the URL, if there is one: the URL is recorded with this reason.
    pub refusal: Option<Refusal>,
    /// Where the URL was found, if known.
    pub via: Option<Arc<Via>>,
    /// The registrable domain of the page with the link, if another than that of the URL. Zero for a link within its
    /// domain, for a seed, and if unknown. On the way to the partition only: no record of a URL has the source.
    pub source: DomainKey,
}

impl Want {
    /// A page that a job wants like a seed: of the usual priority, found at an unknown place.
    pub const fn of(job: JobId) -> Want {
        Want {
            job,
            depth: 0,
            hops: Hops::NONE,
            read_as: ReadAs::Page,
            priority: PRIORITY_USUAL,
            hits: 0,
            refusal: None,
            via: None,
            source: NO_SOURCE,
        }
    }

    /// The same, at this number of links from a seed.
    #[must_use]
    pub fn at(self, depth: u8) -> Want {
        Want { depth, ..self }
    }

    /// Takes over from another offer of the same URL: the more urgent priority, the fewest hops and the most specific
    /// reading count, and hits are summed. Depth, place and source stay.
    pub(crate) fn join(&mut self, other: &Want) {
        self.priority = self.priority.min(other.priority);
        self.hits = self.hits.saturating_add(other.hits);
        self.hops = self.hops.min(other.hops);
        self.read_as = self.read_as.max(other.read_as);
    }
}

// The attributes that came later, the same in both forms.
impl Want {
    /// Whether there are any. If so, only version 3 of messages and version 5 of groups hold the want.
    pub(crate) fn has_more(&self) -> bool {
        self.source != NO_SOURCE
    }

    fn put_more(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.source.0.to_be_bytes());
    }

    /// Attributes that a newer version adds stand behind, and are skipped.
    fn read_more(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let mut more = Reader::new(reader.bytes("more of a want")?);
        self.source = DomainKey(more.fixed_u64("source of a link")?);
        Ok(())
    }
}

// The form in a message.
impl Want {
    /// Appends the want to a message.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.job.0.into());
        out.extend([self.depth, self.hops.code(), self.read_as.code(), self.priority]);
        put_u64(out, self.hits.into());
        out.push(self.refusal.map_or(0, Refusal::code));
        // The first bit: the place follows. The second: more follows.
        out.push(u8::from(self.via.is_some()) | u8::from(self.has_more()) << 1);
        if let Some(via) = &self.via {
            via.put(out);
        }
        if self.has_more() {
            self.put_more(out);
        }
    }

    /// Decodes the want from a message of this version.
    pub(crate) fn read(reader: &mut Reader<'_>, version: u8) -> Result<Want, Damaged> {
        let mut want = Want {
            job: JobId(reader.u32("job of a link")?),
            depth: reader.u8("depth of a link")?,
            hops: Hops::by_code(reader.u8("hops of a link")?),
            read_as: ReadAs::by_code(reader.u8("reading of a link")?).ok_or(Damaged("reading of a link"))?,
            priority: reader.u8("priority of a link")?,
            hits: reader.u32("hits of a link")?,
            refusal: match reader.u8("refusal of a link")? {
                0 => None,
                code => Some(Refusal::by_code(code).ok_or(Damaged("refusal of a link"))?),
            },
            via: None,
            source: NO_SOURCE,
        };
        let bits = if version > 1 { reader.u8("page of a link")? } else { 0 };
        if bits & 1 != 0 {
            want.via = Some(Arc::new(Via::read(reader)?));
        }
        if bits & 2 != 0 {
            want.read_more(reader)?;
        }
        Ok(want)
    }
}

/// The bits for a want in the byte before a URL of an entry. The other bits belong to the entry.
mod bit {
    /// Job, depth, priority, hits, hops and reading are those of the URL before.
    pub(super) const SAME: u8 = 8;
    /// Hops out of scope follow the hits; without this bit there are none.
    pub(super) const HOPS: u8 = 32;
    /// The reading follows; without this bit the URL is read as a page.
    pub(super) const READ_AS: u8 = 64;
    /// The place where the URL was found follows. Without this bit: the place of the URL before, if the rest is the
    /// same, else unknown.
    pub(super) const VIA: u8 = 128;
}

/// A want in an entry: as the difference from the want of the URL before.
#[derive(Debug)]
pub(crate) struct Behind<'a> {
    want: &'a Want,
    /// All but the place and the source is that of the URL before.
    same: bool,
    /// The place, unless inherited.
    via: Option<&'a Via>,
    /// The source is not inherited.
    more: bool,
}

impl<'a> Behind<'a> {
    pub(crate) fn new(want: &'a Want, before: Option<&Want>) -> Behind<'a> {
        let alike = |w: &Want| (w.job, w.depth, w.priority, w.hits, w.hops, w.read_as);
        // A URL without a known place or source cannot inherit from a URL with one.
        let like = |before: &&Want| {
            alike(before) == alike(want)
                && (before.via.is_none() || want.via.is_some())
                && (!before.has_more() || want.has_more())
        };
        let before = before.filter(like);
        let inherited = before.and_then(|before| before.via.as_ref());
        let via = want.via.as_ref().filter(|via| inherited != Some(via));
        let more = want.source != before.map_or(NO_SOURCE, |before| before.source);
        Behind { want, same: before.is_some(), via: via.map(Arc::as_ref), more }
    }

    /// Whether attributes follow that have no bit of their own.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// The bits that [`Want::read_behind`] needs.
    pub(crate) fn bits(&self) -> u8 {
        let bit = |bit: u8, is_set: bool| if is_set { bit } else { 0 };
        bit(bit::SAME, self.same)
            | bit(bit::HOPS, !self.same && !self.want.hops.is_none())
            | bit(bit::READ_AS, !self.same && !self.want.read_as.is_page())
            | bit(bit::VIA, self.via.is_some())
    }

    /// Appends the difference to an entry.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let Want { job, depth, hops, read_as, priority, hits, .. } = self.want;
        if !self.same {
            put_u64(out, job.0.into());
            out.extend([*depth, *priority]);
            put_u64(out, (*hits).into());
            if !hops.is_none() {
                out.push(hops.code());
            }
            if !read_as.is_page() {
                out.push(read_as.code());
            }
        }
        if let Some(via) = self.via {
            via.put(out);
        }
        if self.more {
            self.want.put_more(out);
        }
    }
}

impl Want {
    /// Decodes the difference from the want of the URL before, given the byte before the URL and
    /// [`Behind::has_more`].
    pub(crate) fn read_behind(
        reader: &mut Reader<'_>,
        bits: u8,
        has_more: bool,
        before: Option<&Want>,
    ) -> Result<Want, Damaged> {
        let mut want = match before {
            Some(before) if bits & bit::SAME != 0 => before.clone(),
            _ => Want {
                job: JobId(reader.u32("job of a URL")?),
                depth: reader.u8("depth of a URL")?,
                priority: reader.u8("priority of a URL")?,
                hits: reader.u32("hits of a URL")?,
                hops: match bits & bit::HOPS {
                    0 => Hops::NONE,
                    _ => Hops::by_code(reader.u8("hops of a URL")?),
                },
                read_as: match bits & bit::READ_AS {
                    0 => ReadAs::Page,
                    _ => {
                        ReadAs::by_code(reader.u8("reading of a URL")?).ok_or(Damaged("reading of a URL"))?
                    }
                },
                refusal: None,
                via: None,
                source: NO_SOURCE,
            },
        };
        if bits & bit::VIA != 0 {
            want.via = Some(Arc::new(Via::read(reader)?));
        }
        if has_more {
            want.read_more(reader)?;
        }
        Ok(want)
    }
}

#[cfg(test)]
mod tests;
