//! URLs: parsed once, by one parser, into the form that is requested and the canonical form that identifies the page.
//!
//! Text from a page, a log or an operator becomes a [`CrawlUrl`] or a [`UrlError`]; nothing else in Nephila parses a
//! URL. A `CrawlUrl` has two spellings. [`CrawlUrl::as_str`] is the requested one: the WHATWG form, as a browser would
//! send it. [`CrawlUrl::key`] identifies the page: the same with uniform percent-encoding, so that two spellings of one
//! resource are one page. Credentials are split off at once and appear in neither.
//!
//! Invariants: the scheme is http or https; the host is an address or a name that DNS can carry; there is no userinfo
//! and no fragment in [`CrawlUrl::as_str`]; parsing a key again gives the same key.

mod canonical;
pub mod percent;
mod port;
mod surt;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use encoding_rs::Encoding;
use sha1::Digest;
use url::Url;

pub use canonical::{Fragments, KeyRules};
pub use percent::{decode as percent_decode, decode_all as percent_decode_all};
pub use port::{BAD_PORTS, PortDenied, PortRule};
pub use surt::surt;

/// Maximum length of a URL, before and after canonicalization.
pub const URL_BYTES_MAX: usize = 8 * 1024;

/// Maximum length of user, password, host and port together; a longer authority is refused unparsed.
const AUTHORITY_BYTES_MAX: usize = 1_024;

/// Maximum length of a name in DNS, without the final dot (RFC 1035, 2.3.4).
pub const NAME_BYTES_MAX: usize = 253;

/// Maximum length of a label of a name (RFC 1035, 2.3.4).
pub const LABEL_BYTES_MAX: usize = 63;

/// Number of bytes of an unwanted scheme that an error repeats.
const SCHEME_BYTES_SHOWN: usize = 32;

/// Why a text is not a URL that can be fetched. Each reason is one outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL: no scheme and no base, or a port that is no port.
    #[error("not a URL: {0}")]
    Bad(&'static str),
    /// A host that cannot exist.
    #[error("bad host: {0}")]
    BadHost(&'static str),
    /// Longer than [`URL_BYTES_MAX`].
    #[error("longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// Neither http nor https. Holds the scheme, in lower case, so that drops can be counted by scheme.
    #[error("scheme {0} is not fetched")]
    Scheme(Box<str>),
}

impl UrlError {
    fn from_parse(error: url::ParseError) -> Self {
        use url::ParseError as E;
        match error {
            E::EmptyHost => UrlError::BadHost("empty"),
            E::IdnaError => UrlError::BadHost("not a valid domain name"),
            E::InvalidIpv4Address => UrlError::BadHost("not an IPv4 address"),
            E::InvalidIpv6Address => UrlError::BadHost("not an IPv6 address"),
            E::InvalidDomainCharacter => UrlError::BadHost("forbidden character"),
            E::InvalidPort => UrlError::Bad("port"),
            E::Overflow => UrlError::TooLong,
            _ => UrlError::Bad("no scheme"),
        }
    }
}

/// The host of a URL. A name is in lower case, in ASCII (punycode), without a final dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host<'a> {
    /// A name. Names are absolute: no search list is ever applied, not even to a single label.
    Name(&'a str),
    /// An address, in any spelling.
    Ip(IpAddr),
}

impl fmt::Display for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Ip(ip) => ip.fmt(f),
        }
    }
}

/// A hash of a key in 128 bits. 10^9 URLs share one with a chance below 10^-20, so no page is silently skipped because
/// of a collision; 64 bits would not be enough.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UrlId(pub [u8; 16]);

impl UrlId {
    /// The id of a key. A cryptographic hash, because pages choose their own URLs.
    pub fn of_key(key: &str) -> Self {
        let digest = sha1::Sha1::digest(key.as_bytes());
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        UrlId(id)
    }
}

impl fmt::Display for UrlId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for UrlId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// User name and password of a URL. Neither `Debug` nor `Display` shows them.
#[derive(Clone)]
struct Credentials {
    user: String,
    password: String,
}

