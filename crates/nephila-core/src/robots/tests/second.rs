//! A second reader and matcher, to check the first. For tests only.
//!
//! Written in the plainest way, without code of the product, not even for percent-encoding: a list of groups, every
//! rule tried on its own, and a table of pattern by path for the wildcards. The reader is slow on purpose. [`Bug`]
//! plants mistakes, to show that the comparison would find them.

/// A mistake to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// None: right as far as we know.
    None,
    /// The first rule that matches decides, not the longest.
    FirstMatch,
    /// Paths are compared as they were written (M4 of the list of planted bugs).
    NoNormalForm,
    /// At equal length Disallow wins.
    DisallowOnTie,
    /// A wildcard stops at a slash.
    WildcardStopsAtSlash,
    /// A `$` anywhere is the end.
    AnchorAnywhere,
    /// A group that names us adds to the one for everybody.
    EverybodyToo,
}

/// Whether a file allows a path.
pub(super) fn allowed(file: &[u8], agent: &str, path: &str) -> bool {
    Rules::of(file, agent, Bug::None).allow(path)
}

/// The rules for one crawler, in the order of the file.
pub(super) struct Rules {
    rules: Vec<Rule>,
    bug: Bug,
}

struct Rule {
    allow: bool,
    octets: usize,
    to_end: bool,
    /// In both forms.
    forms: [Vec<Part>; 2],
}

struct Group {
    names: Vec<String>,
    rules: Vec<(bool, Vec<u8>)>,
}

impl Rules {
    pub(super) fn of(file: &[u8], agent: &str, bug: Bug) -> Rules {
        let groups = groups(&text_of(file));
        let of = |name: &str| -> Vec<&Group> {
            groups.iter().filter(|group| group.names.iter().any(|n| n == name && !n.is_empty())).collect()
        };
        let mut chosen = of(&token(agent));
        if chosen.is_empty() || bug == Bug::EverybodyToo {
            chosen.extend(of("*"));
        }
        let rules = chosen.into_iter().flat_map(|group| &group.rules);
        Rules { rules: rules.filter_map(|(allow, value)| Rule::of(*allow, value, bug)).collect(), bug }
    }

    pub(super) fn allow(&self, path: &str) -> bool {
        let path = path.find('#').map_or(path, |at| &path[..at]);
        if path == "/robots.txt" || path.starts_with("/robots.txt?") {
            return true;
        }
        let path = if path.is_empty() { "/" } else { path };
        let url = both_forms(path.as_bytes(), false, self.bug);
        let slash_stops = self.bug == Bug::WildcardStopsAtSlash;
        let mut best: Option<(usize, bool)> = None;
        for rule in &self.rules {
            let matches = |form: usize| table(&rule.forms[form], &url[form], rule.to_end, slash_stops);
            let one_form = rule.forms[0] == rule.forms[1] && url[0] == url[1];
            if !matches(0) && (one_form || !matches(1)) {
                continue;
            }
            if self.bug == Bug::FirstMatch {
                return rule.allow;
            }
            let better = match best {
                None => true,
                Some((most, _)) if rule.octets != most => rule.octets > most,
                Some(_) if self.bug == Bug::DisallowOnTie => !rule.allow,
                Some(_) => rule.allow,
            };
            if better {
                best = Some((rule.octets, rule.allow));
            }
        }
        best.is_none_or(|(_, allow)| allow)
    }

    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }
}

impl Rule {
    fn of(allow: bool, value: &[u8], bug: Bug) -> Option<Rule> {
        if value.is_empty() || value[0] != b'/' && value[0] != b'*' {
            return None;
        }
        let mut body = value.to_vec();
        let mut to_end = body.last() == Some(&b'$');
        if to_end {
            body.pop();
        }
        if bug == Bug::AnchorAnywhere
            && let Some(at) = body.iter().position(|b| *b == b'$')
        {
            body.truncate(at);
            to_end = true;
        }
        let forms = both_forms(&body, true, bug);
        Some(Rule { allow, octets: forms[0].len() + usize::from(to_end), to_end, forms })
    }
}

