//! `nephila doctor`: checks whether this machine and this folder are fit for a crawl. Each line contains advice.
//!
//! Invariants: one small file is written and removed; the crawl's data is not touched; every check is bounded.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nephila_core::spider::outcome::Outcome;
use nephila_core::store::roll;
use nephila_core::text::shown;
use nephila_spider::resolver::Resolver;
use nephila_store::contents::Contents;
use serde::Serialize;

use super::{out, print_json, time};
use crate::cli::ask::DoctorArgs;
use nephila_engine::clock::Clock;
use nephila_engine::exit::Exit;
use nephila_engine::folder::{Folder, disk_free};
use nephila_engine::process::{block_on, small_runtime};
use nephila_engine::settings::{Settings, StateKind};

/// Number of timed syncs.
const SYNCS: usize = 10;
/// A sync slower than this slows a crawl down.
const SYNC_SLOW: Duration = Duration::from_millis(50);
/// A name that every resolver knows.
const KNOWN_NAME: &str = "example.com";
/// Timeout of the resolver.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the servers of a cluster.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(20);
/// File descriptors that a crawl needs in addition to one for each fetch.
const HANDLES_SPARE: u64 = 512;
/// Earliest plausible time, 2026-01-01: this program was not written before.
const CLOCK_MIN_MS: u64 = 1_767_225_600_000;
/// Latest plausible time, 2100-01-01.
const CLOCK_MAX_MS: u64 = 4_102_444_800_000;
/// Maximum number of files counted.
const FILES_MAX: usize = 1_000_000;
/// Maximum number of log lines read.
const LOG_LINES_MAX: usize = 1_000_000;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Ok,
    Warn,
    Fail,
}

/// One check.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    state: State,
    text: String,
}

#[derive(Default)]
struct Checks(Vec<Check>);

impl Checks {
    fn add(&mut self, check: &'static str, state: State, text: impl Into<String>) {
        self.0.push(Check { check, state, text: text.into() });
    }
}

/// `nephila doctor`.
pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.place.output.as_deref());
    let mut checks = Checks::default();
    let settings = match args.common.load() {
        Ok(settings) => {
            checks.add("settings", State::Ok, "can be read");
            settings
        }
        Err(error) => {
            checks.add(
                "settings",
                State::Fail,
                format!("{error:#}; `nephila settings` prints a file that works"),
            );
            Settings::default()
        }
    };
    contact(&mut checks, &settings);
    disk(&mut checks, &folder, &settings);
    handles(&mut checks, &settings);
    ports(&mut checks, &settings);
    clock(&mut checks, Clock::new().now().wall.0);
    names(&mut checks, &settings)?;
    state(&mut checks, &folder);
    cluster(&mut checks, &settings)?;
    let mut out = out();
    for check in &checks.0 {
        if args.place.json {
            print_json(&mut out, check)?;
        } else {
            let word = match check.state {
                State::Ok => "ok",
                State::Warn => "warn",
                State::Fail => "FAIL",
            };
            writeln!(out, "{word:<5} {:<10} {}", check.check, shown(&check.text))?;
        }
    }
    out.flush()?;
    let failed = checks.0.iter().any(|check| check.state == State::Fail);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Checks the servers of a cluster, if configured.
fn cluster(checks: &mut Checks, settings: &Settings) -> anyhow::Result<()> {
    use nephila_log::jetstream::{Engine, Level};
    if settings.cluster.servers.is_empty() {
        return Ok(());
    }
    let runtime = small_runtime()?;
    let found = block_on(&runtime, async {
        let work = async {
            Ok(Engine::look(nephila_cluster::servers::settings(&settings.cluster)).await?.check().await)
        };
        match tokio::time::timeout(CLUSTER_TIMEOUT, work).await {
            Ok(found) => found,
            Err(_) => Err(anyhow::anyhow!("no answer within {} s", CLUSTER_TIMEOUT.as_secs())),
        }
    });
    match found {
        Ok(found) => {
            for finding in found {
                let state = match finding.level {
                    Level::Good => State::Ok,
                    Level::Warning => State::Warn,
                    Level::Bad => State::Fail,
                };
                checks.add("cluster", state, finding.text);
            }
        }
        Err(error) => checks.add("cluster", State::Fail, format!("NATS: {error:#}; see cluster.servers")),
    }
    let member = &settings.cluster;
    if member.heartbeat * 3 + member.margin > member.lease_ttl {
        checks.add(
            "cluster",
            State::Warn,
            "cluster.heartbeat is too long for cluster.lease_ttl: one lost heartbeat would stop a node",
        );
    }
    Ok(())
}

