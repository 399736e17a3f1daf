//! The webs of the comparison: how many pages and hosts each has, and what the server does there.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::tools::Tool;

/// With many hosts, this many pages per host in the mean.
const PAGES_PER_HOST: u32 = 3;
/// Large pages are fewer by this factor.
const LARGE_FEWER: u32 = 4;
/// Number of links of every page.
pub(super) const LINKS: u32 = 40;

/// A web to crawl.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Case {
    OneHost,
    ManyHosts,
    RealPages,
    Gzip,
    LargePages,
    Tls,
    Http2,
}

/// Sizes of a web.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Size {
    pub(super) pages: u32,
    pub(super) hosts: u32,
    /// Mean size of a page.
    pub(super) page_bytes: u32,
}

impl Case {
    pub(super) const ALL: [Case; 7] = [
        Case::OneHost,
        Case::ManyHosts,
        Case::RealPages,
        Case::Gzip,
        Case::LargePages,
        Case::Tls,
        Case::Http2,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Case::OneHost => "one-host",
            Case::ManyHosts => "many-hosts",
            Case::RealPages => "real-pages",
            Case::Gzip => "gzip",
            Case::LargePages => "large-pages",
            Case::Tls => "tls",
            Case::Http2 => "http2",
        }
    }

    pub(super) fn of(name: &str) -> Result<Case> {
        let found = Case::ALL.into_iter().find(|case| case.name() == name);
        found.with_context(|| format!("no case {name}: there are {}", Case::ALL.map(Case::name).join(", ")))
    }

    /// What is special about this web, after its sizes.
    pub(super) fn what(self) -> &'static str {
        match self {
            Case::OneHost | Case::ManyHosts => "plain HTTP/1.1, words without markup",
            Case::RealPages => "plain HTTP/1.1, markup about as in real pages, sizes far apart",
            Case::Gzip => "HTTP/1.1, gzip on the wire for those who accept it",
            Case::LargePages => "plain HTTP/1.1, large pages",
            Case::Tls => "TLS, HTTP/1.1 alone",
            Case::Http2 => "TLS, HTTP/2 for those who speak it, HTTP/1.1 for the others",
        }
    }

    pub(super) fn size(self, pages: u32) -> Size {
        let hosts = pages.div_ceil(PAGES_PER_HOST);
        match self {
            Case::OneHost => Size { pages, hosts: 1, page_bytes: 20_000 },
            Case::ManyHosts | Case::Gzip | Case::Tls | Case::Http2 => {
                Size { pages, hosts, page_bytes: 20_000 }
            }
            Case::RealPages => Size { pages, hosts, page_bytes: 60_000 },
            Case::LargePages => Size { pages: pages.div_ceil(LARGE_FEWER), hosts: 1, page_bytes: 100_000 },
        }
    }

    /// The settings of the test web, but for its ports.
    pub(super) fn settings(self, pages: u32) -> serde_json::Value {
        let Size { pages, hosts, page_bytes } = self.size(pages);
        let is_real = self == Case::RealPages;
        json!({
            "pages": pages,
            "hosts": hosts,
            "page_bytes": page_bytes,
            "page_bytes_sigma": if is_real { 1.0 } else { 0.6 },
            "text": if is_real { "markup" } else { "words" },
            "links": LINKS,
            "addresses": 1,
            "encodings": if self == Case::Gzip { &["gzip"][..] } else { &[] },
            "https_share": if matches!(self, Case::Tls | Case::Http2) { 1.0 } else { 0.0 },
            "http2": self == Case::Http2,
        })
    }

    /// The reason why a tool has no part in this case, or none.
    pub(super) fn why_not(self, tool: Tool) -> Option<&'static str> {
        match (self, tool) {
            (Case::Gzip | Case::Http2, Tool::BareLoop) => {
                Some("it speaks HTTP/1.1 alone, and accepts no coding")
            }
            _ => None,
        }
    }

    /// Whether ours must come near the bare loop here.
    pub(super) fn asks_for_the_limit(self) -> bool {
        matches!(self, Case::OneHost | Case::ManyHosts)
    }
}
