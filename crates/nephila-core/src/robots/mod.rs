//! robots.txt: the rules of a site for crawlers (RFC 9309).
//!
//! The bytes of a file become [`Robots`] for one product token; nothing about other crawlers is kept. A
//! [`RobotsVerdict`] is computed for each URL, with exactly the path and query that will be sent. Where the RFC is
//! silent we follow Google's parser, and where a file is sloppy we take the reading that forbids more.
//!
//! Invariants: parsing never fails; at most [`ROBOTS_BYTES_MAX`] bytes are read, and an incomplete line at that limit
//! is dropped; a verdict takes time linear in rules and path, whatever the wildcards; `/robots.txt` is allowed.

mod docs;
mod pattern;
pub mod policy;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use pattern::{NormalPath, Pattern};

pub use docs::docs_page;
pub use policy::{
    CRAWL_DELAY_MAX, Denied, Policy, REDIRECTS_MAX, REFETCH_AFTER_MAX, REFETCH_AFTER_MIN, Rest, RobotsResult,
    Settings, UNREACHABLE_MAX, in_force, refetch_after, rest_in_force,
};

/// Maximum number of bytes that are read: 500 KiB, the minimum of RFC 9309, 2.5. This bounds the rules as well: no line
/// with a rule is shorter than eight bytes.
pub const ROBOTS_BYTES_MAX: usize = 500 * 1024;

/// Maximum number of sitemaps that are kept.
pub const SITEMAPS_MAX: usize = 1_000;

/// Maximum number of notes (`Content-Usage` and similar) that are kept.
pub const NOTES_MAX: usize = 200;

/// Maximum number of bytes of a line that are kept for display or records.
const LINE_BYTES_KEPT: usize = 1_024;

/// The contents of a robots.txt for one crawler.
#[derive(Clone, Debug, Default)]
pub struct Robots {
    /// Longest pattern first, allow before disallow: the first that matches decides.
    rules: Vec<Rule>,
    crawl_delay: Option<Duration>,
    sitemaps: Vec<String>,
    notes: Vec<Note>,
    group: Group,
    cut: bool,
}

/// The group of the file that applies to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Group {
    /// None: everything is allowed.
    #[default]
    None,
    /// The group for all crawlers, `*`.
    Everybody,
    /// The groups that name us.
    Named,
}

/// A line about the use of content: kept and recorded, with no effect on fetching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The line number in the file, from 1.
    pub line: usize,
    /// The key in lower case: `content-usage`, `content-signal`, `license`, and so on.
    pub name: String,
    /// The value.
    pub value: String,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: Pattern,
    allow: bool,
    line: usize,
    text: Box<str>,
}

/// Whether a path may be fetched, and the rule that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RobotsVerdict<'a> {
    /// Whether the path may be fetched.
    pub allowed: bool,
    /// The rule that decided: the line number in the file, from 1, and the line. None if no rule matched.
    pub rule: Option<(usize, &'a str)>,
}

impl Robots {
    /// Parses a file for the crawler with this product token. A version behind the token (`nephila/1.0`) is ignored, in
    /// the argument as in the file.
    pub fn parse(bytes: &[u8], agent: &str) -> Self {
        if bytes.len() <= ROBOTS_BYTES_MAX {
            return Robots::read(&as_utf8(bytes), agent);
        }
        let (start, after) = bytes.split_at(ROBOTS_BYTES_MAX);
        let text = as_utf8(start);
        // A line whose end comes right behind the limit is complete. (In UTF-16 one byte is not conclusive.)
        let is_whole = matches!(text, Cow::Borrowed(_)) && matches!(after.first(), Some(b'\r' | b'\n'));
        let robots = Robots::read(if is_whole { &text } else { whole_lines(&text) }, agent);
        Robots { cut: true, ..robots }
    }

    /// Parses the beginning of a file that is known to be longer: the caller stopped reading before [`Robots::parse`]
    /// could see the length. The last line counts only if complete.
    pub fn parse_start(bytes: &[u8], agent: &str) -> Self {
        let start = &bytes[..bytes.len().min(ROBOTS_BYTES_MAX)];
        Robots { cut: true, ..Robots::read(whole_lines(&as_utf8(start)), agent) }
    }

