//! Identification towards sites: the `From` header field, and the addresses that may be requested without a contact.

use std::net::IpAddr;
use std::time::Duration;

use http::header::{FROM, HeaderName, HeaderValue};
use nephila_core::spider::Outcome;
use nephila_core::spider::address::AddressFilter;

use crate::settings::{Settings, usage};

/// Identification of this crawler, and the restriction without one.
#[derive(Debug)]
pub struct Introduction {
    from: Option<HeaderValue>,
    /// Without a contact, or with crawl delays that disturb people, only addresses are permitted that are not public or
    /// that the operator opened.
    only: Option<(Outcome, Private)>,
}

/// A shorter crawl delay is only for the operator's own sites.
pub const DELAY_MIN: Duration = Duration::from_millis(250);
/// More connections to one host are only for the operator's own sites.
pub const CONNECTIONS_MAX: u32 = 8;

/// The addresses permitted without a contact: all but public ones, and opened ranges.
#[derive(Debug)]
pub struct Private {
    public: AddressFilter,
    opened: Vec<ipnet::IpNet>,
}

/// Whether these settings would disturb a site of other people.
pub fn disturbs(settings: &Settings) -> bool {
    let frontier = &settings.frontier;
    let fast = frontier.host_delay < DELAY_MIN || frontier.host_connections > CONNECTIONS_MAX;
    fast && !settings.crawl.own_sites
}

/// The message for a public site that is refused with such settings.
pub const DISTURBS: &str = "this is going to disturb people: less than 250 ms of rest, or more than 8 connections to a \
    host, are for your own sites. If they are all yours, say so with --set crawl.own_sites=true";

impl Introduction {
    /// Builds the identification from the settings.
    pub fn new(settings: &Settings) -> anyhow::Result<Introduction> {
        let from = match settings.identity.from.as_str() {
            "" => None,
            from => Some(
                HeaderValue::from_str(from)
                    .map_err(|_| usage(anyhow::anyhow!("identity.from {from:?} cannot be sent")))?,
            ),
        };
        let why = match settings.identity.contact.is_empty() {
            true => Some(Outcome::NoContact),
            false => disturbs(settings).then_some(Outcome::NotOwnSite),
        };
        let private = || Private {
            public: AddressFilter::new(Vec::new(), Vec::new()),
            opened: settings.spider.allow_addresses.clone(),
        };
        Ok(Introduction { from, only: why.map(|why| (why, private())) })
    }

    /// Checks whether this address may be requested: a public address needs a contact and an acceptable crawl delay.
    pub fn may_ask(&self, address: IpAddr) -> Result<(), Outcome> {
        match &self.only {
            Some((why, private))
                if private.public.check(address).is_ok()
                    && !private.opened.iter().any(|range| range.contains(&address)) =>
            {
                Err(*why)
            }
            _ => Ok(()),
        }
    }

    /// The `From` header field, if configured.
    pub fn from(&self) -> Option<(HeaderName, HeaderValue)> {
        self.from.clone().map(|from| (FROM, from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pol_12_rests_that_disturb_are_for_ones_own_sites() {
        let (public, opened): (IpAddr, IpAddr) =
            ("93.184.216.34".parse().unwrap(), "127.0.0.1".parse().unwrap());
        let mut settings = Settings::default();
        settings.spider.allow_addresses = vec!["127.0.0.0/8".parse().unwrap()];
        let asked = |settings: &Settings, address| Introduction::new(settings).unwrap().may_ask(address);
        assert_eq!(asked(&settings, public), Err(Outcome::NoContact));
        settings.identity.contact = "me@example.org".into();
        assert_eq!(asked(&settings, public), Ok(()));
        settings.frontier.host_delay = Duration::ZERO;
        settings.frontier.host_connections = 100;
        assert_eq!(asked(&settings, public), Err(Outcome::NotOwnSite));
        assert_eq!(asked(&settings, opened), Ok(()));
        settings.frontier.host_delay = Duration::from_secs(2);
        assert_eq!(asked(&settings, public), Err(Outcome::NotOwnSite), "a hundred connections are enough");
        settings.crawl.own_sites = true;
        assert_eq!(asked(&settings, public), Ok(()));
    }
}