fn contact(checks: &mut Checks, settings: &Settings) {
    match settings.identity.contact.as_str() {
        "" => checks.add(
            "contact",
            State::Warn,
            "none: public sites are not crawled without one; set identity.contact or give --contact URL",
        ),
        contact => checks.add("contact", State::Ok, contact),
    }
}

/// The folder, or its nearest existing ancestor.
fn nearest(dir: &Path) -> PathBuf {
    let mut at = if dir.is_absolute() { dir.to_owned() } else { Path::new(".").join(dir) };
    while !at.is_dir() && at.pop() {}
    if at.as_os_str().is_empty() { PathBuf::from(".") } else { at }
}

fn disk(checks: &mut Checks, folder: &Folder, settings: &Settings) {
    let dir = nearest(folder.dir());
    match disk_free(&dir) {
        Ok(bytes) => {
            let min = settings.crawl.disk_free_min;
            let text = format!("{} free at {}", time::size(bytes), dir.display());
            if bytes < min {
                let more = format!(
                    "{text}: a crawl waits below {}; free some, or lower crawl.disk_free_min",
                    time::size(min)
                );
                checks.add("disk", State::Fail, more);
            } else if bytes < min.saturating_mul(4) {
                checks.add("disk", State::Warn, format!("{text}: a crawl waits below {}", time::size(min)));
            } else {
                checks.add("disk", State::Ok, text);
            }
        }
        Err(error) => checks.add("disk", State::Warn, format!("{}: {error}", dir.display())),
    }
    match sync_time(&dir) {
        Ok(took) if took > SYNC_SLOW => checks.add(
            "sync",
            State::Warn,
            format!("{} to make 4 KiB durable: slow; a crawl of many sites wants a faster disk", ms(took)),
        ),
        Ok(took) => checks.add("sync", State::Ok, format!("{} to make 4 KiB durable", ms(took))),
        Err(error) => checks.add(
            "sync",
            State::Fail,
            format!("{} cannot be written: {error}; choose another folder with -o DIR", dir.display()),
        ),
    }
}

fn ms(took: Duration) -> String {
    format!("{:.2} ms", took.as_secs_f64() * 1_000.0)
}

