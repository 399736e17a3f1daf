//! Arguments of `nephila identity`: published keys and pages by which a site can verify the sender of a request.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Common;

/// `nephila identity …`.
#[derive(Debug, Subcommand)]
pub enum IdentityCommand {
    /// Create a key for signing requests, in a file that only its owner can read.
    ///
    /// Prints the id of the key. An existing file is never changed. Exit code: 0, 1 failed, 2 wrong flags or settings.
    #[command(after_help = "Examples:\n  nephila identity key key.pem")]
    Key(KeyArgs),
    /// Print the key directory, which `identity.agent_url` must serve at
    /// /.well-known/http-message-signatures-directory.
    ///
    /// With `--fields`, print the header fields of that response, among them a signature that is valid for `--valid`.
    #[command(
        after_help = "Examples:\n  nephila identity directory > http-message-signatures-directory\n  nephila identity directory --fields --valid 7d"
    )]
    Directory(DirectoryArgs),
    /// Print an HTML page about the crawler for the URL in `identity.contact`: operator, identification, how to opt
    /// out.
    #[command(
        after_help = "Examples:\n  nephila identity page --purpose \"We study links.\" --range 192.0.2.0/24 > bot.html"
    )]
    Page(PageArgs),
}

/// Arguments of `nephila identity key`.
#[derive(Args, Clone, Debug)]
pub struct KeyArgs {
    /// File to create [default: identity.key_file]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Arguments of `nephila identity directory`.
#[derive(Args, Clone, Debug)]
pub struct DirectoryArgs {
    /// Publish this key as well as `identity.key_file`: the next key before its first use, the previous key while its
    /// signatures are valid; repeatable
    #[arg(long = "also", value_name = "FILE")]
    pub also: Vec<PathBuf>,
    /// Print the header fields of the response instead of its body
    #[arg(long)]
    pub fields: bool,
    /// Validity period of the signature in the header fields
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = humantime::parse_duration)]
    pub valid: Duration,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Arguments of `nephila identity page`.
#[derive(Args, Clone, Debug)]
pub struct PageArgs {
    /// Operator and purpose of the crawler, in a sentence
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub purpose: String,
    /// Address range from which the crawler sends requests; repeatable
    #[arg(long = "range", value_name = "CIDR")]
    pub ranges: Vec<ipnet::IpNet>,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}
