//! A small town on loopback whose sites do what a test wants: refuse, or put a page in front of their feeds.
//!
//! Papers have a feed with a new story every few seconds; shops have pages without end; hubs have pages without end and guests,
//! hosts of the same domain whose robots.txt redirects to the hub. Every domain has an address of its own, and its name
//! comes from a resolver here. What is answered is computed from the [`Switches`], the request and the time.
//!
//! Invariants: everything listens on loopback alone; a request has at most [`HEAD_BYTES_MAX`] bytes and [`IDLE`] time.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// Number of sites of each kind. With a rest of two seconds they give about 35 pages a second.
const PAPERS: u8 = 10;
const SHOPS: u8 = 48;
const HUBS: u8 = 12;
/// Links of a page to pages of its own site.
const LINKS: u64 = 6;
/// Guests of a hub before its guests are many.
const GUESTS_FEW: u64 = 3;
/// Each feed has a new story in every interval of this length.
const STORY_SECONDS: u64 = 15;
/// Stories in a feed.
const STORIES: u64 = 12;
/// Words of a page.
const PAGE_WORDS: u64 = 120;
/// Maximum size of the head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Maximum time without a byte.
const IDLE: Duration = Duration::from_secs(30);
/// Seconds in `Retry-After` of a site that refuses.
const RETRY_AFTER: u64 = 3;
const WORDS: [&str; 16] = [
    "harbour", "council", "bridge", "market", "school", "weather", "railway", "museum", "garden", "concert",
    "library", "river", "budget", "festival", "hospital", "theatre",
];

/// What the town does wrong.
#[derive(Debug, Default)]
pub(super) struct Switches {
    /// All pages are answered with 429.
    pub(super) refuses: AtomicBool,
    /// Feeds are answered with a page that asks for consent.
    pub(super) asks_consent: AtomicBool,
    /// Each page of a hub names another guest.
    pub(super) has_guests: AtomicBool,
}

/// A running town.
pub(super) struct Town {
    pub(super) switches: Arc<Switches>,
    port: u16,
    names: SocketAddr,
}

/// What is at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Paper(u8),
    Shop(u8),
    Hub(u8),
    Guest(u8),
}

impl Place {
    fn of(name: &str) -> Option<Place> {
        let (host, domain) = name.strip_suffix(".example")?.split_once('.')?;
        let number = |kind: &str, count: u8| {
            let digits = domain.strip_prefix(kind).filter(|digits| digits.len() == 2)?;
            digits.parse::<u8>().ok().filter(|number| *number < count)
        };
        let guest = host.strip_prefix('g').is_some_and(|digits| digits.parse::<u64>().is_ok());
        let hub = number("hub", HUBS).map(|at| if guest { Place::Guest(at) } else { Place::Hub(at) });
        let place = number("paper", PAPERS).map(Place::Paper);
        place
            .or_else(|| number("shop", SHOPS).map(Place::Shop))
            .filter(|_| !guest)
            .or(hub)
            .filter(|_| host == "www" || guest)
    }

    fn address(self) -> Ipv4Addr {
        match self {
            Place::Paper(at) => Ipv4Addr::new(127, 0, 1, at + 1),
            Place::Shop(at) => Ipv4Addr::new(127, 0, 2, at + 1),
            Place::Hub(at) => Ipv4Addr::new(127, 0, 3, at + 1),
            Place::Guest(at) => Ipv4Addr::new(127, 0, 4, at + 1),
        }
    }

    /// All places with an address of their own.
    fn all() -> Vec<Place> {
        let papers = (0..PAPERS).map(Place::Paper);
        let hubs = (0..HUBS).flat_map(|at| [Place::Hub(at), Place::Guest(at)]);
        papers.chain((0..SHOPS).map(Place::Shop)).chain(hubs).collect()
    }

    fn name(self) -> String {
        match self {
            Place::Paper(at) => format!("www.paper{at:02}.example"),
            Place::Shop(at) => format!("www.shop{at:02}.example"),
            Place::Hub(at) => format!("www.hub{at:02}.example"),
            Place::Guest(at) => format!("g0.hub{at:02}.example"),
        }
    }
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    status: &'static str,
    kind: &'static str,
    more: String,
    body: String,
}

impl Answer {
    fn page(body: String) -> Answer {
        Answer { status: "200 OK", kind: "text/html; charset=utf-8", more: String::new(), body }
    }
}

