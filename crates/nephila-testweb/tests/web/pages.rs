//! The served content: the same bytes by every way, and the oddities of the settings.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hickory_proto::rr::RecordType;
use http_body_util::Empty;
use hyper::Request;
use hyper_util::rt::TokioIo;
use nephila_testweb::model::{Fate, PageKind, Place, What};
use nephila_testweb::settings::Encoding;
use nephila_testweb::{RunningWeb, Settings, Web};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Client, whole};

async fn start(settings: Settings) -> (RunningWeb, Client) {
    let web = Web::builder().settings(settings).start().await.unwrap();
    let client = Client::new(&web);
    (web, client)
}

/// A plain web where half of the hosts have https.
fn two_schemes() -> Settings {
    Settings { hosts: 8, pages: 80, https_share: 0.5, ..Settings::default() }
}

#[tokio::test]
async fn pages_come_by_http1_and_by_http2_over_tls() {
    let (web, client) = start(two_schemes()).await;
    let mut versions = HashSet::new();
    for url in web.urls().step_by(7) {
        let answer = client.get(&url).await.unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(answer.http2, url.starts_with("https://"));
        versions.insert(answer.http2);
    }
    assert_eq!(versions.len(), 2);
    let log = web.stop().await;
    assert!(log.requests.iter().all(|request| request.http2 == request.tls && request.is_complete));
    assert_eq!(log.connections.len(), log.requests.len());
}

#[tokio::test]
async fn a_web_without_http2_speaks_http1_to_clients_that_offer_both() {
    let (web, client) = start(Settings { https_share: 1.0, http2: false, ..two_schemes() }).await;
    for url in web.urls().step_by(9) {
        let answer = client.get(&url).await.unwrap();
        assert!(url.starts_with("https://") && answer.status == 200 && !answer.http2, "{url}");
    }
    assert!(web.stop().await.requests.iter().all(|request| request.tls && !request.http2));
}

#[tokio::test]
async fn two_servers_with_one_seed_have_the_same_bytes() {
    // There is only one ::1, and the three share their ports.
    let quiet = Settings { tarpit_share: 0.0, dead_share: 0.0, ipv6: false, ..Settings::mixed() };
    let settings = Settings { hosts: 30, pages: 300, ..quiet };
    let (first, client) = start(settings.clone()).await;
    let ports = Settings { http_port: first.http_port(), https_port: first.https_port(), ..settings };
    let (second, other_client) = start(Settings { address_block: 78, ..ports.clone() }).await;
    let (third, third_client) = start(Settings { address_block: 79, seed: 2, ..ports }).await;
    let mut differ = 0;
    for url in first.urls().step_by(3) {
        let a = client.get(&url).await.unwrap();
        let b = other_client.get(&url).await.unwrap();
        assert_eq!((a.status, &a.body), (b.status, &b.body), "{url}");
        assert_eq!(a.header("etag"), b.header("etag"));
        let c = third_client.get(&url).await;
        differ += u32::from(c.is_err() || c.is_ok_and(|c| c.body != a.body));
    }
    assert!(differ > 90, "another seed must be another web, but only {differ} pages differ");
    drop((second, third));
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let (web, _) = start(Settings::default()).await;
    let stream = TcpStream::connect((web.world().address(0), web.http_port())).await.unwrap();
    let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let running = tokio::spawn(connection);
    for page in 1..=20 {
        let request = Request::get(format!("/p/{page}")).header("host", "h0.d0.test");
        let response = send.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        assert_eq!(whole(response, false).await.unwrap().status, 200);
    }
    drop(send);
    running.await.unwrap().unwrap();
    let log = web.stop().await;
    assert_eq!((log.connections.len(), log.requests.len()), (1, 20));
    assert_eq!(log.connections[0].requests, 20);
    for pair in log.requests.windows(2) {
        assert!(pair[0].end_us <= pair[1].start_us && pair[0].connection == pair[1].connection);
    }
}

#[tokio::test]
async fn plain_connections_may_speak_http2_from_the_start() {
    let (web, _) = start(Settings::default()).await;
    let stream = TcpStream::connect((web.world().address(0), web.http_port())).await.unwrap();
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut send, connection) =
        hyper::client::conn::http2::handshake(executor, TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://h0.d0.test/p/1").body(Empty::<Bytes>::new()).unwrap();
    let answer = whole(send.send_request(request).await.unwrap(), true).await.unwrap();
    assert_eq!(answer.status, 200);
    drop(send);
    assert!(web.stop().await.requests[0].http2);
}

