//! `sim`: runs worlds until enough steps are done, one seed after another; prints one line of figures at the end, or
//! the seed that failed and the command that repeats the failure.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::{Parser, Subcommand};
use nephila_core::feed::schedule::Rule;
use nephila_sim::cluster;
use nephila_sim::feeds;
use nephila_sim::harness::Figures;
use nephila_sim::mutants::{self, MUTANTS, STEPS};
use nephila_sim::{reflog, scale, spiders};

#[derive(Parser)]
#[command(name = "sim", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The frontier, in worlds of 20,000 steps.
    Frontier {
        /// Number of steps in all.
        #[arg(long, default_value_t = 50_000_000)]
        steps: u64,
        /// First seed; the next worlds have the next seeds. A single world if `--worlds 1` is given as well.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of worlds, regardless of the steps.
        #[arg(long)]
        worlds: Option<u64>,
        /// Number of steps of a world before draining.
        #[arg(long, default_value_t = STEPS)]
        world_steps: u64,
        /// Prints every event to standard error.
        #[arg(long)]
        verbose: bool,
        /// Plants a bug, which a checker must find.
        #[arg(long)]
        planted: Option<String>,
    },
    /// Whole clusters: ten minutes of faults, then rest, then all checks.
    Cluster {
        /// Simulated hours of clusters in all.
        #[arg(long, default_value_t = 2_000)]
        hours: u64,
        /// Number of nodes killed in all.
        #[arg(long, default_value_t = 20_000)]
        kills: u64,
        /// First seed; the next worlds have the next seeds.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of worlds, regardless of hours and kills.
        #[arg(long)]
        worlds: Option<u64>,
        /// Prints every event to standard error.
        #[arg(long)]
        verbose: bool,
        /// Plants a bug, which a checker must find.
        #[arg(long)]
        planted: Option<String>,
    },
    /// Large clusters: figures for each size, beside the prediction of the capacity model.
    Scale {
        /// Numbers of nodes.
        #[arg(long, value_delimiter = ',', default_value = "8,64,256,1000")]
        nodes: Vec<usize>,
        /// Number of fetches of the largest cluster; the others have as many for each node.
        #[arg(long, default_value_t = 100_000_000)]
        fetches: u64,
        /// Seed; every event follows from the seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// File for the figures, tab-separated, with the picture beside the file (`.svg`). A text beside the file
        /// (`.md`) that has a place for the table gets the table.
        #[arg(long)]
        write: Option<PathBuf>,
        /// Runs nothing: prints and writes the figures of these files, which earlier runs have written.
        #[arg(long, value_delimiter = ',')]
        from: Vec<PathBuf>,
    },
    /// Feeds for days: every story is found once, and polled when an independent model of the rule says.
    Feeds {
        /// Number of feeds followed by the seed's rule; a tenth of them once more by the adaptive rule.
        #[arg(long, default_value_t = 100_000)]
        feeds: u64,
        /// Number of days.
        #[arg(long, default_value_t = 30)]
        days: u64,
        /// Of these, the number of feeds in a whole frontier, which dies once in a day.
        #[arg(long, default_value_t = 500)]
        whole: u64,
        /// Seed; every event follows from the seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Streams of visited URLs over a day, to several nodes that die, beside the seed's pipeline.
    Reflog {
        /// Number of lines.
        #[arg(long, default_value_t = 10_000_000)]
        lines: u64,
        /// Hours of the stream.
        #[arg(long, default_value_t = 24)]
        hours: u64,
        /// Number of nodes.
        #[arg(long, default_value_t = 4)]
        nodes: usize,
        /// Number of nodes killed.
        #[arg(long, default_value_t = 40)]
        kills: u64,
        /// Seed; every event follows from the seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// A node and its spiders of version 2: ten minutes of faults, then rest, then all checks.
    Spiders {
        /// Number of processes killed in all.
        #[arg(long, default_value_t = 100_000)]
        deaths: u64,
        /// First seed; the next worlds have the next seeds.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of worlds, regardless of deaths.
        #[arg(long)]
        worlds: Option<u64>,
        /// Prints every event to standard error.
        #[arg(long)]
        verbose: bool,
        /// Plants a bug, which a checker must find.
        #[arg(long)]
        planted: Option<String>,
    },
    /// Every planted bug: each must be found by its checker.
    Planted,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Frontier { steps, seed, worlds, world_steps, verbose, planted } => {
            mutants::VERBOSE.set(verbose);
            frontier(steps, seed, worlds, world_steps, planted.as_deref())
        }
        Command::Cluster { hours, kills, seed, worlds, verbose, planted } => {
            let sum = clusters(seed, worlds, verbose, planted.as_deref(), |sum| {
                sum.time >= hours * 3_600_000 && sum.kills >= kills
            })?;
            println!("{sum}");
            Ok(())
        }
        Command::Scale { write, from, .. } if !from.is_empty() => collect(&from, write.as_deref()),
        Command::Scale { nodes, fetches, seed, write, .. } => scales(&nodes, fetches, seed, write.as_deref()),
        Command::Feeds { feeds, days, whole, seed } => follow(feeds, days, whole, seed),
        Command::Reflog { lines, hours, nodes, kills, seed } => {
            streams(reflog::Size { lines, hours, nodes, kills, seed })
        }
        Command::Spiders { deaths, seed, worlds, verbose, planted } => {
            spider_worlds(seed, worlds, verbose, planted.as_deref(), deaths)
        }
        Command::Planted => planted(),
    }
}

