//! The lines of a metadata record: names with values, in one piece of memory that copies share.
//!
//! A page has a line for each of its links, and its exchange is copied in case that the archive cannot take it at once.

use std::fmt;
use std::sync::Arc;

/// Lines of a metadata record. Copies are cheap; a copy that is changed becomes one of its own.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Notes(Arc<Lines>);

#[derive(Clone, Default, PartialEq, Eq)]
struct Lines {
    /// All values, one behind the other.
    values: String,
    /// Each name, and the end of its value.
    names: Vec<(&'static str, usize)>,
}

impl Notes {
    /// Appends a line.
    pub fn push(&mut self, name: &'static str, value: &str) {
        self.push_with(name, |values| values.push_str(value));
    }

    /// Appends a line whose value is appended to a text by `write`.
    pub fn push_with(&mut self, name: &'static str, write: impl FnOnce(&mut String)) {
        let lines = Arc::make_mut(&mut self.0);
        write(&mut lines.values);
        lines.names.push((name, lines.values.len()));
    }

    /// Appends the lines of others.
    pub fn append(&mut self, others: &Notes) {
        let all = Arc::make_mut(&mut self.0);
        all.names.reserve(others.len());
        all.values.reserve(others.0.values.len());
        self.extend(others.iter());
    }

    /// Replaces the value of every line with this name.
    pub fn set(&mut self, name: &str, value: &str) {
        if self.iter().any(|(other, old)| other == name && old != value) {
            *self =
                self.iter().map(|(other, old)| (other, if other == name { value } else { old })).collect();
        }
    }

    /// The value of the first line with this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// The lines, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &str)> {
        let mut from = 0;
        self.0.names.iter().map(move |(name, end)| {
            let value = &self.0.values[from..*end];
            from = *end;
            (*name, value)
        })
    }

    /// The number of lines.
    pub fn len(&self) -> usize {
        self.0.names.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.0.names.is_empty()
    }
}

impl<V: AsRef<str>> Extend<(&'static str, V)> for Notes {
    fn extend<T: IntoIterator<Item = (&'static str, V)>>(&mut self, lines: T) {
        lines.into_iter().for_each(|(name, value)| self.push(name, value.as_ref()));
    }
}

impl<V: AsRef<str>> FromIterator<(&'static str, V)> for Notes {
    fn from_iter<T: IntoIterator<Item = (&'static str, V)>>(lines: T) -> Notes {
        let mut notes = Notes::default();
        notes.extend(lines);
        notes
    }
}

impl<V: AsRef<str>, const N: usize> From<[(&'static str, V); N]> for Notes {
    fn from(lines: [(&'static str, V); N]) -> Notes {
        lines.into_iter().collect()
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_pushed_and_a_copy_is_one_of_its_own_once_it_changes() {
        let mut notes =
            Notes::from([("outcome", "fetched"), ("via", ""), ("outlink", "http://a.test/ L a/@href")]);
        let copy = notes.clone();
        notes.push_with("depth", |value| value.push_str("12"));
        notes.set("outcome", "read-timeout");
        notes.append(&Notes::from([("job", "crawl")]));
        let all: Vec<_> = notes.iter().collect();
        let link = "http://a.test/ L a/@href";
        let want =
            [("outcome", "read-timeout"), ("via", ""), ("outlink", link), ("depth", "12"), ("job", "crawl")];
        assert_eq!(all, want);
        assert_eq!((notes.len(), notes.iter().len(), copy.len()), (5, 5, 3));
        assert_eq!((copy.get("outcome"), copy.get("depth")), (Some("fetched"), None));
        assert_eq!(format!("{:?}", Notes::from([("a", "b")])), r#"[("a", "b")]"#);
        assert!(Notes::default().is_empty());
    }
}
