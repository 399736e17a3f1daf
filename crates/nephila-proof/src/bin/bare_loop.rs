//! The limit that `nephila fetch` and `nephila crawl` are measured against: hyper, kept connections, a list of URLs, and
//! nothing else.
//!
//! ```text
//!     bare_loop LIST --address 127.77.0.1 [--ca FILE] [--connections 64] [--compress gzip|zstd] [--links] [--warc FILE]
//! ```
//!
//! Each worker takes URLs from the list, sends a request over a kept connection to the host (or a new one to the one
//! address that all hosts have), and reads the body to its end. No names are resolved, nothing is checked, nothing is
//! kept. `--compress` adds work that no archive can do without: each body is compressed once, with libdeflate at level
//! 1 or zstd at level 3, the defaults of our archive. `--links` parses every page like a crawl, with the same handler,
//! and drops the links. `--warc` writes the compressed bodies to a file, as response records with their payload's
//! digest: no request, no metadata, no index, no sync. An answer other than 200 ends the run.

use std::collections::HashMap;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::{Parser, ValueEnum};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use nephila_core::handler::{self, Limits, Page, ReadAs};
use nephila_core::store::Digest;
use nephila_core::url::{CrawlUrl, KeyRules};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Size of the file's write buffer in bytes.
const FILE_BUFFER: usize = 1024 * 1024;

