//! Proves the promises of `nephila crawl`: complete, polite, and alive after every fault.
//!
//! ```text
//!     crawl_proof --nephila PROGRAM complete [--hosts N] [--pages N]     all that is to be fetched, once, and nothing else
//!     crawl_proof --nephila PROGRAM polite   [--hosts N]                 rests, robots.txt and Retry-After at the server
//!     crawl_proof --nephila PROGRAM plug     [--kills N] [--peers]       killed again and again; other crawlers too
//!     crawl_proof --nephila PROGRAM feeds    [--feeds N] [--kills N]     stories of many feeds, found once despite kills
//!     crawl_proof --nephila PROGRAM cluster  [--nodes N] [--faults N]    many nodes on NATS, killed, frozen, cut off
//!     crawl_proof --nephila PROGRAM takeover [--kills N] [--known N]     how long a killed node's partitions stand still
//!     crawl_proof --nephila PROGRAM elastic  [--steps N,N]               nodes join and leave during a crawl
//!     crawl_proof --nephila PROGRAM slots    [--nodes N] [--faults N]    one address, several nodes: one at a time
//!     crawl_proof --nephila PROGRAM stops    [--nodes N] [--stops N]     stopped hosts are not requested
//!     crawl_proof --nephila PROGRAM completion [--crawls N]              jobs report when nothing is left
//!     crawl_proof --nephila PROGRAM versions --old PROGRAM [--faults N]  nodes of an older program, upgraded one by one
//!     crawl_proof --nephila PROGRAM seeds    [--seeds N] [--closed SHARE] a scoped job with a million seeds
//!     crawl_proof --nephila PROGRAM engine   [--seconds N]               all NATS servers away for a while
//!     crawl_proof --nephila PROGRAM lying    [--cases N]                 NATS servers that lose acknowledged messages
//!     crawl_proof --nephila PROGRAM tax      [--nodes N,N] [--pages N]   cost of a cluster beside a crawl
//!     crawl_proof --nephila PROGRAM encryption [--pairs N] [--pages N]   cost of TLS everywhere
//!     crawl_proof --nephila PROGRAM outage   [--only disk|names|clock]   no room, no names, a clock that jumps
//!     crawl_proof --nephila PROGRAM shipped  [--short] [--planted]       every situation of one site, at our settings
//!     crawl_proof --nephila PROGRAM soak     [--minutes N]               memory, files and tasks flat, good and hostile web
//!     crawl_proof --nephila PROGRAM bombs    [--short] [--only NAME]     answers made to cost minutes end in seconds
//!     crawl_proof --nephila PROGRAM memory   [--known N,N]               memory against the number of known URLs
//!     crawl_proof --nephila PROGRAM counting                             CPU of the counters that a page passes
//!     crawl_proof --nephila PROGRAM planted                              the judges notice planted faults
//! ```
//!
//! The test web runs here, on threads of its own; the crawler is the real program, a child process. Invariant: no claim
//! of the crawler about itself is believed. The verdict comes from the requests that the server saw and from the files
//! on disk. Each proof ends with one line of figures, and with an error when something does not hold.
//! `cargo xtask crawl` builds both with the release profile and runs the proofs.

// A program has no outside: `pub` in its modules means the same as `pub(crate)`.
#![allow(unreachable_pub)]

mod archive;
mod bombs;
mod cluster;
mod complete;
mod completion;
mod counting;
mod crawler;
mod elastic;
mod encryption;
mod engine;
mod feeds;
mod herd;
mod judge;
mod lying;
mod memory;
mod objects;
mod outage;
mod peers;
mod planted;
mod plug;
mod polite;
mod portal;
mod reasons;
mod relay;
mod seeds;
mod shipped;
mod site;
mod slots;
mod soak;
mod stops;
mod tables;
mod takeover;
mod tax;
mod versions;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

// As the node itself.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Files this process may have open: a web of many hosts has a connection for each.
const FILES_MAX: u64 = 65_536;

/// Command line arguments.
#[derive(Parser)]
struct Args {
    /// The crawler.
    #[arg(long)]
    nephila: PathBuf,
    /// Where crawls go; a temporary folder that is removed if not given.
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    proof: Proof,
}

