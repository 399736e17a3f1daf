//! The limit that our crawls are measured against: hyper, kept connections, a list of URLs, our own codec and reader of
//! pages, and nothing else.
//!
//! ```text
//!     bare_loop LIST --address 127.77.0.1 [--ca FILE] [--connections 64] [--compress gzip|zstd] [--links] [--warc FILE]
//! ```
//!
//! The list is cut into visits: some pages of one host, one after the other. Each worker takes a visit and a kept
//! connection to its host, or opens one to the one address that all hosts have, and drives connection and request in one
//! task. A connection that no later visit can use is closed. No names are resolved, nothing is checked, nothing is kept.
//! `--compress` adds work that no archive can do without: each body is compressed once, by the codec of our archive at its
//! default level. `--links` reads every page like a crawl, with the same handler, and drops the links. `--warc` writes the
//! compressed bodies to a file, as response records with their payload's digest: no request, no metadata, no index, no
//! sync. An answer other than 200 ends the run.
//!
//! HTTP/1.1 only, and bodies without a content coding.

use std::future::poll_fn;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::{Parser, ValueEnum};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use nephila_core::handler::{self, Limits, Page, ReadAs};
use nephila_core::store::{Digest, record};
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_store::archive::Packer;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Size of the file's write buffer in bytes.
const FILE_BUFFER: usize = 1024 * 1024;
/// Maximum number of pages of a visit: enough that a small host takes one connection, and that workers seldom meet.
const VISIT_PAGES_MAX: usize = 16;
/// Visits of each worker at least, so that workers end together.
const VISITS_MIN: usize = 8;

/// Command line arguments.
#[derive(Parser)]
struct Args {
    /// A file of URLs, one per line, all with http or all with https, host by host.
    list: PathBuf,
    /// The address of all hosts.
    #[arg(long)]
    address: IpAddr,
    /// Certificates to trust (PEM).
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Number of workers; each has one connection at a time.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Compress each body.
    #[arg(long)]
    compress: Option<Compress>,
    /// Read the links of every page.
    #[arg(long)]
    links: bool,
    /// Write a response record per page to this file.
    #[arg(long, requires = "compress")]
    warc: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Compress {
    Gzip,
    Zstd,
}

impl Compress {
    fn packer(self) -> anyhow::Result<Packer> {
        let name = match self {
            Compress::Gzip => "gzip",
            Compress::Zstd => "zstd",
        };
        Ok(Packer::new(name.parse().map_err(anyhow::Error::msg)?)?)
    }
}

/// What all workers share.
struct Shared {
    urls: Vec<http::Uri>,
    hosts: Vec<Host>,
    visits: Vec<Visit>,
    next: AtomicUsize,
    address: IpAddr,
    tls: Option<TlsConnector>,
    reads_links: bool,
    warc: Option<Mutex<std::io::BufWriter<std::fs::File>>>,
    counts: Counts,
}

/// A host and the connections to it that nobody uses now.
struct Host {
    name: String,
    kept: Mutex<Vec<Connection>>,
    /// Visits that no worker has taken.
    visits_left: AtomicUsize,
}

/// Some pages of one host.
struct Visit {
    host: usize,
    urls: Range<usize>,
}

#[derive(Default)]
struct Counts {
    bytes: AtomicU64,
    compressed: AtomicU64,
    opened: AtomicU64,
    links: AtomicU64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let text = std::fs::read_to_string(&args.list).with_context(|| args.list.display().to_string())?;
    let urls = text.lines().map(str::parse).collect::<Result<Vec<http::Uri>, _>>()?;
    let (hosts, visits) = cut(&urls, args.connections)?;
    let shared = Arc::new(Shared {
        urls,
        hosts,
        visits,
        next: AtomicUsize::new(0),
        address: args.address,
        tls: args.ca.as_deref().map(connector).transpose()?,
        reads_links: args.links,
        warc: args.warc.as_deref().map(create).transpose()?,
        counts: Counts::default(),
    });
    let mut workers = JoinSet::new();
    for _ in 0..args.connections {
        let packer = args.compress.map(Compress::packer).transpose()?;
        workers.spawn(Worker::new(shared.clone(), packer).run());
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    if let Some(warc) = &shared.warc {
        warc.lock().expect("nobody panics holding it").flush()?;
    }
    let counts = &shared.counts;
    println!(
        "{} pages, {} bytes, {} links, {} compressed, {} connections",
        shared.urls.len(),
        counts.bytes.load(Ordering::Relaxed),
        counts.links.load(Ordering::Relaxed),
        counts.compressed.load(Ordering::Relaxed),
        counts.opened.load(Ordering::Relaxed)
    );
    Ok(())
}

/// Cuts the list into visits.
fn cut(urls: &[http::Uri], workers: usize) -> anyhow::Result<(Vec<Host>, Vec<Visit>)> {
    let len = (urls.len() / (workers * VISITS_MIN).max(1)).clamp(1, VISIT_PAGES_MAX);
    let (mut hosts, mut visits, mut begin) = (Vec::new(), Vec::new(), 0);
    for pages in urls.chunk_by(|a, b| a.authority() == b.authority()) {
        let name = pages[0].authority().context("a URL without a host")?.to_string();
        let end = begin + pages.len();
        let before = visits.len();
        visits.extend(
            (begin..end)
                .step_by(len)
                .map(|from| Visit { host: hosts.len(), urls: from..(from + len).min(end) }),
        );
        let visits_left = AtomicUsize::new(visits.len() - before);
        hosts.push(Host { name, kept: Mutex::default(), visits_left });
        begin = end;
    }
    Ok((hosts, visits))
}

fn connector(ca: &std::path::Path) -> anyhow::Result<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn create(path: &std::path::Path) -> anyhow::Result<Mutex<std::io::BufWriter<std::fs::File>>> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
    Ok(Mutex::new(std::io::BufWriter::with_capacity(FILE_BUFFER, file)))
}

/// One of those who take visits, with its buffers.
struct Worker {
    shared: Arc<Shared>,
    packer: Option<Packer>,
    keys: KeyRules,
    limits: Limits,
    page: Vec<u8>,
    head: Vec<u8>,
    answer: Vec<u8>,
    member: Vec<u8>,
}

impl Worker {
    fn new(shared: Arc<Shared>, packer: Option<Packer>) -> Worker {
        Worker {
            shared,
            packer,
            keys: KeyRules::default(),
            limits: Limits::default(),
            page: Vec::new(),
            head: Vec::new(),
            answer: Vec::new(),
            member: Vec::new(),
        }
    }

