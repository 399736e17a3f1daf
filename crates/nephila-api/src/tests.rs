//! Sends requests to a worker over an empty folder, over the socket and directly.

use nephila_core::job::{Job, JobId};
use nephila_core::url::CrawlUrl;
use nephila_core::want::Want;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use std::time::Duration;

use super::*;
use nephila_engine::folder::Plan;
use nephila_engine::settings::Settings;
use nephila_engine::worker::{Link, Running};

pub(crate) struct World {
    _dir: tempfile::TempDir,
    pub(crate) folder: Folder,
    running: Running,
    pub(crate) questions: Arc<Questions>,
}

pub(crate) fn world(deep: &str) -> World {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path().join(deep));
    std::fs::create_dir_all(folder.state()).unwrap();
    let mut job = Job::new(JobId(1), "press");
    job.scope.seeds = vec!["http://a.test/docs/".into()];
    job.scope.exclude = vec!["/docs/no".into()];
    folder.set_plan(&Plan::of(job)).unwrap();
    let settings = Settings::default();
    let running = nephila_engine::wire::worker(&folder, &settings, false).unwrap();
    let questions = Arc::new(Questions::new(running.handle.clone(), folder.clone(), settings));
    World { _dir: dir, folder, running, questions }
}

async fn offer(world: &World, url: &str) {
    let url = CrawlUrl::parse(url).unwrap();
    let link = Link { url, want: Want::of(JobId(1)).at(1) };
    world.running.handle.offer_durably(&[link]).await.unwrap();
}

async fn raw(world: &World, request: &[u8]) -> String {
    let mut stream = through(&world.folder.socket(), |path| {
        let stream = std::os::unix::net::UnixStream::connect(path)?;
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    })
    .unwrap();
    // The server may hang up before it has read all.
    stream.write_all(request).await.ok();
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.unwrap().ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn every_gate_gives_its_reason() {
    let world = world("crawl");
    let explain = async |url: &str| world.questions.explain(url).await.unwrap();
    let unknown = explain("http://a.test/docs/x").await;
    assert_eq!(unknown.summary, Summary::Unknown, "{unknown:?}");
    assert!(!unknown.summary.is_yes());
    let out = explain("http://b.test/").await;
    assert_eq!(out.summary, Summary::OutOfScope, "{out:?}");
    assert!(out.because.contains("scope=prefix"), "{out:?}");
    let excluded = explain("http://a.test/docs/no/1").await;
    assert_eq!(
        (excluded.summary, excluded.scope.unwrap().origin),
        (Summary::OutOfScope, "exclude #1".into())
    );
    let trap = explain("http://a.test/docs/a/a/a/a/a/a/a").await;
    assert_eq!(trap.summary, Summary::Trap, "{trap:?}");
    let bad = explain("mailto:x@y").await;
    assert_eq!(bad.summary, Summary::BadUrl, "{bad:?}");
    offer(&world, "http://a.test/docs/x").await;
    let queued = explain("http://A.test:80/docs/./x").await;
    assert_eq!(queued.summary, Summary::Queued, "{queued:?}");
    assert_eq!(queued.canonical.as_deref(), Some("http://a.test/docs/x"));
    assert!(queued.summary.is_yes() && queued.found.is_some() && queued.depth == Some(1), "{queued:?}");
    let host = world.questions.host("a.test").await.unwrap().unwrap();
    assert_eq!((host.origin.as_str(), host.waiting), ("http://a.test", 1));
    assert_eq!(world.questions.host("nobody.test").await.unwrap(), None);
}

#[tokio::test]
async fn the_scope_follows_the_plan() {
    let world = world("crawl");
    let url = "http://www.a.test/docs/x";
    assert_eq!(world.questions.explain(url).await.unwrap().summary, Summary::OutOfScope);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut plan = world.folder.plan().unwrap().unwrap();
    plan.moved.push("http://www.a.test/docs/".into());
    world.folder.set_plan(&plan).unwrap();
    assert_eq!(world.questions.explain(url).await.unwrap().summary, Summary::Unknown);
}

#[tokio::test]
async fn the_socket_answers_the_same_however_deep_it_lies() {
    for deep in ["crawl", &"d".repeat(150)] {
        let world = world(deep);
        offer(&world, "http://a.test/docs/x?a=1&b=%25+c").await;
        let server = tokio::spawn(serve(
            listen(&world.folder).unwrap(),
            world.questions.clone(),
            Guard::Owner,
            None,
            CONNECTIONS_MAX,
        ));
        let url = "http://a.test/docs/x?a=1&b=%25+c";
        let request = format!(
            "GET /api/v1/explain?url={} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
            escaped(url)
        );
        let answer = raw(&world, request.as_bytes()).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
        let explained: Explained = serde_json::from_str(body).unwrap();
        assert_eq!((explained.summary, explained.url.as_str()), (Summary::Queued, url));
        for (request, status) in [
            ("GET /api/v1/stats HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "200"),
            ("GET /api/v1/explain HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "400"),
            ("GET /else HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "404"),
            (
                "POST /api/v1/stats HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                "405",
            ),
            ("nonsense\r\n\r\n", "400"),
        ] {
            let answer = raw(&world, request.as_bytes()).await;
            assert_eq!(answer.split(' ').nth(1), Some(status), "{request}: {answer}");
        }
        // API-10: a captured page may have set so many cookies that no server answers this browser any more.
        for (bytes, flooded) in [(4_000, false), (180 * 4_096, true)] {
            let cookie = "x".repeat(bytes);
            let request = format!(
                "GET /api/v1/stats HTTP/1.1\r\nhost: x\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
            );
            let answer = raw(&world, request.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            assert_eq!(answer.contains("clear-site-data: \"cookies\""), flooded, "{answer}");
        }
        // A head without end is cut off.
        let endless = format!("GET /{} HTTP/1.1\r\n", "x".repeat(3 << 20));
        let answer = raw(&world, endless.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
        server.abort();
        _ = server.await;
        assert!(listen(&world.folder).is_ok(), "what is left over is replaced");
    }
}

#[tokio::test]
async fn sec_07_many_who_say_nothing_or_little_keep_nobody_out() {
    let world = world("crawl");
    let server = tokio::spawn(serve(
        listen(&world.folder).unwrap(),
        world.questions.clone(),
        Guard::Owner,
        None,
        CONNECTIONS_MAX,
    ));
    let mut idle = Vec::new();
    for number in 0..3 * CONNECTIONS_MAX {
        let mut stream = UnixStream::connect(world.folder.socket()).await.unwrap();
        if number % 2 == 1 {
            // A body that never comes.
            let head = b"POST /api/v1/urls HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n[";
            _ = stream.write_all(head).await;
        }
        idle.push(stream);
        if number % CONNECTIONS_MAX == CONNECTIONS_MAX - 1 {
            let began = std::time::Instant::now();
            let request = b"GET /api/v1/stats HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            let answer = raw(&world, request).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            // Waiting for those before it would take five seconds for heads and fifteen for bodies.
            assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        }
    }
    server.abort();
}
