//! Who we are to a site: what every command that asks the web says of itself, and whom it may ask without saying it.

use std::net::IpAddr;
use std::time::Duration;

use http::header::{FROM, HeaderName, HeaderValue};
use nephila_core::spider::Outcome;
use nephila_core::spider::address::AddressFilter;

use crate::settings::{Settings, usage};

/// What we say of ourselves.
#[derive(Debug)]
pub(crate) struct Introduction {
    from: Option<HeaderValue>,
    /// Without a contact, or with rests that disturb people, only what is not public, or what the operator opened, may be
    /// asked.
    only: Option<(Outcome, Private)>,
}

/// A shorter rest is for one's own sites.
const DELAY_MIN: Duration = Duration::from_millis(250);
/// More connections to one host are for one's own sites.
const CONNECTIONS_MAX: u32 = 8;

/// What may be asked by anybody.
#[derive(Debug)]
struct Private {
    public: AddressFilter,
    opened: Vec<ipnet::IpNet>,
}

/// Would these settings disturb a site that is not one's own?
pub(crate) fn disturbs(settings: &Settings) -> bool {
    let frontier = &settings.frontier;
    let fast = frontier.host_delay < DELAY_MIN || frontier.host_connections > CONNECTIONS_MAX;
    fast && !settings.crawl.own_sites
}

/// Why a public site is not asked with them.
pub(crate) const DISTURBS: &str = "this is going to disturb people: less than 250 ms of rest, or more than 8 connections to a \
    host, are for your own sites. If they are all yours, say so with --set crawl.own_sites=true";

impl Introduction {
    /// As the settings say.
    pub(crate) fn new(settings: &Settings) -> anyhow::Result<Introduction> {
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

    /// Why this address may not be asked: a public one wants to know by whom, and to be left in peace.
    pub(crate) fn may_ask(&self, address: IpAddr) -> Result<(), Outcome> {
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

    /// The From field, if there is one.
    pub(crate) fn from(&self) -> Option<(HeaderName, HeaderValue)> {
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
