//! The real `nephila` command against the hostile web: what one fetch cannot show, such as politeness, redirects that
//! are followed, and shortages of our own. Tests are named by the case of the catalogue they are about.

// A test runs itself again in a network namespace; the spider's tests do the same, and change routes there too.
#[allow(dead_code)]
#[path = "../../../nephila-spider/tests/hostile/namespace.rs"]
mod namespace;
mod site;
mod support;

// Who is asked, how often, and what happens when we ourselves run short.
mod politeness;
// Lists of URLs: no host holds up another, and the same command goes on.
mod fetch_list;
// Where a redirect may lead, what is sent along, and when it ends.
mod redirects;
// What is in the archive afterwards.
mod archived;
// What goes out with a request beside its URL: cookies, validators, secrets.
mod cookies;
// Who we are to a site, and whether it can check that.
mod identity;
// Which addresses are opened by whom, who may read what is written, and which secrets go where.
mod doors;
// A whole crawl, from the first command to the last question.
mod crawl;
// Names with several addresses, some of them dead.
mod addresses;
// Requests that are made once more, and rest before that.
mod second_tries;
mod servers_away;
// How it ends: what is waited for, what is left, with which words and exit code.
mod ending;
// What a whole crawl asks a hostile site for, and what not.
mod crawl_hostile;
// What a capture knows, and what is made of it afterwards.
mod known;
// What of a folder is gone or damaged, and what happens then.
mod damage;
// Every request has a line, whatever ends the process.
mod every_request;
// Answers that were made to cost minutes.
mod bombs;
// What can be asked about all this afterwards.
mod questions;
// Feeds that are followed.
mod feeds;
// Feeds of one source, their health, what is stored of them, lists.
mod sources;
// What happened, told to programs of others.
mod events;
// Pages that are visited again, and the text of stories.
mod recrawl;
// How much of a machine a crawl takes.
mod threads;
mod unwritable;
// Streams of URLs.
mod reflog;
// A crawl on one machine that runs all the time and answers over HTTP.
mod alone;
// A cluster, asked over HTTP.
mod cluster_api;
