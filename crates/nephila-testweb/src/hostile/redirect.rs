//! RED-01 to RED-16: redirects that loop, leave, lie or carry secrets along.
//!
//! Every page a redirect leads to echoes its request head, and the journal keeps the head, so that a test sees the
//! fields that were sent along.

use std::io;

use super::conn::{Conn, Head, Next, links, not_found, page, redirect, response};
use super::fields::echo;
use super::serve::robots;
use super::{BODY_BYTES_MAX, Case, host};

pub(super) const CASES: &[Case] = &[
    Case::http(
        "red-01",
        &[
            ("/self", "302 to itself"),
            ("/a", "302 to /b, which leads back"),
            ("/chain/40", "a chain of 40"),
            ("/chain/9", "a chain of 9"),
            ("/endless/0", "a new target for ever"),
        ],
    ),
    Case::http(
        "red-02",
        &[
            ("/file", "302 to file:///etc/passwd"),
            ("/ftp", "to ftp:"),
            ("/gopher", "to gopher:"),
            ("/data", "to data:"),
            ("/javascript", "to javascript:"),
        ],
    ),
    Case::http("red-03", &[("/start", "302 to /secret of the label, whose robots.txt forbids it")])
        .labels(&[("blocked", "the target; its robots.txt disallows /secret")]),
    Case::http(
        "red-04",
        &[("/out", "302 to good.hostile.test"), ("/other", "301 to another site's deep page")],
    ),
    Case::both(
        "red-05",
        &[
            ("/host", "302 to another host"),
            ("/scheme", "302 from http to https and back"),
            ("/port", "302 to another port"),
            ("/land", "echoes what was sent along"),
        ],
    )
    .labels(&[("other", "the other host")]),
    Case::both(
        "red-06",
        &[
            ("/port", "302 to another port of the same host"),
            ("/downgrade", "302 to http of the same host"),
            ("/land", "echoes what was sent along"),
        ],
    ),
    Case::http(
        "red-07",
        &[
            ("/missing", "302 without Location"),
            ("/empty", "an empty one"),
            ("/twice", "two different ones"),
            ("/long", "100 KB"),
        ],
    ),
    Case::http(
        "red-08",
        &[
            ("/utf8", "raw UTF-8"),
            ("/latin1", "Latin-1 bytes"),
            ("/spaces", "spaces"),
            ("/backslashes", "backslashes"),
            ("/control", "control bytes"),
        ],
    ),
    Case::http(
        "red-09",
        &[
            ("/301", "301"),
            ("/302", "302"),
            ("/303", "303"),
            ("/307", "307"),
            ("/308", "308"),
            ("/300", "300 with Location"),
        ],
    ),
    Case::http(
        "red-10",
        &[
            ("/zero", "meta refresh, 0 s"),
            ("/five", "5 s"),
            ("/quotes", "single quotes around the URL"),
            ("/self", "to itself"),
            ("/noscript", "inside noscript"),
            ("/header", "a Refresh field"),
        ],
    ),
    Case::http(
        "red-11",
        &[("/u/0", "any of /u/0 to /u/9999 leads to /login"), ("/index", "links to 10,000 of them")],
    ),
    Case::http(
        "red-12",
        &[("/wall", "302 to itself with a cookie until the cookie comes back"), ("/stone", "it never helps")],
    ),
    Case::both("red-13", &[("/page", "www and http lead to https of the bare name, permanently")])
        .labels(&[("www", "leads to the bare name")]),
    Case::http("red-14", &[("/once", "200 the first time, a chain of 40 afterwards")]),
    Case::http("red-15", &[("/away", "302 to one of the 10,000 names of dns-16, chosen by the query")]),
    Case::both(
        "red-16",
        &[("/up", "302 from http to https"), ("/down", "302 from https to http"), ("/land", "echo")],
    ),
];

const LOCATION_BYTES: usize = 100 * 1024;
/// The URLs of RED-11.
const LOGINS: usize = 10_000;
/// Maximum number of hops of the endless chain.
const HOPS_MAX: u64 = BODY_BYTES_MAX;

pub(super) async fn answer(conn: &mut Conn, head: &Head) -> io::Result<Next> {
    let bytes = bytes(conn, head).unwrap_or_else(not_found);
    conn.send(bytes).await?;
    Ok(Next::Keep)
}

