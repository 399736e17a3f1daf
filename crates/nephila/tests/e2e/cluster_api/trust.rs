//! A cluster whose servers authenticate their clients, as set up by `nephila cluster keys` and `docs/operating.md`:
//! three servers with TLS and accounts, nodes with keys of their own, and strangers that try to learn or to change
//! something.

// Attacks, all without success.
mod attacks;
// The cluster under attack.
mod fortress;

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use nephila_testnats::{Nats, Options};

use super::*;

/// How long a stranger waits for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(700);
/// A forged message.
const FORGED: &str = r#"{"forged":true}"#;

impl World {
    /// Servers with TLS and the accounts of two nodes, the operator and a reader.
    async fn guarded() -> World {
        let mut world = World::of(World::web()).await;
        let keys = world.keys();
        let said = world.ask(&[
            "cluster",
            "keys",
            &keys.display().to_string(),
            "--server",
            "127.0.0.1",
            "--node",
            "one,two",
        ]);
        assert!(said.status.success(), "{}", text(&said));
        let said = text(&said);
        assert!(said.contains("accounts.conf") && said.contains("nkey_file"), "it says what to do: {said}");
        for name in ["node-one.nk", "node-two.nk", "operator.nk", "reader.nk"] {
            let seed = std::fs::read_to_string(keys.join(name)).unwrap();
            let seed = seed.trim();
            assert!(seed.starts_with("SU") && seed.len() == 58, "a user's seed is in {name}");
            assert!(!said.contains(seed), "the seed of {name} is printed: {said}");
        }
        let file = |name: &str| keys.join(name).display().to_string();
        let extra = format!(
            "{}\ntls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?} }}\n",
            std::fs::read_to_string(keys.join("accounts.conf")).unwrap(),
            file("server-127.0.0.1.pem"),
            file("server-127.0.0.1.key"),
            file("ca.pem"),
        );
        world.nats =
            tokio::task::block_in_place(|| Nats::with(Options { servers: 3, extra, ..Options::default() }))
                .unwrap();
        world.be("operator");
        world
    }

    fn keys(&self) -> PathBuf {
        self.dir.path().join("keys")
    }

    /// Sets the identity of the next commands and nodes towards the servers.
    fn be(&mut self, name: &str) {
        self.more = vec![
            format!("cluster.tls_ca_file={}", self.keys().join("ca.pem").display()),
            format!("cluster.nkey_file={}", self.keys().join(format!("{name}.nk")).display()),
        ];
    }

    /// Two nodes, each with its own key.
    fn start_guarded(&mut self, more: &[&str]) {
        for name in ["one", "two"] {
            self.be(&format!("node-{name}"));
            self.more.extend(more.iter().map(|&more| more.to_owned()));
            let node = self.start_node(name);
            self.nodes.push(node);
        }
        self.be("operator");
        self.wait_for_owners(1);
    }

    async fn client(&self, seed: &Path) -> Result<Client, String> {
        let seed = std::fs::read_to_string(seed).unwrap();
        self.connect(ConnectOptions::new().nkey(seed.trim().to_owned())).await
    }

    async fn connect(&self, options: ConnectOptions) -> Result<Client, String> {
        let options = options.add_root_certificates(self.keys().join("ca.pem")).require_tls(true);
        let connected =
            tokio::time::timeout(Duration::from_secs(10), options.connect(self.nats.urls())).await;
        connected.map_err(|_| "no answer".to_owned())?.map_err(|error| error.to_string())
    }

    /// The contents of the servers: for each stream its last message and the number of messages, as seen by the
    /// operator.
    async fn stored(&self) -> Vec<(String, u64, u64)> {
        let operator = self.client(&self.keys().join("operator.nk")).await.unwrap();
        let context = async_nats::jetstream::new(operator);
        let mut stored = Vec::new();
        for name in ["LEASES", "RECORDS", "0", "1"] {
            let stream = context.get_stream(format!("NEPH_nephila_{name}")).await.unwrap();
            let state = &stream.cached_info().state;
            stored.push((name.to_owned(), state.last_sequence, state.messages));
        }
        stored
    }
}

