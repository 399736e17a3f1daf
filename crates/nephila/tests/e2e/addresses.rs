//! Names with several addresses, of which some are dead, silent or forbidden: a whole crawl at the settings we ship
//! gets every page from the addresses that answer, and tries each of the others once.
//!
//! The site listens on some addresses of loopback, on one port; the resolver is a few lines and knows one name. Only
//! settings that a test on loopback needs are changed: the address of the resolver, and the allowed addresses and
//! ports.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
const NAME: &str = "several.test";
/// Maximum size in bytes of a request line and its fields together.
const HEAD_BYTES_MAX: u64 = 64 * 1024;
/// Read timeout of a client that sends nothing.
const READ_MAX: Duration = Duration::from_secs(5);
/// Record types of DNS.
const A: u16 = 1;
const AAAA: u16 = 28;

/// The requests: the address of the server, and the path.
type Asked = Arc<Mutex<Vec<(IpAddr, String)>>>;

struct Site {
    port: u16,
    dns: SocketAddr,
    asked: Asked,
    dir: tempfile::TempDir,
    /// Addresses that take no connection and say nothing.
    _silent: Vec<(TcpListener, Vec<TcpStream>)>,
}

impl Site {
    /// A name with these addresses, in this order. Addresses of `serving` answer, addresses of `silent` accept no
    /// connection and send nothing, and the others have no listener.
    fn start(addresses: &[&str], serving: &[&str], silent: &[&str]) -> Site {
        let asked = Asked::default();
        let (port, listeners) = listen(serving, silent);
        let (serving, silent) = listeners.split_at(serving.len());
        for listener in serving {
            let (listener, asked) = (listener.try_clone().expect("a listener"), asked.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let asked = asked.clone();
                    // A client that goes away in the middle is no trouble of ours.
                    std::thread::spawn(move || drop(serve(stream, &asked)));
                }
            });
        }
        let silent = silent.iter().map(|listener| full(listener.try_clone().expect("a listener"))).collect();
        let dns = name_server(addresses.iter().map(|address| address.parse().expect("an address")).collect());
        Site { port, dns, asked, dir: tempfile::tempdir().expect("a folder"), _silent: silent }
    }

    /// Crawls the site; returns the lines of the log.
    fn crawl(&self, more: &[&str]) -> Vec<Value> {
        let url = format!("http://{NAME}:{}/", self.port);
        let mut command = Command::new(PROGRAM);
        command
            .args(["crawl", &url, "-o", "crawl", "-q", "--config", "/dev/null", "--time-limit", "60s"])
            .args(["--set", &format!("spider.dns_servers=[\"{}\"]", self.dns)])
            .args(["--set", "spider.allow_addresses=[\"127.0.0.0/8\", \"::1/128\"]"])
            .args(["--set", &format!("spider.ports=[{}]", self.port)])
            .args(more)
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .stdin(Stdio::null());
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NEPHILA_CONFIG"] {
            command.env_remove(name);
        }
        let output = command.output().expect("the command runs");
        let logs = self.dir.path().join("crawl/logs");
        let mut files: Vec<_> = std::fs::read_dir(&logs)
            .unwrap_or_else(|_| panic!("no log: {}", String::from_utf8_lossy(&output.stderr)))
            .flatten()
            .map(|file| file.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .collect();
        files.sort();
        let text: String = files.iter().map(|file| std::fs::read_to_string(file).expect("a log")).collect();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of the log")).collect()
    }

    fn asked(&self) -> Vec<(String, String)> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|(address, path)| (address.to_string(), path.clone())).collect()
    }
}

/// Listeners on one port of all these addresses.
fn listen(serving: &[&str], silent: &[&str]) -> (u16, Vec<TcpListener>) {
    let addresses: Vec<IpAddr> =
        serving.iter().chain(silent).map(|address| address.parse().expect("an address")).collect();
    for _ in 0..20 {
        let first = TcpListener::bind((addresses[0], 0)).expect("a port");
        let port = first.local_addr().expect("bound").port();
        let others: Option<Vec<_>> =
            addresses[1..].iter().map(|address| TcpListener::bind((*address, port)).ok()).collect();
        if let Some(others) = others {
            return (port, std::iter::once(first).chain(others).collect());
        }
    }
    panic!("no port is free on all of {addresses:?}");
}

/// A listener whose connections are never accepted: when its queue is full the kernel drops further packets.
fn full(listener: TcpListener) -> (TcpListener, Vec<TcpStream>) {
    let address = listener.local_addr().expect("bound");
    let mut clients = Vec::new();
    while let Ok(client) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        clients.push(client);
        assert!(clients.len() < 10_000, "its queue has no end");
    }
    (listener, clients)
}

