//! The node's side over real connections. The spiders here write their bytes themselves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use nephila_core::spider::Outcome;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Fetched, Keep, Request, Spider};

use super::Remote;
use crate::crawl::stage::Fetch;
use crate::settings::Settings;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

struct Node {
    remote: std::sync::Arc<Remote>,
    control: SocketAddr,
    store: SocketAddr,
}

fn free() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// A node that spiders connect to. Settings that differ from the shipped ones: loopback sites may be asked.
async fn node(change: impl FnOnce(&mut Settings)) -> Node {
    let (control, store) = (free(), free());
    let mut settings = Settings::default();
    settings.spider.allow_addresses = vec!["127.0.0.0/8".parse().unwrap()];
    settings.spiders.v1_listen = control.to_string();
    settings.spiders.store_listen = store.to_string();
    change(&mut settings);
    let spider = Spider::new(settings.spider.clone(), "test").unwrap();
    Node { remote: std::sync::Arc::new(Remote::start(&settings, spider).await.unwrap()), control, store }
}

impl Node {
    /// Asks for a URL; the rest of its host is short.
    fn ask(&self, url: &str) -> tokio::task::JoinHandle<Fetched> {
        let request = Request {
            address: Some(Ipv4Addr::LOCALHOST.into()),
            keep: Keep { exchange: true, decoded: true, sha1: false },
            rest: Duration::from_millis(50),
            ..Request::get(CrawlUrl::parse(url).unwrap())
        };
        let remote = self.remote.clone();
        tokio::spawn(async move { remote.fetch(request).await })
    }
}

/// A spider of the pull dialect.
struct Puller {
    lines: BufReader<TcpStream>,
}

impl Puller {
    fn connect(node: &Node, count: u32) -> Puller {
        let mut stream = TcpStream::connect(node.control).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("GET {count}\n").as_bytes()).unwrap();
        Puller { lines: BufReader::new(stream) }
    }

    /// The fields of the next line.
    fn line(&mut self) -> Vec<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().split(' ').map(str::to_owned).collect()
    }

    fn say(&mut self, text: &str) {
        self.lines.get_mut().write_all(text.as_bytes()).unwrap();
    }
}