/// Runs a day of streams.
fn streams(size: reflog::Size) -> anyhow::Result<()> {
    let reflog::Size { lines, hours, nodes, kills, seed } = size;
    ensure!(nodes >= 2 && hours >= 1 && lines >= 1, "a day has lines, an hour at least, and two nodes");
    let begun = Instant::now();
    match reflog::Sim::new(size).run() {
        Ok(figures) => {
            println!("sim: {hours} hours, {figures}, 0 differences, {:.0} s", begun.elapsed().as_secs_f64());
            Ok(())
        }
        Err(violation) => {
            println!("seed {seed}: {violation}");
            bail!(
                "see it again with `cargo xtask sim reflog --lines {lines} --hours {hours} --nodes {nodes} --kills {kills} \
                 --seed {seed}`"
            );
        }
    }
}

/// Interval between progress messages.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Runs a cluster of each size and prints the figures.
fn scales(nodes: &[usize], fetches: u64, seed: u64, write: Option<&Path>) -> anyhow::Result<()> {
    let most = nodes.iter().copied().max().unwrap_or(1) as u64;
    ensure!(nodes.iter().all(|nodes| *nodes >= 2), "a cluster has two nodes at least");
    ensure!(most as usize <= scale::NODES_MAX, "more than {} nodes", scale::NODES_MAX);
    let (mut all, mut sum) = (Vec::new(), 0);
    for &nodes in nodes {
        let (begun, cpu) = (Instant::now(), cpu_seconds());
        let fetches = (fetches / most).max(1) * nodes as u64;
        let mut sim = scale::Sim::new(seed, nodes, fetches);
        let mut told = begun;
        let done = all.clone();
        let mut tell = |sim: &scale::Sim, progress: scale::Progress| {
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                let seconds = begun.elapsed().as_secs_f64();
                // Work before the figures start to count is work as well.
                let left =
                    fetches.saturating_sub(progress.counted) as f64 * seconds / progress.all.max(1) as f64;
                eprintln!(
                    "{nodes} nodes: {} of {fetches} fetches, virtual {} s, {seconds:.0} s so far, {:.1} us a fetch, about {left:.0} s to go",
                    progress.counted,
                    progress.t / 1_000,
                    seconds * 1e6 / progress.all.max(1) as f64,
                );
                // A run that is stopped has shown something as well.
                if progress.counted > 0 && write.is_some() {
                    let mut figures = sim.figures();
                    figures.cpu = cpu_seconds().zip(cpu).map_or(seconds, |(now, then)| now - then);
                    let rows = [&done[..], &[scale::Row::from(&figures)]].concat();
                    if let Err(error) = write_figures(&rows, write) {
                        eprintln!("figures so far: {error}");
                    }
                }
            }
        };
        let mut figures = match sim.run_telling(fetches, &mut tell) {
            Ok(figures) => figures,
            Err(violation) => {
                println!("{nodes} nodes, seed {seed}: {violation}");
                bail!(
                    "see it again with `cargo xtask sim scale --nodes {nodes} --fetches {fetches} --seed {seed}`"
                );
            }
        };
        figures.cpu = cpu_seconds().zip(cpu).map_or(begun.elapsed().as_secs_f64(), |(now, then)| now - then);
        eprintln!(
            "{nodes} nodes, {fetches} fetches, trace {:016x}, {:.0} s",
            sim.trace(),
            begun.elapsed().as_secs_f64()
        );
        sum += figures.fetches;
        all.push(scale::Row::from(&figures));
        write_figures(&all, write)?;
    }
    print!("{}", scale::report(&all));
    println!("sim: {} sizes, {sum} fetches, 0 violations", all.len());
    Ok(())
}

/// Prints the figures of earlier runs beside today's predictions, smallest cluster first.
fn collect(from: &[PathBuf], write: Option<&Path>) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for path in from {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        all.extend(scale::read(&text).with_context(|| format!("{}: no figures", path.display()))?);
    }
    ensure!(all.iter().all(|row| row.is_like(&all[0])), "the files have different columns");
    let mut all: Vec<scale::Row> = all.into_iter().map(scale::Row::predicted_anew).collect();
    all.sort_by_key(scale::Row::nodes);
    write_figures(&all, write)?;
    print!("{}", scale::report(&all));
    Ok(())
}

