//! Browsing an archive: captured pages as they were, in a browser.
//!
//! ReplayWeb.page rewrites captures in the browser; it is a program of others (AGPL), of which the user supplies one file,
//! its service worker. Two origins take part. The origin of the archive ([`Browse`]) has a page without any script, and in
//! this page a frame of the other origin. That origin ([`Replay`]), a port of its own, has no API: a page that starts the
//! service worker, the captures, and whatever the scripts of captured pages do.
//!
//! Invariants: scripts of captured pages run on the second origin only. The frame is a sandbox that cannot navigate the page
//! around it or open windows, and that page is of another origin, so it cannot be changed from within. The service worker
//! connects to its own origin only ([`WORKER_POLICY`]), and so do replayed pages ([`REPLAYED_POLICY`]): every answer of that
//! origin has a policy.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};
use nephila_core::text;
use nephila_store::captures::Query;

use super::{PREFIX, ReadOnly, answer};
use crate::captures::Archive;
use crate::problem::{HttpAnswer, problem, reply};
use crate::question::{HttpQuestion, escaped};
use crate::routes::{Answers, Routes};

/// Path of the pages for people, on the origin of the archive.
pub(super) const PATH: &str = "/replay";
/// Policy of the service worker.
const WORKER_POLICY: &str = "default-src 'none'; script-src 'self' 'unsafe-eval'; connect-src 'self'";
/// Policy of replayed pages, apart from the pages that may have them in a frame.
const REPLAYED_POLICY: &str = "default-src 'unsafe-eval' 'unsafe-inline' 'self' data: blob: mediastream:; \
                               connect-src 'self' data: blob:; form-action 'self'; base-uri 'self'";
/// What the frame of the other origin may do.
const SANDBOX: &str = "allow-scripts allow-same-origin allow-forms";
/// The file of ReplayWeb.page.
const WORKER: &str = "sw.js";
/// The path of this file; its scope is the folder.
const WORKER_PATH: &str = "/replay/sw.js";
/// Maximum size of this file in bytes.
const WORKER_BYTES_MAX: u64 = 32 << 20;
/// Our script before it.
const GUARD: &str = include_str!("guard.js");
/// The script of the page that starts it.
const SCRIPT: &str = include_str!("replay.js");
/// Maximum number of pages in the list.
const LISTED_MAX: usize = 200;
/// Maximum number of index lines that are read for the list.
const LINES_MAX: usize = 20_000;

/// The pages for people.
#[derive(Clone, Debug)]
pub struct Browse {
    /// Address of the other origin.
    pub replay: SocketAddr,
}

impl Browse {
    /// Answers a request for [`PATH`].
    pub(super) async fn answer(&self, asked: &HttpQuestion, archive: &Archive) -> HttpAnswer {
        match asked.parameter("url").filter(|url| !url.is_empty()) {
            Some(url) => self.frame(&url, &asked.parameter("at").unwrap_or_default()),
            None => self.list(archive).await,
        }
    }

    /// The list of pages.
    async fn list(&self, archive: &Archive) -> HttpAnswer {
        let found = archive.read(|captures| {
            let mut pages = Vec::new();
            for line in captures.find(&Query::parse("*"))?.take(LINES_MAX) {
                let capture = line?.capture;
                let is_html = capture.mime.as_deref().is_some_and(|mime| mime.contains("html"));
                if is_html && capture.status.as_deref().is_none_or(|status| status == "200") {
                    pages.push((capture.url, capture.digits14));
                }
                if pages.len() == LISTED_MAX {
                    break;
                }
            }
            Ok(pages)
        });
        let pages = match found.await {
            Ok(pages) => pages,
            Err(instead) => return *instead,
        };
        let item = |(url, at): &(String, String)| {
            let target = format!("{PATH}?url={}&amp;at={at}", escaped(url));
            format!("<li><a href=\"{target}\">{}</a> {at}</li>\n", text::escaped(url))
        };
        let items: String = pages.iter().map(item).collect();
        let body = format!(
            "<form action=\"{PATH}\"><label>Address <input name=\"url\" size=\"80\"></label> <button>Replay</button></form>\n\
             <p>The first pages of the archive:</p>\n<ul>\n{items}</ul>\n"
        );
        self.page("Archive", &body)
    }

    /// The page around a replayed one.
    fn frame(&self, url: &str, at: &str) -> HttpAnswer {
        let target = format!("http://{}/?url={}&amp;at={}", self.replay, escaped(url), escaped(at));
        let body = format!(
            "<p><a href=\"{PATH}\">Archive</a> {} {}</p>\n<iframe sandbox=\"{SANDBOX}\" src=\"{target}\"></iframe>\n",
            text::escaped(url),
            text::escaped(at)
        );
        self.page(url, &body)
    }

