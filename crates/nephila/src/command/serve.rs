//! `nephila serve`: a node of a cluster, or without a cluster the crawl of a folder, which is queried over HTTP.

use super::crawl;
use crate::cli::cluster::ServeArgs;
use crate::exit::Exit;
use crate::folder::Folder;
use crate::node;

/// Runs the command.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    let mut settings = args.common.load()?;
    if let Some(node) = &args.node {
        settings.cluster.node.clone_from(node);
    }
    match settings.cluster.servers.is_empty() {
        true => crawl::serve(args, &node::name_in(&settings)),
        false => node::run(Folder::find(args.output.as_deref()), settings),
    }
}
