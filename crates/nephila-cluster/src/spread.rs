//! Spread domains of a cluster: see [`nephila_core::spread`], which decides.
//!
//! The wish of an operator goes into the inbox of the domain's home. The owner of the home writes the decision into the
//! log of the partition, and then into a record, which every node reads every two seconds. A node that has not read the
//! record yet sends links to the home, whose reader sends them on.
//!
//! Invariants: a record is written only after the decision is durable, and by any owner with the same content; a message
//! of the home's inbox counts as read only when everything of the message that belongs elsewhere is in an inbox there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, RwLock};

use anyhow::Context;
use nephila_core::cluster::NodeId;
use nephila_core::cluster::message::Message;
use nephila_core::entry::Entry;
use nephila_core::frontier::offers::OfferedUrl;
use nephila_core::job::JobId;
use nephila_core::key::{DomainKey, Prefixes};
use nephila_core::reflog::part::Part;
use nephila_core::spread::{DomainSpread, STAYING_MAX, Spread};
use nephila_log::Leases;
use serde::{Deserialize, Serialize};

use super::admin::{Error, SEEDS_IN_MESSAGE, id_of, new_id};
use super::parts::INBOX_AGAIN;
use super::route::partition_of;
use super::views::SpreadView;
use super::{Cluster, Node, SPREAD_FORMAT};
use nephila_engine::worker::{Handle, Stopped};

/// Prefix of the records, one per domain.
const PREFIX: &str = "spread.";

/// The decision about a domain, as stored.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
struct Written {
    domain: String,
    /// The hosts that stay, eight hexadecimal digits each.
    #[serde(default)]
    staying: String,
    /// Set if the domain is not spread, because too many of its hosts are known.
    #[serde(default)]
    refused: bool,
}

impl Written {
    fn of(decided: &DomainSpread) -> Written {
        let staying = decided.staying.iter().map(|host| format!("{host:08x}")).collect();
        Written { domain: decided.name.to_string(), staying, refused: false }
    }

    /// The hosts that stay; none if the text is malformed.
    fn staying(&self) -> Option<BTreeSet<u32>> {
        let hosts = self.staying.as_bytes().chunks(8).map(|host| {
            let digits = std::str::from_utf8(host).ok().filter(|digits| digits.len() == 8)?;
            u32::from_str_radix(digits, 16).ok()
        });
        hosts.collect()
    }
}

fn key(domain: DomainKey) -> String {
    format!("{PREFIX}{:016x}", domain.0)
}

/// Reads all records.
async fn read(leases: &dyn Leases) -> anyhow::Result<Vec<Written>> {
    let items = leases.records(PREFIX).await.context("reading the spread domains")?;
    let written = items.iter().map(|item| serde_json::from_slice(&item.value));
    written.collect::<Result<_, _>>().context("the record of a spread domain")
}

/// The spread domains, as last read.
#[derive(Debug, Default)]
pub(crate) struct Table(RwLock<Arc<Spread>>);

impl Table {
    pub(crate) fn get(&self) -> Arc<Spread> {
        self.0.read().expect("nobody panics holding it").clone()
    }

    /// Adds decisions. Returns whether one of them is new.
    fn add(&self, decided: impl IntoIterator<Item = DomainSpread>) -> bool {
        let mut spread = Spread::clone(&self.get());
        decided.into_iter().for_each(|decided| spread.add(decided));
        let is_new = spread != *self.get();
        if is_new {
            *self.0.write().expect("nobody panics holding it") = Arc::new(spread);
        }
        is_new
    }
}

impl Cluster {
    /// Reads the spread domains. Returns whether one of them is new.
    pub(crate) async fn refresh_spread(&self) -> anyhow::Result<bool> {
        let written = read(&*self.leases).await?.into_iter().filter(|written| !written.refused);
        let decided = written.map(|written| {
            let staying = written.staying().context("the record of a spread domain")?;
            let wish = DomainSpread::wish(&written.domain, &self.secret);
            Ok(DomainSpread { staying: Arc::new(staying), ..wish })
        });
        Ok(self.spread.add(decided.collect::<anyhow::Result<Vec<_>>>()?))
    }

