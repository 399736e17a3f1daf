//! `nephila serve`: a node of a cluster, or without a cluster the crawl of a folder, which is queried over HTTP. With
//! `--read-only` the archive of a folder alone.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::crawl;
use crate::cli::serve::ServeArgs;
use nephila_api::Guard;
use nephila_api::monitor::Monitor;
use nephila_api::web::{Browse, ReadOnly, Replay};
use nephila_cluster::api::{Bound, CONNECTIONS_MAX, bind};
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::process::{Signals, block_on, runtime};
use nephila_engine::service::{BEAT, Service};
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
        _ if args.read_only => read_only(&folder, &settings, args),
        true if is_archive_alone => read_only(&folder, &settings, args),
        true => crawl::serve(args, &nephila_cluster::name_in(&settings)),
        false => nephila_cluster::run(folder, settings),
    }
}

/// Serves the archive of a folder. Writes nothing and takes no lock: a crawl may run there.
fn read_only(folder: &Folder, settings: &Settings, args: &ServeArgs) -> anyhow::Result<Exit> {
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
        let cache_bytes = settings.api.cache_bytes();
        let media = nephila_cluster::media::reader(settings)?;
        let read = || ReadOnly::new(folder.dir(), &name).with_cache(cache_bytes).with_media(media.clone());
        // The settings of the crawl made the promises that its log is judged by.
        let before = settings_of_crawl(folder, settings);
        let mut answers =
            read().with_monitor(Monitor::new(folder.clone(), before, &title(folder), "archive"));
        let mut replaying = JoinSet::new();
        if let Some(files) = &args.replay {
            let around = listener.local_addr()?;
            if !matches!(guard, Guard::Local) || tls.is_some() {
                let text = "--replay is for the browser of this machine: leave out api.token_file and api.tls_cert_file";
                return Err(usage(anyhow::anyhow!(text)));
            }
            let replay = Replay::new(read(), files, around).map_err(usage)?;
            let other = listen_for_replay(args.replay_listen).await?;
            answers = answers.with_replay(Browse { replay: other.local_addr()? });
            replaying.spawn(nephila_api::serve(
                other,
                Arc::new(replay),
                Guard::Framed,
                None,
                CONNECTIONS_MAX,
            ));
            eprintln!("nephila: browse the archive at {url}/replay");
        }
        let answers = Arc::new(answers);
        let service = Service::of_environment();
        service.ready();
        tokio::select! {
            () = nephila_api::serve(listener, answers, guard, tls, CONNECTIONS_MAX) => {}
            () = signals.next() => {}
            () = beat(&service) => {}
        }
        service.stopping();
        Ok(Exit::Stopped)
    });
    runtime.shutdown_background();
    exit
}

/// Says that the archive is served, from the task that accepts connections. There is no other that decides.
async fn beat(service: &Service) {
    let part = service.part();
    loop {
        part.alive();
        tokio::time::sleep(BEAT).await;
    }
}

/// The settings of the last run of the crawl in a folder; those of this process, if the folder has none.
fn settings_of_crawl(folder: &Folder, settings: &Settings) -> Settings {
    let kept = folder.settings();
    let kept = kept.is_file().then(|| nephila_engine::settings::load(None, &[], Some(&*kept)));
    kept.and_then(Result::ok).unwrap_or_else(|| settings.clone())
}

/// The name of a folder, for people.
fn title(folder: &Folder) -> String {
    let dir = folder.dir().canonicalize().unwrap_or_else(|_| folder.dir().to_owned());
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Binds the address for captured pages. A browser sends no token there, so it is one of this machine.
async fn listen_for_replay(address: SocketAddr) -> anyhow::Result<TcpListener> {
    if !address.ip().is_loopback() {
        let text = format!(
            "--replay-listen {address}: captured pages are for this machine, such as at 127.0.0.1:6375"
        );
        return Err(usage(anyhow::anyhow!(text)));
    }
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| usage(anyhow::anyhow!("--replay-listen {address}: {error}")))
}
