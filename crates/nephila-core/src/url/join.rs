//! From a reference in a document to a URL.
//!
//! Most references of a page need no parser (see [`super::plain`]); all others get the parser of the `url` crate, for which
//! the URL of the document is parsed once.

use std::cell::OnceCell;

use encoding_rs::Encoding;
use url::Url;

use super::{CrawlUrl, KeyRules, URL_BYTES_MAX, UrlError, canonical, plain};

/// Maximum length of user, password, host and port together; a longer authority is refused unparsed.
const AUTHORITY_BYTES_MAX: usize = 1_024;

/// Number of bytes of an unwanted scheme that an error repeats.
const SCHEME_BYTES_SHOWN: usize = 32;

/// The URL of a document, against which its references are resolved.
#[derive(Debug)]
pub(crate) struct Base<'a> {
    url: &'a CrawlUrl,
    /// Made when the first reference needs the parser.
    parsed: OnceCell<Url>,
}

impl<'a> Base<'a> {
    pub(crate) fn new(url: &'a CrawlUrl) -> Base<'a> {
        Base { url, parsed: OnceCell::new() }
    }

    /// Resolves a reference as a browser would. The query uses the encoding of the document, the path UTF-8.
    pub(crate) fn join(
        &self,
        input: &str,
        encoding: Option<&'static Encoding>,
        rules: &KeyRules,
    ) -> Result<CrawlUrl, UrlError> {
        if let Some(url) = plain::join(self.url, input, encoding, rules) {
            debug_assert!(
                parse(input, Some(self), encoding, rules).is_ok_and(|parsed| parsed.is_same(&url)),
                "{input:?} in {} is {url}",
                self.url
            );
            return Ok(url);
        }
        parse(input, Some(self), encoding, rules)
    }

    fn parsed(&self) -> Result<&Url, UrlError> {
        if let Some(parsed) = self.parsed.get() {
            return Ok(parsed);
        }
        let parsed = Url::parse(self.url.as_str()).map_err(UrlError::from_parse)?;
        Ok(self.parsed.get_or_init(|| parsed))
    }
}

/// Resolves any text with the parser.
pub(super) fn parse(
    input: &str,
    base: Option<&Base<'_>>,
    encoding: Option<&'static Encoding>,
    rules: &KeyRules,
) -> Result<CrawlUrl, UrlError> {
    // Before the length: a long `data:` link is dropped for its scheme.
    if let Some(scheme) = foreign_scheme(input) {
        return Err(UrlError::Scheme(scheme));
    }
    if input.len() > URL_BYTES_MAX {
        return Err(UrlError::TooLong);
    }
    if authority_bytes(input) > AUTHORITY_BYTES_MAX {
        return Err(UrlError::BadHost("authority over 1,024 bytes"));
    }
    let base = base.map(Base::parsed).transpose()?;
    let options = Url::options().base_url(base);
    let parsed = match encoding {
        None => options.parse(input),
        Some(encoding) => {
            options.encoding_override(Some(&|query| canonical::encode_query(query, encoding))).parse(input)
        }
    };
    CrawlUrl::from_url(parsed.map_err(UrlError::from_parse)?, rules)
}

/// The scheme of a reference, if there is one other than http and https. Reads no further than the colon and skips the
/// same characters as the parser: leading controls and spaces, tabs and line ends anywhere.
pub(crate) fn foreign_scheme(input: &str) -> Option<Box<str>> {
    // Most references on a page have one of these forms, and a page has thousands.
    if input.starts_with("http:") || input.starts_with("https:") || !input.as_bytes().contains(&b':') {
        return None;
    }
    let mut scheme = String::new();
    let text = input.trim_start_matches(|c: char| c <= ' ');
    for byte in text.bytes().filter(|b| !matches!(b, b'\t' | b'\n' | b'\r')) {
        match byte {
            b':' if !scheme.is_empty() => {
                return (scheme != "http" && scheme != "https").then(|| scheme.into_boxed_str());
            }
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if !scheme.is_empty() => {}
            _ => return None,
        }
        // A longer scheme is still foreign; the shown part is bounded.
        if scheme.len() < SCHEME_BYTES_SHOWN {
            scheme.push(byte.to_ascii_lowercase() as char);
        }
    }
    None
}

/// The length of the part with the host. Checked before the host is parsed, since folding a non-ASCII name takes
/// quadratic time.
fn authority_bytes(input: &str) -> usize {
    let slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    let input = input.trim_start_matches(|c: char| c <= ' ');
    // Like browsers, anywhere in the text.
    let mut bytes = input.bytes().filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r'));
    let scheme = ["https:", "http:"].into_iter().find(|scheme| {
        let start = bytes.clone().take(scheme.len()).map(|byte| byte.to_ascii_lowercase());
        start.eq(scheme.bytes())
    });
    match scheme {
        Some(scheme) => _ = bytes.nth(scheme.len() - 1),
        // A reference has no host of its own unless the reference begins with two slashes.
        None if bytes.clone().take_while(slash).take(2).count() < 2 => return 0,
        None => {}
    }
    bytes.skip_while(slash).take_while(|byte| !slash(byte) && !matches!(byte, b'?' | b'#')).count()
}
