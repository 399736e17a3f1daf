//! The stop list of a cluster: one record, which every node reads every two seconds.
//!
//! Invariants: the record changes by compare-and-swap alone; a node has read the record before the first request.

use std::sync::Arc;

use anyhow::Context;
use nephila_core::cluster::message::Message;
use nephila_core::entry::{Entry, HostChange};
use nephila_core::stop_list::StopList;
use nephila_core::url::CrawlUrl;
use nephila_log::Leases;

use super::Cluster;
use super::admin::{Error, new_id};
use super::route::partition_of;
use nephila_engine::stop_list::{Change, DELAY_MS_MAX, LiveStopList, Written};

/// Key of the record.
pub(crate) const KEY: &str = "orders";
/// Maximum number of tries when other writers change the record.
pub(crate) const TRIES_MAX: usize = 20;
/// Maximum size of the record in bytes: the limit of one message, with a reserve.
pub(crate) const RECORD_BYTES_MAX: usize = 900 << 10;

/// Reads the stop list, and the revision of their record.
pub(crate) async fn read(leases: &dyn Leases) -> anyhow::Result<(StopList, Option<u64>)> {
    let Some(item) = leases.record(KEY).await.context("reading the stops")? else {
        return Ok((StopList::default(), None));
    };
    let written: Written = serde_json::from_slice(&item.value).context("the record of the stops")?;
    Ok((written.stop_list(), Some(item.revision)))
}

/// Refreshes the stop list of a node.
pub(crate) async fn refresh(leases: &Arc<dyn Leases>, live: &LiveStopList) -> anyhow::Result<()> {
    let (stop_list, _) = read(&**leases).await?;
    live.set(stop_list);
    Ok(())
}

impl Cluster {
    /// The stop list.
    pub async fn stop_list(&self) -> Result<StopList, Error> {
        Ok(read(&*self.leases).await?.0)
    }

    /// Sets the crawl delay of a host in milliseconds, or removes the delay with zero: an entry in the log of the
    /// host's partition.
    pub async fn set_delay(&self, url: &CrawlUrl, delay_ms: u32) -> Result<(), Error> {
        let host = self.spread.get().key(url, &self.secret).host;
        let entry = Entry::Host(HostChange::Delay(host, delay_ms.min(DELAY_MS_MAX)));
        let message = Message::Command(Box::new(entry)).encode(&self.secret);
        self.send([(partition_of(host.domain, self.partitions), new_id(), message)]).await?;
        Ok(())
    }

    /// Changes the stop list. Returns the number of added or removed orders.
    pub async fn change_stop_list(&self, change: &Change) -> Result<usize, Error> {
        for _ in 0..TRIES_MAX {
            let (mut stop_list, revision) = read(&*self.leases).await?;
            let changed = change.apply(&mut stop_list).map_err(|error| Error::Wrong(error.to_string()))?;
            let bytes = serde_json::to_vec(&Written::of(&stop_list)).context("the stops as JSON")?;
            if bytes.len() > RECORD_BYTES_MAX {
                let text =
                    format!("the stops would have {} bytes, which is too many: remove some", bytes.len());
                return Err(Error::Wrong(text));
            }
            let put = self.leases.put(KEY, revision, bytes.into()).await;
            if put.context("writing the stops")?.is_some() {
                return Ok(changed);
            }
        }
        Err(Error::Away(anyhow::anyhow!("others change the stops all the time: try again")))
    }
}
