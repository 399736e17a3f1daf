//! Facts for readers of the log that the fold does not need: the names of hosts that the other entries of the group
//! know by their keys alone, whether pages had changed, and which stories a feed had.
//!
//! The log is also the source of events ([`crate::event`]). A reader of events has the groups and nothing else, and
//! may begin in their middle; so every group repeats the names of its hosts.
//!
//! Invariants: the fold skips this entry, which survives a round trip through its bytes unchanged.

use std::collections::BTreeMap;

use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::feed::record::NewStory;
use crate::key::HostKey;
use crate::time::Seconds;

/// Facts of a group that only readers of events use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventContext {
    /// When the group was decided.
    pub at: Seconds,
    /// The origins of hosts.
    pub origins: BTreeMap<HostKey, Box<str>>,
    /// Fetches of pages that were known before, and whether they had changed.
    pub visits: BTreeMap<u64, bool>,
    /// New stories, by the fetch of their feed.
    pub stories: Vec<(u64, Vec<NewStory>)>,
}

impl EventContext {
    /// Appends the written form.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.at.0.into());
        put_u64(out, self.origins.len() as u64);
        for (host, origin) in &self.origins {
            out.extend(host.to_bytes());
            put_bytes(out, origin.as_bytes());
        }
        put_u64(out, self.visits.len() as u64);
        for (fetch, changed) in &self.visits {
            put_u64(out, *fetch);
            out.push((*changed).into());
        }
        put_u64(out, self.stories.len() as u64);
        for (fetch, stories) in &self.stories {
            put_u64(out, *fetch);
            put_u64(out, stories.len() as u64);
            for story in stories {
                put_bytes(out, story.url.as_bytes());
                put_bytes(out, story.title.as_bytes());
            }
        }
    }

    /// Reads the written form.
    pub fn read(reader: &mut Reader<'_>) -> Result<EventContext, Damaged> {
        const WHAT: &str = "event context of a group";
        let mut context = EventContext { at: Seconds(reader.u32(WHAT)?), ..EventContext::default() };
        for _ in 0..reader.u64(WHAT)? {
            let host = reader.take(HostKey::BYTES, WHAT)?;
            let host = HostKey::from_bytes(host.try_into().expect("as many were taken"));
            context.origins.insert(host, reader.text(WHAT)?.into());
        }
        for _ in 0..reader.u64(WHAT)? {
            context.visits.insert(reader.u64(WHAT)?, reader.u8(WHAT)? != 0);
        }
        for _ in 0..reader.u64(WHAT)? {
            let (fetch, mut stories) = (reader.u64(WHAT)?, Vec::new());
            for _ in 0..reader.u64(WHAT)? {
                stories.push(NewStory { url: reader.text(WHAT)?.into(), title: reader.text(WHAT)?.into() });
            }
            context.stories.push((fetch, stories));
        }
        Ok(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::record::STORY_TITLE_BYTES_MAX;
    use crate::key::DomainKey;

    // The bytes outlive us: a log of today is read by the node of tomorrow.
    #[test]
    fn golden_aside() {
        let host = HostKey { domain: DomainKey(0x0102), host: 3 };
        let context = EventContext {
            at: Seconds(300),
            origins: BTreeMap::from([(host, "a".into())]),
            visits: BTreeMap::from([(7, true), (8, false)]),
            stories: vec![(9, vec![NewStory::new("u", "t")])],
        };
        let mut out = Vec::new();
        context.put(&mut out);
        let golden = [
            &[0xac, 0x02, 1, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 1, b'a'][..],
            &[2, 7, 1, 8, 0, 1, 9, 1, 1, b'u', 1, b't'],
        ];
        assert_eq!(out, golden.concat());
        assert_eq!(EventContext::read(&mut Reader::new(&out)), Ok(context));
        for cut in 0..out.len() {
            assert!(EventContext::read(&mut Reader::new(&out[..cut])).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_long_title_is_cut_between_two_characters() {
        let story = NewStory::new("http://a.test/", &"ü".repeat(STORY_TITLE_BYTES_MAX));
        assert_eq!(&*story.title, "ü".repeat(STORY_TITLE_BYTES_MAX / 2));
    }
}