fn write_figures(all: &[scale::Row], write: Option<&Path>) -> anyhow::Result<()> {
    if let Some(path) = write {
        std::fs::write(path, scale::table(all))?;
        std::fs::write(path.with_extension("svg"), scale::plot(all))?;
        let text = path.with_extension("md");
        let old = std::fs::read_to_string(&text).unwrap_or_default();
        if let Some(new) = scale::put_in(&old, all) {
            std::fs::write(text, new)?;
        }
    }
    Ok(())
}

/// Follows feeds by both rules, and some of them in a whole frontier.
fn follow(feeds: u64, days: u64, whole: u64, seed: u64) -> anyhow::Result<()> {
    let begun = Instant::now();
    ensure!(feeds > 0 && days > 0, "no feeds, or no days");
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let again = || {
        format!(
            "see it again with `cargo xtask sim feeds --feeds {feeds} --days {days} --whole {whole} --seed {seed}`"
        )
    };
    let mut all = Vec::new();
    for (rule, feeds) in [(Rule::Doubling, feeds), (Rule::Adaptive, (feeds / 10).max(1))] {
        let settings = feeds::single::settings(rule);
        match feeds::alone(seed, feeds, days, &settings, threads) {
            Ok(counts) => all.push(format!("{}: {counts}", feeds::name(rule))),
            Err(violation) => {
                println!("{}: {violation}", feeds::name(rule));
                bail!(again());
            }
        }
        eprintln!("{}, {:.0} s", all.last().expect("just pushed"), begun.elapsed().as_secs_f64());
    }
    if whole > 0 {
        match feeds::whole::run(seed, whole, days, days) {
            Ok(counts) => all.push(format!(
                "in a whole frontier: {counts}, {} restarts, no poll more than {:.1} s late",
                counts.restarts,
                counts.late_max as f64 / 1e3
            )),
            Err(violation) => {
                println!("in a whole frontier: {violation}");
                bail!(again());
            }
        }
    }
    println!(
        "sim feeds: {days} days; {}; 0 violations, {:.0} s",
        all.join("; "),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// CPU time of this thread so far, if the system provides the figure.
fn cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    Some(text.split(' ').next()?.parse::<f64>().ok()? / 1e9)
}

/// Runs clusters until there are enough. Returns a line of figures.
fn clusters(
    seed: u64,
    worlds: Option<u64>,
    verbose: bool,
    planted: Option<&str>,
    enough: impl Fn(&cluster::Figures) -> bool,
) -> anyhow::Result<String> {
    let mutant = match planted {
        None => None,
        Some(name) => match cluster::mutants::by_name(name) {
            Some(mutant) => Some(mutant),
            None => {
                let names: Vec<_> = cluster::mutants::MUTANTS.iter().map(|m| m.name).collect();
                bail!("no bug of this name: {}", names.join(", "))
            }
        },
    };
    let begun = Instant::now();
    let mut sum = cluster::Figures::default();
    let mut seeds = 0;
    while worlds.map_or(!enough(&sum), |worlds| seeds < worlds) {
        let this = seed + seeds;
        let (result, figures) = match mutant {
            Some(mutant) => mutant.run(this, verbose),
            None => cluster::mutants::run(this, verbose),
        };
        if let Err(violation) = result {
            println!("seed {this}, at {} ms: {violation}", figures.time);
            let bug = planted.map_or(String::new(), |name| format!(" --planted {name}"));
            bail!("see it again with `cargo xtask sim cluster --seed {this} --worlds 1 --verbose{bug}`");
        }
        seeds += 1;
        sum.add(&figures);
    }
    Ok(format!("sim: {seeds} clusters, {sum}, 0 violations, {:.0} s", begun.elapsed().as_secs_f64()))
}

/// Runs nodes with their spiders until enough processes were killed.
fn spider_worlds(
    seed: u64,
    worlds: Option<u64>,
    verbose: bool,
    planted: Option<&str>,
    deaths: u64,
) -> anyhow::Result<()> {
    let mutant = match planted {
        None => None,
        Some(name) => match spiders::mutants::by_name(name) {
            Some(mutant) => Some(mutant),
            None => {
                let names: Vec<_> = spiders::mutants::MUTANTS.iter().map(|m| m.name).collect();
                bail!("no bug of this name: {}", names.join(", "))
            }
        },
    };
    let begun = Instant::now();
    let mut sum = spiders::Figures::default();
    let mut seeds = 0;
    while worlds.map_or(sum.deaths() < deaths, |worlds| seeds < worlds) {
        let this = seed + seeds;
        let (result, figures) = match mutant {
            Some(mutant) => mutant.run(this, verbose),
            None => spiders::mutants::run(this, verbose),
        };
        if let Err(violation) = result {
            println!("seed {this}: {violation}");
            let bug = planted.map_or(String::new(), |name| format!(" --planted {name}"));
            bail!("see it again with `cargo xtask sim spiders --seed {this} --worlds 1 --verbose{bug}`");
        }
        seeds += 1;
        sum.add(&figures);
    }
    println!(
        "sim: {seeds} worlds of spiders, {sum}, 0 lost, 0 violations, {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn frontier(
    steps: u64,
    seed: u64,
    worlds: Option<u64>,
    world_steps: u64,
    planted: Option<&str>,
) -> anyhow::Result<()> {
    let mutant = match planted {
        None => None,
        Some(name) => match mutants::by_name(name) {
            Some(mutant) => Some(mutant),
            None => bail!(
                "no bug of this name: {}",
                MUTANTS.iter().map(|m| m.name).collect::<Vec<_>>().join(", ")
            ),
        },
    };
    let begun = Instant::now();
    let mut sum = Figures::default();
    let mut seeds = 0;
    while worlds.map_or(sum.steps < steps, |worlds| seeds < worlds) {
        let this = seed + seeds;
        let (result, figures) = match mutant {
            Some(mutant) => mutant.run(this, world_steps),
            None => mutants::run(this, world_steps),
        };
        if let Err(violation) = result {
            println!("seed {this}, step {}: {violation}", figures.steps);
            let bug = planted.map_or(String::new(), |name| format!(" --planted {name}"));
            bail!(
                "see it again with `cargo xtask sim frontier --seed {this} --worlds 1 --world-steps {world_steps}{bug}`"
            );
        }
        seeds += 1;
        add(&mut sum, &figures);
        // A large world has no steps of its own.
        sum.steps = sum.steps.max(seeds);
    }
    println!(
        "sim: {seeds} worlds, {} steps, {} pages, {} redirects, {} seeds that moved, {} links out of scope, {} conditional requests, {} unchanged, \
         {} robots.txt, {} hops of them, {} given up, {} times done, {} restarts, {} clock jumps, {} groups, {} expired, \
         {} late reports, {} URLs, {} days, 0 violations, {:.0} s",
        sum.steps,
        sum.pages,
        sum.redirects,
        sum.moved,
        sum.links_out,
        sum.conditional,
        sum.unchanged,
        sum.robots,
        sum.hops,
        sum.given_up,
        sum.done,
        sum.crashes,
        sum.jumps,
        sum.groups,
        sum.expired,
        sum.late,
        sum.urls,
        sum.time / 86_400_000,
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn add(sum: &mut Figures, one: &Figures) {
    sum.steps += one.steps;
    sum.pages += one.pages;
    sum.redirects += one.redirects;
    sum.moved += one.moved;
    sum.links_out += one.links_out;
    sum.conditional += one.conditional;
    sum.unchanged += one.unchanged;
    sum.robots += one.robots;
    sum.hops += one.hops;
    sum.given_up += one.given_up;
    sum.done += one.done;
    sum.crashes += one.crashes;
    sum.jumps += one.jumps;
    sum.groups += one.groups;
    sum.expired += one.expired;
    sum.late += one.late;
    sum.urls += one.urls;
    sum.time += one.time;
}

fn planted() -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut missed = Vec::new();
    for mutant in MUTANTS {
        match mutant.hunt(1, STEPS) {
            Ok((worlds, violation)) => println!("{:<28} world {worlds:>2}  {violation}", mutant.name),
            Err(why) => {
                println!("{:<28} MISSED", mutant.name);
                missed.push(why);
            }
        }
    }
    for mutant in cluster::mutants::MUTANTS {
        match mutant.hunt(1) {
            Ok((worlds, violation)) => println!("cluster {:<28} world {worlds:>2}  {violation}", mutant.name),
            Err(why) => {
                println!("cluster {:<28} MISSED", mutant.name);
                missed.push(why);
            }
        }
    }
    for mutant in spiders::mutants::MUTANTS {
        match mutant.hunt(1) {
            Ok((worlds, violation)) => println!("spiders {:<28} world {worlds:>2}  {violation}", mutant.name),
            Err(why) => {
                println!("spiders {:<28} MISSED", mutant.name);
                missed.push(why);
            }
        }
    }
    let count = MUTANTS.len() + cluster::mutants::MUTANTS.len() + spiders::mutants::MUTANTS.len();
    ensure!(missed.is_empty(), "planted bugs that were not found: {}", missed.join("; "));
    println!("sim: {count} planted bugs, all found, {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}
