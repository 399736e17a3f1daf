//! Cookies: a jar for one job, in memory, dropped with the job.
//!
//! Cookies are off unless a job enables them. Such a job has one [`Jar`]; no two jobs share one. The cookies of a site
//! are kept by the rules of RFC 6265bis and are sent to that site only. Time is an argument.
//!
//! Invariants: a cookie is sent only to the host that set the cookie or, if the site said so, to hosts under a
//! registrable domain that the setting host belongs to; never to a public suffix, never from one address to another,
//! never without TLS if the cookie was set over TLS. Cookies, their sizes and the field that carries them are bounded.
//! Values appear in no `Debug` output.

mod date;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use crate::time::Timestamp;
use crate::url::{CrawlUrl, Host, registrable_domain};

/// Maximum number of cookies of one host or domain. RFC 6265, 6.1 asks for at least this.
pub const DOMAIN_COOKIES_MAX: usize = 50;

/// Maximum number of cookies in a jar.
pub const JAR_COOKIES_MAX: usize = 3_000;

/// Maximum size of name and value of a cookie together.
pub const COOKIE_BYTES_MAX: usize = 4_096;

/// Maximum size of the `Cookie` field of a request, including its name. Servers refuse more.
pub const FIELD_BYTES_MAX: usize = 8 * 1024;

/// Maximum length of an attribute; a longer one is ignored (RFC 6265bis, 5.6).
const ATTRIBUTE_BYTES_MAX: usize = 1_024;

/// Maximum lifetime of a cookie, whatever the site says (RFC 6265bis, 5.5).
const LIFE_MS_MAX: u64 = 400 * 24 * 3_600 * 1_000;

/// `Cookie: ` and the line end.
const FIELD_OVERHEAD: usize = 10;

/// The cookies of one job.
#[derive(Clone, Default)]
pub struct Jar {
    /// By domain, or by host for host-only cookies.
    domains: BTreeMap<String, Vec<Cookie>>,
    count: usize,
    /// The order of arrival, the last tie-breaker.
    next: u64,
}

#[derive(Clone)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    path: String,
    host_only: bool,
    secure: bool,
    expires: Option<Timestamp>,
    arrived: u64,
}

/// Why a cookie was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A control character in the field.
    #[error("control character")]
    Control,
    /// Larger than [`COOKIE_BYTES_MAX`].
    #[error("larger than {COOKIE_BYTES_MAX} bytes")]
    TooLarge,
    /// Neither name nor value.
    #[error("empty")]
    Empty,
    /// For a domain that the host does not belong to.
    #[error("domain of somebody else")]
    ForeignDomain,
    /// For a public suffix, under which anybody can register.
    #[error("public suffix")]
    PublicSuffix,
    /// Secure, or with a secure prefix in the name, but set without TLS; or against the rules of the `__Host-` prefix.
    #[error("not secure")]
    NotSecure,
}

