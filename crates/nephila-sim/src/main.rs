//! `sim`: runs worlds until enough steps are done, one seed after another; ends with one line of figures, or with the
//! seed that failed and how to see it again.

use std::time::Instant;

use anyhow::{bail, ensure};
use clap::{Parser, Subcommand};
use nephila_sim::cluster;
use nephila_sim::harness::Figures;
use nephila_sim::mutants::{self, MUTANTS, STEPS};

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
        /// Steps in all.
        #[arg(long, default_value_t = 50_000_000)]
        steps: u64,
        /// The first seed; the next worlds have the next ones. A single world if `--worlds 1` is given as well.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// So many worlds, whatever steps that makes.
        #[arg(long)]
        worlds: Option<u64>,
        /// Tells everything that happens, on standard error.
        #[arg(long)]
        verbose: bool,
        /// Plants a bug, to see it found.
        #[arg(long)]
        planted: Option<String>,
    },
    /// Whole clusters: ten minutes in which things go wrong, then rest, then the reckoning.
    Cluster {
        /// Hours of clusters in all.
        #[arg(long, default_value_t = 2_000)]
        hours: u64,
        /// Nodes killed in all.
        #[arg(long, default_value_t = 20_000)]
        kills: u64,
        /// The first seed; the next worlds have the next ones.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// So many worlds, whatever hours and kills that makes.
        #[arg(long)]
        worlds: Option<u64>,
        /// Tells everything that happens, on standard error.
        #[arg(long)]
        verbose: bool,
        /// Plants a bug, to see it found.
        #[arg(long)]
        planted: Option<String>,
    },
    /// Every planted bug: each must be found by its checker.
    Planted,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Frontier { steps, seed, worlds, verbose, planted } => {
            mutants::VERBOSE.set(verbose);
            frontier(steps, seed, worlds, planted.as_deref())
        }
        Command::Cluster { hours, kills, seed, worlds, verbose, planted } => {
            let sum = clusters(seed, worlds, verbose, planted.as_deref(), |sum| {
                sum.time >= hours * 3_600_000 && sum.kills >= kills
            })?;
            println!("{sum}");
            Ok(())
        }
        Command::Planted => planted(),
    }
}

/// Runs clusters until there are enough. Gives a line of figures.
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

fn frontier(steps: u64, seed: u64, worlds: Option<u64>, planted: Option<&str>) -> anyhow::Result<()> {
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
            Some(mutant) => mutant.run(this, STEPS),
            None => mutants::run(this, STEPS),
        };
        if let Err(violation) = result {
            println!("seed {this}, step {}: {violation}", figures.steps);
            let bug = planted.map_or(String::new(), |name| format!(" --planted {name}"));
            bail!("see it again with `cargo xtask sim frontier --seed {this} --worlds 1{bug}`");
        }
        seeds += 1;
        add(&mut sum, &figures);
        // A large world has no steps of its own.
        sum.steps = sum.steps.max(seeds);
    }
    println!(
        "sim: {seeds} worlds, {} steps, {} pages, {} robots.txt, {} hops of them, {} given up, {} times done, {} restarts, {} clock jumps, {} groups, {} expired, \
         {} late reports, {} URLs, {} days, 0 violations, {:.0} s",
        sum.steps,
        sum.pages,
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
    let count = MUTANTS.len() + cluster::mutants::MUTANTS.len();
    ensure!(missed.is_empty(), "planted bugs that were not found: {}", missed.join("; "));
    println!("sim: {count} planted bugs, all found, {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}
