//! `nephila cluster pin`, `unpin` and `pins`: where domains are crawled.

use nephila_core::text::shown;

use super::{Who, said, say};
use nephila_cluster::views::PinView;
use nephila_engine::exit::Exit;

/// Pins a domain to a node, or removes the pin with none.
pub(super) async fn pin(who: &Who, domain: &str, to: Option<&str>) -> anyhow::Result<Exit> {
    let pinned = match (who, to) {
        (Who::Node(node), to) => node.pin(domain, to).await?,
        (Who::Servers(servers), Some(to)) => servers.0.pin(domain, to).await.map_err(said)?,
        (Who::Servers(servers), None) => servers.0.unpin(domain).await.map_err(said)?,
    };
    let PinView { domain, node, partition, .. } = &pinned;
    let (domain, node) = (shown(domain), shown(node));
    say(&match to {
        Some(_) => {
            format!("{domain}: partition {partition} goes to node {node} and stays there while it lives")
        }
        None => {
            format!("{domain}: partition {partition} stays where it is until the load wants it elsewhere")
        }
    });
    Ok(Exit::Done)
}

/// Lists the pins.
pub(super) async fn list(who: &Who, json: bool) -> anyhow::Result<Exit> {
    let pins = match who {
        Who::Node(node) => node.pins().await?,
        Who::Servers(servers) => servers.0.pins().await.map_err(said)?,
    };
    for pin in &pins {
        if json {
            say(&serde_json::to_string(pin)?);
            continue;
        }
        let PinView { domain, node, partition, owner } = pin;
        let now = match owner {
            Some(owner) if owner == node => "is there".to_owned(),
            Some(owner) => format!("is on {}", shown(owner)),
            None => "has no live owner".to_owned(),
        };
        say(&format!("{:<32} to {:<20} partition {partition:>5}, {now}", shown(domain), shown(node)));
    }
    Ok(Exit::Done)
}
