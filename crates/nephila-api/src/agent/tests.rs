//! Scrapes, maps and crawls over a server whose answers are written down here.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::*;
use crate::client::{NoAnswer, Question, Reply};

const PAGE: &str = "http://a.test/page";

/// Status, fields and body.
type Told = (u16, HeaderMap, Bytes);

/// Answers by the beginning of the target; of several answers, each once, the last one for ever.
#[derive(Default)]
struct Fake {
    answers: Mutex<HashMap<String, Vec<Told>>>,
    asked: Mutex<Vec<String>>,
    /// Duration of each answer.
    slow: Duration,
}

impl Fake {
    fn put(&self, target: &str, status: u16, fields: &[(&'static str, &str)], body: impl Into<Bytes>) {
        let fields = fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
        let answer = (status, fields.collect(), body.into());
        self.answers.lock().unwrap().entry(target.to_owned()).or_default().push(answer);
    }

    fn json(&self, target: &str, status: u16, body: &Value) {
        self.put(target, status, &[], body.to_string());
    }

    fn explain(&self, summary: &str, last: Option<(u16, &str)>) {
        let at = nephila_core::time::Timestamp(super::scrape::now().0).warc_date();
        let mut said =
            json!({"url": PAGE, "summary": summary, "because": format!("it is {summary}"), "retries": 0});
        if let Some((status, outcome)) = last {
            said["last"] = json!({"at": at, "outcome": outcome, "meaning": "so it is", "status": status});
        }
        self.json("GET /api/v1/explain", 200, &said);
    }

    fn capture(&self, url: &str, at: &str, http: &str) {
        let fields = [("nephila-captured", at), ("nephila-url", url)];
        self.put("GET /api/v1/pages?as=http", 200, &fields, http.to_owned());
    }

    fn asked(&self, part: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| asked.contains(part)).count()
    }
}

impl Ask for Fake {
    async fn ask(&self, question: Question) -> Result<Reply, NoAnswer> {
        if !self.slow.is_zero() {
            tokio::time::sleep(self.slow).await;
        }
        let asked = format!("{} {}", question.method, question.target);
        self.asked.lock().unwrap().push(format!("{asked} {}", String::from_utf8_lossy(&question.body)));
        let mut answers = self.answers.lock().unwrap();
        // The longest beginning that is known.
        let known = answers.iter_mut().filter(|(target, _)| asked.starts_with(&**target));
        let found = known.max_by_key(|(target, _)| target.len()).map(|(_, answers)| match answers.len() {
            1 => answers[0].clone(),
            _ => answers.remove(0),
        });
        let (status, headers, body) = found.unwrap_or_else(|| (404, HeaderMap::new(), Bytes::new()));
        Ok(Reply { status: StatusCode::from_u16(status).unwrap(), headers, body })
    }
}

fn now14() -> String {
    let at = nephila_core::time::Timestamp(super::scrape::now().0).warc_date();
    at.chars().filter(char::is_ascii_digit).take(14).collect()
}

fn html(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{body}")
}

/// A server that takes URLs, and has the job of single pages.
fn server() -> Fake {
    let fake = Fake::default();
    fake.json("GET /api/v1/jobs/agent", 200, &json!({}));
    fake.json("POST /api/v1/urls", 200, &json!({"taken": 1, "refused": 0}));
    fake
}

#[tokio::test]
async fn a_young_capture_is_given_without_a_request_to_the_site() {
    let fake = server();
    fake.json("GET /api/v1/pages?as=json", 200, &json!({"timestamp": now14()}));
    let text =
        "A sentence that is long enough to be the main text of this page, as far as anybody can tell. "
            .repeat(3);
    let page = format!(
        "<html lang=en><head><title>Title</title><meta name=description content='What it is'></head><body>\
         <article><h1>Head</h1><p>{text}<a href='/x?a=1&amp;b=2'>there</a> <a href='javascript:alert(1)'>no</a>\
         <script>alert(2)</script><img src=/i.png></p></article></body></html>"
    );
    fake.capture(PAGE, &now14(), &html(&page));
    let wants = Wants { html: true, links: true, images: true, only_main: false, ..Wants::default() };
    let options = ScrapeOptions { wants, ..ScrapeOptions::default() };
    let found = scrape(&fake, PAGE, &options).await.unwrap();
    assert_eq!(fake.asked("POST"), 0);
    assert_eq!((found.status, &*found.title, &*found.description), (200, "Title", "What it is"), "{found:?}");
    assert_eq!((found.cached, &*found.url, &*found.language), (true, PAGE, "en"));
    assert_eq!(found.links.unwrap(), ["http://a.test/x?a=1&b=2"]);
    assert_eq!(found.images.unwrap(), ["http://a.test/i.png"]);
    let markdown = found.markdown.unwrap();
    assert!(markdown.contains("[there](http://a.test/x?a=1&b=2)"), "{markdown}");
    for hostile in ["javascript:", "alert(2)", "<script"] {
        assert!(!markdown.contains(hostile) && !found.html.as_ref().unwrap().contains(hostile), "{hostile}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_not_there_is_added_and_awaited() {
    let fake = Fake::default();
    fake.json("POST /api/v1/jobs", 201, &json!({"id": 2}));
    fake.json("POST /api/v1/urls", 200, &json!({"taken": 1, "refused": 0}));
    for summary in ["unknown", "unknown", "queued", "fetching"] {
        fake.explain(summary, None);
    }
    fake.explain("fetched", Some((200, "ok")));
    fake.capture(PAGE, &now14(), &html("<title>T</title>short"));
    let found = scrape(&fake, PAGE, &ScrapeOptions::default()).await.unwrap();
    assert!(!found.cached && found.markdown.unwrap().contains("short"));
    assert_eq!(fake.asked("POST /api/v1/jobs {"), 1, "a missing job is made");
    assert_eq!(fake.asked("\"depth_max\":0"), 1, "no link of a single page is followed");
    assert_eq!(fake.asked("POST /api/v1/urls?job=agent"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_fetched_says_why() {
    for (summary, last, kind, code) in [
        ("robots", None, Kind::Forbidden, "SCRAPE_ROBOTS_DENIED"),
        ("out-of-scope", None, Kind::Forbidden, "SCRAPE_OUT_OF_SCOPE"),
        ("trap", None, Kind::Forbidden, "SCRAPE_TRAP"),
        ("queued", None, Kind::Timeout, "SCRAPE_TIMEOUT"),
        ("failed", Some((0, "dns-nxdomain")), Kind::Site, "SCRAPE_DNS_RESOLUTION_ERROR"),
        ("queued", Some((0, "connect-refused")), Kind::Site, "SCRAPE_SITE_ERROR"),
    ] {
        let fake = server();
        fake.explain("unknown", None);
        fake.explain(summary, last);
        let failure = scrape(&fake, PAGE, &ScrapeOptions::default()).await.unwrap_err();
        assert_eq!((failure.kind, failure.code), (kind, Some(code)), "{failure}");
        assert!(failure.message.contains(PAGE), "{failure}");
    }
    let fake = server();
    fake.answers.lock().unwrap().remove("POST /api/v1/urls");
    fake.explain("unknown", None);
    let refused =
        json!({"taken": 0, "refused": 1, "refusals": [{"url": PAGE, "why": "127.0.0.1 is private"}]});
    fake.json("POST /api/v1/urls", 200, &refused);
    let failure = scrape(&fake, PAGE, &ScrapeOptions::default()).await.unwrap_err();
    assert!(failure.kind == Kind::Forbidden && failure.message.contains("is private"), "{failure}");
    let failure = scrape(&fake, "mailto:a@b.test", &ScrapeOptions::default()).await.unwrap_err();
    assert_eq!(failure.kind, Kind::Wrong);
}

#[tokio::test(start_paused = true)]
async fn a_url_that_has_not_reached_its_partition_is_awaited() {
    for on_its_way in ["out-of-scope", "trap"] {
        let fake = server();
        fake.explain("unknown", None);
        fake.explain(on_its_way, None);
        fake.explain(on_its_way, None);
        fake.explain("fetched", Some((200, "ok")));
        fake.capture(PAGE, &now14(), &html("<p>word"));
        let found = scrape(&fake, PAGE, &ScrapeOptions::default()).await.unwrap();
        assert_eq!(found.status, 200, "{on_its_way}");
    }
    let fake = server();
    fake.explain("unknown", None);
    let known = json!({"url": PAGE, "summary": "out-of-scope", "because": "exclude", "found": "2026-11-18T00:00:00Z"});
    fake.json("GET /api/v1/explain", 200, &known);
    let failure = scrape(&fake, PAGE, &ScrapeOptions::default()).await.unwrap_err();
    assert_eq!((failure.code, fake.asked("explain")), (Some("SCRAPE_OUT_OF_SCOPE"), 2), "known, so at once");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_failed_is_awaited_or_says_how_where_it_is_not_asked_for_again_at_once() {
    let cluster = || {
        let fake = server();
        fake.answers.lock().unwrap().remove("POST /api/v1/urls");
        let why = "in a cluster a known URL is fetched again by the schedule of its job";
        let refused = json!({"taken": 0, "refused": 1, "refusals": [{"url": PAGE, "why": why}]});
        fake.json("POST /api/v1/urls", 200, &refused);
        fake
    };
    let failed_before = |summary: &str, more: &Value| {
        let last = json!({"at": "2020-01-01T00:00:00Z", "outcome": "connect-refused", "meaning": "so it is"});
        let mut said = json!({"url": PAGE, "summary": summary, "because": "so", "last": last});
        said.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        said
    };
    let soon = json!({"next": "2099-01-01T00:00:00Z", "expected_s": 5});
    for waits in [json!({}), soon] {
        let fake = cluster();
        fake.json("GET /api/v1/explain", 200, &failed_before("queued", &waits));
        fake.explain("fetched", Some((200, "ok")));
        fake.capture(PAGE, &now14(), &html("<p>word"));
        assert_eq!(scrape(&fake, PAGE, &ScrapeOptions::default()).await.unwrap().status, 200, "{waits}");
    }
    let later = json!({"next": "2099-01-01T00:00:00Z", "expected_s": 3_600});
    for (summary, more, part) in
        [("failed", json!({}), "in a cluster"), ("queued", later, "tried again at 2099-01-01")]
    {
        let fake = cluster();
        fake.json("GET /api/v1/explain", 200, &failed_before(summary, &more));
        let failure = scrape(&fake, PAGE, &ScrapeOptions::default()).await.unwrap_err();
        assert_eq!((failure.kind, failure.code), (Kind::Site, Some("SCRAPE_SITE_ERROR")), "{failure}");
        assert!(failure.message.contains("connect-refused") && failure.message.contains(part), "{failure}");
        assert_eq!(fake.asked("explain"), 1, "nothing is awaited");
    }
}

#[tokio::test]
async fn a_job_that_cannot_be_made_takes_no_url() {
    let fake = Fake::default();
    fake.explain("unknown", None);
    fake.json("POST /api/v1/jobs", 400, &json!({"title": "invalid job", "detail": "1000 jobs run already"}));
    fake.json("POST /api/v1/urls", 200, &json!({"taken": 1, "refused": 0}));
    let failure = scrape(&fake, PAGE, &ScrapeOptions::default()).await.unwrap_err();
    assert!(failure.kind == Kind::Wrong && failure.message.contains("1000 jobs"), "{failure}");
    assert_eq!(fake.asked("POST /api/v1/urls"), 0);
}

#[tokio::test]
async fn a_redirect_is_followed_and_an_endless_one_is_not() {
    let fake = server();
    fake.json("GET /api/v1/pages?as=json", 200, &json!({"timestamp": now14()}));
    let moved = "HTTP/1.1 301 Moved\r\nLocation: /other\r\n\r\n";
    fake.capture(PAGE, &now14(), moved);
    fake.capture("http://a.test/other", &now14(), &html("<p>here"));
    let found = scrape(&fake, PAGE, &ScrapeOptions::default()).await.unwrap();
    assert_eq!((&*found.asked, &*found.url), (PAGE, "http://a.test/other"));
    let fake = server();
    fake.json("GET /api/v1/pages?as=json", 200, &json!({"timestamp": now14()}));
    fake.capture(PAGE, &now14(), moved);
    let failure = scrape(&fake, PAGE, &ScrapeOptions::default()).await.unwrap_err();
    assert!(failure.message.contains("redirects"), "{failure}");
}

#[tokio::test]
async fn a_page_made_to_be_costly_is_read_within_its_bounds() {
    let deep = "<div>".repeat(200_000);
    let links = "<a href='/x'>x</a>".repeat(100_000);
    let coded = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\nno gzip at all";
    for http in [html(&format!("{deep}word")), html(&links), coded.to_owned(), String::new()] {
        let fake = Fake::default();
        fake.capture(PAGE, &now14(), &http);
        let began = std::time::Instant::now();
        let wants = Wants { links: true, html: true, raw_html: true, ..Wants::default() };
        match read(&fake, PAGE, wants, None).await {
            Ok(found) => assert!(found.links.is_none_or(|links| links.len() <= 1)),
            Err(failure) => assert_eq!(failure.kind, Kind::Site, "{failure}"),
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }
    let large = html(&"x".repeat(super::render::BODY_BYTES_MAX + 1));
    let fake = Fake::default();
    fake.capture(PAGE, &now14(), &large);
    assert_eq!(read(&fake, PAGE, Wants::default(), None).await.unwrap_err().kind, Kind::TooLarge);
}

/// A job of a crawl, as a server says it.
fn job(left: u64, pages: u64) -> Value {
    let scope = json!({"kind": "host", "seeds": ["http://a.test/"]});
    json!({
        "job": {"id": 3, "name": "agent-1-1", "scope": scope, "limits": {"pages_max": 100}},
        "progress": {"left": left, "pages": pages, "bytes": 0},
        "seeds": [{"url": "http://a.test/", "state": "fetched"}],
        "more": "is ignored",
    })
}

#[tokio::test]
async fn a_crawl_lists_its_pages_by_time_in_pages_and_no_others() {
    let fake = Fake::default();
    fake.json("GET /api/v1/jobs/agent-1-1", 200, &job(0, 30));
    let line = |number: usize, host: &str, status: u16, mime: &str| {
        let at = format!("202611180000{:02}", 59 - number);
        let status = status.to_string();
        json!({"url": format!("http://{host}/{number}"), "timestamp": at, "status": status, "mime": mime})
            .to_string()
    };
    let mut lines: Vec<String> = (0..30).map(|number| line(number, "a.test", 200, "text/html")).collect();
    lines.push(line(40, "b.test", 200, "text/html"));
    lines.push(line(41, "a.test", 404, "text/html"));
    lines.push(line(42, "a.test", 200, "image/png"));
    fake.put("GET /web/cdx", 200, &[], lines.join("\n"));
    fake.capture("http://a.test/x", "20261118000000", &html("<p>word"));
    let first = crawl_status(&fake, "agent-1-1.m", None).await.unwrap();
    assert_eq!((first.state, first.completed, first.total), (CrawlState::Completed, 30, 30));
    assert_eq!((first.pages.len(), first.next.as_deref()), (25, Some("25")));
    assert_eq!(first.pages[0].asked, "http://a.test/29", "the oldest first");
    let second = crawl_status(&fake, "agent-1-1.m", first.next.as_deref()).await.unwrap();
    assert_eq!((second.pages.len(), second.next), (5, None));
    assert_eq!(second.pages[4].asked, "http://a.test/0");
    assert_eq!(crawl_status(&fake, "agent-1-1.m", Some("x")).await.unwrap_err().kind, Kind::Wrong);
    assert_eq!(crawl_status(&fake, "agent-2-2.m", None).await.unwrap_err().kind, Kind::NotFound);
    fake.json("POST /api/v1/jobs/agent-1-1/stop", 200, &json!({}));
    assert_eq!(crawl_cancel(&fake, "agent-1-1.m").await.unwrap_err().kind, Kind::Conflict);
    assert_eq!(fake.asked("POST /api/v1/jobs/agent-1-1/stop"), 1, "a job that is over is stopped too");
}

/// Lines of the index for pages of `http://a.test/` that were captured at these times.
fn indexed(times: &[String]) -> String {
    let line = |(number, at): (usize, &String)| {
        let url = format!("http://a.test/{number}");
        json!({"url": url, "timestamp": at, "status": "200", "mime": "text/html"}).to_string()
    };
    times.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_crawl_gives_what_it_fetched_before_what_was_there() {
    let fake = Fake::default();
    let mut said = job(0, 2);
    said["job"]["limits"]["pages_max"] = 3.into();
    fake.json("GET /api/v1/jobs/agent-", 200, &said);
    let mut times: Vec<String> = (10..20).map(|second| format!("202001010000{second}")).collect();
    times.extend(["20261118000005".to_owned(), "20261118000009".to_owned()]);
    fake.put("GET /web/cdx", 200, &[], indexed(&times));
    fake.capture("http://a.test/x", "20261118000005", &html("<p>word"));
    let began: jiff::Timestamp = "2026-11-18T00:00:05.700Z".parse().unwrap();
    let id = format!("agent-{:x}-1.m", began.as_millisecond());
    let found = crawl_status(&fake, &id, None).await.unwrap();
    let urls: Vec<&str> = found.pages.iter().map(|page| &*page.asked).collect();
    assert_eq!(urls, ["http://a.test/0", "http://a.test/10", "http://a.test/11"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_a_crawl_comes_in_time_and_leads_on() {
    let fake = Fake { slow: Duration::from_secs(3), ..Fake::default() };
    fake.json("GET /api/v1/jobs/agent-1-1", 200, &job(0, 30));
    let times: Vec<String> = (10..40).map(|second| format!("202611180000{second}")).collect();
    fake.put("GET /web/cdx", 200, &[], indexed(&times));
    fake.capture("http://a.test/x", "20261118000000", &html("<p>word"));
    let began = tokio::time::Instant::now();
    let found = crawl_status(&fake, "agent-1-1.m", None).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
    assert!((1..25).contains(&found.pages.len()), "{}", found.pages.len());
    assert_eq!(found.next, Some(found.pages.len().to_string()));
}

#[tokio::test]
async fn the_errors_of_a_crawl_are_in_the_log_and_what_robots_forbids_is_not() {
    let fake = Fake::default();
    fake.json("GET /api/v1/jobs/agent-1-1", 200, &job(0, 30));
    let line = json!({"at": "2026-11-18T00:00:00.000Z", "at_ms": 1_795_000_000_000_u64, "url": "http://a.test/gone",
        "outcome": "not-found", "class": "gone", "status": 404, "took_ms": 1, "bytes": 1, "purpose": "page",
        "promised_ms": 1});
    fake.json("GET /api/v1/log", 200, &json!({"lines": [line], "complete": true, "read_bytes": 0}));
    let row = |url: &str, outcome: &str| {
        json!({"url": url, "state": "error", "type": "content", "depth": 1, "retries": 0,
            "found": "2026-11-18T00:00:00Z", "outcome": outcome})
    };
    let rows = [
        row("http://a.test/private/1", "robots-denied"),
        row("http://b.test/private/2", "robots-denied"),
        row("http://a.test/gone", "not-found"),
    ];
    fake.json("GET /api/v1/downloads?type=content&state=error", 200, &json!({"rows": rows}));
    let found = crawl_errors(&fake, "agent-1-1.m").await.unwrap();
    let found: Vec<_> = found.iter().map(|error| (&*error.url, &*error.outcome, error.by_robots)).collect();
    let expected =
        [("http://a.test/gone", "not-found", false), ("http://a.test/private/1", "robots-denied", true)];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_crawl_is_a_job_with_its_limits() {
    let fake = Fake::default();
    fake.json("POST /api/v1/jobs", 201, &json!({"id": 3}));
    let options = CrawlOptions { limit: 7, depth: 2, whole_host: true, ..CrawlOptions::default() };
    let id = crawl(&fake, "a.test", &options).await.unwrap();
    let (name, _) = id.rsplit_once('.').unwrap();
    for part in [name, "\"pages_max\":7", "\"depth_max\":2", "\"kind\":\"host\"", "https://a.test/"] {
        assert_eq!(fake.asked(part), 1, "{part}");
    }
}

#[tokio::test]
async fn a_map_has_the_links_the_sitemaps_and_what_was_fetched_each_once() {
    let fake = Fake::default();
    let target = |url: &str| {
        format!(
            "GET /api/v1/pages?as=http&inline=1&bytes_max={}&url={}",
            super::render::BODY_BYTES_MAX,
            crate::escaped(url)
        )
    };
    let put = |url: &str, http: &str| {
        let fields = [("nephila-captured", "20261118000000"), ("nephila-url", url)];
        fake.put(&target(url), 200, &fields, http.to_owned());
    };
    put(
        "http://a.test/sitemap.xml",
        "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n<urlset><url><loc>http://a.test/3</loc></url></urlset>",
    );
    put(
        "http://a.test/",
        &html("<title>Home</title><a href=/1>1</a><a href=/2?q=1>2</a><a href=http://b.test/>b</a>"),
    );
    let lines = ["http://a.test/1", "http://a.test/4"].map(|url| {
        json!({"url": url, "timestamp": "20261118000000", "status": "200", "mime": "text/html"}).to_string()
    });
    fake.put("GET /web/cdx", 200, &[], lines.join("\n"));
    fake.json("GET /api/v1/log", 200, &json!({"lines": [], "complete": true, "read_bytes": 0}));
    let found = async |options: &MapOptions| {
        let links = map(&fake, "http://a.test/", options).await.unwrap();
        links.into_iter().map(|link| link.url.replace("http://a.test", "")).collect::<Vec<_>>()
    };
    let all = MapOptions::default();
    assert_eq!(found(&all).await, ["/", "/1", "/2?q=1", "/3", "/4"]);
    let plain = MapOptions { without_query: true, limit: 3, ..MapOptions::default() };
    assert_eq!(found(&plain).await, ["/", "/1", "/3"]);
    let only = MapOptions { sitemap: Sitemap::Only, ..MapOptions::default() };
    assert_eq!(found(&only).await, ["/3"]);
    assert_eq!(fake.asked(Method::POST.as_str()), 0, "nothing is changed");
}
