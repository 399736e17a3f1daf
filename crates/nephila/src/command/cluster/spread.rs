//! Spread domains: `--spread` of a job, and `nephila cluster spread`.

use nephila_core::text::shown;

use super::{Who, said, say};
use nephila_cluster::views::SpreadView;
use nephila_engine::exit::Exit;

/// Spreads domains.
pub(super) async fn spread(who: &Who, domains: &[String]) -> anyhow::Result<()> {
    for domain in domains {
        let SpreadView { domain, partition, .. } = match who {
            Who::Node(node) => node.spread(domain).await?,
            Who::Servers(servers) => servers.0.spread(domain).await.map_err(said)?,
        };
        say(&format!(
            "{}: new hosts go to all partitions from here on, known ones stay with partition {partition}; see `nephila \
             cluster spread`",
            shown(&domain)
        ));
    }
    Ok(())
}

/// Lists the spread domains.
pub(super) async fn list(who: &Who, json: bool) -> anyhow::Result<Exit> {
    let all = match who {
        Who::Node(node) => node.spreads().await?,
        Who::Servers(servers) => servers.0.spreads().await.map_err(said)?,
    };
    for spread in &all {
        if json {
            say(&serde_json::to_string(spread)?);
            continue;
        }
        let SpreadView { domain, partition, staying, refused } = spread;
        let state = match refused {
            true => "refused: too many of its hosts are known".to_owned(),
            false => format!("{} hosts stay with partition {partition}", staying.unwrap_or(0)),
        };
        say(&format!("{:<32} {state}", shown(domain)));
    }
    Ok(Exit::Done)
}
