//! Checks obedience to robots.txt. The rules of each site are known here as they were generated, not as they were
//! parsed.
//!
//! In force is the last answer in the log, or the rules before that answer if the answer carried none. No page is
//! requested before an answer, none that the rules forbid, none after the rules have expired, and none from an address
//! that the name does not have.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use nephila_core::robots::policy::RobotsResult;

use crate::rng::Rng;
use crate::{Checker, Violation};

/// A copy is used no longer than a day and no shorter than ten minutes, in seconds.
const KEPT: std::ops::RangeInclusive<u64> = 600..=86_400;

/// The lines of the files, and the text that each line matches. `None` is the end `9`.
const LINES: [(&str, Option<&str>); 8] = [
    ("/", Some("/")),
    ("/a/", Some("/a/")),
    ("/a/b/", Some("/a/b/")),
    ("/private/", Some("/private/")),
    ("/p", Some("/p")),
    ("/p1", Some("/p1")),
    ("/s%2A", Some("/s*")),
    ("/*9$", None),
];

/// A robots.txt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Whether the line allows or forbids, and the index of the line.
    rules: Vec<(bool, usize)>,
    /// The crawl delay in seconds.
    pub crawl_delay: Option<u64>,
}

impl File {
    /// A random file.
    pub fn random(rng: &mut Rng) -> File {
        let rules = (0..rng.below(4)).map(|_| {
            let line = rng.index(LINES.len());
            // Sites that close everything are rare, or there would be nothing to see.
            (rng.one_in(3), if line == 0 && !rng.one_in(4) { 3 } else { line })
        });
        File { rules: rules.collect(), crawl_delay: rng.one_in(4).then(|| rng.within(1, 25)) }
    }

    /// Its bytes.
    pub fn bytes(&self) -> Box<[u8]> {
        let mut text = String::from("User-agent: somebody-else\nDisallow: /\n\nUser-agent: *\n");
        for (allow, line) in &self.rules {
            let word = if *allow { "Allow" } else { "Disallow" };
            text += &format!("{word}: {}\n", LINES[*line].0);
        }
        if let Some(delay) = self.crawl_delay {
            text += &format!("Crawl-delay: {delay}\n");
        }
        text.into_bytes().into()
    }

    /// Whether this text may be fetched. The longest line decides; of two equal ones the more permissive.
    pub fn allows(&self, text: &str) -> bool {
        let matching = self.rules.iter().filter(|(_, line)| match LINES[*line].1 {
            Some(start) => text.starts_with(start),
            None => text.ends_with('9'),
        });
        matching.max_by_key(|(allow, line)| (LINES[*line].0.len(), *allow)).is_none_or(|(allow, _)| *allow)
    }
}

/// The rules in force for a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InForce {
    /// No answer yet.
    Unknown,
    /// These rules.
    Rules(File),
    /// No rules: everything may be fetched.
    AllowAll,
    /// Nothing may be fetched.
    DisallowAll,
}

/// The rules in force after an answer, and their expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The rules.
    pub in_force: InForce,
    /// Expiry in seconds of the wall clock; none if the retry table decides.
    pub expires: Option<u32>,
}

#[derive(Clone, Debug)]
struct HostBook {
    word: Word,
    /// Every file that was ever in force.
    files: Vec<File>,
    addresses: Vec<IpAddr>,
    /// Addresses that could not be reached since the lookup.
    refused: BTreeSet<IpAddr>,
}

/// Books about robots.txt and addresses.
#[derive(Debug)]
pub struct Obedience {
    hosts: Vec<HostBook>,
}

impl Obedience {
    /// Empty books.
    pub fn new(hosts: usize) -> Obedience {
        let word = Word { in_force: InForce::Unknown, expires: None };
        let book = HostBook { word, files: Vec::new(), addresses: Vec::new(), refused: BTreeSet::new() };
        Obedience { hosts: vec![book; hosts] }
    }

