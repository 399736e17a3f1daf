//! The archive over HTTP, as clients of other programs ask for it.

use std::fmt::Write as _;
use std::fs;

use http::HeaderMap;
use http_body_util::BodyExt as _;

use super::*;

const URL: &str = "http://site.test/page?x=1";

fn record(url: &str, date: &str, http: &str) -> String {
    format!(
        "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{date}>\r\nWARC-Date: {date}\r\n\
         WARC-Target-URI: {url}\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n\
         {http}\r\n\r\n",
        http.len()
    )
}

/// An archive with three captures of [`URL`] and a redirect.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("archive")).unwrap();
    let page = |text: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\nContent-Security-Policy: x\r\n\r\n{text}"
        )
    };
    let file = [
        record(URL, "2026-01-31T00:00:00Z", &page("first")),
        record(URL, "2026-02-28T12:00:00Z", &page("<script>second</script>")),
        record(URL, "2026-03-01T12:00:00Z", "HTTP/1.1 404 Not Found\r\n\r\nthird"),
        record(
            "http://site.test/old",
            "2026-03-01T12:00:00Z",
            "HTTP/1.1 301 Moved\r\nLocation: /page?x=1\r\n\r\n",
        ),
    ];
    fs::write(dir.path().join("archive/X.warc.open"), file.concat()).unwrap();
    dir
}

