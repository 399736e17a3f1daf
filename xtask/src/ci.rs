//! `cargo xtask ci`: exactly the checks of CI, on any machine.
//!
//! The short forms of the long commands run the programs that the tests have built, with the `dev` profile: in CI they
//! prove that nothing is lost, doubled or rude, not speed, and a second build of everything would double the time of a
//! run with an empty cache. Steps that compute run beside those that wait. No step is retried. Every step has a heading
//! and a time. A failing step does not stop the ones after, so one run shows every fault; the command fails if any of
//! them did. The last line is the count of tests.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::programs::{self, PROFILE};
use crate::{deny, fuzz, hostile, junit, package, shell};

/// Options of `ci`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the steps whose name contains this.
    #[arg(long)]
    only: Option<String>,
}

/// Timeout of one call of cargo, a cold build included.
const CARGO_LIMIT: Duration = Duration::from_secs(40 * 60);

/// Priority of steps that compute: low, and high enough that no input of a fuzz target waits for its limit.
const PRIORITY_LOW: i32 = 10;

/// Number of lines of a failed command that the end of the run repeats.
const SHOWN_LINES: usize = 12;
/// Maximum length of such a line.
const SHOWN_CHARS: usize = 400;

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<()> {
    // Everything that tests, proofs and docs run, by one command: with one set of features nothing is compiled twice.
    let build = ["build", "--quiet", "--workspace", "--all-targets", "--locked"];
    cargo(&build, "the workspace does not build: see above")?;
    let mut steps = Steps { only: args.only, done: Vec::new() };
    let mut computing = Steps { only: steps.only.clone(), done: Vec::new() };
    // Most steps wait for servers and clocks. The others compute beside them, with the time that is left.
    let (summary, counts) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| computing.compute());
        let counted = steps.wait();
        beside.join().expect("a failing step is no panic");
        counted
    });
    steps.done.append(&mut computing.done);
    let verdict = steps.verdict();
    if let Some(line) = summary {
        println!("{}", line.trim());
    }
    println!("{}", counts.line());
    verdict
}

