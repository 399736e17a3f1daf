//! Flags of `nephila identity`: what is published so that a site can check who asked.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Common;

/// `nephila identity …`.
#[derive(Debug, Subcommand)]
pub enum IdentityCommand {
    /// Make a key to sign requests with, in a file that only its owner can read.
    ///
    /// Prints the name of the key. An existing file is never changed. Exit code: 0, 1 failed, 2 wrong flags or settings.
    Key(KeyArgs),
    /// Print the directory of keys: what `identity.agent_url` answers at /.well-known/http-message-signatures-directory.
    ///
    /// With `--fields` the fields that belong to the answer, one of them a signature that is good for `--valid`.
    Directory(DirectoryArgs),
    /// Print a page about the crawler: who runs it, how to know it, how to keep it out. For the URL in `identity.contact`.
    Page(PageArgs),
}

/// Flags of `nephila identity key`.
#[derive(Args, Clone, Debug)]
pub struct KeyArgs {
    /// The file to make [default: identity.key_file]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Where settings come from
    #[command(flatten)]
    pub common: Common,
}

/// Flags of `nephila identity directory`.
#[derive(Args, Clone, Debug)]
pub struct DirectoryArgs {
    /// More keys to publish beside `identity.key_file`: the next one before it is used, the last one while its signatures
    /// are valid
    #[arg(long = "also", value_name = "FILE")]
    pub also: Vec<PathBuf>,
    /// Print the fields of the answer instead of its body
    #[arg(long)]
    pub fields: bool,
    /// How long the signature of the fields is valid
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = humantime::parse_duration)]
    pub valid: Duration,
    /// Where settings come from
    #[command(flatten)]
    pub common: Common,
}

/// Flags of `nephila identity page`.
#[derive(Args, Clone, Debug)]
pub struct PageArgs {
    /// Who runs the crawler and what for, in a sentence
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub purpose: String,
    /// Addresses that the crawler asks from; may be given several times
    #[arg(long = "range", value_name = "CIDR")]
    pub ranges: Vec<ipnet::IpNet>,
    /// Where settings come from
    #[command(flatten)]
    pub common: Common,
}
