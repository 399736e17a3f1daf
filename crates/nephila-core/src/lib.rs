//! The decisions of the crawler Nephila. No sockets, no files, no clock, no randomness, no async: time and bytes are
//! arguments, and the same inputs give the same decisions on every machine. The other crates carry the decisions out:
//! `nephila-spider` talks to the web, `nephila-store` to disks, `nephila-log` makes entries durable, and `nephila`
//! drives the loop.
//!
//! A text becomes a URL once, in [`url`]: a [`CrawlUrl`](url::CrawlUrl) has the form that is requested and the
//! canonical form that identifies the page. Seeds come from an operator, streams of visited URLs from log files
//! ([`intake`], [`reflog`]), stories from feeds ([`feed`]), and most URLs from pages. The scope of a [`job`] decides at
//! the place of discovery which of them are wanted ([`want`]), and the wanted URLs enter the [`frontier`] as offers.
//!
//! The frontier deduplicates offers and sifts them against the [`state`] of their partition. A new URL is queued,
//! parked or refused. Each decision is an [`entry`] of the partition's log; a group of entries becomes durable first,
//! and then the [`fold`] applies the group to the state. A replay of the log gives the same state, and readers derive
//! every [`event`] from the same log.
//!
//! A queued URL waits until its host is loaded into the workbench. The host's name is resolved, its [`robots`].txt is
//! fetched, and the rate limits are checked: a host and a slot (one IP address) rest between requests. Then the
//! frontier issues a ticket, the permission to fetch one URL once. Before every request the stop list of the operator
//! is checked ([`stop_list`]).
//!
//! The fetch itself happens in `nephila-spider`, by the rules of [`spider`]: deadlines and size limits, the address
//! filter, content codings, cookies, authentication, and one table of outcomes that decides between keeping a response,
//! retrying with backoff, and giving up. [`identity`] describes the crawler to the sites and defines
//! the signature of requests. Programs of others can fetch as well: [`remote`] is their protocol.
//!
//! The response is an [`Exchange`](store::Exchange). [`store`] turns an exchange into WARC records and index lines,
//! without secrets. [`handler`] detects the type and encoding of the body and extracts the links; [`follow`] judges links
//! and redirects by the scope, and the wanted ones return to the frontier as offers. Capture and links become durable before the outcome is reported, so a crash in
//! between repeats the fetch and loses nothing. The report closes the ticket and ends in the log: the URL is done,
//! waits for a retry, or gets a time for the next visit ([`recrawl`]).
//!
//! With several nodes, [`cluster`] decides which node owns which partition (leases, epochs, fencing), routes links to
//! the partitions of other nodes, and grants each slot to one node at a time. [`webhook`] decides when events are sent
//! to a program of the operator.
//!
//! The rest are tools: [`time`] (timestamps and clocks as values), [`codec`] (durable bytes), [`text`] (untrusted text
//! made safe to show), [`trace`] (tickets as OpenTelemetry traces) and [`planted`] (bugs that tests switch on).

// Tests read golden files and measure time; the tested code does neither (see clippy.toml).
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod budget;
#[cfg(test)]
mod chance;
pub mod cluster;
pub mod codec;
#[cfg(any(test, feature = "test-util"))]
pub mod conformance;
pub mod entry;
pub mod event;
pub mod feed;
pub mod fold;
pub mod follow;
pub mod frontier;
pub mod handler;
pub mod histogram;
pub mod identity;
pub mod intake;
pub mod job;
pub mod key;
mod notes;
pub mod planted;
pub mod recrawl;
pub mod reflog;
pub mod refusal;
pub mod remote;
pub mod robots;
#[doc(hidden)]
pub mod simhash;
pub mod sources;
pub mod spider;
pub mod spread;
pub mod state;
pub mod stop_list;
pub mod store;
pub mod text;
pub mod time;
pub mod trace;
pub mod trap;
pub mod url;
pub mod want;
pub mod webhook;
