//! H1-29 to H1-38: cookies, types, dates, validators and answers that want something from us.

use std::io;

use super::Case;
use super::conn::{Conn, Head, Next, not_found, page, response};

pub(super) const CASES: &[Case] = &[
    Case::http(
        "h1-29",
        &[
            ("/", "1,000 cookies of 4 KB"),
            ("/fits", "60 cookies of 4,000 bytes: a head that most clients take"),
            ("/echo", "shows the request head"),
            ("/one", "one cookie of 4 KB"),
        ],
    ),
    Case::http(
        "h1-30",
        &[
            ("/maxage", "Max-Age 2^63"),
            ("/control", "control characters"),
            ("/suffix", "Domain=test and Domain=CO.UK"),
            ("/case", "mixed-case domain"),
            ("/dot", "leading dot"),
            ("/ip", "an address as domain"),
            ("/echo", "shows the request head"),
        ],
    ),
    Case::http(
        "h1-31",
        &[("/set", "sets a cookie named after the host"), ("/echo", "shows the request head")],
    )
    .labels(&[("a", "one site"), ("b", "another site")]),
    Case::http(
        "h1-32",
        &[
            ("/missing", "no Content-Type on HTML"),
            ("/empty", "an empty one"),
            ("/twice", "two different ones"),
            ("/nocharset", "text/html; charset"),
            ("/long", "4 KB long"),
            ("/png", "image/png on HTML"),
        ],
    ),
    Case::http(
        "h1-33",
        &[
            ("/1601", "dates in 1601"),
            ("/9999", "in 9999"),
            ("/garbage", "no dates"),
            ("/tomorrow", "a day ahead"),
        ],
    ),
    Case::http(
        "h1-34",
        &[
            ("/weak", "a weak ETag"),
            ("/strong", "a strong one"),
            ("/empty", "an empty one"),
            ("/long", "10 KB"),
            ("/changing", "a new one at every request, same body"),
            ("/now", "Last-Modified always now"),
        ],
    ),
    Case::http("h1-35", &[("/401", "401, 100 MB, no WWW-Authenticate"), ("/407", "407, the same")]),
    Case::http(
        "h1-36",
        &[("/402", "402 with crawler-price"), ("/403", "a challenge page, cf-mitigated"), ("/451", "451")],
    ),
    Case::http("h1-37", &[("/", "echoes the request head as a page"), ("/json", "the same as plain text")]),
    Case::http("h1-38", &[("/body", "HEAD is answered with a body"), ("/disagree", "HEAD and GET disagree")]),
];

/// The first number of this file.
const FIRST: u8 = 29;
const COOKIES: usize = 1_000;
const COOKIE_BYTES: usize = 4 * 1024;
/// Just below 256 KB in all, and each below the size that a client must accept (RFC 6265, 6.1).
const COOKIES_FITTING: usize = 60;
const COOKIE_BYTES_FITTING: usize = 4_000;
const DENIED_BYTES: u64 = 100_000_000;
/// Seconds of a day.
const DAY: u64 = 86_400;

/// Whether a case of HTTP/1 is served here and not in `framing`.
pub(super) fn owns(id: &str) -> bool {
    id.strip_prefix("h1-").and_then(|number| number.parse::<u8>().ok()).is_some_and(|number| number >= FIRST)
}

