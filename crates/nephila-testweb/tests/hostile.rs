//! The hostile web keeps its promises: every row of the catalogue is served or excused, and the bytes are the ones
//! that were promised, one check per family, with plain sockets.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nephila_testweb::hostile::{CASES, Hostile, INSIDE, NO_SERVER, Settings, Transport};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// Areas of the catalogue this web plays.
const AREAS: &[&str] =
    &["dns", "tcp", "tls", "http1", "http2", "redirect", "encoding", "compression", "ssrf", "url"];
/// Timeout of a single check.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum size of an answer that a check reads, in bytes.
const ANSWER_MAX: u64 = 4 * 1024 * 1024;

#[test]
fn every_row_of_the_catalogue_is_served_or_excused() {
    let served: BTreeSet<&str> = CASES.iter().map(|case| case.id).collect();
    let excused: BTreeSet<&str> = NO_SERVER.iter().map(|(id, _)| *id).collect();
    assert_eq!(served.intersection(&excused).next(), None, "served and excused");
    assert_eq!(served.len(), CASES.len(), "an id stands twice");
    let mut rows = BTreeSet::new();
    for line in include_str!("../catalogue/hostile-web.tsv").lines().skip(1) {
        let mut columns = line.split('\t');
        let (id, area) = (columns.next().unwrap(), columns.next().unwrap());
        if AREAS.contains(&area) {
            rows.insert(id.to_ascii_lowercase());
        }
    }
    assert!(rows.len() > 150, "{}", rows.len());
    for id in &rows {
        assert!(
            served.contains(id.as_str()) || excused.contains(id.as_str()),
            "{id} has no server and no reason"
        );
    }
    for id in served.iter().chain(&excused).filter(|id| **id != "good") {
        assert!(rows.contains(*id), "{id} is not in the catalogue");
    }
}

#[test]
fn every_path_and_label_is_listed_once() {
    for case in CASES.iter() {
        assert!(!case.paths.is_empty(), "{}", case.id);
        let paths: BTreeSet<_> = case.paths.iter().map(|(path, _)| path).collect();
        let labels: BTreeSet<_> = case.labels.iter().map(|(label, _)| label).collect();
        assert_eq!((paths.len(), labels.len()), (case.paths.len(), case.labels.len()), "{}", case.id);
        assert!(paths.iter().all(|path| path.starts_with('/')), "{}", case.id);
    }
}

/// A hostile web in which an hour of the catalogue takes three minutes.
async fn hostile() -> Hostile {
    let settings = Settings { web_time_scale: 0.05, dns_time_scale: 0.05, ca: None };
    Hostile::start(settings).await.unwrap()
}

async fn patiently<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("an answer in time")
}

fn plain(hostile: &Hostile, id: &str) -> SocketAddr {
    (hostile.address(id), hostile.port()).into()
}

/// Everything a plain server sends to one request, up to its close or `ANSWER_MAX`.
async fn get(hostile: &Hostile, id: &str, path: &str) -> Vec<u8> {
    patiently(async {
        let mut stream = TcpStream::connect(plain(hostile, id)).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {id}.hostile.test\r\nX-Test: yes\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        // A connection kept open ends here, because we do not send a second request.
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer).await.unwrap();
        answer
    })
    .await
}

async fn get_text(hostile: &Hostile, id: &str, path: &str) -> String {
    String::from_utf8_lossy(&get(hostile, id, path).await).into_owned()
}

#[tokio::test]
async fn framing_cases_send_the_promised_bytes() {
    let hostile = hostile().await;
    for (id, path, wanted) in [
        ("h1-01", "/", "this line has no colon\r\n"),
        ("h1-08", "/999", "HTTP/1.1 999 "),
        ("h1-12", "/negative", "Content-Length: -5\r\n"),
        ("h1-12", "/digits", "Content-Length: 10000000000000000000005\r\n"),
        ("h1-19", "/17", "\r\n10000000000000005\r\n"),
        ("h1-30", "/dot", "Domain=.h1-30.hostile.test"),
        ("h1-37", "/", "X-Test: yes"),
        ("red-02", "/file", "Location: file:///etc/passwd\r\n"),
        ("red-01", "/chain/40", "Location: /chain/39\r\n"),
        ("enc-05", "/utf7", "+ADw-script+AD4-"),
        ("ssr-04", "/metadata", "Location: http://169.254.169.254/"),
        ("url-01", "/links", "http://2130706433/"),
        ("good", "/chunked", "\r\n0\r\nx-trailer: yes\r\n\r\n"),
        ("good", "/robots.txt", "Allow: /"),
        ("h1-12", "/", "href=\"/negative\""),
    ] {
        let answer = get_text(&hostile, id, path).await;
        assert!(answer.contains(wanted), "{id}{path}: {answer:.300}");
    }
    assert_eq!(
        get_text(&hostile, "h1-22", "/150").await.split("\r\n\r\n").next().unwrap().lines().count() - 1,
        150
    );
    assert!(get(&hostile, "h1-23", "/2m").await.len() > 2 * 1024 * 1024);
    let seen = hostile.requests("h1-37");
    assert_eq!((seen.len(), seen[0].path.as_str(), seen[0].connection), (1, "/", 1));
    assert!(seen[0].head.ends_with(b"X-Test: yes\r\n\r\n"));
    assert_eq!(hostile.connections(INSIDE), 0);
}

