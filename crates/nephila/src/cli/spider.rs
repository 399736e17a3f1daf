//! Arguments of `nephila spider`.

use std::path::PathBuf;

use clap::Args;
use nephila_core::remote::v2::frame::CAPACITY_MAX;
use nephila_engine::remote::v2::spider::is_node;

/// Arguments of `nephila spider`.
#[derive(Args, Clone, Debug)]
pub struct SpiderArgs {
    /// Nodes to fetch for, as `host:port` of their `spiders.listen`; comma-separated
    #[arg(long, value_name = "HOST:PORT", required = true, value_delimiter = ',', value_parser = parse_node)]
    pub node: Vec<String>,
    /// Name of this spider in logs and lists [default: the name of the machine]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// File with the token that `spiders.allow` of the nodes knows
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    pub token_file: Option<PathBuf>,
    /// File with the certificate of the nodes, or of the CA that signed it: the connection is encrypted. Without, only
    /// nodes on this machine
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    pub ca: Option<PathBuf>,
    /// File of certificates of sites that are trusted in addition to the built-in roots
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    pub site_ca: Option<PathBuf>,
    /// Maximum number of concurrent fetches for each node
    #[arg(short = 'c', long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=i64::from(CAPACITY_MAX)))]
    pub concurrency: u32,
    /// Maximum size in MiB of fetched pages that a node has not stored. With more, no new ones are fetched
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(16..=65_536))]
    pub memory: u32,
}

fn parse_node(text: &str) -> Result<String, String> {
    match is_node(text) {
        true => Ok(text.to_owned()),
        false => Err("use host:port, such as one.example:6380".into()),
    }
}
