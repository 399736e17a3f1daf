//! Flags of `nephila mcp`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `nephila mcp`.
#[derive(Args, Clone, Debug)]
pub struct McpArgs {
    /// Ask this node, such as `http://127.0.0.1:6374` or `https://one.example:6374`. In a comma-separated list, the next
    /// node is tried if one cannot be reached
    #[arg(long, value_name = "URL", conflicts_with = "output", help_heading = "Node")]
    pub node: Option<String>,
    /// File with the API token of the node. Its role bounds what the tools may do
    #[arg(long, value_name = "FILE", requires = "node", help_heading = "Node")]
    pub token_file: Option<PathBuf>,
    /// File with the CA certificates of the node, for https [default: the CAs that browsers trust]
    #[arg(long, visible_alias = "ca", value_name = "FILE", requires = "node", help_heading = "Node")]
    pub ca_file: Option<PathBuf>,
    /// Ask the process of this crawl folder; without one, read the folder [default: . if . is a crawl or a node, else
    /// ./nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}
