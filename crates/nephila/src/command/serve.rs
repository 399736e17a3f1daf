//! `nephila serve`: a node of a cluster, or without a cluster the crawl of a folder, which is queried over HTTP. With
//! `--read-only` the archive of a folder alone.

use std::sync::Arc;

use super::crawl;
use crate::cli::cluster::ServeArgs;
use nephila_api::web::ReadOnly;
use nephila_cluster::api::{Bound, CONNECTIONS_MAX, bind};
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::process::{Signals, block_on, runtime};
use nephila_engine::settings::{Settings, usage};

/// Runs the command.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    let mut settings = args.common.load()?;
    if let Some(node) = &args.node {
        settings.cluster.node.clone_from(node);
    }
    let folder = Folder::find(args.output.as_deref());
    // An archive that came without the state of its crawl.
    let is_archive_alone =
        folder.archive().is_dir() && !folder.is_crawl() && !folder.is_node() && !folder.has_feeds();
    match settings.cluster.servers.is_empty() {
        _ if args.read_only => read_only(&folder, &settings),
        true if is_archive_alone => read_only(&folder, &settings),
        true => crawl::serve(args, &nephila_cluster::name_in(&settings)),
        false => nephila_cluster::run(folder, settings),
    }
}

/// Serves the archive of a folder. Writes nothing and takes no lock: a crawl may run there.
fn read_only(folder: &Folder, settings: &Settings) -> anyhow::Result<Exit> {
    let dir = folder.dir().display();
    if !folder.archive().is_dir() {
        return Err(usage(anyhow::anyhow!("{dir} holds no archive: name the folder of a crawl with -o DIR")));
    }
    let name = nephila_cluster::name_in(settings);
    let runtime = runtime(settings.crawl.threads)?;
    let exit = block_on(&runtime, async {
        let Some(bound) = bind(settings, &name).await? else {
            let text = format!(
                "{} cannot be used: name another address with --set api.listen=HOST:PORT",
                settings.api.listen
            );
            return Err(usage(anyhow::anyhow!(text)));
        };
        let mut signals = Signals::new()?;
        let url = bound.url();
        eprintln!("nephila: the archive of {dir} is at {url}/web/, for example {url}/web/cdx?url=*&limit=10");
        let Bound { listener, guard, tls, .. } = bound;
        let answers = Arc::new(ReadOnly::new(folder.dir(), &name));
        tokio::select! {
            () = nephila_api::serve(listener, answers, guard, tls, CONNECTIONS_MAX) => {}
            () = signals.next() => {}
        }
        Ok(Exit::Stopped)
    });
    runtime.shutdown_background();
    exit
}
