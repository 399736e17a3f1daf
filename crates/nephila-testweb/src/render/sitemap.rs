//! Sitemaps: an index, and files of up to [`SITEMAP_URLS`] pages each.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Answer, Renderer, XML};
use crate::model::time::iso_date;
use crate::model::{Place, SITEMAP_URLS, What};

const OPEN: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n";
const NAMESPACE: &str = "http://www.sitemaps.org/schemas/sitemap/0.9";

impl Renderer {
    /// The index of the sitemaps of a host.
    pub(super) fn sitemap_index(&self, host: u32) -> Answer {
        let mut text = format!("{OPEN}<sitemapindex xmlns=\"{NAMESPACE}\">\n");
        for file in 0..self.world.sitemap_count(host) {
            text.push_str("<sitemap><loc>");
            self.world.push_url(&mut text, Place { host, what: What::Sitemap(file) });
            text.push_str("</loc></sitemap>\n");
        }
        text.push_str("</sitemapindex>\n");
        Answer::ok(XML, vec![text.into()])
    }

    /// One file of the sitemap of a host; a gzip file where the host packs them.
    pub(super) fn sitemap(&self, host: u32, file: u64, now: u64) -> Answer {
        let world = &self.world;
        let mut text = format!("{OPEN}<urlset xmlns=\"{NAMESPACE}\">\n");
        let end = ((file + 1) * SITEMAP_URLS).min(world.host_pages(host));
        for page in file * SITEMAP_URLS..end {
            text.push_str("<url><loc>");
            world.push_url(&mut text, Place { host, what: What::Page(page) });
            text.push_str("</loc><lastmod>");
            text.push_str(&iso_date(world.page_version(host, page, now).1));
            text.push_str("</lastmod></url>\n");
        }
        text.push_str("</urlset>\n");
        if !world.packs_sitemaps(host) {
            return Answer::ok(XML, vec![text.into()]);
        }
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).expect("memory takes everything");
        Answer::ok("application/gzip", vec![packed.finish().expect("memory takes everything").into()])
    }
}
