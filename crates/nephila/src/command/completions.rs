//! `nephila completions`: the script by which a shell completes our commands, made from their definitions.

use clap::CommandFactory;
use clap_complete::{Shell as Script, generate};

use super::out::print_all;
use crate::cli::Cli;
use crate::cli::completions::{CompletionsArgs, Shell};
use nephila_engine::exit::Exit;

/// Runs the command.
pub(crate) fn run(args: CompletionsArgs) -> anyhow::Result<Exit> {
    print_all(&script(args.shell))
}

/// The script for a shell.
fn script(shell: Shell) -> Vec<u8> {
    let shell = match shell {
        Shell::Bash => Script::Bash,
        Shell::Zsh => Script::Zsh,
        Shell::Fish => Script::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "nephila", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_learns_every_command_and_its_flags() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(script(shell)).unwrap();
            for word in ["crawl", "completions", "host-concurrency", "drain"] {
                assert!(script.contains(word), "{shell:?} does not know {word}");
            }
        }
    }
}