    async fn run(mut self) -> anyhow::Result<()> {
        let shared = self.shared.clone();
        while let Some(visit) = shared.visits.get(shared.next.fetch_add(1, Ordering::Relaxed)) {
            let host = &shared.hosts[visit.host];
            host.visits_left.fetch_sub(1, Ordering::Relaxed);
            let kept = host.kept.lock().expect("nobody panics holding it").pop();
            let mut connection = match kept {
                Some(connection) => connection,
                None => open(&shared, &shared.urls[visit.urls.start]).await?,
            };
            for url in &shared.urls[visit.urls.clone()] {
                self.visit(url, &host.name, &mut connection).await?;
            }
            let mut kept = host.kept.lock().expect("nobody panics holding it");
            match host.visits_left.load(Ordering::Relaxed) {
                0 => kept.clear(),
                _ => kept.push(connection),
            }
        }
        Ok(())
    }

    /// One page: requested, read, compressed, written.
    async fn visit(&mut self, url: &http::Uri, host: &str, on: &mut Connection) -> anyhow::Result<()> {
        let counts = &self.shared.counts;
        let page = (self.packer.is_some() || self.shared.reads_links).then_some(&mut self.page);
        let (head, bytes) = match on.get(url, host, page).await {
            Ok(got) => got,
            // The server has closed it since the page before.
            Err(_) if on.is_over => {
                *on = open(&self.shared, url).await?;
                let page = Some(&mut self.page);
                on.get(url, host, page).await?
            }
            Err(error) => return Err(error),
        };
        ensure!(head.status == 200, "{url}: {}", head.status);
        counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.shared.reads_links {
            let links = self.links(url, &head.headers)?;
            counts.links.fetch_add(links, Ordering::Relaxed);
        }
        self.pack(url, &head)
    }

