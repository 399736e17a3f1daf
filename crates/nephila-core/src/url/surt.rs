//! SURT: the sort-friendly form of a URL that archive indexes use, `com,example)/path?query`.
//!
//! Public tools must find entries in our CDXJ, so the form equals the output of the PyPI package `surt` 0.3.1 and of
//! `cdxj-indexer`, with all its habits: everything in lower case, `www.` removed, session ids removed, parameters
//! sorted, repeated escapes decoded. SURT is far coarser than [`super::CrawlUrl::key`] and never decides which URLs are
//! fetched. `tests/golden/surt.tsv` holds the output of the package, for every kind of URL we could think of.
//!
//! Invariants: no panic; the result is ASCII unless the text is not a URL at all, in which case the result is the text
//! itself, as in `cdxj-indexer`. The work is negligible even for the longest URL.
//!
//! Differences from the package, on purpose, none of which a [`super::CrawlUrl`] can show: names with non-ASCII letters
//! are folded by today's IDNA tables (the package uses Unicode 3.2), such a name with forbidden characters stays
//! escaped, and a number that looks like an address is never looked up in DNS.

use super::percent;

/// The SURT key of a URL.
pub fn surt(url: &str) -> String {
    if url.is_empty() {
        return "-".into();
    }
    // The first record of an old ARC file.
    if url.starts_with("filedesc") {
        return url.into();
    }
    match Parts::split(url) {
        Some(parts) => parts.surt(),
        None => url.into(),
    }
}

/// A URL in pieces, still as bytes: an archive holds URLs in any encoding.
struct Parts {
    scheme: Vec<u8>,
    host: Option<Vec<u8>>,
    port: Option<u16>,
    path: Option<Vec<u8>>,
    query: Option<Vec<u8>>,
}

impl Parts {
    /// Splits a URL by RFC 2396, appendix B, leniently. None if the port is invalid.
    fn split(url: &str) -> Option<Parts> {
        let stripped: Vec<u8> =
            trim(url.as_bytes()).iter().copied().filter(|b| !b"\n\r\t".contains(b)).collect();
        let text = last_of_repeated_schemes(with_scheme(stripped)?);
        let colon = text.iter().position(|&b| b == b':')?;
        let (scheme, rest) = (text[..colon].to_vec(), &text[colon + 1..]);
        let rest = rest.split(|&b| b == b'#').next().unwrap_or_default();
        let (rest, query) = match rest.iter().position(|&b| b == b'?') {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        let (authority, path) = match rest.strip_prefix(b"//") {
            Some(rest) => {
                let end = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
                rest.split_at(end)
            }
            None => (&b""[..], rest),
        };
        let (host, port) = split_authority(authority)?;
        let mut host = (!host.is_empty()).then_some(host);
        let mut path = (!path.is_empty()).then(|| path.to_vec());
        // `http:////example.com/x`: the first part that looks like a name is the host.
        if host.is_none()
            && scheme.starts_with(b"http")
            && let Some(joined) = path.take()
        {
            let start = joined.iter().position(|&b| b != b'/').unwrap_or(joined.len());
            let end = joined[start..].iter().position(|&b| b == b'/').map_or(joined.len(), |at| start + at);
            host = Some(joined[start..end].to_vec());
            let mut rest = vec![b'/'];
            rest.extend_from_slice(joined.get(end + 1..).unwrap_or_default());
            path = Some(rest);
        }
        let query = query.filter(|q| !q.is_empty()).map(<[u8]>::to_vec);
        Some(Parts { scheme, host, port, path, query })
    }

    fn surt(self) -> String {
        let host =
            self.host.filter(|host| !host.is_empty()).map(|host| canonical_host(&host)).unwrap_or_default();
        let path = self.path.as_deref().map(percent::decode_all);
        // Only a path below a host is a list of directories.
        let path = if host.is_empty() { path } else { Some(without_dots(&path.unwrap_or_default())) };
        let path = path.map(|path| {
            let mut path = without_path_session(escape(&path).to_ascii_lowercase());
            if path.len() > 1 && path.ends_with('/') {
                path.pop();
            }
            path
        });
        let query = self.query.and_then(|query| {
            let query = without_query_sessions(escape(&percent::decode_all(&query))).to_ascii_lowercase();
            let query = sorted(&query);
            (!query.is_empty()).then_some(query)
        });

        let mut out = String::new();
        let name = host.strip_prefix("www").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
        let name = name.and_then(|rest| rest.strip_prefix('.')).unwrap_or(&host);
        if name.is_empty() {
            out.push_str(&String::from_utf8_lossy(&self.scheme));
            out.push(':');
        } else {
            for (index, label) in name.rsplit('.').enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(label);
            }
            let default = match self.scheme.to_ascii_lowercase().as_slice() {
                b"http" => 80,
                b"https" => 443,
                _ => 0,
            };
            if let Some(port) = self.port.filter(|&port| port != default) {
                out.push_str(&format!(":{port}"));
            }
            out.push(')');
        }
        match (&path, &query) {
            (Some(path), _) if !path.is_empty() => out.push_str(path),
            (_, Some(_)) => out.push('/'),
            _ => {}
        }
        if let Some(query) = query {
            out.push('?');
            out.push_str(&query);
        }
        out
    }
}

