//! What the faults are made in: a NATS server, an object store, a town, three nodes of one cluster, and a Prometheus that
//! scrapes them each second and has the faster rules.
//!
//! Node `one` has a volume of its own: a tmpfs in a mount namespace, which no other process sees and which ends with the node.
//! Node `three` fetches nothing itself: a remote spider does. A crawl on one machine, beside the cluster, is started on request.
//!
//! Invariant: all processes end with the value, each by its own id.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nephila_testnats::Nats;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::moto::Moto;
use super::prometheus::{Prometheus, Setup, get};
use super::town::Town;
use super::watch::Watch;
use crate::programs::Programs;
use crate::shell;
use crate::watched::Answering;

/// Names of the nodes.
pub(super) const NAMES: [&str; 3] = ["one", "two", "three"];
/// Name of the crawl on one machine.
pub(super) const ALONE: &str = "alone";
/// The secret of its webhook.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n";
/// Name of the cluster, and its sizes.
pub(super) const CLUSTER: &str = "alerts";
pub(super) const STREAMS: u32 = 4;
const PARTITIONS: u32 = 48;
/// Interval of scrapes and of the evaluation of rules.
const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// Size of the volume of node `one` in bytes.
const VOLUME_BYTES: u64 = 384 << 20;
/// Time until a process answers.
const START_LIMIT: Duration = Duration::from_secs(90);
/// Time until the nodes share the partitions.
const SHARE_LIMIT: Duration = Duration::from_secs(120);
/// Time in which a node hands over and ends.
const LEAVE_LIMIT: Duration = Duration::from_secs(90);
/// Timeout of a command of the operator.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(200);
/// Plants a bug in a crawler that is `crawl_proof`: requests on behalf of other hosts count for no rest.
const PLANTED: &str = "CRAWL_PROOF_PLANTED=errand-without-rest";
/// Mounts the volume at its first argument and becomes the rest.
const MOUNT: &str = r#"mount -t tmpfs -o size="$2" nephila "$1" && shift 2 && exec "$@""#;

/// Settings that differ from those that are shipped, and why.
pub(super) const SETTINGS: [(&str, &str); 8] = [
    ("retry.host_rest_first=1s", "1m by 60, as the rules"),
    ("retry.host_rest_max=1m", "1h by 60, as the rules"),
    ("feed.follow_found=true", "the feeds of the town are followed"),
    ("feed.schedule.interval_min=5s", "5m by 60, as the rules"),
    ("feed.schedule.interval_max=10s", "a feed that is well again is polled within seconds"),
    ("store.age_max=10s", "there are closed archive files all the time"),
    ("crawl.disk_free_min=67108864", "64 MiB of the 384 MiB of the volume of node one"),
    ("cluster.replicas=1", "one NATS server"),
];

/// A node and how it is started.
struct Node {
    process: Option<Answering>,
    address: SocketAddr,
    dir: PathBuf,
    args: Vec<String>,
    /// How often it was started.
    starts: u32,
}

/// See the module.
pub(super) struct Stage {
    pub(super) watch: Watch,
    pub(super) prometheus: Arc<Prometheus>,
    spider: Mutex<Option<Child>>,
    spider_port: u16,
    nodes: Mutex<Vec<Node>>,
    /// Where the crawl on one machine answers, if it runs.
    alone: SocketAddr,
    pub(super) moto: Moto,
    pub(super) nats: Nats,
    pub(super) town: Town,
    nephila: PathBuf,
    planted: PathBuf,
    folder: TempDir,
}