pub(super) async fn answer(conn: &mut Conn, head: &Head) -> io::Result<Next> {
    let times = conn.shared.journal.times_asked(conn.id(), &head.target);
    let bytes = match (conn.id(), head.path.as_str()) {
        ("h1-37", _) | ("h1-29" | "h1-30" | "h1-31", "/echo") => echo(head),
        ("h1-29", path @ ("/" | "/one" | "/fits")) => {
            let (count, bytes) = match path {
                "/" => (COOKIES, COOKIE_BYTES),
                "/fits" => (COOKIES_FITTING, COOKIE_BYTES_FITTING),
                _ => (1, COOKIE_BYTES),
            };
            let value = "c".repeat(bytes);
            html(&(0..count).map(|n| format!("Set-Cookie: c{n}={value}; Path=/\r\n")).collect::<String>())
        }
        ("h1-30", path) => match cookie(path) {
            Some(lines) => html(&lines),
            None => not_found(),
        },
        ("h1-31", "/set") => {
            let owner = if conn.label.is_empty() { "none" } else { conn.label };
            html(&format!("Set-Cookie: owner={owner}; Path=/\r\n"))
        }
        ("h1-32", path) => match content_type(path) {
            Some(line) => response("200 OK", &line, HTML),
            None => not_found(),
        },
        ("h1-33", path) => {
            let date = match path {
                "/1601" => "Mon, 01 Jan 1601 00:00:00 GMT".to_owned(),
                "/9999" => "Fri, 31 Dec 9999 23:59:59 GMT".to_owned(),
                "/garbage" => "the day before yesterday".to_owned(),
                _ => http_date(seconds_now() + DAY),
            };
            html(&format!("Date: {date}\r\nLast-Modified: {date}\r\nExpires: {date}\r\n"))
        }
        ("h1-34", path) => html(&match path {
            "/weak" => "ETag: W/\"weak\"\r\n".to_owned(),
            "/strong" => "ETag: \"strong\"\r\n".to_owned(),
            "/empty" => "ETag: \r\n".to_owned(),
            "/long" => format!("ETag: \"{}\"\r\n", "e".repeat(10_000)),
            "/changing" => format!("ETag: \"{times}\"\r\n"),
            _ => format!("Last-Modified: {}\r\n", http_date(seconds_now())),
        }),
        ("h1-35", path) => {
            let status =
                if path == "/407" { "407 Proxy Authentication Required" } else { "401 Unauthorized" };
            conn.send(format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {DENIED_BYTES}\r\n\r\n"
            ))
            .await?;
            conn.repeat_up_to(&[b'd'; 10_000], DENIED_BYTES).await?;
            return Ok(Next::Keep);
        }
        ("h1-36", "/402") => response("402 Payment Required", "crawler-price: USD 0.05\r\n", "pay first"),
        ("h1-36", "/403") => response(
            "403 Forbidden",
            "cf-mitigated: challenge\r\nContent-Type: text/html\r\n",
            "<title>Just a moment...</title><script>solve()</script>",
        ),
        ("h1-36", "/451") => {
            response("451 Unavailable For Legal Reasons", "Content-Type: text/html\r\n", "not here")
        }
        ("h1-38", path) => return head_cases(conn, head, path).await,
        _ => not_found(),
    };
    conn.send(bytes).await?;
    Ok(Next::Keep)
}

const HTML: &str = "<!doctype html><html><head><title>t</title></head><body><p>kept</p></body></html>";

fn html(lines: &str) -> Vec<u8> {
    response("200 OK", &format!("Content-Type: text/html\r\n{lines}"), HTML)
}

/// The request head as a page, escaped.
pub(super) fn echo(head: &Head) -> Vec<u8> {
    let text = String::from_utf8_lossy(&head.raw).replace('&', "&amp;").replace('<', "&lt;");
    page(format!("<pre>{text}</pre>"))
}

async fn head_cases(conn: &mut Conn, head: &Head, path: &str) -> io::Result<Next> {
    let is_head = head.method == "HEAD";
    let bytes = match path {
        "/body" => page("<p>bytes after a HEAD</p>"),
        _ if is_head => {
            b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nETag: \"head\"\r\nContent-Length: 99999\r\n\r\n"
                .to_vec()
        }
        _ => html("ETag: \"get\"\r\n"),
    };
    conn.send(bytes).await?;
    Ok(Next::Keep)
}

fn cookie(path: &str) -> Option<String> {
    Some(match path {
        "/maxage" => "Set-Cookie: long=1; Max-Age=9223372036854775808\r\n".to_owned(),
        "/control" => "Set-Cookie: con\u{1}trol=a\u{7f}b\u{8}c\r\n".to_owned(),
        "/suffix" => "Set-Cookie: s1=1; Domain=test\r\nSet-Cookie: s2=1; Domain=CO.UK\r\n\
                      Set-Cookie: s3=1; Domain=.Com\r\n"
            .to_owned(),
        "/case" => "Set-Cookie: mixed=1; Domain=H1-30.Hostile.TEST\r\n".to_owned(),
        "/dot" => "Set-Cookie: dotted=1; Domain=.h1-30.hostile.test\r\n".to_owned(),
        "/ip" => "Set-Cookie: ip=1; Domain=127.84.30.1\r\n".to_owned(),
        _ => return None,
    })
}

fn content_type(path: &str) -> Option<String> {
    Some(match path {
        "/missing" => String::new(),
        "/empty" => "Content-Type: \r\n".to_owned(),
        "/twice" => "Content-Type: text/plain\r\nContent-Type: text/html\r\n".to_owned(),
        "/nocharset" => "Content-Type: text/html; charset\r\n".to_owned(),
        "/long" => format!("Content-Type: text/html; x={}\r\n", "t".repeat(4 * 1024)),
        "/png" => "Content-Type: image/png\r\n".to_owned(),
        _ => return None,
    })
}

fn seconds_now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// An HTTP date, from seconds since 1970.
fn http_date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, of_day) = (seconds / DAY, seconds % DAY);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    format!(
        "{}, {:02} {} {year} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        left + 1,
        MONTHS[month],
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

#[cfg(test)]
mod tests {
    use super::http_date;

    #[test]
    fn dates_are_written_as_http_does() {
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(1_709_164_800), "Thu, 29 Feb 2024 00:00:00 GMT");
    }
}
