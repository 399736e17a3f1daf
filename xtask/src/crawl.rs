//! `cargo xtask crawl complete | polite | plug | outage | soak | memory | planted`: proves what `nephila crawl` promises.
//!
//! `cargo xtask cluster-proof takeover | elastic | engine | lying` proves what a cluster promises.
//!
//! The proofs themselves are in `crates/nephila/examples/crawl_proof`; this builds them and the crawler as released and
//! starts them. Each ends with one line of figures, and fails when something does not hold.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::interop;
use crate::programs::Programs;
use crate::shell;

/// No proof takes longer than this, however large; a soak may be told to last a day.
const LIMIT: Duration = Duration::from_secs(30 * 60 * 60);
/// What Scrapy is run from, beside us under `plug --peers`.
const SCRAPY: &[&str] = &["scrapy==2.19.0"];

/// What to prove.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The proof (`complete`, `polite`, `plug`, `outage`, `soak`, `memory`, `planted`; of clusters `takeover`, `elastic`,
    /// `engine`, `lying`), and sizes; `--help` after it lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    proof: Vec<String>,
    /// Where crawls go; a temporary folder that is removed if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where the environment of Scrapy is kept, for `plug --peers`.
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
}

/// What `bench crawl-memory` measures.
#[derive(Debug, clap::Args)]
pub struct MemoryArgs {
    /// URLs known in each crawl.
    #[arg(long, default_value = "10000,100000,1000000")]
    known: String,
    /// Pages fetched in each crawl.
    #[arg(long, default_value_t = 3_000)]
    pages: u64,
    /// Hosts of the web, in turn.
    #[arg(long, default_value = "10,10000")]
    hosts: String,
    /// Where crawls go; a temporary folder that is removed if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// What `chaos` breaks.
#[derive(Debug, clap::Args)]
pub struct ChaosArgs {
    /// How many faults; none shows that a cluster fetches every page once.
    #[arg(long, default_value_t = 300)]
    faults: usize,
    /// Where the random choices begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Nodes.
    #[arg(long, default_value_t = 4)]
    nodes: usize,
    /// NATS servers: 1 or 3.
    #[arg(long, default_value_t = 3)]
    servers: usize,
    /// Partitions of the cluster.
    #[arg(long, default_value_t = 64)]
    partitions: u32,
    /// Hosts of the web.
    #[arg(long, default_value_t = 500)]
    hosts: u32,
    /// Pages of the web.
    #[arg(long, default_value_t = 200_000)]
    pages: u64,
    /// How long nothing may be asked for until the crawl counts as done, in seconds.
    #[arg(long, default_value_t = 45)]
    quiet: u64,
    /// With snapshots and archives in an object store.
    #[arg(long)]
    snapshots: bool,
    /// Where the nodes' folders go; a temporary folder that is removed if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// A cluster whose nodes, servers and networks fail.
pub fn chaos(args: ChaosArgs) -> Result<()> {
    let mut proof = vec!["cluster".to_owned()];
    for (flag, value) in [
        ("--faults", args.faults.to_string()),
        ("--seed", args.seed.to_string()),
        ("--nodes", args.nodes.to_string()),
        ("--servers", args.servers.to_string()),
        ("--partitions", args.partitions.to_string()),
        ("--hosts", args.hosts.to_string()),
        ("--pages", args.pages.to_string()),
        ("--quiet", args.quiet.to_string()),
    ] {
        proof.extend([flag.to_owned(), value]);
    }
    if args.snapshots {
        proof.push("--snapshots".to_owned());
    }
    run(Args { proof, dir: args.dir, cache: None })
}

/// What `bench cluster` measures.
#[derive(Debug, clap::Args)]
pub struct TaxArgs {
    /// Sizes of the clusters, in turn.
    #[arg(long, default_value = "1,2,4,8")]
    nodes: String,
    /// NATS servers: 1 or 3.
    #[arg(long, default_value_t = 1)]
    servers: usize,
    /// Partitions of each cluster.
    #[arg(long, default_value_t = 16)]
    partitions: u32,
    /// Pages of the web.
    #[arg(long, default_value_t = 100_000)]
    pages: u64,
    /// Hosts of the web.
    #[arg(long, default_value_t = 500)]
    hosts: u32,
    /// Links of a page.
    #[arg(long, default_value_t = 105)]
    links: u32,
    /// Say the figures, and do not judge them.
    #[arg(long)]
    report_only: bool,
    /// Where the nodes' folders go; a temporary folder that is removed if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// What a cluster costs beside a crawl.
pub fn tax(args: TaxArgs) -> Result<()> {
    let mut proof = vec!["tax".to_owned(), "--nodes".to_owned(), args.nodes];
    for (flag, value) in [
        ("--servers", args.servers.to_string()),
        ("--partitions", args.partitions.to_string()),
        ("--pages", args.pages.to_string()),
        ("--hosts", args.hosts.to_string()),
        ("--links", args.links.to_string()),
    ] {
        proof.extend([flag.to_owned(), value]);
    }
    if args.report_only {
        proof.push("--report-only".to_owned());
    }
    run(Args { proof, dir: args.dir, cache: None })
}

/// Memory of a crawl against the URLs it knows.
pub fn memory(args: MemoryArgs) -> Result<()> {
    let pages = args.pages.to_string();
    let proof = ["memory", "--known", &args.known, "--pages", &pages, "--hosts", &args.hosts];
    run(Args { proof: proof.map(str::to_owned).to_vec(), dir: args.dir, cache: None })
}

/// Runs it.
pub fn run(args: Args) -> Result<()> {
    let crawler = Programs::build(&["-p", "nephila", "--bin", "nephila"])?;
    let proof = Programs::build(&["-p", "nephila", "--example", "crawl_proof"])?;
    let mut command = Command::new(proof.path("crawl_proof")?);
    command.arg("--nephila").arg(crawler.path("nephila")?);
    if let Some(dir) = &args.dir {
        command.arg("--dir").arg(dir);
    }
    command.args(&args.proof);
    if args.proof.iter().any(|arg| arg == "--peers") {
        let cache = args.cache.map_or_else(interop::default_cache, Ok)?;
        let scrapy = interop::environment(&cache.join("scrapy"), SCRAPY)?;
        command.arg("--python").arg(scrapy.join("bin/python"));
    }
    shell::run(&mut command, LIMIT)
}