/// The bytes of a record of a page, as docs/store-v1.md says.
fn record(doc: &str, url: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = doc.parse::<u32>().unwrap().to_be_bytes().to_vec();
    bytes.extend([1, 0, 5, 0, 0, 0, 0, 42]);
    bytes.extend((url.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend((data.len() as u32).to_be_bytes());
    [&bytes, url.as_bytes(), data].concat()
}

async fn ended(fetch: tokio::task::JoinHandle<Fetched>) -> Fetched {
    tokio::time::timeout(PATIENCE, fetch).await.expect("in time").unwrap()
}

/// Runs a spider while the node goes on.
async fn on_thread<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_comes_in_either_order_and_a_lie_harms_nothing() {
    let node = node(|_| {}).await;
    let asks = [node.ask("http://a.test/1"), node.ask("http://b.test/2")];
    let store = node.store;
    let mut spider = Puller::connect(&node, 2);
    let spider = on_thread(move || {
        let mut store = TcpStream::connect(store).unwrap();
        for _ in 0..2 {
            let line = spider.line();
            let [trans, doc, ip, host, url] = &line[..] else { panic!("{line:?}") };
            assert_eq!((ip.as_str(), url.contains(host.as_str())), ("127.0.0.1", true));
            // Another URL, a document that nobody asked for, then the truth, and a second record.
            store.write_all(&record(doc, "http://evil.test/", b"evil")).unwrap();
            store.write_all(&record("4000000000", url, b"evil")).unwrap();
            let done = format!("DONE {trans}\n");
            if url.ends_with('1') {
                spider.say(&done);
                store.write_all(&record(doc, url, b"truth")).unwrap();
            } else {
                store.write_all(&record(doc, url, b"truth")).unwrap();
                store.write_all(&record(doc, url, b"evil")).unwrap();
                spider.say(&done);
            }
            spider.say(&done);
        }
        spider
    })
    .await;
    for ask in asks {
        let fetched = ended(ask).await;
        assert_eq!((fetched.outcome, fetched.status, fetched.requests), (Outcome::Fetched, Some(200), 1));
        assert_eq!(&fetched.decoded.unwrap().start(9).unwrap()[..], b"truth");
    }
    let counters = node.remote.desk.state().desk.counters();
    assert_eq!((counters.wrong_url, counters.recorded, counters.lost), (2, 2, 0));
    drop(spider);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_broken_connection_leaves_is_sent_again() {
    let spider_at = free();
    let node = node(|settings| {
        settings.spiders.connect = vec![spider_at];
        settings.spiders.dialect = crate::settings::Dialect::Push;
    })
    .await;
    let (ask, store) = (node.ask("http://a.test/1"), node.store);
    on_thread(move || {
        let listener = TcpListener::bind(spider_at).unwrap();
        let mut docs = Vec::new();
        for turn in 0..2 {
            // The node connects again after a second or two.
            let (stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut lines = BufReader::new(stream);
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            let fields: Vec<&str> = line.trim_end().split(' ').collect();
            let [trans, doc, "127.0.0.1", url] = fields[..] else { panic!("{line}") };
            docs.push(doc.to_owned());
            let whole = record(doc, url, b"hello");
            let mut store = TcpStream::connect(store).unwrap();
            if turn == 0 {
                // The record is cut, and then the connection.
                store.write_all(&whole[..whole.len() - 2]).unwrap();
                continue;
            }
            store.write_all(&whole).unwrap();
            lines.get_mut().write_all(format!("{trans} DONE\n").as_bytes()).unwrap();
            // The node has read all before this end.
            store.shutdown(std::net::Shutdown::Write).unwrap();
            store.read_to_end(&mut Vec::new()).unwrap();
        }
        assert_eq!(docs[0], docs[1], "the same document");
    })
    .await;
    let fetched = ended(ask).await;
    assert_eq!((fetched.outcome, fetched.requests), (Outcome::Fetched, 2));
    assert_eq!(&fetched.decoded.unwrap().start(9).unwrap()[..], b"hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_bad_bytes_and_forbidden_places_are_refused() {
    let node = node(|settings| settings.spiders.v1_from = vec!["127.0.0.2/32".parse().unwrap()]).await;
    let addresses = [node.control, node.store];
    on_thread(move || {
        for address in addresses {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            assert_eq!(stream.read(&mut [0; 9]).unwrap_or(0), 0, "127.0.0.1 is in no network of spiders");
        }
    })
    .await;
    let node = self::node(|_| {}).await;
    let store = node.store;
    on_thread(move || {
        // Padding, success, outcome, status and length, each wrong.
        for (at, byte) in [(7, 1), (4, 2), (5, 253), (6, 200), (12, 0xff)] {
            let mut bytes = record("1", "http://a.test/", b"x");
            bytes[at] = byte;
            let mut stream = TcpStream::connect(store).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(&bytes).unwrap();
            assert_eq!(stream.read(&mut [0; 9]).unwrap_or(0), 0, "closed after byte {at} was {byte}");
        }
    })
    .await;
    for (url, expected) in
        [("http://a.test:9/", Outcome::PortDenied), ("http://a.test/", Outcome::AddressPrivate)]
    {
        let request = Request {
            address: Some("10.0.0.1".parse().unwrap()),
            ..Request::get(CrawlUrl::parse(url).unwrap())
        };
        assert_eq!(node.remote.fetch(request).await.outcome, expected);
    }
    let request = Request { head_only: true, ..Request::get(CrawlUrl::parse("http://a.test/").unwrap()) };
    assert_eq!(node.remote.fetch(request).await.outcome, Outcome::ClientError);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_nobody_waits_for_is_taken_back() {
    let node = node(|_| {}).await;
    let ask = node.ask("http://a.test/1");
    while node.remote.desk.state().desk.open() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ask.abort();
    _ = ask.await;
    let state = node.remote.desk.state();
    assert_eq!((state.desk.open(), state.asks.len(), state.desk.counters().cancelled), (0, 0, 1));
}
