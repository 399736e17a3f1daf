//! The crawler as a child process: its command line, its life, its end.
//!
//! Invariants: no child outlives its [`Run`]; every wait has a timeout.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nephila_engine::exit::Exit;

use crate::site::Site;

/// Polling interval of a waiting parent.
const LOOK: Duration = Duration::from_millis(10);
/// Maximum length of the output shown of a failed crawl, in bytes.
const SAID_BYTES_MAX: usize = 2_000;

/// The program, and the folder of its crawls.
pub struct Place {
    /// The crawler.
    pub program: PathBuf,
    /// A folder of ours.
    pub base: PathBuf,
}

impl Place {
    /// A new folder for one crawl; earlier contents are removed.
    pub fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.base.join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

/// The rests (crawl delays) that are set, and judged.
#[derive(Clone, Copy, Debug)]
pub struct Rests {
    /// Of a host between two requests.
    pub host: Duration,
    /// Of an address.
    pub slot: Duration,
}

/// One crawl: the same command begins and continues the crawl.
#[derive(Clone, Debug)]
pub struct Crawler {
    program: PathBuf,
    dir: PathBuf,
    said: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// The exit code of a good end.
    ends_with: u8,
}

impl Crawler {
    /// A crawl of a site into `folder`/crawl. Everything that waits is scaled down, so that a crawl ends in minutes.
    pub fn new(
        place: &Place,
        folder: &Path,
        site: &Site,
        seeds: &Path,
        scope: &str,
        rests: Rests,
    ) -> Crawler {
        let web = site.web();
        let dir = folder.join("crawl");
        let mut crawler = Crawler {
            program: place.program.clone(),
            said: folder.join("said.txt"),
            args: Vec::new(),
            env: vec![("NEPHILA_CONFIG".into(), "/dev/null".into())],
            dir: dir.clone(),
            ends_with: Exit::Done as u8,
        };
        for arg in ["crawl", "--progress", "json", "-d", "255", "--scope", scope, "-i"] {
            crawler.args.push(arg.into());
        }
        crawler.args.push(seeds.display().to_string());
        crawler.args.extend(["-o".into(), dir.display().to_string()]);
        let dns: SocketAddr = web.dns_addr();
        for set in [
            format!("spider.dns_servers=[\"{dns}\"]"),
            format!("spider.ports=[{}, {}]", web.http_port(), web.https_port()),
            format!("spider.ca_file=\"{}\"", site.ca().display()),
            "spider.allow_addresses=[\"127.0.0.0/8\", \"::1/128\"]".into(),
            "identity.agent=nephila".into(),
            format!("frontier.host_delay={}us", rests.host.as_micros()),
            format!("frontier.slot_delay={}us", rests.slot.as_micros()),
            "frontier.host_delay_factor=0".into(),
            "frontier.host_connections=1".into(),
            "frontier.slot_connections=1".into(),
            // Tarpits and dead hosts are found out soon.
            "spider.dns_timeout=500ms".into(),
            "spider.dns_total_timeout=1s".into(),
            "spider.connect_timeout=1s".into(),
            "spider.tls_timeout=3s".into(),
            "spider.head_timeout=3s".into(),
            "spider.body_idle_timeout=500ms".into(),
            "spider.total_timeout=10s".into(),
            "frontier.ticket_timeout=20s".into(),
            // One more try after a second; the next would be later than the minute that a crawl waits in any case.
            "retry.retries_max=1".into(),
            "retry.retries_broken_max=1".into(),
            "retry.back_off_first=1s".into(),
            "retry.back_off_other_first=1s".into(),
            "retry.back_off_broken_first=1s".into(),
            "retry.back_off_factor=1000".into(),
            "retry.back_off_max=1h".into(),
            "retry.host_rest_first=100ms".into(),
            "retry.host_rest_max=300ms".into(),
            "retry.pause=1s".into(),
            "crawl.retry_wait_max=8s".into(),
            // No run waits long for names or hosts that never come; the others come much sooner.
            "crawl.wait_max=20s".into(),
            "crawl.disk_free_min=0".into(),
            // Budgets are another proof's matter.
            "budget.domain_urls=1000000000".into(),
        ] {
            crawler.set(&set);
        }
        crawler
    }

    /// A node of a cluster that is set up like the crawl, in a folder of its own.
    pub fn node(&self, folder: &Path, name: &str) -> Crawler {
        let mut node = self.clone();
        node.dir = folder.join(name);
        node.said = folder.join(format!("{name}.txt"));
        let dir = node.dir.display().to_string();
        node.args = ["serve", "-o", &dir, "--node", name].map(str::to_owned).to_vec();
        node.args.extend(self.settings());
        node.ends_with = Exit::Stopped as u8;
        node
    }

    /// A spider for these nodes.
    pub fn spider(&self, folder: &Path, name: &str, nodes: &[String], site_ca: &Path) -> Crawler {
        let mut spider = self.clone();
        spider.said = folder.join(format!("{name}.txt"));
        let ca = site_ca.display().to_string();
        let args = ["spider", "--node", &nodes.join(","), "--name", name, "--site-ca", &ca];
        spider.args = args.map(str::to_owned).to_vec();
        spider.ends_with = Exit::Stopped as u8;
        spider
    }

    /// A command for the same servers; its output goes into a file of this folder.
    pub fn command_of(&self, folder: &Path, args: &[String]) -> Crawler {
        let mut command = self.clone();
        command.said = folder.join("commands.txt");
        command.args = args.iter().cloned().chain(self.settings()).collect();
        command
    }