/// Command line arguments.
#[derive(Parser)]
struct Args {
    /// A file of URLs, one per line, all with http or all with https.
    list: PathBuf,
    /// The address of all hosts.
    #[arg(long)]
    address: IpAddr,
    /// Certificates to trust (PEM).
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Number of workers; each requests one host at a time.
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

type Sender = SendRequest<Empty<Bytes>>;

struct Shared {
    urls: Vec<http::Uri>,
    next: AtomicUsize,
    address: IpAddr,
    tls: Option<TlsConnector>,
    kept: Mutex<HashMap<String, Vec<Sender>>>,
    bytes: AtomicU64,
    compressed: AtomicU64,
    opened: AtomicU64,
    reads_links: bool,
    links: AtomicU64,
    warc: Option<Mutex<std::io::BufWriter<std::fs::File>>>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let text = std::fs::read_to_string(&args.list).with_context(|| args.list.display().to_string())?;
    let urls = text.lines().map(str::parse).collect::<Result<Vec<http::Uri>, _>>()?;
    let shared = Arc::new(Shared {
        urls,
        next: AtomicUsize::new(0),
        address: args.address,
        tls: args.ca.as_deref().map(connector).transpose()?,
        kept: Mutex::default(),
        bytes: AtomicU64::new(0),
        compressed: AtomicU64::new(0),
        opened: AtomicU64::new(0),
        reads_links: args.links,
        links: AtomicU64::new(0),
        warc: args.warc.as_deref().map(create).transpose()?,
    });
    let mut workers = JoinSet::new();
    for _ in 0..args.connections {
        workers.spawn(work(shared.clone(), args.compress));
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    if let Some(warc) = &shared.warc {
        warc.lock().expect("nobody panics holding it").flush()?;
    }
    println!(
        "{} pages, {} bytes, {} links, {} compressed, {} connections",
        shared.urls.len(),
        shared.bytes.load(Ordering::Relaxed),
        shared.links.load(Ordering::Relaxed),
        shared.compressed.load(Ordering::Relaxed),
        shared.opened.load(Ordering::Relaxed)
    );
    Ok(())
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

async fn work(shared: Arc<Shared>, compress: Option<Compress>) -> anyhow::Result<()> {
    let mut compressor = compress.map(Compressor::new).transpose()?;
    let (mut page, mut record) = (Vec::new(), Vec::new());
    while let Some(url) = shared.urls.get(shared.next.fetch_add(1, Ordering::Relaxed)) {
        let host = url.authority().context("no host")?.as_str();
        let kept = shared.kept.lock().expect("nobody panics holding it").get_mut(host).and_then(Vec::pop);
        let mut sender = match kept {
            Some(sender) => sender,
            None => open(&shared, url).await?,
        };
        if sender.ready().await.is_err() {
            sender = open(&shared, url).await?;
        }
        let target = url.path_and_query().map_or("/", |target| target.as_str());
        let request = http::Request::get(target).header(http::header::HOST, host).body(Empty::new())?;
        let answer = sender.send_request(request).await?;
        ensure!(answer.status() == 200, "{url}: {}", answer.status());
        let (head, mut body) = answer.into_parts();
        page.clear();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                shared.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                if compressor.is_some() || shared.reads_links {
                    page.extend_from_slice(&data);
                }
            }
        }
        if shared.reads_links {
            let found = links(url, &head.headers, &page)?;
            shared.links.fetch_add(found as u64, Ordering::Relaxed);
        }
        if let Some(compressor) = &mut compressor {
            let compressed = match &shared.warc {
                None => compressor.compress(&page)?.len(),
                Some(warc) => {
                    record.clear();
                    write_record(&mut record, url, &head, &page)?;
                    let member = compressor.compress(&record)?;
                    warc.lock().expect("nobody panics holding it").write_all(member)?;
                    member.len()
                }
            };
            shared.compressed.fetch_add(compressed as u64, Ordering::Relaxed);
        }
        shared
            .kept
            .lock()
            .expect("nobody panics holding it")
            .entry(host.to_owned())
            .or_default()
            .push(sender);
    }
    Ok(())
}

/// The number of links of a page, with the parser of a crawl.
fn links(url: &http::Uri, fields: &http::HeaderMap, body: &[u8]) -> anyhow::Result<usize> {
    let url = CrawlUrl::parse(&url.to_string()).map_err(|error| anyhow::anyhow!("{url}: {error}"))?;
    let (keys, limits) = (KeyRules::default(), Limits::default());
    let page = Page { url: &url, fields, body, read_as: ReadAs::Page, agent: "Nephila", keys: &keys };
    Ok(handler::read_page(&page, &limits).links.len())
}

/// The record of an answer.
fn write_record(
    record: &mut Vec<u8>,
    url: &http::Uri,
    head: &http::response::Parts,
    page: &[u8],
) -> anyhow::Result<()> {
    let mut answer = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        answer.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    answer.extend(b"\r\n");
    write!(
        record,
        "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nWARC-Payload-Digest: {}\r\n\
         Content-Type: application/http;msgtype=response\r\nContent-Length: {}\r\n\r\n",
        Digest::of(&[page]),
        answer.len() + page.len()
    )?;
    record.extend([answer.as_slice(), page, b"\r\n\r\n"].concat());
    Ok(())
}

async fn open(shared: &Shared, url: &http::Uri) -> anyhow::Result<Sender> {
    shared.opened.fetch_add(1, Ordering::Relaxed);
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

async fn shake_hands<S>(stream: S) -> anyhow::Result<Sender>
where
    S: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(stream).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Compresses as the archive does.
enum Compressor {
    Gzip(libdeflater::Compressor, Vec<u8>),
    Zstd(zstd::bulk::Compressor<'static>, Vec<u8>),
}

impl Compressor {
    fn new(kind: Compress) -> anyhow::Result<Self> {
        Ok(match kind {
            Compress::Gzip => {
                let level = libdeflater::CompressionLvl::new(1).map_err(|_| anyhow::anyhow!("no level 1"))?;
                Compressor::Gzip(libdeflater::Compressor::new(level), Vec::new())
            }
            Compress::Zstd => Compressor::Zstd(zstd::bulk::Compressor::new(3)?, Vec::new()),
        })
    }

    fn compress(&mut self, page: &[u8]) -> anyhow::Result<&[u8]> {
        match self {
            Compressor::Gzip(compressor, out) => {
                out.resize(compressor.gzip_compress_bound(page.len()), 0);
                let len = compressor.gzip_compress(page, out)?;
                Ok(&out[..len])
            }
            Compressor::Zstd(compressor, out) => {
                out.resize(zstd::zstd_safe::compress_bound(page.len()), 0);
                let len = compressor.compress_to_buffer(page, &mut out[..])?;
                Ok(&out[..len])
            }
        }
    }
}
