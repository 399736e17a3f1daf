//! Webhooks of real crawls: a receiver that fails in every way and is away for a while, and a crawl that is killed
//! meanwhile. Every event arrives, in order, and signed so that a second implementation agrees.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nephila_api::webhooks::FINISH_MAX;
use serde_json::Value;

use super::alone::{Served, run, text};
use super::site::{HOSTS, PAGES, PATIENCE, PROGRAM, Site, crawl_args};

/// An address that no other test listens on, so that the port stays free while the receiver is away.
const ADDRESS: &str = "127.0.57.1:0";
/// `timeout` of the webhook; a slow answer takes longer.
const TIMEOUT: &str = "1s";
const SLOW: Duration = Duration::from_millis(1_500);
/// The kinds that are sent.
const KINDS: [&str; 5] = ["fetched", "failed", "host-found", "robots", "job"];
/// Number of times the crawl is killed.
const KILLS: usize = 4;

/// Verifies deliveries, one JSON object per line, by the public description of Standard Webhooks.
const VERIFY: &str = r#"
import base64, hashlib, hmac, json, sys
key = base64.b64decode(open(sys.argv[1]).read().strip().removeprefix("whsec_"))
count = 0
for line in sys.stdin:
    told = json.loads(line)
    signed = f"{told['id']}.{told['timestamp']}.{told['body']}".encode()
    want = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert hmac.compare_digest(want, told["signature"]), line
    assert abs(told["at"] - int(told["timestamp"])) < 300, line
    count += 1
print(count)
"#;

/// What the receiver does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Accept,
    Fail,
    HangUp,
    Slow,
    Busy,
    Redirect,
    Gone,
    Never,
}

/// A request as it came.
#[derive(Clone, Debug)]
struct Told {
    way: Way,
    target: String,
    fields: BTreeMap<String, String>,
    body: String,
    at: u64,
}

impl Told {
    fn events(&self) -> Vec<Value> {
        let body: Value = serde_json::from_str(&self.body).expect("a JSON document");
        assert_eq!(body["type"], "events", "{body}");
        body["data"]["events"].as_array().expect("events").clone()
    }
}

