//! First contact of a user: whole crawls at the settings we ship, in every situation of one site.
//!
//! No setting is changed but addresses and names. Days pass on a clock that runs faster and is set forward while a
//! crawl only waits. Each situation ends with the right pages, exit code and closing words; the table is in
//! `situations`. The web is one of its own (`web`), independent of the model that the other proofs crawl.

mod run;
mod situations;
mod stage;
mod web;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use nephila_core::planted::Bug;
use nephila_engine::exit::Exit;

use crate::crawler::Place;
use run::{Clock, RATE, Stop, helper, last, pages, words};
use situations::{Situation, all};
use stage::Stage;
use web::Time;

/// Minimum number of situations of the long form, so that none is dropped unnoticed.
const LONG_MIN: usize = 40;
/// Minimum number of situations of the short form.
const SHORT_MIN: usize = 12;

/// Situations to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only the short form.
    #[arg(long)]
    short: bool,
    /// Only the situations whose name contains this text.
    #[arg(long)]
    only: Option<String>,
    /// Number of situations at the same time.
    #[arg(long, default_value_t = 6)]
    jobs: usize,
    /// Make known faults come back, and expect them to be found.
    #[arg(long)]
    planted: bool,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    if args.planted {
        return planted(place);
    }
    let (began, helper) = (Instant::now(), helper(&place.base)?);
    let wanted = |situation: &Situation| {
        (!args.short || situation.short)
            && args.only.as_ref().is_none_or(|only| situation.name.contains(only.as_str()))
    };
    let table: Vec<Situation> = all().into_iter().filter(wanted).collect();
    if args.only.is_none() {
        let least = if args.short { SHORT_MIN } else { LONG_MIN };
        ensure!(table.len() >= least, "{} situations, not {least}", table.len());
    }
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let jumps_all = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                while let Some((number, situation)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    table.get(at).map(|situation| (at, situation))
                } {
                    match once(number, situation, &place.program, None, &helper, place) {
                        Ok(jumps) => {
                            println!("ok    {}", situation.name);
                            jumps_all.fetch_add(jumps, Ordering::Relaxed);
                        }
                        Err(error) => {
                            println!("WRONG {}: {error:#}", situation.name);
                            failures.lock().expect("nobody panics holding it").push(situation.name);
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("nobody panics holding it");
    println!(
        "shipped: {} situations, {} wrong, the clock set forward {} times, {} s",
        table.len(),
        failures.len(),
        jumps_all.into_inner(),
        began.elapsed().as_secs()
    );
    ensure!(failures.is_empty(), "{} of {} ended in another way: {failures:?}", failures.len(), table.len());
    Ok(())
}

/// Runs a situation and judges the result. Returns how often the clock was set forward.
fn once(
    number: usize,
    situation: &Situation,
    program: &Path,
    bug: Option<&'static str>,
    helper: &Path,
    place: &Place,
) -> anyhow::Result<u32> {
    let folder = place.folder(&format!("shipped-{number}"))?;
    let time = Time::new(RATE);
    let mut stage = Stage::new(u8::try_from(number).context("too many situations")?, time.clone());
    (situation.set)(&mut stage)?;
    let clock = Clock { program, helper, bug, folder, time };
    let asked = || stage.sites.first().map_or(0, |site| site.asked().len());
    let mut ended = clock.run(&stage.command(), situation.stop, &asked)?;
    let mut jumps = ended.jumps;
    let interrupted = situation.stop != Stop::Never;
    if interrupted {
        ensure!(
            ended.code == Exit::Stopped as i32,
            "interrupted, it ended with {}: {}",
            ended.code,
            last(&ended.said)
        );
        ensure!(words(&ended.said).contains("stopped: "), "interrupted, it said {}", last(&ended.said));
        for command in &stage.between {
            run_between(program, &clock.folder, command)?;
        }
        ended = clock.run(&stage.again(), Stop::Never, &asked)?;
        jumps += ended.jumps;
    }
    let said = words(&ended.said);
    let wrong = |what: String| anyhow::anyhow!("{what}\n{}", last(&said));
    if ended.code != situation.exit {
        return Err(wrong(format!("exit code {}, not {}", ended.code, situation.exit)));
    }
    let served: usize = stage.sites.iter().map(|site| site.served().len()).sum();
    if !(situation.pages..=situation.pages + situation.pages_more).contains(&served) {
        return Err(wrong(format!("{served} pages were fetched, not {}", situation.pages)));
    }
    for expected in situation.words {
        if !said.contains(expected) {
            return Err(wrong(format!("it does not say {expected:?}")));
        }
    }
    let counted = pages(&said)?;
    ensure!(interrupted || counted <= served as u64, "it counts {counted} pages of {served}");
    Ok(jumps)
}

/// Runs a command between the interruption of a crawl and its continuation.
fn run_between(program: &Path, folder: &Path, command: &[String]) -> anyhow::Result<()> {
    let output = std::process::Command::new(program)
        .args(command)
        .args(["-o", "crawl"])
        .current_dir(folder)
        .env("HOME", folder)
        .env("NEPHILA_CONFIG", "/dev/null")
        .output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The variable that names the bug of a crawler that this program is itself.
const PLANTED: &str = "CRAWL_PROOF_PLANTED";
/// The faults that this proof was made for, and situations in which they must be found.
const FAULTS: [(&str, Bug, &str); 2] = [
    ("rest-is-the-end", Bug::RestIsTheEnd, "429 with two hours, once"),
    ("first-address-alone", Bug::FirstAddressAlone, "two addresses, the first is dead"),
];
/// A fault for judges elsewhere: `cargo xtask metrics --alerts` has a node break its promises with it.
const ELSEWHERE: (&str, Bug) = ("errand-without-rest", Bug::ErrandWithoutRest);

/// The planted bug of this process, if the process is to be a crawler and no proof.
pub fn planted_here() -> Option<Bug> {
    let name = std::env::var(PLANTED).ok()?;
    let all = FAULTS.iter().map(|(fault, bug, _)| (*fault, *bug)).chain([ELSEWHERE]);
    all.into_iter().find(|(fault, _)| *fault == name).map(|(_, bug)| bug)
}

/// Plants each known fault in a crawler that is this program: its situation must find the fault, and a crawler without
/// the fault must pass.
fn planted(place: &Place) -> anyhow::Result<()> {
    let (program, helper) = (std::env::current_exe()?, helper(&place.base)?);
    for (at, (fault, _, name)) in FAULTS.into_iter().enumerate() {
        let table = all();
        let situation = table.iter().find(|situation| situation.name == name).context("no such situation")?;
        once(240 + 2 * at, situation, &place.program, None, &helper, place)
            .with_context(|| format!("without {fault}"))?;
        match once(241 + 2 * at, situation, &program, Some(fault), &helper, place) {
            Ok(_) => bail!("{fault}: not found by {name:?}"),
            Err(found) => {
                println!("found {fault}: {}", found.to_string().lines().next().unwrap_or_default());
            }
        }
    }
    println!("shipped: {} planted faults found", FAULTS.len());
    Ok(())
}