    fn page(&self, title: &str, body: &str) -> HttpAnswer {
        let policy = format!(
            "default-src 'none'; style-src 'unsafe-inline'; frame-src http://{}; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'none'",
            self.replay
        );
        page(title, body, &policy)
    }
}

/// The other origin.
#[derive(Debug)]
pub struct Replay {
    archive: ReadOnly,
    /// Our script, and the service worker.
    worker: Bytes,
    /// Policy of replayed pages.
    policy: String,
    /// Address of the archive, whose pages have this one in a frame.
    around: SocketAddr,
}

impl Replay {
    /// Reads the service worker of ReplayWeb.page from a folder.
    pub fn new(archive: ReadOnly, folder: &Path, around: SocketAddr) -> anyhow::Result<Replay> {
        let path = folder.join(WORKER);
        let hint =
            || format!("{}: put {WORKER} of ReplayWeb.page there (npm pack replaywebpage)", path.display());
        let length = path.metadata().with_context(hint)?.len();
        ensure!(length <= WORKER_BYTES_MAX, "{} is larger than {WORKER_BYTES_MAX} bytes", path.display());
        let policy = format!("{REPLAYED_POLICY}; frame-ancestors 'self' http://{around}");
        let mut worker = GUARD.replace("\"POLICY\"", &serde_json::to_string(&policy)?).into_bytes();
        worker.extend(std::fs::read(&path).with_context(hint)?);
        Ok(Replay { archive, worker: worker.into(), policy, around })
    }

    /// The page that starts the service worker.
    fn start(&self, url: &str, at: &str) -> HttpAnswer {
        let body = format!(
            "<output>The page is being replayed …</output>\n\
             <iframe data-url=\"{}\" data-at=\"{}\" data-policy=\"{}\"></iframe>\n<script src=\"/replay.js\"></script>\n",
            text::escaped(url),
            text::escaped(at),
            text::escaped(&self.policy)
        );
        let policy = format!(
            "default-src 'none'; script-src 'self'; worker-src 'self'; connect-src 'self'; frame-src 'self'; \
             style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors http://{}",
            self.around
        );
        page(url, &body, &policy)
    }
}

/// This origin has no API.
static ROUTES: LazyLock<Routes<Replay>> = LazyLock::new(|| Routes::new("Nephila, replay", []));

impl Answers for Replay {
    fn routes() -> &'static Routes<Replay> {
        &ROUTES
    }

    async fn answer(&self, asked: HttpQuestion) -> HttpAnswer {
        let mut answer = self.route(asked).await;
        // A document without a policy, such as an error, could be used to reach elsewhere.
        let policy = HeaderValue::from_static(super::POLICY);
        answer.headers_mut().entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
        answer
    }
}

impl Replay {
    async fn route(&self, asked: HttpQuestion) -> HttpAnswer {
        if asked.path.starts_with(PREFIX) {
            return answer(&asked, &self.archive.archive, &self.archive).await;
        }
        if asked.method != Method::GET && asked.method != Method::HEAD {
            return problem(StatusCode::METHOD_NOT_ALLOWED, "method not allowed", "only GET is answered");
        }
        // No other script of this origin, captured or ours, becomes a service worker.
        if asked.headers.contains_key("service-worker") && asked.path != WORKER_PATH {
            let detail = "only the script of ReplayWeb.page is the service worker here";
            return problem(StatusCode::FORBIDDEN, "forbidden for service workers", detail);
        }
        match (&*asked.path, asked.parameter("url")) {
            ("/", Some(url)) => self.start(&url, &asked.parameter("at").unwrap_or_default()),
            ("/", None) => {
                let detail = format!("browse the archive at http://{}{PATH}", self.around);
                problem(StatusCode::NOT_FOUND, "not found", detail)
            }
            ("/replay.js", _) => script(SCRIPT.into(), WORKER_POLICY),
            // Another query would make another worker of the same script.
            (WORKER_PATH, _) if asked.target == WORKER_PATH => script(self.worker.clone(), WORKER_POLICY),
            (path, _) => {
                let detail = format!("{path}: below /replay/ the service worker of ReplayWeb.page answers");
                problem(StatusCode::NOT_FOUND, "not found", detail)
            }
        }
    }
}

/// A page of this module.
fn page(title: &str, body: &str, policy: &str) -> HttpAnswer {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\n<style>\n\
         html, body {{ height: 100%; margin: 0; font-family: sans-serif }}\nbody {{ display: flex; flex-direction: column }}\n\
         form, p, ul {{ margin: 0.5em 1em }}\niframe {{ flex: 1; border: 0 }}\n</style></head>\n<body>\n{body}</body></html>\n",
        text::escaped(title)
    );
    with_policy(reply(StatusCode::OK, "text/html; charset=utf-8", html), policy)
}

fn script(bytes: Bytes, policy: &str) -> HttpAnswer {
    with_policy(reply(StatusCode::OK, "text/javascript; charset=utf-8", bytes), policy)
}