/// One step of a rule or of a URL: an octet, or [`ANY`].
type Part = u16;

/// Any octets, or none.
const ANY: Part = 256;

/// Whether the rule matches from the start of the URL. `reached[j]`: the rule so far can end before octet `j`.
fn table(rule: &[Part], url: &[Part], to_end: bool, slash_stops: bool) -> bool {
    let mut reached = vec![false; url.len() + 1];
    reached[0] = true;
    for part in rule {
        let mut next = vec![false; url.len() + 1];
        if *part == ANY {
            next[0] = reached[0];
        }
        for (j, octet) in url.iter().enumerate() {
            next[j + 1] = if *part == ANY {
                reached[j + 1] || next[j] && !(slash_stops && *octet == u16::from(b'/'))
            } else {
                reached[j] && octet == part
            };
        }
        reached = next;
        if !reached.contains(&true) {
            return false;
        }
    }
    if to_end { reached[url.len()] } else { reached.contains(&true) }
}

fn both_forms(text: &[u8], is_rule: bool, bug: Bug) -> [Vec<Part>; 2] {
    if bug == Bug::NoNormalForm {
        let part = |b: &u8| if is_rule && *b == b'*' { ANY } else { u16::from(*b) };
        let written: Vec<Part> = text.iter().map(part).collect();
        return [written.clone(), written];
    }
    let first = parts(text, is_rule);
    let second = query_decoded(&first);
    [first, second]
}

/// The octets as they are compared (RFC 9309, 2.2.2).
fn parts(text: &[u8], is_rule: bool) -> Vec<Part> {
    let mut out = Vec::with_capacity(3 * text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let escape = match rest {
            [b'%', high, low, ..] => (*high as char).to_digit(16).zip((*low as char).to_digit(16)),
            _ => None,
        };
        rest = after;
        if let Some((high, low)) = escape {
            let octet = (high * 16 + low) as u8;
            rest = &after[2..];
            if is_unreserved(octet) { out.push(u16::from(octet)) } else { push_escape(&mut out, octet) }
        } else if is_rule && *first == b'*' {
            out.push(ANY);
        } else if is_unreserved(*first) || is_reserved(*first) {
            out.push(u16::from(*first));
        } else {
            push_escape(&mut out, *first);
        }
    }
    out
}

fn push_escape(out: &mut Vec<Part>, octet: u8) {
    let digit = |value: u8| u16::from(if value < 10 { b'0' + value } else { b'A' + value - 10 });
    out.push(u16::from(b'%'));
    out.push(digit(octet / 16));
    out.push(digit(octet % 16));
}

/// RFC 3986, 2.3.
fn is_unreserved(octet: u8) -> bool {
    matches!(octet, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~')
}

/// RFC 3986, 2.2, without `*` and `$`: outside their meaning in rules these are compared encoded (RFC 9309, 2.2.3).
fn is_reserved(octet: u8) -> bool {
    let general = matches!(octet, b':' | b'/' | b'?' | b'#' | b'[' | b']' | b'@');
    general || matches!(octet, b'!' | b'&' | b'\'' | b'(' | b')' | b'+' | b',' | b';' | b'=')
}

/// The RFC's second row: behind the question mark these delimiters and their escapes are the same.
fn query_decoded(text: &[Part]) -> Vec<Part> {
    let Some(query) = text.iter().position(|part| *part == u16::from(b'?')) else { return text.to_vec() };
    let mut out = text[..query].to_vec();
    let mut rest = &text[query..];
    'next: while let Some(first) = rest.first() {
        for (escape, plain) in
            [("%3A", ':'), ("%2F", '/'), ("%3F", '?'), ("%40", '@'), ("%5B", '['), ("%5D", ']')]
        {
            if rest.len() >= 3 && escape.bytes().zip(rest).all(|(b, part)| *part == u16::from(b)) {
                out.push(plain as u16);
                rest = &rest[3..];
                continue 'next;
            }
        }
        out.push(*first);
        rest = &rest[1..];
    }
    out
}