fn bytes(conn: &Conn, head: &Head) -> Option<Vec<u8>> {
    let shared = &conn.shared;
    let found = |location: &str| redirect("302 Found", location);
    Some(match (conn.id(), head.path.as_str()) {
        ("red-03", "/robots.txt") if conn.label == "blocked" => robots("Disallow: /secret\n"),
        (_, "/robots.txt") if conn.id() != "red-13" => robots(""),
        (_, "/land") => echo(head),
        ("red-01", "/self") => found("/self"),
        ("red-01", "/a") => found("/b"),
        ("red-01", "/b") => found("/a"),
        ("red-01", path) => chain(path)?,
        ("red-02", "/file") => found("file:///etc/passwd"),
        ("red-02", "/ftp") => found("ftp://good.hostile.test/file"),
        ("red-02", "/gopher") => found("gopher://good.hostile.test/1"),
        ("red-02", "/data") => found("data:text/html,<p>inline</p>"),
        ("red-02", "/javascript") => found("javascript:alert(1)"),
        ("red-03", "/start") => found(&shared.url("blocked.red-03", "/secret")),
        ("red-03", "/secret") => page("<p>forbidden by robots.txt</p>"),
        ("red-04", "/out") => found(&shared.url("good", "/page")),
        ("red-04", "/other") => {
            redirect("301 Moved Permanently", &shared.url("blocked.red-03", "/open/deep"))
        }
        ("red-05", "/host") => found(&shared.url("other.red-05", "/land")),
        ("red-05", "/scheme") if conn.tls => found(&shared.url("red-05", "/land")),
        ("red-05", "/scheme") => found(&shared.https_url("red-05", "/land")),
        ("red-05" | "red-06", "/port") => {
            found(&format!("http://{}:{}/land", host(conn.id()), shared.ports.other))
        }
        ("red-06", "/downgrade") => found(&shared.url("red-06", "/land")),
        ("red-07", path) => bad_location(path)?,
        ("red-08", path) => odd_location(path)?,
        ("red-09", "/300") => response(
            "300 Multiple Choices",
            "Location: /page\r\nContent-Type: text/html\r\n",
            "<p>choose</p>",
        ),
        ("red-09", "/page") => page("<p>arrived</p>"),
        ("red-09", path) => {
            let status = match path {
                "/301" => "301 Moved Permanently",
                "/302" => "302 Found",
                "/303" => "303 See Other",
                "/307" => "307 Temporary Redirect",
                "/308" => "308 Permanent Redirect",
                _ => return None,
            };
            redirect(status, "/page")
        }
        ("red-10", path) => refresh(path)?,
        ("red-11", "/login") => page("<p>please log in</p>"),
        ("red-11", "/index") => page(links("all of them", (0..LOGINS).map(|n| format!("/u/{n}")))),
        ("red-11", path) if path.starts_with("/u/") => found("/login"),
        ("red-12", path @ ("/wall" | "/stone")) => {
            let passed = head.field("cookie").is_some_and(|cookies| cookies.contains("wall=1"));
            if passed && path == "/wall" {
                page("<p>behind the wall</p>")
            } else {
                response("302 Found", &format!("Location: {path}\r\nSet-Cookie: wall=1; Path=/\r\n"), "")
            }
        }
        ("red-13", path) => {
            if conn.tls && conn.label.is_empty() {
                match path {
                    "/robots.txt" => robots(""),
                    _ => page(links("the new site", ["/page", "/other"])),
                }
            } else {
                redirect("301 Moved Permanently", &shared.https_url("red-13", path))
            }
        }
        ("red-14", "/once") if shared.journal.times_asked("red-14", &head.target) == 1 => {
            page("<p>fine the first time</p>")
        }
        ("red-14", "/once") => found("/chain/40"),
        ("red-14", path) => chain(path)?,
        ("red-15", "/away") => {
            let number =
                head.target.split_once('?').and_then(|(_, query)| query.parse::<u16>().ok()).unwrap_or(7);
            found(&shared.url(&format!("n{number}.dns-16"), "/page"))
        }
        ("red-16", "/up") => found(&shared.https_url("red-16", "/land")),
        ("red-16", "/down") => found(&shared.url("red-16", "/land")),
        _ => return None,
    })
}

/// `/chain/N` leads to `/chain/N-1` and at 0 to a page; `/endless/N` leads to `/endless/N+1`.
fn chain(path: &str) -> Option<Vec<u8>> {
    if let Some(left) = path.strip_prefix("/chain/") {
        return Some(match left.parse::<u64>().ok()? {
            0 => page("<p>the end of the chain</p>"),
            left => redirect("302 Found", &format!("/chain/{}", left - 1)),
        });
    }
    let hop = path.strip_prefix("/endless/")?.parse::<u64>().ok()?;
    (hop < HOPS_MAX).then(|| redirect("302 Found", &format!("/endless/{}", hop + 1)))
}

fn bad_location(path: &str) -> Option<Vec<u8>> {
    let lines = match path {
        "/missing" => String::new(),
        "/empty" => "Location: \r\n".to_owned(),
        "/twice" => "Location: /one\r\nLocation: /two\r\n".to_owned(),
        "/long" => format!("Location: /{}\r\n", "l".repeat(LOCATION_BYTES)),
        _ => return None,
    };
    Some(response("302 Found", &format!("Content-Type: text/html\r\n{lines}"), "<p>nowhere to go</p>"))
}

fn odd_location(path: &str) -> Option<Vec<u8>> {
    let location: &[u8] = match path {
        "/utf8" => "/arrived/größe/✓?q=ü".as_bytes(),
        "/latin1" => b"/arrived/gr\xf6\xdfe?q=\xfc",
        "/spaces" => b"/arrived/a b  c",
        "/backslashes" => b"\\arrived\\a\\b",
        "/control" => b"/arrived/a\x01\x0b\x7fb",
        _ if path.starts_with("/arrived") => return Some(page("<p>arrived</p>")),
        _ => return None,
    };
    let mut bytes = b"HTTP/1.1 302 Found\r\nLocation: ".to_vec();
    bytes.extend(location);
    bytes.extend(b"\r\nContent-Length: 0\r\n\r\n");
    Some(bytes)
}

fn refresh(path: &str) -> Option<Vec<u8>> {
    let meta = |content: &str| {
        page(format!("<html><head><meta http-equiv=\"refresh\" content=\"{content}\"></head></html>"))
    };
    Some(match path {
        "/zero" => meta("0; url=/target"),
        "/five" => meta("5;URL=/target"),
        "/quotes" => meta("0; url='/target'"),
        "/self" => meta("30; url=/self"),
        "/noscript" => page(
            "<html><head><noscript><meta http-equiv=refresh content=\"0;url=/target\"></noscript></head></html>",
        ),
        "/header" => {
            response("200 OK", "Content-Type: text/html\r\nRefresh: 0; url=/target\r\n", "<p>wait</p>")
        }
        "/target" => page("<p>refreshed</p>"),
        _ => return None,
    })
}