/// A URL that can be crawled. See the module for the invariants.
///
/// Two URLs are equal when their keys are.
#[derive(Clone)]
pub struct CrawlUrl {
    url: Url,
    /// None where the key is the requested form, as for most URLs.
    key: Option<Box<str>>,
    /// Empty unless the rules keep fragments; without the `#`.
    fragment: String,
    credentials: Option<Box<Credentials>>,
}

impl CrawlUrl {
    /// Parses an absolute URL, with the default rules for its key.
    pub fn parse(input: &str) -> Result<Self, UrlError> {
        Self::parse_with(input, &KeyRules::default())
    }

    /// Parses an absolute URL, with these rules for its key.
    pub fn parse_with(input: &str, rules: &KeyRules) -> Result<Self, UrlError> {
        Self::resolve(None, input, None, rules)
    }

    /// Resolves a reference in this document, as a browser would.
    pub fn join(&self, href: &str) -> Result<Self, UrlError> {
        Self::resolve(Some(self), href, None, &KeyRules::default())
    }

    /// Like [`CrawlUrl::join`], with these rules for the key.
    pub fn join_with(&self, href: &str, rules: &KeyRules) -> Result<Self, UrlError> {
        Self::resolve(Some(self), href, None, rules)
    }

    /// Like [`CrawlUrl::join`], for a document in this encoding: the query uses this encoding, the path UTF-8.
    pub fn join_with_encoding(&self, href: &str, encoding: &'static Encoding) -> Result<Self, UrlError> {
        Self::resolve(Some(self), href, Some(encoding), &KeyRules::default())
    }

    /// Like [`CrawlUrl::join_with_encoding`], with these rules for the key.
    pub fn join_in(
        &self,
        href: &str,
        encoding: &'static Encoding,
        rules: &KeyRules,
    ) -> Result<Self, UrlError> {
        Self::resolve(Some(self), href, Some(encoding), rules)
    }

    fn resolve(
        base: Option<&CrawlUrl>,
        input: &str,
        encoding: Option<&'static Encoding>,
        rules: &KeyRules,
    ) -> Result<Self, UrlError> {
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
        let options = Url::options().base_url(base.map(|base| &base.url));
        let parsed = match encoding {
            None => options.parse(input),
            Some(encoding) => options
                .encoding_override(Some(&|query| canonical::encode_query(query, encoding)))
                .parse(input),
        };
        Self::from_url(parsed.map_err(UrlError::from_parse)?, rules)
    }

