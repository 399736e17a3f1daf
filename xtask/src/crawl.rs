//! `cargo xtask crawl complete | polite | plug | feeds | outage | shipped | bombs | soak | memory | planted`: proves
//! the promises of `nephila crawl`.
//!
//! `cargo xtask cluster-proof takeover | elastic | slots | stops | completion | versions | seeds | engine | objects |
//! lying | encryption` proves the promises of a cluster.
//!
//! The proofs themselves are in `crates/nephila-proof/src/bin/crawl_proof`; this builds them and the crawler and
//! starts them. Each ends with one line of figures, and fails when something does not hold.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::interop;
use crate::programs::Programs;
use crate::shell;

/// Timeout of a proof of any size; a soak may be told to last a day.
const LIMIT: Duration = Duration::from_secs(30 * 60 * 60);
/// Packages of the Scrapy environment, for `plug --peers`.
const SCRAPY: &[&str] = &["scrapy==2.19.0"];

/// The proof to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The proof (`complete`, `polite`, `plug`, `feeds`, `outage`, `shipped`, `bombs`, `soak`, `memory`, `planted`; of
    /// clusters `takeover`, `elastic`, `slots`, `stops`, `completion`, `versions`, `seeds`, `engine`, `objects`,
    /// `lying`, `encryption`), and sizes; `--help` after the name lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    proof: Vec<String>,
    /// Folder for the crawls; a temporary folder that is removed if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Folder of the Scrapy environment, for `plug --peers`.
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
}

/// Flags of a proof that has a command of its own.
#[derive(Debug, clap::Args)]
pub struct Sizes {
    /// Sizes; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    flags: Vec<String>,
}

/// Runs the proof of this name.
pub fn named(proof: &str, sizes: Sizes) -> Result<()> {
    let proof = std::iter::once(proof.to_owned()).chain(sizes.flags).collect();
    run(Args { proof, dir: None, cache: None })
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let programs = Programs::build()?;
    let mut command = Command::new(programs.path("crawl_proof")?);
    command.arg("--nephila").arg(programs.path("nephila")?);
    if let Some(dir) = &args.dir {
        command.arg("--dir").arg(dir);
    }
    command.args(&args.proof);
    let cache = args.cache;
    if args.proof.iter().any(|arg| arg == "--peers") {
        let cache = cache.clone().map_or_else(interop::default_cache, Ok)?;
        let scrapy = interop::environment(&cache.join("scrapy"), SCRAPY)?;
        command.arg("--python").arg(scrapy.join("bin/python"));
    }
    if args.proof.iter().any(|arg| arg == "--tables") {
        let cache = cache.map_or_else(interop::default_cache, Ok)?;
        let script = shell::root().join("xtask/interop/tables_judge.py");
        command.arg("--judge").arg(interop::table_tools(&cache)?).arg("--judge-script").arg(script);
    }
    shell::run(&mut command, LIMIT)
}
