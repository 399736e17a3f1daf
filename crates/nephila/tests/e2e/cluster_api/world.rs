//! Three nodes on a real NATS server and a web that they crawl.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nephila_testnats::Nats;
use nephila_testweb::model::{Place, What};
use nephila_testweb::{RunningWeb, Settings, Web};
use serde_json::Value;

pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
/// Timeout, longer than any wait takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// Polling interval of a wait.
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// Timeout of an answer.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Hosts of the web, each a domain of its own; the last is out of scope.
pub(super) const HOSTS: u32 = 20;
/// A node that was about to send a request when the command came may still do so within this time.
pub(super) const GRACE_US: u64 = 2_000_000;
pub(super) const TOKEN: &str = "open-sesame";
/// Fields of an explanation that are the same on every node.
pub(super) const EXPLAINED: [&str; 7] =
    ["summary", "canonical", "depth", "found", "last", "scope", "standing"];

pub(super) struct World {
    pub(super) web: RunningWeb,
    pub(super) nats: Nats,
    pub(super) dir: tempfile::TempDir,
    pub(super) nodes: Vec<Node>,
    /// Settings beside the usual ones.
    pub(super) more: Vec<String>,
}

/// A node that is killed, by its own handle, when a test is over.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) child: Child,
    pub(super) address: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The answer of a node.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) fields: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl Reply {
    /// Parses the bytes of a connection; none if they are no answer.
    pub(super) fn read(answer: &[u8]) -> Option<Reply> {
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        Some(Reply {
            status: head.split(' ').nth(1)?.parse().ok()?,
            fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: answer[end + 4..].to_vec(),
        })
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl World {
    pub(super) async fn start(nodes: &[&str]) -> World {
        let mut world = World::of(World::web()).await;
        if !nodes.is_empty() {
            world.start_nodes(nodes, 3);
        }
        world
    }

    /// The web that is crawled.
    pub(super) fn web() -> Settings {
        Settings {
            hosts: HOSTS,
            hosts_per_domain: 1,
            pages: 600,
            size_exponent: 0.0,
            page_bytes: 2_000,
            links: 10,
            threads: 1,
            ..Settings::default()
        }
    }

    /// A web and a server, and no node yet.
    pub(super) async fn of(settings: Settings) -> World {
        let web = Web::builder().settings(settings).start().await.expect("the web starts");
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("ca.pem"), web.ca_pem()).expect("the CA is written");
        std::fs::write(dir.path().join("token"), TOKEN).expect("the token is written");
        let nats = Nats::one().expect("a NATS server");
        World { web, nats, dir, nodes: Vec::new(), more: Vec::new() }
    }

    /// Starts nodes, each with at least this number of partitions.
    pub(super) fn start_nodes(&mut self, names: &[&str], least: u64) {
        for name in names {
            let node = self.start_node(name);
            self.nodes.push(node);
        }
        self.wait_for_owners(least);
    }

    /// Waits until all partitions have an owner, and each node has at least this number.
    pub(super) fn wait_for_owners(&mut self, least: u64) {
        self.wait("all partitions have an owner", |world| {
            let Ok(status) =
                serde_json::from_slice::<Value>(&world.say(&["cluster", "status", "--json"]).stdout)
            else {
                return false;
            };
            let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
            status["without_owner"] == 0
                && nodes.len() == world.nodes.len()
                && nodes.iter().all(|node| node["partitions"].as_u64() >= Some(least))
        });
        self.learn_addresses();
    }

    pub(super) fn start_node(&self, name: &str) -> Node {
        let folder = self.dir.path().join(name);
        let said =
            File::options().create(true).append(true).open(self.dir.path().join(format!("{name}.txt")));
        let said = said.expect("a file for what it says");
        let child = self
            .command()
            .args(["serve", "-o", &folder.display().to_string(), "--node", name])
            .args(self.settings())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .expect("the node starts");
        Node { name: name.to_owned(), folder, child, address: String::new() }
    }

    /// Nodes say in their leases where they answer.
    pub(super) fn learn_addresses(&mut self) {
        let output = self.say(&["cluster", "nodes", "--json"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in text.lines() {
            let said: Value = serde_json::from_str(line).expect("JSON");
            let node = self.nodes.iter_mut().find(|node| said["name"] == *node.name);
            let node = node.unwrap_or_else(|| panic!("a node that has left holds a lease: {text}"));
            node.address = said["address"].as_str().expect("an address").to_owned();
        }
        assert!(self.nodes.iter().all(|node| !node.address.is_empty()), "{text}");
    }

    pub(super) fn settings(&self) -> Vec<String> {
        let (http, https) = (self.web.http_port(), self.web.https_port());
        [
            format!("cluster.servers=[\"{}\"]", self.nats.urls()[0]),
            "cluster.replicas=1".into(),
            "cluster.streams=2".into(),
            "cluster.partitions=12".into(),
            "cluster.lease_ttl=9s".into(),
            "cluster.heartbeat=1s".into(),
            "cluster.margin=2s".into(),
            "api.listen=127.0.0.1:0".into(),
            format!("api.token_file={}", self.dir.path().join("token").display()),
            format!("spider.dns_servers=[\"{}\"]", self.web.dns_addr()),
            "spider.allow_addresses=[\"127.0.0.0/8\", \"::1/128\"]".into(),
            format!("spider.ports=[{http}, {https}]"),
            format!("spider.ca_file={}", self.dir.path().join("ca.pem").display()),
            // Long enough that many URLs are still queued when the test asks.
            "frontier.host_delay=2s".into(),
            "frontier.slot_delay=0s".into(),
            "crawl.disk_free_min=0".into(),
        ]
        .into_iter()
        .chain(self.more.iter().cloned())
        .flat_map(|pair| ["--set".to_owned(), pair])
        .collect()
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command.env("HOME", self.dir.path()).env("NEPHILA_CONFIG", "/dev/null").stdin(Stdio::null());
        command
    }

    /// A command that speaks to the servers.
    pub(super) fn say(&self, args: &[&str]) -> Output {
        self.command().args(args).args(self.settings()).output().expect("the command runs")
    }

    /// A command that asks about a folder or a node.
    pub(super) fn ask(&self, args: &[&str]) -> Output {
        self.command().args(args).output().expect("the command runs")
    }

    /// A command that speaks to a node.
    pub(super) fn tell(&self, node: usize, args: &[&str]) -> Output {
        let token = self.dir.path().join("token").display().to_string();
        let url = format!("http://{}", self.nodes[node].address);
        let more = ["--node", &url, "--token-file", &token];
        self.ask(&[args, &more].concat())
    }

    pub(super) fn get(&self, node: usize, target: &str) -> Option<Reply> {
        self.request(node, "GET", target, &[("authorization", &format!("Bearer {TOKEN}"))], "")
    }

    /// A plain request; none if there is no connection.
    pub(super) fn request(
        &self,
        node: usize,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> Option<Reply> {
        let mut stream = TcpStream::connect(&*self.nodes[node].address).ok()?;
        stream.set_read_timeout(Some(ANSWER_MAX)).ok()?;
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "{method} {}{target} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {}\r\n{fields}\r\n",
            if target.starts_with('/') { "" } else { "/api/v1/" },
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        Reply::read(&answer)
    }

    pub(super) fn post(&self, node: usize, target: &str, body: &str) -> Reply {
        let token = format!("Bearer {TOKEN}");
        let reply = self.request(node, "POST", target, &[("authorization", &token)], body);
        reply.expect("an answer")
    }

    /// The requests of a node, by its own log.
    pub(super) fn lines(&self, node: usize) -> Vec<Value> {
        let folder = self.nodes[node].folder.display().to_string();
        let said = self.ask(&["log", "-o", &folder, "--format", "jsonl"]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    pub(super) fn explain(&self, node: usize, url: &str) -> Value {
        let ask = |world: &World| world.get(node, &format!("explain?url={url}")).expect("an answer");
        // A partition that moves is nowhere for a moment.
        self.wait("its partition is open", |world| ask(world).status != 503);
        let reply = ask(self);
        assert_eq!(reply.status, 200, "{url}: {}", reply.text());
        reply.json()
    }

    pub(super) fn page(&self, node: usize, url: &str) -> Reply {
        self.get(node, &format!("pages?as=body&url={url}")).expect("an answer")
    }

    pub(super) fn url(&self, host: u32, page: u64) -> String {
        self.web.world().url(Place { host, what: What::Page(page) })
    }

    pub(super) fn wait(&self, what: &str, mut is_so: impl FnMut(&World) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < PATIENCE, "{what}: {}", self.said());
            std::thread::sleep(LOOK);
        }
    }

    /// The output of the nodes.
    pub(super) fn said(&self) -> String {
        let said = self.nodes.iter().map(|node| {
            let path = self.dir.path().join(format!("{}.txt", node.name));
            format!("{}: {}", node.name, std::fs::read_to_string(path).unwrap_or_default())
        });
        said.collect::<Vec<_>>().join("\n")
    }

    /// Waits until no fetch is open and all outcomes are reported.
    pub(super) fn wait_until_still(&self) {
        self.wait("nothing is open", |world| {
            let nodes = world.get(0, "cluster/nodes").expect("an answer").json();
            let nodes = nodes.as_array().cloned().unwrap_or_default();
            nodes.len() == world.nodes.len()
                && nodes.iter().all(|node| node["stats"]["tickets_open"].as_u64() == Some(0))
        });
    }

    /// Waits until no URL is queued and the outcomes of all fetches are in the logs.
    pub(super) fn wait_until_written(&self) {
        self.wait("everything is written down", |world| {
            let said = world.tell(0, &["stats", "--json"]);
            let said: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
            let count = |name: &str| said["all"][name].as_u64();
            (count("tickets_open"), count("urls_waiting")) == (Some(0), Some(0))
        });
    }

    /// The explanation of a URL by each node while its record is stable: a URL of a paused job is loaded and put back.
    pub(super) fn explained_by_all(&self, url: &str) -> Vec<Value> {
        let mut said: Vec<Value> = Vec::new();
        self.wait("the same is said before and after", |world| {
            said = (0..3).map(|node| world.explain(node, url)).collect();
            let after = world.explain(0, url);
            EXPLAINED.iter().all(|field| after[*field] == said[0][*field])
        });
        said
    }

    /// A URL with this summary on every node.
    pub(super) fn find(&self, summary: &str) -> String {
        let urls = (0..10).flat_map(|page| (0..HOSTS - 1).map(move |host| (host, page)));
        let found = urls
            .map(|(host, page)| self.url(host, page))
            .find(|url| self.explain(0, url)["summary"] == summary);
        found.unwrap_or_else(|| panic!("no URL is {summary}"))
    }
}

pub(super) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A job over all hosts but the last, begun through the first node; some pages are fetched.
pub(super) async fn begun() -> World {
    let world = World::start(&["one", "two", "three"]).await;
    let homes: Vec<String> = (0..HOSTS - 1).map(|host| world.url(host, 0)).collect();
    let mut args = vec!["job", "create", "press", "--scope", "host"];
    args.extend(homes.iter().map(String::as_str));
    let created = world.tell(0, &args);
    assert!(created.status.success(), "{}", text(&created));
    world.wait("homes and some more are fetched", |world| {
        let stats = world.tell(1, &["stats", "--json"]);
        let stats: Value = serde_json::from_slice(&stats.stdout).unwrap_or_default();
        stats["all"]["ended"].as_u64() >= Some(u64::from(HOSTS) + 5)
    });
    world
}

/// The same, paused: no more fetches.
pub(super) async fn paused() -> World {
    let world = begun().await;
    let paused = world.tell(1, &["job", "pause", "press"]);
    assert!(paused.status.success(), "{}", text(&paused));
    world.wait("every partition has heard of it", |world| {
        let urls = (0..3).flat_map(|page| (0..HOSTS - 1).map(move |host| (host, page)));
        let mut said = urls.map(|(host, page)| world.explain(0, &world.url(host, page)));
        said.all(|said| said["summary"] != "queued" || said["held_by"].to_string().contains("paused"))
    });
    world.wait_until_still();
    world
}
