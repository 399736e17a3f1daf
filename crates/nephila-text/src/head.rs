//! What a page says about itself: title, author, date, language and type, from `meta` elements and linked data.

use serde_json::Value;

use crate::tag::Tag;
use crate::tree::{Data, NONE, ROOT, Tree};

/// Maximum size in bytes of a field.
pub(crate) const FIELD_BYTES_MAX: usize = 1_000;
/// Maximum size in bytes of all linked data that is read.
pub(crate) const DATA_BYTES_MAX: usize = 1 << 20;
/// Maximum number of values of linked data that are visited.
const VALUES_MAX: usize = 50_000;
/// Maximum size in bytes of the texts of linked data that are kept.
const TEXTS_BYTES_MAX: usize = 400_000;

/// What a page says about itself. An empty field was not found.
#[derive(Debug, Default)]
pub(crate) struct Head {
    pub(crate) title: String,
    pub(crate) og_title: String,
    pub(crate) headline: String,
    pub(crate) h1: String,
    pub(crate) description: String,
    pub(crate) og_type: String,
    pub(crate) generator: String,
    pub(crate) author: String,
    pub(crate) published: String,
    pub(crate) language: String,
    /// The types of linked data and of microdata in lower case, without their address.
    pub(crate) types: Vec<String>,
    /// Long texts of linked data: the body of an article, the description of a product, an answer.
    pub(crate) texts: Vec<Said>,
}

/// A text in linked data.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) what: What,
    pub(crate) text: String,
}

/// Which property the text is the value of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Body,
    Description,
    Text,
}

impl Head {
    /// The best title.
    pub(crate) fn best_title(&self) -> &str {
        let found = [&self.headline, &self.og_title, &self.h1, &self.title];
        found.into_iter().find(|title| !title.is_empty()).map_or("", |title| title)
    }
}

/// Reads what a page says about itself.
pub(crate) fn read(tree: &Tree) -> Head {
    let mut head = Head::default();
    let (mut at, mut data_bytes, mut values) = (ROOT, 0, 0);
    let mut dates = [String::new(), String::new()];
    while at != NONE {
        if let Data::Element(element) = &tree.nodes[at as usize].data {
            match element.tag {
                Tag::Html => head.language = field(element.attribute("lang")),
                Tag::Title if head.title.is_empty() => head.title = tree.text_of(at, FIELD_BYTES_MAX),
                Tag::H1 if head.h1.is_empty() => head.h1 = tree.text_of(at, FIELD_BYTES_MAX),
                Tag::Meta => {
                    let property = element.attribute("property");
                    let name = if property.is_empty() { element.attribute("name") } else { property };
                    let place = match name.to_ascii_lowercase().as_str() {
                        "og:title" | "twitter:title" | "dc.title" => &mut head.og_title,
                        "description" | "og:description" => &mut head.description,
                        "og:type" => &mut head.og_type,
                        "generator" | "application-name" => &mut head.generator,
                        "author" | "article:author" | "dc.creator" | "parsely-author" | "sailthru.author" => {
                            &mut head.author
                        }
                        "article:published_time"
                        | "og:published_time"
                        | "parsely-pub-date"
                        | "date"
                        | "dc.date"
                        | "dc.date.issued"
                        | "datepublished"
                        | "sailthru.date"
                        | "pubdate" => &mut dates[0],
                        _ => &mut String::new(),
                    };
                    if place.is_empty() {
                        *place = field(element.attribute("content"));
                    }
                }
                Tag::Script if element.attribute("type").eq_ignore_ascii_case("application/ld+json") => {
                    if let Some(Data::Text(text)) = text_node(tree, at)
                        && data_bytes + text.len() <= DATA_BYTES_MAX
                    {
                        data_bytes += text.len();
                        if let Ok(data) = serde_json::from_str::<Value>(text.trim()) {
                            linked(&data, &mut head, &mut dates, &mut values);
                        }
                    }
                }
                _ => {}
            }
            if element.has("itemtype") && head.types.len() < 200 {
                head.types.push(name_of(element.attribute("itemtype")));
            }
            match element.attribute("itemprop") {
                "datePublished" if dates[1].is_empty() => {
                    let (content, time) = (element.attribute("content"), element.attribute("datetime"));
                    dates[1] = field(if content.is_empty() { time } else { content });
                }
                "" => {}
                _ => {}
            }
            if element.tag.is_skipped() && element.tag != Tag::Head {
                at = tree.following(at, ROOT, true);
                continue;
            }
        }
        at = tree.following(at, ROOT, false);
    }
    head.published = dates.into_iter().find(|date| !date.is_empty()).unwrap_or_default();
    if head.author.starts_with("http") {
        head.author.clear();
    }
    head
}

