//! Filters of a CDX server: `status:20`, `=status:200`, `~url:.*[.]pdf`, each negated by a `!` before it.
//!
//! Without a sign the value of the field contains the text, with `=` the value is the text, with `~` a regular
//! expression matches from the beginning of the value on, as in pywb.

use std::borrow::Cow;

use nephila_core::store::cdxj::Line;
use regex::{Regex, RegexBuilder};

/// Maximum size of a compiled regular expression in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;
/// Names of fields, in the order of an answer.
pub(super) const FIELDS: [&str; 10] =
    ["urlkey", "timestamp", "url", "mime", "status", "digest", "length", "offset", "filename", "truncated"];

/// The same with the names of the Wayback Machine.
pub(crate) const ALL_FIELDS: [&str; 13] = [
    "urlkey",
    "timestamp",
    "url",
    "mime",
    "status",
    "digest",
    "length",
    "offset",
    "filename",
    "truncated",
    "original",
    "mimetype",
    "statuscode",
];

/// A filter.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    field: &'static str,
    is_negated: bool,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Contains(String),
    Is(String),
    Matches(Regex),
}

impl Filter {
    /// Parses a filter. The error is a sentence for the user.
    pub(super) fn parse(text: &str) -> Result<Filter, String> {
        let (is_negated, text) = text.strip_prefix('!').map_or((false, text), |text| (true, text));
        let (sign, text) = match text.chars().next() {
            Some(sign @ ('=' | '~')) => (Some(sign), &text[1..]),
            _ => (None, text),
        };
        let Some((name, value)) = text.split_once(':') else {
            return Err(format!("the filter {text:?} names no field: write status:200 or =mime:text/html"));
        };
        let test = match sign {
            Some('=') => Test::Is(value.to_owned()),
            Some(_) => {
                let regex = RegexBuilder::new(&format!("^(?:{value})")).size_limit(REGEX_BYTES_MAX).build();
                Test::Matches(regex.map_err(|error| format!("the filter is no regular expression: {error}"))?)
            }
            None => Test::Contains(value.to_owned()),
        };
        Ok(Filter { field: field(name)?, is_negated, test })
    }

    /// Whether a line passes.
    pub(super) fn takes(&self, line: &Line) -> bool {
        let value = value(line, self.field).unwrap_or_default();
        let is_match = match &self.test {
            Test::Contains(text) => value.contains(text.as_str()),
            Test::Is(text) => value == text.as_str(),
            Test::Matches(regex) => regex.is_match(&value),
        };
        is_match != self.is_negated
    }
}

/// The name of a field; the names of the Wayback Machine are accepted too.
pub(super) fn field(name: &str) -> Result<&'static str, String> {
    let name = match name {
        "original" => "url",
        "mimetype" => "mime",
        "statuscode" => "status",
        name => name,
    };
    let known = FIELDS.iter().find(|known| **known == name);
    known.copied().ok_or_else(|| format!("there is no field {name:?}: the fields are {}", FIELDS.join(", ")))
}

/// The value of a field.
pub(super) fn value<'a>(line: &'a Line, field: &str) -> Option<Cow<'a, str>> {
    let capture = &line.capture;
    let text = match field {
        "urlkey" => Some(&line.key),
        "timestamp" => Some(&capture.digits14),
        "url" => Some(&capture.url),
        "mime" => capture.mime.as_ref(),
        "status" => capture.status.as_ref(),
        "digest" => capture.digest.as_ref(),
        "filename" => Some(&line.filename),
        "truncated" => capture.truncated.as_ref(),
        "length" => return Some(line.length.to_string().into()),
        "offset" => return Some(line.offset.to_string().into()),
        _ => None,
    };
    text.map(|text| text.as_str().into())
}
