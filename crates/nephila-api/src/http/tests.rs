//! The whole server over TCP: roles of all operations, sessions, streams, repeated requests; and the form of problems.

use std::net::SocketAddr;

use http_body_util::StreamBody;
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::super::guard::Keys;
use super::super::operation::{Operation, Verb};
use super::super::problem::{KINDS, PREFIX, ok};
use super::super::question::{escaped, unescaped};
use super::super::tests::{World, world};
use super::super::tokens::Token;
use super::super::web::ReadOnly;
use super::*;
use nephila_engine::settings::Role;

/// A server, which ends with the test.
struct Served {
    world: World,
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn served(guard: Guard) -> Served {
    let world = world("crawl");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(serve(listener, world.questions.clone(), guard, None, 64));
    Served { world, address, task }
}

fn tokens() -> Guard {
    let token = |role: Role| Token {
        name: role.name().into(),
        secret: format!("{}-secret", role.name()).into(),
        role,
        per_second: 10_000,
    };
    Guard::Token(Arc::new(Keys::new(Role::ALL.map(token), "nodes".into(), "one")))
}

struct Got {
    status: u16,
    head: String,
    body: String,
}

impl Got {
    fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

impl Served {
    async fn connect(&self, method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n{fields}\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn ask(&self, method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> Got {
        let fields = [fields, &[("connection", "close")]].concat();
        let mut stream = self.connect(method, target, &fields, body).await;
        let mut answer = Vec::new();
        tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer))
            .await
            .unwrap()
            .unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Got { status, head: head.to_owned(), body: body.to_owned() }
    }
}

fn target_of(operation: &Operation) -> String {
    let parts = operation.path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn sec_04_each_role_may_do_what_the_table_says_and_nothing_else() {
    let served = served(tokens()).await;
    let mut asked = 0;
    let operations = <super::super::Questions as Answers>::routes().operations();
    // A stream has no end that the test could wait for; it has a test of its own.
    for operation in operations.filter(|operation| operation.path != "/api/v1/live") {
        let (method, target) = (operation.verb.name(), target_of(operation));
        let nobody = served.ask(method, &target, &[], "").await.status;
        assert_eq!(nobody == 401, operation.role.is_some(), "{method} {target}: {nobody}");
        let wrong = served.ask(method, &target, &[("authorization", "Bearer secret")], "").await.status;
        assert_eq!(wrong, nobody, "{method} {target}");
        for role in Role::ALL {
            let token = format!("Bearer {}-secret", role.name());
            let got = served.ask(method, &target, &[("authorization", &token)], "").await;
            let may = operation.role.is_none_or(|needed| role >= needed);
            assert_eq!(got.status == 403, !may, "{method} {target} {role:?}: {}", got.body);
            assert_ne!(got.status, 401, "{method} {target} {role:?}");
            // Some answers need a crawl, and none runs here.
            assert!(got.status < 500 || got.status == 503, "{method} {target} {role:?}: {}", got.body);
            asked += 1;
        }
    }
    assert!(asked > 60, "{asked}");
    let changes = <super::super::Questions as Answers>::routes().operations();
    // Questions with a body, which change nothing.
    let asks = ["testScope", "mapSite"];
    let mut changes =
        changes.filter(|it| it.verb != Verb::Get && it.tag != "access" && !asks.contains(&it.id));
    assert!(changes.all(|operation| operation.role > Some(Role::Read)), "nothing changes for a reader");
}

#[tokio::test]
async fn a_browser_begins_a_session_and_ends_it() {
    let served = served(tokens()).await;
    let begun =
        served.ask("POST", "/api/v1/session", &[("authorization", "Bearer operate-secret")], "").await;
    assert_eq!((begun.status, &begun.json()["role"]), (200, &json!("operate")), "{}", begun.body);
    let cookie = begun.field("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let origin = format!("http://{}", served.address);
    let own = [("cookie", &*cookie), ("origin", &*origin), ("sec-fetch-site", "same-origin")];
    let shown = served.ask("GET", "/api/v1/session", &own[..1], "").await;
    assert_eq!((shown.status, &shown.json()["by"]), (200, &json!("session")), "{}", shown.body);
    assert!(shown.json()["until"].is_string());
    let add = async |fields: &[(&str, &str)]| {
        served.ask("POST", "/api/v1/urls", fields, "http://a.test/docs/x\n").await.status
    };
    assert_eq!(add(&own).await, 200);
    assert_eq!(add(&own[..1]).await, 403, "a page of another site");
    assert_eq!(add(&[own[0], ("origin", "http://evil.test"), own[2]]).await, 403);
    assert_eq!(
        served.ask("POST", "/api/v1/session", &own, "").await.status,
        403,
        "a session begins with a token"
    );
    let ended = served.ask("DELETE", "/api/v1/session", &own, "").await;
    assert_eq!(ended.status, 204);
    assert!(ended.field("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(served.ask("GET", "/api/v1/session", &own[..1], "").await.status, 401);
}

#[tokio::test]
async fn sec_09_without_tokens_our_own_pages_may_ask_and_no_others() {
    let served = served(Guard::Local).await;
    let own = format!("http://{}", served.address);
    let line = "http://a.test/docs/x\n";
    let add =
        async |origin: &str| served.ask("POST", "/api/v1/urls", &[("origin", origin)], line).await.status;
    assert_eq!(add(&own).await, 200);
    for origin in ["http://evil.test", "null", "http://127.0.0.1:1"] {
        assert_eq!(add(origin).await, 403, "{origin}");
    }
    let shown = served.ask("GET", "/api/v1/session", &[], "").await.json();
    assert_eq!((&shown["by"], &shown["role"]), (&json!("machine"), &json!("admin")));
    assert_eq!(served.ask("POST", "/api/v1/session", &[], "").await.status, 404, "no session is needed");
}

#[tokio::test]
async fn a_repeated_request_with_a_key_changes_nothing_twice() {
    let served = served(Guard::Local).await;
    let add = async |key: &str, body: &str| {
        served.ask("POST", "/api/v1/urls", &[("idempotency-key", key)], body).await
    };
    let first = add("k1", "http://a.test/docs/1\nmailto:x@y\n").await;
    assert_eq!(first.status, 200, "{}", first.body);
    let again = add("k1", "http://a.test/docs/1\nmailto:x@y\n").await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(
        (again.field("idempotency-replayed"), first.field("idempotency-replayed")),
        (Some("true"), None)
    );
    let other = add("k1", "http://a.test/docs/2\n").await;
    assert_eq!(other.json()["type"], format!("{PREFIX}idempotency-key-reused"), "{}", other.body);
    assert_eq!(add("two words", "").await.status, 400);
}

#[tokio::test]
async fn urls_for_a_job_that_does_not_exist_are_refused() {
    let served = served(Guard::Local).await;
    let add = async |job: &str| {
        served.ask("POST", &format!("/api/v1/urls{job}"), &[], "http://a.test/docs/x\n").await
    };
    for own in ["", "?job=", "?job=press"] {
        let got = add(own).await;
        assert_eq!((got.status, &got.json()["taken"]), (200, &json!(1)), "{own}: {}", got.body);
    }
    let none = add("?job=misspelt").await;
    assert_eq!((none.status, &none.json()["title"]), (404, &json!("no such job")), "{}", none.body);
}

#[tokio::test]
async fn events_are_followed_until_the_client_leaves() {
    let served = served(Guard::Local).await;
    let mut stream = served.connect("GET", "/api/v1/live?topics=status", &[], "").await;
    let (mut text, mut bytes) = (String::new(), [0; 4_096]);
    // No crawl runs here: each second an event says so. Those of a crawl have tests in `live`.
    while text.matches("event: problem\ndata: {").count() < 2 {
        let read =
            tokio::time::timeout(Duration::from_secs(10), stream.read(&mut bytes)).await.unwrap().unwrap();
        assert!(read > 0, "{text}");
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    assert!(text.contains("content-type: text/event-stream") && text.contains("retry: 2000"), "{text}");
    assert_eq!(served.ask("GET", "/api/v1/live?topics=weather", &[], "").await.status, 400);
    assert_eq!(served.ask("GET", "/api/v1/stats", &[], "").await.status, 200, "others are answered");
}

#[tokio::test]
async fn sec_07_followers_are_counted_apart_and_bounded() {
    let served = served(Guard::Local).await;
    let mut followers = Vec::new();
    for _ in 0..STREAMS_MAX {
        let mut stream = served.connect("GET", "/api/v1/live", &[], "").await;
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        followers.push(stream);
    }
    let more = served.ask("GET", "/api/v1/live", &[], "").await;
    assert_eq!((more.status, more.field("retry-after")), (503, Some("5")));
    assert_eq!(
        served.ask("GET", "/api/v1/stats", &[], "").await.status,
        200,
        "64 connections serve all others"
    );
    drop(followers);
}

#[tokio::test]
async fn ops_04_each_answer_is_timed_under_its_route_and_its_status() {
    let served = served(tokens()).await;
    let read = ("authorization", "Bearer read-secret");
    for target in ["/api/v1/explain?url=x", "/api/v1/explain", "/nowhere/at/all"] {
        served.ask("GET", target, &[read], "").await;
    }
    served.ask("POST", "/api/v1/explain", &[read], "").await;
    served.ask("GET", "/api/v1/explain", &[], "").await;
    let text = served.ask("GET", "/metrics", &[read], "").await.body;
    let name = "nephila_api_request_duration_seconds_count";
    for (route, status) in [
        ("/api/v1/explain", 200),
        ("/api/v1/explain", 400),
        ("/api/v1/explain", 401),
        ("/api/v1/explain", 405),
        ("other", 404),
    ] {
        let sample = format!("{name}{{route=\"{route}\",status=\"{status}\"}} 1");
        assert!(text.lines().any(|line| line == sample), "{sample} in\n{text}");
    }
}

#[tokio::test]
async fn what_the_client_got_wrong_is_no_fault_of_the_crawl() {
    let served = served(Guard::Local).await;
    for target in [
        "/api/v1/host?url=%5B",
        "/api/v1/feed?url=mailto%3Ax",
        "/api/v1/host?url=%FF",
        "/api/v1/host?url=a&url=b",
    ] {
        let got = served.ask("GET", target, &[], "").await;
        assert_eq!(got.status, 400, "{target}: {}", got.body);
    }
    let wrong = served.ask("GET", "/api/v1/events?from=nowhere", &[], "").await;
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    // The journals are gone.
    std::fs::remove_dir_all(served.world.folder.state()).unwrap();
    std::fs::write(served.world.folder.state(), "").unwrap();
    let lost = served.ask("GET", "/api/v1/events", &[], "").await;
    assert_eq!((lost.status, lost.field("retry-after")), (503, Some("5")), "{}", lost.body);
    // No crawl runs here.
    let later = served.ask("GET", "/api/v1/status", &[], "").await;
    assert_eq!((later.status, later.field("retry-after")), (503, Some("5")), "{}", later.body);
}

#[tokio::test]
async fn the_document_asks_for_a_token_where_the_server_does() {
    let read = ("authorization", "Bearer read-secret");
    let with = served(tokens()).await;
    let document = with.ask("GET", "/api/v1/openapi.json", &[read], "").await.json();
    assert_eq!(document["security"], json!([{"bearer": []}, {"session": []}]));
    assert_eq!(document["components"]["securitySchemes"]["session"]["name"], "nephila_session");
    let without = served(Guard::Local).await;
    let document = without.ask("GET", "/api/v1/openapi.json", &[], "").await.json();
    assert_eq!((&document["security"], &document["components"]["securitySchemes"]), (&json!([]), &json!({})));
}

#[tokio::test]
async fn the_pages_and_the_document_are_served_and_wrong_methods_are_named() {
    let served = served(tokens()).await;
    let home = served.ask("GET", "/", &[], "").await;
    assert_eq!((home.status, home.field("cache-control")), (200, Some("no-store")));
    let read = ("authorization", "Bearer read-secret");
    let document = served.ask("GET", "/api/v1/openapi.json", &[read], "").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let wrong = served.ask("PUT", "/api/v1/stats", &[read], "").await;
    assert_eq!((wrong.status, wrong.field("allow")), (405, Some("GET, HEAD")));
    let head = served.ask("HEAD", "/api/v1/stats", &[read], "").await;
    assert_eq!((head.status, &*head.body), (200, ""));
    assert_eq!(
        served.ask("GET", "/api/v1/explain", &[read], "").await.json()["title"],
        "missing parameter url"
    );
    assert_eq!(served.ask("GET", "/api/v1/downloads?max=0", &[read], "").await.status, 400);
    assert_eq!(served.ask("GET", "/api/v1/downloads?from=x", &[read], "").await.status, 400);
    assert!(served.world.questions.stats().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_moves_with_the_client() {
    let deadline = Arc::new(Deadline::new(Duration::from_secs(60)));
    let began = Instant::now();
    let waiting = tokio::spawn({
        let deadline = deadline.clone();
        async move { deadline.passed().await }
    });
    for _ in 0..9 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        deadline.set(Instant::now() + SLOW_TIMEOUT);
    }
    waiting.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 110);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_connection_begins_anew_with_each_whole_request() {
    let dir = tempfile::tempdir().unwrap();
    let answers = Arc::new(ReadOnly::new(dir.path(), "here"));
    let streams = Arc::new(Semaphore::new(STREAMS_MAX));
    let shell = Shell {
        answers,
        guard: tokens(),
        memory: Memory::default(),
        popular: Popular::default(),
        streams,
        hub: None,
    };
    let deadline = Arc::new(Deadline::new(CONNECTION_TIMEOUT));
    let client = Client { place: Room::new(1).enter().await, deadline: deadline.clone(), is_tls: false };
    let cut = || *deadline.0.lock().unwrap();
    let first = cut();
    tokio::time::advance(Duration::from_secs(20)).await;

    let never = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let slow = Request::get("/livez").body(StreamBody::new(never)).unwrap();
    assert_eq!(respond(slow, &shell, &client).await.status(), StatusCode::REQUEST_TIMEOUT);
    let strange = Request::get("/api/v1/status").body(String::new()).unwrap();
    assert_eq!(respond(strange, &shell, &client).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(cut(), first, "neither a slow nor a refused request");

    let whole = Request::get("/livez").body(String::new()).unwrap();
    assert_eq!(respond(whole, &shell, &client).await.status(), StatusCode::OK);
    assert_eq!(cut(), Instant::now() + CONNECTION_TIMEOUT);
}

#[test]
fn sec_09_nothing_that_is_answered_is_taken_for_something_else() {
    for answer in [ok(&"<script>"), problem(StatusCode::NOT_FOUND, "no", "<script>")] {
        assert_eq!(answer.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    }
}

#[tokio::test]
async fn a_problem_has_a_stable_type_beside_title_status_and_detail() {
    for (status, kind, _) in KINDS {
        let answer = problem(StatusCode::from_u16(status).unwrap(), "title", "detail");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let expected = json!({
            "type": format!("urn:nephila:problem:{kind}"), "title": "title", "status": status, "detail": "detail",
        });
        assert_eq!(body, expected);
    }
}

#[test]
fn a_text_with_slashes_is_one_part_of_a_path() {
    for text in ["192.0.2.0/24", "http://a.test/?q=1&b=%2F", "caf\u{e9} + 1"] {
        assert!(!escaped(text).contains('/'));
        assert_eq!(unescaped(&escaped(text)), text);
    }
}