#[tokio::test]
async fn every_coding_carries_the_same_page() {
    let encodings = vec![Encoding::Zstd, Encoding::Brotli, Encoding::Gzip];
    let (web, client) = start(Settings { encodings, ..two_schemes() }).await;
    for url in web.urls().step_by(11) {
        let plain = client.get(&url).await.unwrap();
        assert_eq!(plain.header("content-encoding"), None);
        for token in ["gzip", "br", "zstd"] {
            let coded = client.get_with(&url, &[("accept-encoding", token)]).await.unwrap();
            assert_eq!(coded.header("content-encoding"), Some(token));
            assert!(coded.body.len() < plain.body.len() * 2 / 3, "{token} {}", coded.body.len());
            assert_eq!(coded.decoded(), plain.body, "{url} {token}");
        }
    }
}

#[tokio::test]
async fn unchanged_pages_answer_304_until_they_change() {
    let (web, client) = start(Settings { change_share: 1.0, ..Settings::default() }).await;
    let url = web.urls().nth(5).unwrap();
    let first = client.get(&url).await.unwrap();
    let tag = first.header("etag").unwrap().to_owned();
    let modified = first.header("last-modified").unwrap().to_owned();
    for condition in [("if-none-match", tag.as_str()), ("if-modified-since", &modified)] {
        let again = client.get_with(&url, &[condition]).await.unwrap();
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    }
    web.advance(Duration::from_secs(86_400 * 90));
    let changed = client.get_with(&url, &[("if-none-match", &tag)]).await.unwrap();
    assert_eq!(changed.status, 200);
    assert_ne!(changed.body, first.body);
    let log = web.stop().await;
    assert_eq!(log.requests[1].condition.as_deref(), Some(tag.as_str()));
    assert_eq!(log.requests.iter().map(|request| request.status).collect::<Vec<_>>(), [200, 304, 304, 200]);
}

#[tokio::test]
async fn feeds_sitemaps_redirects_and_errors_are_what_the_model_says() {
    let (web, client) = start(Settings { hosts: 40, pages: 4000, ..Settings::mixed() }).await;
    let world = web.world();
    let alive = |host: &u32| world.fate(*host) == Fate::Alive;
    let with_feed = (0..40).filter(alive).find(|host| world.has_feed(*host)).unwrap();
    let feed = world.url(Place { host: with_feed, what: What::Feed });
    let before = String::from_utf8(client.get(&feed).await.unwrap().decoded()).unwrap();
    assert_eq!(before.matches("/news/").count() % 20, 0);
    let next = world.url(Place { host: with_feed, what: What::News(20) });
    assert!(!before.contains(&next));
    assert_eq!(client.get(&next).await.unwrap().status, 404, "news came before its time");
    web.advance(Duration::from_secs(86_400));
    assert_eq!(client.get(&next).await.unwrap().status, 200);

    let mut packed = HashSet::new();
    for host in (0..40).filter(alive).filter(|host| world.has_sitemap(*host)) {
        let index = client.get(&world.url(Place { host, what: What::Sitemaps })).await.unwrap();
        let first = world.url(Place { host, what: What::Sitemap(0) });
        assert!(String::from_utf8(index.decoded()).unwrap().contains(&first));
        let file = client.get(&first).await.unwrap();
        packed.insert(file.header("content-type") == Some("application/gzip"));
    }
    assert_eq!(packed.len(), 2, "some hosts pack their sitemaps and some do not");

    let mut kinds = HashSet::new();
    for place in world.pages().filter(|place| alive(&place.host)).take(400) {
        let What::Page(page) = place.what else { unreachable!() };
        let kind = world.page_kind(place.host, page);
        if kinds.insert(std::mem::discriminant(&kind)) {
            let answer = client.get(&world.url(place)).await.unwrap();
            match kind {
                PageKind::Normal | PageKind::Duplicate(_) => assert_eq!(answer.status, 200),
                PageKind::Error(status) => assert_eq!(answer.status.as_u16(), status),
                PageKind::Redirect { status, to } => {
                    assert_eq!(answer.status.as_u16(), status);
                    let location = answer.header("location").unwrap();
                    assert!(location == world.path(to) || location == world.url(to), "{location}");
                }
            }
        }
    }
    assert_eq!(kinds.len(), 4);
}

#[tokio::test]
async fn a_tarpit_drips_and_its_robots_txt_does_not() {
    let pace = Duration::from_millis(20);
    let (web, mut client) =
        start(Settings { tarpit_share: 1.0, tarpit_pace: pace, hosts: 3, ..Settings::default() }).await;
    client.answer_max = Duration::from_millis(300);
    let url = |what| web.world().url(Place { host: 1, what });
    assert_eq!(client.get(&url(What::Robots)).await.unwrap().status, 200);
    assert!(client.get(&url(What::Page(0))).await.is_err(), "the page ended");
    // The client has gone; the server finds out at its next drop.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let log = web.stop().await;
    let page = log.requests.iter().find(|request| request.path == "/").unwrap();
    assert!(!page.is_complete && page.bytes > 3 && page.bytes < 30, "{}", page.bytes);
}

