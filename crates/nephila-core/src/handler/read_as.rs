//! How what comes back for a URL is to be read: said by whoever found it, since the bytes alone do not always tell.
//!
//! What always holds: the numbers are written into records and logs and never change; a page is 0 and costs nothing.

/// How the handler is to read what comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadAs {
    /// A page: its links are followed.
    #[default]
    Page,
    /// A sitemap, or an index of some.
    Sitemap,
    /// A feed.
    Feed,
}

impl ReadAs {
    /// All of them.
    pub const ALL: &'static [ReadAs] = &[ReadAs::Page, ReadAs::Sitemap, ReadAs::Feed];

    /// As it is stored.
    pub const fn code(self) -> u8 {
        match self {
            ReadAs::Page => 0,
            ReadAs::Sitemap => 1,
            ReadAs::Feed => 2,
        }
    }

    /// From what was stored.
    pub const fn by_code(code: u8) -> Option<ReadAs> {
        match code {
            0 => Some(ReadAs::Page),
            1 => Some(ReadAs::Sitemap),
            2 => Some(ReadAs::Feed),
            _ => None,
        }
    }

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            ReadAs::Page => "page",
            ReadAs::Sitemap => "sitemap",
            ReadAs::Feed => "feed",
        }
    }

    /// Is it a page? Most are, and then nothing is written.
    pub const fn is_page(self) -> bool {
        matches!(self, ReadAs::Page)
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
        assert_eq!((ReadAs::default(), ReadAs::by_code(3)), (ReadAs::Page, None));
    }
}
