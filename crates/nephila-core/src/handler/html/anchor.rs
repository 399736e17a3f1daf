//! The texts of links, and the language of the page: read only if [`Limits::details`] asks for them.
//!
//! The text of a link comes after its reference was collected, so the number of the reference stays open until `</a>`
//! or the next `<a>`.
//!
//! [`Limits::details`]: crate::handler::Limits::details

use lol_html::html_content::{Element, TextChunk, TextType};

use super::{Html, attribute};

impl Html<'_> {
    /// Begins the text of a link.
    pub(super) fn begin_anchor(&mut self, element: &mut Element<'_, '_>, at: Option<usize>) {
        let Some(noted) = &mut self.noted else { return };
        let is_new = |at: &usize| self.collector.words(*at).anchor.is_empty();
        if noted.begin_anchor(at.filter(is_new))
            && let Some(handlers) = element.end_tag_handlers()
        {
            let end = noted.end_of_anchor();
            handlers.push(Box::new(move |_| {
                end.set(true);
                Ok(())
            }));
        }
    }

    /// Keeps the `rel` of a reference.
    pub(super) fn note_rel(&mut self, at: Option<usize>, rel: Option<&str>) {
        if let (Some(noted), Some(at), Some(rel)) = (&self.noted, at, rel) {
            noted.rel(rel, self.collector.words(at));
        }
    }

    pub(super) fn handle_language(&mut self, element: &Element<'_, '_>) {
        if let (Some(noted), Some(language)) = (&mut self.noted, attribute(element, "lang")) {
            noted.language(&language);
        }
    }

    pub(super) fn handle_anchor_text(&mut self, text: &TextChunk<'_>) {
        if !self.is_noscript && text.text_type() == TextType::Data {
            self.add_to_anchor(text.as_str());
        }
    }

    pub(super) fn handle_anchor_image(&mut self, element: &Element<'_, '_>) {
        if let Some(alt) = attribute(element, "alt") {
            self.add_to_anchor(&format!(" {} ", htmlize::escape_text(alt)));
        }
    }

    fn add_to_anchor(&mut self, text: &str) {
        let Some(at) = self.noted.as_ref().and_then(|noted| noted.open_anchor()) else { return };
        super::details::add_to_anchor(text, self.collector.words(at));
    }
}
