//! `meta refresh` and the `Refresh` field: client-side redirects after a delay.
//!
//! The value is parsed like in browsers (HTML standard, "shared declarative refresh steps"), including sloppy quotes. A
//! short delay counts as a redirect, a longer one as a link, and a page that refreshes itself names nothing.

use std::time::Duration;

use crate::url::CrawlUrl;

/// Maximum length of a value that is read, in bytes.
pub const REFRESH_BYTES_MAX: usize = 16 * 1024;

/// A refresh as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// The delay before the refresh. Absurd numbers saturate.
    pub delay: Duration,
    /// The target, as written. None means the page itself.
    pub url: Option<String>,
}

/// The meaning of a refresh for the crawl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The page is only a redirect.
    Redirect(CrawlUrl),
    /// The page links to another one.
    Link(CrawlUrl),
    /// The page reloads itself, or the target is not crawled.
    Nothing,
}

impl Refresh {
    /// The meaning on the page at `base`. Delays up to `redirect_delay_max` are redirects.
    pub fn meaning(&self, base: &CrawlUrl, redirect_delay_max: Duration) -> Meaning {
        match self.url.as_deref().map(|url| base.join(url)) {
            Some(Ok(target)) if target == *base => Meaning::Nothing,
            Some(Ok(target)) if self.delay <= redirect_delay_max => Meaning::Redirect(target),
            Some(Ok(target)) => Meaning::Link(target),
            Some(Err(_)) | None => Meaning::Nothing,
        }
    }
}

/// Parses the `content` of a `meta refresh` or the value of a `Refresh` field. None if the value is malformed.
pub fn parse(value: &str) -> Option<Refresh> {
    if value.len() > REFRESH_BYTES_MAX {
        return None;
    }
    let space = |c: char| matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' ');
    let text = value.trim_start_matches(space);
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if digits == 0 && !text.starts_with('.') {
        return None;
    }
    let seconds =
        text[..digits].bytes().fold(0u32, |n, d| n.saturating_mul(10).saturating_add(u32::from(d - b'0')));
    let delay = Duration::from_secs(seconds.into());
    let rest = text[digits..].trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let here = Refresh { delay, url: None };
    let Some(next) = rest.chars().next() else { return Some(here) };
    if !(space(next) || matches!(next, ';' | ',')) {
        return None;
    }
    let rest = rest.trim_start_matches(space);
    let rest = rest.strip_prefix([';', ',']).unwrap_or(rest).trim_start_matches(space);
    if rest.is_empty() {
        return Some(here);
    }
    let named = rest.get(..3).filter(|word| word.eq_ignore_ascii_case("url")).and_then(|_| {
        rest[3..].trim_start_matches(space).strip_prefix('=').map(|url| url.trim_start_matches(space))
    });
    let url = named.unwrap_or(rest);
    let url = match url.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inner = &url[1..];
            inner.split(quote).next().unwrap_or(inner)
        }
        _ => url,
    };
    Some(Refresh { delay, url: Some(url.to_owned()) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(value: &str, seconds: u64, url: Option<&str>) {
        let want = Refresh { delay: Duration::from_secs(seconds), url: url.map(str::to_owned) };
        assert_eq!(parse(value), Some(want), "{value:?}");
    }

    #[test]
    fn red_10_values_are_read_as_browsers_read_them() {
        check("0;url=/x", 0, Some("/x"));
        check("5; URL=/x", 5, Some("/x"));
        check("0; url='/x'", 0, Some("/x"));
        check("0; url=\"/x\" y", 0, Some("/x"));
        check("0; url='/x", 0, Some("/x"));
        check("0;URL = http://h/a?b;c", 0, Some("http://h/a?b;c"));
        check(" \t3 , /x", 3, Some("/x"));
        check("3 /x", 3, Some("/x"));
        check("3;'/x'", 3, Some("/x"));
        check("3;urlx", 3, Some("urlx"));
        check("3;url/x", 3, Some("url/x"));
        check("5", 5, None);
        check("5;", 5, None);
        check("1.5;url=/x", 1, Some("/x"));
        check(".5;url=/x", 0, Some("/x"));
        check("99999999999999999999;url=/x", u64::from(u32::MAX), Some("/x"));
        check("0;url=", 0, Some(""));
        for none in ["", "url=/x", "x", "-1;url=/x", "5x;url=/x", ";url=/x"] {
            assert_eq!(parse(none), None, "{none:?}");
        }
        assert_eq!(parse(&format!("0;url={}", "x".repeat(REFRESH_BYTES_MAX))), None);
    }

    #[test]
    fn red_10_a_short_refresh_redirects_a_long_one_links_and_its_own_is_ignored() {
        let base = CrawlUrl::parse("http://h/a?b").unwrap();
        let meaning = |value: &str| parse(value).unwrap().meaning(&base, Duration::from_secs(1));
        let to = |path: &str| base.join(path).unwrap();
        assert_eq!(meaning("0;url=/x"), Meaning::Redirect(to("/x")));
        assert_eq!(meaning("0; url='/x'"), Meaning::Redirect(to("/x")));
        assert_eq!(meaning("5;url=/x"), Meaning::Link(to("/x")));
        for own in ["5", "0;url=", "0;url=#top", "0;url=/a?b", "0; url='http://H:80/a?b#x'", "0;url=%61?b"] {
            assert_eq!(meaning(own), Meaning::Nothing, "{own}");
        }
        assert_eq!(meaning("0;url=javascript:x"), Meaning::Nothing);
    }

    proptest! {
        #[test]
        fn any_value_is_read_without_panic(value in "[0-9.;, urlURL='\"é/]{0,30}|\\PC{0,30}") {
            if let Some(refresh) = parse(&value) {
                prop_assert!(refresh.delay <= Duration::from_secs(u32::MAX.into()));
            }
        }
    }
}