fn trim(text: &[u8]) -> &[u8] {
    let space = |b: &u8| matches!(b, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|b| !space(b)).unwrap_or(text.len());
    let end = text.iter().rposition(|b| !space(b)).map_or(start, |at| at + 1);
    &text[start..end]
}

/// A text without a scheme is read as an http URL. None if there is no text.
fn with_scheme(text: Vec<u8>) -> Option<Vec<u8>> {
    let end = text.iter().position(|b| !(b.is_ascii_alphanumeric() || b"+-.".contains(b)));
    let has_scheme = text.first()?.is_ascii_alphabetic() && end.is_some_and(|end| text[end] == b':');
    Some(if has_scheme { text } else { [b"http://", text.as_slice()].concat() })
}

/// `http://https://example.com` is a typing error: the last part counts.
fn last_of_repeated_schemes(text: Vec<u8>) -> Vec<u8> {
    let length = |text: &[u8]| {
        [&b"http://"[..], b"https://"]
            .iter()
            .find(|scheme| text.starts_with(scheme))
            .map(|scheme| scheme.len())
    };
    let mut start = 0;
    while let Some(first) = length(&text[start..]) {
        if length(&text[start + first..]).is_none() {
            break;
        }
        start += first;
    }
    text[start..].to_vec()
}

/// Host in lower case and port of an authority; userinfo is dropped. None if the port is invalid.
fn split_authority(authority: &[u8]) -> Option<(Vec<u8>, Option<u16>)> {
    let end = authority.iter().rposition(|&b| b != b':').map_or(0, |at| at + 1);
    let authority = &authority[..end];
    let info = authority.rsplit(|&b| b == b'@').next().unwrap_or_default();
    let cut = |text: &[u8], byte: u8| -> (Vec<u8>, Vec<u8>) {
        match text.iter().position(|&b| b == byte) {
            Some(at) => (text[..at].to_vec(), text[at + 1..].to_vec()),
            None => (text.to_vec(), Vec::new()),
        }
    };
    let (mut host, port) = match info.iter().position(|&b| b == b'[') {
        Some(open) => {
            let (host, rest) = cut(&info[open + 1..], b']');
            (host, cut(&rest, b':').1)
        }
        None => cut(info, b':'),
    };
    let port = match port.as_slice() {
        [] => None,
        digits if digits.iter().all(u8::is_ascii_digit) => {
            let value =
                digits.iter().fold(0u32, |n, d| n.saturating_mul(10).saturating_add(u32::from(d - b'0')));
            Some(u16::try_from(value).ok()?).filter(|&port| port != 0)
        }
        _ => return None,
    };
    let zone = host.iter().position(|&b| b == b'%').unwrap_or(host.len());
    host[..zone].make_ascii_lowercase();
    Some((host, port))
}

