//! The keys of URLs in a frontier whose domains may be spread ([`crate::spread`]).

use std::sync::Arc;

use super::Frontier;
use crate::key::UrlKey;
use crate::spread::Spread;
use crate::state::State;
use crate::url::CrawlUrl;

impl<S: State> Frontier<S> {
    /// Sets the spread domains of the cluster. The partitions here know their own.
    pub fn set_spread(&mut self, spread: Arc<Spread>) {
        self.spread = spread;
    }

    /// The spread domains of a partition here.
    pub fn spread_of(&self, partition: usize) -> &Spread {
        &self.partitions[partition].state.meta().spread
    }

    /// The key of a URL.
    pub(super) fn key(&self, url: &CrawlUrl) -> UrlKey {
        let key = UrlKey::of(url, &self.secret);
        let own = self.partition_of(&key.host).map(|home| self.spread_of(home));
        let spread = own.filter(|own| own.get(key.host.domain).is_some()).unwrap_or(&self.spread);
        UrlKey { host: spread.host(key.host, url.host_str(), &self.secret), ..key }
    }
}
