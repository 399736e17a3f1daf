//! Links over the table of operations and through a real server: what they open, and what they do not.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::answers::tests::{World, log_lines, offer, world};
use crate::timeline::RequestSaid;
use crate::{Answers, Guard, Keys, Questions, Reply, Routes, Token, operations, serve};

async fn ask(world: &World, method: Method, target: &str, accept: &str, body: &Value) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
    headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:6374"));
    let mut asked = HttpQuestion::new(method, target, headers, false);
    asked.body = body.to_string().into();
    Reply::of(world.questions.answer(asked).await).await
}

async fn get(world: &World, target: &str) -> Reply {
    ask(world, Method::GET, target, "*/*", &Value::Null).await
}

async fn link(world: &World, kind: &str, name: &str) -> LinkSaid {
    let body = json!({"kind": kind, "name": name});
    let reply = ask(world, Method::POST, "/api/v1/links", "*/*", &body).await;
    assert_eq!(reply.status, 200, "{:?}", reply.problem());
    reply.json().unwrap()
}

/// The address of the data of a page.
fn data_of(path: &str) -> String {
    path.replacen("/public/", "/public/v1/", 1)
}

/// A crawl with requests to two hosts.
async fn crawled() -> World {
    let world = world();
    offer(&world, &["http://a.test/docs/1", "http://a.test/docs/2", "http://b.test/1"]).await;
    let requests = [
        (5_000, "http://a.test/docs/1?<b>"),
        (6_010, "http://a.test/docs/2"),
        (6_500, "http://b.test/secret"),
        (6_900, "http://a.test:8080/other"),
    ];
    log_lines(&world, &requests);
    world
}

