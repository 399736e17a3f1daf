//! `cargo xtask examples [NAME…]`: runs the programs in `examples/`, as a person would, and compares the end of their
//! output.
//!
//! An example is a folder with a README, a program `run` and a text `expected`. Each is run in a temporary folder of
//! its own, with the released crawler and the NATS server of the tests. An example has to end by itself, with success,
//! and within [`LIMIT`]; its output has to end with the lines of `expected`, and no process that the example started
//! may be left. Since examples mostly wait, they run all at the same time.
//!
//! Invariant: an example is one process group, and no process of the group outlives the [`Running`] value.

use std::fmt::Write as _;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::programs::Programs;
use crate::shell;

/// Timeout of one example. The slowest is meant for half a minute; the rest is for a machine under load.
const LIMIT: Duration = Duration::from_secs(180);
/// How long processes of an example may go on after its end, and after a signal to end.
const LEAVE: Duration = Duration::from_secs(15);
/// Polling interval of a waiting parent.
const LOOK: Duration = Duration::from_millis(50);
/// Number of last lines shown of each log of an example that failed.
const LOG_LINES_MAX: usize = 40;
/// Environment variables that would lead an example elsewhere: proxies, and variables from the examples' own
/// documentation.
const NOT_OURS: [&str; 8] =
    ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "DATA", "STATE", "FOLLOWER", "STORIES", "EVERY"];

/// Options of `examples`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folders under `examples/`; all of them if none is named.
    names: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<()> {
    let examples = chosen(found(&shell::root().join("examples"))?, &args.names)?;
    let programs = Programs::build()?;
    let (nephila, nats) = (programs.path("nephila")?, nephila_testnats::server_program()?);
    let nats = nats.as_path();
    let begun = Instant::now();
    let results: Vec<(&Example, Result<()>)> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            examples.iter().map(|example| scope.spawn(move || example.check(nephila, nats))).collect();
        let results = threads.into_iter().map(|thread| thread.join().expect("checking does not panic"));
        examples.iter().zip(results).collect()
    });
    let mut failed = Vec::new();
    for (example, result) in &results {
        if let Err(error) = result {
            println!("{}: FAILED: {error:#}\n", example.name);
            failed.push(example.name.as_str());
        }
    }
    println!(
        "examples: {} run, {} as expected, {:.1} s",
        results.len(),
        results.len() - failed.len(),
        begun.elapsed().as_secs_f64()
    );
    ensure!(failed.is_empty(), "not as expected: {}; see above", failed.join(", "));
    if args.names.is_empty() {
        EMBEDDING.iter().try_for_each(|(name, last)| embeds(programs.path(name)?, last))?;
    }
    Ok(())
}

/// Programs in `crates/nephila-engine/examples`, each with a stage of its own, and the last line of each.
const EMBEDDING: [(&str, &str); 3] = [
    ("fetch_from_archive", "from the archive: 4 pages, "),
    ("keep_in_sqlite", "4 pages fetched, 4 rows with "),
    ("read_prices", "4 pages, Cups: 18.00 EUR, Tea: 4.20 EUR"),
];

/// Runs a program that embeds the library. Such a program checks its own result.
fn embeds(program: &Path, last: &str) -> Result<()> {
    let text = shell::output(&mut Command::new(program), LIMIT)?;
    print!("{text}");
    let line = text.lines().last().unwrap_or_default();
    ensure!(line.starts_with(last), "{}: the last line is {line:?}, not {last:?}", program.display());
    Ok(())
}

/// A folder with an example.
#[derive(Clone, Debug)]
struct Example {
    name: String,
    folder: PathBuf,
}

/// All examples, by name. An example that cannot be run or compared is an error.
fn found(folder: &Path) -> Result<Vec<Example>> {
    let mut examples = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let folder = entry?.path();
        if !folder.is_dir() {
            continue;
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for file in ["README.md", "run", "expected"] {
            ensure!(folder.join(file).is_file(), "the example {name} has no file `{file}`");
        }
        examples.push(Example { name, folder });
    }
    ensure!(!examples.is_empty(), "there are no examples in {}", folder.display());
    examples.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(examples)
}

/// Ports of an example.
const PORTS: u16 = 10;
/// The first port of examples, and how many of them can run at the same time.
const PORTS_FROM: u16 = 12_000;
const BLOCKS: u16 = 2_000;
/// How many places were looked at.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The named examples, or all of them.
fn chosen(all: Vec<Example>, names: &[String]) -> Result<Vec<Example>> {
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|example| example.name != **name)) {
        let known: Vec<&str> = all.iter().map(|example| example.name.as_str()).collect();
        bail!("there is no example {unknown}; there are {}", known.join(", "));
    }
    Ok(all.into_iter().filter(|example| names.is_empty() || names.contains(&example.name)).collect())
}

