//! The tools: name, description, schemas, and what each asks of the node.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use nephila_api::agent::{Ask as _, Failure};
use nephila_api::search::SearchSaid;
use nephila_api::status::StatusSaid;
use nephila_api::{Explained, Question, escaped};
use nephila_core::text::shown;
use rmcp::model::ToolAnnotations;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::args;
use super::node::Node;
use super::pages::{self, PageSaid};
use super::said::{Done, Failed, fenced, schema};
use super::sites::{self, CrawlSaid, CrawlStatusSaid, MapSaid};

/// Timeout of a question.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of an answer of the node in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// An answer that comes later.
type Later<'a> = Pin<Box<dyn Future<Output = Result<Done, Failed>> + Send + 'a>>;

/// A tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    input: fn() -> Map<String, Value>,
    output: fn() -> Map<String, Value>,
    /// Whether nothing changes and no site gets a request.
    only_reads: bool,
    pub(super) call: for<'a> fn(&'a Node, Value) -> Later<'a>,
}

impl Tool {
    /// The tool as clients see it.
    pub(super) fn described(&self) -> rmcp::model::Tool {
        let mut tool = rmcp::model::Tool::new(self.name, self.description, Arc::new((self.input)()));
        tool.title = Some(self.title.to_owned());
        tool.output_schema = Some(Arc::new((self.output)()));
        let annotations = ToolAnnotations::new().read_only(self.only_reads).destructive(false);
        tool.annotations = Some(annotations.open_world(!self.only_reads));
        tool
    }
}

/// All tools.
pub(super) fn all() -> [Tool; 8] {
    [
        Tool {
            name: "scrape",
            title: "Fetch a page",
            description: "The text of one page as Markdown. A capture of the last two days is good enough, else the page is \
                fetched now. robots.txt is obeyed, and the crawler waits between the requests to a host, so a page may not \
                come in time: it stays in the queue, and a later call gets it. A long text comes in parts: `read` gives \
                the next ones.",
            input: schema::<args::Scrape>,
            output: schema::<PageSaid>,
            only_reads: false,
            call: |node, value| Box::pin(pages::scrape(node, value)),
        },
        Tool {
            name: "read",
            title: "Read a page that was fetched",
            description: "The text of a page that was fetched before, as Markdown: the newest capture, or the one nearest to \
                a time. A long text comes in parts, each with the offset of the next. Sends nothing to a site; `scrape` \
                fetches a page that is not there.",
            input: schema::<args::Read>,
            output: schema::<PageSaid>,
            only_reads: true,
            call: |node, value| Box::pin(pages::read(node, value)),
        },
        Tool {
            name: "map",
            title: "List the known URLs of a site",
            description: "The URLs of a site that the crawler knows: from its pages, sitemaps, archive and queues. Sends \
                nothing to the site, so a site that was never fetched has none: scrape its first page, or crawl it.",
            input: schema::<args::Map>,
            output: schema::<MapSaid>,
            only_reads: true,
            call: |node, value| Box::pin(sites::map(node, value)),
        },
        Tool {
            name: "crawl",
            title: "Crawl a site",
            description: "Begins to fetch a page and the pages that it leads to, at most 100 of the folder of its URL unless \
                the arguments say otherwise. Returns an id at once; `crawl_status` says how far the crawl is, and `read` \
                and `search` give its pages. robots.txt is obeyed, and the crawler waits between the requests to a host: \
                a hundred pages of one host take minutes.",
            input: schema::<args::Crawl>,
            output: schema::<CrawlSaid>,
            only_reads: false,
            call: |node, value| Box::pin(sites::crawl(node, value)),
        },
        Tool {
            name: "crawl_status",
            title: "Status of a crawl",
            description: "How far a crawl is that `crawl` has begun, with the URLs and titles of its pages so far. Ask again \
                every few seconds while its state is `scraping`. Sends nothing to a site.",
            input: schema::<args::CrawlStatus>,
            output: schema::<CrawlStatusSaid>,
            only_reads: true,
            call: |node, value| Box::pin(sites::crawl_status(node, value)),
        },
        Tool {
            name: "search",
            title: "Search the fetched pages",
            description: "Full-text search in the pages that were fetched before: titles and main texts, the newest \
                capture of each URL. All words must occur. The hits come in the order of their addresses, not by \
                relevance, each with a snippet. An answer may end before the archive does: then it has a cursor, and the \
                next call with this cursor goes on, also when there were no hits so far. Sends nothing to a site.",
            input: schema::<args::Search>,
            output: schema::<SearchSaid>,
            only_reads: true,
            call: |node, value| Box::pin(search(node, value)),
        },
        Tool {
            name: "explain",
            title: "Explain why a page was or was not fetched",
            description: "What the crawler knows of a URL: whether it was fetched, waits in a queue, failed, is forbidden \
                by robots.txt or lies outside the scope of the crawl, with the reason in a sentence, the last response \
                and the time of the next request. Sends nothing to a site.",
            input: schema::<args::Explain>,
            output: schema::<Explained>,
            only_reads: true,
            call: |node, value| Box::pin(explain(node, value)),
        },
        Tool {
            name: "status",
            title: "Status of the crawler",
            description: "What the crawler does now and what holds it back: rates, queues, waits, disk, alarms, jobs with \
                their progress, and the nodes of a cluster. Sends nothing to a site.",
            input: schema::<args::Status>,
            output: schema::<StatusSaid>,
            only_reads: true,
            call: |node, value| Box::pin(status(node, value)),
        },
    ]
}

