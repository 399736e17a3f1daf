//! The program `nephila spider`: fetches for nodes.
//!
//! Each node has a connection and an [`Agent`] of its own, which decides; here are the sockets, the fetches and the bytes of
//! results. A spider keeps nothing on disk and needs no folder. What it fetches is stored at the node.
//!
//! Invariants: a fetch that the agent aborts is dropped with its connection; frames that say something go out before
//! frames that carry bytes, so at most [`PIECES_WAITING`] pieces of a body are before them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use nephila_core::remote::v2::agent::{Action, Agent, Closed, Identity, Piece};
use nephila_core::remote::v2::frame::{Code, Frame};
use nephila_core::remote::v2::message::Wanted;
use nephila_core::spider::Outcome;
use nephila_core::spider::door::Doors;
use nephila_core::store::Payload;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Fetched, Spider};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use xxhash_rust::xxh3::Xxh3;

use super::super::connections::{CONNECT_TIMEOUT, DIAL_WAIT, rand_fraction};
use super::told::{Reader, Told};
use super::{server, tls, translate};
use crate::clock::awake_or_not;
use crate::crawl::readers::Unread;
use crate::service::Service;
use crate::settings::usage;

/// Time between two lines about the work.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// Maximum number of buffers between here and the socket.
const PIECES_WAITING: usize = 2;
/// Maximum number of frames of a node that wait.
const FRAMES_WAITING: usize = 64;

/// What `nephila spider` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes, `HOST:PORT` each.
    pub nodes: Vec<String>,
    /// Its name.
    pub name: String,
    /// File with the token.
    pub token_file: Option<PathBuf>,
    /// File with the certificate of the nodes, or of whoever signed it. Without: no TLS, which is for one machine.
    pub ca: Option<PathBuf>,
    /// A file of certificates of sites that are trusted in addition.
    pub site_ca: Option<PathBuf>,
    /// Maximum number of URLs at the same time, for each node.
    pub capacity: u32,
    /// Maximum number of bytes of results in memory that nodes have not stored, for each node.
    pub held_bytes_max: u64,
    /// Told that the work for each node goes on.
    pub service: Service,
}

/// What a spider has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Fetches that ended.
    pub fetched: u64,
    /// Fetches that were aborted: the lease ended, or the node did not want them any more.
    pub aborted: u64,
}

/// Fetches until `stop` is true, and returns when the nodes have stored everything, or when `stop` is closed.
pub async fn run(options: &Options, stop: watch::Receiver<bool>) -> anyhow::Result<Done> {
    let token = match &options.token_file {
        Some(file) => server::token(file).map_err(usage)?,
        None => String::new(),
    };
    let connector = options.ca.as_deref().map(tls::connector).transpose().map_err(usage)?;
    let mut nodes = JoinSet::new();
    for node in &options.nodes {
        let identity = Identity {
            name: options.name.clone(),
            token: token.clone(),
            capacity: options.capacity,
            held_bytes_max: options.held_bytes_max,
        };
        let link = Dial { node: node.clone(), connector: connector.clone() };
        nodes.spawn(Driver::new(identity, options.clone(), link).run(stop.clone()));
    }
    let mut all = Done::default();
    while let Some(done) = nodes.join_next().await {
        let done = done.context("a task of the spider has ended")??;
        all.fetched += done.fetched;
        all.aborted += done.aborted;
    }
    Ok(all)
}

