//! The main text of a page without navigation and boilerplate: title, date, author, language and text (SEEDS D8).
//!
//! Text is extracted from the pages of new stories, and with a setting from all pages. The fields go into the metadata
//! record of the capture, the text into a `conversion` record beside the capture. The extraction is done by
//! `nephila-text`, and of PDF files by `nephila-pdf` in a child process ([`pdf`]).
//!
//! Invariants: no page exceeds the time, memory and stack limits here and of that crate; a page without main text is
//! stored like any other.

pub mod pdf;
pub mod plain;

use std::time::Duration;

use nephila_core::handler::sniff::{self, Kind};
use nephila_core::handler::{ReadAs, charset};
use nephila_core::spider::outcome::Action;
use nephila_core::url::CrawlUrl;
use nephila_spider::Fetched;

use super::page::watched;
use super::readers::Unread;
use super::shared::Shared;

/// Timeout of the extraction; then the reader is abandoned. The tree is built in two seconds at most, and the rest is
/// linear.
pub const TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum size in bytes of a page for extraction: no story is larger.
pub const HTML_BYTES_MAX: usize = 4 << 20;
/// Maximum size in bytes of a stored text.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Maximum size in bytes of every other field.
pub const FIELD_BYTES_MAX: usize = 1_000;
/// Minimum length of a text: anything shorter is a cookie notice or a line of links.
pub const TEXT_CHARS_MIN: usize = 80;

/// The main content of a page. An empty field was not found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Article {
    pub(crate) title: String,
    /// Verbatim from the page.
    pub(crate) published: String,
    pub(crate) author: String,
    pub(crate) language: String,
    /// Main text as plain text, at most [`TEXT_BYTES_MAX`] bytes.
    pub text: String,
}

impl Article {
    /// Lines for the metadata record.
    pub fn notes(&self) -> Vec<(&'static str, String)> {
        let fields = [
            ("title", &self.title),
            ("published", &self.published),
            ("author", &self.author),
            ("language", &self.language),
        ];
        fields
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name, value.clone()))
            .collect()
    }
}

/// The article on a fetched page, if there is one and the settings want articles.
pub async fn article(
    shared: &Shared,
    read_as: ReadAs,
    url: &CrawlUrl,
    fetched: &Fetched,
) -> Result<Option<Article>, Unread> {
    if !shared.settings.handler.text.wants(read_as) || fetched.outcome.action() != Action::Keep {
        return Ok(None);
    }
    let label = fetched.fields.get(http::header::CONTENT_TYPE).map(|value| value.as_bytes().to_vec());
    let start = fetched.decoded.as_ref().and_then(|decoded| decoded.start(sniff::SNIFF_BYTES_MAX).ok());
    let kind = start.map(|start| sniff::sniff(label.as_deref(), &start).kind);
    let (bytes_max, _room) = match kind {
        Some(Kind::Html) => (HTML_BYTES_MAX, None),
        Some(Kind::Pdf) if pdf::is_read() => (pdf::BYTES_MAX, Some(pdf::room().await)),
        _ => return Ok(None),
    };
    let body = fetched.decoded.as_ref().and_then(|decoded| decoded.start(bytes_max + 1).ok());
    let Some(body) = body.filter(|body| body.len() <= bytes_max) else { return Ok(None) };
    let address = url.as_str().to_owned();
    let read = watched(shared, url, TIME_MAX, move || of_body(&body, label.as_deref(), &address));
    // A page that makes the reader fail has no text, and is stored all the same.
    match read.await {
        Err(Unread::Failed) => Ok(None),
        read => read,
    }
}

/// The article in the decoded body of a page or a PDF, if there is one. `label` is its `Content-Type`.
pub fn of_body(body: &[u8], label: Option<&[u8]>, url: &str) -> Option<Article> {
    match sniff::sniff(label, body).kind {
        Kind::Html if body.len() <= HTML_BYTES_MAX => {
            let decision = charset::decide(label, body);
            read(&charset::decode(decision.encoding, body, HTML_BYTES_MAX).text, url)
        }
        Kind::Pdf => pdf::read(body),
        _ => None,
    }
}

/// The article in a stored page, if there is one. The address helps to find the kind of the page.
pub fn of_html(html: &str, url: &str) -> Option<Article> {
    (html.len() <= HTML_BYTES_MAX).then(|| read(html, url)).flatten()
}