fn serve(stream: TcpStream, asked: &Asked) -> std::io::Result<()> {
    stream.set_read_timeout(Some(READ_MAX))?;
    let here = stream.local_addr()?.ip();
    let mut reader = BufReader::new(stream.try_clone()?.take(HEAD_BYTES_MAX));
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().unwrap().push((here, path.clone()));
    let (status, body) = match &*path {
        "/robots.txt" => ("404 Not Found", "no".to_owned()),
        "/" => ("200 OK", "<html><a href=\"/next\">next</a></html>".to_owned()),
        _ => ("200 OK", "<html>nothing more</html>".to_owned()),
    };
    let length = body.len();
    write!(
        &stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// A resolver that knows one name.
fn name_server(addresses: Vec<IpAddr>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let here = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let answer = answer(&buffer[..length], &addresses);
            socket.send_to(&answer, from).ok();
        }
    });
    here
}

/// The answer to a question: its id and its question again, and the addresses of the kind that is asked for.
fn answer(question: &[u8], addresses: &[IpAddr]) -> Vec<u8> {
    let mut end = 12;
    while question[end] != 0 {
        end += usize::from(question[end]) + 1;
    }
    let kind = u16::from_be_bytes([question[end + 1], question[end + 2]]);
    end += 5;
    let records: Vec<Vec<u8>> = addresses
        .iter()
        .filter_map(|address| match address {
            IpAddr::V4(address) if kind == A => Some(address.octets().to_vec()),
            IpAddr::V6(address) if kind == AAAA => Some(address.octets().to_vec()),
            _ => None,
        })
        .collect();
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    answer.extend(&question[12..end]);
    for record in records {
        // The name of the question, class IN, for an hour.
        answer.extend([0xc0, 12]);
        answer.extend(kind.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0x0e, 0x10, 0, record.len() as u8]);
        answer.extend(record);
    }
    answer
}

/// Lines that ended with this outcome.
fn ended<'a>(log: &'a [Value], outcome: &'a str) -> Vec<&'a Value> {
    log.iter().filter(|line| line["outcome"] == outcome).collect()
}

/// Every page of the site, requested once, from this address.
fn all_from(address: &str) -> Vec<(String, String)> {
    ["/robots.txt", "/", "/next"].map(|path| (address.to_owned(), path.to_owned())).to_vec()
}

#[test]
fn fin_03_of_two_addresses_the_dead_one_is_tried_once_and_the_other_gives_everything() {
    let site = Site::start(&["127.77.0.1", "127.77.0.2"], &["127.77.0.2"], &[]);
    let log = site.crawl(&[]);
    assert_eq!(site.asked(), all_from("127.77.0.2"), "{log:#?}");
    let refused = ended(&log, "connect-refused");
    assert_eq!(refused.len(), 1, "{log:#?}");
    assert_eq!(refused[0]["purpose"], "robots", "it was found out by the first request");
    assert!(refused[0]["detail"].as_str().unwrap().starts_with("127.77.0.1"), "{}", refused[0]);
}

#[test]
fn fin_03_ipv6_that_leads_nowhere_keeps_nobody_from_a_site() {
    let site = Site::start(&["::1", "127.77.1.1"], &["127.77.1.1"], &[]);
    let log = site.crawl(&[]);
    assert_eq!(site.asked(), all_from("127.77.1.1"), "{log:#?}");
    let refused = ended(&log, "connect-refused").len() + ended(&log, "connect-unreachable").len();
    assert!(refused <= 1, "{log:#?}");
}

#[test]
fn fin_03_a_private_address_among_good_ones_is_left_out() {
    // Neither is opened: one belongs to a private network, the other to a cloud's metadata service.
    let site = Site::start(&["10.9.8.7", "fd12::1", "169.254.169.254", "127.77.2.1"], &["127.77.2.1"], &[]);
    let log = site.crawl(&[]);
    assert_eq!(site.asked(), all_from("127.77.2.1"), "{log:#?}");
    assert_eq!(log.len(), 3, "nothing was tried in vain: {log:#?}");
}

#[test]
fn fin_03_a_host_with_private_addresses_alone_is_refused_with_the_cause() {
    let site = Site::start(&["10.9.8.7", "169.254.169.254"], &["127.77.3.1"], &[]);
    let log = site.crawl(&[]);
    assert!(site.asked().is_empty());
    assert!(!ended(&log, "address-private").is_empty(), "{log:#?}");
}

#[test]
fn fin_03_two_silent_addresses_of_three_are_waited_for_once_each() {
    let addresses = ["127.77.4.1", "127.77.4.2", "127.77.4.3"];
    let site = Site::start(&addresses, &addresses[2..], &addresses[..2]);
    // Ten seconds each otherwise: a test has not the time for both.
    let log = site.crawl(&["--set", "spider.connect_timeout=1s"]);
    assert_eq!(site.asked(), all_from("127.77.4.3"), "{log:#?}");
    let silent = ended(&log, "connect-timeout");
    let at: Vec<&str> =
        silent.iter().map(|line| line["detail"].as_str().unwrap().split(' ').next().unwrap()).collect();
    assert_eq!(at, addresses[..2], "{log:#?}");
}
