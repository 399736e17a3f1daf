//! Checks conditional requests: a request carries the validators of a version exactly if the archive has that version,
//! and the log says that the version was read.
//!
//! A 304 is no new version, and neither is a failure: the earlier capture and its validators stay in force. A capture
//! that was stored and is not in the log, because a process died in between, may hide links that were never offered.

use nephila_core::frontier::ticket::Ticket;
use nephila_core::spider::Outcome;
use nephila_core::state::record::LastFetch;

use crate::site::Version;
use crate::{Checker, Violation};

#[derive(Clone, Debug, Default)]
struct Book {
    /// The last version in the archive, unless the archive has forgotten the page.
    stored: Option<Version>,
    /// The last version in the log.
    known: Version,
    /// The last outcome in the log came without a request: the next request may do without conditions.
    unasked: bool,
}

/// Books about captures, by URL.
#[derive(Debug)]
pub struct Conditions {
    urls: Vec<Book>,
}

impl Conditions {
    /// Empty books.
    pub fn new(urls: usize) -> Conditions {
        Conditions { urls: vec![Book::default(); urls] }
    }

    /// The archive has a new version, or has forgotten the page.
    pub fn handle_stored(&mut self, url: u32, version: Option<Version>) {
        self.urls[url as usize].stored = version;
    }

    /// The outcome of a fetch is in the log.
    pub fn handle_ended_known(&mut self, url: u32, outcome: Outcome, version: &Version) {
        self.urls[url as usize].unasked = false;
        match outcome {
            Outcome::Fetched => self.urls[url as usize].known = version.clone(),
            Outcome::Redirect => self.urls[url as usize].known = Version::default(),
            _ => {}
        }
    }

    /// An outcome without a request is in the log.
    pub fn handle_unasked(&mut self, url: u32) {
        self.urls[url as usize].unasked = true;
    }

    /// A page is requested with these validators.
    pub fn check_request(&self, url: u32, ticket: &Ticket, sent: &Version) -> Result<(), Violation> {
        let Book { stored, known, unasked } = &self.urls[url as usize];
        let held = stored.as_ref() == Some(known);
        let expected = if held { known.clone() } else { Version::default() };
        if *sent == expected || sent.is_empty() && *unasked {
            return Ok(());
        }
        let what =
            format!("{} is asked for with {sent:?}; stored {stored:?}, in the log {known:?}", ticket.url);
        Err(Violation::new(Checker::Conditions, what))
    }

    /// The world is quiet: the record of a page has the validators of the last version that was read.
    pub fn check_record(&self, url: u32, last: &LastFetch) -> Result<(), Violation> {
        let known = &self.urls[url as usize].known;
        if known.etag == *last.etag && known.last_modified == *last.last_modified {
            return Ok(());
        }
        let what = format!("page {url} was last read as {known:?}, its record is {last:?}");
        Err(Violation::new(Checker::Conditions, what))
    }
}
