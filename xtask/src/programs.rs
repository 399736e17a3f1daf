//! Programs of the workspace that the measuring commands run: built, started, measured, and ended.
//!
//! All of them are built by one command with one set of features, so no crate is compiled twice for them. They are built
//! as released, unless `NEPHILA_PROFILE` names another profile of cargo: CI names `dev`, which its tests use too. CI builds
//! once and gives its steps the folder (`NEPHILA_PROGRAMS`): a call of cargo would wait for the lock that lints, docs and
//! fuzz targets hold while they compile.
//!
//! Invariant: no program outlives the value that owns the process.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::shell;

/// Polling interval of a waiting parent; the maximum error of a measured time.
const WAIT_STEP: Duration = Duration::from_millis(1);

/// The profile of cargo that programs are built with, if not `release`.
pub(crate) const PROFILE: &str = "NEPHILA_PROFILE";

/// The folder with programs that were built before: then nothing is built.
pub(crate) const FOLDER: &str = "NEPHILA_PROGRAMS";

/// Programs by name.
pub(crate) struct Programs(HashMap<String, PathBuf>);

impl Programs {
    /// All programs: those of the folder that the environment names, else built now.
    pub(crate) fn build() -> Result<Self> {
        match std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()) {
            Some(folder) => Self::of_target(Path::new(&folder)),
            None => Self::build_now(),
        }
    }

    fn build_now() -> Result<Self> {
        let profile = std::env::var(PROFILE).unwrap_or_else(|_| "release".into());
        let mut command =
            shell::cargo(&["build", "--quiet", "--locked", "--workspace", "--bins", "--examples"]);
        command.args(["--profile", &profile, "--message-format=json-render-diagnostics"]);
        let output = command.stderr(Stdio::inherit()).output().context("run cargo")?;
        ensure!(output.status.success(), "the programs do not build: see above");
        let text = String::from_utf8_lossy(&output.stdout);
        let built = text.lines().filter_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            Some((message["target"]["name"].as_str()?.to_owned(), message["executable"].as_str()?.into()))
        });
        Ok(Programs(built.collect()))
    }

    /// Programs and examples of cargo's folder of a profile.
    fn of_target(folder: &Path) -> Result<Self> {
        let mut programs = Self::of_folder(&folder.join("examples"))?;
        programs.0.extend(Self::of_folder(folder)?.0);
        Ok(programs)
    }

    /// Programs that were built before, by their names in this folder.
    pub(crate) fn of_folder(folder: &Path) -> Result<Self> {
        // Also for commands that run elsewhere.
        let folder = std::path::absolute(folder).with_context(|| folder.display().to_string())?;
        let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file());
        let named = paths.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)));
        Ok(Programs(named.collect()))
    }

    /// The path of a program.
    pub(crate) fn path(&self, name: &str) -> Result<&Path> {
        self.0.get(name).map(PathBuf::as_path).with_context(|| format!("cargo did not build {name}"))
    }
}

/// A program of others: the one that the environment variable names, else the one that `.ci/run` has put into the cache, else the
/// one of this name on the `PATH`.
pub(crate) fn of_others(name: &str, variable: &str, cache: &Path) -> Result<PathBuf> {
    let named = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let fetched = cache.join("tools/bin").join(name);
    match named.or_else(|| fetched.is_file().then_some(fetched)) {
        // A path, also for commands that run elsewhere.
        Some(path) if path.components().count() > 1 => Ok(std::path::absolute(path)?),
        Some(name) => Ok(name),
        None => Ok(name.into()),
    }
}

/// A server that prints its addresses in one JSON line, and ends when this value is dropped.
pub(crate) struct Server {
    child: Child,
    /// The JSON line of the server.
    pub(crate) ready: Value,
}

impl Server {
    /// Starts the server and waits for the line.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", command.get_program().to_string_lossy()))?;
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped above");
        let mut server = Server { child, ready: Value::Null };
        BufReader::new(stdout).read_line(&mut line).context("read the ready line")?;
        server.ready = serde_json::from_str(&line).context("understand the ready line")?;
        Ok(server)
    }

    /// A port from the line.
    pub(crate) fn port(&self, name: &str) -> Result<u16> {
        self.ready[name]
            .as_u64()
            .and_then(|port| port.try_into().ok())
            .with_context(|| format!("no {name} in the ready line"))
    }

    /// A text from the line.
    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        self.ready[name].as_str().with_context(|| format!("no {name} in the ready line"))
    }
}

