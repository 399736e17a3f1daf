//! SSR-01 to SSR-17: ways to lead a crawler to a forbidden address.
//!
//! Names for forbidden addresses are made by the name server (`a-10-0-0-1.ssr-01.hostile.test`, see `dns`); the
//! redirects and pages are here. Links to 127.0.0.1 use our own port, where the tripwire listens: a test asks
//! `connections(INSIDE)`, which must be 0.

use std::io;

use super::conn::{Conn, Head, Next, links, not_found, page, redirect, response};
use super::{Case, host};

/// Any label of the form `a-1-2-3-4` or `aaaa-fe80--1` is an address; the labels listed here have one each for a soak.
pub(super) const CASES: &[Case] = &[
    Case::http("ssr-01", &[("/", "the name resolves to the address in its label")]),
    Case::http("ssr-02", &[("/", "the name resolves to the IPv6 address in its label")]),
    Case::http("ssr-03", &[("/", "flips between its own address and 127.0.0.1 at every query, TTL 0")])
        .labels(&[
            ("two", "two A records, its own and 127.0.0.1"),
            ("second", "127.0.0.1 from the second query on"),
        ]),
    Case::http(
        "ssr-04",
        &[
            ("/metadata", "302 to 169.254.169.254"),
            ("/loopback", "302 to 127.0.0.1 and our port"),
            ("/name", "302 to a name for 127.0.0.1"),
            ("/v6", "302 to [::1]"),
            ("/mapped", "302 to [::ffff:127.0.0.1]"),
            ("/chain", "302 to good, 302 to 127.0.0.1"),
        ],
    ),
    Case::http(
        "ssr-05",
        &[
            ("/robots.txt", "302 to 127.0.0.1"),
            ("/sitemap.xml", "302 to 127.0.0.1"),
            ("/sitemap-index.xml", "a sitemap index that points inside"),
            ("/feed", "a feed whose links point inside"),
            ("/favicon.ico", "302 to 127.0.0.1"),
            ("/license.xml", "302 to 127.0.0.1"),
            ("/.well-known/http-message-signatures-directory", "302 to 127.0.0.1"),
            ("/page", "links for feed, icon, licence and canonical that point inside"),
        ],
    ),
    Case::http(
        "ssr-06",
        &[
            ("/decimal", "302 to http://2130706433"),
            ("/hex", "to 0x7f.1"),
            ("/octal", "to 0177.0.0.1"),
            ("/short", "to 127.1"),
            ("/wide", "to full-width digits"),
            ("/zero", "to http://0"),
        ],
    ),
    Case::http(
        "ssr-08",
        &[
            ("/22", "302 to port 22"),
            ("/25", "25"),
            ("/6379", "6379"),
            ("/4222", "4222"),
            ("/9200", "9200"),
            ("/links", "links to all"),
        ],
    ),
    Case::http(
        "ssr-10",
        &[
            ("/cr", "302 with an encoded CRLF in the path"),
            ("/raw", "302 with a bare CR and tabs in Location"),
            ("/space", "302 with spaces that spell a request"),
            ("/links", "links with line ends inside"),
        ],
    ),
    Case::http("ssr-13", &[("/", "any label (one, two, ...) is another name for the same address")]),
    Case::http(
        "ssr-14",
        &[
            ("/links", "links to file:, ftp:, gopher:, unix:, data:"),
            ("/feed", "a feed with them"),
            ("/sitemap.xml", "a sitemap with them"),
        ],
    ),
    Case::http("ssr-16", &[("/", "AAAA in 64:ff9b::/96 around 127.0.0.1; `public.` around its own address")]),
    Case::http(
        "ssr-17",
        &[("/literal", "302 to an IPv4 literal"), ("/v6", "to an IPv6 literal"), ("/links", "links to both")],
    ),
];

const OUTSIDE: &[&str] = &[
    "file:///etc/passwd",
    "ftp://good.hostile.test/f",
    "gopher://good.hostile.test/1",
    "unix:/run/x.sock",
    "data:text/html,x",
];
/// Ports of SSR-08.
const PORTS: &[&str] = &["22", "25", "6379", "4222", "9200"];

pub(super) async fn answer(conn: &mut Conn, head: &Head) -> io::Result<Next> {
    let bytes = bytes(conn, head).unwrap_or_else(not_found);
    conn.send(bytes).await?;
    Ok(Next::Keep)
}