struct Got {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Got {
    fn field(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

async fn get_with(dir: &tempfile::TempDir, target: &str, fields: &[(&'static str, &str)]) -> Got {
    let server = ReadOnly::new(dir.path(), "here");
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("127.0.0.1:6374"));
    for (name, value) in fields {
        headers.insert(*name, HeaderValue::from_str(value).unwrap());
    }
    let asked = HttpQuestion::new(Method::GET, target, headers, false);
    let answer = server.answer(asked).await;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Got {
        status: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

async fn get(dir: &tempfile::TempDir, target: &str) -> Got {
    get_with(dir, target, &[]).await
}

#[tokio::test]
async fn a_time_gate_leads_to_the_nearest_capture() {
    let dir = folder();
    let gate = format!("/web/{URL}");
    // One day before March is nearer to February 28 than to January 31, and noon decides between the last two.
    for (date, wanted) in [
        ("Fri, 13 Feb 2026 00:00:00 GMT", "20260131000000"),
        ("Sat, 14 Feb 2026 12:00:00 GMT", "20260228120000"),
        ("Sat, 28 Feb 2026 23:59:59 GMT", "20260228120000"),
        ("Sun, 01 Mar 2026 00:00:01 GMT", "20260301120000"),
        ("Thu, 01 Jan 1970 00:00:00 GMT", "20260131000000"),
    ] {
        let got = get_with(&dir, &gate, &[("accept-datetime", date)]).await;
        assert_eq!(got.status, 302);
        assert_eq!(got.field("location"), format!("http://127.0.0.1:6374/web/{wanted}id_/{URL}"), "{date}");
        assert_eq!(got.field("vary"), "accept-datetime");
        assert!(got.field("link").contains("rel=\"original\""), "{}", got.field("link"));
    }
    let latest = get(&dir, &gate).await;
    assert!(latest.field("location").contains("/web/20260301120000id_/"), "{}", latest.field("location"));
    assert_eq!(get_with(&dir, &gate, &[("accept-datetime", "soon")]).await.status, 400);
    assert_eq!(get(&dir, "/web/http://other.test/").await.status, 404);
}

#[tokio::test]
async fn pywb_asks_for_a_list_with_an_empty_time() {
    let dir = folder();
    let list = get(&dir, &format!("/web/cdx?url={URL}&closest=&sort=closest")).await;
    assert_eq!((list.status, list.body), (200, get(&dir, &format!("/web/cdx?url={URL}")).await.body));
    assert_eq!(get(&dir, &format!("/web/cdx?url={URL}&sort=closest")).await.status, 400);
}

#[tokio::test]
async fn a_second_read_needs_no_disk() {
    let dir = folder();
    let server = ReadOnly::new(dir.path(), "here").with_cache(1 << 20);
    let read = async || {
        let target = format!("/api/v1/pages?url={URL}");
        let answer = server.answer(HttpQuestion::new(Method::GET, &target, HeaderMap::new(), false)).await;
        let (head, body) = answer.into_parts();
        let cache = head.headers.get("nephila-cache").map(|value| value.to_str().unwrap().to_owned());
        (head.status.as_u16(), cache.unwrap_or_default(), body.collect().await.unwrap().to_bytes())
    };
    let (status, cache, first) = read().await;
    assert_eq!((status, &*cache), (200, "miss"));
    fs::remove_dir_all(dir.path().join("archive")).unwrap();
    assert_eq!(read().await, (200, "hit".into(), first));
    // Which capture is the newest is looked up again after two seconds.
    tokio::time::sleep(crate::cache::FRESH).await;
    assert_ne!(read().await.0, 200);
}

#[tokio::test]
async fn a_capture_comes_as_stored_and_is_locked_in() {
    let dir = folder();
    let got = get(&dir, &format!("/web/20260228120000id_/{URL}")).await;
    assert_eq!((got.status, &*got.body), (200, "<script>second</script>"));
    assert_eq!(got.field("memento-datetime"), "Sat, 28 Feb 2026 12:00:00 GMT");
    assert_eq!((got.field("content-type"), got.field("x-archive-orig-set-cookie")), ("text/html", "a=b"));
    assert_eq!((got.field("content-security-policy"), got.field("set-cookie")), (POLICY, ""));
    assert!(got.field("link").contains("rel=\"memento\"; datetime=\"Sat, 28 Feb 2026 12:00:00 GMT\""));
    let near = get(&dir, &format!("/web/202603id_/{URL}")).await;
    assert_eq!((near.status, near.field("memento-datetime")), (302, ""));
    let gone = get(&dir, &format!("/web/20260301120000id_/{URL}")).await;
    assert_eq!((gone.status, &*gone.body), (404, "third"));
    let moved = get(&dir, "/web/20260301120000id_/http://site.test/old").await;
    assert_eq!(moved.status, 301);
    assert_eq!(moved.field("location"), format!("http://127.0.0.1:6374/web/20260301120000id_/{URL}"));
    let worker =
        get_with(&dir, &format!("/web/20260228120000id_/{URL}"), &[("service-worker", "script")]).await;
    assert_eq!(worker.status, 403);
    assert_eq!(get(&dir, &format!("/web/20260228120000mp_/{URL}")).await.status, 400);
}

#[tokio::test]
async fn urls_are_taken_as_people_write_them() {
    let dir = folder();
    for url in ["site.test/page?x=1", "http%3A%2F%2Fsite.test%2Fpage%3Fx%3D1", "http:/site.test/page?x=1"] {
        let got = get(&dir, &format!("/web/20260228120000id_/{url}")).await;
        assert_eq!((got.status, &*got.body), (200, "<script>second</script>"), "{url}");
    }
}

#[tokio::test]
async fn a_time_map_names_every_capture() {
    let dir = folder();
    let got = get(&dir, &format!("/web/timemap/link/{URL}")).await;
    assert_eq!((got.status, got.field("content-type")), (200, "application/link-format"));
    let lines: Vec<&str> = got.body.lines().collect();
    assert_eq!(lines.len(), 6, "{}", got.body);
    assert!(lines[3].contains("rel=\"first memento\"; datetime=\"Sat, 31 Jan 2026 00:00:00 GMT\""));
    assert!(lines[5].contains("rel=\"last memento\"") && !lines[5].ends_with(','));
    let json: serde_json::Value =
        serde_json::from_str(&get(&dir, &format!("/web/timemap/json/{URL}")).await.body).unwrap();
    assert_eq!(json["mementos"]["list"].as_array().unwrap().len(), 3);
    assert_eq!(json["mementos"]["list"][0]["datetime"], "2026-01-31T00:00:00Z");
    assert_eq!(get(&dir, &format!("/web/timemap/cdxj/{URL}")).await.body.lines().count(), 3);
    assert_eq!(get(&dir, "/web/timemap/link/http://other.test/").await.status, 404);
    assert_eq!(get(&dir, &format!("/web/timemap/xml/{URL}")).await.status, 404);
}

#[tokio::test]
async fn a_cdx_server_filters_and_sorts() {
    let dir = folder();
    let count = async |more: &str| {
        let got = get(&dir, &format!("/web/cdx?{more}")).await;
        if got.status == 200 { got.body.lines().count() } else { usize::from(got.status) }
    };
    let url = crate::escaped(URL);
    assert_eq!(count("url=*.site.test").await, 4);
    assert_eq!(count("url=http://site.test/*").await, 4);
    assert_eq!(count("url=*").await, 4);
    assert_eq!(count(&format!("url={url}")).await, 3);
    assert_eq!(count(&format!("url={url}&filter=status:20")).await, 2);
    assert_eq!(count(&format!("url={url}&filter=!=status:200")).await, 1);
    assert_eq!(count(&format!("url={url}&filter=~timestamp:2026.*31&filter=mime:html")).await, 1);
    assert_eq!(count(&format!("url={url}&filter=statuscode:404")).await, 1);
    assert_eq!(count(&format!("url={url}&from=202602&to=20260228")).await, 1);
    assert_eq!(count(&format!("url={url}&limit=2")).await, 2);
    assert_eq!(count(&format!("url={url}&filter=status:500")).await, 404);
    for wrong in [
        "x=1",
        "url=a.test&filter=status",
        "url=a.test&filter=~status:(",
        "url=a.test&filter=nothing:1",
        "url=a.test&sort=up",
        "url=a.test&page=x",
        "url=a.test&collapse=digest",
        "url=*.a.test&closest=2026",
        "url=a.test&matchType=all",
        "url=a.test&fl=none",
    ] {
        assert_eq!(count(wrong).await, 400, "{wrong}");
    }
    let closest =
        get(&dir, &format!("/web/cdx?url={url}&closest=20260228&output=json&fl=timestamp,url")).await;
    let first: serde_json::Value = serde_json::from_str(closest.body.lines().next().unwrap()).unwrap();
    assert_eq!(first, serde_json::json!({"timestamp": "20260228120000", "url": URL}));
    let reverse =
        get(&dir, &format!("/web/cdx?url={url}&sort=reverse&output=text&fl=timestamp,status")).await;
    assert_eq!(reverse.body, "20260301120000 404\n20260228120000 200\n20260131000000 200\n");
}

#[tokio::test]
async fn pages_have_every_line_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("archive")).unwrap();
    let mut text = String::new();
    for number in 0..20_000 {
        writeln!(
            text,
            "test,site)/{number:06} 20261114225809 {{\"url\": \"http://site.test/{number:06}\", \"mime\": \
             \"text/html\", \"status\": \"{}\", \"length\": \"1\", \"offset\": \"{number}\", \"filename\": \"x.warc.gz\"}}",
            if number < 15_000 { 200 } else { 404 }
        )
        .unwrap();
    }
    fs::write(dir.path().join("archive/x.cdxj"), &text).unwrap();
    let base = "/web/cdx?url=*.site.test&pageSize=1";
    let counted: serde_json::Value =
        serde_json::from_str(&get(&dir, &format!("{base}&showNumPages=true")).await.body).unwrap();
    let pages = (text.len() as u64).div_ceil(cdx::BLOCK_BYTES);
    assert_eq!(counted, serde_json::json!({"pages": pages, "pageSize": 1, "blocks": pages}));
    assert!(pages > 2);
    let (mut found, mut target) = (String::new(), base.to_owned());
    for page in 0..pages {
        let got = get(&dir, &target).await;
        found.push_str(&got.body);
        let link = got.field("link").to_owned();
        assert_eq!(link.is_empty(), page + 1 == pages, "{link}");
        target = link.trim_start_matches('<').split('>').next().unwrap_or_default().to_owned();
    }
    assert!(found == text, "the pages together are the index");
    assert_eq!(get(&dir, &format!("{base}&page={pages}")).await.status, 400, "after the last page");
    // No line of the first page matches: not the end.
    assert_eq!(get(&dir, &format!("{base}&page=0&filter=status:404")).await.status, 404);
}