impl Steps {
    /// Steps that mostly wait, and those whose order matters. Returns the closing line of the tests and their number.
    fn wait(&mut self) -> (Option<String>, Counts) {
        let mut counts = Counts::default();
        let mut summary = None;
        let report = junit::path_of("ci");

        self.run("format", || cargo(&["fmt", "--all", "--check"], "run `cargo fmt --all`"));
        self.run("tests", || {
            let _ = std::fs::remove_file(&report);
            let mut command = shell::cargo(&[
                "nextest",
                "run",
                "--workspace",
                "--locked",
                "--profile",
                "ci",
                "--no-tests=pass",
            ]);
            let (status, text) = shell::tee(&mut command, CARGO_LIMIT)?;
            summary =
                text.lines().rev().find(|line| line.trim_start().starts_with("Summary [")).map(str::to_owned);
            match &summary {
                Some(line) => counts.add(&Counts::of_nextest(line)),
                None => {
                    bail!("the tests were not run ({status}): see above, most likely they do not compile")
                }
            }
            ensure!(status.success(), "tests fail; run one again with `cargo nextest run NAME`");
            Ok(())
        });
        self.run("doc tests", || {
            let (status, text) =
                shell::tee(&mut shell::cargo(&["test", "--workspace", "--doc", "--locked"]), CARGO_LIMIT)?;
            text.lines().for_each(|line| counts.add(&Counts::of_libtest(line)));
            ensure!(status.success(), "examples in the docs fail; run them with `cargo test --doc`");
            Ok(())
        });
        self.run("generated docs", || xtask(&["docs", "--check"]));
        self.run("hostile", || hostile::run(hostile::Args::of_report(report.clone())));
        self.run("crash, short", || xtask(&["crash", "--kills", "25"]));
        self.run("soak, short", || xtask(&["soak", "--fetches", "6000", "--concurrency", "600"]));
        self.run("state crash, short", || {
            xtask(&["state", "crash", "--groups", "60", "--stride", "5", "--kills", "10"])
        });
        self.run("state replay, short", || xtask(&["state", "replay", "--entries", "50000"]));
        self.run("state snapshot, short", || xtask(&["state", "snapshot", "--urls", "100000"]));
        self.run("crawl, short", || {
            let proofs = [
                "complete --hosts 30 --pages 2000 --reasons 40 --records 200",
                "polite --hosts 250 --pages 2500 --jumps 3",
                "plug --kills 8 --hosts 24 --pages 1200 --tables",
                "feeds --feeds 30 --minutes 60 --rate 120 --kills 2",
                "outage --full-seconds 3 --silent-seconds 4 --hosts 24 --pages 1500",
                "soak --minutes 0.65 --hosts 200",
                "bombs --short --only open",
                "planted",
            ];
            side_by_side(2, &proofs.map(|proof| format!("crawl {proof}")))
        });
        self.together(&[
            ("interop, short", &["interop"]),
            ("remote spiders, short", &["spiders"]),
            ("outside judge, short", &["outside", "--short"]),
            // In whole: this proof runs at the shipped settings, on a clock of its own.
            ("shipped settings", &["crawl", "shipped"]),
            ("shipped settings, planted", &["crawl", "shipped", "--planted"]),
            ("examples", &["examples"]),
            ("python package", &["python"]),
            ("metrics", &["metrics"]),
            ("agents", &["agents"]),
            ("API, short", &["api-fuzz", "--short", "--requests", "300"]),
            ("documentation site", &["site", "--check"]),
            ("deployment", &["deploy"]),
        ]);
        self.run("chaos, short", || {
            let small = "--nodes 3 --servers 1 --partitions 12 --hosts 24 --pages 1000";
            let faults = [
                "--faults 0 --quiet 12",
                "--faults 3 --quiet 35",
                "--spiders 2 --faults 3 --quiet 35 --seed 2",
            ];
            side_by_side(2, &faults.map(|faults| format!("chaos {small} {faults}")))
        });
        // How long things take on a busy machine proves nothing; that nothing is lost or doubled does.
        self.run("cluster proofs, short", || {
            let small = "--servers 1 --partitions 8 --hosts 16 --lease 6";
            let proofs = [
                "takeover --nodes 2 --kills 1 --known 200 --host-delay-ms 300 --report-only",
                "elastic --steps 1,2,1 --phase 3 --pages 480 --host-delay-ms 1000 --quiet 8 --report-only",
                "slots --nodes 2 --addresses 4 --phase 8 --faults 2 --moves 4 --slot-delay-ms 300 --pages 8000 --ipv6-share 0.1 --report-only",
                "slots --nodes 2 --addresses 4 --phase 5 --moves 0 --slot-delay-ms 300 --pages 8000 --planted",
                "stops --nodes 2 --stops 10 --between-ms 100 --after 5 --pages 4000",
                "completion --nodes 2 --crawls 3 --host-pages 12 --host-delay-ms 200 --between 5 --report-only",
                "seeds --nodes 2 --seeds 20000 --host-seeds 500 --closed 0.95 --host-delay-ms 1 --cut-ms 100",
                "engine --nodes 2 --seconds 10 --pages 400 --host-delay-ms 500 --quiet 10",
                "objects --seconds 5 --host-delay-ms 1000 --quiet 8 --tables",
                "lying --cases 1 --only hole --pages 400 --host-delay-ms 500 --quiet 8",
            ];
            side_by_side(4, &proofs.map(|proof| format!("cluster-proof {proof} {small}")))
        });

        (summary, counts)
    }

