//! Bodies of requests as clients of Firecrawl send them (version 2), and what of them is understood.
//!
//! Three sorts of options: those that are understood, those that change nothing here ([`HARMLESS`]), and all others. One of
//! the others is refused by name, unless its value says "off": a client must not believe that it got what it asked for.

use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::patterns::{Expression, Within};
use super::{
    CrawlOptions, LINKS, LINKS_MAX, MAX_AGE, MapOptions, PAGES, ScrapeOptions, Sitemap, TIMEOUT, TIMEOUT_MAX,
    Wants,
};

/// Options that change nothing here: who asks, hints on speed and browsers, and what is always so.
const HARMLESS: [&str; 12] = [
    "origin",
    "integration",
    "auditMetadata",
    "agent",
    "blockAds",
    "fastMode",
    "parsers",
    "removeBase64Images",
    "skipTlsVerification",
    "deduplicateSimilarURLs",
    "maxConcurrency",
    "useIndex",
];

/// Why an option is refused, and what to do.
const REFUSED: [(&str, &str); 24] = [
    ("actions", "no browser runs here"),
    ("waitFor", "no browser runs here"),
    ("mobile", "no browser runs here"),
    ("headers", "set spider.headers or [[credentials]] in the settings"),
    ("location", "requests come from this machine"),
    ("proxy", "requests come from this machine: only basic and auto"),
    ("includeTags", "ask for rawHtml and choose from it"),
    ("excludeTags", "ask for rawHtml and choose from it"),
    ("maxDepth", "use maxDiscoveryDepth"),
    ("ignoreCache", "use maxAge of a page; a map fetches nothing"),
    ("minAge", "ask with lockdown, or for a capture of a time at /api/v1/pages"),
    ("storeInCache", "what is fetched is archived"),
    ("zeroDataRetention", "what is fetched is archived"),
    ("redactPII", "no model runs here"),
    ("checkPromptInjection", "no model runs here"),
    ("threatProtection", "use the stop list"),
    ("prompt", "no model runs here: name the other options"),
    ("ignoreRobotsTxt", "robots.txt is obeyed"),
    ("robotsUserAgent", "set identity.product in the settings"),
    ("delay", "set frontier.host_delay in the settings"),
    ("webhook", "follow GET /api/v1/events"),
    ("allowExternalLinks", "make a job with the scope any: POST /api/v1/jobs"),
    ("ignoreQueryParameters", "leave out URLs with queries by excludePaths and regexOnFullURL: \"\\\\?\""),
    ("useMock", "this server fetches pages"),
];

/// Maximum number of expressions to include, and to exclude, of a crawl. Each becomes up to four patterns.
const EXPRESSIONS_MAX: usize = 100;
/// Minimum timeout of a request, in milliseconds.
const TIMEOUT_MS_MIN: u64 = 1_000;

/// The formats of a page.
const FORMATS: [&str; 5] = ["markdown", "html", "rawHtml", "links", "images"];

/// A format: a word, or an object with `type`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Format {
    /// `markdown`, `html`, `rawHtml`, `links` or `images`.
    Word(#[schemars(extend("enum" = FORMATS))] String),
    /// The same as `type`.
    Object {
        /// See the word.
        #[schemars(extend("enum" = FORMATS))]
        r#type: String,
    },
}

/// What of a page is wanted, and how fresh.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = other_options)]
pub(super) struct PageBody {
    /// `markdown` (usual), `html`, `rawHtml`, `links`, `images`.
    pub(super) formats: Option<Vec<Format>>,
    /// Whether navigation and boilerplate are left out of Markdown and HTML; true without it.
    pub(super) only_main_content: Option<bool>,
    /// A capture of at most this age in milliseconds is good enough; 0 fetches. Two days without it.
    pub(super) max_age: Option<u64>,
    /// How long the page is awaited, in milliseconds: 1,000 to 50,000, 30,000 without it.
    #[schemars(range(min = TIMEOUT_MS_MIN))]
    pub(super) timeout: Option<u64>,
    /// Only a capture that is there: nothing is fetched.
    pub(super) lockdown: Option<bool>,
    /// Further options: see docs/api.md.
    #[serde(flatten)]
    pub(super) more: Map<String, Value>,
}

