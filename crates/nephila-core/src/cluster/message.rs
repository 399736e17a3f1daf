//! Messages to a partition's inbox, as bytes.
//!
//! Links are sorted by origin and text, and each is written as the difference from the link before (prefix
//! compression); then the whole is deflated. A link's key is not sent: the receiver has the same secret and computes
//! the key again. Only a key made by another rule (a job that drops parameters, say) is written in full.
//!
//! Invariants: a message carries its version and a hash over everything before the hash; damaged bytes are a
//! [`Damaged`], never a panic, and never unpack to more than [`UNPACKED_MAX`].

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use xxhash_rust::xxh3::xxh3_64;

use super::NodeId;
use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::entry::{Entry, get_entry, put_entry};
use crate::frontier::offers::OfferedUrl;
use crate::key::{Secret, UrlKey};
use crate::url::CrawlUrl;
use crate::want::Want;

/// Maximum unpacked size of a message in bytes, and maximum size of the texts of its links. A parcel holds 64 kB and
/// one URL more, so no parcel comes near this limit.
pub const UNPACKED_MAX: usize = 4 << 20;

const MAGIC: &[u8; 2] = b"NM";
/// The newest version, for a command to spread a domain. Version 1 does not say where a link was found. All are read.
const VERSION: u8 = 4;
/// The version of messages with links that have a source.
const VERSION_SOURCES: u8 = 3;
/// The version of all other messages: nodes of an older program read them.
const VERSION_USUAL: u8 = 2;
const VERSION_OLDEST: u8 = 1;

/// Deflate's level: the fastest. The prefixes are gone already, and the next levels save less than a tenth.
const LEVEL: u32 = 1;

/// A message to a partition's inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// URLs that a node found.
    Offers {
        /// The node that found them.
        from: NodeId,
        /// The URLs. They are read in the order of origin and text, in whichever order they were written.
        offers: Vec<OfferedUrl>,
    },
    /// An entry for the partition's log: an operator's command about a job, a host or a domain.
    Command(Box<Entry>),
}

/// The fourth byte of a message. These numbers never change.
mod kind {
    pub(super) const OFFERS: u8 = 1;
    pub(super) const COMMAND: u8 = 2;
}

impl Message {
    /// The encoded message.
    pub fn encode(&self, secret: &Secret) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        out.extend(MAGIC);
        out.push(match self {
            Message::Offers { offers, .. } if offers.iter().any(|url| url.want.has_more()) => VERSION_SOURCES,
            Message::Command(entry) if matches!(**entry, Entry::Spread(_)) => VERSION,
            _ => VERSION_USUAL,
        });
        match self {
            Message::Offers { from, offers } => {
                out.push(kind::OFFERS);
                out.extend(from.0.to_be_bytes());
                let mut sorted: Vec<&OfferedUrl> = offers.iter().collect();
                sorted
                    .sort_by(|a, b| (&a.origin, &a.text, a.want.job).cmp(&(&b.origin, &b.text, b.want.job)));
                let body = pack(&sorted, secret);
                put_u64(&mut out, body.len() as u64);
                let mut deflate = DeflateEncoder::new(out, Compression::new(LEVEL));
                deflate.write_all(&body).expect("memory takes everything");
                out = deflate.finish().expect("memory takes everything");
            }
            Message::Command(entry) => {
                out.push(kind::COMMAND);
                put_entry(&mut out, entry);
            }
        }
        let hash = xxh3_64(&out);
        out.extend(hash.to_be_bytes());
        out
    }

    /// The version of an undamaged message that only a newer program can read. Such a message must not be skipped.
    pub fn newer(bytes: &[u8]) -> Option<u8> {
        let (body, hash) = bytes.split_last_chunk::<8>()?;
        let version = *body.strip_prefix(MAGIC)?.first()?;
        (version > VERSION && u64::from_be_bytes(*hash) == xxh3_64(body)).then_some(version)
    }

    /// Decodes a message. The secret must be that of the sender.
    pub fn decode(bytes: &[u8], secret: &Secret) -> Result<Message, Damaged> {
        let len = bytes.len().checked_sub(8).ok_or(Damaged("length of a message"))?;
        let (body, hash) = bytes.split_at(len);
        if hash != xxh3_64(body).to_be_bytes() {
            return Err(Damaged("hash of a message"));
        }
        let mut reader = Reader::new(body);
        if reader.take(2, "mark of a message")? != MAGIC {
            return Err(Damaged("mark of a message"));
        }
        let version = reader.u8("version of a message")?;
        if !(VERSION_OLDEST..=VERSION).contains(&version) {
            return Err(Damaged("version of a message"));
        }
        let message = match reader.u8("kind of a message")? {
            kind::OFFERS => {
                let from = NodeId(reader.fixed_u64("sender of a message")?);
                let body = inflate(&mut reader)?;
                Message::Offers { from, offers: unpack(&body, version, secret)? }
            }
            kind::COMMAND => Message::Command(Box::new(get_entry(&mut reader)?)),
            _ => return Err(Damaged("kind of a message")),
        };
        if !reader.is_empty() {
            return Err(Damaged("end of a message"));
        }
        Ok(message)
    }
}

