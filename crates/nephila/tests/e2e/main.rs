//! The real `nephila` command against the hostile web: what one fetch cannot show, such as politeness, redirects that
//! are followed, and shortages of our own. Tests are named by the case of the catalogue they are about.

// A test runs itself again in a network namespace; the spider's tests do the same, and change routes there too.
#[allow(dead_code)]
#[path = "../../../nephila-spider/tests/hostile/namespace.rs"]
mod namespace;
mod support;

// Who is asked, how often, and what happens when we ourselves run short.
mod politeness;
// Where a redirect may lead, what is sent along, and when it ends.
mod redirects;
// What is in the archive afterwards.
mod archived;
// What goes out with a request beside its URL: cookies, validators, secrets.
mod cookies;
// Who we are to a site, and whether it can check that.
mod identity;
// A whole crawl, from the first command to the last question.
mod crawl;
// What a whole crawl asks a hostile site for, and what not.
mod crawl_hostile;
// What can be asked about all this afterwards.
mod questions;
// Feeds that are followed.
mod feeds;
// What happened, told to programs of others.
mod events;
// Pages that are visited again, and the text of stories.
mod recrawl;
// Streams of URLs.
mod reflog;
// A cluster, asked over HTTP.
mod cluster_api;
