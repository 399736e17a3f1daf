//! `web-speed`: checks that the synthetic web is quick enough not to limit our measurements.
//!
//! `wrk` requests many different pages of the web and one fixed page of the same size of a bare hyper server, in turn
//! and in the same run, so that other load on the machine meets both. The figure is the median of the ratios of
//! neighbouring runs; below [`RATIO_MIN`] the command fails. Runs of a second or two only show that the command works.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::programs::Programs;

/// Minimum rate of the web as a share of the bare server's rate.
const RATIO_MIN: f64 = 0.60;
/// Runs shorter than this many seconds prove that the command works, not how quick the web is: on a machine that does
/// something else beside, they are judged by [`RATIO_MIN_SHORT`].
const SECONDS_JUDGED: u32 = 3;
/// Minimum share for a short run on a busy machine.
const RATIO_MIN_SHORT: f64 = 0.20;
/// Pairs of runs.
const REPETITIONS: usize = 3;
/// Number of pages requested in turn, so that no cache on either side answers.
const PAGES: u32 = 2000;

/// Measures the synthetic web against a bare server.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of each of the six runs
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Size of every page
    #[arg(long, default_value_t = 20_000)]
    page_bytes: u32,
    /// Connections kept open
    #[arg(long, default_value_t = 32)]
    connections: u32,
    /// A `testweb` built before, instead of building one now
    #[arg(long)]
    testweb: Option<PathBuf>,
}

/// Runs both servers and `wrk` against them.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let testweb = match &args.testweb {
        Some(testweb) => testweb.clone(),
        None => Programs::build()?.path("testweb")?.to_owned(),
    };
    let size = args.page_bytes.to_string();
    let bare = Server::start(&testweb, &["bench-bare", "--page-bytes", &size], "127.0.0.1")?;
    let pages = (PAGES * 10).to_string();
    let web = [
        "serve",
        "--hosts",
        "8",
        "--pages",
        &pages,
        "--page-bytes",
        &size,
        "--page-bytes-sigma",
        "0",
        "--addresses",
        "1",
    ];
    let web = Server::start(&testweb, &web, "127.77.0.1")?;
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let script = folder.path().join("pages.lua");
    std::fs::write(&script, lua()).context("write the script of wrk")?;

    let mut ratios = Vec::new();
    for repetition in 0..REPETITIONS {
        // Every other pair the other way round: the first of a pair finds a machine that just rested.
        let (bare_rate, web_rate) = if repetition % 2 == 0 {
            let bare_rate = measure(&bare, &args, &script)?;
            (bare_rate, measure(&web, &args, &script)?)
        } else {
            let web_rate = measure(&web, &args, &script)?;
            (measure(&bare, &args, &script)?, web_rate)
        };
        let ratio = web_rate / bare_rate;
        println!("pair {}: bare {bare_rate:.0}/s, web {web_rate:.0}/s, ratio {ratio:.3}", repetition + 1);
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    let wanted = if args.seconds < SECONDS_JUDGED { RATIO_MIN_SHORT } else { RATIO_MIN };
    println!(
        "web-speed: median ratio {median:.3} of {REPETITIONS} pairs at {size} bytes, at least {wanted:.2}"
    );
    ensure!(median >= wanted, "the web is too slow: {median:.3} of the bare server, {wanted:.2} wanted");
    Ok(())
}

/// A server that ends when this value is dropped: its standard input closes, and if that is not enough the process is
/// killed.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(testweb: &Path, arguments: &[&str], address: &str) -> anyhow::Result<Server> {
        let mut child = Command::new(testweb)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", testweb.display()))?;
        let mut line = String::new();
        let ready = BufReader::new(child.stdout.take().context("no standard output")?).read_line(&mut line);
        let mut server = Server { child, url: String::new() };
        ready.context("read the ready line")?;
        let ready: serde_json::Value = serde_json::from_str(&line).context("understand the ready line")?;
        let port = ready["http_port"].as_u64().context("no port in the ready line")?;
        server.url = format!("http://{address}:{port}/");
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Both servers get the same requests: many pages of the largest host.
fn lua() -> String {
    format!(
        "local requests, n = {{}}, 0\n\
         init = function(args)\n\
         for i = 1, {PAGES} do requests[i] = wrk.format('GET', '/p/' .. i, {{['Host'] = 'h0.d0.test'}}) end\n\
         end\n\
         request = function() n = n % {PAGES} + 1; return requests[n] end\n"
    )
}

/// Requests per second of one run.
fn measure(server: &Server, args: &Args, script: &Path) -> anyhow::Result<f64> {
    let output = Command::new("wrk")
        .args(["-t", "1", "-c", &args.connections.to_string(), "-d", &format!("{}s", args.seconds), "-s"])
        .arg(script)
        .arg(&server.url)
        .output()
        .context("run wrk (Debian package `wrk`)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "wrk failed: {}", String::from_utf8_lossy(&output.stderr));
    if text.contains("Non-2xx") || text.contains("Socket errors") {
        bail!("wrk saw errors:\n{text}");
    }
    rate(&text).with_context(|| format!("wrk gave no rate:\n{text}"))
}

/// The rate in the output of `wrk`.
fn rate(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_wrk_is_read() {
        let text = "Running 1s test @ http://127.0.0.1:80/\n  1 threads and 2 connections\nRequests/sec:  12345.67\n\
                    Transfer/sec:      1.00MB\n";
        assert_eq!(rate(text), Some(12_345.67));
        assert_eq!(rate("unable to connect"), None);
    }

    #[test]
    fn the_script_asks_for_pages_by_number() {
        assert!(lua().contains("for i = 1, 2000 do") && lua().contains("{['Host'] = 'h0.d0.test'}"));
    }
}