    /// Asks the home of a domain to spread the domain. Takes effect at one position of the home's log, before
    /// everything that is sent to the home later.
    pub async fn spread(&self, domain: &str) -> Result<SpreadView, Error> {
        let (domain, partition) = self.domain(domain)?;
        self.are_known(SPREAD_FORMAT, "spread domains").await?;
        let wish = Entry::Spread(DomainSpread::wish(&domain, &self.secret));
        let message = Message::Command(Box::new(wish)).encode(&self.secret);
        self.send([(partition, new_id(), message)]).await?;
        Ok(SpreadView { domain, partition, staying: None, refused: false })
    }

    /// All decisions.
    pub async fn spreads(&self) -> Result<Vec<SpreadView>, Error> {
        let written = read(&*self.leases).await?.into_iter();
        let view = |written: Written| {
            let (domain, partition) = self.domain(&written.domain)?;
            let staying = written.staying().map(|staying| staying.len() as u64);
            Ok(SpreadView { domain, partition, staying, refused: written.refused })
        };
        written.map(view).collect()
    }
}

/// Numbers of links that this node has sent on, by job: they count as events of the job.
#[derive(Debug, Default)]
pub(crate) struct SentOn(Mutex<BTreeMap<JobId, u64>>);

impl SentOn {
    fn add(&self, job: JobId, links: u64) {
        *self.0.lock().expect("nobody panics holding it").entry(job).or_default() += links;
    }

    pub(crate) fn counts(&self) -> BTreeMap<JobId, u64> {
        self.0.lock().expect("nobody panics holding it").clone()
    }
}

/// The reader of a partition's inbox, as the home of spread domains.
pub(crate) struct Home<'a> {
    pub(crate) node: &'a Node,
    pub(crate) handle: &'a Handle,
    pub(crate) partition: u32,
    pub(crate) prefixes: Prefixes,
    /// The decisions in the partition's log.
    spread: Spread,
}

