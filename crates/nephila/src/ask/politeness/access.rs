//! Parser for lines of a site's access log.
//!
//! Invariant: an unreadable line gives none; no line causes a panic.

use serde_json::Value;

use crate::cli::ask::AccessFormat;

/// Maximum length in bytes of a line of an access log.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;

/// One request, as logged by a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// Milliseconds since 1970: when the line was written, or when the request arrived, depending on the server.
    pub(super) at: u64,
    /// Precision of the time in milliseconds.
    pub(super) exact_ms: u64,
    /// Path and query of the request.
    pub(super) path: String,
    /// The user agent; none if the format has no such field.
    pub(super) agent: Option<String>,
    /// The host, if the line has one.
    pub(super) host: Option<String>,
    /// Duration of the request in milliseconds, if logged.
    pub(super) took_ms: Option<u64>,
}

/// Parses a line.
pub(super) fn parse(line: &str, format: AccessFormat) -> Option<Access> {
    match format {
        AccessFormat::JsonNginx => json(line),
        AccessFormat::Auto if line.trim_start().starts_with('{') => json(line),
        AccessFormat::Common => {
            let access = plain(line)?;
            Some(Access { agent: None, took_ms: None, ..access })
        }
        AccessFormat::Combined => plain(line).filter(|access| access.agent.is_some()),
        AccessFormat::Auto => plain(line),
    }
}

/// The common and the combined format, which begin alike.
fn plain(line: &str) -> Option<Access> {
    let open = line.find('[')?;
    let close = open + line[open..].find(']')?;
    let at = clf_time(&line[open + 1..close])?;
    let mut rest = line[close + 1..].trim_start();
    let request = quoted(&mut rest)?;
    let path = path_of(&request)?;
    // Status and bytes.
    let mut words = 0;
    while words < 2 {
        let word = rest.split_whitespace().next()?;
        let number = word == "-" || word.bytes().all(|byte| byte.is_ascii_digit());
        if !number {
            return None;
        }
        rest = rest[rest.find(word)? + word.len()..].trim_start();
        words += 1;
    }
    let agent = quoted(&mut rest).and_then(|_referrer| quoted(&mut rest));
    // Of further fields, a number with a decimal point is the duration, as `$request_time` writes one.
    let seconds = rest.split_whitespace().find(|word| word.contains('.') && word.parse::<f64>().is_ok());
    let took_ms = agent.as_ref().and(seconds).and_then(millis);
    // Some put the host in front of everything, or behind.
    Some(Access { at, exact_ms: 1_000, path, agent, host: None, took_ms })
}

/// Takes a quoted field from the front. A backslash escapes a quote.
fn quoted(rest: &mut &str) -> Option<String> {
    let inner = rest.strip_prefix('"')?;
    let mut text = String::new();
    let mut chars = inner.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => {
                *rest = inner[at + 1..].trim_start();
                return Some(text);
            }
            '\\' => {
                let (_, next) = chars.next()?;
                if next != '"' && next != '\\' {
                    text.push('\\');
                }
                text.push(next);
            }
            char => text.push(char),
        }
    }
    None
}

/// Path and query of a request line. An absolute URL, as sent to proxies, is reduced to path and query.
fn path_of(request: &str) -> Option<String> {
    let mut words = request.split(' ');
    let method = words.next().filter(|method| method.bytes().all(|b| b.is_ascii_alphabetic()))?;
    let target = words.next().filter(|_| !method.is_empty())?;
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    Some(path.to_owned())
}

/// `10/Oct/2000:13:55:36 -0700`.
fn clf_time(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (time, zone) = text.trim().split_once(' ')?;
    let mut parts = time.split(['/', ':']);
    let day: i8 = parts.next()?.parse().ok()?;
    let month = parts.next()?;
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? as i8 + 1;
    let year: i16 = parts.next()?.parse().ok()?;
    let mut clock = [0i8; 3];
    for part in &mut clock {
        *part = parts.next()?.parse().ok()?;
    }
    let time = jiff::civil::DateTime::new(year, month, day, clock[0], clock[1], clock[2].min(59), 0).ok()?;
    let zone = zone.trim();
    let sign = match zone.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let hours: i64 = zone.get(1..3)?.parse().ok()?;
    let minutes: i64 = zone.get(3..5)?.parse().ok()?;
    let utc = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond();
    u64::try_from(utc - sign * (hours * 60 + minutes) * 60_000).ok()
}