/// `POST /v2/scrape`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(transform = other_options)]
pub(super) struct ScrapeBody {
    /// The URL.
    #[schemars(length(min = 1), extend("format" = "uri"))]
    pub(super) url: String,
    /// What of the page is wanted.
    #[serde(flatten)]
    pub(super) page: PageBody,
}

/// `POST /v2/map`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = other_options)]
pub(super) struct MapBody {
    /// A URL of the site.
    #[schemars(length(min = 1), extend("format" = "uri"))]
    pub(super) url: String,
    /// Words that a URL or its title has.
    pub(super) search: Option<String>,
    /// Whether sitemaps are used.
    pub(super) sitemap: Option<Sitemap>,
    /// Also the other hosts of the registrable domain; true without it.
    pub(super) include_subdomains: Option<bool>,
    /// Leaves out URLs with a query; true without it.
    pub(super) ignore_query_parameters: Option<bool>,
    /// Maximum number of links, at most 100,000; 5,000 without it.
    #[schemars(range(min = 1, max = LINKS_MAX))]
    pub(super) limit: Option<usize>,
    /// How long is looked, in milliseconds.
    #[schemars(range(min = TIMEOUT_MS_MIN))]
    pub(super) timeout: Option<u64>,
    /// Further options: see docs/api.md.
    #[serde(flatten)]
    pub(super) more: Map<String, Value>,
}

/// `POST /v2/crawl`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = other_options)]
pub(super) struct CrawlBody {
    /// The seed.
    #[schemars(length(min = 1), extend("format" = "uri"))]
    pub(super) url: String,
    /// Maximum number of pages; 10,000 without it.
    #[schemars(range(min = 1))]
    pub(super) limit: Option<u64>,
    /// Maximum number of links from the seed, at most 255; 20 without it.
    pub(super) max_discovery_depth: Option<u64>,
    /// Patterns of paths: only such URLs of the seed's host are fetched, beside the seed. Text, `.*`, `^`, `$` and `|`.
    pub(super) include_paths: Option<Vec<String>>,
    /// Patterns of paths that are left out.
    pub(super) exclude_paths: Option<Vec<String>>,
    /// Patterns are for whole URLs; those to include begin with `^`, the scheme and the seed's host.
    #[serde(rename = "regexOnFullURL")]
    pub(super) regex_on_full_url: Option<bool>,
    /// The whole host, and not only the folder of the seed.
    pub(super) crawl_entire_domain: Option<bool>,
    /// All hosts of the registrable domain; not with patterns to include.
    pub(super) allow_subdomains: Option<bool>,
    /// `include`: the setting handler.sitemaps decides.
    #[schemars(extend("enum" = ["include", null]))]
    pub(super) sitemap: Option<Sitemap>,
    /// What of the pages is wanted.
    pub(super) scrape_options: Option<PageBody>,
    /// Further options: see docs/api.md.
    #[serde(flatten)]
    pub(super) more: Map<String, Value>,
}

/// Says in the document what [`check`] accepts of options that are not understood.
fn other_options(schema: &mut Schema) {
    let off = [Value::Null, json!(false), json!(0), json!(""), json!([]), json!({})];
    let values = |without: Option<Value>, more: &[Value]| -> Value {
        off.iter().filter(|value| Some(*value) != without.as_ref()).chain(more).cloned().collect()
    };
    let refused = json!({"description": "Refused unless it says off.", "enum": values(None, &[])});
    schema.insert("additionalProperties".into(), refused);
    let Some(known) = schema.ensure_object().get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for name in HARMLESS {
        known.entry(name).or_insert_with(|| json!({"description": "Changes nothing here."}));
    }
    let exceptions = [
        ("proxy", values(None, &[json!("basic"), json!("auto")])),
        ("maxDepth", values(Some(json!(0)), &[])),
        ("storeInCache", values(Some(json!(false)), &[json!(true)])),
    ];
    for (name, values) in exceptions {
        known
            .entry(name)
            .or_insert_with(|| json!({"description": "Other values are refused.", "enum": values}));
    }
}

