//! Flags of `nephila top`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Arguments of `nephila top`.
#[derive(Args, Clone, Debug)]
pub struct TopArgs {
    /// Watch these nodes together, with commas between them, such as `http://127.0.0.1:6374`. A node shows its own
    /// partitions alone: name all nodes for the whole cluster
    #[arg(long, value_name = "URL", conflicts_with = "output", help_heading = "Cluster")]
    pub node: Option<String>,
    /// File with the API token of the nodes
    #[arg(long, value_name = "FILE", requires = "node", help_heading = "Cluster")]
    pub token_file: Option<PathBuf>,
    /// File with the CA certificates of the nodes, for https: ca.pem of `nephila cluster keys` [default: the CAs that
    /// browsers trust]
    #[arg(long, value_name = "FILE", requires = "node", help_heading = "Cluster")]
    pub ca_file: Option<PathBuf>,
    /// Crawl folder [default: . if . is a crawl or a node, else ./nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Time between two looks, at least one second
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub every: Duration,
    /// End after this number of looks; 0 never ends
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub looks: u64,
}
