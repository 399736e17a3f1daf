//! Attacks on a cluster set up as we recommend. Each has a name, and a message about anything learned or changed; after
//! each the servers must hold the same records as before.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use data_encoding::BASE64URL_NOPAD;
use futures_util::future::join_all;
use nephila_core::cluster::member::NodeRecord;
use nephila_core::cluster::{Incarnation, NodeId};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::fortress::{NODES, Standing, Stranger, client, server};
use super::*;

/// Minimum number of attacks on the servers and on the nodes.
const ATTACKS_MIN: usize = 30;
/// How long a forged message is sent before the attack counts as failed: several polls of every node.
const LIED: Duration = Duration::from_secs(4);
/// Number of connections without a TLS handshake: more than the capacity of a node.
const IDLE: usize = 200;
/// The greeting of a NATS server, with a nonce that clients sign.
const GREETING: &str = "INFO {\"server_id\":\"X\",\"server_name\":\"x\",\"version\":\"2.15.0\",\"proto\":1,\"headers\":true,\
    \"max_payload\":1048576,\"auth_required\":true,\"nonce\":\"abcdefghijk\"}\r\n";
const GREETING_TLS: &str = "INFO {\"server_id\":\"X\",\"server_name\":\"x\",\"version\":\"2.15.0\",\"proto\":1,\"headers\":true,\
    \"max_payload\":1048576,\"auth_required\":true,\"tls_required\":true,\"nonce\":\"abcdefghijk\"}\r\n";

/// The attacks so far, and the state before them.
struct Attacks<'a> {
    world: &'a World,
    operator: Client,
    before: Standing,
    secrets: Vec<(String, String)>,
    tried: Vec<String>,
    strangers: Vec<Stranger>,
}

