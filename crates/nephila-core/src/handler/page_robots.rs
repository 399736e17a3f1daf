//! Robots directives of a page: `meta name=robots`, the `X-Robots-Tag` field, and statements about the use of its text.
//!
//! Directives for all agents and directives for our agent are kept apart while reading. If there are directives for our
//! agent, in a `meta` with its name or in a field that begins with its name, only these count; otherwise the directives
//! for all agents do. How they are applied is a policy of the job, not decided here.
//!
//! Statements about use (`Content-Usage`, `Content-Signal`, `tdm-reservation`, `noai`) have no settled meaning. They
//! are recorded verbatim.
//!
//! Invariants: at most [`VALUES_MAX`] values of [`VALUE_BYTES_MAX`] bytes are read, and at most [`USAGE_MAX`]
//! statements are kept.

/// Maximum number of values that are read from one page.
pub const VALUES_MAX: usize = 64;

/// Maximum length of a value in bytes; a longer one is cut.
pub const VALUE_BYTES_MAX: usize = 4 * 1024;

/// Maximum number of statements about use that are kept.
pub const USAGE_MAX: usize = 16;

/// Maximum length of a kept statement in bytes.
pub const USAGE_BYTES_MAX: usize = 512;

/// The robots directives of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRobots {
    /// Do not show the page in an index.
    pub noindex: bool,
    /// Do not follow the links.
    pub nofollow: bool,
    /// Do not show a copy.
    pub noarchive: bool,
    /// Do not show parts of the text.
    pub nosnippet: bool,
    /// Do not show the images in an index.
    pub noimageindex: bool,
    /// Not to be shown after this time, as written. Recorded, never acted upon.
    pub unavailable_after: Option<String>,
    /// The directives were for our agent by name.
    pub named: bool,
    /// Statements about the use of the text, as pairs of source (`content-usage`) and statement (`train-ai=n`).
    pub usage: Vec<(String, String)>,
}

/// Collects the directives of a page, in any order.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    agent: String,
    everybody: PageRobots,
    ours: PageRobots,
    usage: Vec<(String, String)>,
    values: usize,
}

impl Reader {
    /// For an agent by its product token (`nephila`); an empty token never matches.
    pub(super) fn new(agent: &str) -> Reader {
        Reader {
            agent: agent.to_ascii_lowercase(),
            everybody: PageRobots::default(),
            ours: PageRobots { named: true, ..Default::default() },
            usage: Vec::new(),
            values: 0,
        }
    }

    /// Reads the fields of an answer.
    pub(super) fn read_fields(&mut self, fields: &http::HeaderMap) {
        for value in fields.get_all("x-robots-tag") {
            self.read_tag(&String::from_utf8_lossy(value.as_bytes()));
        }
        for name in USAGE_NAMES {
            for value in fields.get_all(*name) {
                self.read_usage(name, &String::from_utf8_lossy(value.as_bytes()));
            }
        }
    }

    /// Reads a `meta` element. Unrelated names are ignored.
    pub(super) fn read_meta(&mut self, name: &str, content: &str) {
        let name = name.trim().to_ascii_lowercase();
        let named = !self.agent.is_empty() && name == self.agent;
        if name == "robots" || named {
            if let Some(content) = self.take(content) {
                self.read_words(&content, named);
            }
        } else if let Some(name) = USAGE_NAMES.iter().find(|known| **known == name) {
            self.read_usage(name, content);
        }
    }

    /// The resulting directives.
    pub(super) fn finish(self) -> PageRobots {
        let spoken_to = self.ours != PageRobots { named: true, ..Default::default() };
        PageRobots { usage: self.usage, ..if spoken_to { self.ours } else { self.everybody } }
    }

    /// Bounds a value, and the number of values.
    fn take(&mut self, value: &str) -> Option<String> {
        self.values += 1;
        (self.values <= VALUES_MAX).then(|| cut(value, VALUE_BYTES_MAX).to_owned())
    }