impl<'a> Home<'a> {
    /// The home at the opening of its partition. An earlier owner may have died before it published a decision.
    pub(crate) async fn open(
        node: &'a Node,
        handle: &'a Handle,
        partition: u32,
        prefixes: Prefixes,
    ) -> Result<Home<'a>, Stopped> {
        let mut home = Home { node, handle, partition, prefixes, spread: Spread::default() };
        home.publish().await?;
        Ok(home)
    }

    /// Sends on what belongs elsewhere. Returns the remainder of a message.
    pub(crate) async fn sort(
        &self,
        offers: Vec<OfferedUrl>,
        said: Option<Entry>,
    ) -> (Vec<OfferedUrl>, Option<Entry>) {
        if self.spread.is_empty() {
            return (offers, said);
        }
        let secret = &self.node.cluster.secret;
        let (offers, elsewhere) = self.spread.divide(offers, secret);
        let said = match said {
            Some(Entry::Stream(part)) => {
                let (here, elsewhere) = self.spread.divide_part(*part, secret);
                self.send_parts(elsewhere).await;
                Some(Entry::Stream(Box::new(here)))
            }
            said => said,
        };
        self.send_offers(elsewhere).await;
        (offers, said)
    }

    async fn send_offers(&self, offers: Vec<OfferedUrl>) {
        let cluster = &self.node.cluster;
        let mut by_partition: BTreeMap<u32, Vec<OfferedUrl>> = BTreeMap::new();
        for offer in offers {
            self.node.known.sent_on.add(offer.want.job, 1);
            let to = partition_of(offer.key.host.domain, cluster.partitions);
            by_partition.entry(to).or_default().push(offer);
        }
        let mut messages = Vec::new();
        for (to, offers) in by_partition {
            for offers in offers.chunks(SEEDS_IN_MESSAGE) {
                let from = NodeId::of(&self.node.name);
                let message = Message::Offers { from, offers: offers.to_vec() }.encode(&cluster.secret);
                messages.push((to, id_of(to, &message), message));
            }
        }
        self.send(messages).await;
    }

    async fn send_parts(&self, parts: Vec<Part>) {
        let cluster = &self.node.cluster;
        let mut messages = Vec::new();
        for part in parts {
            self.node.known.sent_on.add(part.job, part.urls.len() as u64);
            for (to, part) in part.divided(|url| partition_of(url.key.host.domain, cluster.partitions)) {
                let message = Message::Command(Box::new(Entry::Stream(Box::new(part))));
                let message = message.encode(&cluster.secret);
                messages.push((to, id_of(to, &message), message));
            }
        }
        self.send(messages).await;
    }

    /// Sends messages, and repeats until all are stored: an inbox takes each once.
    async fn send(&self, messages: Vec<(u32, u128, Vec<u8>)>) {
        while !messages.is_empty() && self.node.cluster.send(messages.clone()).await.is_err() {
            tokio::time::sleep(INBOX_AGAIN).await;
        }
    }

    /// A wish was fed to the worker, at this position of the inbox: waits for the decision and publishes the decision.
    pub(crate) async fn decide(&mut self, wish: &DomainSpread, position: u64) -> Result<(), Stopped> {
        if !self.handle.inbox_is_durable(self.prefixes, position).await? {
            return Ok(());
        }
        self.publish().await?;
        if self.spread.get(wish.domain).is_none() {
            let name = &wish.name;
            tracing::warn!(
                partition = self.partition,
                "{name} is not spread: more than {STAYING_MAX} of its hosts are known"
            );
            let refused = Written { domain: name.to_string(), refused: true, ..Written::default() };
            self.put(wish.domain, &refused).await;
        }
        Ok(())
    }

    /// Publishes the decisions in the partition's log that this reader does not know yet.
    async fn publish(&mut self) -> Result<(), Stopped> {
        let Some(decided) = self.handle.spread_of(self.prefixes).await? else { return Ok(()) };
        for new in decided.iter().filter(|new| self.spread.get(new.domain).is_none()) {
            self.put(new.domain, &Written::of(new)).await;
        }
        if self.node.cluster.spread.add(decided.iter().cloned()) {
            self.handle.set_spread(self.node.cluster.spread.get()).await?;
        }
        self.spread = decided;
        Ok(())
    }

    /// Writes a record, unless the same stands there; repeats while the servers are unreachable.
    async fn put(&self, domain: DomainKey, written: &Written) {
        let (leases, key) = (&*self.node.cluster.leases, key(domain));
        let value = serde_json::to_vec(written).expect("text and a flag");
        loop {
            let put = async {
                let item = leases.record(&key).await?;
                match item {
                    Some(item) if item.value == value => Ok(true),
                    item => {
                        let revision = item.map(|item| item.revision);
                        Ok::<_, nephila_log::Error>(
                            leases.put(&key, revision, value.clone().into()).await?.is_some(),
                        )
                    }
                }
            };
            if put.await.is_ok_and(|done| done) {
                return;
            }
            tokio::time::sleep(INBOX_AGAIN).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_read_as_it_was_written() {
        let secret = nephila_core::key::Secret([3; 16]);
        let staying = Arc::new(BTreeSet::from([0, 7, u32::MAX]));
        let decided = DomainSpread { staying: staying.clone(), ..DomainSpread::wish("a.test", &secret) };
        let text = serde_json::to_string(&Written::of(&decided)).unwrap();
        assert_eq!(text, r#"{"domain":"a.test","staying":"0000000000000007ffffffff","refused":false}"#);
        let written: Written = serde_json::from_str(&text).unwrap();
        assert_eq!(written.staying().as_ref(), Some(&*staying));
        for wrong in ["0", "0000000", "0000000g", "000000000"] {
            let written = Written { staying: wrong.to_owned(), ..Written::default() };
            assert_eq!(written.staying(), None, "{wrong}");
        }
    }

    #[test]
    fn a_table_grows_and_says_when() {
        let secret = nephila_core::key::Secret([3; 16]);
        let (table, one) = (Table::default(), DomainSpread::wish("a.test", &secret));
        assert!(table.add([one.clone()]));
        assert!(!table.add([one.clone()]));
        assert_eq!(table.get().get(one.domain), Some(&one));
    }
}
