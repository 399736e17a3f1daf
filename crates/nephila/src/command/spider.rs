//! `nephila spider`: fetches for nodes.

use nephila_engine::exit::Exit;
use nephila_engine::process::{Signals, block_on, raise_handle_limit, runtime};
use nephila_engine::remote::v2::spider::{Options, run};
use nephila_engine::service::Service;
use tokio::sync::watch;

use crate::cli::spider::SpiderArgs;

/// The name of this machine, as far as it can be a name of a spider.
fn machine() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(64).collect();
    if name.is_empty() { "spider".into() } else { name }
}

pub(crate) fn spider(args: SpiderArgs) -> anyhow::Result<Exit> {
    let nodes = u32::try_from(args.node.len()).unwrap_or(u32::MAX);
    raise_handle_limit(args.concurrency.saturating_mul(nodes));
    let service = Service::of_environment();
    let options = Options {
        nodes: args.node,
        name: args.name.unwrap_or_else(machine),
        token_file: args.token_file,
        ca: args.ca,
        site_ca: args.site_ca,
        capacity: args.concurrency,
        held_bytes_max: u64::from(args.memory) << 20,
        service: service.clone(),
    };
    let runtime = runtime(0)?;
    block_on(&runtime, async {
        let mut signals = Signals::new()?;
        let (stop, stopped) = watch::channel(false);
        // It waits for nodes as long as it must: there is nothing else to be ready for.
        service.ready();
        let mut work = std::pin::pin!(run(&options, stopped));
        tokio::select! {
            done = &mut work => return done.map(|_| Exit::Failed),
            () = signals.next() => {}
        }
        service.stopping();
        eprintln!("nephila spider: finishing open fetches; Ctrl-C again ends at once");
        _ = stop.send(true);
        tokio::select! {
            done = work => {
                let done = done?;
                eprintln!("nephila spider: {} pages fetched, {} aborted", done.fetched, done.aborted);
                Ok(Exit::Stopped)
            }
            () = signals.next() => Ok(Exit::StoppedHard),
        }
    })
}
