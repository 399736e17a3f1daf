//! The texts of links, and the language of the page: read only if [`Limits::details`] asks for them.
//!
//! The text of a link comes after its reference was collected, so the number of the reference stays open until `</a>`
//! or the next `<a>`.
//!
//! [`Limits::details`]: crate::handler::Limits::details

use super::{Attribute, Attributes, Element, Html};

impl Html<'_> {
    /// Begins the text of a link, whose element was opened last if it `is_open`.
    pub(super) fn begin_anchor(&mut self, at: Option<usize>, is_open: bool) {
        let Some(noted) = &mut self.noted else { return };
        let is_new = |at: &usize| self.collector.words(*at).anchor.is_empty();
        let depth = if is_open { self.open.count() } else { 0 };
        noted.begin_anchor(at.filter(is_new), depth);
    }

    /// Ends the text of a link whose element is not open any more.
    pub(super) fn end_anchor(&mut self) {
        if let Some(noted) = &mut self.noted {
            noted.end_anchor(self.open.count());
        }
    }

    /// Ends the text of a link, because nobody knows which elements are open.
    pub(super) fn forget_anchor(&mut self) {
        if let Some(noted) = &mut self.noted {
            noted.begin_anchor(None, 0);
        }
    }

    /// Keeps the `rel` of a reference.
    pub(super) fn note_rel(&mut self, at: Option<usize>, rel: Option<&str>) {
        if let (Some(noted), Some(at), Some(rel)) = (&self.noted, at, rel) {
            noted.rel(rel, self.collector.words(at));
        }
    }

    pub(super) fn take_language(&mut self, attributes: &Attributes<'_>) {
        if let (Some(noted), Some(language)) = (&mut self.noted, attributes.get(Attribute::Lang)) {
            noted.language(&language);
        }
    }

    /// Whether the text at this place belongs to a link.
    pub(super) fn is_in_anchor(&self) -> bool {
        let is_open = || self.noted.as_ref().is_some_and(|noted| noted.open_anchor().is_some());
        self.open.has(Element::A) && !self.is_noscript && is_open()
    }

    pub(super) fn add_image_to_anchor(&mut self, attributes: &Attributes<'_>) {
        if self.noted.is_some()
            && self.open.has(Element::A)
            && let Some(alt) = attributes.get(Attribute::Alt)
        {
            self.add_to_anchor(&format!(" {} ", htmlize::escape_text(alt)));
        }
    }

    pub(super) fn add_to_anchor(&mut self, text: &str) {
        let Some(at) = self.noted.as_ref().and_then(|noted| noted.open_anchor()) else { return };
        super::details::add_to_anchor(text, self.collector.words(at));
    }
}
