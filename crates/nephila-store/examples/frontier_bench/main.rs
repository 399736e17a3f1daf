//! What the frontier costs and keeps, against an imaginary web.
//!
//!     frontier_bench [scale|hot|explosion|breadth|all] [--short] [--report-only] [--state memory|disk] [--dir FOLDER]
//!         [--seed N] [--partitions N] [--known N,N,…] [--offers N] [--batch N] [--known-share PERCENT]
//!         [--baselines N] [--hosts N,N,…] [--small N] [--giant N] [--pages N]
//!
//! * **scale**: offers, 80 in 100 of known URLs and skewed like the web, with tickets and outcomes flowing, beside an
//!   embedded store and a bare merge of sorted keys given the same offers.
//! * **hot**: tickets of small hosts with and without a giant domain beside them.
//! * **explosion**: eleven new URLs on every page; memory, and bytes of what is parked.
//! * **breadth**: hosts × tickets with a rest of ten seconds; memory of a host at hand.
//!
//! Making up offers is not counted. Ends with one line of figures; with an error when a goal is missed, unless
//! `--report-only`. Meaningful only with `--release`.

// A program has no outside: `pub` in its modules means what `pub(crate)` does.
#![allow(unreachable_pub)]

mod baseline;
mod breadth;
mod drive;
mod explosion;
mod goals;
mod hot;
mod meter;
mod offers;
mod text;
mod web;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use drive::{Failure, Kept};
use goals::Goals;
use nephila_core::state::MemoryState;
use nephila_store::state::DiskState;

// As the node itself.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// With `--short` the goals that depend on the machine are lowered to this share of themselves.
const SHORT_FACTOR: f64 = 0.4;

fn main() -> ExitCode {
    match run() {
        Ok(missed) if missed.is_empty() => ExitCode::SUCCESS,
        Ok(missed) => {
            eprintln!("missed: {}", missed.join("; "));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    what: String,
    short: bool,
    report_only: bool,
    state: String,
    dir: Option<PathBuf>,
    scale: offers::Options,
    hot: hot::Options,
    explosion: explosion::Options,
    breadth: breadth::Options,
}

impl Options {
    fn parse() -> Result<Options, Failure> {
        let mut given = Vec::new();
        let (mut what, mut short, mut report_only) = ("all".to_owned(), false, false);
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--short" => short = true,
                "--report-only" => report_only = true,
                option if option.starts_with("--") => {
                    let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
                    given.push((option.to_owned(), value));
                }
                name => what = name.to_owned(),
            }
        }
        let (seed, partitions) = (2026, 16);
        let mut options = Options {
            what,
            short,
            report_only,
            state: "disk".to_owned(),
            dir: None,
            scale: offers::Options {
                seed,
                known: if short { vec![200_000] } else { vec![1_000_000, 10_000_000] },
                offers: if short { 400_000 } else { 20_000_000 },
                batch: if short { 16_384 } else { 65_536 },
                partitions,
                known_share: 80,
                baselines: 10_000_000,
            },
            hot: hot::Options {
                seed,
                hosts: if short { 5_000 } else { 100_000 },
                giant: if short { 300_000 } else { 20_000_000 },
                partitions,
            },
            explosion: explosion::Options {
                seed,
                pages: if short { 20_000 } else { 10_000_000 },
                partitions,
            },
            breadth: breadth::Options {
                seed,
                hosts: if short { vec![1_000, 10_000] } else { vec![1_000, 10_000, 100_000, 1_000_000] },
                partitions,
            },
        };
        for (option, value) in given {
            options.set(&option, &value).map_err(|error| format!("{option} {value}: {error}"))?;
        }
        Ok(options)
    }

    fn set(&mut self, option: &str, value: &str) -> Result<(), Failure> {
        match option {
            "--state" => self.state = value.to_owned(),
            "--dir" => self.dir = Some(value.into()),
            "--seed" => {
                let seed = value.parse()?;
                (self.scale.seed, self.hot.seed, self.explosion.seed, self.breadth.seed) =
                    (seed, seed, seed, seed);
            }
            "--partitions" => {
                let count = value.parse()?;
                self.scale.partitions = count;
                self.hot.partitions = count;
                self.explosion.partitions = count;
                self.breadth.partitions = count;
            }
            "--known" => self.scale.known = list(value)?,
            "--offers" => self.scale.offers = value.parse()?,
            "--batch" => self.scale.batch = value.parse()?,
            "--known-share" => self.scale.known_share = value.parse()?,
            "--baselines" => self.scale.baselines = value.parse()?,
            "--hosts" => self.breadth.hosts = list(value)?,
            "--small" => self.hot.hosts = value.parse()?,
            "--giant" => self.hot.giant = value.parse()?,
            "--pages" => self.explosion.pages = value.parse()?,
            _ => return Err("no such option".into()),
        }
        Ok(())
    }
}

fn list<T: std::str::FromStr<Err: std::error::Error + 'static>>(value: &str) -> Result<Vec<T>, Failure> {
    value.split(',').map(|number| Ok(number.trim().parse()?)).collect()
}

fn run() -> Result<Vec<String>, Failure> {
    let options = Options::parse()?;
    let temporary = match &options.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            tempfile::tempdir_in(dir)?
        }
        None => tempfile::tempdir()?,
    };
    let mut goals = Goals::new(if options.short { SHORT_FACTOR } else { 1.0 });
    match options.state.as_str() {
        "memory" => measure::<MemoryState>(&options, temporary.path(), &mut goals)?,
        "disk" => measure::<DiskState>(&options, temporary.path(), &mut goals)?,
        other => return Err(format!("no such state: {other}").into()),
    }
    println!("bench frontier: {}", goals.line());
    match options.report_only {
        true => Ok(Vec::new()),
        false => Ok(goals.missed().to_vec()),
    }
}

fn measure<S: Kept>(options: &Options, folder: &Path, goals: &mut Goals) -> Result<(), Failure> {
    let all = options.what == "all";
    let mut known = all;
    if all || options.what == "scale" {
        known = true;
        offers::run::<S>(&options.scale, folder, goals)?;
    }
    if all || options.what == "hot" {
        known = true;
        hot::run::<S>(&options.hot, folder, goals)?;
    }
    if all || options.what == "explosion" {
        known = true;
        explosion::run::<S>(&options.explosion, folder, goals)?;
    }
    if all || options.what == "breadth" {
        known = true;
        breadth::run::<S>(&options.breadth, folder, goals)?;
    }
    if !known {
        return Err(format!("no such bench: {}", options.what).into());
    }
    Ok(())
}
