//! The exporter against collectors on loopback that answer, ask for patience, refuse, or never answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use nephila_core::frontier::ticket::{HeadFirst, Purpose};
use nephila_core::handler::ReadAs;
use nephila_core::job::{Hops, JobId};
use nephila_core::key::UrlKey;
use nephila_core::spider::Outcome;
use nephila_spider::Fetched;
use serde_json::Value;

use super::*;

/// Time within which everything here happens, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: Secret = Secret([7; 16]);

/// A request that a collector got.
struct Got {
    head: String,
    body: Vec<u8>,
}

impl Got {
    fn spans(&self) -> Vec<Value> {
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
    }
}

/// A collector that gives these answers one after the other, and the last one for ever.
fn collector<const N: usize>(answers: [&'static str; N]) -> (String, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let (sender, got) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let answer = answers[number.min(N - 1)];
            // A client that goes away is no trouble of the collector.
            _ = serve(stream, answer, &sender);
        }
    });
    (to, got)
}

fn serve(stream: TcpStream, answer: &str, got: &Sender<Got>) -> std::io::Result<()> {
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
    _ = got.send(Got { head, body });
    (&stream).write_all(answer.as_bytes())
}

fn settings(to: &str) -> Settings {
    let mut settings = Settings::default();
    (settings.traces.to, settings.traces.share) = (to.into(), 1.0);
    settings
}

fn ticket(number: u64) -> Ticket {
    let url = nephila_core::url::CrawlUrl::parse("http://me:geheim@a.test/x?y=1").unwrap();
    Ticket {
        id: TicketId(number),
        purpose: Purpose::Page,
        key: UrlKey::of(&url, &SECRET),
        url: "http://me:geheim@a.test/x?y=1".into(),
        address: [127, 0, 0, 1].into(),
        job: JobId(1),
        depth: 2,
        hops: Hops::default(),
        read_as: ReadAs::Page,
        retries: 0,
        deadline: 0,
        host_rest: Duration::ZERO,
        slot_rest: Duration::ZERO,
        known: None,
        head: HeadFirst::No,
        via: None,
    }
}

/// A ticket that was fetched.
fn carry(traces: &Traces, number: u64) {
    let mut trace = traces.begin(&ticket(number), || Some("press".into()));
    trace.enter("admit");
    trace.enter("fetch");
    let mut fetched = Fetched::not_sent(Outcome::NotFound, String::new());
    fetched.status = Some(404);
    trace.requested("GET", Instant::now(), Timestamp(5), &fetched);
    trace.ended(Outcome::NotFound, Some(404));
}

