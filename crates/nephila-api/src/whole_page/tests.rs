//! Whole pages from owners that answer at their own pace, in virtual time. The answers are parsed by a reader of its
//! own, written from RFC 2045 and RFC 2046.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::gather::SHARE_BYTES;
use super::*;

const PAGE: &str = "http://o0.test/";

/// Captures at many owners. The name of a host says its owner.
#[derive(Default)]
struct Owners {
    /// The stored response of each URL, or the error answer.
    captures: BTreeMap<String, Result<Vec<u8>, (u16, u64)>>,
    /// How long an owner takes, by host.
    delays: BTreeMap<String, Duration>,
    open: AtomicUsize,
    open_max: AtomicUsize,
    asked: AtomicUsize,
}

impl Owners {
    fn put(&mut self, url: &str, head: &str, body: &[u8]) {
        let mut http = format!("HTTP/1.1 {head}\r\n\r\n").into_bytes();
        http.extend_from_slice(body);
        self.captures.insert(url.to_owned(), Ok(http));
    }

    fn page(&mut self, html: &str) {
        self.put(PAGE, "200 OK\r\nContent-Type: text/html", html.as_bytes());
    }

    async fn whole(&self, archive: &Archive) -> Result<HttpAnswer, Instead> {
        let target = format!("/api/v1/pages?with=resources&url={PAGE}");
        whole_page(&HttpQuestion::new(Method::GET, &target, HeaderMap::new(), false), archive, self).await
    }
}

impl ReadPages for Owners {
    async fn read_page(&self, asked: HttpQuestion) -> HttpAnswer {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.open_max.fetch_max(open, Ordering::SeqCst);
        let (_, url, wanted) = Wanted::of(&asked).unwrap();
        if let Some(delay) = self.delays.get(url.as_str().split('/').nth(2).unwrap()) {
            tokio::time::sleep(*delay).await;
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
        match self.captures.get(url.as_str()) {
            None => problem(StatusCode::NOT_FOUND, "there is no capture", "unknown"),
            Some(Err((status, after))) => {
                let status = StatusCode::from_u16(*status).unwrap();
                retry_after(problem(status, "it is wanted and not there yet", "queued"), *after)
            }
            Some(Ok(http)) if http.len() as u64 > wanted.body_bytes_max + 200 => {
                problem(StatusCode::PAYLOAD_TOO_LARGE, "content too large", "")
            }
            Some(Ok(http)) => {
                let mut answer = reply(StatusCode::OK, "application/http", http.clone());
                answer.headers_mut().insert("nephila-captured", HeaderValue::from_static("20261118120000"));
                answer
            }
        }
    }
}

fn archive() -> Archive {
    Archive::new(Path::new("nowhere"), "here")
}

#[derive(Debug, PartialEq, Eq)]
struct Got {
    status: String,
    content_type: String,
    retry_after: Option<String>,
    /// The body in base64.
    coded: String,
}

impl Got {
    fn body(&self) -> Vec<u8> {
        from_base64(&self.coded)
    }

