//! A cluster with all keys of `docs/operating.md`, the contents of its servers, and strangers that listen.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use nephila_core::cluster::member::NodeRecord;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

pub(super) const NODES: [&str; 3] = ["one", "two", "three"];
/// Records that nothing but an order, a start or a take-over changes.
const STANDING: [&str; 7] = ["owner.", "job.", "orders", "pins", "drain.", "cluster", "session"];
/// Timeout of a call.
const CALL_MAX: Duration = Duration::from_secs(20);

/// The contents of the servers that no attack may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// By subject, the number of the message and its payload.
    records: BTreeMap<String, (u64, Vec<u8>)>,
    /// The three nodes: their addresses and incarnations.
    leases: BTreeMap<String, (String, u64)>,
    /// The configuration of each stream.
    streams: BTreeMap<String, Value>,
    /// Number of messages of each log.
    logs: BTreeMap<String, usize>,
}

impl World {
    /// Three servers and three nodes with TLS, a key for each, and a token for each role. There is a key for a fourth node,
    /// `evil`, which a thief has. A page is fetched, so that there is something to take.
    pub(super) async fn fortress() -> World {
        let mut world = World::of(World::web()).await;
        let keys = world.keys().display().to_string();
        let nodes = "one=127.0.0.1,two=127.0.0.1,three=127.0.0.1,evil=127.0.0.1";
        let said = world.ask(&["cluster", "keys", &keys, "--server", "127.0.0.1", "--node", nodes]);
        assert!(said.status.success(), "{}", text(&said));
        // Another cluster of the same name, with an authority of its own.
        let other = world.dir.path().join("other").display().to_string();
        let said = world.ask(&["cluster", "keys", &other, "--server", "127.0.0.1", "--node", nodes]);
        assert!(said.status.success(), "{}", text(&said));
        let file = |name: &str| world.keys().join(name).display().to_string();
        let tls = format!(
            "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?} }}\n",
            file("server-127.0.0.1.pem"),
            file("server-127.0.0.1.key"),
            file("ca.pem"),
        );
        let extra = format!("{}\n{tls}", world.key("accounts.conf"));
        let options = Options { servers: 3, extra, routes_extra: tls, ..Options::default() };
        world.nats = tokio::task::block_in_place(|| Nats::with(options)).unwrap();
        for name in NODES {
            world.be_node(name);
            let node = world.start_node(name);
            world.nodes.push(node);
        }
        world.be_operator();
        world.wait_for_owners(4);
        let url = world.url(0, 0);
        let made = world.say(&["job", "create", "press", &url, "--scope", "page"]);
        assert!(made.status.success(), "{}", text(&made));
        let done = world.say(&["job", "wait", "press", "--timeout", "90s"]);
        assert!(done.status.success(), "{}", text(&done));
        world
    }

    /// The contents of a key file.
    pub(super) fn key(&self, name: &str) -> String {
        std::fs::read_to_string(self.keys().join(name)).unwrap().trim().to_owned()
    }

    fn be_node(&mut self, name: &str) {
        self.be(&format!("node-{name}"));
        let file = |name: &str| self.keys().join(name).display().to_string();
        let more = [
            format!("api.tls_cert_file={}", file(&format!("node-{name}.pem"))),
            format!("api.tls_key_file={}", file(&format!("node-{name}.key"))),
            format!("api.token_file={}", file("operate.token")),
            format!("api.read_token_file={}", file("read.token")),
            format!("api.node_token_file={}", file("node.token")),
        ];
        self.more.extend(more);
        self.more.push("cluster.replicas=3".to_owned());
    }

    fn be_operator(&mut self) {
        self.be("operator");
        self.more.push("cluster.replicas=3".to_owned());
    }