fn text_node(tree: &Tree, at: u32) -> Option<&Data> {
    let first = tree.nodes[at as usize].first;
    (first != NONE).then(|| &tree.nodes[first as usize].data)
}

fn field(value: &str) -> String {
    crate::cut(value.trim(), FIELD_BYTES_MAX).to_owned()
}

/// The last part of the address of a type, in lower case.
fn name_of(address: &str) -> String {
    let name = address.trim_end_matches('/').rsplit(['/', '#', ':']).next().unwrap_or_default();
    crate::cut(name, 60).to_ascii_lowercase()
}

/// Visits linked data without recursion. The parser has bounded its depth.
fn linked(data: &Value, head: &mut Head, dates: &mut [String; 2], values: &mut usize) {
    let mut open = vec![data];
    while let Some(value) = open.pop() {
        *values += 1;
        if *values > VALUES_MAX {
            return;
        }
        match value {
            Value::Array(list) => open.extend(list.iter().rev()),
            Value::Object(fields) => {
                let is_list = matches!(fields.get("@type"), Some(Value::String(name)) if name == "ItemList");
                for (name, value) in fields.iter().rev() {
                    match (name.as_str(), value) {
                        ("@type", Value::String(name)) => head.types.push(name_of(name)),
                        ("@type", Value::Array(names)) => {
                            head.types.extend(names.iter().filter_map(Value::as_str).take(5).map(name_of));
                        }
                        ("headline", Value::String(text)) if head.headline.is_empty() => {
                            head.headline = field(text);
                        }
                        ("datePublished", Value::String(text)) if dates[1].is_empty() => {
                            dates[1] = field(text)
                        }
                        ("inLanguage", Value::String(text)) if head.language.is_empty() => {
                            head.language = field(text);
                        }
                        ("author", value) => {
                            if head.author.is_empty()
                                && let Some(name) = author(value)
                            {
                                head.author = field(name);
                            }
                            open.push(value);
                        }
                        ("articleBody", Value::String(text)) => say(head, What::Body, text),
                        ("description", Value::String(text)) if !is_list => {
                            say(head, What::Description, text)
                        }
                        ("text" | "reviewBody", Value::String(text)) => say(head, What::Text, text),
                        (_, Value::Array(_) | Value::Object(_)) => open.push(value),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

fn author(value: &Value) -> Option<&str> {
    match value {
        Value::String(name) => Some(name),
        Value::Array(list) => list.first().and_then(author_object),
        value => author_object(value),
    }
}

fn author_object(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("name").and_then(Value::as_str))
}

fn say(head: &mut Head, what: What, text: &str) {
    let bytes: usize = head.texts.iter().map(|said| said.text.len()).sum();
    if text.len() >= 40 && bytes + text.len() <= TEXTS_BYTES_MAX && head.texts.len() < 200 {
        head.texts.push(Said { what, text: plain(text) });
    }
}

/// Text of linked data, which may contain tags and character references.
fn plain(text: &str) -> String {
    if !text.contains(['<', '&']) {
        return text.to_owned();
    }
    let tree = crate::tree::parse(&text.replace("&lt;", "<").replace("&gt;", ">"));
    let page = crate::blocks::read(tree);
    page.blocks.iter().map(|block| page.text_of(block)).collect::<Vec<_>>().join("\n")
}
