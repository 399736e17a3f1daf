//! Reads JSON Feed (jsonfeed.org, versions 1 and 1.1), entry by entry: a feed that breaks off keeps the entries before
//! the break.
//!
//! Invariants: only the needed fields are held in memory; a field of a wrong type is absent, except that a number is
//! accepted as an id.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Draft, Format, List, Note, text};

/// Reads a text that begins with `{`.
pub(super) fn read(text: &str, list: &mut List<'_>, time_is_up: &mut dyn FnMut() -> bool) {
    let mut head = Head { list, time_is_up, is_feed: false, has_items: false };
    let mut reader = serde_json::Deserializer::from_str(text);
    let result = (&mut head).deserialize(&mut reader);
    // A feed without its version still counts as one if its items are entries; much other JSON has items.
    let is_feed = head.is_feed || head.has_items && !head.list.feed.entries.is_empty();
    if is_feed {
        list.feed.format = Some(Format::Json);
        match result {
            Ok(()) => {}
            Err(error) if list.feed.cut => drop(error),
            Err(error) if error.is_eof() => list.feed.note(Note::Partial),
            Err(_) => list.feed.note(Note::Broken),
        }
    }
}

struct Head<'h, 'l> {
    list: &'h mut List<'l>,
    time_is_up: &'h mut dyn FnMut() -> bool,
    is_feed: bool,
    has_items: bool,
}

impl<'de> DeserializeSeed<'de> for &mut Head<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Head<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a feed")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "version" => {
                    let version = map.next_value_seed(Scalar)?.unwrap_or_default();
                    self.is_feed |= version.contains("jsonfeed.org");
                }
                "title" => {
                    let title = map.next_value_seed(Scalar)?.unwrap_or_default();
                    self.list.feed.title = text::line(&title, false);
                }
                "language" => {
                    let tag = map.next_value_seed(Scalar)?.unwrap_or_default();
                    self.list.feed.language = text::language(&tag);
                }
                "home_page_url" => {
                    let href = map.next_value_seed(Scalar)?.unwrap_or_default();
                    self.list.feed.site = self.list.url(&href, None);
                }
                "next_url" => {
                    let href = map.next_value_seed(Scalar)?.unwrap_or_default();
                    self.list.feed.next = self.list.url(&href, None);
                }
                "items" => {
                    self.has_items = true;
                    map.next_value_seed(Items { list: self.list, time_is_up: self.time_is_up })?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Items<'h, 'l> {
    list: &'h mut List<'l>,
    time_is_up: &'h mut dyn FnMut() -> bool,
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("items")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut number = 0usize;
        while let Some(draft) = seq.next_element_seed(Item)? {
            number += 1;
            self.list.push(draft);
            if number.is_multiple_of(ITEMS_PER_LOOK) && (self.time_is_up)() {
                self.list.feed.cut = true;
            }
            if self.list.is_full() {
                // The rest is not read: whatever the error says, the feed is cut.
                return Err(serde::de::Error::custom("enough"));
            }
        }
        Ok(())
    }
}

struct Item;

impl<'de> DeserializeSeed<'de> for Item {
    type Value = Draft;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Draft, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Item {
    type Value = Draft;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an item")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Draft, A::Error> {
        let mut draft = Draft::default();
        let (mut url, mut external, mut attached) = (None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "url" => url = map.next_value_seed(Scalar)?,
                "external_url" => external = map.next_value_seed(Scalar)?,
                "id" => draft.guid = map.next_value_seed(Scalar)?.unwrap_or_default(),
                "title" => draft.title = map.next_value_seed(Scalar)?.unwrap_or_default(),
                "date_published" => draft.published = map.next_value_seed(Scalar)?.unwrap_or_default(),
                "date_modified" => draft.updated = map.next_value_seed(Scalar)?.unwrap_or_default(),
                "language" => draft.language = map.next_value_seed(Scalar)?.unwrap_or_default(),
                "author" | "authors" => {
                    draft.author = map.next_value_seed(First("name"))?.unwrap_or(draft.author);
                }
                "attachments" => attached = map.next_value_seed(First("url"))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let id = Some(draft.guid.clone()).filter(|id| id.trim_start().starts_with("http"));
        draft.links = [url, external, id, attached].into_iter().flatten().map(|href| (href, None)).collect();
        Ok(draft)
    }
}

/// A text or a number, as text; anything else is none.
struct Scalar;

impl<'de> DeserializeSeed<'de> for Scalar {
    type Value = Option<String>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Values that are not needed are skipped, whatever their type.
macro_rules! nothing {
    () => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok(None)
        }
    };
}

impl<'de> Visitor<'de> for Scalar {
    type Value = Option<String>;
    nothing!();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok((text.len() <= TEXT_BYTES_MAX).then(|| text.to_owned()))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number.to_string()))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(number.to_string()))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// The text with this name in an object, or in the first object of a list that has one.
#[derive(Clone, Copy)]
struct First(&'static str);

impl<'de> DeserializeSeed<'de> for First {
    type Value = Option<String>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for First {
    type Value = Option<String>;
    nothing!();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list of some")
    }
    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == self.0 {
                found = map.next_value_seed(Scalar)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(next) = seq.next_element_seed(self)? {
            found = found.or(next);
        }
        Ok(found)
    }
}

/// A longer text is no title, URL or date.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// The deadline is checked once in this number of items.
const ITEMS_PER_LOOK: usize = 100;
