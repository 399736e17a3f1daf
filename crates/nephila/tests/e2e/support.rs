//! A hostile web, and a way to run `nephila fetch` against this web.
//!
//! A run has short deadlines, no rests and no settings of the machine; a test adds the settings under test. A run that
//! does not end within [`RUN_MAX`] is killed and fails its test.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nephila_testweb::hostile::{self, Hostile};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Timeout of a run.
const RUN_MAX: Duration = Duration::from_secs(90);
/// Interval between readings of a run's CPU time.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);
/// Environment variables that would change the behaviour of a run.
const FOREIGN_VARIABLES: &[&str] =
    &["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "NEPHILA_CONFIG"];

/// A hostile web that the command may reach. 127.0.0.1, where the tripwire is, stays forbidden.
pub(crate) struct World {
    pub(crate) web: Hostile,
    ca: tempfile::NamedTempFile,
}

impl World {
    /// A hostile web at the catalogue's pace.
    pub(crate) async fn start() -> World {
        World::start_on(hostile::Settings::default()).await
    }

    /// A hostile web with its own pace.
    pub(crate) async fn start_on(settings: hostile::Settings) -> World {
        let web = Hostile::start(settings).await.expect("the hostile web starts");
        let ca = tempfile::NamedTempFile::new().expect("a file for the CA");
        std::fs::write(ca.path(), web.ca_pem()).expect("the CA is written");
        World { web, ca }
    }

    /// `nephila fetch`, not yet run.
    pub(crate) fn fetch(&self) -> Run {
        let (port, tls, other) = (self.web.port(), self.web.tls_port(), self.web.other_port());
        let run = Run { args: Vec::new(), urls: Vec::new(), handles_max: None, variables: Vec::new() }
            .args(["fetch", "--json", "--config", "/dev/null"]);
        run.set(format!("spider.dns_servers=[\"{}\"]", self.web.dns_addr()))
            .set("spider.allow_addresses=[\"127.80.0.0/12\"]")
            .set(format!("spider.ports=[80, 443, {port}, {tls}, {other}]"))
            .set(format!("spider.ca_file={}", self.ca.path().display()))
            .set("frontier.host_delay=0s")
            .set("frontier.slot_delay=0s")
            .set("spider.dns_timeout=700ms")
            .set("spider.dns_total_timeout=3s")
            // No test waits for these timeouts; a busy machine must not reach them.
            .set("spider.connect_timeout=10s")
            .set("spider.tls_timeout=10s")
            .set("spider.write_timeout=10s")
            .set("spider.head_timeout=10s")
            .set("spider.body_idle_timeout=10s")
            .set("spider.total_timeout=20s")
            .set("spider.speed_window=2s")
    }
}

/// A command that is being put together.
#[derive(Debug)]
pub(crate) struct Run {
    args: Vec<String>,
    urls: Vec<String>,
    handles_max: Option<u32>,
    variables: Vec<(&'static str, String)>,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Standard output, line by line.
    pub(crate) lines: Vec<Value>,
    /// Standard error.
    pub(crate) complaints: String,
    /// Its exit code.
    pub(crate) code: i32,
    /// Wall time of the run.
    pub(crate) took: Duration,
    /// CPU time at the last reading, a moment before the end.
    pub(crate) worked: Duration,
}

impl Run {
    /// Adds flags.
    pub(crate) fn args<T: Into<String>>(mut self, args: impl IntoIterator<Item = T>) -> Run {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Changes a setting; the last word counts.
    pub(crate) fn set(self, pair: impl Into<String>) -> Run {
        self.args(["--set".to_owned(), pair.into()])
    }

    /// Adds a URL, given on standard input.
    pub(crate) fn url(mut self, url: impl Into<String>) -> Run {
        self.urls.push(url.into());
        self
    }

    /// Adds URLs, given on standard input.
    pub(crate) fn urls<T: Into<String>>(mut self, urls: impl IntoIterator<Item = T>) -> Run {
        self.urls.extend(urls.into_iter().map(Into::into));
        self
    }

    /// Lets the command have no more file handles than this.
    pub(crate) fn handles_max(mut self, handles: u32) -> Run {
        self.handles_max = Some(handles);
        self
    }

    /// Sets a variable of its environment.
    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<String>) -> Run {
        self.variables.push((name, value.into()));
        self
    }

    /// Runs the command to its end.
    pub(crate) async fn run(self) -> Ran {
        let program = env!("CARGO_BIN_EXE_nephila");
        let mut command = match self.handles_max {
            None => Command::new(program),
            Some(handles) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {handles} && exec \"$0\" \"$@\"")]).arg(program);
                shell
            }
        };
        command
            .args(&self.args)
            .arg("-")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for name in FOREIGN_VARIABLES {
            command.env_remove(name);
        }
        command.envs(self.variables);
        let began = Instant::now();
        let mut child = command.spawn().expect("the command starts");
        let mut input = child.stdin.take().expect("piped");
        let text = self.urls.join("\n") + "\n";
        let feed = async move {
            // A command that ends early does not read on; its exit code says why.
            drop(input.write_all(text.as_bytes()).await);
        };
        let id = child.id().expect("it has just started");
        let mut worked = Duration::ZERO;
        let watch = async {
            loop {
                worked = processor_time(id).unwrap_or(worked);
                tokio::time::sleep(WATCH_INTERVAL).await;
            }
        };
        let both = async {
            tokio::select! {
                ended = async { tokio::join!(child.wait_with_output(), feed).0 } => ended,
                () = watch => unreachable!("it watches until the command ends"),
            }
        };
        let output =
            tokio::time::timeout(RUN_MAX, both).await.expect("the command ends").expect("its output");
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let lines = String::from_utf8_lossy(&output.stdout).lines().map(parse).collect();
        let code = output.status.code().unwrap_or_else(|| panic!("killed: {complaints}"));
        Ran { lines, complaints, code, took: began.elapsed(), worked }
    }
}

/// The CPU time of a process from the kernel: user and system time, in hundredths of a second (proc(5), fields 14 and
/// 15).
fn processor_time(id: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(10 * ticks))
}

impl Ran {
    /// The outcomes of all lines, in the order they were printed.
    pub(crate) fn outcomes(&self) -> Vec<&str> {
        self.lines.iter().map(|line| line["outcome"].as_str().unwrap_or_default()).collect()
    }

    /// Checks that there are this many lines and that all ended with this outcome.
    pub(crate) fn check_all(&self, count: usize, outcome: &str) {
        let wrong = self.lines.iter().find(|line| line["outcome"] != outcome);
        assert_eq!((self.lines.len(), wrong), (count, None), "exit code {}: {}", self.code, self.complaints);
    }
}