/// What a stored page says to a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// Title of the page; empty if none was found.
    pub title: String,
    /// The main text, or all text of the page.
    pub text: String,
    /// Whether the text is the main text alone.
    pub is_main: bool,
}

/// The title of a stored page with its main text or, if none was found, all text.
pub fn readable(html: &str, url: &str) -> Readable {
    match of_html(html, url) {
        Some(article) => Readable { title: article.title, text: article.text, is_main: true },
        None => {
            let text = plain::text(html);
            Readable {
                title: plain::title(html),
                text: cut(&text, TEXT_BYTES_MAX).to_owned(),
                is_main: false,
            }
        }
    }
}

/// The main text of a stored page as Markdown, if there is one.
#[cfg(feature = "text")]
pub fn markdown_of(html: &str, url: &str) -> Option<String> {
    let found = (html.len() <= HTML_BYTES_MAX).then(|| nephila_text::extract_with_markdown(html, url))?;
    is_long(&found.text).then_some(found.markdown)
}

/// The article in a page.
#[cfg(feature = "text")]
pub fn read(html: &str, url: &str) -> Option<Article> {
    let found = nephila_text::extract(html, url);
    let text = cut(found.text.trim(), TEXT_BYTES_MAX).to_owned();
    let field = |value: &str| cut(value.trim(), FIELD_BYTES_MAX).to_owned();
    is_long(&text).then(|| Article {
        title: field(&found.title),
        published: field(&found.published),
        author: field(&found.author),
        language: field(&found.language),
        text,
    })
}

#[cfg(feature = "text")]
fn is_long(text: &str) -> bool {
    text.trim().chars().take(TEXT_CHARS_MIN).count() == TEXT_CHARS_MIN
}

/// Without the feature `text` no article is found.
#[cfg(not(feature = "text"))]
pub fn read(_html: &str, _url: &str) -> Option<Article> {
    None
}

/// Returns the longest prefix of at most `bytes_max` bytes that ends at a character boundary.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(all(test, feature = "text"))]
mod tests {
    use super::*;

    const STORY: &str = include_str!("text/story.html");
    const URL: &str = "https://news.test/2026/11/14/bridge";

    #[test]
    fn the_text_of_a_story_is_found_without_what_stands_around_it() {
        let article = read(STORY, URL).unwrap();
        assert_eq!(article.title, "The harbour bridge is open again");
        assert_eq!(article.author, "Ida Sand");
        assert_eq!(article.language, "en");
        assert!(article.published.starts_with("2026-11-14T09:30:00"), "{}", article.published);
        assert!(article.text.contains("After eleven months of repairs"), "{}", article.text);
        assert!(article.text.contains("the last crane was taken away"), "{}", article.text);
        for around in ["Subscribe to our newsletter", "Cookie settings", "Weather today"] {
            assert!(!article.text.contains(around), "{around}: {}", article.text);
        }
        assert_eq!(article.notes().len(), 4);
    }

    #[test]
    fn a_page_without_a_text_has_none() {
        assert_eq!(read("<html><body><a href=/>home</a></body></html>", URL), None);
        assert_eq!(read("", URL), None);
        assert_eq!(markdown_of("", URL), None);
    }

    #[test]
    fn a_costly_page_is_read_soon_and_with_little_stack() {
        let words = "word ".repeat(1_000);
        let opens = [("<div>", 100_000), ("<div></x>", 40_000), ("<svg><tr>", 40_000), ("<ul><li>", 40_000)];
        for (open, times) in opens {
            let html = format!("{}{words}", open.repeat(times));
            let thread = std::thread::Builder::new().stack_size(1 << 20);
            let began = std::time::Instant::now();
            thread.spawn(move || read(&html, URL)).unwrap().join().unwrap();
            assert!(began.elapsed() < TIME_MAX, "{open}: {:?}", began.elapsed());
        }
    }

    #[test]
    fn the_main_text_becomes_markdown() {
        let markdown = markdown_of(STORY, URL).unwrap();
        assert!(markdown.contains("After eleven months of repairs"), "{markdown}");
        assert!(!markdown.contains("Cookie settings"), "{markdown}");
    }

    #[test]
    fn what_is_cut_stays_text() {
        assert_eq!((cut("h\u{e9}", 2), cut("abc", 9)), ("h", "abc"));
    }
}
