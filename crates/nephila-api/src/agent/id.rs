//! The id of a crawl: the name of its job, and what of its pages is wanted. So no server has to remember a crawl.
//!
//! `agent-19a3f0c2b41-5e2c1a.mlo` is the job `agent-19a3f0c2b41-5e2c1a`, begun at that number of milliseconds since 1970,
//! whose pages are wanted as Markdown of the main text, with links.

use super::Wants;
use super::failure::{Failure, Kind};
use super::scrape::now;

/// Prefix of the names of jobs of crawls.
pub(super) const PREFIX: &str = "agent-";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Id {
    /// Name of the job.
    pub(super) job: String,
    /// When the crawl began, in milliseconds since 1970.
    pub(super) began_ms: u64,
    pub(super) wants: Wants,
}

/// Letters of what is wanted.
fn letters(wants: Wants) -> [(char, bool); 6] {
    let Wants { markdown, html, raw_html, links, images, only_main } = wants;
    [('m', markdown), ('h', html), ('r', raw_html), ('l', links), ('i', images), ('o', only_main)]
}

impl Id {
    /// A new one.
    pub(super) fn new(wants: Wants) -> Id {
        let began_ms = now().0;
        let chance = uuid::Uuid::new_v4().as_u128() as u32 & 0xff_ffff;
        Id { job: format!("{PREFIX}{began_ms:x}-{chance:06x}"), began_ms, wants }
    }

    /// The text that clients get.
    pub(super) fn text(&self) -> String {
        let letters: String =
            letters(self.wants).iter().filter(|(_, is)| *is).map(|(letter, _)| letter).collect();
        format!("{}.{letters}", self.job)
    }

    /// Parses a text.
    pub(super) fn parse(text: &str) -> Result<Id, Failure> {
        let unknown = || {
            let text = nephila_core::text::shown(text);
            Failure::new(
                Kind::NotFound,
                format!("there is no crawl {text}: an id is what beginning a crawl answers"),
            )
        };
        let (job, wanted) = text.rsplit_once('.').ok_or_else(unknown)?;
        let began = job.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
        let began_ms =
            began.and_then(|(began, _)| u64::from_str_radix(began, 16).ok()).ok_or_else(unknown)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !job.bytes().all(plain) || !wanted.chars().all(|letter| "mhrlio".contains(letter)) {
            return Err(unknown());
        }
        let has = |letter: char| wanted.contains(letter);
        let wants = Wants {
            markdown: has('m'),
            html: has('h'),
            raw_html: has('r'),
            links: has('l'),
            images: has('i'),
            only_main: has('o'),
        };
        Ok(Id { job: job.to_owned(), began_ms, wants })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written_and_nothing_else_is_one() {
        let wants = Wants { html: true, images: true, only_main: false, ..Wants::default() };
        let id = Id::new(wants);
        assert_eq!(Id::parse(&id.text()).unwrap(), id);
        assert_ne!(Id::new(wants).job, id.job);
        for other in
            ["", "crawl", "agent", "agent-.m", "press.m", "agent-12-1.x", "agent-12/../x-1.m", "active"]
        {
            assert_eq!(Id::parse(other).unwrap_err().kind, Kind::NotFound, "{other}");
        }
    }
}
