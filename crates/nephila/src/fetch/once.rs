//! Fetches one URL and returns the decoded response, for commands that inspect a page and keep nothing.
//!
//! Invariants: robots.txt is obeyed, every hop of a redirect observes the crawl delay, and nothing is written.

use anyhow::Context;
use nephila_core::spider::door::Doors;
use nephila_spider::Fetched;

use super::{resolved, run};
use crate::cli::FetchArgs;
use nephila_engine::crawl::typed::typed;
use nephila_engine::process::block_on;

/// One hop: URL and response.
pub(crate) struct Hop {
    pub(crate) url: String,
    pub(crate) fetched: Fetched,
}

/// Fetches a URL and follows its redirects. The last hop is the answer; there is at least one.
pub(crate) fn once(args: &FetchArgs) -> anyhow::Result<Vec<Hop>> {
    let settings = resolved(args)?;
    // A typed URL may lead to a private address; its redirects may not.
    let mut doors = Doors::default();
    for url in typed(&args.urls) {
        doors.open(&url);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    let hops = block_on(&runtime, async {
        let runner = run::Runner::new(args, &settings, None)?.for_reading(doors);
        let mut hops = Vec::new();
        for url in &args.urls {
            let mut chain = runner.start(url);
            while let Some(done) = runner.next(&mut chain).await? {
                hops.push(Hop { url: done.url, fetched: done.fetched });
            }
        }
        Ok(hops)
    });
    // A name lookup or a closing socket must not delay the end.
    runtime.shutdown_background();
    hops
}