impl Example {
    /// Runs the example in a folder of its own. An error carries the output.
    fn check(&self, nephila: &Path, nats: &Path) -> Result<()> {
        let begun = Instant::now();
        let expected = std::fs::read_to_string(self.folder.join("expected"))?;
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let (out, err) = (folder.path().join("stdout.log"), folder.path().join("stderr.log"));
        let mut command = Command::new(self.folder.join("run"));
        command
            .current_dir(folder.path())
            .env("NEPHILA", nephila)
            .env("NATS_SERVER", nats)
            // The user's own settings file does not apply here.
            .env("NEPHILA_CONFIG", "/dev/null")
            // Two runs on one machine do not meet, and nothing is built into the clone.
            .env("PORT", free_port()?.to_string())
            .env("CARGO_TARGET_DIR", shell::target_dir().join("examples"))
            .stdin(Stdio::null())
            // Files instead of pipes: a process that holds one open does not block the wait.
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?);
        NOT_OURS.iter().for_each(|name| {
            command.env_remove(name);
        });
        let (status, left) = watch(&mut command, LIMIT)?;
        let output = String::from_utf8_lossy(&std::fs::read(&out)?).into_owned();
        if let Err(error) = judge(status, &left, &output, &expected) {
            bail!("{error:#}\n{}", shown(folder.path()));
        }
        println!("{}: as expected, {:.1} s", self.name, begun.elapsed().as_secs_f64());
        Ok(())
    }
}

/// A port that is free right now, as are the next ones, which examples use too. Below those that systems give to
/// connections: one of these may be taken between this look and the use.
fn free_port() -> Result<u16> {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    // Examples run side by side: each looks at places of its own, and another process begins elsewhere.
    let places = (0..BLOCKS).map(|_| std::process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)));
    let mut blocks = places.map(|place| PORTS_FROM + (place % u32::from(BLOCKS)) as u16 * PORTS);
    blocks.find(|port| (*port..port + PORTS).all(is_free)).context("find free ports")
}

/// Runs a command to its end: its status, none after the timeout, and the processes left running.
fn watch(command: &mut Command, limit: Duration) -> Result<(Option<ExitStatus>, Vec<String>)> {
    let mut running = Running::start(command)?;
    let status = running.wait(limit)?;
    let left = if status.is_some() { running.left(LEAVE) } else { Vec::new() };
    Ok((status, left))
}

/// Checks status, output and leftover processes.
fn judge(status: Option<ExitStatus>, left: &[String], output: &str, expected: &str) -> Result<()> {
    let Some(status) = status else { bail!("it did not end within {} s", LIMIT.as_secs()) };
    ensure!(status.success(), "it ended with {status}");
    ensure!(ends_with(output, expected), "its output does not end with what is expected:\n{expected}");
    ensure!(left.is_empty(), "it left processes behind: {}", left.join(", "));
    Ok(())
}

/// Whether a text ends with these lines. Blanks are not compared: `uniq -c` and `wc` pad as they like.
fn ends_with(output: &str, expected: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        words.filter(|line| !line.is_empty()).collect()
    };
    let (output, expected) = (lines(output), lines(expected));
    !expected.is_empty() && output.ends_with(&expected)
}

/// The output of an example, and the end of each of its logs.
fn shown(folder: &Path) -> String {
    let mut text = String::new();
    for folder in [folder.to_owned(), folder.join("data")] {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut logs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.sort();
        for log in logs {
            let bytes = std::fs::read(&log).unwrap_or_default();
            let name = log.file_name().unwrap_or_default().to_string_lossy();
            // A string accepts every write.
            let _ = writeln!(text, "--- {name}\n{}", last_lines(&String::from_utf8_lossy(&bytes)));
        }
    }
    text
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
}