fn bytes(conn: &Conn, head: &Head) -> Option<Vec<u8>> {
    let port = conn.shared.ports.plain;
    let inside = |name: &str, path: &str| format!("http://{name}:{port}{path}");
    let found = |location: String| redirect("302 Found", &location);
    Some(match (conn.id(), head.path.as_str()) {
        ("ssr-04", "/metadata") => found("http://169.254.169.254/latest/meta-data/".to_owned()),
        ("ssr-04" | "ssr-17", "/loopback" | "/literal") => found(inside("127.0.0.1", "/secret")),
        ("ssr-04", "/name") => found(inside(&host("a-127-0-0-1.ssr-01"), "/secret")),
        ("ssr-04" | "ssr-17", "/v6") => found(inside("[::1]", "/secret")),
        ("ssr-04", "/mapped") => found(inside("[::ffff:127.0.0.1]", "/secret")),
        ("ssr-04", "/chain") => found(conn.shared.url("ssr-04", "/loopback")),
        ("ssr-05", path) => everywhere(path, &inside("127.0.0.1", "/secret"))?,
        ("ssr-06", "/decimal") => found(inside("2130706433", "/")),
        ("ssr-06", "/hex") => found(inside("0x7f.1", "/")),
        ("ssr-06", "/octal") => found(inside("0177.0.0.1", "/")),
        ("ssr-06", "/short") => found(inside("127.1", "/")),
        ("ssr-06", "/wide") => found(inside("１２７.0.0.1", "/")),
        ("ssr-06", "/zero") => found(inside("0", "/")),
        ("ssr-08", "/links") => {
            page(links("ports", PORTS.iter().map(|port| format!("http://good.hostile.test:{port}/"))))
        }
        ("ssr-08", path) => {
            let port = PORTS.iter().find(|port| path.trim_start_matches('/') == **port)?;
            found(format!("http://good.hostile.test:{port}/"))
        }
        ("ssr-10", "/cr") => found("/a%0d%0aX-Injected:%20yes".to_owned()),
        ("ssr-10", "/raw") => found("/a\rX-Injected: yes\tb".to_owned()),
        ("ssr-10", "/space") => found("/a HTTP/1.1 X-Injected: yes".to_owned()),
        ("ssr-10", "/links") => page(links(
            "injection",
            [
                "/b\r\nX-Injected: yes\r\n\r\n",
                "http://good.hostile.test\r\nSET x 1/",
                "/%0d%0aPUB x 1",
                "/c d",
            ],
        )),
        ("ssr-14", "/links") => page(links("schemes", OUTSIDE)),
        ("ssr-14", "/feed") => feed(OUTSIDE),
        ("ssr-14", "/sitemap.xml") => sitemap(OUTSIDE),
        ("ssr-17", "/links") => {
            page(links("literals", [inside("127.0.0.1", "/secret"), inside("[::1]", "/secret")]))
        }
        ("ssr-01" | "ssr-02" | "ssr-03" | "ssr-13" | "ssr-16", _) | ("ssr-10", _) => {
            page(format!("<p>this is {}</p>", conn.local))
        }
        _ => return None,
    })
}

/// Every kind of fetch a crawler makes, each led inside.
fn everywhere(path: &str, inside: &str) -> Option<Vec<u8>> {
    Some(match path {
        "/robots.txt" | "/sitemap.xml" | "/favicon.ico" | "/license.xml" => redirect("302 Found", inside),
        "/.well-known/http-message-signatures-directory" => redirect("302 Found", inside),
        "/sitemap-index.xml" => response(
            "200 OK",
            "Content-Type: application/xml\r\n",
            format!(
                "<?xml version=\"1.0\"?><sitemapindex xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\
                 <sitemap><loc>{inside}</loc></sitemap></sitemapindex>"
            ),
        ),
        "/feed" => feed(&[inside]),
        "/page" => page(format!(
            "<html><head><link rel=alternate type=application/rss+xml href=\"{inside}\"><link rel=icon href=\"{inside}\">\
             <link rel=license href=\"{inside}\"><link rel=canonical href=\"{inside}\"></head>\
             <body><a href=\"{inside}\">in</a><img src=\"{inside}\"></body></html>"
        )),
        _ => return None,
    })
}

fn feed(places: &[&str]) -> Vec<u8> {
    let items: String =
        places.iter().map(|place| format!("<item><title>t</title><link>{place}</link></item>")).collect();
    let text = format!(
        "<?xml version=\"1.0\"?><rss version=\"2.0\"><channel><title>f</title>{items}</channel></rss>"
    );
    response("200 OK", "Content-Type: application/rss+xml\r\n", text)
}

fn sitemap(places: &[&str]) -> Vec<u8> {
    let entries: String = places.iter().map(|place| format!("<url><loc>{place}</loc></url>")).collect();
    let text = format!(
        "<?xml version=\"1.0\"?><urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">{entries}</urlset>"
    );
    response("200 OK", "Content-Type: application/xml\r\n", text)
}
