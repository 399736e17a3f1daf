//! A small web of plain threads: sites on loopback addresses that answer as a function says, and a resolver for their names.
//!
//! Invariants: a server ends when its value is dropped; its requests are recorded, in order.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Polling interval of an idle connection.
const LOOK: Duration = Duration::from_millis(50);

/// The time of a situation: runs faster than ours, and is set forward while everything waits.
#[derive(Clone, Debug)]
pub struct Time {
    began: Instant,
    rate: u32,
    ahead_ms: Arc<AtomicU64>,
}

impl Time {
    /// A time that begins now, and runs faster by this factor.
    pub fn new(rate: u32) -> Time {
        Time { began: Instant::now(), rate, ahead_ms: Arc::default() }
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed() * self.rate + self.ahead()
    }

    /// The time since the start, by our own clock.
    pub fn ours(&self) -> Duration {
        self.began.elapsed()
    }

    /// The sum of all jumps.
    pub fn ahead(&self) -> Duration {
        Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed))
    }

    /// Sets the time forward.
    pub fn jump(&self, by: Duration) {
        self.ahead_ms.fetch_add(u64::try_from(by.as_millis()).unwrap_or(0), Ordering::Relaxed);
    }
}

/// A request to a site.
#[derive(Debug)]
pub struct Ask {
    /// Path and query.
    pub path: String,
    /// Number of requests to this site, this one included.
    pub total: usize,
    /// When, since the situation began.
    pub at: Duration,
}

/// An answer of a site.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
    how: How,
}

/// How an answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Whole,
    /// Not at all; the connection stays open until the other side closes.
    Silent,
    /// Not at all; the connection is closed.
    Closed,
    /// Half of the body, then the connection is closed.
    Half,
    /// In pieces, with a rest between them.
    Slow(Duration),
}

impl Reply {
    /// A page with these links.
    pub fn page(title: &str, links: &[String]) -> Reply {
        let links: String = links.iter().map(|link| format!("<a href=\"{link}\">{link}</a>\n")).collect();
        Reply::body("text/html", format!("<!doctype html><title>{title}</title>\n<h1>{title}</h1>\n{links}"))
    }

    /// Something of this type.
    pub fn body(mime: &str, body: impl Into<Vec<u8>>) -> Reply {
        let fields = vec![("Content-Type", mime.to_owned())];
        Reply { status: 200, fields, body: body.into(), how: How::Whole }
    }

    /// Nothing but a status.
    pub fn status(status: u16) -> Reply {
        Reply { status, ..Reply::body("text/plain", format!("{status}\n")) }
    }

    /// A redirect to there.
    pub fn redirect(to: &str) -> Reply {
        Reply::status(302).field("Location", to)
    }

    /// With one more field.
    pub fn field(mut self, name: &'static str, value: &str) -> Reply {
        self.fields.push((name, value.to_owned()));
        self
    }

    /// No answer, and the connection stays open.
    pub fn silent() -> Reply {
        Reply { how: How::Silent, ..Reply::status(200) }
    }

    /// The connection is closed without a word.
    pub fn closed() -> Reply {
        Reply { how: How::Closed, ..Reply::status(200) }
    }

    /// Only half of the body comes.
    pub fn half(self) -> Reply {
        Reply { how: How::Half, ..self }
    }

    /// The body comes in pieces, with this rest between them.
    pub fn slow(self, rest: Duration) -> Reply {
        Reply { how: How::Slow(rest), ..self }
    }
}

/// The function that answers requests.
pub type Answers = Arc<dyn Fn(&Ask) -> Reply + Send + Sync>;

/// How a connection speaks before HTTP.
pub type Dress = Arc<dyn Fn(TcpStream) -> io::Result<Box<dyn ReadWrite>> + Send + Sync>;

/// Both at once.
pub trait ReadWrite: Read + Write + Send {}
impl<T: Read + Write + Send> ReadWrite for T {}

/// A site that is being served.
pub struct Site {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    answers: Answers,
    dress: Option<Dress>,
    time: Time,
    stop: AtomicBool,
    asked: Mutex<Vec<(Duration, String, u16)>>,
}

impl Site {
    /// Serves a site at this address, on a free port.
    pub fn start(address: IpAddr, time: &Time, answers: Answers, dress: Option<Dress>) -> io::Result<Site> {
        Site::start_at(SocketAddr::new(address, 0), time, answers, dress)
    }