/// Sends a request, and returns any answer that is not a refusal.
async fn learns(client: &Client, subject: &str, body: &str) -> Option<String> {
    let asked = client.request(subject.to_owned(), body.to_owned().into());
    let answer = tokio::time::timeout(SILENCE, asked).await.ok()?.ok()?;
    let answer = String::from_utf8_lossy(&answer.payload).into_owned();
    (!answer.contains("\"error\"")).then_some(answer)
}

/// Publishes a message to a subject, and waits until the server has accepted or refused the message.
async fn says(client: &Client, subject: &str) {
    client.publish(subject.to_owned(), FORGED.into()).await.unwrap();
    client.flush().await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Whether a subscription brings anything within a few heartbeats.
async fn overhears(client: &Client, subject: &str) -> bool {
    use futures_util::StreamExt as _;
    let Ok(mut heard) = client.subscribe(subject.to_owned()).await else { return false };
    client.flush().await.unwrap();
    tokio::time::timeout(Duration::from_secs(3), heard.next()).await.is_ok_and(|message| message.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_04_keys_are_made_once_and_a_node_with_its_own_key_works() {
    let mut world = World::guarded().await;
    world.start_guarded(&[]);
    // Partitions may still move to even the nodes out.
    world.wait("all is well", |world| world.say(&["cluster", "status"]).status.success());
    let doctor = world.say(&["doctor"]);
    assert!(text(&doctor).contains("lets in only those it knows"), "{}", text(&doctor));
    // A fourth machine: existing keys stay unchanged.
    let before = std::fs::read(world.keys().join("node-one.nk")).unwrap();
    let keys = world.keys().display().to_string();
    let said = world.ask(&["cluster", "keys", &keys, "--server", "127.0.0.1", "--node", "three"]);
    assert!(said.status.success(), "{}", text(&said));
    assert_eq!(std::fs::read(world.keys().join("node-one.nk")).unwrap(), before);
    let accounts = std::fs::read_to_string(world.keys().join("accounts.conf")).unwrap();
    for node in ["one", "two", "three"] {
        assert!(accounts.contains(&format!("neph.nephila.lease.node.{node}")), "{accounts}");
    }
    use std::os::unix::fs::PermissionsExt as _;
    for entry in std::fs::read_dir(world.keys()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", entry.path());
    }
    // A job is made by the operator, and crawled.
    let url = world.url(0, 0);
    let made = world.say(&["job", "create", "press", &url, "--scope", "page"]);
    assert!(made.status.success(), "{}", text(&made));
    world.wait("the page is there", |world| world.page(0, &url).status == 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_04_strangers_and_readers_learn_nothing_and_change_nothing() {
    let mut world = World::guarded().await;
    world.start_guarded(&[]);
    // An unknown client is not let in, with any message.
    assert!(world.connect(ConnectOptions::new()).await.is_err(), "nobody");
    let unknown = nkeys::KeyPair::new_user().seed().unwrap();
    assert!(world.connect(ConnectOptions::new().nkey(unknown)).await.is_err(), "another key");
    let guess = ConnectOptions::new().user_and_password("nephila".into(), "nephila".into());
    assert!(world.connect(guess).await.is_err(), "a password");
    let plain = async_nats::connect(world.nats.urls());
    assert!(
        tokio::time::timeout(Duration::from_secs(10), plain).await.is_ok_and(|met| met.is_err()),
        "no TLS"
    );
    // A program that reads events can do nothing else. Heartbeats of the nodes are in between: only forged messages
    // count.
    let reader = world.client(&world.keys().join("reader.nk")).await.unwrap();
    for subject in [
        "neph.nephila.lease.node.one",
        "neph.nephila.lease.node.evil",
        "neph.nephila.record.job.evil",
        "neph.nephila.record.owner.00000",
        "neph.nephila.0.log.0",
        "neph.nephila.0.in.0",
        "neph.nephila.talk.one",
        "neph.nephila.events.0",
    ] {
        says(&reader, subject).await;
    }
    for (subject, body) in [
        ("$JS.API.INFO", ""),
        ("$JS.API.STREAM.NAMES", ""),
        ("$JS.API.STREAM.INFO.NEPH_nephila_RECORDS", ""),
        ("$JS.API.STREAM.MSG.GET.NEPH_nephila_RECORDS", r#"{"seq":1}"#),
        ("$JS.API.DIRECT.GET.NEPH_nephila_RECORDS", r#"{"seq":1}"#),
        ("$JS.API.STREAM.PURGE.NEPH_nephila_RECORDS", ""),
        ("$JS.API.STREAM.DELETE.NEPH_nephila_LEASES", ""),
        ("$JS.API.STREAM.MSG.DELETE.NEPH_nephila_LEASES", r#"{"seq":1}"#),
        (
            "$JS.API.CONSUMER.CREATE.NEPH_nephila_RECORDS",
            r#"{"stream_name":"NEPH_nephila_RECORDS","config":{}}"#,
        ),
    ] {
        assert_eq!(learns(&reader, subject, body).await, None, "{subject}");
    }
    for subject in
        [">", "_INBOX.>", "neph.nephila.>", "neph.nephila.talk.*", "neph.nephila.lease.>", "$JS.>", "$SYS.>"]
    {
        assert!(!overhears(&reader, subject).await, "{subject}");
    }
    // Neither an operator nor another node writes a lease; an operator removes nothing.
    let operator = world.client(&world.keys().join("operator.nk")).await.unwrap();
    let two = world.client(&world.keys().join("node-two.nk")).await.unwrap();
    for (who, subject) in [
        (&operator, "neph.nephila.lease.node.one"),
        (&operator, "neph.nephila.0.log.0"),
        (&two, "neph.nephila.lease.node.one"),
        (&two, "neph.nephila.lease.node.evil"),
    ] {
        says(who, subject).await;
    }
    for subject in [
        "$JS.API.STREAM.PURGE.NEPH_nephila_RECORDS",
        "$JS.API.STREAM.DELETE.NEPH_nephila_RECORDS",
        "$JS.API.STREAM.MSG.DELETE.NEPH_nephila_LEASES",
        "$JS.API.STREAM.UPDATE.NEPH_nephila_RECORDS",
    ] {
        assert_eq!(learns(&operator, subject, r#"{"seq":1}"#).await, None, "{subject}");
    }
    // No forged message is stored anywhere, and the cluster is unchanged.
    let context = async_nats::jetstream::new(operator);
    for (name, last, messages) in world.stored().await {
        let stream = context.get_stream(format!("NEPH_nephila_{name}")).await.unwrap();
        assert!(messages == 0 || last > 0, "{name}");
        for sequence in last.saturating_sub(200)..=last {
            let Ok(message) = stream.direct_get(sequence).await else { continue };
            assert!(!message.payload.starts_with(FORGED.as_bytes()), "{name} {sequence} {}", message.subject);
        }
    }
    let status = world.say(&["cluster", "status"]);
    assert!(status.status.success(), "{}", text(&status));
    let nodes = world.say(&["cluster", "nodes", "--json"]);
    assert_eq!(text(&nodes).matches("\"name\"").count(), 2, "{}", text(&nodes));
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_04_a_reader_receives_every_event_through_its_own_account() {
    use futures_util::StreamExt as _;
    let mut world = World::guarded().await;
    let reader = world.client(&world.keys().join("reader.nk")).await.unwrap();
    let mut heard = reader.subscribe("neph.nephila.events.>").await.unwrap();
    reader.flush().await.unwrap();
    world.start_guarded(&["cluster.events=true"]);
    let url = world.url(0, 0);
    let made = world.say(&["job", "create", "press", &url, "--scope", "page"]);
    assert!(made.status.success(), "{}", text(&made));
    let done = world.say(&["job", "wait", "press", "--timeout", "90s"]);
    assert!(done.status.success(), "{}", text(&done));
    // The events on the servers, as seen by the operator, equal the events sent to the reader.
    let operator = world.client(&world.keys().join("operator.nk")).await.unwrap();
    let context = async_nats::jetstream::new(operator);
    let mut kept = Vec::new();
    world.wait("the page and its job are told", |_| {
        kept = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(events(&context)));
        let all: String = kept.iter().map(|(_, lines)| lines.as_str()).collect();
        all.contains("\"kind\":\"fetched\"") && all.contains(&url) && all.contains("\"complete\"")
    });
    let mut told = Vec::new();
    while told.len() < kept.len() {
        let next = tokio::time::timeout(Duration::from_secs(10), heard.next()).await;
        let message = next.unwrap_or_else(|_| panic!("{} of {} messages", told.len(), kept.len())).unwrap();
        told.push((message.subject.to_string(), String::from_utf8_lossy(&message.payload).into_owned()));
    }
    kept.sort();
    told.sort();
    assert_eq!(told, kept);
}

/// All messages of the stream of events.
async fn events(context: &async_nats::jetstream::Context) -> Vec<(String, String)> {
    let stream = context.get_stream("NEPH_nephila_EVENTS").await.unwrap();
    let state = &stream.cached_info().state;
    let mut events = Vec::new();
    for sequence in state.first_sequence.max(1)..=state.last_sequence {
        let Ok(message) = stream.get_raw_message(sequence).await else { continue };
        events.push((message.subject.to_string(), String::from_utf8_lossy(&message.payload).into_owned()));
    }
    events
}

/// Accepts connections, answers each with a page of its own, and keeps the received bytes.
async fn stranger() -> (String, std::sync::Arc<std::sync::Mutex<Vec<u8>>>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = heard.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; 8_192];
            let read = stream.read(&mut bytes).await.unwrap_or(0);
            kept.lock().unwrap().extend_from_slice(&bytes[..read]);
            let body = r#"{"node":"evil","holds_lease":true,"alarms":[]}"#;
            let answer = format!(
                "HTTP/1.1 200 OK\r\nnephila-node: evil\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n{body}",
                body.len()
            );
            _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, heard)
}

/// Servers without accounts: any client that reaches them can forge a lease. The token is safe all the same.
#[tokio::test(flavor = "multi_thread")]
async fn sec_04_a_forged_lease_brings_nobody_the_token_and_no_belief() {
    use nephila_core::cluster::member::NodeRecord;
    use nephila_core::cluster::{Incarnation, NodeId};
    let world = World::start(&["one", "two"]).await;
    let (address, heard) = stranger().await;
    let record = NodeRecord {
        node: NodeId::of("evil"),
        incarnation: Incarnation(1 << 60),
        name: "evil".to_owned(),
        address,
        ..NodeRecord::default()
    };
    let client = async_nats::connect(world.nats.urls()).await.unwrap();
    let forge = || client.publish("neph.nephila.lease.node.evil", record.encode().into());
    let mut answer = String::new();
    world.wait("the forged lease is seen", |world| {
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(forge())).unwrap();
        answer = world.get(0, "cluster/nodes").map(|reply| reply.text()).unwrap_or_default();
        answer.contains("evil") && !heard.lock().unwrap().is_empty()
    });
    let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
    assert!(
        heard.contains("nephila-node ") || heard.contains("Nephila-Node "),
        "it is asked for a proof: {heard}"
    );
    assert!(!heard.contains(TOKEN), "the token was sent to a stranger: {heard}");
    assert!(answer.contains("does not prove to be node evil"), "{answer}");
    // The credentials received there open nothing: they were made for another node, and only permit questions.
    let credentials = heard.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap().trim();
    for (method, target) in [("GET", "cluster/nodes"), ("GET", "node"), ("POST", "cluster/drain/one")] {
        let reply = world.request(0, method, target, &[("authorization", credentials)], "").unwrap();
        assert_eq!(reply.status, 401, "{method} {target}: {}", reply.text());
    }
    // Nodes that are real are believed.
    let nodes: Value = serde_json::from_str(&answer).unwrap();
    let two = nodes.as_array().unwrap().iter().find(|node| node["name"] == "two").unwrap();
    assert!(two["stats"].is_object(), "{two}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_04_a_second_node_of_one_name_says_that_the_name_is_held() {
    let world = World::start(&["one"]).await;
    let said = world.dir.path().join("twin.txt");
    let twin = world
        .command()
        .args(["serve", "-o", &world.dir.path().join("twin").display().to_string(), "--node", "one"])
        .args(world.settings())
        .stdout(Stdio::null())
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let _ended = Node { name: "one".into(), folder: PathBuf::new(), child: twin, address: String::new() };
    world.wait("it says so", |_| {
        std::fs::read_to_string(&said).unwrap_or_default().contains("this name is held")
    });
}