    /// Steps that compute, at a low priority: a step that waits has the processor when it needs one.
    fn compute(&mut self) {
        if let Err(error) = rustix::process::setpriority_process(None, PRIORITY_LOW) {
            println!("ci: these steps keep their priority: {error}");
        }
        self.run("sim, short", || xtask(&["sim", "frontier", "--steps", "2000000"]));
        self.run("sim of clusters, short", || xtask(&["sim", "cluster", "--worlds", "400"]));
        self.run("sim of scale, short", || {
            xtask(&["sim", "scale", "--nodes", "8,64", "--fetches", "300000"])
        });
        self.run("sim of feeds, short", || xtask(&["sim", "feeds", "--feeds", "1000", "--whole", "40"]));
        self.run("sim of streams, short", || xtask(&["sim", "reflog", "--lines", "200000", "--kills", "20"]));
        self.run("sim of spiders, short", || xtask(&["sim", "spiders", "--deaths", "5000"]));
        // Not first: cargo builds for one of them at a time, and the tests need it at their start. Not late: steps after
        // the tests need it too.
        self.run("lints", || {
            let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
            cargo(&args, "the warnings above are errors in CI")
        });
        self.run("docs", || {
            let mut command =
                shell::cargo(&["doc", "--workspace", "--no-deps", "--locked", "--document-private-items"]);
            // Private items are documented too, so links to them are links that work.
            let flags = "-D warnings -A rustdoc::private-intra-doc-links";
            shell::run(command.env("RUSTDOCFLAGS", flags), CARGO_LIMIT)
        });
        self.run("packages, short", || package::run(&package::Args::short()));
        self.run("dependencies", || deny::run(deny::Args::default()));
        self.run("fuzz, short", || fuzz::run(fuzz::Args::short()));
        self.run("web-speed, short", || xtask(&["web-speed", "--seconds", "1"]));
        // Figures of a short run on a busy machine prove nothing; the run only proves that the command works.
        self.run("bench, short", || xtask(&["bench", "--short", "--report-only"]));
        self.run("bench stages, short", || xtask(&["bench", "stages", "--pages", "60", "--report-only"]));
        self.run("bench frontier, short", || xtask(&["bench", "frontier", "--short", "--report-only"]));
        self.run("bench reflog, short", || xtask(&["bench", "reflog", "--lines", "100000", "--report-only"]));
        self.run("bench cluster, short", || {
            let size = ["--nodes", "2", "--pages", "500", "--hosts", "40", "--partitions", "4"];
            xtask(&[&["bench", "cluster", "--report-only"][..], &size[..]].concat())
        });
        self.run("bench crawl-memory, short", || {
            xtask(&[
                "bench",
                "crawl-memory",
                "--known",
                "10000,50000",
                "--pages",
                "1000",
                "--hosts",
                "10,500",
            ])?;
            xtask(&["bench", "crawl-memory", "--known", "5000", "--hosts", "500", "--minutes", "0.25"])
        });
        self.run("bench peers, quick", || xtask(&["bench", "peers", "--quick"]));
    }
}

fn cargo(args: &[&str], hint: &str) -> Result<()> {
    shell::run(&mut shell::cargo(args), CARGO_LIMIT).map_err(|error| error.context(hint.to_owned()))
}

/// The short form of a long command: ourselves, with small sizes.
fn xtask(args: &[&str]) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    let folder = shell::target_dir().join("debug");
    command.args(args).env(PROFILE, "dev").env(programs::FOLDER, folder).current_dir(shell::root());
    let (status, text) = shell::tee(&mut command, CARGO_LIMIT)?;
    // Repeated at the end of the run: there the reason is found without a search.
    ensure!(
        status.success(),
        "`xtask {}` failed ({status}). It said last:\n{}",
        args.join(" "),
        last_lines(&text)
    );
    Ok(())
}

/// The last lines of an output, indented.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = lines[lines.len().saturating_sub(SHOWN_LINES)..].iter();
    shown.map(|line| format!("    {}\n", line.chars().take(SHOWN_CHARS).collect::<String>())).collect()
}

/// Proofs that mostly wait, several at once: each has folders, ports and servers of its own. All of them run, also if one
/// fails.
fn side_by_side(at_once: usize, proofs: &[String]) -> Result<()> {
    let run = |proof: &String| xtask(&proof.split(' ').collect::<Vec<_>>());
    some_at_once(at_once, proofs, run).into_iter().collect()
}

/// Runs all of them, some at once.
fn some_at_once<T: Sync, R: Send>(at_once: usize, all: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mine = std::iter::from_fn(|| all.get(next.fetch_add(1, Ordering::Relaxed)));
        mine.map(&run).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a failing step is no panic")).collect()
    })
}

