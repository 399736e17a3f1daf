//! How the commands call other programs: from the workspace root, with a time limit, and with an error that names
//! the command line that failed.
//!
//! Invariant: no child outlives its limit, and output is both kept and passed on at once, so a reader sees progress.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Polling interval of a waiting parent.
const WAIT_STEP: Duration = Duration::from_millis(50);

/// At most this many bytes of a child's output are kept; the rest is passed on and forgotten.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// The folder of the workspace manifest.
pub(crate) fn root() -> PathBuf {
    // Read at run time: clones that share a target folder share this binary as well.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let manifest = manifest.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    manifest.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Where builds go: `CARGO_TARGET_DIR`, or `target` in the workspace.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The cargo that runs us, set up to work in the workspace root.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// Runs a command to its end, its output on our terminal.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<()> {
    let line = describe(command);
    let child = command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start `{line}`"))?;
    check(&line, wait(child, &line, limit)?)
}

/// Runs a command to its end and returns its standard output; a failure carries its standard error.
pub(crate) fn output(command: &mut Command, limit: Duration) -> Result<String> {
    let line = describe(command);
    let (status, out, err) = collect(command, limit, false)?;
    if !status.success() {
        bail!("`{line}` failed ({status}):\n{}", err.trim_end());
    }
    Ok(out)
}

/// Runs a command to its end, passes both outputs on, and returns its status and both, one after the other.
pub(crate) fn tee(command: &mut Command, limit: Duration) -> Result<(ExitStatus, String)> {
    let (status, out, err) = collect(command, limit, true)?;
    Ok((status, out + &err))
}

/// Like [`tee`], but keeps the output to itself.
pub(crate) fn quiet(command: &mut Command, limit: Duration) -> Result<(ExitStatus, String)> {
    let (status, out, err) = collect(command, limit, false)?;
    Ok((status, out + &err))
}

fn collect(command: &mut Command, limit: Duration, pass_on: bool) -> Result<(ExitStatus, String, String)> {
    let line = describe(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    let stdout = child.stdout.take().expect("piped above");
    let stderr = child.stderr.take().expect("piped above");
    let out = std::thread::spawn(move || copy_lines(stdout, pass_on.then(std::io::stdout)));
    let err = std::thread::spawn(move || copy_lines(stderr, pass_on.then(std::io::stderr)));
    let status = wait(child, &line, limit)?;
    let joined = |thread: std::thread::JoinHandle<String>| thread.join().expect("copying does not panic");
    Ok((status, joined(out), joined(err)))
}

fn copy_lines(from: impl std::io::Read, mut to: Option<impl Write>) -> String {
    let mut kept = String::new();
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        if let Some(to) = &mut to {
            // Our own output being closed is no reason to stop the child.
            let _ = to.write_all(&line);
        }
        if kept.len() + line.len() <= KEPT_BYTES_MAX {
            kept.push_str(&String::from_utf8_lossy(&line));
        }
        line.clear();
    }
    kept
}

fn wait(mut child: Child, line: &str, limit: Duration) -> Result<ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            bail!("`{line}` did not end within {} s and was stopped", limit.as_secs());
        }
        std::thread::sleep(WAIT_STEP);
    }
}

fn check(line: &str, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_does_not_end_is_stopped() {
        let begun = Instant::now();
        let error = run(Command::new("sleep").arg("60"), Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("sleep 60"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_failure_names_the_command_and_shows_its_complaint() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such thing >&2; exit 3"]);
        let error = output(&mut command, Duration::from_secs(10)).unwrap_err().to_string();
        assert!(error.contains("no such thing") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("nephila-no-such-program"), Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("nephila-no-such-program"), "{error}");
    }
}