impl Jar {
    /// An empty jar.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of cookies.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the jar is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes the value of one `Set-Cookie` field from a response of `url`. `Ok` if the field was valid, also when the
    /// field removed a cookie.
    pub fn handle_set_cookie(&mut self, url: &CrawlUrl, field: &[u8], now: Timestamp) -> Result<(), Refused> {
        if field.iter().any(|b| matches!(b, 0..=8 | 0x0a..=0x1f | 0x7f)) {
            return Err(Refused::Control);
        }
        let mut parts = field.split(|b| *b == b';');
        let pair = parts.next().unwrap_or_default();
        let (name, value) = match pair.iter().position(|b| *b == b'=') {
            Some(at) => (pair[..at].trim_ascii(), pair[at + 1..].trim_ascii()),
            None => (&b""[..], pair.trim_ascii()),
        };
        if name.is_empty() && value.is_empty() {
            return Err(Refused::Empty);
        }
        if name.len() + value.len() > COOKIE_BYTES_MAX {
            return Err(Refused::TooLarge);
        }
        let attributes = Attributes::read(parts, now);
        let (domain, host_only) = owner(url, attributes.domain)?;
        let path = attributes.path.clone().unwrap_or_else(|| default_path(url.path()).to_owned());
        let starts = |prefix: &[u8]| {
            let whole = if name.is_empty() { value } else { name };
            whole.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        let tls = url.is_https();
        let disguised = name.is_empty() && (starts(b"__Secure-") || starts(b"__Host-"));
        let host_prefix = starts(b"__Host-") && !(host_only && attributes.domain.is_none() && path == "/");
        let needs_secure = (starts(b"__Secure-") || starts(b"__Host-")) && !attributes.secure;
        if attributes.secure && !tls || disguised || host_prefix || needs_secure {
            return Err(Refused::NotSecure);
        }
        let cookie = Cookie {
            name: name.to_vec(),
            value: value.to_vec(),
            path,
            host_only,
            // A site that sets a cookie over TLS and then redirects to http, by mistake or by force, does not get the
            // cookie there.
            secure: attributes.secure || tls,
            expires: attributes.expires,
            arrived: self.next,
        };
        self.next += 1;
        self.put(domain, cookie, tls, now)
    }

    fn put(&mut self, domain: String, mut cookie: Cookie, tls: bool, now: Timestamp) -> Result<(), Refused> {
        let list = self.domains.entry(domain.clone()).or_default();
        let old = list
            .iter()
            .position(|c| c.name == cookie.name && c.path == cookie.path && c.host_only == cookie.host_only);
        if let Some(at) = old {
            // A page that an intermediary could have written does not replace a secure cookie.
            if list[at].secure && !tls {
                return Err(Refused::NotSecure);
            }
            cookie.arrived = list[at].arrived;
            list.remove(at);
            self.count -= 1;
        }
        if !cookie.is_expired(now) {
            if list.len() >= DOMAIN_COOKIES_MAX {
                self.count -= evict(list, now);
            }
            list.push(cookie);
            self.count += 1;
        }
        if list.is_empty() {
            self.domains.remove(&domain);
        }
        if self.count > JAR_COOKIES_MAX {
            self.evict_oldest(now);
        }
        Ok(())
    }

    /// Evicts cookies of the whole jar: all expired ones, or else the oldest.
    fn evict_oldest(&mut self, now: Timestamp) {
        let before = self.count;
        self.domains.retain(|_, list| {
            list.retain(|cookie| !cookie.is_expired(now));
            !list.is_empty()
        });
        self.count = self.domains.values().map(Vec::len).sum();
        if self.count < before {
            return;
        }
        let oldest = self.domains.iter().min_by_key(|(_, list)| list.iter().map(|c| c.arrived).min());
        let Some(domain) = oldest.map(|(domain, _)| domain.clone()) else { return };
        if let Some(list) = self.domains.get_mut(&domain) {
            self.count -= evict(list, now);
            if list.is_empty() {
                self.domains.remove(&domain);
            }
        }
    }

    /// The value of the `Cookie` field for a request to `url`, or none. At most [`FIELD_BYTES_MAX`] with its name;
    /// cookies that do not fit are left out.
    pub fn field(&self, url: &CrawlUrl, now: Timestamp) -> Option<Vec<u8>> {
        let mut fitting: Vec<&Cookie> = Vec::new();
        let domain = host_key(url);
        let is_name = matches!(url.host(), Host::Name(_));
        let mut rest = Some(domain.as_str());
        let mut own = true;
        while let Some(name) = rest {
            let list = self.domains.get(name).map(Vec::as_slice).unwrap_or_default();
            fitting.extend(list.iter().filter(|cookie| {
                (own || !cookie.host_only)
                    && (!cookie.secure || url.is_https())
                    && !cookie.is_expired(now)
                    && path_matches(url.path(), &cookie.path)
            }));
            rest = if is_name { name.split_once('.').map(|(_, parent)| parent) } else { None };
            own = false;
        }
        // Longer paths first, then the order of arrival (RFC 6265bis, 5.8.3).
        fitting.sort_by_key(|cookie| (usize::MAX - cookie.path.len(), cookie.arrived));
        let mut field = Vec::new();
        for cookie in fitting {
            let separator = if field.is_empty() { 0 } else { 2 };
            if field.len() + separator + cookie.len() + FIELD_OVERHEAD > FIELD_BYTES_MAX {
                continue;
            }
            field.extend_from_slice(&b"; "[..separator]);
            if !cookie.name.is_empty() {
                field.extend_from_slice(&cookie.name);
                field.push(b'=');
            }
            field.extend_from_slice(&cookie.value);
        }
        (!field.is_empty()).then_some(field)
    }
}

impl fmt::Debug for Jar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jar({} cookies)", self.count)
    }
}

impl Cookie {
    fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }

    /// The number of bytes in the field.
    fn len(&self) -> usize {
        self.name.len() + self.value.len() + usize::from(!self.name.is_empty())
    }
}

