//! The kind of a link, and the meaning of the words in `rel`.
//!
//! The same words stand in `<a rel>`, `<link rel>` and the `Link` field, so there is one table for all three.
//!
//! Invariants: the numbers of kinds are stored and never change; when one URL is named in several ways, the strongest
//! kind wins.

use super::read_as::ReadAs;
use crate::url::CrawlUrl;

/// A URL that a page names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLink {
    /// The named URL.
    pub url: CrawlUrl,
    /// How the page names the URL.
    pub kind: LinkKind,
    /// Where the page names the URL: `a/@href`, `img/@src`, `Link:`.
    pub place: &'static str,
    /// The page asks robots not to follow the link (`rel=nofollow`), at every mention of this kind.
    pub nofollow: bool,
    /// The page shows the URL inside itself, at one mention at least: an image, a script, a style sheet, a frame. Such a
    /// URL may have a stronger kind, as an image that is a link to itself has.
    pub embedded: bool,
    /// The text and the `rel` of the link, if [`Limits::details`](super::Limits::details) asks for them.
    pub words: Option<Box<LinkWords>>,
}

/// What a page says about a link. Of several mentions, the first that says anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkWords {
    /// The text between `<a>` and `</a>`, on one line; for images their `alt`.
    pub anchor: String,
    /// The `rel` as written.
    pub rel: String,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident $code:literal $name:literal $letter:literal,)+) => {
        /// How a page names a URL, strongest first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum LinkKind {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl LinkKind {
            /// All kinds, strongest first.
            pub const ALL: &'static [LinkKind] = &[$(LinkKind::$variant,)+];

            /// The name that users see.
            pub const fn name(self) -> &'static str {
                match self { $(LinkKind::$variant => $name,)+ }
            }

            /// The number that is stored.
            pub const fn code(self) -> u8 {
                match self { $(LinkKind::$variant => $code,)+ }
            }

            /// The kind with this stored number.
            pub const fn by_code(code: u8) -> Option<LinkKind> {
                match code {
                    $($code => Some(LinkKind::$variant),)+
                    _ => None,
                }
            }

            /// The kind of hop, in the letters of Heritrix: L link, E embedded, R redirect, M manifest (sitemap), S
            /// submit.
            pub const fn letter(self) -> char {
                match self { $(LinkKind::$variant => $letter,)+ }
            }
        }
    };
}

kinds! {
    /// A refresh so short that the page is only a redirect.
    Redirect 1 "redirect" 'R',
    /// A sitemap, or an index of sitemaps.
    Sitemap 2 "sitemap" 'M',
    /// A feed of this page.
    Feed 3 "feed" 'L',
    /// `<a href>` and similar.
    Link 4 "link" 'L',
    /// A shape of an image map.
    Area 5 "area" 'L',
    /// A refresh after a longer delay.
    Refresh 6 "refresh" 'L',
    /// The canonical URL by the page's own statement: a hint, never a decision.
    Canonical 7 "canonical" 'L',
    /// A `Link` field of the answer.
    HeaderLink 8 "header-link" 'L',
    /// The same page in another language or for another device.
    Alternate 9 "alternate" 'L',
    /// A page listed in a sitemap.
    Listed 10 "listed" 'M',
    /// A page inside the page.
    Iframe 11 "iframe" 'E',
    /// The target of a GET form, without any fields. Only if enabled.
    Form 12 "form" 'S',
    /// A style sheet: a page requisite that names more requisites.
    Style 14 "style" 'E',
    /// Other page requisites: images, scripts, fonts.
    Requisite 13 "requisite" 'E',
}

impl LinkKind {
    /// How the response for such a URL is to be read.
    pub const fn read_as(self) -> ReadAs {
        match self {
            LinkKind::Sitemap => ReadAs::Sitemap,
            LinkKind::Feed => ReadAs::Feed,
            LinkKind::Style => ReadAs::Style,
            _ => ReadAs::Page,
        }
    }

    /// Whether the URL is a page requisite.
    pub const fn is_requisite(self) -> bool {
        matches!(self, LinkKind::Style | LinkKind::Requisite)
    }
}

