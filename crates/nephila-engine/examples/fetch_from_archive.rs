//! Replaces `Fetch`: crawls a site, then crawls the same site again from its archive, without the network.
//!
//!     cargo run -p nephila-engine --example fetch_from_archive

mod site;

use anyhow::ensure;
use nephila_engine::stage::Fetch;
use nephila_engine::{BoxFuture, Captures, Crawl, Fetched, Outcome, Request};

/// Maximum size in bytes of a body.
const BODY_BYTES_MAX: u64 = 1 << 24;

/// Answers every request with the newest capture of its URL.
struct FromArchive(Captures);

impl FromArchive {
    fn answer(&self, request: &Request) -> anyhow::Result<Option<Fetched>> {
        let Some(line) = self.0.nearest(request.url.as_str(), None)? else { return Ok(None) };
        let capture = self.0.read(&line, BODY_BYTES_MAX)?;
        let response = nephila_engine::crawl::decoded::response(&capture, BODY_BYTES_MAX)?;
        Ok(Some(Fetched::answered(request, response)))
    }
}

impl Fetch for FromArchive {
    fn fetch(&self, request: Request) -> BoxFuture<'_, Fetched> {
        let fetched = match self.answer(&request) {
            Ok(Some(fetched)) => fetched,
            Ok(None) => Fetched::not_sent(Outcome::of_status(404), "not in the archive".to_owned()),
            Err(error) => Fetched::not_sent(Outcome::LocalDisk, error.to_string()),
        };
        Box::pin(std::future::ready(fetched))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (url, archive) = (site::start()?, tempfile::tempdir()?);
    let crawl = || Crawl::builder().seed(&url).allow_private_seeds().settings(site::settings());
    let first = crawl().folder(archive.path()).run().await?;
    println!("from the network: {} pages, {} bytes", first.pages, first.bytes);

    let again = crawl().fetch(FromArchive(Captures::new(archive.path()))).run().await?;
    println!("from the archive: {} pages, {} bytes", again.pages, again.bytes);
    ensure!((first.pages, first.bytes) == (again.pages, again.bytes), "the archive has all of the site");
    Ok(())
}
