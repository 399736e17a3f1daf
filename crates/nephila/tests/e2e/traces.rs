//! Traces of a whole crawl: every request of the log has its span, in a trace that holds together.
//!
//! The collector shares nothing with the exporter: a listener that keeps the bodies. Settings that differ from the shipped
//! ones: every ticket is traced, no rests between requests, no waiting for retries.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::site::run;

const ROBOTS: &str = "User-agent: *\nDisallow: /closed/\n";
const HOME: &str = "<title>home</title><a href=/a>a</a><a href=/moved>moved</a><a href=/missing>missing</a>\
                    <a href=/broken>broken</a><a href=/dropped>dropped</a><a href=/closed/x>closed</a>";

/// Answers each request with this, on connections of their own; an empty answer closes the connection.
fn listen(answer: impl Fn(&str, &[u8]) -> String + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            // A client that goes away in the middle is no trouble of ours.
            std::thread::spawn(move || _ = serve(stream, &*answer));
        }
    });
    port
}

fn serve(stream: TcpStream, answer: &dyn Fn(&str, &[u8]) -> String) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    (&stream).write_all(answer(&head, &body).as_bytes())
}

fn page(head: &str) -> String {
    let of = |status: &str, more: &str, body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html\r\n{more}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    match head.split(' ').nth(1).unwrap_or_default() {
        "/robots.txt" => of("200 OK", "", ROBOTS).replace("text/html", "text/plain"),
        "/" => of("200 OK", "", HOME),
        "/a" | "/target" => of("200 OK", "", "<title>a page</title>words"),
        "/moved" => of("302 Found", "Location: /target\r\n", ""),
        "/broken" => of("500 Internal Server Error", "", "broken"),
        "/dropped" => String::new(),
        _ => of("404 Not Found", "", "nothing"),
    }
}

/// A span, with its attributes by name.
#[derive(Debug)]
struct Span {
    trace: String,
    id: String,
    parent: Option<String>,
    name: String,
    from: u64,
    to: u64,
    attributes: BTreeMap<String, String>,
}

impl Span {
    fn of(span: &Value) -> Span {
        let text = |name: &str| span[name].as_str().map(str::to_owned);
        let time =
            |name: &str| text(name).and_then(|time| time.parse().ok()).expect("nanoseconds as a string");
        let attributes = span["attributes"].as_array().expect("attributes").iter().map(|attribute| {
            let value =
                attribute["value"].as_object().and_then(|value| value.values().next()).expect("a value");
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (attribute["key"].as_str().expect("a key").to_owned(), value)
        });
        Span {
            trace: text("traceId").expect("an id"),
            id: text("spanId").expect("an id"),
            parent: text("parentSpanId"),
            name: text("name").expect("a name"),
            from: time("startTimeUnixNano"),
            to: time("endTimeUnixNano"),
            attributes: attributes.collect(),
        }
    }

    fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// The crawl: the lines of the log, the bodies that the collector got, and the output.
fn crawl(more: &[&str]) -> (Vec<Value>, Vec<String>, String) {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let got = bodies.clone();
    let collector = listen(move |head, body| {
        let lower = head.to_ascii_lowercase();
        assert!(
            lower.starts_with("post /v1/traces ") && lower.contains("content-type: application/json\r\n"),
            "{head}"
        );
        got.lock().unwrap().push(String::from_utf8(body.to_vec()).expect("UTF-8"));
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}".into()
    });
    let site = listen(|head, _| page(head));
    let dir = tempfile::tempdir().expect("a folder");
    let (home, to) = (
        format!("http://me:geheim@127.0.0.1:{site}/"),
        format!("traces.to=http://127.0.0.1:{collector}/v1/traces"),
    );
    let mut args =
        vec!["crawl", &home, "-o", "crawl", "--progress", "none", "--config", "/dev/null", "--set", &to];
    for set in [
        "frontier.host_delay=0s",
        "frontier.slot_delay=0s",
        "frontier.host_delay_factor=0",
        "crawl.retry_wait_max=0s",
    ] {
        args.extend(["--set", set]);
    }
    args.extend(more.iter().flat_map(|set| ["--set", set]));
    let said = run(dir.path(), &args).said;
    let log = run(dir.path(), &["log", "-o", "crawl", "--format", "jsonl"]).said;
    let lines = log.lines().filter(|line| line.starts_with('{'));
    let lines =
        lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")));
    let bodies = bodies.lock().unwrap().clone();
    (lines.collect(), bodies, said)
}

fn spans(bodies: &[String]) -> Vec<Span> {
    let of = |body: &String| -> Vec<Span> {
        let body: Value = serde_json::from_str(body).expect("JSON");
        let all = body["resourceSpans"].as_array().expect("resources").iter();
        let scopes = all.flat_map(|resource| resource["scopeSpans"].as_array().expect("scopes"));
        scopes.flat_map(|scope| scope["spans"].as_array().expect("spans")).map(Span::of).collect()
    };
    bodies.iter().flat_map(of).collect()
}