    /// The same on a port of one's choice.
    pub fn start_at(
        address: SocketAddr,
        time: &Time,
        answers: Answers,
        dress: Option<Dress>,
    ) -> io::Result<Site> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (stop, asked) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { answers, dress, time: time.clone(), stop, asked });
        let its = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if its.stop.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), its) = (stream, its.clone()) else { continue };
                // A client that hangs up in the middle is ignored.
                std::thread::spawn(move || its.serve(stream).ok());
            }
        });
        Ok(Site { address, shared })
    }

    /// The address of the site.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests: when, path and status, in order. Status 0 if there was no answer.
    pub fn asked(&self) -> Vec<(Duration, String, u16)> {
        self.shared.asked.lock().expect("nobody panics holding it").clone()
    }

    /// The paths that were answered with 200, once each, but for robots.txt.
    pub fn served(&self) -> Vec<String> {
        let asked = self.asked();
        let ok = asked.into_iter().filter(|(_, path, status)| *status == 200 && path != "/robots.txt");
        let mut paths: Vec<String> = ok.map(|(_, path, _)| path).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // The listener waits for a connection.
        TcpStream::connect(self.address).ok();
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let stream: Box<dyn ReadWrite> = match &self.dress {
            Some(dress) => dress(stream)?,
            None => Box::new(stream),
        };
        let mut stream = BufReader::new(stream);
        while !self.stop.load(Ordering::Relaxed) {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let path = line.split(' ').nth(1).unwrap_or("/").to_owned();
            loop {
                let mut field = String::new();
                stream.read_line(&mut field)?;
                if field.trim_end().is_empty() {
                    break;
                }
            }
            let at = self.time.elapsed();
            let total = self.asked.lock().expect("nobody panics holding it").len() + 1;
            let ask = Ask { path, total, at };
            let reply = (self.answers)(&ask);
            let said = !matches!(reply.how, How::Silent | How::Closed);
            let status = if said { reply.status } else { 0 };
            self.asked.lock().expect("nobody panics holding it").push((at, ask.path, status));
            if !self.send(stream.get_mut(), &reply)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends an answer. Returns false if the connection is over.
    fn send(&self, out: &mut Box<dyn ReadWrite>, reply: &Reply) -> io::Result<bool> {
        match reply.how {
            How::Closed => return Ok(false),
            How::Silent => {
                let mut byte = [0];
                // Until the other side has had enough.
                while !self.stop.load(Ordering::Relaxed) {
                    if out.read(&mut byte)? == 0 {
                        break;
                    }
                }
                return Ok(false);
            }
            How::Whole | How::Half | How::Slow(_) => {}
        }
        let mut head = format!("HTTP/1.1 {} Said\r\nContent-Length: {}\r\n", reply.status, reply.body.len());
        for (name, value) in &reply.fields {
            head += &format!("{name}: {value}\r\n");
        }
        out.write_all(head.as_bytes())?;
        out.write_all(b"\r\n")?;
        match reply.how {
            How::Half => {
                out.write_all(&reply.body[..reply.body.len() / 2])?;
                out.flush()?;
                return Ok(false);
            }
            How::Slow(rest) => {
                for piece in reply.body.chunks(reply.body.len().div_ceil(20).max(1)) {
                    out.write_all(piece)?;
                    out.flush()?;
                    let until = self.time.elapsed() + rest;
                    while self.time.elapsed() < until && !self.stop.load(Ordering::Relaxed) {
                        std::thread::sleep(LOOK.min(rest / self.time.rate));
                    }
                }
            }
            _ => out.write_all(&reply.body)?,
        }
        out.flush()?;
        Ok(true)
    }
}

/// The answer of a resolver for a name, at some time since the situation began.
pub type Lookup = Arc<dyn Fn(&str, Duration) -> Said + Send + Sync>;

/// A resolver's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// These addresses, of both families.
    Addresses(Vec<IpAddr>),
    /// There is no such name.
    NoName,
    /// A server failure.
    Failure,
    /// Nothing at all.
    Nothing,
}

/// A resolver, which ends with the process: its only resource is a UDP socket.
pub struct Names {
    address: SocketAddr,
}

impl Names {
    /// Answers at this address.
    pub fn start(address: IpAddr, time: &Time, lookup: Lookup) -> io::Result<Names> {
        let socket = UdpSocket::bind(SocketAddr::new(address, 0))?;
        let address = socket.local_addr()?;
        let time = time.clone();
        std::thread::spawn(move || {
            let mut packet = [0; 1_500];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                let Some((name, kind, end)) = question(&packet[..length]) else { continue };
                let said = lookup(&name, time.elapsed());
                if let Some(answer) = answer(&packet[..end], kind, &said) {
                    socket.send_to(&answer, from).ok();
                }
            }
        });
        Ok(Names { address })
    }

    /// The address of the resolver.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;

/// The name and type of the one question, and its end.
fn question(packet: &[u8]) -> Option<(String, u16, usize)> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*packet.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(packet.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?);
    packet.get(at + 4 - 1)?;
    Some((labels.join("."), kind, at + 4))
}

fn answer(question: &[u8], kind: u16, said: &Said) -> Option<Vec<u8>> {
    let none = Vec::new();
    let (code, addresses) = match said {
        Said::Addresses(addresses) => (0, addresses),
        Said::NoName => (3, &none),
        Said::Failure => (2, &none),
        Said::Nothing => return None,
    };
    let of_kind = |address: &&IpAddr| match kind {
        TYPE_A => address.is_ipv4(),
        TYPE_AAAA => address.is_ipv6(),
        _ => false,
    };
    let records: Vec<&IpAddr> = addresses.iter().filter(of_kind).collect();
    let mut packet = question.to_vec();
    packet[2] = 0x81;
    packet[3] = 0x80 | code;
    packet[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    packet[8..12].fill(0);
    for address in records {
        // The name of the question; class IN; half a minute.
        packet.extend([0xc0, 12]);
        packet.extend(kind.to_be_bytes());
        packet.extend([0, 1, 0, 0, 0, 30]);
        match address {
            IpAddr::V4(address) => {
                packet.extend([0, 4]);
                packet.extend(address.octets());
            }
            IpAddr::V6(address) => {
                packet.extend([0, 16]);
                packet.extend(address.octets());
            }
        }
    }
    Some(packet)
}