/// A running program with all its descendants: a process group with the program's id.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let child = command.process_group(0).spawn();
        child.map(Running).with_context(|| format!("start {}", command.get_program().to_string_lossy()))
    }

    /// Waits until the program itself has ended; none at the timeout.
    fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The live processes of the group, after this much time to end.
    fn left(&self, patience: Duration) -> Vec<String> {
        let end = Instant::now() + patience;
        loop {
            let left = living(self.0.id());
            if left.is_empty() || Instant::now() >= end {
                return left;
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Running {
    /// Signals the group to end (SIGTERM), so that each process can clean up; processes that do not end are killed.
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        for signal in [Signal::TERM, Signal::KILL] {
            // An empty group gets no signal: its number may belong to another group one day.
            if let Some(group) = group.filter(|_| !living(self.0.id()).is_empty()) {
                kill_process_group(group, signal).ok();
                self.left(LEAVE);
            }
        }
        self.0.wait().ok();
    }
}

/// The processes of a group that live, by id and name.
fn living(group: u32) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = entries.filter_map(|entry| std::fs::read(entry.path().join("stat")).ok());
    stats.filter_map(|stat| member(&String::from_utf8_lossy(&stat), group)).collect()
}

/// The process of a line of `/proc/ID/stat` (`ID (NAME) STATE PARENT GROUP …`), if the process belongs to the group and
/// lives.
fn member(stat: &str, group: u32) -> Option<String> {
    // A name may contain brackets and blanks.
    let (who, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let (state, of) = (fields.next()?, fields.nth(1)?);
    // Zombies have ended and do nothing.
    let lives = !matches!(state, "Z" | "X");
    (lives && of.parse() == Ok(group)).then(|| format!("{who})"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    #[test]
    fn every_example_can_be_run_and_compared() {
        let examples = found(&shell::root().join("examples")).unwrap();
        assert!(examples.len() >= 5, "{examples:?}");
        for example in &examples {
            let run = std::fs::metadata(example.folder.join("run")).unwrap();
            assert_ne!(run.permissions().mode() & 0o111, 0, "{} is no program", example.name);
            let expected = std::fs::read_to_string(example.folder.join("expected")).unwrap();
            assert!(ends_with(&expected, &expected), "{} expects nothing", example.name);
        }
    }

    #[test]
    fn an_example_without_a_result_and_one_that_is_not_there_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        assert!(found(folder.path()).is_err(), "there is none");
        let one = folder.path().join("one");
        std::fs::create_dir(&one).unwrap();
        for file in ["README.md", "run", "expected"] {
            let error = found(folder.path()).unwrap_err().to_string();
            assert!(error.contains(file), "{error}");
            std::fs::write(one.join(file), "x").unwrap();
        }
        let all = found(folder.path()).unwrap();
        assert_eq!(chosen(all.clone(), &[]).unwrap().len(), 1);
        assert_eq!(chosen(all.clone(), &["one".to_owned()]).unwrap().len(), 1);
        let error = chosen(all, &["two".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("two") && error.contains("one"), "{error}");
    }

    #[test]
    fn the_last_lines_are_compared_and_blanks_are_not() {
        assert!(ends_with("begun\n      2 GET /a\n      1 GET /b\n", "2 GET /a\n1 GET /b\n"));
        assert!(!ends_with("      1 GET /a\n", "2 GET /a\n"));
        assert!(!ends_with("2 GET /a\nand more\n", "2 GET /a\n"));
        assert!(!ends_with("2 GET /a\n", "1 GET /b\n2 GET /a\n"));
        assert!(!ends_with("anything\n", "\n"), "nothing is no expectation");
    }

    #[test]
    fn whatever_is_wrong_is_said() {
        let (well, badly) = (ExitStatus::from_raw(0), ExitStatus::from_raw(1 << 8));
        assert!(judge(Some(well), &[], "a\n", "a\n").is_ok());
        for (status, left, output, word) in [
            (None, vec![], "a\n", "within"),
            (Some(badly), vec![], "a\n", "ended with"),
            (Some(well), vec![], "b\n", "expected"),
            (Some(well), vec!["7 (sleep)".to_owned()], "a\n", "7 (sleep)"),
        ] {
            let error = judge(status, &left, output, "a\n").unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_process_is_known_by_its_group_whatever_its_name() {
        let stat = "12 (a) S (b) S 1 77 12 0 -1";
        assert_eq!(member(stat, 77).as_deref(), Some("12 (a) S (b)"));
        assert_eq!(member(stat, 12), None);
        assert_eq!(member("12 (a) Z 1 77 12 0 -1", 77), None);
        assert_eq!(member("", 77), None);
    }

    #[test]
    fn what_an_example_leaves_behind_is_found_and_ended() {
        let mut running = Running::start(&mut sh("sleep 300 & exit 0")).unwrap();
        assert!(running.wait(LIMIT).unwrap().is_some_and(|status| status.success()));
        let left = running.left(Duration::ZERO);
        assert_eq!(left.len(), 1, "{left:?}");
        let id = running.0.id();
        drop(running);
        assert_eq!(living(id), Vec::<String>::new());
    }

    #[test]
    fn an_example_that_does_not_end_is_stopped_with_all_it_started() {
        let begun = Instant::now();
        let (status, left) = watch(&mut sh("sleep 300 & sleep 300"), Duration::from_millis(200)).unwrap();
        assert!(status.is_none() && left.is_empty());
        assert!(begun.elapsed() < LEAVE, "being told was enough");
    }

    #[test]
    fn the_end_of_every_log_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        let long: String = (0..100).map(|n| format!("line {n}\n")).collect();
        std::fs::write(folder.path().join("data/node-1.log"), long).unwrap();
        std::fs::write(folder.path().join("data/other"), "not this").unwrap();
        let text = shown(folder.path());
        let line = |number: usize| format!("line {number}\n");
        let (first, before) = (line(100 - LOG_LINES_MAX), line(99 - LOG_LINES_MAX));
        assert!(text.contains("node-1.log") && text.contains("line 99") && text.contains(&first), "{text}");
        assert!(!text.contains(&before) && !text.contains("not this"), "{text}");
    }
}
