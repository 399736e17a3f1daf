//! The real `nephila` command against the hostile web: behaviour that one fetch cannot show, such as politeness,
//! redirects that are followed, and shortages of our own. Tests are named by their case of the catalogue.

// A test runs itself again in a network namespace; the spider's tests do the same, and change routes there too.
#[allow(dead_code)]
#[path = "../../../nephila-spider/tests/hostile/namespace.rs"]
mod namespace;
mod site;
mod support;

// Politeness: which hosts are requested, how often, and shortages of our own.
mod politeness;
// Lists of URLs: no host holds up another, and the same command goes on.
mod fetch_list;
// Redirects: the allowed targets, the fields sent along, and the end of a chain.
mod redirects;
// The contents of the archive afterwards.
mod archived;
// Fields of a request beside its URL: cookies, validators, secrets.
mod cookies;
// The crawler's identity, and signatures that a site can verify.
mod http_api;
mod identity;
// Which addresses are opened by which input, file permissions, and the destinations of secrets.
mod doors;
// A whole crawl, from the first command to the last question.
mod crawl;
// Names with several addresses, some of them dead.
mod addresses;
// Requests that are made once more, and rest before that.
mod second_tries;
mod servers_away;
// How a crawl ends: waits, remaining URLs, closing words and exit code.
mod ending;
// The requests of a whole crawl to a hostile site.
mod crawl_hostile;
// The metadata of a capture, and its later use.
mod known;
// Missing and damaged files of a folder, and recovery.
mod damage;
// Folders that earlier versions left.
mod golden;
// Every request has a line, whatever ends the process.
mod every_request;
// Answers that were made to cost minutes.
mod bombs;
// Queries over an archive.
mod questions;
// Feeds that are followed.
mod feeds;
// Feeds of one source, their health, their captures, lists.
mod sources;
// Events for other programs.
mod events;
// Events that are sent to programs of the operator.
mod webhooks;
// Pages that are visited again, and the text of stories.
mod recrawl;
// How much of a machine a crawl takes.
mod threads;
mod unwritable;
// Streams of URLs.
mod reflog;
// Large bodies in an object store.
mod media;
// Spans of every ticket, at a collector.
mod traces;
// A crawl on one machine that runs all the time and answers over HTTP.
mod alone;
// What a served crawl says about itself.
mod overview;
// Whole pages, and reads that wait for the crawl.
mod reading;
// Tools for language models.
mod mcp;
// A cluster, asked over HTTP.
mod cluster_api;
