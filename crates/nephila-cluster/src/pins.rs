//! Pins: domains that an operator assigns to a node, in one record, which every node reads with the owners.
//!
//! A domain belongs to a partition by its hash, and that never changes; a pin determines the node of the partition. So
//! a pin moves a partition by the usual hand-over: drained, released, claimed, opened. A pin may name a node that is
//! not live: in the meantime the partition is placed by load.
//!
//! Invariants: the record changes by compare-and-swap alone; two pins of one partition name one node.

use std::collections::BTreeMap;

use anyhow::Context;
use nephila_core::cluster::NodeId;
use nephila_core::key::UrlKey;
use nephila_core::url::CrawlUrl;
use nephila_log::{Leases, Reply};
use serde::{Deserialize, Serialize};

use super::Cluster;
use super::admin::{Error, owner};
use super::route::partition_of;
use super::views::PinView;

/// Key of the record.
pub(crate) const KEY: &str = "pins";
/// Maximum number of tries when other writers change the record.
pub(crate) const TRIES_MAX: usize = 20;
/// Maximum number of pins.
pub(crate) const PINS_MAX: usize = 4_096;

/// The pins as stored, by domain.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Pins(BTreeMap<String, Pin>);

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Pin {
    node: String,
    partition: u32,
}

pub(crate) async fn read(leases: &dyn Leases) -> anyhow::Result<(Pins, Option<u64>)> {
    let Some(item) = leases.record(KEY).await.context("reading the pins")? else {
        return Ok((Pins::default(), None));
    };
    let pins = serde_json::from_slice(&item.value).context("the record of the pins")?;
    Ok((pins, Some(item.revision)))
}

/// The pinned partitions and their nodes. An unreadable record pins nothing: nodes continue.
pub(crate) fn by_partition(leases: &dyn Leases) -> Reply<'_, BTreeMap<u32, NodeId>> {
    Box::pin(async {
        let item = leases.record(KEY).await?;
        let pins: Option<Pins> = item.and_then(|item| serde_json::from_slice(&item.value).ok());
        let pins = pins.unwrap_or_default().0.into_values();
        Ok(pins.map(|pin| (pin.partition, NodeId::of(&pin.node))).collect())
    })
}

impl Pins {
    /// Adds a pin, unless another pin conflicts.
    pub fn add(&mut self, domain: &str, pin: Pin) -> Result<(), Error> {
        let other = self.0.iter().find(|(other, there)| {
            *other != domain && there.partition == pin.partition && there.node != pin.node
        });
        if let Some((other, there)) = other {
            return Err(Error::Exists(format!(
                "{domain} and {other} are both of partition {}, and {other} is pinned to node {}: pin both to one node, \
                 or `nephila cluster unpin {other}` first",
                pin.partition, there.node
            )));
        }
        if self.0.len() >= PINS_MAX && !self.0.contains_key(domain) {
            return Err(Error::Wrong(format!("there are {PINS_MAX} pins already: remove some")));
        }
        self.0.insert(domain.to_owned(), pin);
        Ok(())
    }
}

impl Cluster {
    /// Parses a registrable domain, and returns its partition.
    pub fn domain(&self, text: &str) -> Result<(String, u32), Error> {
        let text = text.trim().trim_start_matches("*.").trim_end_matches('.').to_ascii_lowercase();
        let with_scheme = if text.contains("://") { text.clone() } else { format!("http://{text}/") };
        let url = CrawlUrl::parse(&with_scheme)
            .map_err(|error| Error::Wrong(format!("{text:?} is no domain: {error}")))?;
        let domain = url.registrable_domain().unwrap_or(url.host_str()).to_owned();
        let key = UrlKey::of(&url, &self.secret).host.domain;
        Ok((domain, partition_of(key, self.partitions)))
    }

    /// All pins, with the current owners of their partitions.
    pub async fn pins(&self) -> Result<Vec<PinView>, Error> {
        let view = self.view().await?;
        let (pins, _) = read(&*self.leases).await?;
        let pins = pins.0.into_iter().map(|(domain, Pin { node, partition })| {
            let owner = owner(&view, partition).map(|node| node.name.clone());
            PinView { domain, node, partition, owner }
        });
        Ok(pins.collect())
    }

    /// Pins a domain to a node.
    pub async fn pin(&self, domain: &str, node: &str) -> Result<PinView, Error> {
        let (domain, partition) = self.domain(domain)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if node.is_empty() || !node.chars().all(is_plain) {
            let text = format!("{node:?} is no name of a node: see `nephila cluster nodes`");
            return Err(Error::Wrong(text));
        }
        let pin = Pin { node: node.to_owned(), partition };
        self.change_pins(|pins| pins.add(&domain, pin.clone())).await?;
        Ok(PinView { domain, node: node.to_owned(), partition, owner: None })
    }

    /// Removes a pin, so that the domain is placed by load.
    pub async fn unpin(&self, domain: &str) -> Result<PinView, Error> {
        let (domain, partition) = self.domain(domain)?;
        let mut node = String::new();
        self.change_pins(|pins| {
            let gone = pins.0.remove(&domain);
            node = gone.ok_or_else(|| Error::NotFound(format!("{domain} is not pinned")))?.node;
            Ok(())
        })
        .await?;
        Ok(PinView { domain, node, partition, owner: None })
    }

    /// Rewrites the pins by compare-and-swap. `change` runs again after a conflict with another writer.
    pub async fn change_pins(
        &self,
        mut change: impl FnMut(&mut Pins) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for _ in 0..TRIES_MAX {
            let (mut pins, revision) = read(&*self.leases).await?;
            change(&mut pins)?;
            let bytes = serde_json::to_vec(&pins).context("the pins as JSON")?;
            let put = self.leases.put(KEY, revision, bytes.into()).await;
            if put.context("writing the pins")?.is_some() {
                return Ok(());
            }
        }
        Err(Error::Away(anyhow::anyhow!("others change the pins all the time: try again")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(node: &str, partition: u32) -> Pin {
        Pin { node: node.to_owned(), partition }
    }

    #[test]
    fn two_pins_of_one_partition_name_one_node() {
        let mut pins = Pins::default();
        pins.add("a.test", pin("one", 3)).unwrap();
        pins.add("b.test", pin("two", 4)).unwrap();
        let why = pins.add("c.test", pin("two", 3)).unwrap_err().to_string();
        assert!(why.contains("a.test is pinned to node one"), "{why}");
        pins.add("c.test", pin("one", 3)).unwrap();
        // One that is alone in its partition may change its mind.
        pins.add("b.test", pin("one", 4)).unwrap();
        let written = serde_json::to_string(&pins).unwrap();
        assert!(written.starts_with(r#"{"a.test":{"node":"one","partition":3}"#), "{written}");
    }

    #[tokio::test]
    async fn nodes_read_what_was_written_and_pin_nothing_by_what_they_cannot_read() {
        let leases = nephila_log::memory::Engine::new(std::time::Duration::from_secs(15)).leases();
        assert!(by_partition(&leases).await.unwrap().is_empty());
        let mut pins = Pins::default();
        pins.add("a.test", pin("one", 3)).unwrap();
        let revision = leases.put(KEY, None, serde_json::to_vec(&pins).unwrap().into()).await.unwrap();
        assert_eq!(by_partition(&leases).await.unwrap(), BTreeMap::from([(3, NodeId::of("one"))]));
        leases.put(KEY, revision, bytes::Bytes::from_static(b"{")).await.unwrap();
        assert!(by_partition(&leases).await.unwrap().is_empty());
    }
}