impl<'a> Attacks<'a> {
    async fn on(world: &'a World) -> Attacks<'a> {
        let operator = world.client(&world.keys().join("operator.nk")).await.unwrap();
        let (before, secrets) = (world.standing(&operator).await, world.secrets());
        Attacks { world, operator, before, secrets, tried: Vec::new(), strangers: Vec::new() }
    }

    /// Final checks after all attacks.
    async fn over(self) {
        // No client told the strangers anything.
        for stranger in &self.strangers {
            assert_eq!(stranger.heard(), None);
        }
        // Nothing that was forged lies anywhere.
        let context = async_nats::jetstream::new(self.operator.clone());
        let mut seen = 0;
        for name in ["LEASES", "RECORDS", "0", "1"] {
            let stream = context.get_stream(format!("NEPH_nephila_{name}")).await.unwrap();
            let state = stream.cached_info().state.clone();
            for sequence in
                state.first_sequence.max(state.last_sequence.saturating_sub(2_000))..=state.last_sequence
            {
                let Ok(message) = stream.direct_get(sequence).await else { continue };
                seen += 1;
                let said = String::from_utf8_lossy(&message.payload).into_owned();
                assert!(!said.contains("forged") && !message.subject.contains("forged"), "{name} {said}");
            }
        }
        assert!(seen > 20, "{seen} messages were looked at");
        // The output of the nodes and the servers has no secret either.
        assert_eq!(self.leaks(&self.world.said()), None);
        assert!(self.tried.len() >= ATTACKS_MIN, "{} attacks: {:?}", self.tried.len(), self.tried);
        println!("{} attacks: {}", self.tried.len(), self.tried.join("; "));
    }

    /// Records an attack; `brought` must be none, and the servers must be unchanged.
    async fn tried(&mut self, name: &str, brought: Option<String>) {
        assert_eq!(brought, None, "{name}");
        let standing = self.world.standing(&self.operator).await;
        if let Err(change) = standing.holds(&self.before) {
            panic!("{name}: {change}\n{}", self.world.said());
        }
        assert!(!self.tried.iter().any(|other| other == name), "{name} twice");
        self.tried.push(name.to_owned());
    }

    /// Checks that an answer is a refusal with this status, without a secret.
    fn refused(&self, reply: Option<Reply>, status: u16) -> Option<String> {
        let Some(reply) = reply else { return Some("no answer".to_owned()) };
        let said = format!("{:?} {}", reply.fields, reply.text());
        self.leaks(&said).or_else(|| (reply.status != status).then(|| format!("{} {said}", reply.status)))
    }

    /// The secret that a text contains.
    fn leaks(&self, text: &str) -> Option<String> {
        let found = self.secrets.iter().find(|(_, secret)| text.contains(secret.as_str()));
        found.map(|(name, _)| format!("{name} stands in {text}"))
    }
}

/// The credentials of a node that asks, made with a token.
fn proof(token: &str, node: &str, target: &str, at: u64) -> String {
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    let said = format!("nephila request\n{node}\n/api/v1/{target}\n{at}\n{nonce}");
    format!(
        "Nephila-Node {at} {nonce} {}",
        BASE64URL_NOPAD.encode(hmac::sign(&key, said.as_bytes()).as_ref())
    )
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_04_who_attacks_the_servers_learns_no_secret_changes_no_record_and_takes_no_partition() {
    let world = World::fortress().await;
    let mut attacks = Attacks::on(&world).await;
    doors_of_the_servers(&mut attacks).await;
    readers(&mut attacks).await;
    operators(&mut attacks).await;
    attacks.over().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_04_who_attacks_the_nodes_learns_no_secret_changes_no_record_and_takes_no_partition() {
    let world = World::fortress().await;
    let mut attacks = Attacks::on(&world).await;
    stolen_tokens(&mut attacks).await;
    requests_of_nodes(&mut attacks).await;
    wires(&mut attacks).await;
    false_nodes(&mut attacks).await;
    attacks.over().await;
}

/// Clients without a key, or with a wrong key.
async fn doors_of_the_servers(attacks: &mut Attacks<'_>) {
    let world = attacks.world;
    let came_in = |met: Result<Client, String>| met.ok().map(|_| "it came in".to_owned());
    let nobody = world.connect(ConnectOptions::new()).await;
    attacks.tried("nobody in particular connects", came_in(nobody)).await;
    let unknown = nkeys::KeyPair::new_user().seed().unwrap();
    let unknown = world.connect(ConnectOptions::new().nkey(unknown)).await;
    attacks.tried("a key that nobody gave connects", came_in(unknown)).await;
    let other = world.client(&world.dir.path().join("other/node-one.nk")).await;
    attacks.tried("a node of another cluster connects", came_in(other)).await;
    let guess = ConnectOptions::new().user_and_password("nephila".into(), "nephila".into());
    let guess = world.connect(guess).await;
    attacks.tried("a password is guessed", came_in(guess)).await;
    // Without TLS the server sends its greeting, and nothing after that.
    let mut plain = tokio::net::TcpStream::connect(world.nats.address(0)).await.unwrap();
    let said =
        b"CONNECT {\"verbose\":false}\r\nSUB > 1\r\nPUB neph.nephila.record.forged 6\r\nforged\r\nPING\r\n";
    plain.write_all(said).await.unwrap();
    let mut heard = Vec::new();
    _ = tokio::time::timeout(Duration::from_secs(5), plain.read_to_end(&mut heard)).await;
    let heard = String::from_utf8_lossy(&heard).into_owned();
    let served = (heard.contains("PONG") || heard.contains("MSG ")).then_some(heard);
    attacks.tried("somebody speaks to a server without TLS", served).await;
    // A node's certificate is signed by the same authority, and opens no route between servers.
    let routes =
        || tokio::task::block_in_place(|| world.nats.ask(0, "/routez")).unwrap()["num_routes"].clone();
    let known = routes();
    for (name, own) in [
        ("a route is made without a certificate", None),
        ("a route is made with a node's certificate", Some("node-evil")),
    ] {
        let files =
            own.map(|own| (world.keys().join(format!("{own}.pem")), world.keys().join(format!("{own}.key"))));
        let own = files.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        let tls = client(&world.keys().join("ca.pem"), own, rustls::ALL_VERSIONS);
        let mut heard = String::new();
        let stream = tokio::net::TcpStream::connect(world.nats.route(0)).await.unwrap();
        if let Ok(mut stream) = tls.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await {
            let said = b"INFO {\"server_id\":\"FORGED\",\"server_name\":\"forged\",\"cluster\":\"test\"}\r\nPING\r\n";
            _ = stream.write_all(said).await;
            let mut bytes = vec![0; 4_096];
            while let Ok(Ok(read @ 1..)) =
                tokio::time::timeout(Duration::from_secs(3), stream.read(&mut bytes)).await
            {
                heard.push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        }
        let taken = (routes() != known).then(|| format!("a route: {}", routes()));
        let taken = taken.or_else(|| heard.contains("INFO").then(|| heard.clone()));
        attacks.tried(name, taken).await;
    }
    // False servers: a client with a key sends them nothing.
    let other = world.dir.path().join("other");
    for (name, greeting, tls) in [
        ("a false server without TLS waits for a key", GREETING, None),
        (
            "a false server of another authority waits for a key",
            GREETING_TLS,
            Some(server(&other, "server-127.0.0.1")),
        ),
        ("a node's certificate poses as a server elsewhere", GREETING_TLS, Some(server(&other, "node-one"))),
    ] {
        let stranger = Stranger::new(greeting, tls).await;
        let servers = format!("cluster.servers=[\"nats://{}\"]", stranger.address);
        let mut command = world.command();
        command.args(["cluster", "status"]).args(world.settings()).args(["--set", &servers]);
        let said = tokio::task::block_in_place(|| command.output()).unwrap();
        assert!(!said.status.success() && stranger.met(), "{name}: {}", text(&said));
        attacks.tried(name, stranger.heard()).await;
        attacks.strangers.push(stranger);
    }
}

/// A program that reads events, or a thief of its key.
async fn readers(attacks: &mut Attacks<'_>) {
    let world = attacks.world;
    let reader = world.client(&world.keys().join("reader.nk")).await.unwrap();
    for (what, subject) in [
        ("a lease", "neph.nephila.lease.node.one"),
        ("a lease of nobody", "neph.nephila.lease.node.forged"),
        ("a job", "neph.nephila.record.job.forged"),
        ("an owner", "neph.nephila.record.owner.00000"),
        ("a log", "neph.nephila.0.log.0"),
        ("an inbox", "neph.nephila.0.in.0"),
        ("words among nodes", "neph.nephila.talk.one"),
        ("events", "neph.nephila.events.0"),
    ] {
        says(&reader, subject).await;
        attacks.tried(&format!("a reader writes {what}"), None).await;
    }
    for (what, subject, body) in [
        ("lists the streams", "$JS.API.STREAM.NAMES", ""),
        ("looks at the records", "$JS.API.STREAM.INFO.NEPH_nephila_RECORDS", ""),
        ("reads a record", "$JS.API.STREAM.MSG.GET.NEPH_nephila_RECORDS", r#"{"seq":1}"#),
        ("reads a log", "$JS.API.DIRECT.GET.NEPH_nephila_0", r#"{"seq":1}"#),
        ("purges the records", "$JS.API.STREAM.PURGE.NEPH_nephila_RECORDS", ""),
        ("deletes the leases", "$JS.API.STREAM.DELETE.NEPH_nephila_LEASES", ""),
        (
            "has records sent to itself",
            "$JS.API.CONSUMER.CREATE.NEPH_nephila_RECORDS",
            r#"{"stream_name":"NEPH_nephila_RECORDS","config":{"deliver_subject":"neph.nephila.events.forged"}}"#,
        ),
    ] {
        let learned = learns(&reader, subject, body).await;
        attacks.tried(&format!("a reader {what}"), learned).await;
    }
    let listening = [
        ">",
        "_INBOX.>",
        "neph.nephila.*.log.*",
        "neph.nephila.talk.*",
        "neph.nephila.lease.>",
        "$JS.>",
        "$SYS.>",
    ];
    let listening = listening.map(async |subject| (subject, overhears(&reader, subject).await));
    for (subject, heard) in join_all(listening).await {
        let heard = heard.then(|| "something".to_owned());
        attacks.tried(&format!("a reader listens to {subject}"), heard).await;
    }
}

/// An operator who runs jobs writes no lease and no log, and removes nothing.
async fn operators(attacks: &mut Attacks<'_>) {
    let operator = attacks.operator.clone();
    for (what, subject) in [
        ("a lease", "neph.nephila.lease.node.one"),
        ("a log", "neph.nephila.0.log.0"),
        ("words among nodes", "neph.nephila.talk.one"),
        ("events", "neph.nephila.events.0"),
    ] {
        says(&operator, subject).await;
        attacks.tried(&format!("an operator writes {what}"), None).await;
    }
    for (what, subject) in [
        ("purges the records", "$JS.API.STREAM.PURGE.NEPH_nephila_RECORDS"),
        ("deletes a stream", "$JS.API.STREAM.DELETE.NEPH_nephila_0"),
        ("deletes a lease", "$JS.API.STREAM.MSG.DELETE.NEPH_nephila_LEASES"),
        ("changes a stream", "$JS.API.STREAM.UPDATE.NEPH_nephila_RECORDS"),
        ("moves a leader", "$JS.API.STREAM.LEADER.STEPDOWN.NEPH_nephila_0"),
        ("removes a server", "$JS.API.SERVER.REMOVE"),
    ] {
        let learned = learns(&operator, subject, r#"{"seq":1}"#).await;
        attacks.tried(&format!("an operator {what}"), learned).await;
    }
    let listening = ["neph.nephila.talk.*", "neph.nephila.lease.>", "neph.nephila.*.log.*", "$SYS.>"];
    let listening = listening.map(async |subject| (subject, overhears(&operator, subject).await));
    for (subject, heard) in join_all(listening).await {
        let heard = heard.then(|| "something".to_owned());
        attacks.tried(&format!("an operator listens to {subject}"), heard).await;
    }
}

/// A holder of a token has the permissions of its role, and no others.
async fn stolen_tokens(attacks: &mut Attacks<'_>) {
    let world = attacks.world;
    let bearer = |name: &str| format!("Bearer {}", world.key(name));
    let (read, operate, node) = (bearer("read.token"), bearer("operate.token"), bearer("node.token"));
    for (number, name) in NODES.iter().enumerate() {
        let reply = world.call(number, "GET", "jobs", &[]).await;
        let learned = attacks.refused(reply, 401);
        attacks.tried(&format!("nobody asks node {name}"), learned).await;
    }
    let none = |fields: &[(&'static str, &'static str)]| fields.to_vec();
    for (method, target, more) in [
        ("POST", "jobs/press/pause", none(&[])),
        ("PATCH", "jobs/press", none(&[])),
        ("POST", "cluster/drain/one", none(&[("nephila-forwarded", "owner")])),
        ("DELETE", "stops/a.test", none(&[])),
        ("POST", "stops", none(&[("x-http-method-override", "GET")])),
        ("POST", "cluster/pins/a.test?to=one", none(&[])),
        ("POST", "urls?job=press", none(&[])),
    ] {
        let fields = [&[("authorization", &*read)], &more[..]].concat();
        let learned = attacks.refused(world.call(0, method, target, &fields).await, 403);
        attacks.tried(&format!("a stolen read token: {method} {target}"), learned).await;
    }
    // The token permits questions; no answer has a secret.
    let mut learned = None;
    for target in
        ["jobs", "jobs/press", "cluster", "cluster/nodes", "cluster/partitions", "stats", "node", "stops"]
    {
        let reply = world.call(1, "GET", target, &[("authorization", &*read)]).await.unwrap();
        assert_eq!(reply.status, 200, "{target}: {}", reply.text());
        learned = learned.or(attacks.leaks(&reply.text()));
    }
    attacks.tried("a stolen read token asks everything", learned).await;
    let learned = attacks.refused(world.call(0, "GET", "jobs", &[("authorization", &*node)]).await, 401);
    attacks.tried("what nodes share is said as a token", learned).await;
    for token in ["operate.token", "read.token"] {
        let said = proof(&world.key(token), "one", "jobs", now());
        let learned = attacks.refused(world.call(0, "GET", "jobs", &[("authorization", &*said)]).await, 401);
        attacks.tried(&format!("somebody poses as a node with {token}"), learned).await;
    }
    // A page of another site has no token, and gets no answer that a browser would let the page read.
    for (method, fields) in [
        ("GET", [("origin", "https://evil.test"), ("sec-fetch-site", "cross-site")]),
        ("OPTIONS", [("origin", "https://evil.test"), ("access-control-request-method", "POST")]),
        ("POST", [("origin", "https://evil.test"), ("content-type", "text/plain")]),
    ] {
        let reply = world.call(0, method, "jobs", &fields).await;
        let open = reply.as_ref().and_then(|reply| reply.fields.get("access-control-allow-origin").cloned());
        let learned = open.or_else(|| attacks.refused(reply, 401));
        attacks.tried(&format!("a page of another site: {method}"), learned).await;
    }
    // The token that may is let in, or all of this would show nothing.
    let reply = world.call(0, "GET", "jobs", &[("authorization", &*operate)]).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// Credentials from one node to another count once, there, for a while, and only permit questions.
async fn requests_of_nodes(attacks: &mut Attacks<'_>) {
    let world = attacks.world;
    let token = world.key("node.token");
    let recorded = proof(&token, "one", "jobs", now());
    let fields = [("authorization", &*recorded)];
    assert_eq!(world.call(0, "GET", "jobs", &fields).await.unwrap().status, 200, "it is good once");
    for (name, node, method, target) in [
        ("a recorded request is sent again", 0, "GET", "jobs"),
        ("a recorded request is sent to another node", 1, "GET", "jobs"),
        ("a recorded request asks for something else", 0, "GET", "cluster"),
        ("a recorded request is made an order", 0, "POST", "jobs"),
    ] {
        let learned = attacks.refused(world.call(node, method, target, &fields).await, 401);
        attacks.tried(name, learned).await;
    }
    let old = proof(&token, "one", "jobs", now() - 130);
    let learned = attacks.refused(world.call(0, "GET", "jobs", &[("authorization", &*old)]).await, 401);
    attacks.tried("a recorded request that never came is sent two minutes later", learned).await;
    let order = proof(&token, "one", "cluster/drain/one", now());
    let order = world.call(0, "POST", "cluster/drain/one", &[("authorization", &*order)]).await;
    let learned = attacks.refused(order, 401);
    attacks.tried("whoever knows what nodes share drains a node", learned).await;
}

/// Attacks on the TLS connections.
async fn wires(attacks: &mut Attacks<'_>) {
    let world = attacks.world;
    let mut plain = tokio::net::TcpStream::connect(world.place(0)).await.unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut heard = Vec::new();
    _ = tokio::time::timeout(Duration::from_secs(8), plain.read_to_end(&mut heard)).await;
    let heard = String::from_utf8_lossy(&heard).into_owned();
    attacks.tried("a node is asked without TLS", heard.contains("HTTP/1").then_some(heard)).await;
    let old = client(&world.keys().join("ca.pem"), None, &[&rustls::version::TLS12]);
    let stream = tokio::net::TcpStream::connect(world.place(0)).await.unwrap();
    let met = old.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await;
    attacks.tried("a node is asked with an old TLS", met.ok().map(|_| "it shook hands".to_owned())).await;
    // More than there is room for, half of them with the beginning of a hello.
    let mut idle = Vec::new();
    for number in 0..IDLE {
        let mut stream = tokio::net::TcpStream::connect(world.place(2)).await.unwrap();
        if number % 2 == 0 {
            _ = stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await;
        }
        idle.push(stream);
    }
    let began = Instant::now();
    let read = format!("Bearer {}", world.key("read.token"));
    let reply = world.call(2, "GET", "stats", &[("authorization", &read)]).await;
    let kept_out = reply.is_none_or(|reply| reply.status != 200) || began.elapsed() > Duration::from_secs(4);
    let kept_out = kept_out.then(|| format!("somebody was kept out for {:?}", began.elapsed()));
    drop(idle);
    attacks.tried("many hands are never shaken", kept_out).await;
    // A false node does not get the token from a user.
    let other = world.dir.path().join("other");
    let token = world.keys().join("operate.token").display().to_string();
    let ca = world.keys().join("ca.pem").display().to_string();
    for (name, tls) in [
        ("a false node of another authority waits for the token", Some(server(&other, "node-one"))),
        ("a false node without TLS waits for the token", None),
    ] {
        let stranger = Stranger::new("", tls).await;
        let url = format!("https://{}", stranger.address);
        let args = ["job", "pause", "press", "--node", &url, "--token-file", &token, "--ca-file", &ca];
        let said = tokio::task::block_in_place(|| world.ask(&args));
        assert!(!said.status.success() && stranger.met(), "{name}: {}", text(&said));
        attacks.tried(name, stranger.heard()).await;
    }
    let other = other.join("ca.pem").display().to_string();
    let url = format!("https://{}", world.place(0));
    let args = ["job", "pause", "press", "--node", &url, "--token-file", &token, "--ca-file", &other];
    let said = tokio::task::block_in_place(|| world.ask(&args));
    let obeyed = said.status.success().then(|| text(&said));
    attacks.tried("a person is told to believe another authority", obeyed).await;
    // With the right authority the command works, or all of this would show nothing.
    let args = ["job", "show", "press", "--node", &url, "--token-file", &token, "--ca-file", &ca];
    let said = tokio::task::block_in_place(|| world.ask(&args));
    assert!(said.status.success(), "{}", text(&said));
}

/// A thief has the key of the node `evil`, and nothing else.
async fn false_nodes(attacks: &mut Attacks<'_>) {
    let world = attacks.world;
    let evil = world.client(&world.keys().join("node-evil.nk")).await.unwrap();
    let context = async_nats::jetstream::new(attacks.operator.clone());
    let leases = context.get_stream("NEPH_nephila_LEASES").await.unwrap();
    let recorded = leases.direct_get_last_for_subject("neph.nephila.lease.node.two").await.unwrap();
    let say = async |subject: &str, record: Vec<u8>| {
        evil.publish(subject.to_owned(), record.into()).await.unwrap();
        evil.flush().await.unwrap();
    };
    let own = "neph.nephila.lease.node.evil";
    // The node goes on renewing: only a foreign write would change its address and its incarnation.
    say("neph.nephila.lease.node.two", recorded.payload.to_vec()).await;
    attacks.tried("a recorded lease is sent again with another node's key", None).await;
    let forged = Stranger::new("", Some(server(&world.dir.path().join("other"), "node-two"))).await;
    let two = NodeRecord {
        node: NodeId::of("two"),
        incarnation: Incarnation(1 << 60),
        name: "two".to_owned(),
        address: format!("https://{}", forged.address),
        ..NodeRecord::default()
    };
    say("neph.nephila.lease.node.two", two.encode()).await;
    attacks.tried("a lease of another node is forged", None).await;
    let evil_says = |name: &'static str, node: &str, address: String| {
        let (node, name) = (NodeId::of(node), name.to_owned());
        // The node is leaving: no partition is assigned to a node that leaves.
        NodeRecord {
            node,
            name,
            address,
            incarnation: Incarnation(1 << 60),
            draining: true,
            ..NodeRecord::default()
        }
    };
    for (name, record) in [
        ("a recorded lease is sent again as one's own", recorded.payload.to_vec()),
        ("a node says in its own lease to be another", two.encode()),
        (
            "a node says in its own lease to have another's name",
            evil_says("two", "evil", two.address.clone()).encode(),
        ),
        (
            "a node says in its own lease to have another's number",
            evil_says("evil", "two", two.address.clone()).encode(),
        ),
    ] {
        let began = Instant::now();
        let mut believed = None;
        while began.elapsed() < LIED {
            say(own, record.clone()).await;
            let read = format!("Bearer {}", world.key("read.token"));
            let nodes = world.call(0, "GET", "cluster/nodes", &[("authorization", &read)]).await.unwrap();
            let nodes = nodes.json().as_array().cloned().unwrap_or_default();
            let addresses: Vec<_> =
                nodes.iter().map(|node| node["address"].as_str().unwrap_or_default()).collect();
            let real = world.nodes.iter().all(|node| addresses.contains(&&*node.address));
            let healthy = nodes.iter().all(|node| node["stats"].is_object());
            if nodes.len() != NODES.len() || !real || !healthy || forged.met() {
                believed = Some(format!("{nodes:?}"));
            }
        }
        attacks.tried(name, believed).await;
    }
    // A node may write its own lease; the address named there is told nothing all the same.
    let keys = world.keys();
    for (name, scheme, tls, why) in [
        ("a lease names a stranger without TLS", "", None, "without TLS"),
        (
            "a lease names a stranger of another authority",
            "https://",
            Some(server(&world.dir.path().join("other"), "node-evil")),
            "TLS",
        ),
        (
            "a lease names a stranger with a server's certificate",
            "https://",
            Some(server(&keys, "server-127.0.0.1")),
            "TLS",
        ),
        (
            "a lease names a stranger with another node's certificate",
            "https://",
            Some(server(&keys, "node-three")),
            "TLS",
        ),
    ] {
        let stranger = Stranger::new("", tls).await;
        let record = evil_says("evil", "evil", format!("{scheme}{}", stranger.address)).encode();
        let began = Instant::now();
        let said = loop {
            say(own, record.clone()).await;
            let read = format!("Bearer {}", world.key("read.token"));
            let nodes =
                world.call(0, "GET", "cluster/nodes", &[("authorization", &read)]).await.unwrap().text();
            if nodes.contains(&stranger.address)
                && nodes.contains(why)
                && (scheme.is_empty() || stranger.met())
            {
                break nodes;
            }
            assert!(began.elapsed() < PATIENCE, "{name}: {nodes}");
            tokio::time::sleep(LOOK).await;
        };
        assert!(scheme.is_empty() != stranger.met(), "{name}: it is not even called without TLS: {said}");
        attacks.tried(name, stranger.heard()).await;
        attacks.strangers.push(stranger);
    }
    attacks.strangers.push(forged);
}
