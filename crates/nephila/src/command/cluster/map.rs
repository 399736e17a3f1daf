//! `nephila cluster map`: which node crawls which domain, as a table or a file.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use super::{Who, with_existing};
use crate::cli::ask::TableFormat;
use crate::cli::{Common, Remote};
use crate::table::{Column, Table};
use nephila_cluster::views::{DomainView, MapView};
use nephila_engine::exit::Exit;
use nephila_engine::settings::usage;

const COLUMNS: [Column; 6] =
    [("domain", 32), ("node", 16), ("partition", 9), ("hosts", 6), ("pages", 10), ("left", 10)];

/// Runs the command.
pub(super) fn run(format: TableFormat, remote: &Remote, common: &Common) -> anyhow::Result<Exit> {
    with_existing(common, remote, async |who| print(&who, format).await)
}

/// Prints the map, page by page.
async fn print(who: &Who, format: TableFormat) -> anyhow::Result<Exit> {
    let Who::Node(node) = who else {
        return Err(usage(anyhow::anyhow!(
            "the names of domains are known to nodes, not to the NATS servers: name a node with --node URL"
        )));
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut table = Table::begin(&mut out, format, &COLUMNS)?;
    let mut counts = BTreeMap::<String, u64>::new();
    let mut row = |view: DomainView| -> io::Result<()> {
        let DomainView { domain, node, partition, hosts, pages, left } = view;
        *counts.entry(node.clone()).or_default() += 1;
        let partition = u64::from(partition);
        table.row(&[domain.into(), node.into(), partition.into(), hosts.into(), pages.into(), left.into()])
    };
    let (mut from, mut last) = (None, None::<DomainView>);
    loop {
        let MapView { domains, next } = node.map(from.as_deref()).await?;
        for view in domains {
            // A domain with many hosts may go on over pages.
            match &mut last {
                Some(last) if (&last.domain, &last.node) == (&view.domain, &view.node) => last.plus(&view),
                _ => last.replace(view).map_or(Ok(()), &mut row)?,
            }
        }
        from = next;
        if from.is_none() {
            break;
        }
    }
    last.map_or(Ok(()), &mut row)?;
    table.finish()?;
    out.flush()?;
    if format == TableFormat::Table {
        let counts: Vec<String> = counts.iter().map(|(node, domains)| format!("{node} {domains}")).collect();
        eprintln!("nephila: domains by node: {}", counts.join(", "));
    }
    Ok(Exit::Done)
}