    fn read(text: &[u8], agent: &str) -> Self {
        let mut reader = Reader { agent: product_token(agent.as_bytes()), ..Reader::default() };
        for (index, line) in lines(text).enumerate() {
            reader.handle_line(index + 1, line);
        }
        reader.finish()
    }

    /// Whether this path may be fetched. The path must be the one that is sent:
    /// [`crate::url::CrawlUrl::path_and_query`].
    pub fn verdict(&self, path_and_query: &str) -> RobotsVerdict<'_> {
        self.verdict_with_work(path_and_query, |_| ())
    }

    /// The verdict; `work` is called with the cost of each step.
    fn verdict_with_work(&self, path_and_query: &str, mut work: impl FnMut(usize)) -> RobotsVerdict<'_> {
        let path = path_and_query.split('#').next().unwrap_or_default();
        if path.split('?').next() == Some("/robots.txt") {
            return RobotsVerdict { allowed: true, rule: None };
        }
        if self.rules.is_empty() {
            return RobotsVerdict { allowed: true, rule: None };
        }
        work(path.len());
        let path = NormalPath::of(path, self.rules.len());
        match self.rules.iter().find(|rule| rule.pattern.matches(&path, &mut work)) {
            Some(rule) => RobotsVerdict { allowed: rule.allow, rule: Some((rule.line, &rule.text)) },
            None => RobotsVerdict { allowed: true, rule: None },
        }
    }

    /// The crawl delay that our group asks for, the longest of several. See [`rest_in_force`].
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    /// The sitemaps that the file names, as written.
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }

    /// The statements about the use of content, to us or to all crawlers.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The group that applies to us.
    pub fn group(&self) -> Group {
        self.group
    }

    /// Whether everything is forbidden, for any path. False where that would need a closer look.
    pub fn forbids_all(&self) -> bool {
        !self.rules.is_empty()
            && self.rules.iter().all(|rule| !rule.allow)
            && self.rules.iter().any(|rule| rule.pattern.is_everything())
    }

    /// The first rules for us in the order of the file: the number of each line, from 1, and the line.
    pub fn rules(&self, max: usize) -> Vec<(usize, &str)> {
        let mut rules: Vec<(usize, &str)> = self.rules.iter().map(|rule| (rule.line, &*rule.text)).collect();
        rules.sort_unstable();
        rules.truncate(max);
        rules
    }

    /// The same rules without the words beside them: what [`Robots::verdict`] and [`Robots::forbids_all`] need. A verdict
    /// then names the line of a rule and not its text.
    pub(crate) fn for_verdicts(self) -> Robots {
        let without = |rule| Rule { text: Box::default(), ..rule };
        let mut rules: Vec<Rule> = self.rules.into_iter().map(without).collect();
        rules.shrink_to_fit();
        Robots { rules, sitemaps: Vec::new(), notes: Vec::new(), ..self }
    }

    /// Size in memory of the rules, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let beside = |rule: &Rule| rule.text.len() + rule.pattern.bytes();
        size_of::<Robots>()
            + self.rules.capacity() * size_of::<Rule>()
            + self.rules.iter().map(beside).sum::<usize>()
    }

    /// Number of rules for us.
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Whether the file was longer than [`ROBOTS_BYTES_MAX`].
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}

/// The lines collected for one audience.
#[derive(Default)]
struct Gathered {
    seen: bool,
    rules: Vec<Rule>,
    crawl_delay: Option<Duration>,
    notes: Vec<Note>,
}

#[derive(Default)]
struct Reader {
    agent: Vec<u8>,
    named: Gathered,
    everybody: Gathered,
    /// Notes outside any group.
    notes: Vec<Note>,
    sitemaps: Vec<String>,
    /// The group being read applies to us, to all crawlers.
    to_us: bool,
    to_everybody: bool,
    in_group: bool,
    /// A rule was read, so the next user-agent line opens a new group. Nothing else ends a group (RFC 9309, 2.2.1).
    rule_seen: bool,
}