    /// `X-Robots-Tag: noindex` or `X-Robots-Tag: agent: noindex, nofollow`. A field may name several agents in a row.
    fn read_tag(&mut self, value: &str) {
        let Some(value) = self.take(value) else { return };
        // The addressee: words without an agent are for all agents, and words for other agents are ignored.
        let mut for_whom = Whom::Everybody;
        let mut words = String::new();
        for part in value.split(',') {
            let (head, tail) = part.split_once(':').unwrap_or((part, ""));
            let head = head.trim();
            if part.contains(':') && is_agent(head) {
                self.flush(for_whom, &mut words);
                for_whom = match head {
                    "*" => Whom::Everybody,
                    name if !self.agent.is_empty() && name.eq_ignore_ascii_case(&self.agent) => Whom::Us,
                    _ => Whom::Other,
                };
                words.push_str(tail);
            } else {
                words.push_str(part);
            }
            words.push(',');
        }
        self.flush(for_whom, &mut words);
    }

    fn flush(&mut self, for_whom: Whom, words: &mut String) {
        match for_whom {
            Whom::Everybody => self.read_words(words, false),
            Whom::Us => self.read_words(words, true),
            Whom::Other => {}
        }
        words.clear();
    }

    fn read_words(&mut self, words: &str, named: bool) {
        let mut usage = Vec::new();
        let group = if named { &mut self.ours } else { &mut self.everybody };
        let mut rest = words;
        while !rest.is_empty() {
            let (part, after) = rest.split_once(',').unwrap_or((rest, ""));
            rest = after;
            if let Some((name, value)) = part.split_once(':') {
                if name.trim().eq_ignore_ascii_case("unavailable_after") {
                    // A date may have a comma after its day: `Fri, 25 Jun 2027 15:00:00 GMT`.
                    let mut date = value.trim().to_owned();
                    if !date.bytes().any(|b| b.is_ascii_digit()) {
                        let (more, after) = rest.split_once(',').unwrap_or((rest, ""));
                        date = format!("{date}, {}", more.trim());
                        rest = after;
                    }
                    group.unavailable_after.get_or_insert_with(|| cut(&date, USAGE_BYTES_MAX).to_owned());
                }
                continue;
            }
            // Some pages write spaces instead of commas.
            for word in part.split_ascii_whitespace() {
                match word.to_ascii_lowercase().trim_end_matches(';') {
                    "none" => (group.noindex, group.nofollow) = (true, true),
                    "noindex" => group.noindex = true,
                    "nofollow" => group.nofollow = true,
                    "noarchive" | "nocache" => group.noarchive = true,
                    "nosnippet" => group.nosnippet = true,
                    "noimageindex" => group.noimageindex = true,
                    word @ ("noai" | "noimageai") => usage.push(word.to_owned()),
                    _ => {}
                }
            }
        }
        usage.iter().for_each(|word| self.read_usage("robots", word));
    }

    fn read_usage(&mut self, name: &str, value: &str) {
        let pair = (name.to_owned(), cut(value.trim(), USAGE_BYTES_MAX).to_owned());
        if self.usage.len() < USAGE_MAX && !self.usage.contains(&pair) {
            self.usage.push(pair);
        }
    }
}

#[derive(Clone, Copy)]
enum Whom {
    Everybody,
    Us,
    Other,
}

/// Fields and `meta` names that state how a text may be used.
const USAGE_NAMES: &[&str] = &["content-usage", "content-signal", "tdm-reservation", "tdm-policy"];

/// Words that are followed by a colon and are no agents.
const WORDS_WITH_VALUE: &[&str] =
    &["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"];

fn is_agent(head: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'*' | b'/');
    // A time of day is no agent either: `15:00:00` within a date.
    !head.is_empty()
        && head.bytes().all(token)
        && !head.bytes().all(|b| b.is_ascii_digit())
        && !WORDS_WITH_VALUE.iter().any(|word| word.eq_ignore_ascii_case(head))
}

