//! Who we are to a site: what every command that asks the web says of itself, and whom it may ask without saying it.

use std::net::IpAddr;

use data_encoding::BASE64;
use http::header::{AUTHORIZATION, FROM, HeaderName, HeaderValue};
use nephila_core::spider::address::AddressFilter;
use nephila_core::url::CrawlUrl;

use crate::settings::{Settings, usage};

/// What we say of ourselves.
#[derive(Debug)]
pub(crate) struct Introduction {
    from: Option<HeaderValue>,
    /// Without a contact only what is not public, or what the operator opened, may be asked.
    anonymous: Option<Anonymous>,
}

/// What may be asked by somebody who does not say who they are.
#[derive(Debug)]
struct Anonymous {
    public: AddressFilter,
    opened: Vec<ipnet::IpNet>,
}

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
        let anonymous = settings.identity.contact.is_empty().then(|| Anonymous {
            public: AddressFilter::new(Vec::new(), Vec::new()),
            opened: settings.spider.allow_addresses.clone(),
        });
        Ok(Introduction { from, anonymous })
    }

    /// May this address be asked? A public one wants to know by whom.
    pub(crate) fn may_ask(&self, address: IpAddr) -> bool {
        self.anonymous.as_ref().is_none_or(|anonymous| {
            anonymous.public.check(address).is_err()
                || anonymous.opened.iter().any(|range| range.contains(&address))
        })
    }

    /// The From field, if there is one.
    pub(crate) fn from(&self) -> Option<(HeaderName, HeaderValue)> {
        self.from.clone().map(|from| (FROM, from))
    }
}

/// The Authorization field of a URL that carries a name and a password.
pub(crate) fn credentials(url: &CrawlUrl) -> Option<(HeaderName, HeaderValue)> {
    let (user, password) = url.credentials()?;
    let token = BASE64.encode(format!("{user}:{password}").as_bytes());
    let mut value = HeaderValue::from_str(&format!("Basic {token}")).ok()?;
    value.set_sensitive(true);
    Some((AUTHORIZATION, value))
}
