//! `nephila man`: manual pages, made from the definitions of the commands.
//!
//! Invariant: the pages depend on the commands alone. No date and no machine is in them, so a package that is built twice
//! has the same ones.

use std::path::Path;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::out::print_all;
use crate::cli::Cli;
use crate::cli::man::ManArgs;
use nephila_engine::exit::Exit;

/// Runs the command.
pub(crate) fn run(args: &ManArgs) -> anyhow::Result<Exit> {
    // Each command has `help`, whose pages would say the same again.
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let Some(out) = &args.out else { return print_all(&text(&page(&program))?) };
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    write(&program, out)?;
    Ok(Exit::Done)
}

/// Writes the pages of a command and of all below it.
fn write(command: &Command, out: &Path) -> anyhow::Result<()> {
    let page = page(command);
    let path = out.join(page.get_filename());
    std::fs::write(&path, text(&page)?).with_context(|| path.display().to_string())?;
    command.get_subcommands().try_for_each(|below| write(below, out))
}

fn page(command: &Command) -> Man {
    Man::new(command.clone()).source(concat!("Nephila ", env!("CARGO_PKG_VERSION"))).manual("Nephila")
}

fn text(page: &Man) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        run(&ManArgs { out: Some(folder.path().to_owned()) }).unwrap();
        for (name, says) in [
            ("nephila", "polite"),
            ("nephila-crawl", "host\\-concurrency"),
            ("nephila-cluster-drain", "hand all partitions over"),
        ] {
            let page = std::fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
            assert!(page.contains(says), "{name} does not say {says}");
            assert!(page.contains(&format!(".TH {name} 1")), "{name}: {page:.200}");
        }
        assert!(!folder.path().join("nephila-help.1").exists());
    }
}
