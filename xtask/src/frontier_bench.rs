//! `cargo xtask bench frontier`: cost and memory of the frontier at scale.
//!
//! The measurement is a program of its own, `crates/nephila-store/examples/frontier_bench`, so that memory and CPU time
//! are its own; this command builds the program with the release profile and passes on the options below. Each part
//! runs in a fresh process: the peak memory of one part says nothing about the next.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::programs::Programs;
use crate::shell;

/// Timeout of a whole run at 100 million URLs.
const RUN_LIMIT: Duration = Duration::from_secs(3 * 3_600);

/// The parts, in the order in which they run.
const PARTS: [&str; 4] = ["scale", "hot", "explosion", "breadth"];

/// Parts and sizes of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these: `scale`, `hot`, `explosion`, `breadth`.
    #[arg(value_parser = PARTS)]
    parts: Vec<String>,
    /// Small and quick, with lowered goals, for CI.
    #[arg(long)]
    short: bool,
    /// Number of known URLs in each run of `scale`.
    #[arg(long, value_delimiter = ',')]
    known: Vec<u64>,
    /// Number of offers measured in each run of `scale`.
    #[arg(long)]
    offers: Option<u64>,
    /// Number of offers of a partition that are sifted together.
    #[arg(long)]
    batch: Option<u64>,
    /// Maximum number of URLs for the store and the merge beside `scale`; 0 to leave them out.
    #[arg(long)]
    baselines: Option<u64>,
    /// Number of URLs of the giant in `hot`.
    #[arg(long)]
    giant: Option<u64>,
    /// Number of pages fetched in `explosion`.
    #[arg(long)]
    pages: Option<u64>,
    /// Number of hosts in each run of `breadth`.
    #[arg(long, value_delimiter = ',')]
    hosts: Vec<u64>,
    /// Where the state is kept: `disk` or `memory`.
    #[arg(long, default_value = "disk")]
    state: String,
    /// Folder for files during the measurement; a temporary folder if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Do not fail when a goal is missed.
    #[arg(long)]
    report_only: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let programs = Programs::build()?;
    let program = programs.path("frontier_bench")?;
    let parts: Vec<&str> = match args.parts.is_empty() {
        true => PARTS.to_vec(),
        false => args.parts.iter().map(String::as_str).collect(),
    };
    let options = options(&args);
    let mut failed = Vec::new();
    for part in parts {
        let mut command = Command::new(program);
        command.arg(part).args(&options);
        if let Err(error) = shell::run(&mut command, RUN_LIMIT) {
            failed.push(format!("{part}: {error:#}"));
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

/// The options of the program.
fn options(args: &Args) -> Vec<String> {
    let list = |numbers: &[u64]| {
        let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
        (!texts.is_empty()).then(|| texts.join(","))
    };
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let mut options = vec!["--state".to_owned(), args.state.clone()];
    for (name, value) in [
        ("--known", list(&args.known)),
        ("--offers", number(args.offers)),
        ("--batch", number(args.batch)),
        ("--baselines", number(args.baselines)),
        ("--giant", number(args.giant)),
        ("--pages", number(args.pages)),
        ("--hosts", list(&args.hosts)),
        ("--dir", args.dir.as_ref().map(|dir| dir.display().to_string())),
    ] {
        options.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    }
    for (name, is_set) in [("--short", args.short), ("--report-only", args.report_only)] {
        if is_set {
            options.push(name.to_owned());
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn options_reach_the_program() {
        let cli = Cli::parse_from(["x", "scale", "--known", "1000,2000", "--short", "--batch", "64"]);
        assert_eq!(cli.args.parts, ["scale"]);
        assert_eq!(options(&cli.args).join(" "), "--state disk --known 1000,2000 --batch 64 --short");
        assert!(Cli::try_parse_from(["x", "scales"]).is_err());
    }
}