#[tokio::test]
async fn dead_hosts_have_no_name_or_refuse() {
    let (web, client) = start(Settings { dead_share: 1.0, hosts: 20, ..Settings::default() }).await;
    let (mut nameless, mut refusing) = (0, 0);
    for host in 1..20 {
        let url = web.world().url(Place { host, what: What::Page(0) });
        let error = format!("{:#}", client.get(&url).await.unwrap_err());
        match web.world().fate(host) {
            Fate::Nameless => {
                assert!(error.contains("Non-Existent Domain"), "{error}");
                nameless += 1;
            }
            Fate::Refusing => {
                assert!(error.contains("refused"), "{error}");
                refusing += 1;
            }
            fate => panic!("{fate:?}"),
        }
    }
    assert!(nameless > 0 && refusing > 0);
}

#[tokio::test]
async fn thousands_of_addresses_need_no_socket_each() {
    let settings = Settings { addresses: 5000, hosts: 100, address_block: 80, ..Settings::default() };
    let (web, client) = start(Settings { dead_share: 0.2, ..settings }).await;
    let mut seen = HashSet::new();
    for host in 0..100 {
        let url = web.world().url(Place { host, what: What::Page(0) });
        match web.world().fate(host) {
            Fate::Alive => assert_eq!(client.get(&url).await.unwrap().status, 200),
            Fate::Refusing => drop(client.get(&url).await.unwrap_err()),
            _ => continue,
        }
        seen.extend(client.resolve(&web.world().name(host), RecordType::A).await.unwrap());
    }
    assert!(seen.len() > 60);
    let log = web.stop().await;
    let noted: HashSet<_> = log.requests.iter().map(|request| request.local).collect();
    assert!(noted.len() > 60 && noted.is_subset(&seen));
}

#[tokio::test]
async fn ipv6_is_served_where_the_machine_has_it() {
    let (web, client) = start(Settings { ipv6: true, ..Settings::default() }).await;
    let addresses = client.resolve("h0.d0.test", RecordType::AAAA).await.unwrap();
    let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    assert_eq!(addresses.len(), usize::from(has_ipv6));
    for address in addresses {
        let mut stream = TcpStream::connect((address, web.http_port())).await.unwrap();
        stream
            .write_all(b"GET /p/1 HTTP/1.1\r\nHost: h0.d0.test\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}

#[tokio::test]
async fn answers_are_held_back_as_long_as_drawn() {
    let latency = Duration::from_millis(40);
    let (web, client) = start(Settings { latency, latency_sigma: 0.0, ..Settings::default() }).await;
    let before = Instant::now();
    client.get(&web.urls().next().unwrap()).await.unwrap();
    assert!(before.elapsed() >= latency);
    let log = web.stop().await;
    assert!(log.requests[0].end_us - log.requests[0].start_us >= 40_000);
}

#[tokio::test]
async fn head_and_strange_requests_are_answered_too() {
    let (web, _) = start(Settings::default()).await;
    let cases = [
        ("HEAD /p/1", "h0.d0.test", "HTTP/1.1 200 OK"),
        ("POST /p/1", "h0.d0.test", "HTTP/1.1 405 Method Not Allowed"),
        ("GET /nowhere", "h0.d0.test", "HTTP/1.1 404 Not Found"),
        ("GET /", "stranger.test", "HTTP/1.1 421 Misdirected Request"),
    ];
    for (line, host, status) in cases {
        let mut stream = TcpStream::connect((web.world().address(1), web.http_port())).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(status), "{line}: {answer}");
        if line.starts_with("HEAD") {
            assert!(answer.contains("content-length: ") && answer.ends_with("\r\n\r\n"), "{answer}");
        }
    }
    assert_eq!(web.stop().await.requests.len(), 4);
}

#[test]
fn a_web_on_its_own_threads_ends_when_it_is_dropped() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (web, client) = start(Settings { threads: 1, ..Settings::default() }).await;
        let url = web.urls().next().unwrap();
        assert_eq!(client.get(&url).await.unwrap().status, 200);
        let to = (web.world().address(0), web.http_port());
        drop(web);
        for _ in 0..100 {
            if TcpStream::connect(to).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("still listening a second after the end");
    });
}