/// Evicts expired cookies, or else the cookie that arrived first. Returns the number of evicted cookies.
fn evict(list: &mut Vec<Cookie>, now: Timestamp) -> usize {
    let before = list.len();
    list.retain(|cookie| !cookie.is_expired(now));
    if list.len() == before
        && let Some((at, _)) = list.iter().enumerate().min_by_key(|(_, cookie)| cookie.arrived)
    {
        list.remove(at);
    }
    before - list.len()
}

fn host_key(url: &CrawlUrl) -> String {
    url.host().to_string()
}

/// The attributes of a `Set-Cookie`; of several with one name the last counts.
#[derive(Default)]
struct Attributes<'a> {
    domain: Option<&'a [u8]>,
    path: Option<String>,
    secure: bool,
    expires: Option<Timestamp>,
}

impl<'a> Attributes<'a> {
    fn read(parts: impl Iterator<Item = &'a [u8]>, now: Timestamp) -> Self {
        let mut read = Attributes::default();
        let (mut max_age, mut expires) = (None, None);
        for part in parts {
            let at = part.iter().position(|b| *b == b'=');
            let name = part[..at.unwrap_or(part.len())].trim_ascii();
            let value = at.map_or(&b""[..], |at| part[at + 1..].trim_ascii());
            if value.len() > ATTRIBUTE_BYTES_MAX {
                continue;
            }
            match name.to_ascii_lowercase().as_slice() {
                b"domain" => read.domain = Some(value).filter(|v| !v.is_empty()),
                b"path" => {
                    let text = std::str::from_utf8(value).ok();
                    read.path = text.filter(|path| path.starts_with('/')).map(str::to_owned);
                }
                b"secure" => read.secure = true,
                b"max-age" => max_age = parse_max_age(value, now).or(max_age),
                b"expires" => expires = date::parse(value).or(expires),
                _ => {}
            }
        }
        let latest = Timestamp(now.0.saturating_add(LIFE_MS_MAX));
        read.expires = max_age.or(expires).map(|at| at.min(latest));
        read
    }
}

/// Any number of digits: an overflow saturates, and the maximum lifetime bounds the result.
fn parse_max_age(value: &[u8], now: Timestamp) -> Option<Timestamp> {
    let (negative, digits) = match value.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, value),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let seconds = digits.iter().fold(0u64, |n, d| n.saturating_mul(10).saturating_add(u64::from(d - b'0')));
    // Zero and negative values mean now. The earliest time stands for negative ones.
    Some(if negative {
        Timestamp(0)
    } else if seconds == 0 {
        now
    } else {
        Timestamp(now.0.saturating_add(seconds.saturating_mul(1_000)))
    })
}

/// The owner of a cookie, and whether the cookie is host-only.
fn owner(url: &CrawlUrl, domain: Option<&[u8]>) -> Result<(String, bool), Refused> {
    let host = host_key(url);
    let Some(domain) = domain else { return Ok((host, true)) };
    let domain = domain.strip_prefix(b".").unwrap_or(domain);
    let text = std::str::from_utf8(domain).map_err(|_| Refused::ForeignDomain)?;
    if text.is_empty() {
        return Ok((host, true));
    }
    // The same folding as for the host of a URL: case, punycode.
    let domain = match ::url::Host::parse(text) {
        Ok(::url::Host::Domain(name)) => name,
        Ok(::url::Host::Ipv4(ip)) => ip.to_string(),
        _ if text.eq_ignore_ascii_case(&host) => host.clone(),
        _ => return Err(Refused::ForeignDomain),
    };
    let Host::Name(name) = url.host() else {
        // An address has no subdomains: the attribute may only repeat the address.
        return if domain == host { Ok((host, true)) } else { Err(Refused::ForeignDomain) };
    };
    if domain != name && !name.strip_suffix(&domain).is_some_and(|rest| rest.ends_with('.')) {
        return Err(Refused::ForeignDomain);
    }
    if registrable_domain(&domain).is_none() {
        // A public suffix may have a site; its cookies are host-only (RFC 6265bis, 5.7.3, step 9).
        return if domain == name { Ok((host, true)) } else { Err(Refused::PublicSuffix) };
    }
    Ok((domain, false))
}

/// RFC 6265bis, 5.1.4.
fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        Some(at) if at > 0 => &path[..at],
        _ => "/",
    }
}

fn path_matches(path: &str, cookie: &str) -> bool {
    path.strip_prefix(cookie)
        .is_some_and(|rest| rest.is_empty() || cookie.ends_with('/') || rest.starts_with('/'))
}