    /// The number of links of the page, with the reader of a crawl.
    fn links(&self, url: &http::Uri, fields: &http::HeaderMap) -> anyhow::Result<u64> {
        let url = CrawlUrl::parse(&url.to_string()).map_err(|error| anyhow::anyhow!("{url}: {error}"))?;
        let body = &self.page;
        let read_as = ReadAs::Page;
        let page = Page { url: &url, fields, body, read_as, agent: "Nephila", keys: &self.keys };
        Ok(handler::read_page(&page, &self.limits).links.len() as u64)
    }

    /// Compresses the page, as a record if there is a file for it.
    fn pack(&mut self, url: &http::Uri, head: &http::response::Parts) -> anyhow::Result<()> {
        let Some(packer) = &mut self.packer else { return Ok(()) };
        self.member.clear();
        match &self.shared.warc {
            None => packer.pack(&[&self.page], &mut self.member)?,
            Some(warc) => {
                self.answer.clear();
                write!(self.answer, "HTTP/1.1 {}\r\n", head.status)?;
                for (name, value) in &head.headers {
                    for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                        self.answer.extend_from_slice(part);
                    }
                }
                self.answer.extend_from_slice(b"\r\n");
                self.head.clear();
                write!(
                    self.head,
                    "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nWARC-Payload-Digest: {}\r\n\
                     Content-Type: application/http;msgtype=response\r\nContent-Length: {}\r\n\r\n",
                    Digest::of(&[&self.page]),
                    self.answer.len() + self.page.len()
                )?;
                packer.pack(&[&self.head, &self.answer, &self.page, record::END], &mut self.member)?;
                warc.lock().expect("nobody panics holding it").write_all(&self.member)?;
            }
        }
        self.shared.counts.compressed.fetch_add(self.member.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// A connection, driven by the worker that uses it.
struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_over: bool,
}

impl Connection {
    /// Gets one page: its head and the length of its body, which is put into `page` if wanted.
    async fn get(
        &mut self,
        url: &http::Uri,
        host: &str,
        mut page: Option<&mut Vec<u8>>,
    ) -> anyhow::Result<(http::response::Parts, u64)> {
        let target = url.path_and_query().map_or("/", |target| target.as_str());
        let request = http::Request::get(target).header(http::header::HOST, host).body(Empty::new())?;
        let Connection { sender, driver, is_over } = self;
        let exchange = async {
            sender.ready().await?;
            let (head, mut body) = sender.send_request(request).await?.into_parts();
            let mut bytes = 0;
            if let Some(page) = &mut page {
                page.clear();
            }
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame?.into_data() else { continue };
                bytes += data.len() as u64;
                if let Some(page) = &mut page {
                    page.extend_from_slice(&data);
                }
            }
            anyhow::Ok((head, bytes))
        };
        let mut exchange = pin!(exchange);
        poll_fn(|cx| {
            if let Poll::Ready(done) = exchange.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            if !*is_over {
                *is_over = driver.as_mut().poll(cx).is_ready();
            }
            // What the connection has just read is here for the exchange: no other task has to be woken.
            exchange.as_mut().poll(cx)
        })
        .await
    }
}

async fn open(shared: &Shared, url: &http::Uri) -> anyhow::Result<Connection> {
    shared.counts.opened.fetch_add(1, Ordering::Relaxed);
    let https = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if https { 443 } else { 80 });
    let stream = TcpStream::connect(SocketAddr::from((shared.address, port))).await?;
    stream.set_nodelay(true)?;
    match &shared.tls {
        Some(tls) if https => {
            let name = ServerName::try_from(url.host().context("no host")?.to_owned())?;
            shake_hands(TokioIo::new(tls.connect(name, stream).await?)).await
        }
        _ => shake_hands(TokioIo::new(stream)).await,
    }
}

async fn shake_hands<S>(stream: S) -> anyhow::Result<Connection>
where
    S: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(stream).await?;
    let driver = Box::pin(async move {
        connection.await.ok();
    });
    Ok(Connection { sender, driver, is_over: false })
}