    /// The rules that follow from an answer (RFC 9309, 2.3.1), given the rules in force now.
    pub fn word(
        &self,
        host: usize,
        answer: RobotsResult,
        file: &File,
        max_age: Option<Duration>,
        wall: u32,
    ) -> Word {
        let expires = max_age.map_or(*KEPT.end(), |age| age.as_secs().clamp(*KEPT.start(), *KEPT.end()));
        let expires = Some(wall + expires as u32);
        let old = &self.hosts[host].word.in_force;
        match (answer, old) {
            (RobotsResult::Status(200..=299), _) => Word { in_force: InForce::Rules(file.clone()), expires },
            (RobotsResult::Status(304), InForce::Rules(_)) => Word { in_force: old.clone(), expires },
            (RobotsResult::Status(400..=428 | 430..=499) | RobotsResult::RedirectLimit, _) => {
                Word { in_force: InForce::AllowAll, expires }
            }
            (_, InForce::Rules(_)) => Word { in_force: old.clone(), expires: None },
            _ => Word { in_force: InForce::DisallowAll, expires: None },
        }
    }

    /// This answer is in the log.
    pub fn handle_word(&mut self, host: usize, word: Word) {
        if let InForce::Rules(file) = &word.in_force {
            self.hosts[host].files.push(file.clone());
        }
        self.hosts[host].word = word;
    }

    /// Whether the log has no answer about the site's robots.txt at all.
    pub fn is_unheard(&self, host: usize) -> bool {
        self.hosts[host].word.in_force == InForce::Unknown
    }

    /// A name was looked up.
    pub fn handle_resolved(&mut self, host: usize, addresses: &[IpAddr]) {
        self.hosts[host].addresses = addresses.to_vec();
        self.hosts[host].refused.clear();
    }

    /// This address could not be reached. Returns whether the name has an address that was not tried since the lookup.
    pub fn handle_refused(&mut self, host: usize, address: IpAddr) -> bool {
        let book = &mut self.hosts[host];
        book.refused.insert(address);
        book.addresses.iter().any(|address| !book.refused.contains(address))
    }

    /// The process died and lost the addresses of all names.
    pub fn handle_crash(&mut self) {
        self.hosts.iter_mut().for_each(|book| book.addresses.clear());
    }

    /// A request goes out to an address.
    pub fn handle_address(&self, host: usize, address: IpAddr) -> Result<(), Violation> {
        let known = &self.hosts[host].addresses;
        if known.contains(&address) {
            return Ok(());
        }
        Err(wrong(format!("host {host} is asked at {address}, its name has {known:?}")))
    }

    /// A page is requested.
    pub fn handle_page(&self, host: usize, text: &str, wall: u32) -> Result<(), Violation> {
        let Word { in_force, expires } = &self.hosts[host].word;
        let allowed = match in_force {
            InForce::Unknown | InForce::DisallowAll => false,
            InForce::AllowAll => true,
            InForce::Rules(file) => file.allows(text),
        };
        if !allowed {
            return Err(wrong(format!("host {host}: {text} is asked for, in force is {in_force:?}")));
        }
        if let Some(expires) = expires.filter(|expires| *expires <= wall) {
            return Err(wrong(format!(
                "host {host}: {text} is asked for at {wall}, robots.txt ran out at {expires}"
            )));
        }
        Ok(())
    }

    /// Whether a file that forbids this text was ever in force.
    pub fn was_forbidden(&self, host: usize, text: &str) -> bool {
        self.hosts[host].files.iter().any(|file| !file.allows(text))
    }
}

fn wrong(what: String) -> Violation {
    Violation::new(Checker::Robots, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_line_decides_and_the_kinder_of_two() {
        let file =
            File { rules: vec![(false, 1), (true, 2), (false, 7), (false, 3), (true, 3)], crawl_delay: None };
        assert!(!file.allows("/a/1") && file.allows("/a/b/9") && !file.allows("/p9"));
        assert!(file.allows("/private/1?q=1"), "allowed and forbidden by the same line");
    }

    #[test]
    fn no_answer_keeps_the_rules_and_forbids_everything_without() {
        let mut books = Obedience::new(1);
        let file = File { rules: vec![(false, 4)], crawl_delay: None };
        let word =
            |books: &Obedience, status| books.word(0, RobotsResult::Status(status), &file, None, 5).in_force;
        assert_eq!(word(&books, 500), InForce::DisallowAll);
        assert_eq!(word(&books, 404), InForce::AllowAll);
        books.handle_word(0, Word { in_force: InForce::Rules(file.clone()), expires: None });
        assert_eq!(word(&books, 500), InForce::Rules(file.clone()));
        assert_eq!(word(&books, 429), InForce::Rules(file.clone()));
        assert!(books.handle_page(0, "/p1", 0).is_err() && books.handle_page(0, "/a/1", 0).is_ok());
    }
}
