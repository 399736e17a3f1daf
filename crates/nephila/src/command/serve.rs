//! `nephila serve`: a node of a cluster, or without a cluster the crawl of a folder, which is queried over HTTP.

use super::crawl;
use crate::cli::cluster::ServeArgs;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;

/// Runs the command.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    let mut settings = args.common.load()?;
    if let Some(node) = &args.node {
        settings.cluster.node.clone_from(node);
    }
    match settings.cluster.servers.is_empty() {
        true => crawl::serve(args, &nephila_cluster::name_in(&settings)),
        false => nephila_cluster::run(Folder::find(args.output.as_deref()), settings),
    }
}
