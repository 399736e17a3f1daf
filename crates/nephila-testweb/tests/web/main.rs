//! The synthetic web from outside: real sockets, a raw client, and a tiny crawler.

/// A raw client: DNS by hand, HTTP/1.1 and HTTP/2 by hyper, with and without TLS.
mod client;
/// The `testweb` command.
mod command;
/// A crawl by a tiny crawler against ground truth, and all judges on this crawler and on rude ones.
mod crawl;
/// DNS over UDP and TCP.
mod dns;
/// Pages, codings, conditions, determinism, tarpits, dead hosts, many addresses.
mod pages;
/// When a connection ends in the journal, ended by either side.
mod parting;
