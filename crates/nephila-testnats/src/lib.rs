//! For tests only: real NATS servers on loopback, one or a cluster of three, with the settings that operators are told to
//! use, and a [`Proxy`] for the networks between them and us.
//!
//! A [`Nats`] starts its servers, waits until JetStream works, and can kill, freeze, restart and wipe each. Their
//! addresses stay the same over restarts.
//!
//! Invariants: no server outlives its value, and each is ended by its own process id; their data lies in a temporary
//! folder that is removed with the value.

mod program;
mod proxy;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub use program::server_program;
pub use proxy::Proxy;

/// Timeout until JetStream works, on a machine under load.
const READY_WAIT: Duration = Duration::from_secs(90);
/// Polling interval of a waiting test.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of one request to a monitoring port.
const MONITOR_WAIT: Duration = Duration::from_secs(3);
/// Maximum size of an answer of a monitoring port.
const MONITOR_BYTES_MAX: u64 = 16 << 20;
/// Ports are taken from here: outside the range that the system gives to outgoing connections, so that no other process
/// takes the port of a server that is down for a moment.
const PORTS: std::ops::Range<u32> = 10_240..32_000;
/// Maximum number of ports that are tried.
const PORT_TRIES_MAX: u32 = 2_000;
/// Maximum number of starts with other ports, if another process took one in between.
const START_TRIES_MAX: u32 = 3;

/// How the servers are set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// One or three.
    pub servers: usize,
    /// `sync_interval` of JetStream; operators are told to use `always`.
    pub sync_interval: String,
    /// Maximum size of a message in bytes.
    pub payload_bytes_max: u32,
    /// Maximum size of JetStream's files in bytes.
    pub store_bytes_max: u64,
    /// Further lines of the configuration.
    pub extra: String,
    /// Further lines of its `cluster` block.
    pub routes_extra: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            servers: 1,
            sync_interval: "always".to_owned(),
            payload_bytes_max: 1 << 20,
            store_bytes_max: 8 << 30,
            extra: String::new(),
            routes_extra: String::new(),
        }
    }
}

/// Servers that run.
#[derive(Debug)]
pub struct Nats {
    program: PathBuf,
    options: Options,
    servers: Vec<Server>,
    folder: TempDir,
}

#[derive(Debug)]
struct Server {
    client: u16,
    monitor: u16,
    route: u16,
    child: Option<Child>,
    is_frozen: bool,
}

impl Nats {
    /// One server.
    pub fn one() -> Result<Nats> {
        Nats::with(Options::default())
    }

    /// A cluster of three.
    pub fn three() -> Result<Nats> {
        Nats::with(Options { servers: 3, ..Options::default() })
    }

    /// Servers with these settings; returns when JetStream works on all of them.
    pub fn with(options: Options) -> Result<Nats> {
        ensure!([1, 3].contains(&options.servers), "there are one or three servers");
        let program = server_program()?;
        let mut tries = 1;
        loop {
            match Nats::try_with(&program, &options) {
                Err(error) if tries >= START_TRIES_MAX => return Err(error),
                Err(_) => tries += 1,
                started => return started,
            }
        }
    }

    fn try_with(program: &Path, options: &Options) -> Result<Nats> {
        let folder = tempfile::Builder::new().prefix("nephila-nats-").tempdir()?;
        let mut servers = Vec::new();
        for _ in 0..options.servers {
            let (client, monitor, route) = (free_port()?, free_port()?, free_port()?);
            servers.push(Server { client, monitor, route, child: None, is_frozen: false });
        }
        let mut nats = Nats { program: program.into(), options: options.clone(), servers, folder };
        for index in 0..nats.servers.len() {
            let config = nats.config(index)?;
            std::fs::write(nats.folder.path().join(format!("n{index}.conf")), config)?;
            nats.start(index)?;
        }
        nats.wait_ready()?;
        Ok(nats)
    }

    fn config(&self, index: usize) -> Result<String> {
        let Options { sync_interval, payload_bytes_max, store_bytes_max, extra, routes_extra, .. } =
            &self.options;
        let server = &self.servers[index];
        let store = self.store(index);
        let mut text = String::new();
        writeln!(text, "server_name: n{index}")?;
        writeln!(text, "listen: 127.0.0.1:{}", server.client)?;
        writeln!(text, "http: 127.0.0.1:{}", server.monitor)?;
        writeln!(text, "max_payload: {payload_bytes_max}")?;
        writeln!(text, "jetstream {{")?;
        writeln!(text, "  store_dir: {:?}", store.display().to_string())?;
        writeln!(text, "  sync_interval: {sync_interval}")?;
        writeln!(text, "  max_memory_store: 268435456")?;
        writeln!(text, "  max_file_store: {store_bytes_max}")?;
        writeln!(text, "}}")?;
        if self.servers.len() > 1 {
            let routes: Vec<String> =
                self.servers.iter().map(|other| format!("\"nats://127.0.0.1:{}\"", other.route)).collect();
            writeln!(text, "cluster {{")?;
            writeln!(text, "  name: test")?;
            writeln!(text, "  listen: 127.0.0.1:{}", server.route)?;
            writeln!(text, "  routes: [{}]", routes.join(", "))?;
            writeln!(text, "{routes_extra}")?;
            writeln!(text, "}}")?;
        }
        writeln!(text, "{extra}")?;
        Ok(text)
    }

