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
mod join;
pub mod percent;
mod plain;
mod port;
mod surt;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use encoding_rs::Encoding;
use sha1::Digest;
use url::Position;
use url::Url;

pub use canonical::{Fragments, KeyRules};
pub(crate) use join::{Base, foreign_scheme};
pub use percent::{decode as percent_decode, decode_all as percent_decode_all};
pub use port::{BAD_PORTS, PortDenied, PortRule};
pub use surt::surt;

/// Maximum length of a URL, before and after canonicalization.
pub const URL_BYTES_MAX: usize = 8 * 1024;

/// Maximum length of a name in DNS, without the final dot (RFC 1035, 2.3.4).
pub const NAME_BYTES_MAX: usize = 253;

/// Maximum length of a label of a name (RFC 1035, 2.3.4).
pub const LABEL_BYTES_MAX: usize = 63;

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
    /// The requested form.
    text: Box<str>,
    places: Places,
    /// What few URLs have.
    more: Option<Box<More>>,
}

/// Where the parts of a URL begin and end in its text, which has no more than [`URL_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    host_from: u16,
    host_to: u16,
    path_from: u16,
    /// The end of the path. The query begins behind a `?` there, if the text does not end.
    path_to: u16,
    host: HostKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostKind {
    Name,
    V4,
    V6,
}

/// What few URLs have.
#[derive(Clone)]
struct More {
    /// The key, if it differs from the requested form.
    key: Option<Box<str>>,
    /// Empty unless the rules keep fragments; without the `#`.
    fragment: Box<str>,
    credentials: Option<Credentials>,
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
        match base {
            Some(base) => Base::new(base).join(input, encoding, rules),
            None => join::parse(input, None, encoding, rules),
        }
    }

    fn from_url(mut url: Url, rules: &KeyRules) -> Result<Self, UrlError> {
        // The scheme was checked before parsing; this is the parser's own result.
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme(url.scheme().into()));
        }
        let credentials = (!url.username().is_empty() || url.password().is_some()).then(|| Credentials {
            user: percent::decode_lossy(url.username()),
            password: percent::decode_lossy(url.password().unwrap_or_default()),
        });
        if credentials.is_some() {
            url.set_username("")
                .and_then(|()| url.set_password(None))
                .map_err(|()| UrlError::Bad("userinfo"))?;
        }
        let fragment: Box<str> = rules.fragment(url.fragment()).into();
        url.set_fragment(None);
        if let Some(url::Host::Domain(name)) = url.host() {
            let absolute = name.strip_suffix('.').map(str::to_owned);
            if let Some(name) = absolute {
                url.set_host(Some(&name)).map_err(UrlError::from_parse)?;
            }
        }
        let host = match url.host() {
            Some(url::Host::Domain(name)) => {
                check_name(name)?;
                HostKind::Name
            }
            Some(url::Host::Ipv4(_)) => HostKind::V4,
            Some(url::Host::Ipv6(_)) => HostKind::V6,
            None => return Err(UrlError::BadHost("empty")),
        };
        if url.as_str().len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        // No place is behind the end of the text, so it fits.
        let place = |at: Position| url[..at].len() as u16;
        let places = Places {
            host_from: place(Position::BeforeHost),
            host_to: place(Position::AfterHost),
            path_from: place(Position::BeforePath),
            path_to: place(Position::AfterPath),
            host,
        };
        Ok(CrawlUrl::of(String::from(url), places, fragment, credentials, rules))
    }

    /// From its parts; the key is made here.
    fn of(
        text: String,
        places: Places,
        fragment: Box<str>,
        credentials: Option<Credentials>,
        rules: &KeyRules,
    ) -> CrawlUrl {
        let mut url = CrawlUrl { text: text.into_boxed_str(), places, more: None };
        let key = canonical::key(&url, &fragment, rules).map(String::into_boxed_str);
        if key.is_some() || !fragment.is_empty() || credentials.is_some() {
            url.more = Some(Box::new(More { key, fragment, credentials }));
        }
        url
    }

    /// Whether all parts are the same, not only the keys.
    fn is_same(&self, other: &CrawlUrl) -> bool {
        (self.as_str(), self.key(), self.places) == (other.as_str(), other.key(), other.places)
            && (self.fragment(), self.credentials()) == (other.fragment(), other.credentials())
    }

    fn part(&self, from: u16, to: u16) -> &str {
        &self.text[usize::from(from)..usize::from(to)]
    }

    /// The form that is requested: no userinfo, no fragment.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The canonical form that identifies the page.
    pub fn key(&self) -> &str {
        let own = self.more.as_ref().and_then(|more| more.key.as_deref());
        own.unwrap_or(&self.text)
    }

    /// The key in 128 bits.
    pub fn id(&self) -> UrlId {
        UrlId::of_key(self.key())
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        if self.is_https() { "https" } else { "http" }
    }

    /// Whether the scheme is https.
    pub fn is_https(&self) -> bool {
        self.text.starts_with("https:")
    }

    /// The name or address to connect to.
    pub fn host(&self) -> Host<'_> {
        let text = self.host_str();
        match self.places.host {
            HostKind::Name => Host::Name(text),
            HostKind::V4 => {
                Host::Ip(IpAddr::V4(text.parse::<Ipv4Addr>().expect("the parser wrote an address")))
            }
            HostKind::V6 => {
                let text = text.trim_start_matches('[').trim_end_matches(']');
                Host::Ip(IpAddr::V6(text.parse::<Ipv6Addr>().expect("the parser wrote an address")))
            }
        }
    }

    /// The host as written in the URL: an IPv6 address in brackets.
    pub fn host_str(&self) -> &str {
        self.part(self.places.host_from, self.places.host_to)
    }

    /// The port to connect to, the scheme's default if none is written.
    pub fn port(&self) -> u16 {
        let written = self.part(self.places.host_to, self.places.path_from).strip_prefix(':');
        let default = if self.is_https() { 443 } else { 80 };
        written.map_or(default, |port| port.parse().expect("the parser wrote a port"))
    }

    /// Host and, if not the scheme's default, port: the value of the `Host` field.
    pub fn authority(&self) -> &str {
        self.part(self.places.host_from, self.places.path_from)
    }

    /// Scheme and authority, `https://example.com:8443`: the host for robots.txt and politeness.
    pub fn origin(&self) -> &str {
        // There is no userinfo.
        self.part(0, self.places.path_from)
    }

    /// Path and query, as in the request line.
    pub fn path_and_query(&self) -> &str {
        &self.text[usize::from(self.places.path_from)..]
    }

    /// The path alone.
    pub fn path(&self) -> &str {
        self.part(self.places.path_from, self.places.path_to)
    }

    /// The query, if there is one, without the `?`.
    pub fn query(&self) -> Option<&str> {
        self.text[usize::from(self.places.path_to)..].strip_prefix('?')
    }

    /// The fragment that the rules kept, without the `#`. Never requested; part of the key.
    pub fn fragment(&self) -> Option<&str> {
        self.more.as_ref().map(|more| &*more.fragment).filter(|fragment| !fragment.is_empty())
    }

    /// User name and password of the URL, decoded. For the request only, never for a record or a log.
    pub fn credentials(&self) -> Option<(&str, &str)> {
        let credentials = self.more.as_ref()?.credentials.as_ref()?;
        Some((credentials.user.as_str(), credentials.password.as_str()))
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