/// A receiver that goes through its ways again and again.
struct Receiver {
    address: SocketAddr,
    is_away: Arc<AtomicBool>,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Receiver {
    fn start(ways: &'static [Way]) -> Receiver {
        let listener = TcpListener::bind(ADDRESS).expect("a port");
        let address = listener.local_addr().unwrap();
        let (is_away, told, count) = (Arc::<AtomicBool>::default(), Arc::default(), Arc::default());
        let receiver = Receiver { address, is_away: is_away.clone(), told: Arc::clone(&told) };
        std::thread::spawn(move || {
            let mut listening = Some(listener);
            loop {
                // Without the listener, connections are refused.
                if is_away.load(Ordering::SeqCst) {
                    listening = None;
                } else if listening.is_none() {
                    listening = TcpListener::bind(address).ok();
                }
                if let Some(listener) = &listening {
                    listener.set_nonblocking(true).unwrap();
                    if let Ok((stream, _)) = listener.accept() {
                        let (told, count) = (Arc::clone(&told), Arc::clone(&count));
                        std::thread::spawn(move || answer(stream, ways, &told, &count));
                        continue;
                    }
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        receiver
    }

    fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    /// The events of accepted deliveries, in the order of their arrival.
    fn accepted(&self) -> Vec<Value> {
        self.told().iter().filter(|told| told.way == Way::Accept).flat_map(Told::events).collect()
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Receiver) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < PATIENCE, "{what}: {:?}", self.told());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn answer(mut stream: TcpStream, ways: &[Way], all: &Mutex<Vec<Told>>, count: &AtomicUsize) -> Option<()> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let (head, body) = loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let fields = head.lines().filter_map(|line| line.split_once(": "));
            let length = fields.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            if length.is_some_and(|(_, length)| body.len() >= length.parse().unwrap()) {
                break (head.to_owned(), body.to_owned());
            }
        }
        match stream.read(&mut piece).ok()? {
            // The sender was killed.
            0 => return None,
            n => bytes.extend_from_slice(&piece[..n]),
        }
    };
    let way = ways[count.fetch_add(1, Ordering::SeqCst) % ways.len()];
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let target = head.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    all.lock().unwrap().push(Told { way, target, fields, body, at });
    let answer = match way {
        Way::Accept => "204 No Content\r\n",
        Way::Fail => "500 Internal Server Error\r\nContent-Length: 0\r\n",
        Way::Busy => "503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n",
        Way::Redirect => "307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n",
        Way::Gone => "410 Gone\r\nContent-Length: 0\r\n",
        Way::HangUp => return None,
        Way::Slow => {
            std::thread::sleep(SLOW);
            "204 No Content\r\n"
        }
        Way::Never => {
            _ = stream.read(&mut piece);
            return None;
        }
    };
    write!(stream, "HTTP/1.1 {answer}Connection: close\r\n\r\n").ok()
}

/// Ends its process with the test.
struct Crawl(Child);

impl Drop for Crawl {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A folder with a secret, and the flags of a crawl with a webhook.
struct World {
    site: Site,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        World { site: Site::start(), dir }
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn args(&self, url: &str, more: &str) -> Vec<String> {
        let mut args = crawl_args(self.site.port, "data");
        let webhook = format!(
            "webhooks=[{{name=\"mine\", url=\"{url}\", secret_file=\"secret\", kinds={KINDS:?}{more}}}]"
        );
        args.extend(["--set".into(), webhook]);
        args
    }

    fn command(&self, args: &[String]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(self.dir()).env("HOME", self.dir()).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[String]) -> Output {
        self.command(args).output().expect("it runs")
    }

    /// The events of the kinds that are sent, as the journals have them.
    fn events(&self) -> Vec<Value> {
        let said = run(self.dir(), &["log", "--events", "--kind", &KINDS.join(","), "-o", "data"]);
        assert!(said.status.success(), "{}", text(&said));
        let lines = String::from_utf8_lossy(&said.stdout).into_owned();
        let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["kind"] != "position").collect()
    }
}

fn id(event: &Value) -> String {
    event["id"].as_str().expect("an id").to_owned()
}

/// The events of each partition, by the order of their first arrival. A host is in one partition.
fn firsts(events: &[Value]) -> BTreeMap<String, Vec<String>> {
    let (mut seen, mut parts) = (BTreeSet::new(), BTreeMap::<String, Vec<String>>::new());
    for id in events.iter().map(id) {
        if seen.insert(id.clone()) {
            parts.entry(id.split('.').next().unwrap().to_owned()).or_default().push(id);
        }
    }
    parts
}

#[test]
fn every_event_arrives_signed_and_in_order_though_the_receiver_fails_and_the_crawl_is_killed() {
    use Way::{Accept, Busy, Fail, HangUp, Redirect, Slow};
    let world = World::new();
    let receiver =
        Receiver::start(&[Accept, Fail, Accept, HangUp, Accept, Slow, Accept, Busy, Accept, Redirect]);
    let url = format!("http://{}/hook?x=1", receiver.address);
    let mut args = world.args(&url, &format!(", events_max=5, timeout=\"{TIMEOUT}\""));
    // Slow enough to be killed between two deliveries.
    args.extend(["--set".into(), "frontier.host_delay=700ms".into()]);
    for kill in 0..KILLS {
        let before = receiver.told().len();
        // In the second run connections are refused, until the crawl has noticed.
        receiver.is_away.store(kill == 1, Ordering::SeqCst);
        let said = world.dir().join(format!("said-{kill}"));
        let mut command = world.command(&args);
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&said).unwrap());
        let crawl = Crawl(command.spawn().unwrap());
        if kill == 1 {
            let has_noticed =
                |_: &Receiver| std::fs::read_to_string(&said).unwrap().contains("no connection");
            receiver.wait("a refused connection", has_noticed);
            receiver.is_away.store(false, Ordering::SeqCst);
        }
        receiver.wait("deliveries of this run", |receiver| receiver.told().len() >= before + 2 + kill);
        drop(crawl);
    }
    let ended = world.run(&args);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    // The folder has kept the webhook, and what was left is delivered while the folder is served.
    let all = world.events();
    assert!(all.len() >= HOSTS * (PAGES + 2), "{} events", all.len());
    let served = Served::start(world.dir());
    let wanted: BTreeSet<String> = all.iter().map(id).collect();
    receiver.wait("all events", |receiver| {
        let accepted: BTreeSet<String> = receiver.accepted().iter().map(id).collect();
        accepted.is_superset(&wanted)
    });
    served.wait("the status shows the webhook at rest", |served| {
        let status: Value = serde_json::from_str(&served.ask("GET", "/api/v1/status", "").1).unwrap();
        let said = &status["webhooks"][0];
        said["name"] == "mine" && said["state"] == "delivering" && said["lag_s"] == 0
    });
    let (_, metrics) = served.ask("GET", "/metrics", "");
    for family in ["deliveries_total{webhook=\"mine\",result=\"accepted\"}", "gone{webhook=\"mine\"} 0"] {
        assert!(metrics.contains(&format!("\nnephila_webhook_{family}")), "{metrics}");
    }
    drop(served);

