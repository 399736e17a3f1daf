//! `cargo xtask`: our automation, one file per command.
//!
//! `ci` is exactly the run of CI and calls the short forms of the long commands. Every command prints one line of
//! figures at its end; on failure the command ends with an error that names the next step.

// A program has no outside: `pub` in its modules means the same as `pub(crate)`.
#![allow(unreachable_pub)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod agents;
mod alerts;
mod api_clients;
mod api_fuzz;
mod api_load;
mod api_servers;
mod bench;
mod ci;
mod crash;
mod crawl;
mod dashboard;
mod deny;
mod deploy;
mod dist;
mod docs;
mod examples;
mod floors;
mod frontier_bench;
mod fuzz;
mod hostile;
mod interop;
mod junit;
mod metrics;
mod outside;
mod package;
mod peers;
mod programs;
mod reads;
mod reflog_bench;
mod scripts;
mod shell;
mod sim;
mod site;
mod soak;
mod spiders;
mod stages;
mod state;
#[cfg(test)]
mod tidy;
mod tour;
mod tree;
mod watched;
mod webspeed;
mod words;

/// Automation of the Nephila workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything CI checks: format, lints, tests, docs, dependencies, and short forms of the long commands.
    Ci(ci::Args),
    /// The hostile web: runs the tests of the catalogue and says which case passed, failed or has no test.
    Hostile(hostile::Args),
    /// Fuzzes our parsers of foreign bytes and prints executions per second.
    Fuzz(fuzz::Args),
    /// Kills a writer of the archive again and again and checks that nothing acknowledged is lost.
    Crash(crash::Args),
    /// Proves a crawl from outside, one thing at a time: `complete`, `polite`, `plug`, `feeds`, `outage`, `bombs`, `soak`,
    /// `memory`, `planted`, and sizes.
    Crawl(crawl::Args),
    /// A cluster on real NATS servers: nodes, servers and networks fail, nothing is lost and nothing done twice.
    #[command(disable_help_flag = true)]
    Chaos(crawl::Sizes),
    /// The promises of a cluster, one at a time: `takeover`, `elastic`, `slots`, `stops`, `completion`, `versions`,
    /// `engine`, `objects`, `lying`, and sizes.
    ClusterProof(crawl::Args),
    /// Reads our archives with the public tools and compares.
    Interop(interop::Args),
    /// An outside judge in Python with a web of its own: a crawl killed again and again, a full disk, clocks that jump, damaged
    /// folders, and the README's commands as four people type them.
    Outside(outside::Args),
    /// Runs the programs in `examples/`, as a person would, and compares the end of their output.
    Examples(examples::Args),
    /// Build the wheel of the Python package, and test it against the crawler, a node and an object store.
    Python(scripts::Args),
    /// Open a WACZ file in ReplayWeb.page and in pywb, and compare the pages with the live ones; needs Chromium.
    Replay(scripts::Args),
    /// Let captured pages attack the API and the page around them, in a browser; none may succeed. Needs Chromium.
    Attacks(scripts::Args),
    /// No hang, no leak: many hostile and good fetches at once, with files, tasks and memory watched.
    Soak(soak::Args),
    /// Remote spiders: the test web by spiders that are written from the documents alone, beside the built-in one.
    Spiders(spiders::Args),
    /// Proves the state on disk: stopped and killed anywhere, replayed, snapshotted, split.
    State(state::Args),
    /// Makes a package of every published crate, and builds each from the packages of the others.
    Package(package::Args),
    /// Compares the metrics of a crawl with the documents, the alerts and the dashboard, by `promtool`; tests the alerts.
    Metrics(metrics::Args),
    /// Judges what programs for language models use, by the public clients of others.
    Agents(agents::Args),
    /// Judges the HTTP API by schemathesis and openapi-spec-validator: a crawl, an archive and a node, with every role.
    ApiFuzz(api_fuzz::Args),
    /// Measures what open dashboards and requests to the API cost a crawl that runs as fast as it can.
    ApiLoad(api_load::Args),
    /// Judges the dashboards of a crawl, of its folder and of a cluster that loses a node, in Chromium.
    Dashboard(dashboard::Args),
    /// Runs the operator's tour of docs/tour.md: three nodes, two faults, and their causes on the dashboard, in Chromium.
    Tour(tour::Args),
    /// Builds the manual as a site, and checks its links, its commands and that it loads nothing from elsewhere.
    Site(site::Args),
    /// Judges the manifests of Kubernetes, the Helm chart, the compose file and the workflow, also on real nodes and NATS servers.
    Deploy(deploy::Args),
    /// Counts indefinite words in comments, help and manual; fails above the limits.
    Words,
    /// Worlds made from seeds, with faults and checkers: `frontier`, `cluster`, `scale`, `feeds`, `reflog`; and `planted`, bugs
    /// that the checkers must find.
    #[command(disable_help_flag = true)]
    Sim(sim::Args),
    /// Measures `nephila fetch`, with and without an archive, and `nephila crawl` against a bare loop, as ratios; or, named,
    /// another part.
    Bench(Box<BenchArgs>),
    /// Measures the test web against wrk, to show that the test web does not limit our figures.
    WebSpeed(webspeed::Args),
    /// Writes the generated pages under docs/, or compares them.
    Docs(docs::Args),
    /// Everything of a release from one program: tarball, deb, rpm, image, list of parts, digests, and with a key the signature.
    Dist(dist::Args),
    /// Installs, runs and removes what `dist` has made, in roots of their own; with systemd, its unit as well. Needs root.
    DistTry(dist::tried::Args),
    /// Licences, bans, version floors and, when the database can be had, advisories.
    Deny(deny::Args),
}