enum Key {
    UserAgent,
    Allow,
    Disallow,
    CrawlDelay,
    Sitemap,
    Note(String),
    Unknown,
}

impl Reader {
    fn handle_line(&mut self, number: usize, line: &[u8]) {
        let content = line.split(|b| *b == b'#').next().unwrap_or_default();
        let Some((key, value)) = key_and_value(content) else { return };
        match read_key(key) {
            Key::UserAgent => {
                if self.rule_seen || !self.in_group {
                    (self.to_us, self.to_everybody) = (false, false);
                }
                (self.rule_seen, self.in_group) = (false, true);
                let star = value.first() == Some(&b'*') && value.get(1).is_none_or(u8::is_ascii_whitespace);
                self.to_everybody |= star;
                self.to_us |= !self.agent.is_empty() && product_token(value) == self.agent;
                self.named.seen |= self.to_us;
                self.everybody.seen |= self.to_everybody;
            }
            key @ (Key::Allow | Key::Disallow) => {
                // Rules before any user-agent line apply to no crawler.
                if !self.in_group {
                    return;
                }
                self.rule_seen = true;
                let Some(pattern) = Pattern::parse(value) else { return };
                let text = kept(content);
                let rule =
                    Rule { pattern, allow: matches!(key, Key::Allow), line: number, text: text.into() };
                for gathered in self.audiences() {
                    gathered.rules.push(rule.clone());
                }
            }
            Key::CrawlDelay => {
                if let Some(delay) = read_delay(value) {
                    for gathered in self.audiences() {
                        gathered.crawl_delay = gathered.crawl_delay.max(Some(delay));
                    }
                }
            }
            Key::Sitemap => {
                if !value.is_empty()
                    && self.sitemaps.len() < SITEMAPS_MAX
                    && value.len() <= crate::url::URL_BYTES_MAX
                {
                    self.sitemaps.push(String::from_utf8_lossy(value).into_owned());
                }
            }
            Key::Note(name) => {
                let note = Note { line: number, name, value: kept(value) };
                if !self.in_group {
                    push_note(&mut self.notes, note);
                } else {
                    for gathered in self.audiences() {
                        push_note(&mut gathered.notes, note.clone());
                    }
                }
            }
            Key::Unknown => {}
        }
    }

    /// The audiences of the group being read, of the two of interest.
    fn audiences(&mut self) -> impl Iterator<Item = &mut Gathered> {
        let us = Some(&mut self.named).filter(|_| self.to_us);
        let everybody = Some(&mut self.everybody).filter(|_| self.to_everybody);
        us.into_iter().chain(everybody)
    }

    fn finish(self) -> Robots {
        // A group that names us replaces the group for all crawlers, even if empty.
        let (gathered, group) = match (self.named.seen, self.everybody.seen) {
            (true, _) => (self.named, Group::Named),
            (false, true) => (self.everybody, Group::Everybody),
            (false, false) => (Gathered::default(), Group::None),
        };
        let mut rules = gathered.rules;
        rules.sort_by(|a, b| {
            let by_length = b.pattern.len().cmp(&a.pattern.len());
            by_length
                .then_with(|| b.allow.cmp(&a.allow))
                .then_with(|| a.pattern.cmp(&b.pattern))
                .then(a.line.cmp(&b.line))
        });
        rules.dedup_by(|later, first| later.pattern == first.pattern && later.allow == first.allow);
        let mut notes = self.notes;
        for note in gathered.notes {
            push_note(&mut notes, note);
        }
        Robots { rules, crawl_delay: gathered.crawl_delay, sitemaps: self.sitemaps, notes, group, cut: false }
    }
}

fn push_note(notes: &mut Vec<Note>, note: Note) {
    if notes.len() < NOTES_MAX {
        notes.push(note);
    }
}

/// A line or value for display, cut to [`LINE_BYTES_KEPT`].
fn kept(text: &[u8]) -> String {
    let text = text.trim_ascii();
    String::from_utf8_lossy(&text[..text.len().min(LINE_BYTES_KEPT)]).into_owned()
}