/// Duration until a small write is durable: the median of a few.
fn sync_time(dir: &Path) -> io::Result<Duration> {
    let path = dir.join(format!(".nephila-doctor-{}", std::process::id()));
    let measure = || {
        let mut file = File::options().write(true).create_new(true).open(&path)?;
        let mut times = Vec::with_capacity(SYNCS);
        for _ in 0..SYNCS {
            let began = Instant::now();
            file.write_all(&[0; 4096])?;
            file.sync_data()?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        Ok(times[SYNCS / 2])
    };
    let took = measure();
    _ = fs::remove_file(&path);
    took
}

fn handles(checks: &mut Checks, settings: &Settings) {
    let Ok((soft, hard)) = rlimit::Resource::NOFILE.get() else {
        return checks.add("handles", State::Warn, "the limit of open files cannot be read");
    };
    let wanted = settings.crawl.concurrency as u64 + HANDLES_SPARE;
    let text = format!("{soft} open files, {hard} at most");
    if hard < wanted {
        let more = format!(
            "{text}: crawl.concurrency wants {wanted}; raise `ulimit -Hn`, or crawl with less at once"
        );
        checks.add("handles", State::Warn, more);
    } else {
        checks.add("handles", State::Ok, text);
    }
}

fn ports(checks: &mut Checks, settings: &Settings) {
    let path = "/proc/sys/net/ipv4/ip_local_port_range";
    let range = fs::read_to_string(path).ok().and_then(|text| {
        let (low, high) = text.trim().split_once(char::is_whitespace)?;
        Some((low.trim().parse::<u64>().ok()?, high.trim().parse::<u64>().ok()?))
    });
    let Some((low, high)) = range else {
        return checks.add("ports", State::Warn, "the range of local ports cannot be read");
    };
    let count = (high + 1).saturating_sub(low);
    let text = format!("{count} local ports, {low} to {high}");
    // A closed connection keeps its port for a while.
    if count < 4 * settings.crawl.concurrency as u64 {
        checks.add(
            "ports",
            State::Warn,
            format!("{text}: few for crawl.concurrency; widen net.ipv4.ip_local_port_range"),
        );
    } else {
        checks.add("ports", State::Ok, text);
    }
}

fn clock(checks: &mut Checks, now_ms: u64) {
    let text = nephila_core::time::Timestamp(now_ms).warc_date();
    if (CLOCK_MIN_MS..CLOCK_MAX_MS).contains(&now_ms) {
        checks.add("clock", State::Ok, text);
    } else {
        let more = format!("{text} cannot be: set the clock, captures carry its time");
        checks.add("clock", State::Fail, more);
    }
}

fn names(checks: &mut Checks, settings: &Settings) -> anyhow::Result<()> {
    let resolver = match Resolver::new(&settings.spider) {
        Ok(resolver) => resolver,
        Err(error) => {
            checks.add("names", State::Fail, error.to_string());
            return Ok(());
        }
    };
    let runtime = small_runtime()?;
    let began = Instant::now();
    let asked = block_on(&runtime, async {
        tokio::time::timeout(RESOLVE_TIMEOUT, resolver.resolve(KNOWN_NAME)).await
    });
    runtime.shutdown_background();
    match asked {
        Ok((Ok(addresses), _)) => {
            let text =
                format!("{KNOWN_NAME} has {} addresses, asked for {}", addresses.len(), ms(began.elapsed()));
            checks.add("names", State::Ok, text);
        }
        // The name servers answered, which is enough: a closed network may have only its own names.
        Ok((Err(outcome @ (Outcome::DnsNxdomain | Outcome::DnsNodata)), _)) => {
            checks.add("names", State::Ok, format!("the name servers answer ({KNOWN_NAME}: {outcome})"));
        }
        Ok((Err(outcome), _)) => checks.add(
            "names",
            State::Fail,
            format!("{KNOWN_NAME}: {outcome}; see /etc/resolv.conf, or set spider.dns_servers"),
        ),
        Err(_) => checks.add(
            "names",
            State::Fail,
            format!(
                "no answer within {}; see /etc/resolv.conf, or set spider.dns_servers",
                ms(RESOLVE_TIMEOUT)
            ),
        ),
    }
    Ok(())
}

fn state(checks: &mut Checks, folder: &Folder) {
    if !folder.dir().is_dir() {
        return checks.add("folder", State::Ok, format!("{} is not there yet", folder.dir().display()));
    }
    match folder.plan() {
        Err(error) => {
            return checks.add("folder", State::Fail, format!("{error:#}; take job.json from a backup"));
        }
        Ok(None) => {
            checks.add("folder", State::Ok, format!("{} holds no crawl yet", folder.dir().display()));
            return open_files(checks, folder, false);
        }
        Ok(Some(plan)) => {
            checks.add("folder", State::Ok, format!("a crawl with {} seeds", plan.job.scope.seeds.len()))
        }
    }
    let settings = super::settings_of(folder);
    if let Err(error) = &settings {
        checks.add("folder", State::Fail, format!("{error:#}; the next `nephila crawl` writes it again"));
    }
    let in_memory = settings.is_ok_and(|settings| settings.crawl.state == StateKind::Memory);
    // Asked before the lock is tried, which would make the folder.
    let held = folder.state().join("lock").is_file() && folder.lock().is_err();
    match (held, in_memory) {
        (true, _) => checks.add("lock", State::Ok, "a process works here"),
        (false, true) => checks.add("lock", State::Warn, "free; its state was in memory and is gone"),
        (false, false) => checks.add("lock", State::Ok, "free: the same command goes on with the crawl"),
    }
    match fs::metadata(folder.state().join("secret")) {
        Ok(file) if file.len() != 16 => {
            checks.add(
                "state",
                State::Fail,
                "state/secret is damaged: take it from a backup, nothing is found without it",
            );
        }
        Err(error) => {
            checks.add("state", State::Warn, format!("state/secret: {error}; made by the next crawl"))
        }
        Ok(_) => checks.add("state", State::Ok, "its key is there"),
    }
    damage(checks, folder, held);
    open_files(checks, folder, held);
    log_end(checks, folder, held);
}

/// Checks for missing or damaged files by the inventory of the folder. The bytes of old archive files are left to
/// `nephila verify`.
fn damage(checks: &mut Checks, folder: &Folder, held: bool) {
    use nephila_store::archive::damage::{LOOK_BYTES_MAX, look};
    let before = checks.0.len();
    match nephila_engine::folder::inspect::inspect(folder, held) {
        Ok(found) => found.into_iter().for_each(|found| {
            checks.add("contents", State::Fail, format!("{}: {}", found.file.display(), found.text));
        }),
        Err(error) => checks.add("contents", State::Fail, format!("{error:#}")),
    }
    let contents = match Contents::read(folder.dir()) {
        Ok(Some(contents)) => contents,
        Ok(None) => {
            return checks.add(
                "contents",
                State::Warn,
                "there is no list of what belongs here; the next crawl makes it",
            );
        }
        Err(error) => {
            let text = format!("contents: {error}; the next crawl makes it again from what is there");
            return checks.add("contents", State::Fail, text);
        }
    };
    let mend = format!(
        "put it back from a copy, or `nephila crawl -o {} --mend` fetches its pages again",
        folder.dir().display()
    );
    match look(folder.dir(), &contents, LOOK_BYTES_MAX) {
        Ok(found) => found.into_iter().for_each(|found| {
            let todo = if found.what.is_mended() { "the next crawl does" } else { &mend };
            checks.add("contents", State::Fail, format!("{} {}: {todo}", found.file.display(), found.what));
        }),
        Err(error) => checks.add("contents", State::Fail, error.to_string()),
    }
    if checks.0.len() == before {
        let files = contents.files.len();
        checks.add(
            "contents",
            State::Ok,
            format!("{files} archive files and {} partitions, all there", contents.partitions),
        );
    }
}

/// Reports archive files that a crawl left open; the next crawl repairs them.
fn open_files(checks: &mut Checks, folder: &Folder, held: bool) {
    let Ok(entries) = fs::read_dir(folder.archive()) else { return };
    let is_open = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().ends_with(roll::OPEN);
    let open = entries.take(FILES_MAX).flatten().filter(is_open).count();
    match (open, held) {
        (0, _) => checks.add("archive", State::Ok, "every file is closed"),
        (open, true) => checks.add("archive", State::Ok, format!("{open} files are being written")),
        (open, false) => checks.add(
            "archive",
            State::Warn,
            format!(
                "{open} files were left open, as a kill leaves them: the next crawl mends and closes them"
            ),
        ),
    }
}

/// Reports a torn last line of the log; the next crawl terminates that line.
fn log_end(checks: &mut Checks, folder: &Folder, held: bool) {
    let last = nephila_engine::log::files(&folder.logs()).ok().and_then(|mut files| files.pop());
    let Some(last) = last.filter(|_| !held) else { return };
    let ends = || -> io::Result<bool> {
        let mut file = File::open(&last)?;
        if file.metadata()?.len() == 0 {
            return Ok(true);
        }
        file.seek(SeekFrom::End(-1))?;
        let mut byte = [0];
        file.read_exact(&mut byte)?;
        Ok(byte == *b"\n")
    };
    match ends() {
        Ok(true) => match lines_skipped(folder) {
            Ok(0) => checks.add("log", State::Ok, "ends with a whole line"),
            Ok(skipped) => checks.add(
                "log",
                State::Warn,
                format!(
                    "{skipped} lines cannot be read: torn by a kill, or damaged; reports do without them"
                ),
            ),
            Err(error) => checks.add("log", State::Fail, format!("{}: {error}", folder.logs().display())),
        },
        Ok(false) => {
            checks.add("log", State::Warn, "its last line is torn, as a kill leaves it: readers skip it")
        }
        Err(error) => checks.add("log", State::Fail, format!("{}: {error}", last.display())),
    }
}

/// Number of unreadable lines among the first lines of the log.
fn lines_skipped(folder: &Folder) -> io::Result<u64> {
    let mut lines = nephila_engine::log::Lines::of(&folder.logs())?;
    for line in lines.by_ref().take(LOG_LINES_MAX) {
        line?;
    }
    Ok(lines.skipped())
}

#[cfg(test)]
mod tests;
