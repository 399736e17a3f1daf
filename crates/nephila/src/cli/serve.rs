//! Arguments of `nephila serve`.

use std::path::PathBuf;

use clap::Args;

use super::Common;

/// Arguments of `nephila serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Folder of the crawl or of this node, for archive, logs and state [default: . if . is a crawl or a node, else
    /// ./nephila-data]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Begin a folder without URLs, unless the folder has a crawl: URLs and jobs come over the API
    #[arg(long, conflicts_with = "read_only", help_heading = "Output")]
    pub new: bool,
    /// Serve the archive of the folder alone: no crawl continues, nothing is written
    #[arg(long, help_heading = "Output")]
    pub read_only: bool,
    /// With --read-only: also serve pages for browsing the archive, at /replay; this folder has `sw.js` of ReplayWeb.page
    #[arg(long, value_name = "DIR", requires = "read_only", help_heading = "Replay")]
    pub replay: Option<PathBuf>,
    /// Address at which captured pages are shown: an origin of its own, on this machine
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6375", help_heading = "Replay")]
    pub replay_listen: std::net::SocketAddr,
    /// Unique name of this node [default: cluster.node, else the name of the machine]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub node: Option<String>,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}
