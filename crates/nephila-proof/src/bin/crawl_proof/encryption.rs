//! The cost of encryption: the same web crawled by three nodes on three servers, without TLS and with TLS everywhere
//! (to and between the NATS servers, with keys and permissions, and to and between the nodes), in turn, several times.
//!
//! A node is asked for the numbers of all of them twice a second, so that nodes speak to each other as well.
//!
//! Invariants: both kinds of runs request the same pages, each once, and differ in nothing but keys and TLS; the
//! verdict is the median over pairs of runs next to each other, since a machine is not equally fast all day.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nephila_testnats::Options;

use crate::crawler::{Crawler, Place};
use crate::tax::{self, Used};

/// How often a node is asked.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// The authority and the server's name on this machine.
const HOST: &str = "127.0.0.1";

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Pairs of runs.
    #[arg(long, default_value_t = 5)]
    pairs: usize,
    /// Number of pages of the web.
    #[arg(long, default_value_t = 20_000)]
    pages: u64,
    /// Number of hosts of the web.
    #[arg(long, default_value_t = 300)]
    hosts: u32,
    /// Number of links of a page.
    #[arg(long, default_value_t = 50)]
    links: u32,
    /// Size of a page in the mean, in bytes.
    #[arg(long, default_value_t = 20_000)]
    page_bytes: u32,
    /// With TLS a page may cost the nodes this many times the CPU.
    #[arg(long, default_value_t = 1.05)]
    ratio_max: f64,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    let size = tax::Args::of(args.pages, args.hosts, args.links, args.page_bytes);
    ensure!(args.pairs > 0, "there is nothing to compare");
    let (mut nodes, mut servers, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    println!(
        "{:<6} {:>6} {:>11} {:>12} {:>8} {:>7}",
        "pair", "TLS", "CPU s/1000", "NATS s/1000", "pages/s", "asked"
    );
    // The first run of all finds a cold machine, and counts for nothing.
    tax::cluster(&size, place, tax::ENCRYPTION_NODES, Some(&Wires::new(place, false)?))?;
    for pair in 0..args.pairs {
        // Which of them comes first changes: the second finds a warmer machine.
        let order = if pair % 2 == 0 { [false, true] } else { [true, false] };
        let mut used = [Used::default(); 2];
        for encrypted in order {
            let wires = Wires::new(place, encrypted)?;
            let one = tax::cluster(&size, place, tax::ENCRYPTION_NODES, Some(&wires))?;
            let thousands = args.pages as f64 / 1_000.0;
            println!(
                "{pair:<6} {encrypted:>6} {:>11.4} {:>12.4} {:>8.0} {:>7}",
                one.nodes / thousands,
                one.servers / thousands,
                args.pages as f64 / one.took.as_secs_f64(),
                wires.asked.load(Ordering::Relaxed),
            );
            ensure!(wires.asked.load(Ordering::Relaxed) > 0, "no node was asked anything");
            used[usize::from(encrypted)] = one;
        }
        nodes.push(used[1].nodes / used[0].nodes);
        servers.push(used[1].servers / used[0].servers);
        plain.push(used[0].nodes);
    }
    let ratio = median(&mut nodes);
    println!(
        "encryption: {} pages, {} nodes, 3 servers, {} pairs of runs: a page costs the nodes {ratio:.3} times the CPU with TLS \
         (pairs {:.3} to {:.3}; runs without TLS differ by {:.3}), the NATS servers {:.3} times; {:.0} s in all",
        args.pages,
        tax::ENCRYPTION_NODES,
        args.pairs,
        nodes[0],
        nodes[nodes.len() - 1],
        plain.iter().copied().fold(0.0, f64::max) / plain.iter().copied().fold(f64::MAX, f64::min),
        median(&mut servers),
        began.elapsed().as_secs_f64(),
    );
    ensure!(ratio <= args.ratio_max, "with TLS a page may cost {} times as much", args.ratio_max);
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
}

/// How nodes, servers and clients speak to each other.
pub struct Wires {
    keys: PathBuf,
    encrypted: bool,
    over: AtomicBool,
    asked: AtomicU64,
}

impl Wires {
    fn new(place: &Place, encrypted: bool) -> anyhow::Result<Wires> {
        let keys = place.folder("encryption-keys")?;
        let nodes: Vec<_> = (0..tax::ENCRYPTION_NODES).map(|n| format!("node-{n}={HOST}")).collect();
        let mut command = std::process::Command::new(&place.program);
        command.args(["cluster", "keys", &keys.display().to_string(), "--server", HOST]);
        let made = command.args(["--node", &nodes.join(",")]).env("NEPHILA_CONFIG", "/dev/null").output()?;
        ensure!(made.status.success(), "nephila cluster keys: {}", String::from_utf8_lossy(&made.stderr));
        Ok(Wires { keys, encrypted, over: AtomicBool::new(false), asked: AtomicU64::new(0) })
    }

    fn file(&self, name: &str) -> String {
        self.keys.join(name).display().to_string()
    }

    /// How the servers are set up.
    pub fn servers(&self, options: Options) -> anyhow::Result<Options> {
        if !self.encrypted {
            return Ok(options);
        }
        let tls = format!(
            "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?} }}\n",
            self.file(&format!("server-{HOST}.pem")),
            self.file(&format!("server-{HOST}.key")),
            self.file("ca.pem"),
        );
        let accounts = std::fs::read_to_string(self.file("accounts.conf"))?;
        Ok(Options { extra: format!("{accounts}\n{tls}"), routes_extra: tls, ..options })
    }

    /// Configures a node, or the command that makes the job.
    pub fn set(&self, crawler: &mut Crawler, node: Option<&str>) {
        let mut sets = vec![
            "api.listen=127.0.0.1:0".to_owned(),
            format!("api.token_file={}", self.file("operate.token")),
            format!("api.node_token_file={}", self.file("node.token")),
        ];
        if self.encrypted {
            let who = node.map_or("operator.nk".to_owned(), |node| format!("node-{node}.nk"));
            sets.push(format!("cluster.tls_ca_file={}", self.file("ca.pem")));
            sets.push(format!("cluster.nkey_file={}", self.file(&who)));
            if let Some(node) = node {
                sets.push(format!("api.tls_cert_file={}", self.file(&format!("node-{node}.pem"))));
                sets.push(format!("api.tls_key_file={}", self.file(&format!("node-{node}.key"))));
            }
        }
        sets.iter().for_each(|set| crawler.set(set));
    }

    /// Asks a node for the numbers of all until [`Wires::end`].
    pub fn ask(&self, node: &Crawler) -> anyhow::Result<()> {
        let url = url_of(node.said())?;
        ensure!(url.starts_with("https://") == self.encrypted, "{url}");
        let (token, ca) = (self.file("operate.token"), self.file("ca.pem"));
        let mut args = vec!["stats", "--json", "--node", &url, "--token-file", &token];
        if self.encrypted {
            args.extend(["--ca-file", &ca]);
        }
        while !self.over.load(Ordering::Relaxed) {
            let (status, said) = node.ask(&args)?;
            ensure!(status.success() || self.over.load(Ordering::Relaxed), "nephila stats: {said}");
            self.asked.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(ASK_EVERY);
        }
        Ok(())
    }

    /// Ends the questions.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// The address that a node prints.
fn url_of(said: &Path) -> anyhow::Result<String> {
    let said = std::fs::read_to_string(said)?;
    let url =
        said.lines().find_map(|line| line.split_once(" answers at ")).context("it has not said where")?;
    Ok(url.1.trim().to_owned())
}