    /// All secrets.
    pub(super) fn secrets(&self) -> Vec<(String, String)> {
        let mut secrets = Vec::new();
        for entry in std::fs::read_dir(self.keys()).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            if [".nk", ".token", ".key"].iter().any(|end| name.ends_with(end)) {
                // The second line of a key in PEM is as good as the whole.
                let text = self.key(&name);
                let line = text.lines().nth(usize::from(name.ends_with(".key"))).unwrap();
                secrets.push((name, line.to_owned()));
            }
        }
        assert!(secrets.len() >= 14, "{}", secrets.len());
        secrets
    }

    /// `HOST:PORT` of a node.
    pub(super) fn place(&self, node: usize) -> String {
        let address = &self.nodes[node].address;
        address.strip_prefix("https://").unwrap_or_else(|| panic!("{address} is without TLS")).to_owned()
    }

    /// A request over TLS; none if there was no answer.
    pub(super) async fn call(
        &self,
        node: usize,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
    ) -> Option<Reply> {
        let place = self.place(node);
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "{method} /api/v1/{target} HTTP/1.1\r\nhost: {place}\r\nconnection: close\r\ncontent-length: 0\r\n{fields}\r\n"
        );
        let trust = client(&self.keys().join("ca.pem"), None, rustls::ALL_VERSIONS);
        let asked = async {
            let stream = tokio::net::TcpStream::connect(&place).await.ok()?;
            let name = ServerName::try_from("127.0.0.1").unwrap();
            let mut stream = trust.connect(name, stream).await.ok()?;
            stream.write_all(request.as_bytes()).await.ok()?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.ok()?;
            Reply::read(&answer)
        };
        tokio::time::timeout(CALL_MAX, asked).await.ok()?
    }

    /// The present contents of the servers, from their own monitoring and from an operator's view.
    pub(super) async fn standing(&self, operator: &Client) -> Standing {
        let context = async_nats::jetstream::new(operator.clone());
        let mut streams = BTreeMap::new();
        let said =
            tokio::task::block_in_place(|| self.nats.ask(0, "/jsz?streams=true&accounts=true&config=true"));
        for account in said.unwrap()["account_details"].as_array().into_iter().flatten() {
            for stream in account["stream_detail"].as_array().into_iter().flatten() {
                streams.insert(stream["name"].to_string(), stream["config"].clone());
            }
        }
        assert_eq!(streams.len(), 4, "{streams:?}");
        let mut records = BTreeMap::new();
        for (subject, _) in subjects(&context, "RECORDS").await {
            let key = subject.strip_prefix("neph.nephila.record.").unwrap();
            if STANDING.iter().any(|begin| key.starts_with(begin)) {
                let stream = context.get_stream("NEPH_nephila_RECORDS").await.unwrap();
                let last = stream.direct_get_last_for_subject(&*subject).await.unwrap();
                records.insert(subject, (last.sequence, last.payload.to_vec()));
            }
        }
        let mut leases = BTreeMap::new();
        let stream = context.get_stream("NEPH_nephila_LEASES").await.unwrap();
        for name in NODES {
            let last = stream.direct_get_last_for_subject(format!("neph.nephila.lease.node.{name}")).await;
            let record = NodeRecord::decode(&last.unwrap().payload).unwrap();
            leases.insert(record.name, (record.address, record.incarnation.0));
        }
        let mut logs = BTreeMap::new();
        for name in ["0", "1"] {
            let all = subjects(&context, name).await;
            logs.extend(all.into_iter().filter(|(subject, _)| subject.contains(".log.")));
        }
        Standing { records, leases, streams, logs }
    }
}

async fn subjects(context: &async_nats::jetstream::Context, stream: &str) -> BTreeMap<String, usize> {
    let stream = context.get_stream(format!("NEPH_nephila_{stream}")).await.unwrap();
    let mut info = stream.info_with_subjects("neph.nephila.>").await.unwrap();
    let mut subjects = BTreeMap::new();
    while let Some(subject) = info.next().await {
        let (subject, count) = subject.unwrap();
        subjects.insert(subject, count);
    }
    subjects
}

impl Standing {
    /// Checks that everything is unchanged. Logs may have grown.
    pub(super) fn holds(&self, before: &Standing) -> Result<(), String> {
        let shorter = before.logs.iter().find(|(log, count)| self.logs.get(*log) < Some(count));
        if let Some((log, _)) = shorter {
            return Err(format!("{log} is shorter"));
        }
        let same = Standing { logs: before.logs.clone(), ..self.clone() } == *before;
        if same { Ok(()) } else { Err(format!("before: {before:?}\nafter: {self:?}")) }
    }
}

/// A TLS client that trusts one authority, and shows a certificate of its own if given.
pub(super) fn client(
    ca: &Path,
    own: Option<(&Path, &Path)>,
    versions: &[&'static SupportedProtocolVersion],
) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let config = config.with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
        }
    };
    TlsConnector::from(Arc::new(config))
}

/// A TLS server with this certificate.
pub(super) fn server(dir: &Path, name: &str) -> TlsAcceptor {
    let chain = vec![CertificateDer::from_pem_file(dir.join(format!("{name}.pem"))).unwrap()];
    let key = PrivateKeyDer::from_pem_file(dir.join(format!("{name}.key"))).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A listener that records everything sent to its address.
pub(super) struct Stranger {
    pub(super) address: String,
    met: Arc<AtomicUsize>,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Stranger {
    /// Sends this greeting, performs the TLS handshake if possible, listens, and answers like a node.
    pub(super) async fn new(greeting: &'static str, tls: Option<TlsAcceptor>) -> Stranger {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (met, heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (count, kept) = (met.clone(), heard.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let (tls, kept) = (tls.clone(), kept.clone());
                tokio::spawn(async move {
                    _ = stream.write_all(greeting.as_bytes()).await;
                    match tls {
                        None => listen(stream, kept).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                listen(stream, kept).await;
                            }
                        }
                    }
                });
            }
        });
        Stranger { address, met, heard }
    }

    /// Whether any client connected.
    pub(super) fn met(&self) -> bool {
        self.met.load(Ordering::Relaxed) > 0
    }

    /// The received bytes; none if there were none.
    pub(super) fn heard(&self) -> Option<String> {
        let heard = self.heard.lock().unwrap();
        (!heard.is_empty()).then(|| String::from_utf8_lossy(&heard).into_owned())
    }
}

async fn listen<S>(mut stream: S, kept: Arc<Mutex<Vec<u8>>>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut bytes = vec![0; 8_192];
    let read = stream.read(&mut bytes).await.unwrap_or(0);
    // A TLS hello names the server, and has no secret of ours.
    if !bytes.starts_with(&[0x16, 0x03]) {
        kept.lock().unwrap().extend_from_slice(&bytes[..read]);
    }
    let body = r#"{"node":"evil","holds_lease":true,"alarms":[]}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nnephila-node: evil\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    _ = stream.write_all(answer.as_bytes()).await;
}