#[tokio::test]
async fn a_link_opens_a_page_and_its_data() {
    let world = crawled().await;
    let made = link(&world, "host", "https://A.test/x").await;
    assert_eq!((made.kind, &*made.name), (Kind::Host, "a.test"));
    assert_eq!(made.url, format!("http://127.0.0.1:6374{}", made.path));
    let page = ask(&world, Method::GET, &made.path, "text/html", &Value::Null).await;
    assert_eq!((page.status.as_u16(), page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.field("content-security-policy").unwrap().starts_with("default-src 'none'"));
    let reply = get(&world, &data_of(&made.path)).await;
    for answer in [&page, &reply] {
        assert_eq!(answer.field("referrer-policy"), Some("no-referrer"));
        assert!(answer.field("x-robots-tag").unwrap().contains("noindex"));
        assert_eq!((answer.field("cache-control"), answer.field("set-cookie")), (Some("no-store"), None));
    }
    let host: PublicHost = reply.json().unwrap();
    let paths: Vec<&str> = host.requests.iter().map(|request| &*request.path).collect();
    assert_eq!(paths.len(), 2, "{paths:?}");
    assert!(paths[0] == "/docs/2" && paths[1].starts_with("/docs/1?"), "{paths:?}");
    assert_eq!((host.requests[0].gap_ms, host.requests[0].promised_ms), (Some(1_000), 1_000));
    assert_eq!((host.requests_total, host.violations, host.sites.len()), (2, 0, 1));
    assert_eq!((&*host.sites[0].origin, host.sites[0].queued), ("http://a.test", 2));
    assert_eq!(host.crawler.agent, "Nephila");
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    assert!(!text.contains("b.test") && !text.contains("8080") && !text.contains("127.0.0.1"), "{text}");

    let made = link(&world, "job", "press").await;
    let reply = get(&world, &data_of(&made.path)).await;
    let job: PublicJob = reply.json().unwrap();
    assert_eq!((&*job.job, &*job.state, job.queued, job.pages), ("press", "running", 3, 0));
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    for hidden in ["a.test", "b.test", "nonsense", "exclude", "seeds"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
}

#[tokio::test]
async fn links_that_open_nothing_get_one_answer_whatever_is_wrong_with_them() {
    let world = crawled().await;
    let host = link(&world, "host", "a.test").await.path;
    let job = link(&world, "job", "press").await.path;
    let over = {
        let secret = LinkSecret::in_folder(Folder::new(world.dir.path())).made().unwrap();
        let subject = Subject::named(Kind::Host, "a.test").unwrap();
        let now = Clock::new().now().wall;
        assert_eq!(made(&secret, &subject, 60, now).1.len(), host.len());
        let past = now.0 / 1_000 - 1;
        subject.target(past, &secret.sign(&subject, past))
    };
    let gone = {
        let secret = LinkSecret::in_folder(Folder::new(world.dir.path())).made().unwrap();
        made(&secret, &Subject::named(Kind::Job, "gone").unwrap(), 60, Clock::new().now().wall).1
    };
    let query = host.split_once('?').unwrap().1;
    let wrong = [
        over.clone(),
        gone.clone(),
        host.replace("a.test", "b.test"),
        host.replace("a.test", "a.test:8080"),
        host.replace("/host/a.test", "/job/press"),
        job.replace("/job/press", "/host/press"),
        host.replace("key=", "key=A"),
        {
            let (rest, key) = host.split_once("key=").unwrap();
            format!("{rest}key={}{}", &key[1..], &key[..1])
        },
        host.replace("until=1", "until=2"),
        host.split_once('?').unwrap().0.to_owned(),
        host.split_once("&key").unwrap().0.to_owned(),
        format!("/public/host/none.test?{query}"),
    ];
    let mut answers = BTreeSet::new();
    for target in &wrong {
        let reply = get(&world, &data_of(target)).await;
        assert_eq!(
            (reply.status.as_u16(), reply.field("cache-control")),
            (404, Some("no-store")),
            "{target}"
        );
        answers.insert(reply.body.to_vec());
        // The page of a job that is gone opens: its data says the same as for all others.
        if *target != gone {
            for accept in ["text/html,*/*", "*/*"] {
                let page = ask(&world, Method::GET, target, accept, &Value::Null).await;
                assert_eq!(page.status, 404, "{target}");
                answers.insert(page.body.to_vec());
            }
        }
    }
    assert_eq!(answers.len(), 2, "one as JSON, one for people");
    for target in [&host, &job] {
        assert_eq!(get(&world, target).await.status, 200, "the right ones still open");
        assert_eq!(get(&world, &data_of(target)).await.status, 200);
    }
}

#[tokio::test]
async fn a_wanted_link_is_checked() {
    let world = crawled().await;
    for (body, status) in [
        (json!({"kind": "host", "name": "a.test", "for_s": LIFE_MAX}), 200),
        (json!({"kind": "host", "name": "a.test", "for_s": LIFE_MIN}), 200),
        (json!({"kind": "host", "name": "never-seen.test"}), 200),
        (json!({"kind": "host", "name": "a.test", "for_s": LIFE_MAX + 1}), 400),
        (json!({"kind": "host", "name": "a.test", "for_s": 0}), 400),
        (json!({"kind": "host", "name": "a b"}), 400),
        (json!({"kind": "host", "name": ""}), 400),
        (json!({"kind": "node", "name": "a.test"}), 400),
        (json!({"kind": "host", "name": "a.test", "until": 9}), 400),
        (json!({"name": "a.test"}), 400),
        (json!({"kind": "job", "name": "other"}), 404),
        (Value::Null, 400),
    ] {
        let reply = ask(&world, Method::POST, "/api/v1/links", "*/*", &body).await;
        assert_eq!(reply.status.as_u16(), status, "{body}");
    }
    let unseen = link(&world, "host", "never-seen.test").await;
    let host: PublicHost = get(&world, &data_of(&unseen.path)).await.json().unwrap();
    assert_eq!((host.requests_total, host.sites.len(), host.requests.len()), (0, 0, 0));
}

#[tokio::test]
async fn a_hundred_readers_get_the_same_answer() {
    let world = crawled().await;
    let target = data_of(&link(&world, "host", "a.test").await.path);
    let began = Instant::now();
    let first = get(&world, &target).await;
    assert_eq!(first.status, 200);
    log_lines(&world, &[(9_000, "http://a.test/later")]);
    for _ in 0..100 {
        let reply = get(&world, &target).await;
        // On a busy machine the answer may have become old meanwhile.
        if began.elapsed() >= shelf::AGE {
            return;
        }
        match reply.status.as_u16() {
            200 => assert_eq!(reply.body, first.body),
            status => assert_eq!((status, reply.field("retry-after")), (429, Some("1"))),
        }
    }
}

/// A server that does not reach the owner of a host, and answers about its requests with this status after this time.
struct Fake {
    public: Public,
    timeline: (StatusCode, Duration),
    polite: (StatusCode, Duration),
}

impl Fake {
    fn new(timeline: (u16, u64), polite: (u16, u64)) -> Fake {
        let public = Public::new(LinkSecret::of_cluster(&[7; 16], ""), &Settings::default());
        let part = |(status, seconds)| (StatusCode::from_u16(status).unwrap(), Duration::from_secs(seconds));
        Fake { public, timeline: part(timeline), polite: part(polite) }
    }

    async fn find(&self, name: &str) -> Result<Option<Bytes>, Busy> {
        find_host(self, &self.public, &Subject::named(Kind::Host, name).unwrap()).await
    }
}

async fn later((status, time): (StatusCode, Duration), said: impl Serialize + Send) -> HttpAnswer {
    tokio::time::sleep(time).await;
    reply(status, "application/json", as_json(&said).unwrap())
}

impl Answers for Fake {
    fn routes() -> &'static Routes<Fake> {
        static ROUTES: LazyLock<Routes<Fake>> = LazyLock::new(|| {
            let host =
                route::<Fake>(&operations::HOST, |_, _| Box::pin(std::future::pending::<HttpAnswer>()));
            let timeline = route::<Fake>(&operations::TIMELINE, |fake, asked| {
                Box::pin(async move {
                    let url = asked.parameter("url").unwrap();
                    let requests = vec![RequestSaid { at_ms: 5_000, url, ..RequestSaid::default() }];
                    later(fake.timeline, TimelineSaid { requests, ..TimelineSaid::default() }).await
                })
            });
            let polite = route::<Fake>(&operations::POLITENESS, |fake, _| {
                Box::pin(async move {
                    let said = PolitenessSaid { requests: 1, ..PolitenessSaid::default() };
                    later(fake.polite, said).await
                })
            });
            Routes::new("a node without the owner of a host", [host, timeline, polite])
        });
        &ROUTES
    }
}

impl Publishes for Fake {
    fn public(&self) -> Option<&Public> {
        Some(&self.public)
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_never_says_that_there_were_no_requests_because_nobody_answered() {
    for (timeline, polite) in
        [((503, 0), (200, 0)), ((200, 0), (503, 0)), ((200, 60), (200, 0)), ((200, 0), (200, 60))]
    {
        let found = Fake::new(timeline, polite).find("a.test").await;
        assert_eq!(found, Err(Busy::NotNow), "{timeline:?} {polite:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_whose_owner_does_not_answer_shows_its_requests_before_readers_give_up() {
    let began = tokio::time::Instant::now();
    let found = Fake::new((200, 3), (200, 3)).find("a.test").await.unwrap().unwrap();
    assert_eq!(began.elapsed().as_secs(), HOST_TIMEOUT.as_secs() + 3, "all at the same time");
    let said: PublicHost = serde_json::from_slice(&found).unwrap();
    assert_eq!((said.requests_total, said.requests.len()), (2, 2), "one over each scheme");
    let states: Vec<&str> = said.sites.iter().map(|site| &*site.state).collect();
    assert_eq!(states, ["unknown", "unknown"]);
}

/// Sends a request to a server, and returns the status.
async fn status_of(address: std::net::SocketAddr, method: &str, target: &str) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(Duration::from_secs(20), read).await.unwrap().unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn sec_04_a_link_opens_no_other_operation() {
    let world = crawled().await;
    let host = link(&world, "host", "a.test").await.path;
    let (path, query) = host.split_once('?').unwrap();
    let token = Token { name: "all".into(), secret: "secret".into(), role: Role::Admin, per_second: 1_000 };
    let guard = Guard::Token(Arc::new(Keys::new([token], "nodes".into(), "one")));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (questions, _rest) = world.split();
    let server = tokio::spawn(serve(listener, Arc::new(questions), guard, None, 64));
    let (mut open, mut closed) = (BTreeSet::new(), 0);
    for operation in <Questions as Answers>::routes().operations() {
        let parts = operation.path.split('/').map(|part| if part.starts_with('{') { "a.test" } else { part });
        let target = format!("{}?{query}&url=http://a.test/&q=x", parts.collect::<Vec<_>>().join("/"));
        let status = status_of(address, operation.verb.name(), &target).await;
        assert_eq!(status == 401, operation.role.is_some(), "{}: {status}", operation.id);
        assert_eq!(operation.is_by_link, operation.path.starts_with(PREFIX), "{}", operation.id);
        match status {
            200 => _ = open.insert(operation.id),
            _ => closed += 1,
        }
    }
    let everybody = BTreeSet::from(["isLive", "isReady", "getDashboard"]);
    let opened: Vec<&str> = open.difference(&everybody).copied().collect();
    assert_eq!(opened, ["getPublicHost", "getPublicHostPage"]);
    assert!(closed > 40, "{closed}");
    for other in
        ["/public/host/b.test", "/public/v1/host/b.test", "/public/job/press", "/public/v1/job/press"]
    {
        assert_eq!(status_of(address, "GET", &format!("{other}?{query}")).await, 404, "{other}");
    }
    assert_eq!(status_of(address, "POST", &format!("{path}?{query}")).await, 401, "only GET is for all");
    server.abort();
}

#[test]
fn links_begin_with_the_set_address_or_that_of_the_request() {
    let mut settings = Settings::default();
    let asked = |host: &str, is_tls| {
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
        HttpQuestion::new(Method::POST, "/", headers, is_tls)
    };
    let url = |settings: &Settings, asked: Option<&HttpQuestion>| Base::of(settings).url(asked, "/public/x");
    assert_eq!(url(&settings, None), "http://127.0.0.1:6374/public/x");
    assert_eq!(url(&settings, Some(&asked("one.test:7000", true))), "https://one.test:7000/public/x");
    assert_eq!(url(&settings, Some(&asked("nephila", false))), "http://127.0.0.1:6374/public/x");
    assert_eq!(url(&settings, Some(&asked("a/b?c", false))), "http://127.0.0.1:6374/public/x");
    settings.api.advertise = "one.test:6374".into();
    settings.api.tls_cert_file = "x.pem".into();
    assert_eq!(url(&settings, None), "https://one.test:6374/public/x");
    settings.api.public_url = "https://crawl.example.org/them/".into();
    assert_eq!(url(&settings, Some(&asked("one.test", false))), "https://crawl.example.org/them/public/x");
}
