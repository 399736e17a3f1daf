//! The dashboard: files that are part of the program, under `/` and `/ui/`.
//!
//! The files hold no data, so they need no token: a page asks for a token and begins a session (`session`).
//!
//! Invariants: a page loads nothing from elsewhere and runs no script but ours ([`POLICY`]); a browser keeps no page, and
//! asks for a script or a style sheet again only if the file has changed (`ETag`).

mod assets;

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use http::StatusCode;
use http::header::{self, HeaderValue};

use super::operation::{Operation, get, part};
use super::problem::{HttpAnswer, problem, reply};
use super::question::HttpQuestion;
use super::routes::{Route, route};
use assets::ASSETS;

/// Content security policy of the pages.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                          frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/// Name of the first page.
const INDEX: &str = "index.html";

/// `GET /`.
pub static HOME: Operation = get("getDashboard", "/", "The dashboard, for a browser.")
    .tag("dashboard")
    .open()
    .gives_text(&["text/html"]);
/// `GET /ui/{file}`.
pub static FILE: Operation = get("getDashboardFile", "/ui/{file}", "A file of the dashboard.")
    .tag("dashboard")
    .open()
    .with(&[part("file", "Name of the file.")])
    .gives_text(&["text/html", "text/javascript", "text/css", "image/svg+xml", "text/plain"])
    .or(&[(304, "The file has not changed since `If-None-Match`.")]);

/// The bytes of a file.
struct Asset {
    name: &'static str,
    bytes: &'static [u8],
}

/// Entity tags of the files, in their order.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tag = |asset: &Asset| {
        let sum = digest(&SHA256, asset.bytes);
        format!("\"{}\"", BASE64URL_NOPAD.encode(&sum.as_ref()[..12]))
    };
    ASSETS.iter().map(tag).collect()
});

/// The operations of a server of any kind.
pub fn routes<H: Sync>() -> [Route<H>; 2] {
    [
        route(&HOME, |_, asked| Box::pin(async move { file(INDEX, &asked) })),
        route(&FILE, |_, asked| Box::pin(async move { file(asked.part("file"), &asked) })),
    ]
}

/// Content type of a file, by the end of its name.
fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

/// A file of the dashboard.
pub(super) fn file(name: &str, asked: &HttpQuestion) -> HttpAnswer {
    let Some(index) = ASSETS.iter().position(|asset| asset.name == name) else {
        return problem(StatusCode::NOT_FOUND, "not found", format!("{name}: the dashboard begins at /"));
    };
    let (asset, tag) = (&ASSETS[index], &TAGS[index]);
    let known = asked.field(header::IF_NONE_MATCH.as_str()).unwrap_or_default();
    let is_known = known.split(',').any(|known| known.trim() == tag);
    let mut answer = match is_known {
        true => reply(StatusCode::NOT_MODIFIED, content_type(name), Bytes::new()),
        false => reply(StatusCode::OK, content_type(name), Bytes::from_static(asset.bytes)),
    };
    let cache = if name.ends_with(".html") { "no-store" } else { "no-cache" };
    let tag = HeaderValue::from_str(tag).expect("it is base64");
    let fields = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static(cache)),
        (header::ETAG, tag),
    ] {
        fields.insert(name, value);
    }
    fields.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    fields.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    answer
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;

    fn get_with(name: &str, known: Option<&HeaderValue>) -> HttpAnswer {
        let known = known.map(|known| (header::IF_NONE_MATCH, known.clone()));
        let asked = HttpQuestion::new(Method::GET, "/", HeaderMap::from_iter(known), false);
        file(name, &asked)
    }

    #[test]
    fn each_file_has_its_policy_and_its_type_and_is_sent_once() {
        for asset in ASSETS {
            let answer = get_with(asset.name, None);
            assert_eq!(answer.status(), 200, "{}", asset.name);
            let fields = answer.headers();
            assert_eq!(fields["content-security-policy"], POLICY);
            assert_eq!(fields["x-content-type-options"], "nosniff");
            let is_page = asset.name.ends_with(".html");
            assert_eq!(fields["cache-control"] == "no-store", is_page, "{}", asset.name);
            let again = get_with(asset.name, Some(&fields["etag"]));
            assert_eq!(again.status(), 304, "{}", asset.name);
            assert_eq!(get_with(asset.name, Some(&HeaderValue::from_static("\"x\""))).status(), 200);
        }
        assert_eq!(get_with("../Cargo.toml", None).status(), 404);
    }

    #[test]
    fn no_file_is_listed_twice_or_names_another_origin_or_has_a_script_within() {
        let mut names: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ASSETS.len());
        assert!(names.contains(&INDEX));
        for asset in ASSETS.iter().filter(|asset| asset.name.ends_with(".html")) {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for part in text.split("<script").skip(1) {
                let source = part.split('>').next().unwrap().split("src=\"").nth(1).unwrap_or_default();
                let source = source.trim_start_matches("../").trim_start_matches('/');
                assert!(source.starts_with("ui/"), "{}: {part}", asset.name);
            }
            for other in ["src=\"http", "src=\"//", "style=\"", " onclick="] {
                assert!(!text.contains(other), "{}: {other}", asset.name);
            }
        }
    }
}