    /// Size of the body, by the number of digits.
    fn size(&self) -> usize {
        self.coded.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n' | b'=')).count() * 3 / 4
    }
}

/// Parses an answer: the URL of its first part, and all parts by URL.
async fn parsed(answer: HttpAnswer) -> (String, BTreeMap<String, Got>) {
    let (head, body) = whole(answer).await;
    assert_eq!(head.status, StatusCode::OK);
    let of_field = head.headers[header::CONTENT_TYPE].to_str().unwrap().to_owned();
    let text = String::from_utf8(body.to_vec()).unwrap();
    // As a file: its own header fields say the same as those of the answer.
    let (fields, _) = text.split_once("\r\n\r\n").unwrap();
    assert!(fields.split("\r\n").any(|line| line == format!("Content-Type: {of_field}")), "{fields}");
    let boundary = of_field.split("boundary=\"").nth(1).unwrap().split('"').next().unwrap();
    let (inner, epilogue) = text.split_once(&format!("\r\n--{boundary}--\r\n")).unwrap();
    assert_eq!(epilogue, "");
    let (mut first, mut parts) = (String::new(), BTreeMap::new());
    let inner = format!("\r\n{inner}");
    for part in inner.split(&format!("\r\n--{boundary}\r\n")).skip(1) {
        let (head, body) = part.split_once("\r\n\r\n").unwrap();
        let fields: BTreeMap<&str, &str> =
            head.split("\r\n").map(|line| line.split_once(": ").unwrap()).collect();
        assert_eq!(fields["Content-Transfer-Encoding"], "base64");
        let url = fields["Content-Location"].to_owned();
        if first.is_empty() {
            first = url.clone();
        }
        let got = Got {
            status: fields["Nephila-Status"].to_owned(),
            content_type: fields["Content-Type"].to_owned(),
            retry_after: fields.get("Retry-After").map(|text| (*text).to_owned()),
            coded: body.to_owned(),
        };
        assert!(parts.insert(url.clone(), got).is_none(), "{url} is there twice");
    }
    (first, parts)
}

fn from_base64(text: &str) -> Vec<u8> {
    assert!(text.split("\r\n").all(|line| line.len() <= 76), "a line of base64 has at most 76 characters");
    let digits: Vec<u32> = text
        .bytes()
        .filter(|byte| !matches!(byte, b'\r' | b'\n' | b'='))
        .map(|byte| match byte {
            b'A'..=b'Z' => u32::from(byte - b'A'),
            b'a'..=b'z' => u32::from(byte - b'a') + 26,
            b'0'..=b'9' => u32::from(byte - b'0') + 52,
            b'+' => 62,
            b'/' => 63,
            other => panic!("{other} is no base64"),
        })
        .collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// Bytes that differ for each number, and contain what a careless writer stumbles over.
fn bytes(number: usize) -> Vec<u8> {
    let mut bytes = format!("{number}\r\n--{}--\r\n\0\u{ff}", mhtml::BOUNDARY).into_bytes();
    bytes.extend((0..number * 37).map(|at| (at * 7 + number) as u8));
    bytes
}

#[tokio::test(start_paused = true)]
async fn e10_sixty_resources_of_twelve_owners_are_one_answer() {
    let mut owners = Owners::default();
    let url = |number: usize| format!("http://o{}.test/r{number}", number % 12);
    let mut wanted = BTreeMap::new();
    let mut html = String::from("<!doctype html><title>page</title><a href=/elsewhere>no resource</a>");
    for number in 0..50 {
        let url = url(number);
        html.push_str(&match number % 6 {
            0 => format!("<img src={url}>"),
            1 => format!("<img srcset='{url} 2x'>"),
            2 => format!("<script src={url}></script>"),
            3 => format!("<link rel=icon href={url}>"),
            4 => format!("<iframe src={url}></iframe>"),
            // Also a link: that is no reason to leave it out.
            _ => format!("<a href={url}><img src={url}></a>"),
        });
        owners.put(&url, "200 OK\r\nContent-Type: image/png", &bytes(number));
        wanted.insert(url, ("200", bytes(number)));
    }
    html.push_str("<link rel=stylesheet href=http://o3.test/style>");
    owners.page(&html);
    // A style sheet names more, and one that names more yet, which is too deep.
    let css = format!(
        "@import '{}'; a {{ background: url({}) }} b {{ background: url({}) }}",
        "http://o4.test/deep",
        url(51),
        url(52)
    );
    let head = "200 OK\r\nContent-Type: text/css\r\nContent-Encoding: gzip";
    owners.put("http://o3.test/style", head, &gzip(css.as_bytes()));
    wanted.insert("http://o3.test/style".into(), ("200", css.into_bytes()));
    let deep = b"a { background: url(too-deep) }";
    owners.put("http://o4.test/deep", "200 OK\r\nContent-Type: text/css", deep);
    wanted.insert("http://o4.test/deep".into(), ("200", deep.to_vec()));
    // One moved, one was an error already when it was captured.
    owners.put(&url(51), "301 Moved\r\nLocation: /moved", b"");
    let moved = url(51).replace("r51", "moved");
    owners.put(&moved, "200 OK\r\nContent-Type: font/woff", &bytes(51));
    wanted.insert(url(51), ("200", bytes(51)));
    owners.put(&url(52), "410 Gone\r\nContent-Type: text/html", b"gone");
    wanted.insert(url(52), ("410", b"gone".to_vec()));
    // Seven are not there.
    let mut more = String::new();
    for number in 53..60 {
        more.push_str(&format!("<img src={}>", url(number)));
        if number % 2 == 1 {
            owners.captures.insert(url(number), Err((503, 7)));
        }
    }
    owners.page(&(html.clone() + &more));
    for owner in 0..12 {
        owners.delays.insert(format!("o{owner}.test"), Duration::from_millis(50 * owner));
    }

    let began = Instant::now();
    let answer = owners.whole(&archive()).await.unwrap();
    // 61 answers of 275 ms on average, of which 16 are awaited at the same time.
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(owners.open_max.load(Ordering::SeqCst), AT_ONCE);
    for (name, count) in [("nephila-resources", "61"), ("nephila-missing", "7"), ("nephila-omitted", "0")] {
        assert_eq!(answer.headers()[name], count, "{name}");
    }
    let (first, mut parts) = parsed(answer).await;
    assert_eq!(first, PAGE);
    let page = parts.remove(PAGE).unwrap();
    assert_eq!((page.content_type.as_str(), page.body()), ("text/html", (html + &more).into_bytes()));
    for number in 53..60 {
        let got = parts.remove(&url(number)).unwrap();
        let said = match number % 2 {
            1 => ("503", Some("7".to_owned())),
            _ => ("404", None),
        };
        assert_eq!((got.status.as_str(), got.retry_after), said, "{number}");
    }
    let got: BTreeMap<String, (&str, Vec<u8>)> =
        parts.iter().map(|(url, got)| (url.clone(), (&*got.status, got.body()))).collect();
    assert_eq!(got.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    assert!(got == wanted, "a body differs");
}

#[tokio::test(start_paused = true)]
async fn e10_a_slow_owner_costs_ten_seconds_at_most() {
    let mut owners = Owners::default();
    let url = |number: usize| format!("http://o{}.test/{number}", number % 3);
    owners.page(&(0..60).map(|number| format!("<img src={}>", url(number))).collect::<String>());
    for number in 0..60 {
        owners.put(&url(number), "200 OK\r\nContent-Type: image/png", &bytes(number));
    }
    owners.delays.insert("o1.test".into(), Duration::from_secs(3_600));
    let began = Instant::now();
    let (_, parts) = parsed(owners.whole(&archive()).await.unwrap()).await;
    assert_eq!(began.elapsed().as_secs(), TIME_MAX.as_secs());
    let statuses = |of: usize| -> Vec<&str> {
        let numbers = (0..60).filter(|number| number % 3 == of);
        numbers.map(|number| &*parts[&url(number)].status).collect()
    };
    assert_eq!(statuses(1), ["503"; 20]);
    // The slow one does not take the places of the others.
    assert_eq!((statuses(0), statuses(2)), (vec!["200"; 20], vec!["200"; 20]));

    // The owner of the page itself.
    owners.delays.insert("o0.test".into(), Duration::from_secs(3_600));
    let began = Instant::now();
    let slow = owners.whole(&archive()).await.unwrap_err();
    assert_eq!(
        (slow.status().as_u16(), &slow.headers()["retry-after"]),
        (503, &HeaderValue::from(AWAY_RETRY))
    );
    assert_eq!(began.elapsed().as_secs(), TIME_MAX.as_secs());
}

#[tokio::test(start_paused = true)]
async fn e10_number_size_and_places_are_bounded() {
    let mut owners = Owners::default();
    owners.page(&(0..400).map(|number| format!("<img src=/{number}>")).collect::<String>());
    let answer = owners.whole(&archive()).await.unwrap();
    for (name, count) in [("nephila-resources", "300"), ("nephila-omitted", "100")] {
        assert_eq!(answer.headers()[name], count, "{name}");
    }
    assert_eq!(parsed(answer).await.1.len(), 1 + RESOURCES_MAX);

    // Larger than a share each, and together more than there is room for; and one that grows when it is decompressed.
    let mut owners = Owners::default();
    let large = vec![7_u8; SHARE_BYTES as usize + 1_000];
    let mut html: String = (0..20).map(|number| format!("<img src=/{number}>")).collect();
    html.push_str("<img src=/bomb><img src=/small>");
    owners.page(&html);
    for number in 0..20 {
        owners.put(&format!("{PAGE}{number}"), "200 OK\r\nContent-Type: image/png", &large);
    }
    owners.put(&format!("{PAGE}small"), "200 OK\r\nContent-Type: image/png", b"small");
    let bomb = gzip(&vec![0; BYTES_MAX as usize + 1]);
    owners.put(&format!("{PAGE}bomb"), "200 OK\r\nContent-Encoding: gzip", &bomb);
    let answer = owners.whole(&archive()).await.unwrap();
    // Those that are too large for a share are asked for twice.
    assert_eq!(owners.asked.load(Ordering::SeqCst), 1 + 22 + 21);
    let (_, parts) = parsed(answer).await;
    let total: usize = parts.values().filter(|got| got.status == "200").map(Got::size).sum();
    assert!(total as u64 <= BYTES_MAX && total as u64 > BYTES_MAX - 2 * SHARE_BYTES, "{total}");
    let status = |name: &str| &*parts[&format!("{PAGE}{name}")].status;
    assert_eq!((status("small"), status("bomb"), status("0"), status("19")), ("200", "413", "200", "413"));

    // Places for whole pages.
    owners.delays.insert("o0.test".into(), Duration::from_secs(3_600));
    let archive = archive();
    let began = Instant::now();
    let (one, two, three) = tokio::join!(owners.whole(&archive), owners.whole(&archive), async {
        (owners.whole(&archive).await, began.elapsed().as_secs())
    });
    assert!(one.is_err() && two.is_err());
    let busy = three.0.unwrap_err();
    assert_eq!((busy.status().as_u16(), three.1), (503, ROOM_WAIT.as_secs()));
}

#[tokio::test(start_paused = true)]
async fn e10_redirects_end_and_the_page_itself_may_be_one() {
    let mut owners = Owners::default();
    owners.put(PAGE, "302 Found\r\nLocation: http://o1.test/page", b"");
    owners.put("http://o1.test/page", "200 OK\r\nContent-Type: text/html", b"<img src=loop><img src=page>");
    owners.put("http://o1.test/loop", "302 Found\r\nLocation: loop", b"");
    let (first, parts) = parsed(owners.whole(&archive()).await.unwrap()).await;
    assert_eq!((first.as_str(), parts.len()), ("http://o1.test/page", 2));
    assert_eq!(parts["http://o1.test/loop"].status, "404");
    let asked = HttpQuestion::new(Method::GET, "/api/v1/pages?with=links&url=x", HeaderMap::new(), false);
    assert_eq!(is_wanted(&asked).unwrap_err().status(), StatusCode::BAD_REQUEST);
}
