//! `scrape` and `read`: one page as text, in parts.

use std::fmt::Write as _;
use std::time::Duration;

use nephila_api::agent::{self, ScrapeOptions, Scraped, Wants};
use nephila_core::text::shown;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::args;
use super::node::Node;
use super::said::{CHARS_MAX, Done, Failed, fenced, part};
use super::tools::arguments;

/// A page, or a part of its text.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct PageSaid {
    /// The URL of the page, after redirects.
    url: String,
    /// The HTTP status.
    status: u16,
    /// Media type.
    content_type: String,
    /// Time of the capture.
    captured: String,
    /// Whether the capture was there before the call, and nothing was fetched.
    cached: bool,
    /// Title of the page; empty if there is none.
    title: String,
    /// What the page says about itself.
    description: String,
    /// The language that the page states.
    language: String,
    /// The author, as on the page.
    author: String,
    /// The time of publication, as on the page.
    published: String,
    /// The text of the page as Markdown, from the offset on.
    text: String,
    /// Length of the whole text in characters.
    chars: usize,
    /// Where the text goes on: `read` with this offset gives the next part. None at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// The links of the page, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<Vec<String>>,
    /// What the reader should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

fn wants(links: bool, whole: bool) -> Wants {
    Wants { markdown: true, links, only_main: !whole, html: false, raw_html: false, images: false }
}

/// `read`.
pub(super) async fn read(node: &Node, value: Value) -> Result<Done, Failed> {
    let args: args::Read = arguments(value)?;
    if let Some(at) = &args.at
        && (!(4..=14).contains(&at.len()) || !at.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return Err(Failed::arguments("at: 4 to 14 digits, such as 20261115"));
    }
    let page = agent::read(node, &args.url, wants(args.links, args.whole), args.at.as_deref()).await?;
    done(page, args.offset.unwrap_or(0) as usize)
}

/// `scrape`.
pub(super) async fn scrape(node: &Node, value: Value) -> Result<Done, Failed> {
    let args: args::Scrape = arguments(value)?;
    let usual = ScrapeOptions::default();
    let options = ScrapeOptions {
        wants: wants(args.links, args.whole),
        max_age: args.max_age_s.map_or(usual.max_age, Duration::from_secs),
        timeout: args.timeout_s.map_or(usual.timeout, Duration::from_secs),
        ..usual
    };
    done(agent::scrape(node, &args.url, &options).await?, 0)
}

fn done(page: Scraped, offset: usize) -> Result<Done, Failed> {
    let whole = page.markdown.unwrap_or_default();
    let (text, next_offset) = part(&whole, offset, CHARS_MAX);
    let said = PageSaid {
        url: page.url,
        status: page.status,
        content_type: page.content_type,
        captured: page.captured,
        cached: page.cached,
        title: page.title,
        description: page.description,
        language: page.language,
        author: page.author,
        published: page.published,
        text,
        chars: whole.chars().count(),
        next_offset,
        links: page.links,
        warning: page.warning,
    };
    let mut words = format!("status {}, captured {}", said.status, said.captured);
    if let Some(next) = said.next_offset {
        _ = write!(
            words,
            "\npart of {} characters: read this URL with offset {next} for the next",
            said.chars
        );
    }
    // A redirect leads to a URL that the site chose, and a warning may name it.
    let mut page = shown(&said.url).to_string();
    if let Some(warning) = &said.warning {
        _ = write!(page, "\nwarning: {}", shown(warning));
    }
    if !said.title.is_empty() {
        _ = write!(page, "\n{}", shown(&said.title));
    }
    _ = write!(page, "\n\n{}", said.text);
    words = format!("{words}\n{}", fenced(&page));
    Ok(Done::new(words, &said)?.foreign())
}

#[cfg(test)]
mod tests {
    use super::super::said::FOREIGN;
    use super::*;

    #[test]
    fn nothing_that_a_site_chose_stands_before_the_fence() {
        let page = Scraped {
            url: "http://a.test/do-as-I-say".into(),
            title: "do as I say".into(),
            warning: Some("http://a.test/do-as-I-say is not fetched".into()),
            markdown: Some("Do as I say.".into()),
            ..Scraped::default()
        };
        let done = done(page, 0).unwrap();
        let (ours, fence) = done.text.split_once(FOREIGN).unwrap();
        assert!(!ours.contains("do") && ours.contains("status"), "{ours}");
        assert!(
            fence.contains("http://a.test/do-as-I-say\nwarning: ") && fence.contains("\n\nDo as"),
            "{fence}"
        );
    }
}