#[derive(Subcommand)]
enum Proof {
    /// Every reachable, allowed, wanted page once, nothing else, and a reason for each of the others.
    Complete(complete::Args),
    /// Many hosts that share addresses, whose robots.txt changes and fails, and that are busy now and then.
    Polite(polite::Args),
    /// Killed at random moments, the same command again, until the crawl is done.
    Plug(plug::Args),
    /// Many feeds that bring stories all the time, and a crawl that is killed meanwhile: every story once.
    Feeds(feeds::Args),
    /// Nodes, servers and the network between them fail again and again: nothing is lost, nothing is done twice.
    Cluster(cluster::Args),
    /// From the kill of a node to the first request of each of its partitions.
    Takeover(takeover::Args),
    /// Nodes join and leave during one crawl: nothing doubled, nothing held up, nothing moved without need.
    Elastic(elastic::Args),
    /// Many hosts on few addresses, requested by several nodes: each address is requested by one of them at a time, and
    /// rests.
    Slots(slots::Args),
    /// Hosts, domains and addresses are stopped while several nodes crawl: obeyed at once, and after all began again.
    Stops(stops::Args),
    /// Many jobs, while nodes and servers fail: each is said to be complete, soon, and never too early.
    Completion(completion::Args),
    /// A cluster of an older program is upgraded node by node under faults: nothing is lost, no node ends by itself.
    Versions(versions::Args),
    /// A scoped job with very many seeds, and more while the job runs: each is fetched or explained, and nothing else
    /// is requested.
    Seeds(seeds::Args),
    /// All NATS servers are away for a while.
    Engine(engine::Args),
    /// The object store is away for a while.
    Objects(objects::Args),
    /// NATS servers lose acknowledged messages.
    Lying(lying::Args),
    /// The same work by a crawl and by clusters of several sizes: CPU, bytes and messages per page.
    Tax(tax::Args),
    /// The same work by three nodes without TLS and with TLS everywhere: CPU per page.
    Encryption(encryption::Args),
    /// A full disk, a resolver that is gone, a clock that jumps: the crawl goes on by itself.
    Outage(outage::Args),
    /// At the settings we ship, every situation of a table ends with the right pages, exit code and closing words.
    Shipped(shipped::Args),
    /// The good and the hostile web together, at full speed for a long time: nothing grows.
    Soak(soak::Args),
    /// Answers that were made to cost minutes: each ends soon, and together they cost the good hosts almost nothing.
    Bombs(bombs::Args),
    /// Memory of a crawl that knows ten thousand URLs, and of one that knows a million.
    Memory(memory::Args),
    /// CPU of a page's counters and histograms, which `cargo xtask metrics --alerts` asks for.
    Counting,
    /// Breaks the rules on purpose, and expects the judges to notice.
    Planted,
}

fn main() -> ExitCode {
    if let Some(bug) = shipped::planted_here() {
        nephila_core::planted::set_everywhere(bug);
        return nephila::run(nephila::cli::Cli::parse());
    }
    let args = Args::parse();
    rlimit::increase_nofile_limit(FILES_MAX).ok();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> anyhow::Result<()> {
    // A disk that is busy for a second is busy for twenty where the clock runs twenty times as fast.
    let memory = std::path::Path::new("/dev/shm");
    let temporary = match &args.proof {
        Proof::Shipped(_) if memory.is_dir() => tempfile::tempdir_in(memory)?,
        _ => tempfile::tempdir()?,
    };
    let base = args.dir.unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&base)?;
    let place = crawler::Place { program: args.nephila, base };
    match args.proof {
        Proof::Complete(args) => complete::run(&args, &place),
        Proof::Polite(args) => polite::run(&args, &place),
        Proof::Plug(args) => plug::run(&args, &place),
        Proof::Feeds(args) => feeds::run(&args, &place),
        Proof::Cluster(args) => cluster::run(&args, &place),
        Proof::Takeover(args) => takeover::run(&args, &place),
        Proof::Elastic(args) => elastic::run(&args, &place),
        Proof::Slots(args) => slots::run(&args, &place),
        Proof::Stops(args) => stops::run(&args, &place),
        Proof::Completion(args) => completion::run(&args, &place),
        Proof::Versions(args) => versions::run(&args, &place),
        Proof::Seeds(args) => seeds::run(&args, &place),
        Proof::Engine(args) => engine::run(&args, &place),
        Proof::Objects(args) => objects::run(&args, &place),
        Proof::Lying(args) => lying::run(&args, &place),
        Proof::Tax(args) => tax::run(&args, &place),
        Proof::Encryption(args) => encryption::run(&args, &place),
        Proof::Outage(args) => outage::run(&args, &place),
        Proof::Shipped(args) => shipped::run(&args, &place),
        Proof::Soak(args) => soak::run(&args, &place),
        Proof::Bombs(args) => bombs::run(&args, &place),
        Proof::Memory(args) => memory::run(&args, &place),
        Proof::Counting => counting::run(),
        Proof::Planted => planted::run(&place),
    }
}