    /// A crawl of the same folder that follows the feeds of its list until stopped.
    pub fn follower(&self) -> Crawler {
        let mut follower = self.clone();
        let dir = self.dir.display().to_string();
        follower.args = ["crawl", "-o", &dir, "--forever", "-q"].map(str::to_owned).to_vec();
        follower.args.extend(self.settings());
        follower.ends_with = Exit::Stopped as u8;
        follower
    }

    /// The flags of all settings.
    pub fn settings(&self) -> impl Iterator<Item = String> + '_ {
        let pairs = self.args.windows(2).filter(|pair| pair[0] == "--set");
        pairs.flat_map(|pair| pair.iter().cloned())
    }

    /// One more setting.
    pub fn set(&mut self, set: &str) {
        self.args.extend(["--set".into(), set.into()]);
    }

    /// Removes a setting that an older program may not know.
    pub fn unset(&mut self, name: &str) {
        let is_it = |arg: &String| arg.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
        while let Some(at) = self.args.iter().position(is_it) {
            self.args.drain(at - 1..=at);
        }
    }

    /// Sets a limit, whose exit code then counts as success.
    pub fn set_limit(&mut self, flag: &str, value: &str, end: Exit) {
        self.args.extend([flag.into(), value.into()]);
        self.ends_with = end as u8;
    }

    /// One more variable of its environment.
    pub fn env(&mut self, name: &str, value: &str) {
        self.env.push((name.into(), value.into()));
    }

    /// Another program continues the crawl.
    pub fn set_program(&mut self, program: &Path) {
        self.program = program.to_owned();
    }

    /// Its folder lies elsewhere.
    pub fn set_dir(&mut self, dir: PathBuf) {
        let at = self.args.iter().position(|arg| arg == "-o").expect("given above");
        self.args[at + 1] = dir.display().to_string();
        self.dir = dir;
    }

    /// The file of the output.
    pub fn said(&self) -> &Path {
        &self.said
    }

    /// Where the crawl lies.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts or continues the crawl.
    pub fn start(&self) -> anyhow::Result<Run> {
        let said = File::options().create(true).append(true).open(&self.said)?;
        let child = self
            .command()
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said)
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        let said = self.said.clone();
        Ok(Run { child, began: Instant::now(), peak_kb: 0, said, ends_with: self.ends_with })
    }

    /// Runs the crawl to its end, which must be a success.
    pub fn finish(&self, limit: Duration) -> anyhow::Result<Ended> {
        self.start()?.finish(limit)
    }

    /// The answer to a question about the crawl, and its exit status.
    pub fn ask(&self, args: &[&str]) -> anyhow::Result<(ExitStatus, String)> {
        let output = self.command().args(args).stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        Ok((output.status, String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    /// The same, with standard error.
    pub fn ask_all(&self, args: &[&str]) -> anyhow::Result<(ExitStatus, String)> {
        let output = self.command().args(args).stdin(Stdio::null()).output()?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status, String::from_utf8_lossy(&said).into_owned()))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// How a crawl ended by itself.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// From start to end.
    pub took: Duration,
    /// Peak of its resident memory, in kB.
    pub peak_kb: u64,
}

/// A crawl that runs.
pub struct Run {
    child: Child,
    began: Instant,
    peak_kb: u64,
    said: PathBuf,
    ends_with: u8,
}

impl Run {
    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a moment; returns whether the crawl has ended by itself before.
    pub fn wait_until(&mut self, moment: Instant) -> anyhow::Result<bool> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.expect_good(status)?;
                return Ok(true);
            }
            let now = Instant::now();
            if now >= moment {
                return Ok(false);
            }
            self.look();
            std::thread::sleep(LOOK.min(moment - now));
        }
    }

    /// Waits for its end, which must be a good one.
    pub fn finish(mut self, limit: Duration) -> anyhow::Result<Ended> {
        if !self.wait_until(self.began + limit)? {
            let said = self.said();
            bail!("the crawl did not end within {} s; it said last: {said}", limit.as_secs());
        }
        Ok(Ended { took: self.began.elapsed(), peak_kb: self.peak_kb })
    }

    /// Its peak memory so far.
    pub fn peak_kb(&self) -> u64 {
        self.peak_kb
    }

    /// Asks the crawl to end.
    pub fn ask_to_end(&self) -> anyhow::Result<()> {
        self.signal(rustix::process::Signal::TERM)
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: rustix::process::Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        Ok(rustix::process::kill_process(pid.context("a process id")?, signal)?)
    }

    /// Waits this long for its end, which must be a good one.
    pub fn finish_within(mut self, limit: Duration) -> anyhow::Result<()> {
        if !self.wait_until(Instant::now() + limit)? {
            bail!("it did not end within {} s; it said last: {}", limit.as_secs(), self.said());
        }
        Ok(())
    }

    /// Pulls the plug.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn expect_good(&self, status: ExitStatus) -> anyhow::Result<()> {
        // Ended by itself: whether a page that never works, or a host that never answers, is left is judged elsewhere.
        let by_itself =
            [Exit::Done, Exit::SeedsFailed, Exit::TriesLeft, Exit::WaitLimit].map(|exit| exit as i32);
        let done =
            self.ends_with == Exit::Done as u8 && status.code().is_some_and(|code| by_itself.contains(&code));
        if !done && status.code() != Some(i32::from(self.ends_with)) {
            bail!("the crawl ended with {status}; it said last: {}", self.said());
        }
        Ok(())
    }

    /// Reads the peak memory while the process runs: afterwards the figure is gone.
    fn look(&mut self) {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
        self.peak_kb = self.peak_kb.max(peak.unwrap_or(0));
    }

    fn said(&self) -> String {
        let text = std::fs::read(&self.said).unwrap_or_default();
        let from = text.len().saturating_sub(SAID_BYTES_MAX);
        String::from_utf8_lossy(&text[from..]).into_owned()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
