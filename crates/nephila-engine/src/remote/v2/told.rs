//! What a node tells its spiders in the beginning: how it wants pages fetched and read.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use nephila_core::handler::{Limits, Page, ReadAs};
use nephila_core::remote::v2::found;
use nephila_core::spider::outcome::Action;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_spider::{Fetched, Spider};
use serde::{Deserialize, Serialize};

use crate::crawl::page::READ_TIME_MAX;
use crate::crawl::readers::{Readers, Unread};
use crate::crawl::stage::{Read as _, StandardReader};
use crate::settings::{Handler, Settings};

/// How a node wants pages fetched and read.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Told {
    user_agent: String,
    spider: nephila_core::spider::Settings,
    /// The product token by which pages address robots.
    agent: String,
    handler: Handler,
    /// Whether images, scripts and styles are wanted too.
    requisites: bool,
}

impl Told {
    /// Without what belongs to the machine of the node: its proxy, its resolvers and its files.
    pub(super) fn of(settings: &Settings) -> Told {
        let mut spider = settings.spider.clone();
        (spider.proxy, spider.ca_file) = (String::new(), None);
        (spider.dns_servers, spider.dns_fixed) = (Vec::new(), Vec::new());
        Told {
            user_agent: settings.identity.user_agent(),
            spider,
            agent: settings.identity.agent.clone(),
            handler: settings.handler.clone(),
            requisites: settings.handler.page_requisites || settings.store.metadata_records,
        }
    }

    pub(super) fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// The spider and the reader that a node wants. `site_ca` are certificates of sites that are trusted in addition.
    pub(super) fn read(json: &str, site_ca: Option<&PathBuf>) -> anyhow::Result<(Spider, Reader)> {
        let mut told: Told = serde_json::from_str(json)
            .context("the settings of the node: use the same release of nephila on both")?;
        told.spider.ca_file = site_ca.cloned();
        let limits = told.handler.limits(told.requisites);
        let (readers, bytes_max) = (Readers::default(), told.handler.page_bytes_max);
        let spider = Spider::new(told.spider, &told.user_agent)?;
        Ok((spider, Reader { readers, limits, bytes_max, agent: told.agent }))
    }
}

/// Reads pages at the spider, behind the same watchdog as at a node. Cheap to clone.
#[derive(Clone)]
pub(super) struct Reader {
    readers: Readers,
    limits: Limits,
    /// Maximum number of bytes of a page that are read.
    bytes_max: usize,
    agent: String,
}

impl Reader {
    /// What the page names, as bytes for the node; empty if the node is to read the page.
    pub(super) async fn found(
        &self,
        url: &CrawlUrl,
        read_as: ReadAs,
        fetched: &Fetched,
    ) -> Result<Vec<u8>, Unread> {
        let body = fetched.decoded.as_ref().and_then(|decoded| decoded.start(self.bytes_max).ok());
        let Some(body) = body.filter(|_| fetched.outcome.action() == Action::Keep) else {
            return Ok(Vec::new());
        };
        let (own, fields) = (url.clone(), fetched.fields.clone());
        let (agent, limits) = (self.agent.clone(), self.limits.clone());
        let read = self.readers.read(READ_TIME_MAX, move || {
            let keys = KeyRules::default();
            let page = Page { url: &own, fields: &fields, body: &body, read_as, agent: &agent, keys: &keys };
            let began = Instant::now();
            let findings = StandardReader.read(&page, &limits, &mut || began.elapsed() > READ_TIME_MAX);
            found::to_bytes(&findings).unwrap_or_default()
        });
        match read.await {
            // The node reads it, says what happened, and remembers the page.
            Err(Unread::Failed | Unread::GivenUp) => Ok(Vec::new()),
            read => read,
        }
    }
}
