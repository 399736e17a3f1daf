//! `cargo xtask api-fuzz`: the HTTP API, judged by tools that share no code with it.
//!
//! Three kinds of servers are started: a crawl of the test web on one machine with tokens of every role, an archive alone over
//! the same folder, and a node of a cluster on a real `nats-server`. Then `xtask/api/fuzz.py` runs: openapi-spec-validator
//! checks the document of each server, schemathesis sends requests that follow the document and requests that break it, with
//! each role and without a token, and what no generator of valid HTTP can send comes by sockets. An answer that is not in
//! the document, an error of the server, or a wrong request that is taken fails the command.
//!
//! Invariant: all servers end with the command.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nephila_testnats::Nats;
use serde_json::{Map, Value, json};

use crate::api_servers::{ADMIN, Place, READER};
use crate::interop::{default_cache, environment};
use crate::programs::Programs;
use crate::shell;
use crate::watched::Site;

/// The judges.
const TOOLS: &[&str] = &["schemathesis==4.32.5", "openapi-spec-validator==0.9.0"];
/// Time that the crawl runs before it is judged, so that it has pages.
const WARM_UP: Duration = Duration::from_secs(5);
/// Operations that schemathesis does not call, with the reason.
const LEFT_OUT: [(&str, &str); 1] =
    [("followLive", "a stream without an end; fuzz.py reads its first events and its refusals by hand")];
/// Values that are not sent, with the reason.
const NOT_SENT: [(&str, &str); 2] = [
    ("stopJob of the crawl's own job", "the crawl would end; other names are sent"),
    ("drainNode of the node's own name", "the node would leave; other names are sent"),
];

/// Options of `api-fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Requests that schemathesis sends, over all servers and roles
    #[arg(long, default_value_t = 20_000)]
    requests: u64,
    /// Seed of the requests
    #[arg(long, default_value_t = 20_261_119)]
    seed: u64,
    /// The crawl as administrator and the archive alone, without requests by sockets: for CI
    #[arg(long)]
    short: bool,
    /// No node of a cluster
    #[arg(long)]
    no_cluster: bool,
    /// File for examples of all failures
    #[arg(long)]
    out: Option<PathBuf>,
    /// Folder of programs that were built before
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Folder that keeps the tools of others
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let cache = args.cache.clone().map_or_else(default_cache, Ok)?;
    let tools = environment(&cache.join("api-tools"), TOOLS)?.join("bin");
    let programs = match &args.programs {
        Some(folder) => Programs::of_folder(folder)?,
        None => Programs::build()?,
    };
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    // So large, and crawled so slowly, that the crawl goes on until the last request.
    let site = Site::start(&programs, &["--hosts", "40", "--pages", "60000", "--addresses", "2"])?;
    let place = Place::new(&programs, &site, folder.path())?;
    let mut crawl = place.crawl("crawl", "1s", &[])?;
    std::thread::sleep(WARM_UP);
    let archive = place.archive()?;
    let node = match args.short || args.no_cluster {
        true => None,
        false => {
            let nats = Nats::one()?;
            Some((place.node(&nats)?, nats))
        }
    };

    let share = |percent: u64| args.requests * percent / 100;
    let run = |name: &str, address, token: &str, reader: &str, percent| {
        let left_out: Map<String, Value> =
            LEFT_OUT.iter().map(|(name, why)| ((*name).to_owned(), json!(why))).collect();
        json!({
            "name": name, "base": format!("http://{address}"), "token": token, "reader": reader,
            "requests": share(percent), "left_out": left_out, "kept": {"stopJob": "crawl", "drainNode": "one"},
        })
    };
    let mut runs = Vec::new();
    if args.short {
        runs.push(run("crawl/admin", crawl.address(), ADMIN, ADMIN, 60));
        runs.push(run("archive/open", archive.address(), "", "", 40));
    } else {
        for (role, percent) in [("admin", 36), ("operate", 12), ("read", 12)] {
            let token = format!("{role}-token");
            runs.push(run(&format!("crawl/{role}"), crawl.address(), &token, READER, percent));
        }
        runs.push(run("crawl/nobody", crawl.address(), "", READER, 4));
        runs.push(run("archive/open", archive.address(), "", "", if node.is_some() { 12 } else { 36 }));
        if let Some((node, _)) = &node {
            runs.push(run("node/admin", node.address(), ADMIN, ADMIN, 24));
        }
    }
    let file = folder.path().join("plan.json");
    let out = args.out.clone().unwrap_or_else(|| folder.path().join("failures.json"));
    let plan = json!({
        "seed": args.seed, "runs": runs, "raw": !args.short, "out": out, "schemathesis": tools.join("st"),
    });
    std::fs::write(&file, plan.to_string())?;
    for (what, why) in NOT_SENT {
        println!("not sent: {what}: {why}");
    }
    let mut judge = Command::new(tools.join("python"));
    let status =
        judge.arg(shell::root().join("xtask/api/fuzz.py")).arg(&file).status().context("run fuzz.py")?;
    ensure!(crawl.is_running()?, "the crawl ended while it was judged; it said:\n{}", crawl.said());
    ensure!(status.success(), "see the lines that begin with FAIL; --out FILE keeps more examples");
    Ok(())
}