/// How to reach a node.
#[derive(Clone)]
struct Dial {
    node: String,
    connector: Option<tokio_rustls::TlsConnector>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Dial {
    async fn connect(&self) -> anyhow::Result<Box<dyn Stream>> {
        let connect = async {
            let stream = TcpStream::connect(&self.node).await?;
            stream.set_nodelay(true)?;
            anyhow::Ok(match &self.connector {
                Some(connector) => {
                    let host = self.node.rsplit_once(':').map_or(&*self.node, |(host, _)| host);
                    let host = host.trim_matches(['[', ']']).to_owned();
                    let name = rustls::pki_types::ServerName::try_from(host)?;
                    Box::new(connector.connect(name, stream).await.context("TLS")?) as Box<dyn Stream>
                }
                None => Box::new(stream),
            })
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connect).await.context("no answer in time")?
    }
}

/// The result of a fetch until the node has stored it.
struct Parcel {
    facts: Bytes,
    body: Option<Box<dyn Payload>>,
    check: Xxh3,
}

impl Parcel {
    /// Bytes of facts and body. A body that cannot be read is a fault of this machine's disk.
    fn piece(&self, from: u64, len: usize) -> std::io::Result<Bytes> {
        let facts = self.facts.len() as u64;
        let mut bytes = BytesMut::with_capacity(len);
        if from < facts {
            let start = from as usize;
            bytes.extend_from_slice(&self.facts[start..self.facts.len().min(start + len)]);
        }
        if bytes.len() < len
            && let Some(body) = &self.body
        {
            let from = (from + bytes.len() as u64).saturating_sub(facts);
            bytes.extend_from_slice(&body.piece(from, len - bytes.len())?);
        }
        match bytes.len() == len {
            true => Ok(bytes.freeze()),
            false => Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Something that happened.
enum Event {
    Connected(anyhow::Result<Box<dyn Stream>>),
    /// A frame of a connection, by its number, or its end.
    Frame(u64, Option<Frame>),
    /// The end of a fetch, and what was found on the page.
    Fetched(u64, Box<Fetched>, Vec<u8>),
    /// Pages could not be read to their end, and each still holds a thread.
    Stuck,
}

/// The work for one node.
struct Driver {
    agent: Agent,
    options: Options,
    dial: Dial,
    spider: Option<(Spider, Reader)>,
    doors: Doors,
    events: (mpsc::Sender<Event>, mpsc::Receiver<Event>),
    fetches: HashMap<u64, (AbortHandle, bool)>,
    parcels: HashMap<u64, Parcel>,
    tasks: JoinSet<()>,
    /// Frames to write.
    out: Vec<u8>,
    /// The connection: its number, and where its bytes go.
    link: Option<(u64, mpsc::Sender<Vec<u8>>)>,
    links: u64,
    is_dialling: bool,
    wait: Duration,
    done: Done,
    end: Option<anyhow::Result<()>>,
}

impl Driver {
    fn new(identity: Identity, options: Options, dial: Dial) -> Driver {
        Driver {
            agent: Agent::new(identity),
            options,
            dial,
            spider: None,
            doors: Doors::default(),
            events: mpsc::channel(FRAMES_WAITING),
            fetches: HashMap::new(),
            parcels: HashMap::new(),
            tasks: JoinSet::new(),
            out: Vec::new(),
            link: None,
            links: 0,
            is_dialling: false,
            wait: DIAL_WAIT[0],
            done: Done::default(),
            end: None,
        }
    }

    async fn run(mut self, mut stop: watch::Receiver<bool>) -> anyhow::Result<Done> {
        let mut say = tokio::time::interval(SAY_EVERY);
        let mut said = Done::default();
        let part = self.options.service.part();
        let mut is_leaving = false;
        loop {
            if let Some(end) = self.end.take() {
                return end.map(|()| self.done);
            }
            if is_leaving && self.link.is_none() {
                return Ok(self.done);
            }
            self.maybe_dial();
            while self.tasks.try_join_next().is_some() {}
            let next = self.agent.next();
            let due = async {
                match next {
                    Some(at) => {
                        tokio::time::sleep(Duration::from_millis(at.saturating_sub(awake_or_not()))).await
                    }
                    None => std::future::pending().await,
                }
            };
            let writer = self.link.as_ref().map(|(_, writer)| writer.clone());
            let has_more = !self.out.is_empty() || self.agent.has_pieces();
            let room = async {
                match writer {
                    Some(writer) if has_more => writer.reserve_owned().await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = stop.changed(), if !is_leaving => match changed {
                    Ok(()) if !*stop.borrow() => {}
                    Ok(()) => {
                        is_leaving = true;
                        self.agent.leave(awake_or_not());
                    }
                    Err(_) => return Ok(self.done),
                },
                Some(event) = self.events.1.recv() => self.handle(event),
                room = room => match room {
                    Ok(room) => {
                        self.write_piece();
                        _ = room.send(std::mem::take(&mut self.out));
                    }
                    Err(_) => self.link = None,
                },
                () = due => self.agent.tick(awake_or_not()),
                _ = say.tick() => {
                    part.alive();
                    if self.done != said {
                        said = self.done;
                        let (node, running) = (&self.dial.node, self.agent.running());
                        tracing::info!(fetched = said.fetched, running, "{} pages fetched for {node}, {running} under way", said.fetched);
                    }
                }
            }
            self.act();
        }
    }

    fn maybe_dial(&mut self) {
        if self.link.is_some() || self.is_dialling {
            return;
        }
        self.is_dialling = true;
        let (dial, events, wait, is_first) =
            (self.dial.clone(), self.events.0.clone(), self.wait, self.links == 0);
        self.tasks.spawn(async move {
            if !is_first {
                // Up to half as long again, so that spiders that lost the same node do not come back together.
                tokio::time::sleep(wait.mul_f64(1.0 + rand_fraction() / 2.0)).await;
            }
            _ = events.send(Event::Connected(dial.connect().await)).await;
        });
    }

    fn handle(&mut self, event: Event) {
        let now = awake_or_not();
        match event {
            Event::Connected(Ok(stream)) => {
                self.is_dialling = false;
                self.open(stream);
                self.agent.connected(now);
            }
            Event::Connected(Err(error)) => {
                (self.is_dialling, self.links) = (false, self.links.max(1));
                self.wait = (self.wait * 2).min(DIAL_WAIT[1]);
                let node = &self.dial.node;
                tracing::warn!(%node, "the node {node} cannot be reached, next try in {:?}: {error:#}", self.wait);
            }
            Event::Frame(link, frame) if self.link.as_ref().is_some_and(|(number, _)| *number == link) => {
                match frame {
                    Some(frame) => self.agent.frame(now, frame),
                    None => {
                        self.link = None;
                        self.agent.closed(now);
                        tracing::warn!(node = %self.dial.node, "the connection to the node {} has ended", self.dial.node);
                    }
                }
            }
            Event::Frame(..) => {}
            Event::Fetched(id, fetched, found) => self.fetched(now, id, *fetched, found),
            Event::Stuck => {
                self.end = Some(Err(anyhow::anyhow!(
                    "too many pages could not be read to their end and each still holds a thread: start the spider again"
                )));
            }
        }
    }

    /// Reads frames from a new connection, and writes what is given.
    fn open(&mut self, stream: Box<dyn Stream>) {
        self.links += 1;
        self.out.clear();
        let number = self.links;
        let (mut read, mut write) = tokio::io::split(stream);
        let (send, mut written) = mpsc::channel::<Vec<u8>>(PIECES_WAITING);
        let events = self.events.0.clone();
        self.link = Some((number, send));
        self.tasks.spawn(async move {
            let mut bytes = BytesMut::new();
            let reading = async {
                while let Ok(Some(frame)) = server::next(&mut read, &mut bytes).await {
                    if events.send(Event::Frame(number, Some(frame))).await.is_err() {
                        return;
                    }
                }
            };
            let writing = async {
                while let Some(bytes) = written.recv().await {
                    if write.write_all(&bytes).await.is_err() || write.flush().await.is_err() {
                        return;
                    }
                }
                _ = write.shutdown().await;
            };
            tokio::select! {
                () = reading => {}
                () = writing => {}
            }
            _ = events.send(Event::Frame(number, None)).await;
        });
    }

    fn act(&mut self) {
        while let Some(action) = self.agent.poll() {
            match action {
                Action::Send(frame) => frame.put(&mut self.out),
                Action::Start { id, wanted } => self.start(id, &wanted),
                Action::Abort { id } => {
                    if let Some((fetch, _)) = self.fetches.remove(&id) {
                        fetch.abort();
                        self.done.aborted += 1;
                    }
                }
                Action::Forget { id } => _ = self.parcels.remove(&id),
                Action::Begin { settings } => {
                    self.wait = DIAL_WAIT[0];
                    match Told::read(&settings, self.options.site_ca.as_ref()) {
                        Ok(spider) => self.spider = Some(spider),
                        Err(error) => self.end = Some(Err(error)),
                    }
                    tracing::info!(node = %self.dial.node, "fetches for the node {}", self.dial.node);
                }
                Action::CloseSites => {
                    if let Some((spider, _)) = &self.spider {
                        spider.close_idle(|_| true);
                    }
                }
                Action::Close(why) => self.close(why),
            }
        }
    }

    fn close(&mut self, why: Closed) {
        let node = &self.dial.node;
        match why {
            Closed::Refused(code @ (Code::Token | Code::Version | Code::Network), text) => {
                self.end = Some(Err(usage(anyhow::anyhow!(
                    "the node {node} refuses this spider ({code:?}): {text}"
                ))));
            }
            Closed::Refused(code, text) => {
                self.wait = (self.wait * 2).min(DIAL_WAIT[1]);
                tracing::warn!(%node, "the node {node} has closed the connection ({code:?}): {text}");
            }
            Closed::Silent => {
                tracing::warn!(%node, "nothing was heard of the node {node} until the lease ended: all fetches are aborted");
            }
            Closed::Frame => tracing::error!(%node, "the node {node} sent what a node does not send"),
            Closed::Left => {}
        }
        if let Some((_, writer)) = self.link.take() {
            // The last frame; the socket is closed after it.
            _ = writer.try_send(std::mem::take(&mut self.out));
        }
    }

    fn start(&mut self, id: u64, wanted: &Wanted) {
        let events = self.events.0.clone();
        let request = translate::request(wanted);
        let Some(((spider, reader), request)) = self.spider.clone().zip(request) else {
            let fetched = Fetched::not_sent(Outcome::UrlBad, "the spider cannot read the request".into());
            return self.fetched(awake_or_not(), id, fetched, Vec::new());
        };
        if wanted.is_typed && self.doors.open(&request.url) {
            spider.set_doors(self.doors.clone());
        }
        let (keep, read_as) = (wanted.keep_connection, wanted.read_as);
        let fetch = self.tasks.spawn(async move {
            let (origin, url) = ((!keep).then(|| request.url.origin().to_owned()), request.url.clone());
            let mut fetched = Box::new(spider.fetch(request).await);
            if let Some(origin) = origin {
                spider.close_idle(|other| other == origin);
            }
            let found = match read_as {
                Some(read_as) => reader.found(&url, read_as, &fetched).await,
                None => Ok(Vec::new()),
            };
            fetched.decoded = None;
            let event = match found {
                Err(Unread::TooMany) => Event::Stuck,
                found => Event::Fetched(id, fetched, found.unwrap_or_default()),
            };
            _ = events.send(event).await;
        });
        self.fetches.insert(id, (fetch, wanted.keep_exchange));
    }

    fn fetched(&mut self, now: u64, id: u64, fetched: Fetched, found: Vec<u8>) {
        let keeps = self.fetches.remove(&id).is_some_and(|(_, keeps)| keeps);
        let (facts, body) = translate::facts(fetched, keeps, found);
        let facts = Bytes::from(facts.to_bytes());
        let len = body.as_ref().map_or(0, |body| body.len());
        if self.agent.ended(now, id, facts.len() as u32, len) {
            self.done.fetched += 1;
            self.parcels.insert(id, Parcel { facts, body, check: Xxh3::new() });
        }
    }

    /// Appends the next piece of a result to what is written.
    fn write_piece(&mut self) {
        let Some(Piece { id, begins, from, len, ends }) = self.agent.next_piece() else { return };
        let Some(parcel) = self.parcels.get_mut(&id) else { return };
        let bytes = match parcel.piece(from, len) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.end = Some(Err(
                    anyhow::Error::new(error).context("a temporary file with a body cannot be read")
                ));
                return;
            }
        };
        if begins.is_some() {
            parcel.check = Xxh3::new();
        }
        parcel.check.update(&bytes);
        match begins {
            Some((facts, all)) => {
                Frame::Done { id, facts, body: all - u64::from(facts), start: bytes }.put(&mut self.out);
            }
            None => Frame::Data { id, bytes }.put(&mut self.out),
        }
        if ends {
            Frame::End { id, check: parcel.check.digest() }.put(&mut self.out);
        }
    }
}

/// Whether this is `host:port`.
pub fn is_node(text: &str) -> bool {
    CrawlUrl::parse(&format!("http://{text}/")).is_ok()
        && text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}