fn json(line: &str) -> Option<Access> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = |names: &[&str]| -> Option<String> {
        names.iter().find_map(|name| match value.get(name)? {
            Value::String(text) if !text.is_empty() && text != "-" => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
    };
    let (at, exact_ms) = if let Some(at) = text(&["msec"]).and_then(|text| millis(&text)) {
        (at, 1)
    } else if let Some(iso) = text(&["time_iso8601", "@timestamp", "timestamp"]) {
        let at: jiff::Timestamp = iso.parse().ok()?;
        (u64::try_from(at.as_millisecond()).ok()?, if iso.contains('.') { 1 } else { 1_000 })
    } else {
        (clf_time(&text(&["time_local", "time"])?)?, 1_000)
    };
    let path = text(&["request"])
        .and_then(|request| path_of(&request))
        .or_else(|| text(&["request_uri", "uri", "path"]))?;
    Some(Access {
        at,
        exact_ms,
        path,
        agent: Some(text(&["http_user_agent", "user_agent", "agent"]).unwrap_or_default()),
        host: text(&["host", "http_host", "server_name"]),
        took_ms: text(&["request_time"]).and_then(|text| millis(&text)),
    })
}

/// Seconds with a fraction.
fn millis(text: &str) -> Option<u64> {
    let seconds: f64 = text.parse().ok()?;
    (seconds.is_finite() && (0.0..1e12).contains(&seconds)).then(|| (seconds * 1_000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_common_servers_are_read() {
        let common = r#"192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif?x=1 HTTP/1.0" 200 2326"#;
        let access = parse(common, AccessFormat::Auto).unwrap();
        assert_eq!((access.at, access.exact_ms), (971_211_336_000, 1_000));
        assert_eq!((access.path.as_str(), access.agent), ("/a.gif?x=1", None));
        let combined = format!(r#"{common} "http://ref/" "Mozilla/5.0 (compatible; \"Nephila\"/1)" 0.250"#);
        let access = parse(&combined, AccessFormat::Combined).unwrap();
        assert_eq!(access.agent.as_deref(), Some("Mozilla/5.0 (compatible; \"Nephila\"/1)"));
        assert_eq!(access.took_ms, Some(250));
        assert_eq!(parse(common, AccessFormat::Combined), None, "it has no agent");
        let json = r#"{"msec":"1794697089.123","request":"GET /x HTTP/1.1","http_user_agent":"Nephila","request_time":"0.010","host":"a.test"}"#;
        let access = parse(json, AccessFormat::Auto).unwrap();
        assert_eq!((access.at, access.exact_ms, access.took_ms), (1_794_697_089_123, 1, Some(10)));
        let json = r#"{"time_iso8601":"2026-11-14T22:58:09+00:00","request_uri":"/x"}"#;
        assert_eq!(parse(json, AccessFormat::JsonNginx).unwrap().at, 1_794_697_089_000);
        let proxy = common.replace("/a.gif?x=1", "http://a.test:80/y");
        assert_eq!(parse(&proxy, AccessFormat::Auto).unwrap().path, "/y");
        for bad in
            ["", "x", "[", "[]", r#"a [1/Jan/2026:00:00:00 +0000] "-" 400 0"#, "{}", "{\"msec\":\"x\"}"]
        {
            assert_eq!(parse(bad, AccessFormat::Auto), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_not(line in any::<String>(), like in r#"[\[\]"\\ /:+0-9a-zJ-]{0,120}"#) {
            for format in [AccessFormat::Auto, AccessFormat::Common, AccessFormat::Combined, AccessFormat::JsonNginx] {
                parse(&line, format);
                parse(&like, format);
                parse(&format!("a - - [10/Oct/2000:13:55:36 -0700] {like}"), format);
            }
        }
    }
}