    fn from_url(mut url: Url, rules: &KeyRules) -> Result<Self, UrlError> {
        // The scheme was checked before parsing; this is the parser's own result.
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme(url.scheme().into()));
        }
        let credentials = (!url.username().is_empty() || url.password().is_some()).then(|| {
            Box::new(Credentials {
                user: percent::decode_lossy(url.username()),
                password: percent::decode_lossy(url.password().unwrap_or_default()),
            })
        });
        if credentials.is_some() {
            url.set_username("")
                .and_then(|()| url.set_password(None))
                .map_err(|()| UrlError::Bad("userinfo"))?;
        }
        let fragment = rules.fragment(url.fragment()).to_owned();
        url.set_fragment(None);
        if let Some(url::Host::Domain(name)) = url.host() {
            let absolute = name.strip_suffix('.').map(str::to_owned);
            if let Some(name) = absolute {
                url.set_host(Some(&name)).map_err(UrlError::from_parse)?;
            }
        }
        if let Some(url::Host::Domain(name)) = url.host() {
            check_name(name)?;
        }
        if url.as_str().len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        let key = canonical::key(&url, &fragment, rules);
        Ok(CrawlUrl { url, key, fragment, credentials })
    }

    /// The form that is requested: no userinfo, no fragment.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// The canonical form that identifies the page.
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(self.as_str())
    }

    /// The key in 128 bits.
    pub fn id(&self) -> UrlId {
        UrlId::of_key(self.key())
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        self.url.scheme()
    }

    /// Whether the scheme is https.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The name or address to connect to.
    pub fn host(&self) -> Host<'_> {
        match self.url.host() {
            Some(url::Host::Domain(name)) => Host::Name(name),
            Some(url::Host::Ipv4(ip)) => Host::Ip(ip.into()),
            Some(url::Host::Ipv6(ip)) => Host::Ip(ip.into()),
            None => unreachable!("http and https URLs have a host"),
        }
    }

    /// The host as written in the URL: an IPv6 address in brackets.
    pub fn host_str(&self) -> &str {
        self.url.host_str().expect("http and https URLs have a host")
    }

    /// The port to connect to, the scheme's default if none is written.
    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().expect("http and https have a port of their own")
    }

    /// Host and, if not the scheme's default, port: the value of the `Host` field.
    pub fn authority(&self) -> &str {
        self.url.authority()
    }

    /// Scheme and authority, `https://example.com:8443`: the host for robots.txt and politeness.
    pub fn origin(&self) -> &str {
        // There is no userinfo.
        &self.url[..url::Position::BeforePath]
    }

    /// Path and query, as in the request line.
    pub fn path_and_query(&self) -> &str {
        &self.url[url::Position::BeforePath..]
    }

    /// The path alone.
    pub fn path(&self) -> &str {
        self.url.path()
    }

    /// The query, if there is one, without the `?`.
    pub fn query(&self) -> Option<&str> {
        self.url.query()
    }

    /// The fragment that the rules kept, without the `#`. Never requested; part of the key.
    pub fn fragment(&self) -> Option<&str> {
        (!self.fragment.is_empty()).then_some(self.fragment.as_str())
    }

    /// User name and password of the URL, decoded. For the request only, never for a record or a log.
    pub fn credentials(&self) -> Option<(&str, &str)> {
        self.credentials.as_deref().map(|c| (c.user.as_str(), c.password.as_str()))
    }

    /// The registrable domain (`example.co.uk`), by the public suffix list. None for addresses, single labels and
    /// public suffixes themselves.
    pub fn registrable_domain(&self) -> Option<&str> {
        match self.host() {
            Host::Name(name) => registrable_domain(name),
            Host::Ip(_) => None,
        }
    }
}

/// The registrable domain, for a name in lower case; none for any other. The list does not know addresses (the result
/// for 1.2.3.4 is "3.4"), so addresses are rejected here.
pub fn registrable_domain(name: &str) -> Option<&str> {
    if name.parse::<IpAddr>().is_ok() || name.bytes().any(|b| b.is_ascii_uppercase() || b == b':') {
        return None;
    }
    psl::domain_str(name)
}

/// The public suffix of a name in lower case, and whether a registry has the suffix (a private one otherwise, such as
/// github.io); none if the list does not have the suffix.
pub fn public_suffix(name: &str) -> Option<(&str, bool)> {
    let suffix = psl::suffix(name.as_bytes())?;
    let is_registry = suffix.typ()? == psl::Type::Icann;
    Some((std::str::from_utf8(suffix.as_bytes()).ok()?, is_registry))
}

impl fmt::Display for CrawlUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for CrawlUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CrawlUrl({})", self.as_str())
    }
}

impl PartialEq for CrawlUrl {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for CrawlUrl {}

impl Hash for CrawlUrl {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialOrd for CrawlUrl {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CrawlUrl {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(other.key())
    }
}

impl std::str::FromStr for CrawlUrl {
    type Err = UrlError;

    fn from_str(input: &str) -> Result<Self, UrlError> {
        Self::parse(input)
    }
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

/// Checks that DNS can carry a name. The parser has already refused forbidden characters and fake punycode.
fn check_name(name: &str) -> Result<(), UrlError> {
    if name.is_empty() {
        return Err(UrlError::BadHost("empty"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(UrlError::BadHost("name over 253 bytes"));
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err(UrlError::BadHost("empty label"));
        }
        if label.len() > LABEL_BYTES_MAX {
            return Err(UrlError::BadHost("label over 63 bytes"));
        }
    }
    Ok(())
}