/// Every plain path answers with something, and nothing panics or hangs on the way.
#[tokio::test]
async fn every_listed_plain_path_of_http_answers() {
    let hostile = hostile().await;
    let areas = ["h1-", "red-", "enc-", "cmp-", "ssr-", "url-", "good"];
    for case in CASES.iter().filter(|case| areas.iter().any(|area| case.id.starts_with(area))) {
        for (path, what) in case.paths {
            let mut stream = TcpStream::connect(plain(&hostile, case.id)).await.unwrap();
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
            let mut start = [0; 12];
            patiently(stream.read_exact(&mut start)).await.unwrap();
            assert!(&start != b"HTTP/1.1 404" || *path == "/404", "{} {path}: {what}", case.id);
        }
    }
}

#[tokio::test]
async fn tcp_cases_misbehave_as_promised() {
    let hostile = hostile().await;
    let dropped = TcpStream::connect(plain(&hostile, "tcp-01"));
    assert!(tokio::time::timeout(Duration::from_millis(500), dropped).await.is_err(), "the SYN was answered");
    let refused = TcpStream::connect(plain(&hostile, "refused.tcp-02")).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let mut reset = TcpStream::connect(plain(&hostile, "tcp-02")).await.unwrap();
    reset.write_all(b"GET /body HTTP/1.1\r\n\r\n").await.unwrap();
    let mut body = Vec::new();
    let error = patiently(reset.read_to_end(&mut body)).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(body.len() > 10_000, "{}", body.len());
    // 0.5 s scaled by 0.05 is 25 ms a byte, and the head has more than 15 of them.
    let start = Instant::now();
    let mut slow = TcpStream::connect(plain(&hostile, "tcp-04")).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    patiently(slow.read_exact(&mut [0; 15])).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(14 * 25), "{:?}", start.elapsed());
    assert_eq!(get(&hostile, "tcp-08", "/fresh").await, b"");
    let glued = get_text(&hostile, "tcp-12", "/").await;
    assert_eq!(glued.matches("HTTP/1.1 200 OK").count(), 2);
    assert_eq!(get(&hostile, "tcp-06", "/close").await.len() as u64, ANSWER_MAX);
    // An idle connection is closed after 5 s, here 250 ms.
    let mut idle = TcpStream::connect(plain(&hostile, "tcp-09")).await.unwrap();
    let start = Instant::now();
    for _ in 0..2 {
        idle.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert!(patiently(idle.read(&mut [0; 4096])).await.unwrap() > 0);
    }
    assert_eq!(patiently(idle.read(&mut [0; 10])).await.unwrap(), 0);
    assert!(start.elapsed() >= Duration::from_millis(250) && start.elapsed() < Duration::from_secs(3));
    // The second connection at once is reset, the first goes on.
    let mut first = TcpStream::connect(plain(&hostile, "tcp-11")).await.unwrap();
    first.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut second = TcpStream::connect(plain(&hostile, "tcp-11")).await.unwrap();
    assert!(patiently(second.read(&mut [0; 10])).await.is_err());
    assert!(patiently(first.read(&mut [0; 10])).await.unwrap() > 0);
    assert_eq!((hostile.connections("tcp-11"), hostile.connections_open_max("tcp-11")), (2, 2));
    // A kept connection answers once, then swallows.
    let mut nat = TcpStream::connect(plain(&hostile, "tcp-10")).await.unwrap();
    nat.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut some = [0; 4096];
    assert!(patiently(nat.read(&mut some)).await.unwrap() > 0);
    nat.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(300), nat.read(&mut some)).await.is_err());
}

