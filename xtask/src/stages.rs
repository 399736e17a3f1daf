//! `cargo xtask bench stages`: where the CPU of a page goes, on pages of 185 KB over TLS, compressed on the wire; or on
//! plain pages of any size.
//!
//! Runs `crates/nephila-proof/src/bin/stages.rs`, which says how each stage is measured, against a web of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::programs::{Programs, Server};
use crate::shell;

/// Timeout of the whole measurement.
const LIMIT: Duration = Duration::from_secs(600);
/// Maximum cost of one page in all, in milliseconds of one core.
const TOTAL_MS_MAX: f64 = 3.5;
/// Maximum cost of sockets and HTTP therein.
const HTTP_MS_MAX: f64 = 0.5;
/// The stage of that goal.
const HTTP: &str = "sockets, TLS records, HTTP";
/// The default number of pages.
pub(crate) const PAGES: u32 = 400;

/// Sizes of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of pages.
    #[arg(long, default_value_t = PAGES)]
    pub(crate) pages: u32,
    /// Size of a page before compression, in bytes.
    #[arg(long, default_value_t = 185_000)]
    pub(crate) page_bytes: u32,
    /// Number of links of a page.
    #[arg(long, default_value_t = 105)]
    pub(crate) links: u32,
    /// Plain HTTP, without compression on the wire.
    #[arg(long)]
    pub(crate) plain: bool,
    /// Compression of the archive: `gzip` or `zstd`.
    #[arg(long, default_value = "gzip")]
    pub(crate) compression: String,
    /// Do not fail when a goal is missed. The goals are those of pages of 185 KB over TLS.
    #[arg(long)]
    pub(crate) report_only: bool,
}

impl Default for Args {
    fn default() -> Args {
        let compression = "gzip".to_owned();
        Args { pages: PAGES, page_bytes: 185_000, links: 105, plain: false, compression, report_only: false }
    }
}

/// What one page costs, stage by stage, in milliseconds of one core.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Profile {
    pages: u32,
    /// Size of a page, in the mean, without its coding.
    bytes: u64,
    /// Links that were read on a page, in the mean.
    links: f64,
    /// Plain HTTP, without compression on the wire.
    #[serde(default)]
    is_plain: bool,
    total_ms: f64,
    stages_ms: BTreeMap<String, f64>,
}

impl Profile {
    /// The pages in words.
    pub(crate) fn title(&self) -> String {
        let Profile { pages, bytes, links, is_plain, .. } = self;
        let wire = if *is_plain { "plain HTTP" } else { "gzip over TLS" };
        format!(
            "{pages} pages of {} KB with {links:.0} links, {wire}, a connection for each page",
            bytes / 1_000
        )
    }

    /// The stages as a table, the most expensive first.
    pub(crate) fn markdown(&self) -> String {
        let mut stages: Vec<(&String, &f64)> = self.stages_ms.iter().collect();
        stages.sort_by(|a, b| b.1.total_cmp(a.1));
        let row = |(name, ms): &(&String, &f64)| format!("| {name} | {ms:.3} |\n");
        let rows: String = stages.iter().map(row).collect();
        format!("| stage | CPU ms/page |\n|---|---:|\n{rows}| in all | {:.3} |\n", self.total_ms)
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let programs = Programs::build()?;
    let profile = measure(&args, programs.path("testweb")?, programs.path("stages")?)?;
    let total = profile.total_ms;
    let http = *profile.stages_ms.get(HTTP).context("no stage of sockets")?;
    println!(
        "bench stages: {total:.2} ms of CPU a page (goal {TOTAL_MS_MAX}), {http:.2} of it sockets and HTTP (goal {HTTP_MS_MAX})"
    );
    let kept = total <= TOTAL_MS_MAX && http <= HTTP_MS_MAX;
    ensure!(kept || args.report_only, "a goal is missed");
    Ok(())
}

/// Measures the pages of a new web, and shows what the program says.
pub(crate) fn measure(args: &Args, testweb: &Path, program: &Path) -> Result<Profile> {
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let settings = folder.path().join("web.json");
    let (https_share, encodings): (f64, &[&str]) = if args.plain { (0.0, &[]) } else { (1.0, &["gzip"]) };
    let web = serde_json::json!({
        "hosts": 20, "pages": args.pages * 2, "page_bytes": args.page_bytes, "page_bytes_sigma": 0.0, "links": args.links,
        "https_share": https_share, "encodings": encodings, "addresses": 4, "journal_max": 0, "http_port": 0, "https_port": 0,
    });
    std::fs::write(&settings, web.to_string()).context("write the settings of the web")?;
    let ca = folder.path().join("ca.pem");
    let mut serve = Command::new(testweb);
    serve.args(["serve", "--no-journal", "--settings"]).arg(&settings).arg("--ca").arg(&ca);
    let server = Server::start(&mut serve)?;
    let (http, https) = (server.port("http_port")?, server.port("https_port")?);
    let list = Command::new(testweb)
        .args(["list", "--settings"])
        .arg(&settings)
        .args(["--http-port", &http.to_string(), "--https-port", &https.to_string()])
        .output()
        .context("list the pages")?;
    ensure!(list.status.success(), "testweb list: {}", String::from_utf8_lossy(&list.stderr));
    let urls = folder.path().join("urls.txt");
    std::fs::write(&urls, &list.stdout).context("write the list")?;
    let mut command = Command::new(program);
    command.args(["--web", &server.ready.to_string(), "--pages", &args.pages.to_string()]);
    command.args(["--compression", &args.compression, "--list"]).arg(&urls);
    let text = shell::output(&mut command, LIMIT)?;
    // The last line is for programs.
    let (shown, figures) = text.trim_end().rsplit_once('\n').context("no figures")?;
    println!("{shown}");
    let profile: Profile = serde_json::from_str(figures).context("the line of figures")?;
    Ok(Profile { is_plain: args.plain, ..profile })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_and_shown_with_the_dearest_stage_first() {
        let line = r#"{"pages":40,"bytes":20000,"links":39.5,"total_ms":0.75,"stages_ms":{"archive":0.25,"parse":0.5}}"#;
        let profile: Profile = serde_json::from_str(line).unwrap();
        assert_eq!(
            profile.title(),
            "40 pages of 20 KB with 40 links, gzip over TLS, a connection for each page"
        );
        let rows: Vec<String> = profile.markdown().lines().skip(2).map(str::to_owned).collect();
        assert_eq!(rows, ["| parse | 0.500 |", "| archive | 0.250 |", "| in all | 0.750 |"]);
    }
}