fn canonical_host(host: &[u8]) -> String {
    let mut host = percent::decode_all(host);
    if !host.is_ascii()
        && let Some(ascii) = to_ascii(&host)
    {
        host = ascii.into_bytes();
    }
    // Two dots become one, once, like in the package; so four become two.
    let mut single = Vec::with_capacity(host.len());
    let mut at = 0;
    while at < host.len() {
        single.push(host[at]);
        at += if host[at..].starts_with(b"..") { 2 } else { 1 };
    }
    let dot = |b: &u8| *b == b'.';
    let start = single.iter().position(|b| !dot(b)).unwrap_or(single.len());
    let end = single.iter().rposition(|b| !dot(b)).map_or(start, |at| at + 1);
    let host = &single[start..end];
    match address(host) {
        Some(address) => std::net::Ipv4Addr::from(address).to_string(),
        None => escape(&host.to_ascii_lowercase()).to_ascii_lowercase(),
    }
}

/// A name in its ASCII form, with the four characters folded that IDNA 2003 folded and today's IDNA does not.
fn to_ascii(host: &[u8]) -> Option<String> {
    let valid: String =
        String::from_utf8_lossy(host).chars().filter(|&c| c != char::REPLACEMENT_CHARACTER).collect();
    if valid.is_ascii() {
        return Some(valid);
    }
    let mut folded = String::with_capacity(valid.len());
    for char in valid.chars() {
        match char {
            'ß' => folded.push_str("ss"),
            'ς' => folded.push('σ'),
            '\u{200c}' | '\u{200d}' => {}
            _ => folded.push(char),
        }
    }
    match url::Host::parse(&folded).ok()? {
        url::Host::Domain(name) => Some(name),
        // Digits in another script: the caller reads the address from its ASCII form.
        url::Host::Ipv4(ip) => Some(ip.to_string()),
        url::Host::Ipv6(_) => None,
    }
}

/// The address of a host of digits and dots, parsed like C's `inet_aton`: one to four parts, a part with a leading zero
/// in octal, the last part filling the rest.
fn address(host: &[u8]) -> Option<u32> {
    if !host.is_empty() && host.iter().all(u8::is_ascii_digit) {
        // One number, truncated to 32 bits, whatever its length.
        return Some(host.iter().fold(0u32, |n, d| n.wrapping_mul(10).wrapping_add(u32::from(d - b'0'))));
    }
    let parts: Vec<&[u8]> = host.split(|&b| b == b'.').collect();
    if parts.len() > 4 {
        return None;
    }
    let mut value = 0u64;
    for (index, part) in parts.iter().enumerate() {
        let base = if part.len() > 1 && part[0] == b'0' { 8 } else { 10 };
        let mut number = 0u64;
        for &digit in *part {
            let digit = char::from(digit).to_digit(base)?;
            number = number * u64::from(base) + u64::from(digit);
            if number > u64::from(u32::MAX) {
                return None;
            }
        }
        if part.is_empty() {
            return None;
        }
        let bytes = if index + 1 == parts.len() { 4 - index } else { 1 };
        if number >> (8 * bytes) != 0 {
            return None;
        }
        value = value << (8 * bytes) | number;
    }
    u32::try_from(value).ok()
}

/// A path without `.`, `..` and repeated slashes. A `..` with nothing before stays.
fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split(|&b| b == b'/').skip(1) {
        match part {
            b"." => {}
            b".." if !kept.is_empty() => {
                kept.pop();
            }
            _ => kept.push(part),
        }
    }
    let mut out = vec![b'/'];
    if let Some((last, directories)) = kept.split_last() {
        for part in directories.iter().filter(|part| !part.is_empty()) {
            out.extend_from_slice(part);
            out.push(b'/');
        }
        out.extend_from_slice(last);
    }
    out
}

/// Escapes spaces, controls, `#`, `%` and everything outside ASCII.
fn escape(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text {
        if byte.is_ascii_graphic() && byte != b'#' && byte != b'%' {
            out.push(byte as char);
        } else {
            out.extend(percent::encoded(byte).map(char::from));
        }
    }
    out
}

/// Removes an ASP.NET session from a path: `/(24 characters)/x.aspx` and `/(a(24 characters)b(…))/x.aspx`.
fn without_path_session(path: String) -> String {
    let path = cut_path_session(path, tagged_session);
    cut_path_session(path, |text| parenthesised(text).map(|length| &text[length..]))
}