    /// The folder with the data of a server.
    pub fn store(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("n{index}"))
    }

    /// How many servers there are, running or not.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Addresses for clients.
    pub fn urls(&self) -> Vec<String> {
        (0..self.servers.len()).map(|index| format!("nats://{}", self.address(index))).collect()
    }

    /// Addresses for monitoring.
    pub fn monitors(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("http://127.0.0.1:{}", server.monitor)).collect()
    }

    /// Where a server listens for clients.
    pub fn address(&self, index: usize) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.servers[index].client).into()
    }

    /// Where a server listens for other servers.
    pub fn route(&self, index: usize) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.servers[index].route).into()
    }

    /// The process of a server that runs.
    pub fn process(&self, index: usize) -> Option<u32> {
        self.servers[index].child.as_ref().map(Child::id)
    }

    /// Starts a server that does not run. The server may take a while until ready: see [`Nats::wait_ready`].
    pub fn start(&mut self, index: usize) -> Result<()> {
        if self.servers[index].child.is_some() {
            return Ok(());
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join(format!("n{index}.log")))?;
        let child = Command::new(&self.program)
            .arg("-c")
            .arg(self.folder.path().join(format!("n{index}.conf")))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        self.servers[index].child = Some(child);
        Ok(())
    }

    /// Ends a server as a power switch would: nothing of its memory survives.
    pub fn kill(&mut self, index: usize) -> Result<()> {
        let server = &mut self.servers[index];
        server.is_frozen = false;
        if let Some(mut child) = server.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Freezes a server: the server keeps its connections and says nothing.
    pub fn stop(&mut self, index: usize) -> Result<()> {
        self.signal(index, Signal::STOP)?;
        self.servers[index].is_frozen = true;
        Ok(())
    }

    /// Lets a frozen server go on.
    pub fn cont(&mut self, index: usize) -> Result<()> {
        self.signal(index, Signal::CONT)?;
        self.servers[index].is_frozen = false;
        Ok(())
    }

    fn signal(&self, index: usize, signal: Signal) -> Result<()> {
        let child = self.servers[index].child.as_ref().context("the server does not run")?;
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        Ok(kill_process(id, signal)?)
    }

    /// Removes all data of a server. The server must not run.
    pub fn wipe(&mut self, index: usize) -> Result<()> {
        ensure!(self.servers[index].child.is_none(), "the server runs");
        match std::fs::remove_dir_all(self.store(index)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Waits until all servers that run, and are not frozen, have JetStream at work.
    pub fn wait_ready(&mut self) -> Result<()> {
        let end = Instant::now() + READY_WAIT;
        loop {
            let mut waits_for = None;
            for index in 0..self.servers.len() {
                let server = &mut self.servers[index];
                let Some(child) = server.child.as_mut().filter(|_| !server.is_frozen) else { continue };
                if let Some(status) = child.try_wait()? {
                    bail!("server n{index} ended ({status}): {}", self.log_tail(index));
                }
                if let Err(why) = self.ready(index) {
                    waits_for = Some(format!("n{index}: {why:#}"));
                }
            }
            let Some(why) = waits_for else { return Ok(()) };
            ensure!(Instant::now() < end, "not ready after {} s: {why}", READY_WAIT.as_secs());
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    fn ready(&self, index: usize) -> Result<()> {
        ensure!(self.ask(index, "/healthz")?["status"] == "ok", "not healthy");
        if self.servers.len() > 1 {
            let leader = self.ask(index, "/jsz")?["meta_cluster"]["leader"].as_str().map(str::to_owned);
            ensure!(leader.is_some_and(|leader| !leader.is_empty()), "no leader");
        }
        Ok(())
    }

    /// Which server leads a stream, as far as the running ones know.
    pub fn leader_of(&self, stream: &str) -> Option<usize> {
        (0..self.servers.len()).find_map(|index| {
            self.servers[index].child.as_ref().filter(|_| !self.servers[index].is_frozen)?;
            let said = self.ask(index, "/jsz?streams=true&accounts=true").ok()?;
            let streams = said["account_details"].as_array()?.iter();
            let mut streams = streams.filter_map(|account| account["stream_detail"].as_array()).flatten();
            let found = streams.find(|detail| detail["name"] == stream)?;
            let leader = found["cluster"]["leader"].as_str().unwrap_or("n0");
            leader.strip_prefix('n')?.parse().ok()
        })
    }

    /// The answer of a monitoring address.
    pub fn ask(&self, index: usize, path: &str) -> Result<Value> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.servers[index].monitor));
        let mut stream = TcpStream::connect_timeout(&address, MONITOR_WAIT)?;
        stream.set_read_timeout(Some(MONITOR_WAIT))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
        let mut answer = Vec::new();
        stream.take(MONITOR_BYTES_MAX).read_to_end(&mut answer)?;
        let head = answer.windows(4).position(|end| end == b"\r\n\r\n").context("no answer in HTTP")?;
        Ok(serde_json::from_slice(&answer[head + 4..])?)
    }

    /// The last lines that a server wrote.
    pub fn log_tail(&self, index: usize) -> String {
        let text = std::fs::read(self.folder.path().join(format!("n{index}.log"))).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        for index in 0..self.servers.len() {
            // A server that ended by itself is collected all the same.
            _ = self.kill(index);
        }
    }
}

/// A port of loopback that is free at this moment, for a server that may end and listen there again: the system gives it to no
/// outgoing connection meanwhile. Calls of one process give different ports.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let count = PORTS.end - PORTS.start;
    for _ in 0..PORT_TRIES_MAX {
        // Processes begin far apart and walk on, so that tests at the same time rarely meet.
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let begin = std::process::id().wrapping_mul(2_654_435_761) >> 8;
        let port = PORTS.start + begin.wrapping_add(step.wrapping_mul(7)) % count;
        let port = u16::try_from(port).expect("the range ends below 65,536");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port was found")
}