/// The beginning of a text, cut between two characters.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tags: &[&str], metas: &[(&str, &str)]) -> PageRobots {
        let mut reader = Reader::new("Nephila");
        let mut fields = http::HeaderMap::new();
        for tag in tags {
            let (name, value) = tag.split_once('=').filter(|(n, _)| !n.contains(' ')).unwrap();
            fields.append(
                http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                http::HeaderValue::from_str(value).unwrap(),
            );
        }
        reader.read_fields(&fields);
        metas.iter().for_each(|(name, content)| reader.read_meta(name, content));
        reader.finish()
    }

    fn check(tags: &[&str], metas: &[(&str, &str)], want: &str) {
        let robots = read(tags, metas);
        let mut words = Vec::new();
        for (set, word) in [
            (robots.noindex, "noindex"),
            (robots.nofollow, "nofollow"),
            (robots.noarchive, "noarchive"),
            (robots.nosnippet, "nosnippet"),
            (robots.noimageindex, "noimageindex"),
            (robots.named, "named"),
        ] {
            words.extend(set.then_some(word));
        }
        assert_eq!(words.join(" "), want, "{tags:?} {metas:?}");
    }

    #[test]
    fn words_add_up_whatever_their_case_and_place() {
        check(&[], &[("robots", "NOINDEX, NoFollow")], "noindex nofollow");
        check(&[], &[("ROBOTS ", "none")], "noindex nofollow");
        check(&[], &[("robots", "all")], "");
        check(&[], &[("robots", "noindex nofollow;")], "noindex nofollow");
        check(
            &["x-robots-tag=noindex", "x-robots-tag=noarchive"],
            &[("robots", "nosnippet")],
            "noindex noarchive nosnippet",
        );
        check(&[], &[("description", "noindex")], "");
    }

    #[test]
    fn words_for_our_agent_win_over_words_for_everybody() {
        check(&["x-robots-tag=nephila: nofollow"], &[("robots", "noindex")], "nofollow named");
        check(&[], &[("robots", "noindex"), ("nephila", "noarchive")], "noarchive named");
        check(&["x-robots-tag=otherbot: noindex, nofollow"], &[], "");
        check(
            &["x-robots-tag=otherbot: noindex, Nephila: nofollow, noarchive"],
            &[],
            "nofollow noarchive named",
        );
        check(&["x-robots-tag=*: noindex"], &[], "noindex");
        check(&["x-robots-tag=noindex, otherbot: nofollow"], &[], "noindex");
    }

    #[test]
    fn dates_with_commas_and_colons_are_no_agents() {
        let robots = read(&["x-robots-tag=unavailable_after: Fri, 25 Jun 2027 15:00:00 GMT, nofollow"], &[]);
        assert_eq!(robots.unavailable_after.as_deref(), Some("Fri, 25 Jun 2027 15:00:00 GMT"));
        assert!(robots.nofollow && !robots.noindex);
        let robots = read(&["x-robots-tag=unavailable_after: 25 Jun 2027 15:00:00 PST, noindex"], &[]);
        assert_eq!(robots.unavailable_after.as_deref(), Some("25 Jun 2027 15:00:00 PST"));
        assert!(robots.noindex);
        check(&["x-robots-tag=max-snippet: 20, max-image-preview:large, noindex"], &[], "noindex");
    }

    #[test]
    fn statements_about_use_are_kept_as_they_stand() {
        let robots = read(
            &["content-usage=train-ai=n", "tdm-reservation=1"],
            &[("tdm-policy", " https://a.test/policy "), ("robots", "noai, noimageai")],
        );
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            robots.usage,
            [
                pair("content-usage", "train-ai=n"),
                pair("tdm-reservation", "1"),
                pair("tdm-policy", "https://a.test/policy"),
                pair("robots", "noai"),
                pair("robots", "noimageai"),
            ]
        );
    }

    #[test]
    fn a_page_that_talks_without_end_is_not_heard_out() {
        let mut reader = Reader::new("nephila");
        for i in 0..10 * VALUES_MAX {
            reader.read_meta("tdm-policy", &i.to_string());
            reader.read_meta("robots", "nosnippet");
        }
        reader.read_meta("robots", "noindex");
        let robots = reader.finish();
        assert_eq!(robots.usage.len(), USAGE_MAX);
        assert!(robots.nosnippet && !robots.noindex);
    }
}