/// Cuts the last directory that `session` parses completely, if a page with `.aspx` follows.
fn cut_path_session(path: String, session: fn(&[u8]) -> Option<&[u8]>) -> String {
    let bytes = path.as_bytes();
    for slash in (0..bytes.len()).rev().filter(|&at| bytes[at] == b'/') {
        let Some(rest) = session(&bytes[slash + 1..]).and_then(|rest| rest.strip_prefix(b"/")) else {
            continue;
        };
        let page = rest.split(|&b| b == b'?').next().unwrap_or_default();
        let is_page =
            page.get(1..).is_some_and(|page| page.windows(5).any(|w| w.eq_ignore_ascii_case(b".aspx")));
        if is_page {
            return format!("{}{}", &path[..=slash], &path[bytes.len() - rest.len()..]);
        }
    }
    path
}

/// Parses `(24 letters or digits)`; returns the length.
fn parenthesised(text: &[u8]) -> Option<usize> {
    let inner = text.strip_prefix(b"(")?.get(..25)?;
    (inner[..24].iter().all(u8::is_ascii_alphanumeric) && inner[24] == b')').then_some(26)
}

/// Parses `(a(24)b(24)…)`; returns the rest of the text.
fn tagged_session(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"(")?;
    let mut some = false;
    while rest.first().is_some_and(u8::is_ascii_alphabetic)
        && let Some(length) = parenthesised(&rest[1..])
    {
        rest = &rest[1 + length..];
        some = true;
    }
    rest.strip_prefix(b")").filter(|_| some)
}

/// Removes the session ids of well-known servers from a query, the last of each kind.
fn without_query_sessions(mut query: String) -> String {
    let fixed = |name: &'static [u8]| {
        move |text: &[u8]| -> Option<usize> {
            let start = text.get(..name.len())?;
            let value = text.get(name.len()..name.len() + 32)?;
            (start.eq_ignore_ascii_case(name) && value.iter().all(u8::is_ascii_alphanumeric))
                .then_some(name.len() + 32)
        }
    };
    cut_session(&mut query, fixed(b"jsessionid="));
    cut_session(&mut query, fixed(b"phpsessid="));
    cut_session(&mut query, fixed(b"sid="));
    cut_session(&mut query, |text| {
        let id = text.get(..45)?;
        (id[..12].eq_ignore_ascii_case(b"aspsessionid")
            && id[12..20].iter().all(u8::is_ascii_alphabetic)
            && id[20] == b'='
            && id[21..].iter().all(u8::is_ascii_alphabetic))
        .then_some(45)
    });
    cut_session(&mut query, |text| {
        let start = text.get(..5).filter(|s| s.eq_ignore_ascii_case(b"cfid="))?.len();
        let id = text[start..].iter().position(|&b| b == b'&').filter(|&id| id > 0)?;
        let token = start + id + 1;
        text.get(token..token + 8).filter(|t| t.eq_ignore_ascii_case(b"cftoken="))?;
        let value = text[token + 8..].iter().position(|&b| b == b'&').unwrap_or(text.len() - token - 8);
        (value > 0).then_some(token + 8 + value)
    });
    query
}

/// Cuts the last position where `session` parses an id that ends the query or is followed by `&`. The text before,
/// including its `&`, stays.
fn cut_session(query: &mut String, session: impl Fn(&[u8]) -> Option<usize>) {
    let bytes = query.as_bytes();
    let found = (0..bytes.len()).rev().find_map(|at| {
        let end = at + session(&bytes[at..])?;
        matches!(bytes.get(end), None | Some(b'&')).then_some((at, end))
    });
    if let Some((start, end)) = found {
        let rest = query.get(end + 1..).unwrap_or_default().to_owned();
        query.truncate(start);
        query.push_str(&rest);
    }
}

fn sorted(query: &str) -> String {
    let mut parameters: Vec<&str> = query.split('&').collect();
    parameters.sort_by_key(|p| p.split_once('=').map_or((*p, None), |(name, value)| (name, Some(value))));
    parameters.join("&")
}
