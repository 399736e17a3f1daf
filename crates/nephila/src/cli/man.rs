//! Arguments of `nephila man`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `nephila man`.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// Write the pages of all commands into this folder, such as `nephila-crawl.1`
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}