/// What a place answers at this time, in seconds since 1970.
fn answer(switches: &Switches, place: Place, path: &str, port: u16, now: u64) -> Answer {
    let domain = |at: u8| format!("hub{at:02}.example:{port}");
    if path.starts_with("/robots.txt") {
        let body = "User-agent: *\nDisallow: /private\n".to_owned();
        let robots = Answer { status: "200 OK", kind: "text/plain", more: String::new(), body };
        return match place {
            Place::Guest(at) => {
                let more = format!("Location: http://www.{}/robots.txt\r\n", domain(at));
                Answer { status: "302 Found", more, body: String::new(), ..robots }
            }
            _ => robots,
        };
    }
    if path == "/feed.xml" && matches!(place, Place::Paper(_)) {
        if switches.asks_consent.load(Relaxed) {
            return Answer::page(page(0, "Before you read on: do you agree?", &[], ""));
        }
        let kind = "application/atom+xml";
        return Answer { kind, ..Answer::page(feed(&place.name(), port, now)) };
    }
    if switches.refuses.load(Relaxed) {
        let (status, more) = ("429 Too Many Requests", format!("Retry-After: {RETRY_AFTER}\r\n"));
        return Answer { status, more, ..Answer::page(page(0, "Too many requests", &[], "")) };
    }
    let number = path.rsplit('-').next().and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(0);
    let mut links: Vec<String> =
        (1..=LINKS).map(|at| format!("/p-{}", number.wrapping_mul(LINKS).wrapping_add(at) >> 1)).collect();
    let other = Place::Shop((number % u64::from(SHOPS)) as u8);
    links.push(format!("http://{}:{port}/p-{number}", other.name()));
    let mut head = "";
    match place {
        Place::Guest(_) => links.clear(),
        Place::Hub(at) if number < GUESTS_FEW || switches.has_guests.load(Relaxed) => {
            links.push(format!("http://g{number}.{}/", domain(at)));
        }
        Place::Paper(_) => {
            head = "<link rel=\"alternate\" type=\"application/atom+xml\" href=\"/feed.xml\">";
            links.push("/private".to_owned());
        }
        Place::Hub(_) | Place::Shop(_) => {}
    }
    Answer::page(page(number, &place.name(), &links, head))
}

/// A page whose words differ from those of every other page.
fn page(number: u64, title: &str, links: &[String], head: &str) -> String {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ title.bytes().map(u64::from).sum::<u64>();
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{}{}", WORDS[(state >> 60) as usize], (state >> 40) % 1_000)
    };
    let text: Vec<String> = (0..PAGE_WORDS).map(|_| word()).collect();
    let links: String = links.iter().map(|link| format!("<li><a href=\"{link}\">{link}</a>")).collect();
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>{title} {number}</title>{head}<h1>{title}</h1>\
         <p>{}</p><ul>{links}</ul></html>",
        text.join(" ")
    )
}

fn feed(host: &str, port: u16, now: u64) -> String {
    let newest = now / STORY_SECONDS;
    let item = |number: u64| {
        let (title, at) = (format!("Story {number}"), date(number * STORY_SECONDS));
        format!(
            "<entry><title>{title}</title><link href=\"http://{host}:{port}/s-{number}\"/><id>{host}-{number}</id>\
             <published>{at}</published><updated>{at}</updated></entry>"
        )
    };
    let items: String = (0..STORIES).map(|back| item(newest.saturating_sub(back))).collect();
    format!(
        "<?xml version=\"1.0\"?><feed xmlns=\"http://www.w3.org/2005/Atom\"><title>{host}</title><id>{host}</id>\
         <updated>{}</updated>{items}</feed>",
        date(now)
    )
}

/// A time in seconds since 1970, as RFC 3339 writes it.
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{:02}Z", day + 1, second % 60)
}

/// One question in, one answer out: A records alone.
fn resolve(question: &[u8]) -> Option<Vec<u8>> {
    let (mut labels, mut at) = (Vec::new(), 12);
    loop {
        let length = usize::from(*question.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(question.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes(question.get(at..at + 2)?.try_into().ok()?);
    let place = Place::of(&labels.join("."));
    let mut out = question.get(..at + 4)?.to_vec();
    let address = place.filter(|_| kind == 1).map(Place::address);
    out[2..4].copy_from_slice(&[0x85, if place.is_some() { 0x80 } else { 0x83 }]);
    out[4..12].copy_from_slice(&[0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]);
    if let Some(address) = address {
        // The name of the question, type A, class IN, five minutes, four bytes.
        out.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4]);
        out.extend(address.octets());
    }
    Some(out)
}

impl Town {
    /// Opens all sites and the resolver.
    pub(super) fn open() -> Result<Town> {
        let switches = Arc::new(Switches::default());
        let mut port = 0;
        for place in Place::all() {
            let listener =
                TcpListener::bind((place.address(), port)).context("an address of loopback is taken")?;
            port = listener.local_addr()?.port();
            let (switches, port) = (switches.clone(), port);
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let switches = switches.clone();
                    std::thread::spawn(move || _ = serve(stream, &switches, port));
                }
            });
        }
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let names = socket.local_addr()?;
        std::thread::spawn(move || {
            let mut question = [0; 1_500];
            while let Ok((length, from)) = socket.recv_from(&mut question) {
                if let Some(answer) = resolve(&question[..length]) {
                    _ = socket.send_to(&answer, from);
                }
            }
        });
        Ok(Town { switches, port, names })
    }

    /// The first page of every site.
    pub(super) fn homes(&self) -> Vec<String> {
        let sites = Place::all().into_iter().filter(|place| !matches!(place, Place::Guest(_)));
        sites.map(|place| format!("http://{}:{}/", place.name(), self.port)).collect()
    }

    /// Settings with which a crawler finds the town.
    pub(super) fn settings(&self) -> Vec<String> {
        vec![
            format!("spider.dns_servers=[\"{}\"]", self.names),
            format!("spider.ports=[80, {}]", self.port),
            "spider.allow_addresses=[\"127.0.0.0/8\"]".to_owned(),
        ]
    }
}

