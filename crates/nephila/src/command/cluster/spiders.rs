//! `nephila cluster spiders`: who fetches for which node.

use std::io::{self, BufWriter, Write};

use super::{Who, say, with_existing};
use crate::cli::ask::TableFormat;
use crate::cli::cluster::LookArgs;
use crate::table::{Column, Table};
use nephila_engine::exit::Exit;
use nephila_engine::settings::usage;

const COLUMNS: [Column; 6] =
    [("node", 16), ("spider", 24), ("connected", 9), ("at most", 8), ("open", 8), ("fetched", 10)];

/// Runs the command.
pub(super) fn run(args: &LookArgs) -> anyhow::Result<Exit> {
    with_existing(&args.common, &args.remote, async |who| print(&who, args.json).await)
}

/// Prints the spiders, as a table or as JSON.
async fn print(who: &Who, json: bool) -> anyhow::Result<Exit> {
    let Who::Node(node) = who else {
        return Err(usage(anyhow::anyhow!(
            "spiders are known to nodes, not to the NATS servers: name a node with --node URL"
        )));
    };
    let spiders = node.spiders().await?;
    if json {
        say(&serde_json::to_string(&spiders)?);
        return Ok(Exit::Done);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let mut table = Table::begin(&mut out, TableFormat::Table, &COLUMNS)?;
    for spider in spiders {
        let connected = if spider.connected { "yes" } else { "no" };
        let (capacity, open) = (spider.capacity as u64, spider.open as u64);
        table.row(&[
            spider.node.into(),
            spider.name.into(),
            connected.to_owned().into(),
            capacity.into(),
            open.into(),
            spider.fetched.into(),
        ])?;
    }
    table.finish()?;
    out.flush()?;
    Ok(Exit::Done)
}