#[test]
fn every_request_of_the_log_has_a_span_in_a_trace_that_holds_together() {
    let (lines, bodies, said) = crawl(&["traces.share=1"]);
    let spans = spans(&bodies);
    let paths: BTreeSet<&str> =
        lines.iter().map(|line| line["url"].as_str().unwrap().splitn(4, '/').nth(3).unwrap()).collect();
    let expected = ["", "a", "broken", "dropped", "missing", "moved", "robots.txt", "target"];
    assert_eq!(paths, BTreeSet::from(expected), "{said}");

    // Ids are unique, every parent is in the trace of its child and contains the child in time.
    let by_id: BTreeMap<&str, &Span> = spans.iter().map(|span| (&*span.id, span)).collect();
    assert_eq!(by_id.len(), spans.len(), "span ids");
    for span in &spans {
        assert_eq!((span.trace.len(), span.id.len()), (32, 16), "{span:?}");
        assert!(span.from <= span.to, "{span:?}");
        if let Some(parent) = &span.parent {
            let parent = by_id.get(&**parent).unwrap_or_else(|| panic!("no parent of {span:?}"));
            assert_eq!(parent.trace, span.trace);
            assert!(parent.from <= span.from && span.to <= parent.to, "{parent:?}\n{span:?}");
        }
    }
    let roots: BTreeMap<&str, &Span> =
        spans.iter().filter(|span| span.parent.is_none()).map(|span| (&*span.trace, span)).collect();
    let traces: BTreeSet<&str> = spans.iter().map(|span| &*span.trace).collect();
    assert_eq!(roots.keys().copied().collect::<BTreeSet<_>>(), traces);
    assert_eq!(roots.len(), spans.iter().filter(|span| span.parent.is_none()).count(), "one root in a trace");
    let tickets: BTreeSet<u64> = lines.iter().map(|line| line["fetch"].as_u64().unwrap()).collect();
    assert_eq!(roots.len(), tickets.len(), "a trace for every ticket: {said}");

    // Every line has one request, with the same result, and no request is without a line.
    let requests: Vec<&Span> = spans.iter().filter(|span| matches!(&*span.name, "GET" | "HEAD")).collect();
    assert_eq!(requests.len(), lines.len());
    for line in &lines {
        let trace = line["trace"].as_str().unwrap_or_else(|| panic!("no trace in {line}"));
        let at = line["at"].to_string();
        let of_line = requests.iter().filter(|span| span.trace == trace && span.get("nephila.at") == at);
        let of_line: Vec<_> = of_line.collect();
        let [request] = of_line[..] else { panic!("{line}: {of_line:?}") };
        let root = roots[trace];
        assert_eq!(root.get("nephila.fetch"), line["fetch"].to_string());
        // A robots.txt is fetched for all jobs.
        let is_robots = line["purpose"] == "robots";
        assert_eq!(root.get("nephila.job"), if is_robots { "" } else { "crawl" }, "{root:?}");
        let status = line["status"].as_u64().map_or_else(String::new, |status| status.to_string());
        for span in [*request, root] {
            assert_eq!(span.get("url.full"), line["url"], "{span:?}");
            assert_eq!(span.get("server.address"), "127.0.0.1");
            assert_eq!(span.get("http.response.status_code"), status, "{span:?}");
            assert_eq!(span.get("nephila.outcome"), line["outcome"], "{span:?}");
        }
        let error = match (line["status"].as_u64(), line["class"].as_str().unwrap()) {
            (Some(400..), _) => &status,
            (_, "retry" | "broken") => line["outcome"].as_str().unwrap(),
            _ => "",
        };
        assert_eq!(request.get("error.type"), error, "{request:?}");
        // Milliseconds of the log against nanoseconds: rounding, and the answer's way to the task.
        let took = (request.to - request.from) / 1_000_000;
        assert!(took + 1 >= line["took_ms"].as_u64().unwrap(), "{line} {request:?}");
    }

    // The stages and phases of a page.
    let page = lines.iter().find(|line| line["url"].as_str().unwrap().ends_with("/a")).unwrap();
    let names = |parent: &Span| -> Vec<&str> {
        let children = spans.iter().filter(|span| span.parent.as_ref() == Some(&parent.id));
        children.map(|span| &*span.name).collect()
    };
    let root = roots[page["trace"].as_str().unwrap()];
    let stages = ["admit", "fetch", "receive", "read", "describe", "choose", "store", "report"];
    assert_eq!(names(root), stages);
    let request = requests.iter().find(|span| span.trace == root.trace).unwrap();
    assert_eq!(names(request), ["connect", "send", "wait", "head", "body"]);
    assert_eq!(by_id[&**request.parent.as_ref().unwrap()].name, "fetch");

    let all = bodies.concat();
    assert!(!all.contains("geheim"), "a password is in a trace");
    assert!(!all.contains("/closed/"), "robots.txt forbids it, so it has no ticket");
}

#[test]
fn without_the_setting_nothing_is_sent_and_the_log_names_no_trace() {
    let (lines, bodies, said) = crawl(&["traces.to="]);
    assert!(bodies.is_empty() && lines.len() >= 8, "{said}");
    assert!(lines.iter().all(|line| line.get("trace").is_none()), "{lines:?}");
}