fn counts(traces: &Traces) -> [u64; 3] {
    traces.counts().unwrap().map(|(_, number)| number)
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == name);
    found.map_or(&Value::Null, |attribute| attribute["value"].as_object().unwrap().values().next().unwrap())
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_collector_gets_the_same_body_again() {
    let busy = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
    let (to, got) = collector([busy, "", OK]);
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(&to);
    settings.traces.headers_file = dir.path().join("headers");
    std::fs::write(&settings.traces.headers_file, "X-Token: abc\n\n").unwrap();
    std::fs::set_permissions(&settings.traces.headers_file, PermissionsExt::from_mode(0o600)).unwrap();
    let traces = Traces::start(&settings, &SECRET, Timestamp(1)).unwrap();
    carry(&traces, 1);
    traces.flush().await;
    assert_eq!(counts(&traces), [4, 0, 0]);
    // The second connection was closed without an answer.
    let all: Vec<Got> = got.try_iter().collect();
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|got| got.body == all[0].body));
    let head = all[2].head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(
        head.contains("\r\ncontent-type: application/json\r\n") && head.contains("\r\nx-token: abc\r\n"),
        "{head}"
    );
    assert!(!String::from_utf8_lossy(&all[2].body).contains("geheim"), "a password");

    let spans = all[2].spans();
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ticket", "admit", "fetch", "GET"]);
    let (root, request) = (&spans[0], &spans[3]);
    assert_eq!(root["traceId"], traces.id_of(TicketId(1)).unwrap().to_string());
    assert_eq!(attribute(root, "nephila.outcome"), "not-found");
    assert_eq!(attribute(root, "nephila.job"), "press");
    assert_eq!(attribute(root, "error.type"), &Value::Null, "404 is an answer");
    assert_eq!(attribute(request, "error.type"), "404");
    assert_eq!(attribute(request, "url.full"), "http://a.test/x?y=1");
    assert_eq!(attribute(request, "nephila.at"), "5");
    carry(&traces, 2);
    assert_eq!(counts(&traces), [4, 4, 0], "spans after the end are dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_and_rejected_spans_are_counted_as_failed() {
    let (to, got) = collector(["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"]);
    let traces = Traces::start(&settings(&to), &SECRET, Timestamp(1)).unwrap();
    carry(&traces, 1);
    traces.flush().await;
    assert_eq!((counts(&traces), got.try_iter().count()), ([0, 0, 4], 1));

    let partly =
        "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\": \"3\" }}";
    let (to, _got) = collector([partly]);
    let traces = Traces::start(&settings(&to), &SECRET, Timestamp(1)).unwrap();
    carry(&traces, 1);
    traces.flush().await;
    assert_eq!(counts(&traces), [1, 0, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_costs_spans_and_no_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let traces = Traces::start(&settings(&to), &SECRET, Timestamp(1)).unwrap();
    let tickets = 4 * WAITING_MAX as u64;
    let began = Instant::now();
    (0..tickets).for_each(|number| carry(&traces, number));
    let took = began.elapsed();
    let dropped = counts(&traces)[1];
    // One batch is on its way, and the queue holds its number; nothing was sent meanwhile.
    assert!(dropped > 0 && dropped.is_multiple_of(4), "{dropped}");
    assert!(took < PATIENCE / 10, "{took:?}");
    traces.flush().await;
    assert!(began.elapsed() < PATIENCE);
    let [sent, dropped, failed] = counts(&traces);
    assert_eq!((sent, dropped + failed), (0, 4 * tickets));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_that_is_aborted_or_panics_has_a_trace_that_says_so() {
    let (to, got) = collector([OK]);
    let traces = Traces::start(&settings(&to), &SECRET, Timestamp(1)).unwrap();
    let trace = |number| traces.begin(&ticket(number), || None);
    drop(trace(1));
    let panics = trace(2);
    let task = tokio::spawn(async move {
        let _held = panics;
        panic!("planted");
    });
    assert!(task.await.unwrap_err().is_panic());
    traces.flush().await;
    let spans = got.recv_timeout(PATIENCE).unwrap().spans();
    let outcomes: Vec<&Value> = spans.iter().map(|span| attribute(span, "nephila.outcome")).collect();
    assert_eq!(outcomes, ["cancelled", "crashed"]);
}

#[tokio::test]
async fn without_a_collector_or_a_share_nothing_is_traced() {
    let mut none = settings("http://127.0.0.1:1/v1/traces");
    none.traces.share = 0.0;
    for settings in [Settings::default(), none] {
        let traces = Traces::start(&settings, &SECRET, Timestamp(1)).unwrap();
        assert!(traces.counts().is_none() && traces.id_of(TicketId(1)).is_none());
        traces.flush().await;
    }
    assert_eq!(size_of::<Trace>(), size_of::<usize>(), "a ticket that is not sampled carries a null pointer");
}

#[tokio::test]
async fn a_file_with_fields_that_is_wrong_or_open_to_others_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings("http://127.0.0.1:1/v1/traces");
    settings.traces.headers_file = dir.path().join("headers");
    for (text, mode, named) in [
        ("X-Token: SECRET\n", 0o644, "chmod 600"),
        ("SECRET\n", 0o600, "line 1"),
        ("X-A: b\nX B: SECRET\n", 0o600, "line 2"),
        ("Content-Type: SECRET\n", 0o600, "content-type is set by the exporter"),
    ] {
        std::fs::write(&settings.traces.headers_file, text).unwrap();
        std::fs::set_permissions(&settings.traces.headers_file, PermissionsExt::from_mode(mode)).unwrap();
        let error = format!("{:#}", Traces::start(&settings, &SECRET, Timestamp(1)).unwrap_err());
        assert!(error.contains(named) && !error.contains("SECRET"), "{error}");
        assert!(error.contains("traces.headers_file"), "{error}");
    }
}