/// The meaning of the words in a `rel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rel {
    /// The kind of a `<link>` or `Link` with this `rel`; none if the link is not crawled.
    pub(super) kind: Option<LinkKind>,
    /// One of the words is `nofollow`.
    pub(super) nofollow: bool,
}

/// Whether `nofollow` is among the words.
pub(super) fn is_nofollow(rel: &str) -> bool {
    rel.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("nofollow"))
}

/// Reads a `rel` and the `type` beside `rel`. Of several words the strongest kind counts, except that a style sheet
/// stays one (`alternate stylesheet`).
pub(super) fn read_rel(rel: &str, media: Option<&str>) -> Rel {
    let (mut kind, mut style) = (None, false);
    for word in rel.split_ascii_whitespace().take(REL_WORDS_MAX) {
        let word = word.to_ascii_lowercase();
        style |= word == "stylesheet";
        let found = kind_of_word(&word, media);
        kind = match (kind, found) {
            (Some(a), Some(b)) => Some(std::cmp::min(a, b)),
            (a, b) => a.or(b),
        };
    }
    if style {
        kind = Some(LinkKind::Style);
    }
    Rel { kind, nofollow: is_nofollow(rel) }
}

fn kind_of_word(word: &str, media: Option<&str>) -> Option<LinkKind> {
    Some(match word {
        "canonical" => LinkKind::Canonical,
        "sitemap" => LinkKind::Sitemap,
        "feed" => LinkKind::Feed,
        "alternate" => match media.map(|media| media.trim().to_ascii_lowercase()) {
            Some(media) if is_feed_type(&media) => LinkKind::Feed,
            // Embedding services and content APIs: responses for programs, one for every page.
            Some(media) if media.contains("json") || media.contains("oembed") => return None,
            _ => LinkKind::Alternate,
        },
        "amphtml" => LinkKind::Alternate,
        "next" | "prev" | "previous" | "first" | "last" | "start" | "up" | "top" | "contents" | "index"
        | "chapter" | "section" | "subsection" | "appendix" | "glossary" | "help" | "author" | "me"
        | "license" | "copyright" | "bookmark" | "tag" | "archives" | "prerender" | "shortlink" => {
            LinkKind::Link
        }
        "stylesheet"
        | "icon"
        | "apple-touch-icon"
        | "apple-touch-icon-precomposed"
        | "mask-icon"
        | "fluid-icon"
        | "image_src"
        | "preload"
        | "modulepreload"
        | "prefetch"
        | "manifest" => LinkKind::Requisite,
        _ => return None,
    })
}

fn is_feed_type(media: &str) -> bool {
    let essence = media.split(';').next().unwrap_or_default().trim_end();
    matches!(
        essence,
        "application/rss+xml"
            | "application/atom+xml"
            | "application/rdf+xml"
            | "application/feed+json"
            | "text/rss+xml"
            | "text/atom+xml"
    )
}

/// Maximum number of words of a `rel` that are read.
const REL_WORDS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_come_back() {
        for (i, a) in LinkKind::ALL.iter().enumerate() {
            assert_eq!(LinkKind::by_code(a.code()), Some(*a));
            assert!(LinkKind::ALL[i + 1..].iter().all(|b| a.code() != b.code() && a.name() != b.name()));
        }
        assert_eq!(LinkKind::by_code(0), None);
        assert_eq!(LinkKind::Requisite.letter(), 'E');
        assert_eq!(LinkKind::Redirect.letter(), 'R');
    }

    #[test]
    fn one_table_says_what_a_rel_means() {
        let check = |rel, media, kind, nofollow| {
            assert_eq!(read_rel(rel, media), Rel { kind, nofollow }, "{rel} {media:?}");
        };
        check("canonical", None, Some(LinkKind::Canonical), false);
        check("ALTERNATE", Some(" Application/RSS+xml; charset=utf-8"), Some(LinkKind::Feed), false);
        check("alternate", Some("application/json+oembed"), None, false);
        check("alternate", None, Some(LinkKind::Alternate), false);
        check("alternate stylesheet", None, Some(LinkKind::Style), false);
        check("shortcut icon", None, Some(LinkKind::Requisite), false);
        check("next NoFollow", None, Some(LinkKind::Link), true);
        check("dns-prefetch preconnect pingback", None, None, false);
        check("", None, None, false);
    }
}