/// Half a mebibyte at most, in whole lines, without a mark.
fn text_of(file: &[u8]) -> Vec<u8> {
    const LIMIT: usize = 512_000;
    let mut text = file[..file.len().min(LIMIT)].to_vec();
    let mut next = file.get(LIMIT).copied();
    let wide = |bytes: &[u8], join: fn([u8; 2]) -> u16| {
        let units: Vec<u16> =
            bytes[2..].chunks(2).map(|two| join([two[0], *two.get(1).unwrap_or(&0)])).collect();
        String::from_utf16_lossy(&units).into_bytes()
    };
    if text.starts_with(&[0xef, 0xbb, 0xbf]) {
        text.drain(..3);
    } else if text.starts_with(&[0xff, 0xfe]) {
        text = wide(&text, u16::from_le_bytes);
        next = next.map(|_| b'x');
    } else if text.starts_with(&[0xfe, 0xff]) {
        text = wide(&text, u16::from_be_bytes);
        next = next.map(|_| b'x');
    }
    if let Some(next) = next
        && next != b'\n'
        && next != b'\r'
    {
        while let Some(last) = text.pop() {
            if last == b'\n' || last == b'\r' {
                break;
            }
        }
    }
    text
}

fn groups(text: &[u8]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for line in text.split(|b| *b == b'\n' || *b == b'\r') {
        let line: Vec<u8> = line.iter().copied().take_while(|b| *b != b'#').collect();
        let Some((key, value)) = record(&line) else { continue };
        match key.to_lowercase().as_str() {
            "user-agent" | "useragent" | "user agent" | "user_agent" => {
                let value = String::from_utf8_lossy(&value).into_owned();
                let is_star = value.split_ascii_whitespace().next() == Some("*");
                let name = if is_star { "*".to_owned() } else { token(&value) };
                match groups.last_mut() {
                    Some(group) if !group.names.is_empty() && group.rules.is_empty() => {
                        group.names.push(name)
                    }
                    _ => groups.push(Group { names: vec![name], rules: Vec::new() }),
                }
            }
            "allow" => rule(&mut groups, true, value),
            "disallow" | "dissallow" | "dissalow" | "disalow" | "diasllow" | "disallaw" | "dis-allow" => {
                rule(&mut groups, false, value);
            }
            _ => {}
        }
    }
    groups
}

/// An empty rule is kept: an empty rule matches nothing, but ends the names.
fn rule(groups: &mut [Group], allow: bool, value: Vec<u8>) {
    if let Some(group) = groups.last_mut() {
        group.rules.push((allow, value));
    }
}

fn record(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let blank = |b: &u8| [b' ', b'\t', 0, 0x0b, 0x0c].contains(b);
    let trim = |text: &[u8]| -> Vec<u8> {
        let mut text: Vec<u8> = text.iter().copied().skip_while(|b| blank(b)).collect();
        while text.last().is_some_and(blank) {
            text.pop();
        }
        text
    };
    let line = trim(line);
    let (key, value) = match line.iter().position(|b| *b == b':') {
        Some(at) => (trim(&line[..at]), trim(&line[at + 1..])),
        None => {
            let words: Vec<&[u8]> =
                line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
            let [key, value] = words[..] else { return None };
            (key.to_vec(), trim(value))
        }
    };
    Some((String::from_utf8_lossy(&key).into_owned(), value))
}

/// Letters, hyphens and underscores at the start. An empty token matches no crawler.
fn token(name: &str) -> String {
    let is_part = |c: &char| c.is_ascii_alphabetic() || *c == '-' || *c == '_';
    name.trim().chars().take_while(is_part).collect::<String>().to_lowercase()
}