/// One query as bytes, type and name; and the answer that comes first.
fn query(id: u16, name: &str, record_type: u16) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    bytes.extend(record_type.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

/// Asks over UDP and gives the first answer with our id from the right port, parsed by a real library.
async fn ask(hostile: &Hostile, name: &str, record_type: u16) -> hickory_proto::op::Message {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let question = query(77, name, record_type);
    socket.send_to(&question, hostile.dns_addr()).await.unwrap();
    let mut buffer = vec![0; 65_535];
    loop {
        let (length, from) = patiently(socket.recv_from(&mut buffer)).await.unwrap();
        let bytes = &buffer[..length];
        if from == hostile.dns_addr()
            && bytes.len() >= question.len()
            && bytes[..2] == question[..2]
            && bytes[12..question.len()] == question[12..]
        {
            return hickory_proto::op::Message::from_vec(bytes).unwrap();
        }
    }
}

async fn ask_tcp(hostile: &Hostile, name: &str) -> std::io::Result<hickory_proto::op::Message> {
    let mut stream = TcpStream::connect(hostile.dns_addr()).await?;
    let question = query(77, name, 1);
    stream.write_all(&(question.len() as u16).to_be_bytes()).await?;
    stream.write_all(&question).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    Ok(hickory_proto::op::Message::from_vec(&answer).unwrap())
}

#[tokio::test]
async fn names_resolve_to_their_cases_and_dns_cases_misbehave() {
    use hickory_proto::op::ResponseCode;
    let hostile = hostile().await;
    let first =
        |message: &hickory_proto::op::Message| message.answers.first().map(|record| record.data.to_string());
    let tcp_05 = ask(&hostile, "tcp-05.hostile.test", 1).await;
    assert_eq!(first(&tcp_05), Some(hostile.address("tcp-05").to_string()));
    let missing = ask(&hostile, "a.dns-01.hostile.test", 1).await;
    assert_eq!(missing.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(missing.authorities[0].ttl, 300);
    assert_eq!(ask(&hostile, "dns-02.hostile.test", 1).await.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(ask(&hostile, "dns-03.hostile.test", 1).await.metadata.response_code, ResponseCode::ServFail);
    assert_eq!(ask(&hostile, "dns-03.hostile.test", 1).await.answers.len(), 1);
    assert_eq!(ask(&hostile, "dns-05.hostile.test", 1).await.answers.len(), 2);
    assert_eq!(ask(&hostile, "dns-06.hostile.test", 1).await.answers.len(), 10);
    assert!(ask(&hostile, "ok.dns-07.hostile.test", 1).await.metadata.truncation);
    let whole = patiently(ask_tcp(&hostile, "ok.dns-07.hostile.test")).await.unwrap();
    assert_eq!(first(&whole), Some(hostile.address("ok.dns-07").to_string()));
    patiently(ask_tcp(&hostile, "refused.dns-07.hostile.test")).await.unwrap_err();
    let honest = ask(&hostile, "dns-08.hostile.test", 1).await;
    assert_eq!(first(&honest), Some(hostile.address("dns-08").to_string()));
    assert_eq!(patiently(ask_tcp(&hostile, "many.dns-09.hostile.test")).await.unwrap().answers.len(), 4000);
    let heavy = patiently(ask_tcp(&hostile, "compressed.dns-09.hostile.test")).await.unwrap();
    assert!(heavy.answers.len() > 3000, "{}", heavy.answers.len());
    assert_eq!(ask(&hostile, "dns-11.hostile.test", 1).await.answers[0].ttl, 0);
    assert_eq!(first(&ask(&hostile, "a-10-0-0-1.ssr-01.hostile.test", 1).await).unwrap(), "10.0.0.1");
    assert_eq!(first(&ask(&hostile, "aaaa-fe80--1.ssr-02.hostile.test", 28).await).unwrap(), "fe80::1");
    let flips = [
        first(&ask(&hostile, "ssr-03.hostile.test", 1).await).unwrap(),
        first(&ask(&hostile, "ssr-03.hostile.test", 1).await).unwrap(),
    ];
    assert_eq!(flips, [hostile.address("ssr-03").to_string(), "127.0.0.1".to_owned()]);
    let start = Instant::now();
    ask(&hostile, "z9.dns-17.hostile.test", 1).await;
    assert!(start.elapsed() >= Duration::from_millis(400), "8 s, scaled");
    assert_eq!(ask(&hostile, "dns-20.hostile.test", 65).await.answers.len(), 1);
    let asked = hostile.dns_queries("ok.dns-07.hostile.test");
    assert_eq!(asked.iter().map(|seen| seen.transport).collect::<Vec<_>>(), [Transport::Udp, Transport::Tcp]);
    assert_eq!(hostile.dns_queries(".dns-07.hostile.test").len(), 3);
    TcpStream::connect(hostile.dns_udp_only_addr()).await.unwrap_err();
    hostile.set_dns_up(false);
    let silent = ask(&hostile, "good.hostile.test", 1);
    assert!(tokio::time::timeout(Duration::from_millis(200), silent).await.is_err());
    hostile.set_dns_up(true);
    ask(&hostile, "good.hostile.test", 1).await;
    hostile.move_dns_12();
    let moved = first(&ask(&hostile, "dns-12.hostile.test", 1).await).unwrap();
    assert_eq!(moved, hostile.address("moved.dns-12").to_string());
    tokio::time::sleep(Duration::from_millis(50)).await;
    TcpStream::connect(plain(&hostile, "dns-12")).await.unwrap_err();
}

/// A TLS connection to a case, with the trust anchors of the web, offering these protocols.
async fn tls(
    hostile: &Hostile,
    id: &str,
    alpn: &[&str],
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    for root in hostile.trusted() {
        roots.add(root).unwrap();
    }
    let mut config = rustls::ClientConfig::builder_with_provider(nephila_testweb::tls::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect((hostile.address(id), hostile.tls_port())).await?;
    let name = ServerName::try_from(format!("{id}.hostile.test")).unwrap();
    let connect = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream);
    tokio::time::timeout(Duration::from_secs(5), connect).await?
}

#[tokio::test]
async fn tls_cases_fail_for_the_promised_reason() {
    let hostile = hostile().await;
    for (id, reason) in [
        ("tls-01", "Expired"),
        ("notyet.tls-01", "NotValidYet"),
        ("tls-02", "UnknownIssuer"),
        ("unknown.tls-02", "UnknownIssuer"),
        ("nointermediate.tls-02", "UnknownIssuer"),
        ("tls-03", "NotValidForName"),
        ("tls-04", "ProtocolVersion"),
        ("hello10.tls-04", ""),
        ("rc4.tls-04", ""),
        ("tls-06", ""),
        ("tls-07", ""),
        ("many.tls-07", ""),
        ("fatal.tls-10", "UnrecognizedName|UnrecognisedName"),
        ("tls-11", ""),
        ("fin.tls-11", ""),
        ("tls-14", "InvalidContentType|InvalidMessage"),
        ("tls-15", "NameConstraintViolation"),
        ("excluded.tls-15", "NameConstraintViolation"),
        ("wild.tls-15", "NameConstraintViolation"),
    ] {
        let start = Instant::now();
        let error = format!("{:?}", tls(&hostile, id, &["http/1.1"]).await.map(drop).expect_err(id));
        println!("{id}: {error} after {:?}", start.elapsed());
        assert!(reason.split('|').any(|reason| error.contains(reason)), "{id}: {error}");
        assert!(!error.contains("Elapsed") && !error.contains("deadline"), "{id}: {error}");
    }
    // Whether a client goes on after a warning is its own affair; we only test that the warning arrives.
    println!("tls-10: {:?}", tls(&hostile, "tls-10", &["http/1.1"]).await.map(drop));
    for stalled in ["tls-05", "drip.tls-05"] {
        let wait = tokio::time::timeout(Duration::from_millis(500), tls(&hostile, stalled, &[]));
        assert!(wait.await.is_err(), "{stalled}");
    }
    for id in ["tls-08", "tls-13", "good", "tls-12"] {
        let mut stream = tls(&hostile, id, &["http/1.1"]).await.expect(id);
        stream.write_all(b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut start = [0; 15];
        patiently(stream.read_exact(&mut start)).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 200 OK", "{id}");
        if id == "tls-12" {
            let error = patiently(stream.read_to_end(&mut Vec::new())).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "no close_notify");
        }
    }
    assert_eq!(hostile.client_certificates("tls-13"), 0);
    let text = tls(&hostile, "tls-09", &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(text.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
}

/// One GET over HTTP/2 with the `h2` crate as the client.
async fn get_h2(hostile: &Hostile, id: &str, path: &str) -> Result<(u16, Vec<u8>), h2::Error> {
    let stream = tls(hostile, id, &["h2"]).await.unwrap();
    let (mut client, connection) =
        h2::client::Builder::new().enable_push(false).handshake::<_, bytes::Bytes>(stream).await?;
    let driver = tokio::spawn(connection);
    let request = http::Request::get(format!("https://{id}.hostile.test{path}")).body(()).unwrap();
    let (response, _) = client.send_request(request, true)?;
    let mut response = response.await?;
    let mut body = Vec::new();
    while let Some(data) = response.body_mut().data().await {
        let data = data?;
        drop(response.body_mut().flow_control().release_capacity(data.len()));
        body.extend(data);
    }
    response.body_mut().trailers().await?;
    driver.abort();
    Ok((response.status().as_u16(), body))
}

#[tokio::test]
async fn http2_cases_break_a_real_client_in_the_promised_way() {
    let hostile = hostile().await;
    let (status, body) = patiently(get_h2(&hostile, "good", "/h2")).await.unwrap();
    assert_eq!((status, &body[..]), (200, &b"<p>asked over HTTP/2</p>"[..]));
    for (id, reason) in [
        ("h2-01", ""),
        ("empty.h2-01", ""),
        ("h2-05", "REFUSED_STREAM"),
        ("h2-11", ""),
        ("h2-12", "PROTOCOL_ERROR"),
        ("short.h2-12", "PROTOCOL_ERROR"),
        ("long.h2-12", "PROTOCOL_ERROR"),
        ("h2-13", "FRAME_SIZE_ERROR"),
        ("h2-14", "HTTP_1_1_REQUIRED"),
        ("goaway.h2-14", "HTTP_1_1_REQUIRED"),
        ("h2-06", ""),
    ] {
        let answer = tokio::time::timeout(PATIENCE, get_h2(&hostile, id, "/page")).await;
        let error = format!("{:?}", answer.expect(id).expect_err(id));
        println!("{id}: {error}");
        assert!(error.contains(reason), "{id}: {error}");
    }
    assert_eq!(patiently(get_h2(&hostile, "h2-06", "/page")).await.unwrap().0, 200);
    assert_eq!(patiently(get_h2(&hostile, "h2-10", "/misdirected")).await.unwrap().0, 421);
    assert_eq!(patiently(get_h2(&hostile, "h2-10", "/misdirected")).await.unwrap().0, 200);
    assert_eq!(patiently(get_h2(&hostile, "h2-09", "/page")).await.unwrap().0, 200);
    assert_eq!(hostile.streams_open_max("h2-09"), 1);
    // Whether a client survives these is its own affair; we only test that they arrive.
    for id in [
        "h2-02",
        "h2-03",
        "h2-04",
        "ping.h2-04",
        "window.h2-04",
        "priority.h2-04",
        "ack.h2-04",
        "queue.h2-05",
        "headers.h2-13",
    ] {
        let answer = tokio::time::timeout(Duration::from_secs(1), get_h2(&hostile, id, "/page")).await;
        println!("{id}: {answer:.200?}");
        assert!(!matches!(answer, Ok(Ok((200, _)))), "{id} did no harm");
        assert!(!hostile.requests(id.rsplit('.').next().unwrap()).is_empty(), "{id}");
    }
    for id in ["h2-07", "window.h2-07"] {
        let stuck = tokio::time::timeout(Duration::from_millis(500), get_h2(&hostile, id, "/page"));
        assert!(stuck.await.is_err(), "{id}");
    }
}

#[tokio::test]
async fn a_thousand_abandoned_streams_do_not_stop_the_server_of_h2_08() {
    let hostile = hostile().await;
    let stream = tls(&hostile, "h2-08", &["h2"]).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    let url = |path: &str| http::Request::get(format!("https://h2-08.hostile.test{path}")).body(()).unwrap();
    for n in 0..1_000 {
        let mut client = client.clone().ready().await.unwrap();
        let (response, _) = client.send_request(url("/never"), true).unwrap();
        // Time to send and to hear of the resets: the server takes 100 streams at once, not a thousand.
        if n % 20 == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(response);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut client = client.ready().await.unwrap();
    let (response, _) = client.send_request(url("/page"), true).unwrap();
    assert_eq!(patiently(response).await.unwrap().status(), 200);
    assert_eq!(hostile.connections("h2-08"), 1);
    driver.abort();
}

#[tokio::test]
async fn the_gzip_bomb_is_a_megabyte_on_the_wire() {
    let hostile = hostile().await;
    let bomb = get(&hostile, "cmp-01", "/").await;
    assert!((900_000..1_300_000).contains(&bomb.len()), "{}", bomb.len());
    let brotli = get(&hostile, "cmp-02", "/").await;
    assert!(brotli.len() < 2_000, "{}", brotli.len());
}

#[tokio::test]
async fn a_dropped_web_lets_go_of_everything() {
    let start = Instant::now();
    let hostile = hostile().await;
    println!("started in {:?}, {} URLs", start.elapsed(), hostile.all_urls().len());
    let address = plain(&hostile, "tcp-03");
    let mut held = TcpStream::connect(address).await.unwrap();
    held.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(hostile);
    let ended = patiently(held.read(&mut [0; 10])).await;
    assert!(matches!(ended, Ok(0) | Err(_)));
    assert!(TcpStream::connect(address).await.is_err());
}
