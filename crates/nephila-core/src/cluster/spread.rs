//! What comes to the home of a spread domain ([`crate::spread`]) is divided here: into what stays and what is sent on.

use xxhash_rust::xxh3::xxh3_64;

use crate::frontier::offers::OfferedUrl;
use crate::key::Secret;
use crate::reflog::BatchKey;
use crate::reflog::part::{Named, Part};
use crate::spread::Spread;

impl Spread {
    /// Divides offers that came to the home: those of the home, and those to send on, with the keys that they have
    /// there.
    pub fn divide(&self, offers: Vec<OfferedUrl>, secret: &Secret) -> (Vec<OfferedUrl>, Vec<OfferedUrl>) {
        let (mut here, mut elsewhere) = (Vec::with_capacity(offers.len()), Vec::new());
        for mut offer in offers {
            let host = self.host_of(offer.key.host, &offer.origin, secret);
            let stays = host == offer.key.host;
            offer.key.host = host;
            if stays { &mut here } else { &mut elsewhere }.push(offer);
        }
        (here, elsewhere)
    }

    /// Gives an offer the key that its URL has now.
    pub fn rekey(&self, offer: &mut OfferedUrl, secret: &Secret) {
        offer.key.host = self.host_of(offer.key.host, &offer.origin, secret);
    }

    /// Gives the URLs of a part of a stream the keys that they have now.
    pub fn rekey_part(&self, part: &mut Part, secret: &Secret) {
        if self.is_empty() {
            return;
        }
        for url in &mut part.urls {
            url.key.host = self.host_of(url.key.host, &url.origin, secret);
        }
        part.urls.sort_by_key(|url| url.key);
    }

    /// Divides a part of a stream that came to the home: the share of the home, and parts to send on. These have names
    /// of their own, since their partitions may have other shares of the same part.
    pub fn divide_part(&self, part: Part, secret: &Secret) -> (Part, Vec<Part>) {
        let (key, job) = (part.key, part.job);
        let (mut here, mut elsewhere) = (Part { key, job, urls: Vec::new() }, Vec::new());
        let goes = |url: &Named| {
            let goes = self.host_of(url.key.host, &url.origin, secret) != url.key.host;
            goes.then_some(url.key.host.domain)
        };
        for (domain, mut share) in part.divided(goes) {
            let Some(domain) = domain else {
                here = share;
                continue;
            };
            share.key = BatchKey(xxh3_64(&[key.0.to_be_bytes(), domain.0.to_be_bytes()].concat()));
            self.rekey_part(&mut share, secret);
            elsewhere.push(share);
        }
        (here, elsewhere)
    }
}

#[cfg(test)]
mod tests;
