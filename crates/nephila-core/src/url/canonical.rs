//! The key of a URL: its canonical form, which decides which spellings are one page.
//!
//! By default a key is conservative: a key differs from the request only where every server must treat both alike (the
//! case of hex digits, the encoding of unreserved characters). Everything that may change the page (sorting or dropping
//! parameters, merging slashes, keeping fragments) happens only by a rule of the operator, and only in the key: the
//! request stays as the page's author wrote it.

use std::borrow::Cow;

use encoding_rs::{EncoderResult, Encoding};
use serde::{Deserialize, Serialize};

use super::{CrawlUrl, percent};

/// The treatment of the part behind `#`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fragments {
    /// Fragments are dropped: they never reach the server.
    #[default]
    Drop,
    /// Fragments that begin with `!` become part of the key: old single-page sites route by them.
    HashBang,
    /// All fragments become part of the key.
    Keep,
}

/// Rules that fold more spellings into one key, or keep more apart. All off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyRules {
    /// The treatment of fragments.
    pub fragments: Fragments,
    /// Sort the parameters of the query by name and value.
    pub query_sort: bool,
    /// Drop parameters with these names, compared without case. A `*` at the end stands for any rest: `utm_*`.
    pub query_drop: Vec<String>,
    /// Treat several slashes in a row in the path as one.
    pub slashes_merge: bool,
}

impl KeyRules {
    /// The part of the fragment that is kept.
    pub(super) fn fragment<'a>(&self, fragment: Option<&'a str>) -> &'a str {
        let fragment = fragment.unwrap_or_default();
        match self.fragments {
            Fragments::Keep => fragment,
            Fragments::HashBang if fragment.starts_with('!') => fragment,
            Fragments::HashBang | Fragments::Drop => "",
        }
    }

    fn drops(&self, parameter: &str) -> bool {
        let name = parameter.split('=').next().unwrap_or_default();
        self.query_drop.iter().any(|rule| match rule.strip_suffix('*') {
            Some(start) => name.get(..start.len()).is_some_and(|n| n.eq_ignore_ascii_case(start)),
            None => name.eq_ignore_ascii_case(rule),
        })
    }
}

/// The key of a URL with this fragment; none if it is the text that is requested.
pub(super) fn key(url: &CrawlUrl, fragment: &str, rules: &KeyRules) -> Option<String> {
    let is_plain = !rules.slashes_merge && !rules.query_sort && rules.query_drop.is_empty();
    // Without an escape the encoding is uniform.
    if is_plain && fragment.is_empty() && memchr::memchr(b'%', url.as_str().as_bytes()).is_none() {
        return None;
    }
    let mut key = String::with_capacity(url.as_str().len());
    key.push_str(url.origin());
    if rules.slashes_merge {
        let mut path = String::new();
        percent::push_uniform(&mut path, url.path());
        let mut last = ' ';
        key.extend(path.chars().filter(|&c| !(std::mem::replace(&mut last, c) == '/' && c == '/')));
    } else {
        percent::push_uniform(&mut key, url.path());
    }
    if let Some(query) = url.query() {
        let mut uniform = String::with_capacity(query.len());
        percent::push_uniform(&mut uniform, query);
        push_query(&mut key, &uniform, rules);
    }
    if !fragment.is_empty() {
        key.push('#');
        key.push_str(fragment);
    }
    (key != url.as_str()).then_some(key)
}

fn push_query(key: &mut String, query: &str, rules: &KeyRules) {
    if !rules.query_sort && rules.query_drop.is_empty() {
        key.push('?');
        key.push_str(query);
        return;
    }
    let mut parameters: Vec<&str> = query.split('&').filter(|p| !rules.drops(p)).collect();
    if rules.query_sort {
        parameters.sort_by_key(|p| p.split_once('=').map_or((*p, None), |(name, value)| (name, Some(value))));
    }
    // A query with all parameters dropped is no query; a query that was empty from the start stays.
    if !parameters.is_empty() {
        key.push('?');
        key.push_str(&parameters.join("&"));
    }
}

/// A query in the encoding of its page. A character that the encoding lacks becomes a character reference, as in
/// browsers (URL standard, "percent-encode after encoding").
pub(super) fn encode_query<'a>(query: &'a str, encoding: &'static Encoding) -> Cow<'a, [u8]> {
    let encoding = encoding.output_encoding();
    if encoding == encoding_rs::UTF_8 || query.is_ascii() && encoding != encoding_rs::ISO_2022_JP {
        return Cow::Borrowed(query.as_bytes());
    }
    let mut encoder = encoding.new_encoder();
    let mut out = Vec::with_capacity(query.len());
    let mut rest = query;
    loop {
        // The encoder writes only into reserved capacity.
        let room = encoder.max_buffer_length_from_utf8_without_replacement(rest.len());
        out.reserve(room.expect("a query is far smaller than the address space"));
        let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut out, true);
        rest = &rest[read..];
        match result {
            EncoderResult::InputEmpty => return Cow::Owned(out),
            EncoderResult::OutputFull => {}
            EncoderResult::Unmappable(char) => {
                out.extend_from_slice(format!("%26%23{}%3B", u32::from(char)).as_bytes());
            }
        }
    }
}