impl Server {
    /// Lets the server end by itself, so that all its output is written.
    pub(crate) fn finish(mut self, limit: Duration) -> Result<()> {
        drop(self.child.stdin.take());
        let end = Instant::now() + limit;
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < end, "a server did not end within {} s", limit.as_secs());
            std::thread::sleep(WAIT_STEP);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Resource usage of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Usage {
    /// From start to end.
    pub(crate) wall: Duration,
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Peak of resident memory, in kB.
    pub(crate) memory_kb: u64,
}

/// Runs a program to its end and measures its usage. Standard output is discarded.
pub(crate) fn measure(command: &mut Command, limit: Duration) -> Result<Usage> {
    match measure_for(command, limit)? {
        (usage, Some(status)) => {
            ensure!(status.success(), "{command:?} failed: {status}");
            Ok(usage)
        }
        (_, None) => bail!("{command:?} did not end within {} s", limit.as_secs()),
    }
}

/// Runs a program to its end, or kills the program at the timeout, which gives no status. The usage is measured either
/// way.
pub(crate) fn measure_for(command: &mut Command, limit: Duration) -> Result<(Usage, Option<ExitStatus>)> {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("start {}", command.get_program().to_string_lossy()))?;
    let mut is_stopped = false;
    loop {
        if let Some((status, cpu, memory_kb)) = ended(&child)? {
            let usage = Usage { wall: began.elapsed(), cpu, memory_kb };
            return Ok((usage, (!is_stopped).then_some(status)));
        }
        if !is_stopped && began.elapsed() >= limit {
            child.kill()?;
            is_stopped = true;
        }
        std::thread::sleep(WAIT_STEP);
    }
}

/// Reaps a child that has ended, with its resource usage. The standard library reaps without the usage.
#[allow(unsafe_code, reason = "the standard library has no wait4")]
fn ended(child: &Child) -> Result<Option<(ExitStatus, Duration, u64)>> {
    let id = libc::pid_t::try_from(child.id()).context("a process id")?;
    let mut status = 0;
    // SAFETY: all fields of rusage are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers lead to values that live through the call; the id is of a child of ours that no other code
    // waits for.
    let collected = unsafe { libc::wait4(id, &mut status, libc::WNOHANG, &mut usage) };
    if collected == 0 {
        return Ok(None);
    }
    ensure!(collected == id, "wait for a program: {}", std::io::Error::last_os_error());
    let time =
        |t: libc::timeval| Duration::new(t.tv_sec.unsigned_abs(), t.tv_usec.unsigned_abs() as u32 * 1_000);
    let cpu = time(usage.ru_utime) + time(usage.ru_stime);
    Ok(Some((ExitStatus::from_raw(status), cpu, usage.ru_maxrss.unsigned_abs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_the_cache_comes_before_one_on_the_path() {
        let cache = tempfile::tempdir().unwrap();
        let found = || of_others("promtool", "NEPHILA_NAMES_NOTHING", cache.path()).unwrap();
        assert_eq!(found(), Path::new("promtool"));
        let fetched = cache.path().join("tools/bin/promtool");
        std::fs::create_dir_all(fetched.parent().unwrap()).unwrap();
        std::fs::write(&fetched, "").unwrap();
        assert_eq!(found(), fetched);
    }

    #[test]
    fn programs_of_a_folder_are_found_beside_its_examples() {
        let folder = tempfile::tempdir().unwrap();
        let examples = folder.path().join("examples");
        std::fs::create_dir(&examples).unwrap();
        for path in [folder.path().join("nephila"), examples.join("read_speed")] {
            std::fs::write(path, "").unwrap();
        }
        let programs = Programs::of_target(folder.path()).unwrap();
        assert_eq!(programs.path("nephila").unwrap(), folder.path().join("nephila"));
        assert_eq!(programs.path("read_speed").unwrap(), examples.join("read_speed"));
        assert!(programs.path("examples").is_err(), "a folder is no program");
        assert!(Programs::of_target(&examples).is_err(), "there are no examples");
    }

    #[test]
    fn a_program_is_measured() {
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.05"]);
        let usage = measure(&mut command, Duration::from_secs(30)).unwrap();
        assert!(usage.wall >= Duration::from_millis(50), "{usage:?}");
        assert!(usage.cpu > Duration::ZERO && usage.cpu <= usage.wall * 2, "{usage:?}");
        assert!(usage.memory_kb > 100, "{usage:?}");
    }

    #[test]
    fn a_program_that_is_stopped_is_measured_too() {
        let (usage, status) =
            measure_for(Command::new("sh").args(["-c", "while :; do :; done"]), Duration::from_millis(200))
                .unwrap();
        assert_eq!(status, None);
        assert!(usage.cpu > Duration::ZERO && usage.wall >= Duration::from_millis(200), "{usage:?}");
    }

    #[test]
    fn a_program_that_fails_or_does_not_end_is_an_error() {
        assert!(measure(&mut Command::new("false"), Duration::from_secs(30)).is_err());
        let begun = Instant::now();
        assert!(measure(Command::new("sleep").arg("60"), Duration::from_millis(50)).is_err());
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