/// The leading part of a name that a product token may have (RFC 9309, 2.2.1), in lower case.
fn product_token(text: &[u8]) -> Vec<u8> {
    let text = text.trim_ascii();
    let end = text
        .iter()
        .position(|b| !(b.is_ascii_alphabetic() || matches!(b, b'-' | b'_')))
        .unwrap_or(text.len());
    text[..end].to_ascii_lowercase()
}

/// Splits at the colon. Without one, two words are taken for key and value.
fn key_and_value(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let content = trimmed(content);
    let (key, value) = match content.iter().position(|b| *b == b':') {
        Some(at) => (&content[..at], &content[at + 1..]),
        None => content.split_at(content.iter().position(u8::is_ascii_whitespace)?),
    };
    let (key, value) = (trimmed(key), trimmed(value));
    let is_pair = content.contains(&b':') || !value.iter().any(u8::is_ascii_whitespace);
    is_pair.then_some((key, value))
}

/// Without the blanks around the text. Zero bytes of a broken export are blanks too.
fn trimmed(text: &[u8]) -> &[u8] {
    let blank = |b: &u8| b.is_ascii_whitespace() || matches!(b, 0 | 0x0b);
    let start = text.iter().position(|b| !blank(b)).unwrap_or(text.len());
    let end = text.iter().rposition(|b| !blank(b)).map_or(start, |at| at + 1);
    &text[start..end]
}

/// Widespread misspellings count where they forbid more; `Allow` must be spelled correctly.
fn read_key(key: &[u8]) -> Key {
    match key.to_ascii_lowercase().as_slice() {
        b"user-agent" | b"useragent" | b"user agent" | b"user_agent" => Key::UserAgent,
        b"allow" => Key::Allow,
        b"disallow" | b"dissallow" | b"dissalow" | b"disalow" | b"diasllow" | b"disallaw" | b"dis-allow" => {
            Key::Disallow
        }
        b"crawl-delay" | b"crawldelay" | b"crawl delay" => Key::CrawlDelay,
        b"sitemap" | b"site-map" => Key::Sitemap,
        name @ (b"content-usage" | b"content-signal" | b"license" | b"llm-policy") => {
            Key::Note(String::from_utf8_lossy(name).into_owned())
        }
        name if name.starts_with(b"tdm-") => Key::Note(kept(name)),
        _ => Key::Unknown,
    }
}

/// Seconds, with an optional fraction. Negative, infinite and malformed values are ignored.
fn read_delay(value: &[u8]) -> Option<Duration> {
    let seconds: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Lines end with CR, LF or both.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let Some(end) = memchr::memchr2(b'\r', b'\n', text) else { return Some(text) };
        let after = if text[end..].starts_with(b"\r\n") { end + 2 } else { end + 1 };
        rest = Some(&text[after..]);
        Some(&text[..end])
    })
}

/// The complete lines of a file that is known to be longer, to be kept: [`Robots::parse`] reads them like
/// [`Robots::parse_start`] reads the bytes.
pub fn whole_start(bytes: &[u8]) -> Box<[u8]> {
    let text = as_utf8(&bytes[..bytes.len().min(ROBOTS_BYTES_MAX)]);
    // The same lines may be longer in UTF-8 than they were in UTF-16.
    whole_lines(&text[..text.len().min(ROBOTS_BYTES_MAX)]).into()
}

/// The complete lines. A cut may have changed the meaning of the last line: `Disallow: /a` may have been `/about`.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = memchr::memrchr2(b'\r', b'\n', bytes).map_or(0, |at| at + 1);
    &bytes[..end]
}

/// The file without its byte order mark; UTF-16 is converted to UTF-8. Anything else is returned unchanged, byte by
/// byte.
fn as_utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, mark)) if encoding == encoding_rs::UTF_8 => Cow::Borrowed(&bytes[mark..]),
        Some((encoding, _)) => Cow::Owned(encoding.decode(bytes).0.into_owned().into_bytes()),
        None => Cow::Borrowed(bytes),
    }
}
