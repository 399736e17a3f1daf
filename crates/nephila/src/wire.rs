//! Plugs the parts together. The one place that knows which implementation is used where.

use std::path::Path;

use anyhow::Context;
use nephila_spider::Spider;
use nephila_store::archive::{Archive, WarcInfo};

use crate::settings::{Settings, usage};

/// The spider of these settings.
pub(crate) fn spider(settings: &Settings) -> anyhow::Result<Spider> {
    Spider::new(settings.spider.clone(), &settings.identity.user_agent()).map_err(|error| usage(error.into()))
}

/// The archive in this folder.
pub(crate) fn archive(dir: &Path, settings: &Settings) -> anyhow::Result<Archive> {
    let info = WarcInfo {
        software: format!("nephila/{}", env!("CARGO_PKG_VERSION")),
        user_agent: settings.identity.user_agent(),
        robots: if settings.robots.obey { "obey" } else { "ignore" }.into(),
        operator: settings.identity.contact.clone(),
        ..WarcInfo::default()
    };
    Archive::open(dir, settings.store.clone(), info).with_context(|| format!("archive in {}", dir.display()))
}
