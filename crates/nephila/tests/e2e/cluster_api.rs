//! Three nodes on a real NATS server, asked over HTTP and by commands: any node answers for any URL, whoever owns it, and
//! says when to come back if nobody can.

// What happened.
mod events;
// What nobody may have fetched.
mod inside;
// Who crawls what.
mod pins;
// What leads from one node to another.
mod redirects;
// Who is left alone.
mod stops;
// What is owed together.
mod together;
// Who is let in.
mod trust;
mod whole;

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

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
/// Longer than anything that is waited for takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(200);
/// An answer comes within this time.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Hosts of the web, each a domain of its own; the last is out of scope.
const HOSTS: u32 = 20;
/// Who was about to ask when the word came may still do so.
const GRACE_US: u64 = 2_000_000;
const TOKEN: &str = "open-sesame";

struct World {
    web: RunningWeb,
    nats: Nats,
    dir: tempfile::TempDir,
    nodes: Vec<Node>,
    /// Settings beside the usual ones.
    more: Vec<String>,
}

/// A node that is killed, by its own handle, when a test is over.
struct Node {
    name: String,
    folder: PathBuf,
    child: Child,
    address: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What a node answered.
#[derive(Debug)]
struct Reply {
    status: u16,
    fields: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl World {
    async fn start(nodes: &[&str]) -> World {
        let mut world = World::of(World::web()).await;
        if !nodes.is_empty() {
            world.start_nodes(nodes, 3);
        }
        world
    }

    /// The web that is crawled.
    fn web() -> Settings {
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
    async fn of(settings: Settings) -> World {
        let web = Web::builder().settings(settings).start().await.expect("the web starts");
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("ca.pem"), web.ca_pem()).expect("the CA is written");
        std::fs::write(dir.path().join("token"), TOKEN).expect("the token is written");
        let nats = Nats::one().expect("a NATS server");
        World { web, nats, dir, nodes: Vec::new(), more: Vec::new() }
    }

    /// Nodes, each with at least so many partitions.
    fn start_nodes(&mut self, names: &[&str], least: u64) {
        for name in names {
            let node = self.start_node(name);
            self.nodes.push(node);
        }
        self.wait_for_owners(least);
    }

    /// All partitions have an owner, and each node has at least so many.
    fn wait_for_owners(&mut self, least: u64) {
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

    fn start_node(&self, name: &str) -> Node {
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
    fn learn_addresses(&mut self) {
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

    fn settings(&self) -> Vec<String> {
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
            // Long enough that much is still queued when it is asked for.
            "frontier.host_delay=2s".into(),
            "frontier.slot_delay=0s".into(),
            "crawl.disk_free_min=0".into(),
        ]
        .into_iter()
        .chain(self.more.iter().cloned())
        .flat_map(|pair| ["--set".to_owned(), pair])
        .collect()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command.env("HOME", self.dir.path()).env("NEPHILA_CONFIG", "/dev/null").stdin(Stdio::null());
        command
    }

    /// A command that speaks to the servers.
    fn say(&self, args: &[&str]) -> Output {
        self.command().args(args).args(self.settings()).output().expect("the command runs")
    }

    /// A command that asks about a folder or a node.
    fn ask(&self, args: &[&str]) -> Output {
        self.command().args(args).output().expect("the command runs")
    }

    /// A command that speaks to a node.
    fn tell(&self, node: usize, args: &[&str]) -> Output {
        let token = self.dir.path().join("token").display().to_string();
        let url = format!("http://{}", self.nodes[node].address);
        let more = ["--node", &url, "--token-file", &token];
        self.ask(&[args, &more].concat())
    }

    fn get(&self, node: usize, target: &str) -> Option<Reply> {
        self.request(node, "GET", target, &[("authorization", &format!("Bearer {TOKEN}"))], "")
    }

    /// A plain request; none if nobody is there.
    fn request(
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
            "{method} /api/v1/{target} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {}\r\n{fields}\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        Some(Reply {
            status: head.split(' ').nth(1)?.parse().ok()?,
            fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: answer[end + 4..].to_vec(),
        })
    }

    fn post(&self, node: usize, target: &str, body: &str) -> Reply {
        let token = format!("Bearer {TOKEN}");
        let reply = self.request(node, "POST", target, &[("authorization", &token)], body);
        reply.expect("an answer")
    }

    /// What a node has asked for, by its own log.
    fn lines(&self, node: usize) -> Vec<Value> {
        let folder = self.nodes[node].folder.display().to_string();
        let said = self.ask(&["log", "-o", &folder, "--format", "jsonl"]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn explain(&self, node: usize, url: &str) -> Value {
        let reply = self.get(node, &format!("explain?url={url}")).expect("an answer");
        assert_eq!(reply.status, 200, "{url}: {}", reply.text());
        reply.json()
    }

    fn page(&self, node: usize, url: &str) -> Reply {
        self.get(node, &format!("pages?as=body&url={url}")).expect("an answer")
    }

    fn url(&self, host: u32, page: u64) -> String {
        self.web.world().url(Place { host, what: What::Page(page) })
    }

    fn wait(&self, what: &str, mut is_so: impl FnMut(&World) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < PATIENCE, "{what}: {}", self.said());
            std::thread::sleep(LOOK);
        }
    }

    /// What the nodes said.
    fn said(&self) -> String {
        let said = self.nodes.iter().map(|node| {
            let path = self.dir.path().join(format!("{}.txt", node.name));
            format!("{}: {}", node.name, std::fs::read_to_string(path).unwrap_or_default())
        });
        said.collect::<Vec<_>>().join("\n")
    }

    /// Nothing is being fetched, and what was is reported.
    fn wait_until_still(&self) {
        self.wait("nothing is open", |world| {
            let nodes = world.get(0, "cluster/nodes").expect("an answer").json();
            let nodes = nodes.as_array().cloned().unwrap_or_default();
            nodes.len() == world.nodes.len()
                && nodes.iter().all(|node| node["stats"]["tickets_open"].as_u64() == Some(0))
        });
    }

    /// Nothing waits, and the outcomes of all fetches stand in the logs.
    fn wait_until_written(&self) {
        self.wait("everything is written down", |world| {
            let said = world.tell(0, &["stats", "--json"]);
            let said: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
            let count = |name: &str| said["all"][name].as_u64();
            (count("tickets_open"), count("urls_waiting")) == (Some(0), Some(0))
        });
    }

    /// A URL of which every node says this.
    fn find(&self, summary: &str) -> String {
        let urls = (0..10).flat_map(|page| (0..HOSTS - 1).map(move |host| (host, page)));
        let found = urls
            .map(|(host, page)| self.url(host, page))
            .find(|url| self.explain(0, url)["summary"] == summary);
        found.unwrap_or_else(|| panic!("no URL is {summary}"))
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A job over all hosts but the last, begun through the first node; some pages are fetched.
async fn begun() -> World {
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

/// The same, and nothing of it is fetched any more.
async fn paused() -> World {
    let world = begun().await;
    let paused = world.tell(1, &["job", "pause", "press"]);
    assert!(paused.status.success(), "{}", text(&paused));
    world.wait("every partition has heard of it", |world| {
        let url = world.find("queued");
        world.explain(0, &url)["held_by"].to_string().contains("paused")
    });
    world.wait_until_still();
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn any_node_answers_for_any_url() {
    let mut world = paused().await;
    // Every URL is explained equally by every node.
    let mut summaries = BTreeMap::<String, usize>::new();
    for page in 0..3 {
        for host in 0..HOSTS {
            let url = world.url(host, page);
            let said: Vec<Value> = (0..3).map(|node| world.explain(node, &url)).collect();
            for one in &said {
                for field in ["summary", "canonical", "depth", "found", "last", "scope", "standing"] {
                    assert_eq!(one[field], said[0][field], "{field} of {url}");
                }
            }
            *summaries.entry(said[0]["summary"].to_string()).or_default() += 1;
            let host = world.get(0, &format!("host?url={url}")).unwrap();
            assert_eq!(
                host.json()["origin"],
                world.get(2, &format!("host?url={url}")).unwrap().json()["origin"]
            );
        }
    }
    assert!(summaries.len() >= 3, "fetched, queued and out of scope: {summaries:?}");

    // A page is read through nodes that did not fetch it.
    let url = world.find("fetched");
    let pages: Vec<Reply> = (0..3).map(|node| world.page(node, &url)).collect();
    for page in &pages {
        assert_eq!((page.status, &page.fields["nephila-url"]), (200, &url), "{}", page.text());
        assert_eq!(page.body, pages[0].body);
        assert_eq!(page.fields["nephila-archive"], pages[0].fields["nephila-archive"]);
    }
    for node in 0..3 {
        let read = world.tell(node, &["read", &url]);
        assert!(read.status.success() && read.stdout.starts_with(b"<!"), "{}", text(&read));
        let record = world.tell(node, &["read", "--warc", &url]);
        assert!(record.stdout.starts_with(b"WARC/1.1\r\n"), "{}", text(&record));
    }
    let head = world.get(1, &format!("pages?as=headers&url={url}")).unwrap();
    assert!(head.text().starts_with("HTTP/1.1 200"), "{}", head.text());

    // Archives of several nodes can be put into one place (OUT-04).
    for node in &world.nodes {
        let files = std::fs::read_dir(node.folder.join("archive")).unwrap();
        let names: Vec<String> =
            files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned()).collect();
        let mut archives = names.iter().filter(|name| name.contains(".warc"));
        assert!(archives.all(|name| name.contains(&format!("-{}.warc", node.name))), "{names:?}");
    }

    // What is wanted comes later, what is not never.
    let queued = world.find("queued");
    for node in 0..3 {
        let page = world.page(node, &queued);
        assert_eq!(page.status, 503, "{}", page.text());
        assert!(page.fields["retry-after"].parse::<u64>().unwrap() > 0, "{page:?}");
        let out = world.page(node, &world.url(HOSTS - 1, 0));
        assert_eq!(out.status, 404, "{}", out.text());
        assert!(out.text().contains("out of scope"), "{}", out.text());
    }
    assert_eq!(world.tell(2, &["read", &queued]).status.code(), Some(8));
    assert_eq!(world.tell(2, &["read", &world.url(HOSTS - 1, 0)]).status.code(), Some(1));

    // Without the token nobody is answered; what makes no sense is a problem of whoever said it.
    for fields in [&[][..], &[("authorization", "Bearer wrong")]] {
        let refused = world.request(0, "GET", "stats", fields, "").unwrap();
        assert_eq!(refused.status, 401, "{}", refused.text());
    }
    for (target, status) in [
        ("explain", 400),
        ("pages?url=mailto:x", 400),
        ("pages?as=cake&url=http://a.test/", 400),
        ("jobs/nobody", 404),
        ("cake", 404),
        ("urls", 405),
        ("cluster", 200),
        ("cluster/partitions", 200),
        ("node", 200),
    ] {
        let reply = world.get(0, target).unwrap();
        assert_eq!(reply.status, status, "{target}: {}", reply.text());
    }
    let token = format!("Bearer {TOKEN}");
    let post = |target, body| {
        world.request(2, "POST", target, &[("authorization", &token)], body).expect("an answer").status
    };
    assert_eq!(post("jobs", r#"{"name":"press","scope":{"seeds":["http://a.test/"]}}"#), 409);
    assert_eq!(post("jobs", r#"{"name":"a/b","scope":{"seeds":["http://a.test/"]}}"#), 400);
    assert_eq!(post("jobs", "{"), 400);
    assert_eq!(post("cluster/drain/nobody", ""), 404);

    // The folder of a node is asked as that of a crawl is.
    let owner = &pages[0].fields["nephila-archive"];
    let node = world.nodes.iter().find(|node| node.name == *owner).unwrap();
    let folder = node.folder.display().to_string();
    for (args, code) in [
        (vec!["explain", &url], 0),
        (vec!["read", &url], 0),
        (vec!["cdx", &url], 0),
        (vec!["log"], 0),
        (vec!["report", "hosts"], 0),
        (vec!["stats"], 0),
        (vec!["politeness", "report"], 0),
        (vec!["report", "seeds"], 2),
    ] {
        let asked = world.ask(&[&args[..], &["-o", &folder]].concat());
        assert_eq!(asked.status.code(), Some(code), "{args:?}: {}", text(&asked));
    }

    // Whoever is not there is not there, and it is said what to check.
    for args in [vec!["explain", &url], vec!["job", "list"]] {
        let nobody = world.ask(&[&args[..], &["--node", "http://127.0.0.1:9"]].concat());
        assert_eq!(nobody.status.code(), Some(8), "{}", text(&nobody));
        assert!(text(&nobody).contains("`nephila serve`"), "{}", text(&nobody));
    }

    // When the servers are away, a node says so.
    world.nats.kill(0).unwrap();
    world.wait("the alarm is raised", |world| {
        let status = world.get(1, "cluster").expect("an answer").json();
        status["alarms"].to_string().contains("the NATS servers do not answer")
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_changes_while_it_runs_and_urls_are_added() {
    let world = begun().await;
    let set = world.tell(2, &["job", "set", "press", "--exclude", "/p/2", "--limit-per-host", "500"]);
    assert!(set.status.success(), "{}", text(&set));
    let shown = world.tell(0, &["job", "show", "press"]);
    assert!(text(&shown).contains("/p/2") && text(&shown).contains("500 pages"), "{}", text(&shown));
    // The owner of every host knows of it soon, and asks for no such page from then on, queued or not.
    for host in 0..HOSTS - 1 {
        let excluded = format!("{}p/2-nobody", world.url(host, 0));
        world
            .wait("every node knows of it", |world| world.explain(0, &excluded)["summary"] == "out-of-scope");
        assert_eq!(world.page(1, &excluded).status, 404, "{excluded}");
    }
    let known_at = world.web.journal().now_us() + GRACE_US;
    let nothing = world.tell(0, &["job", "set", "press"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", text(&nothing));
    let wrong = world.tell(0, &["job", "set", "press", "--priority", "77"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));

    // One is taken, one is out of scope, one is none.
    let (known, outside) = (world.url(0, 0), world.url(HOSTS - 1, 0));
    let added = world.tell(1, &["add", "press", &known, &outside, "mailto:x@y", "--json"]);
    let said: Value = serde_json::from_slice(&added.stdout).unwrap_or_default();
    assert_eq!(
        (added.status.code(), &said["taken"], &said["refused"]),
        (Some(1), &1.into(), &2.into()),
        "{said}"
    );
    assert!(said["refusals"][0]["why"].as_str().unwrap().contains("out of scope"), "{said}");
    let lines = format!("# a comment\n{{\"url\":\"{known}\",\"priority\":0}}\n{{\"url\":1}}\n");
    let token = format!("Bearer {TOKEN}");
    let reply = world.request(0, "POST", "urls?job=press", &[("authorization", &token)], &lines).unwrap();
    assert_eq!((reply.status, &reply.json()["taken"], &reply.json()["refused"]), (202, &1.into(), &1.into()));
    let nobody = world.tell(1, &["add", "nobody", &known]);
    assert_eq!(nobody.status.code(), Some(2), "{}", text(&nobody));

    // A seed brings its scope along. The servers are told directly, without a node.
    let seeded = world.say(&["add", "press", "--seed", &outside]);
    assert!(seeded.status.success(), "{}", text(&seeded));
    world.wait("the new seed is fetched", |world| world.page(1, &outside).status == 200);
    world.wait("queued pages were turned away", |world| {
        let urls = (20..30).flat_map(|page| (0..HOSTS - 1).map(move |host| (host, page)));
        let mut urls = urls.map(|(host, page)| world.url(host, page));
        urls.any(|url| world.explain(0, &url)["last"]["outcome"] == "out-of-scope")
    });
    let asked = world.web.journal().log().requests;
    let late = asked.iter().find(|asked| asked.path.starts_with("/p/2") && asked.start_us > known_at);
    assert!(late.is_none(), "{late:?}");
    assert!(asked.iter().any(|asked| asked.start_us > known_at), "others go on");
    // Both ways of saying it come to the same.
    let state = || {
        serde_json::from_slice::<Value>(&world.say(&["job", "list", "--json"]).stdout).unwrap()["state"]
            .clone()
    };
    for (verb, then) in [("pause", "paused"), ("resume", "running"), ("stop", "stopped")] {
        let said = world.say(&["job", verb, "press"]);
        assert!(said.status.success() && state() == then, "{}", text(&said));
    }
    let stopped = world.tell(2, &["job", "stop", "press"]);
    assert!(stopped.status.success() && state() == "stopped", "{}", text(&stopped));
    let late = world.tell(2, &["add", "press", &known]);
    assert!(text(&late).contains("stopped"), "{}", text(&late));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_dies_is_answered_for_again() {
    let mut world = paused().await;
    let url = world.find("fetched");
    let owner = world.page(0, &url).fields["nephila-archive"].clone();
    let dead = world.nodes.iter().position(|node| node.name == owner).unwrap();
    let other = (dead + 1) % 3;
    let before = world.page(other, &url).body;
    world.nodes[dead].child.kill().unwrap();
    world.nodes[dead].child.wait().unwrap();
    let orphan = world.page(other, &url);
    assert_eq!(orphan.status, 503, "{}", orphan.text());
    assert!(orphan.fields.contains_key("retry-after"), "{orphan:?}");
    world.wait("somebody else owns it", |world| {
        let reply = world.get(other, &format!("explain?url={url}")).expect("an answer");
        reply.status == 200 && reply.json()["summary"] == "fetched"
    });
    world.wait("all that it had is owned again", |world| {
        world.tell(other, &["cluster", "status", "--json"]).status.success()
    });
    // Its capture lies where nobody answers.
    let lost = world.page(other, &url);
    assert_eq!(lost.status, 503, "{}", lost.text());
    // And is found again when its node is back, whoever owns it then.
    let name = world.nodes[dead].name.clone();
    world.nodes[dead] = world.start_node(&name);
    world.wait("the capture is back", |world| {
        let page = world.page(other, &url);
        page.status == 200 && page.body == before && page.fields["nephila-archive"] == name
    });

    // It leaves when it is told to, through any node.
    let drained = world.tell(other, &["cluster", "drain", &name]);
    assert!(drained.status.success(), "{}", text(&drained));
    let began = Instant::now();
    let code = loop {
        if let Some(status) = world.nodes[dead].child.try_wait().unwrap() {
            break status.code();
        }
        assert!(began.elapsed() < PATIENCE, "{}", world.said());
        std::thread::sleep(LOOK);
    };
    assert_eq!(code, Some(11), "{}", world.said());
}

#[test]
fn a_node_that_others_reach_does_not_start_without_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("node").display().to_string();
    let serve = |listen: &str| {
        Command::new(PROGRAM)
            .args(["serve", "-o", &folder, "--set", &format!("api.listen={listen}")])
            .args(["--set", "cluster.servers=[\"nats://127.0.0.1:9\"]"])
            .env("NEPHILA_CONFIG", "/dev/null")
            .output()
            .unwrap()
    };
    let refused = serve("0.0.0.0:0");
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("api.token_file"), "{}", text(&refused));
    let nonsense = serve("somewhere");
    assert_eq!(nonsense.status.code(), Some(2), "{}", text(&nonsense));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_given_to_two_nodes_counts_once_and_any_node_knows_the_feeds() {
    let world = World::start(&["one", "two"]).await;
    let home = world.url(0, 0);
    let created = world.tell(0, &["job", "create", "press", "--scope", "page", &home]);
    assert!(created.status.success(), "{}", text(&created));
    let urls: Vec<String> = (1..10).map(|host| world.url(host, 0)).collect();
    let give = |node: usize, minute: u64, tag: &str| {
        let line = |url: &String| {
            format!("b{minute}\t5\t2026111512{minute:02}00\thttp://page.test/\t{url}\t2\t{tag}\n")
        };
        let path = world.dir.path().join(format!("lines-{minute}"));
        std::fs::write(&path, urls.iter().map(line).collect::<String>()).expect("a file");
        let path = path.display().to_string();
        let given = world.tell(node, &["add", "press", "--reflog", &path, "--json"]);
        assert!(given.status.success(), "{}", text(&given));
        let said: Value = serde_json::from_slice(&given.stdout).expect("JSON");
        assert_eq!((&said["urls"], &said["refused"]), (&9.into(), &0.into()));
    };
    // How often each was asked for, by the server's own journal.
    let mut asked = BTreeMap::<String, u32>::new();
    let mut count = |world: &World| {
        for request in world.web.journal().take().requests {
            if request.path != "/robots.txt" {
                *asked.entry(format!("{}{}", request.host, request.path)).or_default() += 1;
            }
        }
        asked.values().copied().collect::<Vec<u32>>()
    };
    give(0, 0, "x");
    give(1, 0, "x");
    world.wait("every page", |world| count(world).len() == 10);
    // Some are still under way: a changed tag counts for them too.
    // Within the hour and unchanged, then changed: the changed one comes behind the other.
    give(1, 20, "x");
    give(0, 30, "y");
    give(1, 30, "y");
    world.wait("every page again", |world| {
        let asked = count(world);
        asked.iter().sum::<u32>() > 2 * 9
    });
    world.wait_until_still();
    let mut sorted = count(&world);
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 2, 2, 2, 2, 2, 2, 2, 2, 2], "each batch counts once, whoever brings it");
    world.wait_until_written();

    // The same over HTTP, without an id and with lines that cannot be read.
    let line = format!("b40\t5\t20261115124000\t\t{}\t2\tz\nhalf a line\n", urls[1]);
    for node in 0..2 {
        let token = format!("Bearer {TOKEN}");
        let reply = world.request(node, "POST", "reflog?job=press", &[("authorization", &token)], &line);
        let reply = reply.expect("an answer");
        assert_eq!(reply.status, 202, "{}", reply.text());
        let said = reply.json();
        assert_eq!((&said["lines"], &said["urls"], &said["unreadable"]), (&1.into(), &1.into(), &1.into()));
    }
    world.wait("it once more", |world| count(world).iter().sum::<u32>() == 1 + 2 * 9 + 1);
    world.wait_until_written();

    // A page is no feed, and both nodes say so.
    let added = world.tell(1, &["feed", "add", &urls[0], "--job", "press"]);
    assert!(added.status.success(), "{}", text(&added));
    for node in 0..2 {
        world.wait("the feed was asked", |world| {
            let listed = world.tell(node, &["feed", "list", "--json"]);
            let said: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
            said["url"] == *urls[0] && said["polls"][0]["found"] == "not-a-feed"
        });
        assert!(text(&world.tell(node, &["feed", "show", &urls[0]])).contains("not-a-feed"));
    }
}
