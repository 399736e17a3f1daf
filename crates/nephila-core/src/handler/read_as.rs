//! How the response for a URL is to be read. The link that named the URL decides, since the bytes alone do not always
//! tell.
//!
//! Invariants: the numbers are written into records and logs and never change; a page is 0 and takes no space.

use serde::{Deserialize, Serialize};

/// How the handler is to read a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadAs {
    /// A page: its links are followed.
    #[default]
    Page,
    /// A style sheet.
    Style,
    /// The page of a story that a feed names: its text is kept as well.
    Story,
    /// A sitemap, or an index of some.
    Sitemap,
    /// A feed.
    Feed,
}

impl ReadAs {
    /// All kinds.
    pub const ALL: &'static [ReadAs] =
        &[ReadAs::Page, ReadAs::Style, ReadAs::Story, ReadAs::Sitemap, ReadAs::Feed];

    /// The number that is stored.
    pub const fn code(self) -> u8 {
        match self {
            ReadAs::Page => 0,
            ReadAs::Sitemap => 1,
            ReadAs::Feed => 2,
            ReadAs::Story => 3,
            ReadAs::Style => 4,
        }
    }

    /// The kind with this stored number.
    pub const fn by_code(code: u8) -> Option<ReadAs> {
        match code {
            0 => Some(ReadAs::Page),
            1 => Some(ReadAs::Sitemap),
            2 => Some(ReadAs::Feed),
            3 => Some(ReadAs::Story),
            4 => Some(ReadAs::Style),
            _ => None,
        }
    }

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            ReadAs::Page => "page",
            ReadAs::Sitemap => "sitemap",
            ReadAs::Feed => "feed",
            ReadAs::Story => "story",
            ReadAs::Style => "style",
        }
    }

    /// Whether this is a plain page. Most are, and then nothing is written.
    pub const fn is_page(self) -> bool {
        matches!(self, ReadAs::Page)
    }

    /// Whether the document itself is the content, and not a list of others.
    pub const fn is_content(self) -> bool {
        matches!(self, ReadAs::Page | ReadAs::Style | ReadAs::Story)
    }
}

/// Pages whose main text is kept. Setting `handler.text`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextOf {
    /// No pages.
    None,
    /// Pages of stories that feeds name.
    #[default]
    Stories,
    /// All pages.
    All,
}

impl TextOf {
    /// Whether the main text of a page that is read like this is kept.
    pub fn wants(self, read_as: ReadAs) -> bool {
        match self {
            TextOf::None => false,
            TextOf::Stories => read_as == ReadAs::Story,
            TextOf::All => matches!(read_as, ReadAs::Story | ReadAs::Page),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_and_names_differ() {
        for (i, a) in ReadAs::ALL.iter().enumerate() {
            assert_eq!(ReadAs::by_code(a.code()), Some(*a));
            assert_eq!(a.is_page(), a.code() == 0);
            assert!(ReadAs::ALL[i + 1..].iter().all(|b| b.code() != a.code() && b.name() != a.name()));
        }
        assert_eq!((ReadAs::default(), ReadAs::by_code(5)), (ReadAs::Page, None));
    }
}
