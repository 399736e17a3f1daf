//! `nephila stop` and `nephila host set`: orders about sites.
//!
//! Invariant: an order goes to one place, the folder of a crawl or a cluster, and is durable there when the command
//! ends.

use nephila_core::stop_list::{StopList, StopOrder, Target};
use nephila_core::text::shown;
use nephila_core::url::CrawlUrl;

use super::{Who, said, say, with};
use crate::cli::ask::HostSetArgs;
use crate::cli::stop::{StopCommand, StopWhere};
use nephila_engine::clock::Clock;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::settings::usage;
use nephila_engine::stop_list::{self, Change};

/// Runs `nephila stop`.
pub(crate) fn stop(command: StopCommand) -> anyhow::Result<Exit> {
    match command {
        StopCommand::Add(args) => {
            let author = args.author.unwrap_or_else(stop_list::author);
            let now = Clock::new().now().wall;
            let order = |target: &Target| StopOrder::new(target.clone(), &args.reason, &author, now);
            let change = Change::Add(args.targets.iter().map(order).collect());
            order_change(&args.place, &change)?;
            for target in &args.targets {
                say(&format!("{}: nobody there is asked any more", shown(&target.to_string())));
            }
            Ok(Exit::Done)
        }
        StopCommand::Remove(args) => {
            let gone = order_change(&args.place, &Change::Remove(args.targets.clone()))?;
            say(&format!("{gone} stops removed; what was kept back goes on soon"));
            Ok(if gone == args.targets.len() { Exit::Done } else { Exit::Failed })
        }
        StopCommand::List(args) => at_stops(
            &args.place,
            |folder| print_stop_list(&stop_list::read(folder)?, args.json),
            async |who| {
                let all = match who {
                    Who::Node(node) => node.stop_list().await?,
                    Who::Servers(to) => to.0.stop_list().await.map_err(said)?,
                };
                print_stop_list(&all, args.json)
            },
        ),
    }
}

fn print_stop_list(all: &StopList, json: bool) -> anyhow::Result<Exit> {
    stop_list::listed(all, json)?.iter().for_each(|line| say(line));
    Ok(Exit::Done)
}

fn order_change(place: &StopWhere, change: &Change) -> anyhow::Result<usize> {
    let mut changed = 0;
    let here = |folder: &Folder| {
        changed = stop_list::change(folder, change)?;
        Ok(Exit::Done)
    };
    let mut there = 0;
    at_stops(place, here, async |who| {
        there = match who {
            Who::Node(node) => node.change_stop_list(change).await?,
            Who::Servers(to) => to.0.change_stop_list(change).await.map_err(said)?,
        };
        Ok(Exit::Done)
    })?;
    Ok(changed + there)
}

/// Selects the place of the stops: a named folder, the cluster of the settings, or else the default folder.
fn at_stops(
    place: &StopWhere,
    here: impl FnOnce(&Folder) -> anyhow::Result<Exit>,
    there: impl AsyncFnOnce(Who) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let in_folder = place.remote.node.is_none()
        && (place.output.is_some() || place.common.load()?.cluster.servers.is_empty());
    if !in_folder {
        return with(&place.common, &place.remote, there);
    }
    let folder = Folder::find(place.output.as_deref());
    if folder.is_node() {
        let text = "this is the folder of a node: name a node with --node URL, or the servers in [cluster]";
        return Err(usage(anyhow::anyhow!(text)));
    }
    folder.expect_crawl()?;
    here(&folder)
}

/// Runs `nephila host set`.
pub(crate) fn host_set(args: &HostSetArgs) -> anyhow::Result<Exit> {
    let urls = match args.host.contains("://") {
        true => vec![args.host.clone()],
        false => vec![format!("http://{}/", args.host), format!("https://{}/", args.host)],
    };
    let urls: Vec<CrawlUrl> = urls
        .iter()
        .map(|url| CrawlUrl::parse(url).map_err(|error| usage(anyhow::anyhow!("{}: {error}", args.host))))
        .collect::<anyhow::Result<_>>()?;
    let delay_ms = u32::try_from(args.delay.as_millis()).ok().filter(|ms| *ms <= stop_list::DELAY_MS_MAX);
    let delay_ms = delay_ms.ok_or_else(|| usage(anyhow::anyhow!("a delay has at most 24 h")))?;
    let here = |folder: &Folder| {
        stop_list::set_delays(folder, &urls, delay_ms)?;
        Ok(Exit::Done)
    };
    at_stops(&args.place, here, async |who| {
        for url in &urls {
            match &who {
                Who::Node(node) => node.set_delay(url, delay_ms).await?,
                Who::Servers(to) => to.0.set_delay(url, delay_ms).await.map_err(said)?,
            }
        }
        Ok(Exit::Done)
    })?;
    let origins: Vec<String> = urls.iter().map(|url| shown(url.origin()).to_string()).collect();
    say(&format!(
        "{}: {} between two requests, and more if it asks for it",
        origins.join(", "),
        match delay_ms {
            0 => "the usual rest".to_owned(),
            ms => format!("{ms} ms"),
        }
    ));
    Ok(Exit::Done)
}