/// Parses the arguments of a call.
pub(super) fn arguments<T: DeserializeOwned>(value: Value) -> Result<T, Failed> {
    serde_json::from_value(value).map_err(|error| Failed::arguments(error.to_string()))
}

/// Asks the node a question of the API, and parses the JSON of the answer.
async fn get<T: DeserializeOwned>(node: &Node, target: &str) -> Result<T, Failed> {
    let question = Question::get(format!("/api/v1/{target}"), ANSWER_BYTES_MAX, QUESTION_TIMEOUT);
    let reply = node.ask(question).await.map_err(Failure::from)?;
    if !reply.status.is_success() {
        return Err(Failure::of(&reply).into());
    }
    reply
        .json()
        .map_err(|error| Failed::new("other-version", format!("the node is of another version: {error}")))
}

async fn search(node: &Node, value: Value) -> Result<Done, Failed> {
    let args: args::Search = arguments(value)?;
    let mut target = format!("search?q={}", escaped(&args.query));
    for (name, value) in [("url", &args.url), ("cursor", &args.cursor)] {
        if let Some(value) = value {
            _ = write!(target, "&{name}={}", escaped(value));
        }
    }
    if let Some(limit) = args.limit {
        _ = write!(target, "&limit={limit}");
    }
    let said: SearchSaid = get(node, &target).await?;
    let mut text = format!("{} hits in {} pages", said.hits.len(), said.searched);
    if said.unread > 0 {
        _ = write!(text, ", {} pages could not be read", said.unread);
    }
    text.push_str(match &said.cursor {
        Some(_) => "; there is more to search: call again with the cursor",
        None => "; the archive is searched to its end",
    });
    for why in &said.silent {
        _ = write!(text, "\nnot searched: {}", shown(why));
    }
    if let Some(cursor) = &said.cursor {
        _ = write!(text, "\ncursor: {cursor}");
    }
    if !said.hits.is_empty() {
        let hits = said.hits.iter().map(|hit| {
            let (title, snippet) = (shown(&hit.title), shown(&hit.snippet));
            format!("{}\n  {title}\n  {snippet}", shown(&hit.url))
        });
        text = format!("{text}\n{}", fenced(&hits.collect::<Vec<_>>().join("\n")));
    }
    Ok(Done::new(text, &said)?.foreign())
}

async fn explain(node: &Node, value: Value) -> Result<Done, Failed> {
    let args: args::Explain = arguments(value)?;
    explained(&get(node, &format!("explain?url={}", escaped(&args.url))).await?)
}

/// The reason may quote a line of robots.txt.
fn explained(said: &Explained) -> Result<Done, Failed> {
    let mut text = format!("{}: {}", shown(&said.url), said.summary.name());
    if let Some(next) = &said.next {
        _ = write!(text, "; the next request is planned for {next}");
    }
    text = format!("{text}\n{}", fenced(&shown(&said.because).to_string()));
    Ok(Done::new(text, said)?.foreign())
}

async fn status(node: &Node, value: Value) -> Result<Done, Failed> {
    let args::Status {} = arguments(value)?;
    let said: StatusSaid = get(node, "status").await?;
    let mut text = format!(
        "{}: {}\n{} pages fetched, {} URLs in queues, {:.1} pages per second",
        shown(&said.name),
        said.sentence,
        said.done.pages,
        said.frontier.queued,
        said.rates.pages_per_s
    );
    for alarm in &said.alarms {
        _ = write!(text, "\nalarm: {}", shown(&alarm.text));
    }
    Done::new(text, &said)
}

#[cfg(test)]
mod tests {
    use super::super::said::FOREIGN;
    use super::*;

    #[test]
    fn a_line_of_robots_txt_stands_inside_the_fence() {
        let line = "robots.txt forbids it, line 2: Disallow: / # do as I say";
        let done = explained(&Explained::bad("http://a.test/", line.into())).unwrap();
        let (ours, fence) = done.text.split_once(FOREIGN).unwrap();
        assert!(!ours.contains("do as I say") && fence.contains(line), "{}", done.text);
        assert_eq!(done.value["note"], FOREIGN);
    }
}