/// A step that ran: name, time, and error.
type Done = (&'static str, Duration, Option<String>);

/// The steps that ran.
struct Steps {
    only: Option<String>,
    done: Vec<Done>,
}

impl Steps {
    fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<()>) {
        self.done.extend(self.measured(name, step));
    }

    /// Short forms of long commands, two at once.
    fn together(&mut self, steps: &[(&'static str, &[&str])]) {
        let run = |(name, args): &(&'static str, &[&str])| self.measured(name, || xtask(args));
        let done = some_at_once(2, steps, run);
        self.done.extend(done.into_iter().flatten());
    }

    fn measured(&self, name: &'static str, step: impl FnOnce() -> Result<()>) -> Option<Done> {
        if self.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            return None;
        }
        println!("\n==> {name}");
        let begun = Instant::now();
        let error = step().err().map(|error| format!("{error:#}"));
        let took = begun.elapsed();
        match &error {
            None => println!("==> {name}: ok, {:.1} s", took.as_secs_f64()),
            Some(error) => println!("==> {name}: FAILED, {:.1} s: {error}", took.as_secs_f64()),
        }
        Some((name, took, error))
    }

    /// Lists all steps with their times; an error if one of them failed.
    fn verdict(&self) -> Result<()> {
        println!("\n==> all steps");
        for (name, took, error) in &self.done {
            println!(
                "{:>8.1} s  {:<6}  {name}",
                took.as_secs_f64(),
                if error.is_some() { "FAILED" } else { "ok" }
            );
        }
        let total: Duration = self.done.iter().map(|(_, took, _)| *took).sum();
        println!("{:>8.1} s  in all, of which some ran at once", total.as_secs_f64());
        let failed: Vec<&str> =
            self.done.iter().filter(|(_, _, e)| e.is_some()).map(|(name, _, _)| *name).collect();
        if failed.is_empty() {
            return Ok(());
        }
        for (name, _, error) in &self.done {
            if let Some(error) = error {
                println!("\nFAILED {name}: {error}");
            }
        }
        bail!("CI failed in: {}. Run one step again with `cargo xtask ci --only NAME`.", failed.join("; "))
    }
}

/// Number of tests by result.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    /// From nextest's closing line: `Summary [ 1.2s] 9 tests run: 7 passed (1 slow), 1 failed, 1 timed out, 2 skipped`.
    fn of_nextest(line: &str) -> Counts {
        let (_, parts) = line.split_once(':').unwrap_or(("", ""));
        Counts {
            passed: before(parts, "passed"),
            failed: before(parts, "failed") + before(parts, "timed out") + before(parts, "exec failed"),
            skipped: before(parts, "skipped"),
        }
    }

    /// From a closing line of libtest: `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    fn of_libtest(line: &str) -> Counts {
        let Some(parts) = line.strip_prefix("test result: ") else { return Counts::default() };
        Counts {
            passed: before(parts, "passed"),
            failed: before(parts, "failed"),
            skipped: before(parts, "ignored"),
        }
    }

    fn add(&mut self, other: &Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    fn line(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The number directly before `word` in a list such as `7 passed (1 slow), 1 failed`.
fn before(parts: &str, word: &str) -> u64 {
    let number = |part: &str| {
        let (number, rest) = part.trim().split_once(' ')?;
        let rest = rest.trim_start();
        let is_word = rest.strip_prefix(word).is_some_and(|r| !r.starts_with(|c: char| c.is_alphanumeric()));
        if is_word { number.parse().ok() } else { None }
    };
    parts.split([',', ';', '.']).find_map(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_of_both_runners_are_read() {
        let line =
            "     Summary [   1.218s] 12 tests run: 8 passed (1 slow), 3 failed, 1 timed out, 2 skipped";
        assert_eq!(Counts::of_nextest(line), Counts { passed: 8, failed: 4, skipped: 2 });
        let line = "Summary [   0.005s] 1 test run: 1 passed, 0 skipped";
        assert_eq!(Counts::of_nextest(line), Counts { passed: 1, failed: 0, skipped: 0 });
        let line =
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s";
        assert_eq!(Counts::of_libtest(line), Counts { passed: 3, failed: 0, skipped: 1 });
        assert_eq!(Counts::of_libtest("3 passed in some other text"), Counts::default());
    }

    #[test]
    fn the_end_of_an_output_is_shown() {
        let text: String = (0..40).map(|n| format!("line {n}\n\n")).collect();
        let shown = last_lines(&text);
        assert_eq!((shown.lines().count(), shown.lines().next()), (SHOWN_LINES, Some("    line 28")));
        assert_eq!(last_lines(""), "");
    }

    #[test]
    fn a_failing_step_fails_the_whole_and_the_later_ones_still_run() {
        let mut steps = Steps { only: None, done: Vec::new() };
        steps.run("one", || bail!("it broke"));
        steps.run("two", || Ok(()));
        assert_eq!(steps.done.len(), 2);
        let error = steps.verdict().unwrap_err().to_string();
        assert!(error.contains("one") && !error.contains("two"), "{error}");
    }
}