impl Stage {
    /// Starts everything, gives the cluster its job, and waits until the nodes share the partitions.
    pub(super) fn start(programs: &Programs, cache: &Path, rules: &str) -> Result<Stage> {
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let (town, nats, moto) = (Town::open()?, Nats::one()?, Moto::start(cache)?);
        let spider_port = Answering::free_address()?.port();
        let mut settings = town.settings();
        settings.extend(moto.settings());
        settings.extend(SETTINGS.map(|(set, _)| set.to_owned()));
        settings.push(format!("cluster.name={CLUSTER}"));
        settings.push(format!("cluster.servers=[\"{}\"]", nats.urls().join("\", \"")));
        settings.push(format!("cluster.partitions={PARTITIONS}"));
        settings.push(format!("cluster.streams={STREAMS}"));
        let mut nodes = Vec::new();
        for name in NAMES {
            let (address, dir) = (Answering::free_address()?, folder.path().join(name));
            std::fs::create_dir_all(&dir)?;
            let mut args = words(&["serve", "--config", "/dev/null", "--node", name, "-o"]);
            args.push(dir.display().to_string());
            let mut own = vec![format!("api.listen={address}")];
            if name == "three" {
                own.push(format!("spiders.listen=127.0.0.1:{spider_port}"));
            }
            args.extend(sets(&own).chain(sets(&settings)));
            nodes.push(Node { process: None, address, dir, args, starts: 0 });
        }
        let alone = Answering::free_address()?;
        let mut targets: Vec<(&str, SocketAddr)> =
            NAMES.into_iter().zip(nodes.iter().map(|node| node.address)).collect();
        targets.push((ALONE, alone));
        let setup = Setup { every: SCRAPE_EVERY, targets: &targets, token: None, rules };
        let prometheus = Arc::new(Prometheus::start(cache, &folder.path().join("prometheus"), &setup)?);
        let watch = Watch::start(prometheus.clone());
        let nephila = programs.path("nephila")?.to_owned();
        let planted = programs.path("crawl_proof")?.to_owned();
        let (spider, nodes) = (Mutex::new(None), Mutex::new(nodes));
        let stage = Stage {
            watch,
            prometheus,
            spider,
            spider_port,
            nodes,
            alone,
            moto,
            nats,
            town,
            nephila,
            planted,
            folder,
        };
        for name in NAMES {
            stage.start_node(name, false)?;
        }
        stage.start_spider()?;
        stage.wait_shared(NAMES.len())?;
        stage.create_job(&settings)?;
        Ok(stage)
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a node, with the planted bug or without, and waits until it answers.
    pub(super) fn start_node(&self, name: &str, is_planted: bool) -> Result<()> {
        let mut nodes = self.nodes();
        let node = &mut nodes[place_of(name)];
        ensure!(node.process.is_none(), "node {name} runs");
        node.starts += 1;
        // The credentials of the object store; `env` becomes the node.
        let mut args = words(&["AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test"]);
        args.extend(is_planted.then(|| PLANTED.to_owned()));
        if name == "one" {
            args.extend(words(&["unshare", "--mount"]));
            if !rustix::process::geteuid().is_root() {
                args.push("--map-root-user".to_owned());
            }
            args.extend(words(&["--", "sh", "-c", MOUNT, "sh"]));
            args.extend([node.dir.display().to_string(), VOLUME_BYTES.to_string()]);
        }
        let program = if is_planted { &self.planted } else { &self.nephila };
        args.push(program.display().to_string());
        args.extend(node.args.iter().cloned());
        let said = self.folder.path().join(format!("{name}-{}.log", node.starts));
        let process = node.process.insert(Answering::start(Path::new("env"), &args, said, node.address)?);
        process.wait(START_LIMIT).with_context(|| format!("node {name}"))
    }

    /// Ends a node as a power switch would.
    pub(super) fn kill_node(&self, name: &str) -> Result<()> {
        let mut process = self.nodes()[place_of(name)].process.take().context("the node does not run")?;
        process.kill();
        Ok(())
    }

    /// Tells a node to hand over and end, and waits.
    pub(super) fn stop_node(&self, name: &str) -> Result<()> {
        let mut process = self.nodes()[place_of(name)].process.take().context("the node does not run")?;
        let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        kill_process(id, Signal::TERM)?;
        let end = Instant::now() + LEAVE_LIMIT;
        while process.is_running()? {
            ensure!(Instant::now() < end, "node {name} does not end; it said:\n{}", process.said());
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The folder of a node as the node itself sees it, on its own volume.
    pub(super) fn inside(&self, name: &str) -> Result<PathBuf> {
        let nodes = self.nodes();
        let node = &nodes[place_of(name)];
        let id = node.process.as_ref().context("the node does not run")?.id();
        Ok(PathBuf::from(format!("/proc/{id}/root")).join(node.dir.strip_prefix("/")?))
    }

    /// Starts the spider of node `three`.
    pub(super) fn start_spider(&self) -> Result<()> {
        let node = format!("127.0.0.1:{}", self.spider_port);
        let log =
            std::fs::File::options().create(true).append(true).open(self.folder.path().join("spider.log"))?;
        let child = Command::new(&self.nephila)
            .args(["spider", "--node", &node, "--name", "away"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start the spider")?;
        *self.spider.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        Ok(())
    }

    /// Kills the spider of node `three`.
    pub(super) fn kill_spider(&self) -> Result<()> {
        let child = self.spider.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut child = child.context("no spider runs")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Starts a crawl of one shop on one machine, with a webhook to this address for fetched pages, and waits until it answers.
    pub(super) fn crawl_alone(&self, to: SocketAddr) -> Result<Answering> {
        let (dir, secret) = (self.folder.path().join(ALONE), self.folder.path().join("webhook.secret"));
        std::fs::write(&secret, SECRET)?;
        std::fs::set_permissions(&secret, Permissions::from_mode(0o600))?;
        let webhook = format!(
            "webhooks=[{{name=\"proof\", url=\"http://{to}/\", kinds=[\"fetched\"], secret_file={secret:?}}}]"
        );
        let homes = self.town.homes();
        let shop = homes.iter().find(|home| home.contains("shop")).context("the town has shops")?;
        let mut args = words(&["crawl", shop, "--scope", "host", "--config", "/dev/null", "--delay", "1s"]);
        args.extend(words(&["--listen", &self.alone.to_string(), "-o", &dir.display().to_string()]));
        args.extend(sets(&self.town.settings()).chain(sets(&[webhook])));
        let said = self.folder.path().join("alone.log");
        let mut crawl = Answering::start(&self.nephila, &args, said, self.alone)?;
        crawl.wait(START_LIMIT).context("the crawl on one machine")?;
        Ok(crawl)
    }

    /// Waits until so many nodes own all partitions, each some.
    pub(super) fn wait_shared(&self, count: usize) -> Result<()> {
        let address = self.nodes()[0].address;
        let is_shared = || -> Result<bool> {
            let said: Value = serde_json::from_str(&get(address, "/api/v1/cluster")?)?;
            let nodes = said["nodes"].as_array().cloned().unwrap_or_default();
            let has_share = |node: &Value| node["partitions"].as_u64().is_some_and(|owned| owned > 0);
            Ok(said["without_owner"] == 0 && nodes.len() == count && nodes.iter().all(has_share))
        };
        until(&format!("{count} nodes share the partitions"), SHARE_LIMIT, is_shared)
    }

    /// One job with all sites, as an operator makes it.
    fn create_job(&self, settings: &[String]) -> Result<()> {
        let seeds = self.folder.path().join("homes.txt");
        std::fs::write(&seeds, self.town.homes().join("\n") + "\n")?;
        let mut command = Command::new(&self.nephila);
        command.args(["job", "create", "town", "--scope", "any", "--config", "/dev/null", "-i"]).arg(seeds);
        shell::output(command.args(sets(settings)), COMMAND_LIMIT).map(|_| ())
    }

    /// The ends of the outputs of all processes.
    pub(super) fn said(&self) -> String {
        let nodes = self.nodes();
        let said = NAMES
            .iter()
            .zip(nodes.iter())
            .filter_map(|(name, node)| Some(format!("node {name} said:\n{}", node.process.as_ref()?.said())));
        said.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        _ = self.kill_spider();
    }
}

fn place_of(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).expect("one of the three nodes")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Settings as flags.
fn sets(settings: &[String]) -> impl Iterator<Item = String> {
    settings.iter().flat_map(|set| ["--set".to_owned(), set.clone()])
}

/// Waits for a condition. An error of the condition counts as not yet, and is named at the end.
pub(super) fn until(what: &str, limit: Duration, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + limit;
    loop {
        let said = match holds() {
            Ok(true) => return Ok(()),
            Ok(false) => String::new(),
            Err(error) => format!(": {error:#}"),
        };
        ensure!(Instant::now() < end, "not within {} s: {what}{said}", limit.as_secs());
        std::thread::sleep(LOOK);
    }
}
