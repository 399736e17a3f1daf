//! URL-01 to URL-18: pages that link to the awkward spellings, so that a crawl meets them as hrefs.
//!
//! The rules themselves are unit tests where URLs are parsed; URL-18 is the one row where the server decides.

use std::io;

use super::Case;
use super::conn::{Conn, Head, Next, links, not_found, page};

const LINKS: &[(&str, &str)] = &[("/links", "a page whose hrefs are the spellings of the row")];

pub(super) const CASES: &[Case] = &[
    Case::http("url-01", LINKS),
    Case::http("url-02", LINKS),
    Case::http("url-03", LINKS),
    Case::http("url-04", LINKS),
    Case::http("url-05", LINKS),
    Case::http("url-06", LINKS),
    Case::http("url-07", LINKS),
    Case::http("url-08", LINKS),
    Case::http("url-09", LINKS),
    Case::http("url-10", LINKS),
    Case::http("url-11", LINKS),
    Case::http("url-12", LINKS),
    Case::http("url-15", LINKS),
    Case::http("url-16", LINKS),
    Case::http("url-17", LINKS),
    Case::http(
        "url-18",
        &[
            ("/links", "links to all of the below"),
            ("/Case", "one page"),
            ("/case", "another page"),
            ("/a/b", "one page"),
            ("//a//b", "another page"),
            ("/a/b/", "a third page"),
        ],
    ),
];

pub(super) async fn answer(conn: &mut Conn, head: &Head) -> io::Result<Next> {
    let bytes = match (conn.id(), head.path.as_str()) {
        (id, "/links") => page(links(id, hrefs(id))),
        // The page echoes the requested path literally.
        ("url-18", path) => page(format!("<p>this is exactly {path}</p>")),
        ("url-10" | "url-11" | "url-12" | "url-15" | "url-16", path) => {
            page(format!("<p>asked for {path}</p>"))
        }
        _ => not_found(),
    };
    conn.send(bytes).await?;
    Ok(Next::Keep)
}

/// The hrefs of a row. They stand in double quotes in the page, so none contains one.
fn hrefs(id: &str) -> Vec<String> {
    let fixed: &[&str] = match id {
        "url-01" => {
            &["http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/", "http://0/"]
        }
        "url-02" => &[
            "http://①②⑦.⓪.⓪.①/",
            "http://127。0。0。1/",
            "http://１２７.0.0.1/",
            "http://ｅｘａｍｐｌｅ.test/",
        ],
        "url-03" => &[
            "http://[::ffff:127.0.0.1]/",
            "http://[::127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[fe80::1%25eth0]/",
        ],
        "url-04" => &[
            "http://user:pass@good.hostile.test/page",
            "http://user@evil@good.hostile.test/page",
            "http://good.hostile.test\\@inside.hostile.test/",
            "http://good.hostile.test#@inside.hostile.test/",
        ],
        "url-05" => {
            &["http://good.hostile.test;user@inside.hostile.test/", "http://a;b:c@good.hostile.test/page"]
        }
        "url-06" => {
            &["http://g%6Fod.hostile.test/page", "http://good%2fevil.hostile.test/", "http://%00.test/"]
        }
        "url-07" => &[
            "http://good.hostile.test:80/page",
            "http://good.hostile.test:443/page",
            "http://good.hostile.test:/page",
            "http://good.hostile.test:0/page",
            "http://good.hostile.test:99999/page",
            "http://good.hostile.test:22/page",
            "http://good.hostile.test:25/page",
        ],
        "url-08" => &[
            "http://good.hostile.test./page",
            "http://GOOD.Hostile.TEST/page",
            "http://xn--bcher-kva.hostile.test/",
            "http://bücher.hostile.test/",
            "http://xn--example-/",
        ],
        "url-09" => &[
            "http://faß.test/",
            "http://fass.test/",
            "http://☃.test/",
            "http://אב1.test/",
            "http://1אב.test/",
        ],
        "url-10" => &["/a\tb", "/a\nb", "   /leading", "/nul\0byte", "/lone%", "/bad%zz", "/wide%u0041"],
        "url-11" => &["/a/../b", "/%2e%2e/b", "//url-11.hostile.test//b", "/a/./b", "../../../c", "/x//y"],
        "url-12" => &[
            "?x=1",
            "#fragment",
            "",
            "?",
            "//good.hostile.test/page",
            "http:relative",
            "http://good.hostile.test?x=1",
        ],
        "url-16" => &["#!/x", "/app#!/route/1", "/app#/route/2"],
        "url-17" => &[
            "javascript:alert(1)",
            "mailto:a@b.test",
            "tel:+123",
            "data:text/html,x",
            "blob:http://a/1",
            "about:blank",
            "intent:x#Intent;end",
            "magnet:?xt=urn:x",
        ],
        "url-18" => &["/Case", "/case", "/a/b", "/.//a//b", "/a/b/"],
        _ => &[],
    };
    if id == "url-15" {
        let parameters: String = (0..5_000).map(|n| format!("p{n}={n}&amp;")).collect();
        return vec![
            format!("/{}", "l".repeat(100_000)),
            "/s".repeat(10_000),
            format!("/q?{parameters}"),
            "/short".to_owned(),
        ];
    }
    fixed.iter().map(|href| (*href).to_owned()).collect()
}