fn with_policy(mut answer: HttpAnswer, policy: &str) -> HttpAnswer {
    let fields = answer.headers_mut();
    let policy = HeaderValue::from_str(policy).expect("policies are plain text");
    fields.insert(header::CONTENT_SECURITY_POLICY, policy);
    fields.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    answer
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http_body_util::BodyExt as _;

    use super::*;

    async fn get(answers: &impl Answers, target: &str) -> (u16, String, String) {
        get_with(answers, target, HeaderMap::new()).await
    }

    async fn get_with(answers: &impl Answers, target: &str, headers: HeaderMap) -> (u16, String, String) {
        let asked = HttpQuestion::new(Method::GET, target, headers, false);
        let (head, body) = answers.answer(asked).await.into_parts();
        let policy =
            head.headers.get("content-security-policy").map(|policy| policy.to_str().unwrap().to_owned());
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        (head.status.as_u16(), policy.unwrap_or_default(), body)
    }

    #[tokio::test]
    async fn pages_of_the_archive_have_no_script_and_names_are_text() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("archive")).unwrap();
        std::fs::write(
            dir.path().join("archive/x.cdxj"),
            "test,a)/ 20261114225809 {\"url\": \"http://a.test/?<b>\", \"mime\": \"text/html\", \"status\": \"200\", \
             \"length\": \"1\", \"offset\": \"0\", \"filename\": \"x.warc\"}\n",
        )
        .unwrap();
        let replay: SocketAddr = "127.0.0.1:6375".parse().unwrap();
        let browse = ReadOnly::new(dir.path(), "here").with_replay(Browse { replay });
        let (status, policy, body) = get(&browse, "/replay").await;
        assert_eq!(status, 200);
        assert!(body.contains("http://a.test/?&lt;b&gt;") && !body.contains("<b>"), "{body}");
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("script-src"), "{policy}");
        let (_, policy, body) =
            get(&browse, "/replay?url=http%3A%2F%2Fa.test%2F%22%3E%3Cscript%3E&at=2026").await;
        assert!(
            !body.contains("<script")
                && body.contains("sandbox=\"allow-scripts allow-same-origin allow-forms\"")
        );
        assert!(policy.contains("frame-src http://127.0.0.1:6375;"), "{policy}");
        let no_time = get(&browse, "/replay?url=http%3A%2F%2Fa.test%2F&at=2026%22").await;
        assert_eq!(no_time.0, 400, "a time has digits alone: {no_time:?}");
        assert_eq!(get(&ReadOnly::new(dir.path(), "here"), "/replay").await.0, 404, "only if asked for");
    }

    #[tokio::test]
    async fn the_other_origin_has_captures_and_no_api() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("archive")).unwrap();
        let around: SocketAddr = "127.0.0.1:6374".parse().unwrap();
        let missing = Replay::new(ReadOnly::new(dir.path(), "here"), dir.path(), around).unwrap_err();
        assert!(format!("{missing:#}").contains("sw.js of ReplayWeb.page"), "{missing:#}");
        std::fs::write(dir.path().join("sw.js"), "worker").unwrap();
        let replay = Replay::new(ReadOnly::new(dir.path(), "here"), dir.path(), around).unwrap();
        let (status, policy, body) = get(&replay, "/?url=http://a.test/%22%3Cb%3E&at=2026").await;
        assert!(status == 200 && body.contains("data-url=\"http://a.test/&quot;&lt;b&gt;\""), "{body}");
        assert!(policy.contains("frame-ancestors http://127.0.0.1:6374"), "{policy}");
        let worker = get(&replay, "/replay/sw.js").await.2;
        assert!(
            worker.ends_with("worker") && worker.contains("const policy = \"default-src 'unsafe-eval'"),
            "{worker}"
        );
        assert!(body.contains("frame-ancestors &#39;self&#39; http://127.0.0.1:6374\""), "{body}");
        assert_eq!(get(&replay, "/replay/sw.js?x").await.0, 404);
        let as_worker = HeaderMap::from_iter([(
            header::HeaderName::from_static("service-worker"),
            HeaderValue::from_static("script"),
        )]);
        assert_eq!(get_with(&replay, "/replay/sw.js", as_worker.clone()).await.0, 200);
        for path in ["/replay.js", "/", "/web/2026id_/http://a.test/evil.js"] {
            assert_eq!(get_with(&replay, path, as_worker.clone()).await.0, 403, "{path}");
        }
        assert_eq!(get(&replay, "/web/cdx?url=*").await.0, 404, "no capture");
        for path in ["/api/v1/pages?url=http://a.test/", "/api/v1/stats", "/metrics", "/replay", "/"] {
            let (status, policy, _) = get(&replay, path).await;
            assert_eq!((status, &*policy), (404, crate::web::POLICY), "{path}");
        }
    }
}
