//! `cargo xtask bench stages`: where the CPU of a page goes, on pages of 185 KB over TLS, compressed on the wire.
//!
//! Runs `crates/nephila-proof/src/bin/stages.rs`, which says how each stage is measured, against a web of its own.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::programs::{Programs, Server};
use crate::shell;

/// Timeout of the whole measurement.
const LIMIT: Duration = Duration::from_secs(600);
/// Maximum cost of one page in all, in milliseconds of one core.
const TOTAL_MS_MAX: f64 = 3.5;
/// Maximum cost of sockets and HTTP therein.
const HTTP_MS_MAX: f64 = 0.5;

/// Sizes of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of pages.
    #[arg(long, default_value_t = 400)]
    pages: u32,
    /// Size of a page before compression, in bytes.
    #[arg(long, default_value_t = 185_000)]
    page_bytes: u32,
    /// Number of links of a page.
    #[arg(long, default_value_t = 105)]
    links: u32,
    /// Compression of the archive: `gzip` or `zstd`.
    #[arg(long, default_value = "gzip")]
    compression: String,
    /// Do not fail when a goal is missed.
    #[arg(long)]
    report_only: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let programs = Programs::build()?;
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let settings = folder.path().join("web.json");
    let web = serde_json::json!({
        "hosts": 20, "pages": args.pages * 2, "page_bytes": args.page_bytes, "page_bytes_sigma": 0.0, "links": args.links,
        "https_share": 1.0, "encodings": ["gzip"], "addresses": 4, "journal_max": 0, "http_port": 0, "https_port": 0,
    });
    std::fs::write(&settings, web.to_string()).context("write the settings of the web")?;
    let ca = folder.path().join("ca.pem");
    let mut serve = Command::new(programs.path("testweb")?);
    serve.args(["serve", "--no-journal", "--settings"]).arg(&settings).arg("--ca").arg(&ca);
    let server = Server::start(&mut serve)?;
    let (http, https) = (server.port("http_port")?, server.port("https_port")?);
    let list = Command::new(programs.path("testweb")?)
        .args(["list", "--settings"])
        .arg(&settings)
        .args(["--http-port", &http.to_string(), "--https-port", &https.to_string()])
        .output()
        .context("list the pages")?;
    ensure!(list.status.success(), "testweb list: {}", String::from_utf8_lossy(&list.stderr));
    let urls = folder.path().join("urls.txt");
    std::fs::write(&urls, &list.stdout).context("write the list")?;
    let mut command = Command::new(programs.path("stages")?);
    command.args(["--web", &server.ready.to_string(), "--pages", &args.pages.to_string()]);
    command.args(["--compression", &args.compression, "--list"]).arg(&urls);
    let (status, text) = shell::tee(&mut command, LIMIT)?;
    ensure!(status.success(), "the measurement failed");
    let figures: serde_json::Value =
        serde_json::from_str(text.lines().last().unwrap_or_default()).context("the line of figures")?;
    let ms = |value: &serde_json::Value| value.as_f64().context("a number");
    let (total, http) = (ms(&figures["total_ms"])?, ms(&figures["stages_ms"]["sockets, TLS records, HTTP"])?);
    println!(
        "bench stages: {total:.2} ms of CPU a page (goal {TOTAL_MS_MAX}), {http:.2} of it sockets and HTTP (goal {HTTP_MS_MAX})"
    );
    let kept = total <= TOTAL_MS_MAX && http <= HTTP_MS_MAX;
    ensure!(kept || args.report_only, "a goal is missed");
    Ok(())
}