/// Answers the requests of a connection.
fn serve(mut stream: TcpStream, switches: &Switches, port: u16) -> std::io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_nodelay(true)?;
    let (mut head, mut piece) = (Vec::new(), [0; 4_096]);
    loop {
        while let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&head[..end]).into_owned();
            head.drain(..end + 4);
            let mut words = text.split(' ');
            let (is_head, path) = (words.next() == Some("HEAD"), words.next().unwrap_or("/"));
            let host = text.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("host").then_some(value.trim())
            });
            let host = host.and_then(|host| host.split(':').next()).unwrap_or_default();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let answered = Place::of(host).map(|place| answer(switches, place, path, port, now));
            let Some(Answer { status, kind, more, body }) = answered else { return Ok(()) };
            let length = body.len();
            let sent = if is_head { "" } else { &body };
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}\r\n{sent}"
            )?;
        }
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            _ if head.len() > HEAD_BYTES_MAX => return Ok(()),
            read => head.extend_from_slice(&piece[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_name_that_leads_to_its_own_address() {
        let all = Place::all();
        let mut addresses: Vec<Ipv4Addr> = all.iter().map(|place| place.address()).collect();
        for place in &all {
            assert_eq!(Place::of(&place.name()), Some(*place));
        }
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), all.len());
        for other in [
            "www.shop99.example",
            "example",
            "x.hub01.example",
            "g5.shop01.example",
            "www.shop1.example",
            "g.hub01.example",
        ] {
            assert_eq!(Place::of(other), None, "{other}");
        }
        let mut question = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in ["www", "hub03", "example", ""] {
            question.push(label.len() as u8);
            question.extend(label.bytes());
        }
        question.extend([0, 1, 0, 1]);
        let answer = resolve(&question).unwrap();
        assert_eq!((answer[7], &answer[answer.len() - 4..]), (1, &[127, 0, 3, 4][..]));
        let kind = question.len() - 3;
        question[kind] = 28;
        assert_eq!(resolve(&question).unwrap()[7], 0, "no AAAA record");
        assert_eq!(resolve(&question[..20]), None, "a question that is cut off");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_798_675_199), "2026-12-30T23:59:59Z");
        assert_eq!(date(1_798_761_599), "2026-12-31T23:59:59Z");
        assert_eq!(date(1_798_761_600), "2027-01-01T00:00:00Z");
    }

    #[test]
    fn a_switch_changes_the_answers_it_names_and_no_others() {
        let switches = Switches::default();
        let ask = |place, path| answer(&switches, place, path, 80, 1_000_000);
        let (paper, shop, hub, guest) = (Place::Paper(1), Place::Shop(1), Place::Hub(1), Place::Guest(1));
        let good = [ask(paper, "/"), ask(shop, "/p-7"), ask(hub, "/p-7")];
        assert!(good.iter().all(|answer| answer.status == "200 OK"));
        assert!(good[0].body.contains("href=\"/feed.xml\"") && !good[2].body.contains("http://g7."));
        assert!(ask(paper, "/feed.xml").body.contains("http://www.paper01.example:80/s-66666\""));
        assert!(ask(guest, "/robots.txt").more.contains("http://www.hub01.example:80/robots.txt"));

        switches.asks_consent.store(true, Relaxed);
        assert!(ask(paper, "/feed.xml").body.starts_with("<!doctype html"));
        assert_eq!([ask(paper, "/"), ask(shop, "/p-7"), ask(hub, "/p-7")], good);
        switches.asks_consent.store(false, Relaxed);
        switches.refuses.store(true, Relaxed);
        assert!(
            ask(shop, "/p-7").status.starts_with("429") && ask(shop, "/p-7").more.contains("Retry-After: 3")
        );
        assert!(ask(paper, "/feed.xml").status == "200 OK" && ask(shop, "/robots.txt").status == "200 OK");
        switches.refuses.store(false, Relaxed);
        switches.has_guests.store(true, Relaxed);
        assert!(ask(hub, "/p-7").body.contains("http://g7.hub01.example:80/"));
        assert_eq!(ask(shop, "/p-7"), good[1]);
    }
}