/// Refuses options that would change the answer and are not understood.
fn check(more: &Map<String, Value>) -> Result<(), Failure> {
    for (name, value) in more {
        let is_off = match value {
            Value::Null | Value::Bool(false) => name != "storeInCache" || value.is_null(),
            Value::Bool(true) => name == "storeInCache",
            // A depth of 0 is a depth.
            Value::Number(number) => number.as_f64() == Some(0.0) && name != "maxDepth",
            Value::String(text) => {
                text.is_empty() || (name == "proxy" && ["basic", "auto"].contains(&&**text))
            }
            Value::Array(values) => values.is_empty(),
            Value::Object(fields) => fields.is_empty(),
        };
        if is_off || HARMLESS.contains(&&**name) {
            continue;
        }
        let why = REFUSED.iter().find(|(refused, _)| *refused == *name);
        let name = nephila_core::text::shown(name);
        return Err(match why {
            Some((_, why)) => Failure::wrong(format!("the option {name} is not supported: {why}")),
            None => Failure::wrong(format!("there is no option {name}: see docs/api.md")),
        });
    }
    Ok(())
}

impl PageBody {
    /// The formats, if they are all known.
    pub(super) fn wants(&self) -> Result<Wants, Failure> {
        check(&self.more)?;
        let only_main = self.only_main_content.unwrap_or(true);
        let Some(formats) = self.formats.as_ref().filter(|formats| !formats.is_empty()) else {
            return Ok(Wants { only_main, ..Wants::default() });
        };
        let mut wants = Wants { markdown: false, only_main, ..Wants::default() };
        for format in formats {
            let (Format::Word(name) | Format::Object { r#type: name }) = format;
            match name.as_str() {
                "markdown" => wants.markdown = true,
                "html" => wants.html = true,
                "rawHtml" => wants.raw_html = true,
                "links" => wants.links = true,
                "images" => wants.images = true,
                other => {
                    let other = nephila_core::text::shown(other);
                    return Err(Failure::wrong(format!(
                        "the format {other} is not supported: no browser and no model runs here; the formats are \
                         markdown, html, rawHtml, links and images"
                    )));
                }
            }
        }
        Ok(wants)
    }

    /// How a page is scraped.
    pub(super) fn options(&self) -> Result<ScrapeOptions, Failure> {
        let max_age = self.max_age.map_or(MAX_AGE, Duration::from_millis);
        Ok(ScrapeOptions {
            wants: self.wants()?,
            max_age,
            timeout: timeout(self.timeout)?,
            ..ScrapeOptions::default()
        })
    }
}

fn timeout(given: Option<u64>) -> Result<Duration, Failure> {
    match given {
        None => Ok(TIMEOUT),
        Some(ms) if ms < TIMEOUT_MS_MIN => Err(Failure::wrong(format!(
            "the option timeout is a number of milliseconds from {TIMEOUT_MS_MIN}"
        ))),
        // A longer wait ends sooner, and says that the page stays in the queue.
        Some(ms) => Ok(Duration::from_millis(ms).min(TIMEOUT_MAX)),
    }
}

impl MapBody {
    /// Which URLs are wanted.
    pub(super) fn options(&self) -> Result<MapOptions, Failure> {
        check(&self.more)?;
        let limit = self.limit.unwrap_or(LINKS);
        if !(1..=LINKS_MAX).contains(&limit) {
            return Err(Failure::wrong(format!("the option limit is a number from 1 to {LINKS_MAX}")));
        }
        Ok(MapOptions {
            search: self.search.clone().unwrap_or_default(),
            subdomains: self.include_subdomains.unwrap_or(true),
            without_query: self.ignore_query_parameters.unwrap_or(true),
            sitemap: self.sitemap.unwrap_or_default(),
            limit,
            timeout: timeout(self.timeout)?,
        })
    }
}

impl CrawlBody {
    /// Which pages are fetched.
    pub(super) fn options(&self) -> Result<CrawlOptions, Failure> {
        check(&self.more)?;
        if self.limit == Some(0) {
            return Err(Failure::wrong("the option limit is a number from 1"));
        }
        if self.sitemap.is_some_and(|sitemap| sitemap != Sitemap::Include) {
            let text =
                "the option sitemap is not supported for a crawl: the setting handler.sitemaps decides";
            return Err(Failure::wrong(text));
        }
        let wants = self.scrape_options.as_ref().map(PageBody::wants).transpose()?.unwrap_or_default();
        let is_whole = self.regex_on_full_url.unwrap_or(false);
        let subdomains = self.allow_subdomains.unwrap_or(false);
        let (include, exclude) = (self.include_paths.as_deref(), self.exclude_paths.as_deref());
        if subdomains && include.is_some_and(|include| !include.is_empty()) {
            let text = "the option includePaths is not supported with allowSubdomains: begin a crawl for each host, or \
                        make a job with its own patterns: POST /api/v1/jobs";
            return Err(Failure::wrong(text));
        }
        let seed = super::site::parsed(&self.url)?;
        let host = seed.authority();
        let include_in = if is_whole { Within::UrlsOf(host) } else { Within::Host(host) };
        let exclude_in = match seed.registrable_domain().filter(|_| subdomains) {
            _ if is_whole => Within::Urls,
            Some(domain) => Within::Domain(domain),
            None => Within::Host(host),
        };
        Ok(CrawlOptions {
            limit: self.limit.unwrap_or(PAGES),
            depth: self.max_discovery_depth.map_or(20, |depth| u8::try_from(depth).unwrap_or(u8::MAX)),
            whole_host: self.crawl_entire_domain.unwrap_or(false),
            subdomains,
            include: patterns("includePaths", include, include_in)?,
            exclude: patterns("excludePaths", exclude, exclude_in)?,
            wants,
        })
    }
}

/// The patterns for the expressions of an option.
fn patterns(name: &str, given: Option<&[String]>, within: Within<'_>) -> Result<Vec<String>, Failure> {
    let (mut all, mut count) = (Vec::new(), 0);
    for text in given.unwrap_or_default() {
        let wrong = |why: String| {
            Failure::wrong(format!("the option {name}: {}: {why}", nephila_core::text::shown(text)))
        };
        for expression in Expression::read(text).map_err(wrong)? {
            all.extend(expression.patterns(within).map_err(wrong)?);
            count += 1;
        }
    }
    match count <= EXPRESSIONS_MAX {
        true => Ok(all),
        false => Err(Failure::wrong(format!("the option {name} has more than {EXPRESSIONS_MAX} patterns"))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn crawl(body: Value) -> Result<CrawlOptions, String> {
        let body: CrawlBody = serde_json::from_value(body).unwrap();
        body.options().map_err(|failure| failure.message)
    }

    #[test]
    fn what_would_change_the_answer_is_refused_by_name_and_what_is_off_is_not() {
        let url = "http://a.test/";
        let plain = json!({"url": url, "ignoreRobotsTxt": false, "webhook": null, "maxConcurrency": 3,
                           "origin": "python-sdk", "deduplicateSimilarURLs": true, "sitemap": "include"});
        assert_eq!(crawl(plain).unwrap(), CrawlOptions::default());
        for (name, value) in [
            ("ignoreRobotsTxt", json!(true)),
            ("webhook", json!("http://b.test/")),
            ("allowExternalLinks", json!(true)),
            ("delay", json!(3)),
            ("maxDepth", json!(0)),
            ("maxDepth", json!(1)),
            ("ignoreCache", json!(true)),
            ("somethingNew", json!(1)),
        ] {
            let why = crawl(json!({"url": url, name: value})).unwrap_err();
            assert!(why.contains(name), "{why}");
        }
        assert!(crawl(json!({"url": url, "limit": 0})).is_err());
        assert!(crawl(json!({"url": url, "sitemap": "only"})).is_err());
        let page = |body: Value| serde_json::from_value::<PageBody>(body).unwrap().options();
        // What the Python client sends with any option.
        let usual = json!({"onlyMainContent": true, "mobile": false, "skipTlsVerification": true,
                           "removeBase64Images": true, "fastMode": false, "blockAds": true,
                           "maxAge": 14_400_000, "storeInCache": true});
        assert_eq!(page(usual).unwrap().max_age, Duration::from_secs(14_400));
        assert!(page(json!({"storeInCache": false})).is_err());
        assert!(page(json!({"actions": [{"type": "click"}]})).is_err());
        assert!(page(json!({"formats": ["screenshot"]})).unwrap_err().message.contains("screenshot"));
        let wants = page(json!({"formats": ["links", {"type": "rawHtml"}]})).unwrap().wants;
        assert!(wants.links && wants.raw_html && !wants.markdown);
        assert!(page(json!({"timeout": 10})).is_err());
    }

    #[test]
    fn the_options_that_change_nothing_are_those_of_the_document() {
        let text = include_str!("../../../../docs/api.md");
        let (_, text) = text.split_once("**Ignored**").unwrap();
        let (listed, _) = text.split_once("**Every other option is refused**").unwrap();
        let named: BTreeSet<&str> = listed.split('`').skip(1).step_by(2).collect();
        let known: BTreeSet<&str> = HARMLESS.into_iter().chain(["proxy", "basic", "auto"]).collect();
        assert_eq!(named, known);
    }

    #[test]
    fn the_formats_of_the_document_are_those_that_are_known() {
        let wants =
            |name: &str| serde_json::from_value::<PageBody>(json!({"formats": [name]})).unwrap().wants();
        assert!(FORMATS.into_iter().all(|name| wants(name).is_ok()) && wants("screenshot").is_err());
    }

    #[test]
    fn the_document_accepts_the_other_options_that_are_accepted() {
        let schema = schemars::schema_for!(CrawlBody).to_value();
        let names = HARMLESS.into_iter().chain(REFUSED.map(|(name, _)| name)).chain(["unknown", ""]);
        let values = json!([null, false, true, 0, 0.5, 7, "", "x", "basic", "auto", [], [0], {}, {"x": 0}]);
        for name in names {
            let said = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
            for value in values.as_array().unwrap() {
                let by_document =
                    said.get("enum").is_none_or(|list| list.as_array().unwrap().contains(value));
                let more = Map::from_iter([(name.to_owned(), value.clone())]);
                assert_eq!(check(&more).is_ok(), by_document, "{name}: {value}");
            }
        }
    }

    #[test]
    fn patterns_to_include_stay_on_the_host_of_the_seed() {
        let url = "http://a.test:8080/docs/";
        let found = crawl(json!({"url": url, "includePaths": ["^/blog/"]})).unwrap();
        assert_eq!(found.include, ["^http://a.test:8080/blog/", "^https://a.test:8080/blog/"]);
        let why =
            crawl(json!({"url": url, "includePaths": ["/blog/"], "allowSubdomains": true})).unwrap_err();
        assert!(why.contains("includePaths") && why.contains("allowSubdomains"), "{why}");
        let whole = |regex: &str| crawl(json!({"url": url, "includePaths": [regex], "regexOnFullURL": true}));
        assert!(whole("/article/.*").unwrap_err().contains("other hosts"));
        assert_eq!(whole("^http://a\\.test:8080/x").unwrap().include, ["^http://a.test:8080/x"]);
        let many: Vec<String> = (0..=EXPRESSIONS_MAX).map(|number| format!("/{number}/")).collect();
        assert!(crawl(json!({"url": url, "excludePaths": many[1..]})).is_ok());
        assert!(crawl(json!({"url": url, "excludePaths": many})).is_err());
    }
}