    let mut accepted = receiver.accepted();
    // Serving the folder may add events of its own.
    accepted.retain(|event| wanted.contains(&id(event)));
    assert_eq!(firsts(&accepted), firsts(&all), "nothing else, nothing less, in order");
    let told = receiver.told();
    let ways: BTreeSet<Way> = told.iter().map(|told| told.way).collect();
    assert_eq!(ways.len(), 6, "the receiver did everything: {ways:?}");
    assert!(told.iter().all(|told| told.target == "POST /hook?x=1"), "no redirect is followed");
    assert!(told.iter().all(|told| told.body.contains("\"webhook\":\"mine\"")));
    assert!(told.iter().all(|told| told.fields["content-type"] == "application/json"));
    // A delivery that failed comes again under its id, and an id never has two bodies.
    let mut bodies = BTreeMap::<&str, BTreeSet<&str>>::new();
    for told in &told {
        bodies.entry(&told.fields["webhook-id"]).or_default().insert(&told.body);
    }
    assert!(bodies.values().all(|bodies| bodies.len() == 1));
    assert!(bodies.len() < told.len(), "{} ids in {} deliveries", bodies.len(), told.len());
    assert_eq!(verified(&world, &told), told.len());
    println!("{} events, {} deliveries, {} ids", all.len(), told.len(), bodies.len());
}

/// The number of deliveries that Python's own HMAC has verified.
fn verified(world: &World, told: &[Told]) -> usize {
    let mut python = Command::new("python3")
        .args(["-c", VERIFY])
        .arg(world.dir().join("secret"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 verifies the signatures");
    let mut input = python.stdin.take().unwrap();
    for told in told {
        let line = serde_json::json!({
            "id": told.fields["webhook-id"], "timestamp": told.fields["webhook-timestamp"],
            "signature": told.fields["webhook-signature"], "body": told.body, "at": told.at,
        });
        writeln!(input, "{line}").unwrap();
    }
    drop(input);
    let said = python.wait_with_output().unwrap();
    assert!(said.status.success(), "a signature is wrong");
    String::from_utf8_lossy(&said.stdout).trim().parse().unwrap()
}

#[test]
fn a_crawl_does_not_wait_for_a_receiver_and_a_gone_one_is_left_alone_until_the_next_start() {
    let world = World::new();
    let silent = Receiver::start(&[Way::Never]);
    let args = world.args(&format!("http://{}/", silent.address), ", timeout=\"5min\"");
    let began = Instant::now();
    let ended = world.run(&args);
    let took = began.elapsed();
    // The crawl itself takes seconds, and the rest is for a busy machine.
    assert!(took < FINISH_MAX + Duration::from_secs(30), "{took:?}: {}", text(&ended));
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    assert!(text(&ended).contains("not all events are delivered"), "{}", text(&ended));
    assert_eq!(silent.told().len(), 1, "one delivery was under way all the time");

    // It goes once: the last events of a run may be a delivery of their own.
    let gone = Receiver::start(&[Way::Gone, Way::Accept, Way::Accept, Way::Accept, Way::Accept, Way::Accept]);
    let url = format!("http://{}/", gone.address);
    let args = world.args(&url, ", events_max=1000");
    let ended = world.run(&args);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    assert!(text(&ended).contains("status 410"), "{}", text(&ended));
    assert_eq!(gone.told().len(), 1);
    let ended = world.run(&args);
    assert!(!text(&ended).contains("not all events are delivered"), "{}", text(&ended));
    assert_eq!(firsts(&gone.accepted()), firsts(&world.events()));
    // A webhook of another name begins at the end, if its settings say so.
    let before: BTreeSet<String> = world.events().iter().map(id).collect();
    let quiet = Receiver::start(&[Way::Accept]);
    let mut args = world.args(&format!("http://{}/", quiet.address), ", from=\"end\"");
    let webhook = args.pop().unwrap().replacen("mine", "other", 1);
    args.push(webhook);
    let ended = world.run(&args);
    assert!(ended.status.success(), "{}", text(&ended));
    let new: BTreeSet<String> = world.events().iter().map(id).filter(|id| !before.contains(id)).collect();
    assert_eq!(quiet.accepted().iter().map(id).collect::<BTreeSet<_>>(), new, "what this run has added");
    assert!(world.dir().join("data/webhooks/other.json").is_file());
}

#[test]
fn webhooks_that_cannot_work_are_refused_before_anything_is_requested() {
    let world = World::new();
    let refused = |url: &str, more: &str, said: &str| {
        let ended = world.run(&world.args(url, more));
        assert_eq!(ended.status.code(), Some(2), "{}", text(&ended));
        assert!(text(&ended).contains(said), "{said}: {}", text(&ended));
    };
    refused("http://hooks.example/", "", "allow_http");
    refused("https://hooks.example/", ", secrets=1", "secrets");
    refused("https://hooks.example/", ", ca_file=\"missing.pem\"", "missing.pem");
    let mut cluster = world.args("https://hooks.example/", "");
    cluster.extend(["--set".into(), "cluster.servers=[\"nats://127.0.0.1:1\"]".into()]);
    let ended = world.run(&cluster);
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended));
    assert!(text(&ended).contains("NEPH_nephila_EVENTS"), "{}", text(&ended));
    let secret = world.dir().join("secret");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused("https://hooks.example/", "", "chmod 600");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&secret, "hunter2").unwrap();
    refused("https://hooks.example/", "", "whsec_");
    assert!(world.site.asked().is_empty(), "{:?}", world.site.asked());
}