fn inflate(reader: &mut Reader<'_>) -> Result<Vec<u8>, Damaged> {
    const WHAT: Damaged = Damaged("packed links");
    let len = usize::try_from(reader.u64("length of links")?).map_err(|_| WHAT)?;
    if len > UNPACKED_MAX {
        return Err(WHAT);
    }
    let packed = reader.take(reader.rest().len(), "packed links")?;
    // The length is a claim: memory grows with the bytes that really come out.
    let mut body = Vec::with_capacity(len.min(packed.len() * 8));
    let mut inflate = DeflateDecoder::new(packed).take(len as u64 + 1);
    inflate.read_to_end(&mut body).map_err(|_| WHAT)?;
    let rest = inflate.into_inner().into_inner();
    if body.len() != len || !rest.is_empty() {
        return Err(WHAT);
    }
    Ok(body)
}

/// The low bits of a link's first number; the bits above hold the length of the prefix shared with the link before.
mod link {
    /// Job, depth and the like are those of the link before.
    pub(super) const SAME: u64 = 1;
    /// The key follows: the usual rule does not give this key.
    pub(super) const KEY: u64 = 2;
    pub(super) const BITS: u32 = 2;
}

fn pack(sorted: &[&OfferedUrl], secret: &Secret) -> Vec<u8> {
    let mut out = Vec::with_capacity(sorted.len() * 32 + 16);
    put_u64(&mut out, sorted.len() as u64);
    let (mut origin, mut want) = ("", None);
    for links in sorted.chunk_by(|a, b| a.origin == b.origin) {
        put_u64(&mut out, links.len() as u64);
        put_behind(&mut out, origin, &links[0].origin, 0, 0);
        origin = &links[0].origin;
        let mut text = "";
        for this in links {
            let mut flags = 0;
            if want == Some(&this.want) {
                flags |= link::SAME;
            }
            let usual = key_of(origin, &this.text, secret) == Some(this.key);
            if !usual {
                flags |= link::KEY;
            }
            put_behind(&mut out, text, &this.text, flags, link::BITS);
            if flags & link::SAME == 0 {
                this.want.put(&mut out);
                want = Some(&this.want);
            }
            if !usual {
                out.extend(this.key.to_bytes());
            }
            text = &this.text;
        }
    }
    out
}

fn unpack(body: &[u8], version: u8, secret: &Secret) -> Result<Vec<OfferedUrl>, Damaged> {
    let mut reader = Reader::new(body);
    let count = usize::try_from(reader.u64("number of links")?).map_err(|_| Damaged("number of links"))?;
    // A link takes at least two bytes, so a wrong count cannot make us allocate much.
    let mut offers: Vec<OfferedUrl> = Vec::with_capacity(count.min(body.len() / 2));
    let mut origin = String::new();
    let mut before: Option<Want> = None;
    // A few bytes can repeat a long text, so the unpacked size is bounded.
    let mut room = UNPACKED_MAX;
    while offers.len() < count {
        let links = reader.u64("links of an origin")?;
        if links == 0 || links > (count - offers.len()) as u64 {
            return Err(Damaged("links of an origin"));
        }
        (origin, _) = get_behind(&mut reader, &origin, 0)?;
        let mut text = String::new();
        for _ in 0..links {
            let flags;
            (text, flags) = get_behind(&mut reader, &text, link::BITS)?;
            room = room.checked_sub(origin.len() + text.len()).ok_or(Damaged("length of links"))?;
            let want = match before.take() {
                Some(before) if flags & link::SAME != 0 => before,
                _ => Want::read(&mut reader, version)?,
            };
            before = Some(want.clone());
            let key = match flags & link::KEY {
                0 => key_of(&origin, &text, secret).ok_or(Damaged("key of a link"))?,
                _ => {
                    let bytes = reader.take(UrlKey::BYTES, "key of a link")?;
                    UrlKey::from_bytes(bytes.try_into().expect("as many were taken"))
                }
            };
            let (origin, text) = (origin.as_str().into(), text.as_str().into());
            offers.push(OfferedUrl { key, origin, text, want });
        }
    }
    if !reader.is_empty() {
        return Err(Damaged("end of links"));
    }
    Ok(offers)
}

fn key_of(origin: &str, text: &str, secret: &Secret) -> Option<UrlKey> {
    CrawlUrl::parse(&[origin, text].concat()).ok().map(|url| UrlKey::of(&url, secret))
}

/// Writes a text as the difference from the text before; the low `bits` of its first number are free for `flags`.
fn put_behind(out: &mut Vec<u8>, before: &str, this: &str, flags: u64, bits: u32) {
    let shared = before.bytes().zip(this.bytes()).take_while(|(a, b)| a == b).count();
    // The prefix ends at a character boundary: the bytes read back must be text.
    let shared = (0..=shared).rev().find(|&at| this.is_char_boundary(at)).unwrap_or(0);
    put_u64(out, (shared as u64) << bits | flags);
    put_bytes(out, &this.as_bytes()[shared..]);
}

fn get_behind(reader: &mut Reader<'_>, before: &str, bits: u32) -> Result<(String, u64), Damaged> {
    let head = reader.u64("text of a link")?;
    let shared = usize::try_from(head >> bits).map_err(|_| Damaged("text of a link"))?;
    let prefix = before.get(..shared).ok_or(Damaged("text of a link"))?;
    let suffix = reader.text("text of a link")?;
    Ok(([prefix, suffix].concat(), head & ((1 << bits) - 1)))
}

#[cfg(test)]
mod tests;
