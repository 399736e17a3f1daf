//! The main text of a page without navigation and boilerplate: title, date, author, language and text (SEEDS D8).
//!
//! Text is extracted from the pages of new stories, and with a setting from all pages. The fields go into the metadata
//! record of the capture, the text into a `conversion` record beside the capture. The extraction is done by
//! `dom_smoothie`, which follows the reader view of Firefox.
//!
//! Invariants: no page exceeds the time, memory and stack limits here and in [`tree`]; a page without main text is
//! stored like any other.

#[cfg(feature = "text")]
mod tree;

use std::time::Duration;

use nephila_core::handler::sniff::{self, Kind};
use nephila_core::handler::{ReadAs, charset};
use nephila_core::spider::outcome::Action;
use nephila_core::url::CrawlUrl;
use nephila_spider::Fetched;

use super::page::watched;
use super::readers::Unread;
use super::shared::Shared;

/// Timeout of the extraction; then the reader is abandoned. The tree is built in two seconds at most, and the rest
/// cannot be interrupted.
pub const TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum size in bytes of a page for extraction: no story is larger.
pub const HTML_BYTES_MAX: usize = 4 << 20;
/// Maximum size in bytes of a title: the reader compares every heading with the whole title.
pub const TITLE_BYTES_MAX: usize = 2_000;
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
    let body = fetched.decoded.as_ref().and_then(|decoded| decoded.start(HTML_BYTES_MAX + 1).ok());
    let Some(body) = body.filter(|body| body.len() <= HTML_BYTES_MAX) else { return Ok(None) };
    let label = fetched.fields.get(http::header::CONTENT_TYPE).map(|value| value.as_bytes().to_vec());
    let read = watched(shared, url, TIME_MAX, move || {
        if sniff::sniff(label.as_deref(), &body).kind != Kind::Html {
            return None;
        }
        let decision = charset::decide(label.as_deref(), &body);
        let html = charset::decode(decision.encoding, &body, HTML_BYTES_MAX).text;
        read(&html)
    });
    // A page that makes the reader fail has no text, and is stored all the same.
    match read.await {
        Err(Unread::Failed) => Ok(None),
        read => read,
    }
}

/// The article in a stored page, if there is one.
pub fn of_html(html: &str) -> Option<Article> {
    (html.len() <= HTML_BYTES_MAX).then(|| read(html)).flatten()
}

/// The article in a page.
#[cfg(feature = "text")]
pub fn read(html: &str) -> Option<Article> {
    let page = tree::build(html)?;
    let text_mode = dom_smoothie::TextMode::Formatted;
    let config = dom_smoothie::Config { text_mode, ..dom_smoothie::Config::default() };
    // Without the address of the page, which the reader would write into every link; no link is kept.
    let mut reader = dom_smoothie::Readability::with_document(page, None, Some(config)).ok()?;
    if reader.get_article_metadata(reader.parse_json_ld()).title.len() > TITLE_BYTES_MAX {
        return None;
    }
    let found = reader.parse().ok()?;
    let text = cut(found.text_content.trim(), TEXT_BYTES_MAX).to_owned();
    if text.chars().take(TEXT_CHARS_MIN).count() < TEXT_CHARS_MIN {
        return None;
    }
    let field = |value: &str| cut(value.trim(), FIELD_BYTES_MAX).to_owned();
    Some(Article {
        title: field(&found.title),
        published: field(found.published_time.as_deref().unwrap_or_default()),
        author: field(found.byline.as_deref().unwrap_or_default()),
        language: field(found.lang.as_deref().unwrap_or_default()),
        text,
    })
}

/// Without the feature `text` no article is found.
#[cfg(not(feature = "text"))]
pub fn read(_html: &str) -> Option<Article> {
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

    #[test]
    fn the_text_of_a_story_is_found_without_what_stands_around_it() {
        let article = read(STORY).unwrap();
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
    fn a_page_without_a_text_has_none_and_a_costly_one_is_left_alone() {
        assert_eq!(read("<html><body><a href=/>home</a></body></html>"), None);
        assert_eq!(read(""), None);
        let words = "word ".repeat(1_000);
        assert_eq!(read(&format!("{}{words}", "<div>".repeat(100_000))), None);
        assert_eq!(read(&format!("{}{words}", "<div></x>".repeat(40_000))), None);
        assert_eq!(read(&format!("<svg>{}{words}", "<tr>".repeat(40_000))), None);
    }

    #[test]
    fn a_page_with_an_endless_title_is_left_alone() {
        let named = |name: &str| {
            let data =
                format!(r#"{{"@context":"https://schema.org","@type":"NewsArticle","name":"{name}"}}"#);
            let block = format!(r#"<script type="application/ld+json">{data}</script></head>"#);
            read(&STORY.replace("</head>", &block))
        };
        assert_eq!(named("The bridge").unwrap().title, "The bridge");
        assert_eq!(named(&"bridge ".repeat(TITLE_BYTES_MAX)), None);
    }

    #[test]
    fn the_deepest_pages_need_less_than_half_of_the_stack_of_a_thread() {
        // Each has the maximum permitted depth; the reader itself deepens the second.
        let opens = [("<div>", 190), ("<span><br><br>", 190), ("<ins>", 190), ("<ul><li>", 95)];
        for (open, times) in opens {
            let html = format!("{}{}", open.repeat(times), "some words, and some more. ".repeat(40));
            assert!(tree::build(&html).is_some(), "{open}");
            let thread = std::thread::Builder::new().stack_size(1 << 20);
            thread.spawn(move || read(&html)).unwrap().join().unwrap();
        }
    }

    #[test]
    fn a_page_just_within_the_limits_is_read_soon() {
        let began = std::time::Instant::now();
        // No comma: the reader doubts such a text, and counts its letters for each pair of the elements around it.
        let html = format!("{}{}", "<div>".repeat(100), "word ".repeat(10_000));
        assert!(tree::build(&html).is_some());
        read(&html);
        assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    }

    #[test]
    fn what_is_cut_stays_text() {
        assert_eq!((cut("h\u{e9}", 2), cut("abc", 9)), ("h", "abc"));
    }
}