/// The part that `bench` measures: fetching, unless another part is named.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
struct BenchArgs {
    #[command(subcommand)]
    part: Option<BenchPart>,
    #[command(flatten)]
    fetch: bench::Args,
}

#[derive(Subcommand)]
enum BenchPart {
    /// The frontier: offers, tickets, memory and disk at scale, a hot host, an explosion, and breadth.
    Frontier(frontier_bench::Args),
    /// `nephila add --reflog` against only reading, parsing and hashing the same lines.
    Reflog(reflog_bench::Args),
    /// Captures read with and without the cache, by popularity.
    Reads(reads::Args),
    /// Where the CPU of a page goes, stage by stage, on pages as large as the real web's.
    Stages(stages::Args),
    /// Memory of a whole crawl against the number of known URLs.
    #[command(disable_help_flag = true)]
    CrawlMemory(crawl::Sizes),
    /// Cost of a cluster: the same work by a crawl and by clusters of several sizes.
    #[command(disable_help_flag = true)]
    Cluster(crawl::Sizes),
    /// The whole crawl beside other crawlers, on the same web: CPU, memory, pages/s, as ratios.
    Peers(peers::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        // People read this: the chain of reasons, without a backtrace even when one is asked for.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Ci(args) => ci::run(args),
        Command::Hostile(args) => hostile::run(args),
        Command::Fuzz(args) => fuzz::run(args),
        Command::Crash(args) => crash::run(args),
        Command::Crawl(args) => crawl::run(args),
        Command::Chaos(args) => crawl::named("cluster", args),
        Command::ClusterProof(args) => crawl::run(args),
        Command::Interop(args) => interop::run(args),
        Command::Outside(args) => outside::run(args),
        Command::Examples(args) => examples::run(args),
        Command::Python(args) => scripts::python(&args),
        Command::Replay(args) => scripts::in_browser("replay.py", &args),
        Command::Attacks(args) => scripts::in_browser("attacks.py", &args),
        Command::Soak(args) => soak::run(args),
        Command::Spiders(args) => spiders::run(&args),
        Command::Package(args) => package::run(&args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Agents(args) => agents::run(&args),
        Command::ApiFuzz(args) => api_fuzz::run(&args),
        Command::ApiLoad(args) => api_load::run(&args),
        Command::Dashboard(args) => dashboard::run(&args),
        Command::Tour(args) => tour::run(&args),
        Command::Site(args) => site::run(&args),
        Command::Deploy(args) => deploy::run(&args),
        Command::Words => words::run(),
        Command::Sim(args) => sim::run(args),
        Command::State(args) => state::run(args),
        Command::Bench(args) => match args.part {
            Some(BenchPart::Frontier(args)) => frontier_bench::run(args),
            Some(BenchPart::Reflog(args)) => reflog_bench::run(args),
            Some(BenchPart::Reads(args)) => reads::run(&args),
            Some(BenchPart::Stages(args)) => stages::run(args),
            Some(BenchPart::CrawlMemory(args)) => crawl::named("memory", args),
            Some(BenchPart::Cluster(args)) => crawl::named("tax", args),
            Some(BenchPart::Peers(args)) => peers::run(args),
            None => bench::run(args.fetch),
        },
        Command::WebSpeed(args) => webspeed::run(args),
        Command::Docs(args) => docs::run(args),
        Command::Dist(args) => dist::run(&args),
        Command::DistTry(args) => dist::tried::run(&args),
        Command::Deny(args) => deny::run(args),
    }
}
