//! Three nodes of a cluster on a real NATS server, one of which can be killed from outside and comes back on request.
//!
//! Invariant: nodes and server end with the value; a node is started again only after its process has ended.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nephila_testnats::Nats;
use serde_json::Value;
use tempfile::TempDir;

use super::{START_LIMIT, sets, words};
use crate::shell;
use crate::watched::Answering;

/// Names of the nodes.
const NAMES: [&str; 3] = ["one", "two", "three"];
/// Partitions of the cluster.
const PARTITIONS: u64 = 48;
/// Time until the nodes share the partitions.
const SHARE_LIMIT: Duration = Duration::from_secs(120);
/// Timeout of a command of the operator.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// Timeout of one request.
const ASK_LIMIT: Duration = Duration::from_secs(20);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct Cluster {
    nodes: Vec<(Answering, Vec<String>)>,
    program: PathBuf,
    settings: Vec<String>,
    folder: TempDir,
    _nats: Nats,
}

impl Cluster {
    /// Starts server and nodes, and waits until each node has its share.
    pub(super) fn start(program: &Path, settings: &[String]) -> Result<Cluster> {
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let nats = Nats::one()?;
        let mut settings = settings.to_vec();
        settings.extend([
            "cluster.name=\"dashboard\"".to_owned(),
            format!("cluster.servers=[\"{}\"]", nats.urls().join("\", \"")),
            "cluster.replicas=1".to_owned(),
            format!("cluster.partitions={PARTITIONS}"),
            "cluster.streams=4".to_owned(),
            "frontier.host_delay=1s".to_owned(),
        ]);
        let mut nodes = Vec::new();
        for name in NAMES {
            let address = Answering::free_address()?;
            let dir = folder.path().join(name).display().to_string();
            let mut args = words(&["serve", "--config", "/dev/null", "--node", name, "-o", &dir]);
            args.extend(sets(&[format!("api.listen={address}")]));
            args.extend(sets(&settings));
            let said = folder.path().join(format!("{name}.log"));
            nodes.push((Answering::start(program, &args, said, address)?, args));
        }
        let mut cluster = Cluster { nodes, program: program.to_owned(), settings, folder, _nats: nats };
        for (node, _) in &mut cluster.nodes {
            node.wait(START_LIMIT)?;
        }
        let end = Instant::now() + SHARE_LIMIT;
        while !cluster.is_shared() {
            ensure!(
                Instant::now() < end,
                "the nodes do not share the partitions: {}",
                cluster.first().said()
            );
            std::thread::sleep(LOOK);
        }
        Ok(cluster)
    }

    fn is_shared(&mut self) -> bool {
        let Ok(said) = ask(self.first().address(), "/api/v1/cluster") else { return false };
        let nodes = said["nodes"].as_array().cloned().unwrap_or_default();
        let has_share = |node: &Value| node["partitions"].as_u64().is_some_and(|owned| owned > 0);
        said["without_owner"] == 0 && nodes.len() == NAMES.len() && nodes.iter().all(has_share)
    }

    /// Creates a job, as an operator does.
    pub(super) fn create_job(&self, name: &str, seeds: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["job", "create", name]).args(seeds).args(["--scope", "any", "--config", "/dev/null"]);
        shell::run(command.args(sets(&self.settings)), COMMAND_LIMIT)
    }

    /// The node that the judge looks at.
    pub(super) fn first(&mut self) -> &mut Answering {
        &mut self.nodes[0].0
    }

    /// The node that is killed.
    pub(super) fn last(&mut self) -> &mut Answering {
        &mut self.nodes[NAMES.len() - 1].0
    }

    /// Whoever makes this file has the last node started again.
    pub(super) fn revive_file(&self) -> PathBuf {
        self.folder.path().join("revive")
    }

    /// Runs `work`; meanwhile the last node, once it has ended, is started again as soon as the file of
    /// [`Cluster::revive_file`] is there.
    pub(super) fn while_reviving(&mut self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let file = self.revive_file();
        let (program, folder) = (self.program.clone(), self.folder.path().to_owned());
        let (node, args) = self.nodes.last_mut().expect("three nodes");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let revive = scope.spawn(|| -> Result<()> {
                while !is_over.load(Ordering::Relaxed) {
                    if file.exists() && !node.is_running()? {
                        std::fs::remove_file(&file)?;
                        let (address, said) = (node.address(), folder.join("again.log"));
                        *node = Answering::start(&program, args, said, address)?;
                    }
                    std::thread::sleep(LOOK);
                }
                Ok(())
            });
            let result = work();
            is_over.store(true, Ordering::Relaxed);
            revive.join().expect("it does not panic").and(result)
        })
    }
}

/// `GET` of a node, as JSON.
pub(super) fn ask(address: SocketAddr, path: &str) -> Result<Value> {
    let mut stream = TcpStream::connect_timeout(&address, ASK_LIMIT)?;
    stream.set_read_timeout(Some(ASK_LIMIT))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no end of the head")?;
    ensure!(head.split(' ').nth(1) == Some("200"), "{path}: {head}");
    serde_json::from_str(body).with_context(|| format!("{path}: {body:.200}"))
}
