//! The elements that the parser reports, and the handler that each of them calls.

use std::borrow::Cow;
use std::cell::RefCell;

use lol_html::html_content::{Element, TextChunk};
use lol_html::{AsciiCompatibleEncoding, ElementContentHandlers, MemorySettings, Selector, Settings};

use super::Html;

/// The elements with a handler. All others are skipped, which makes reading fast.
const ELEMENTS: &str = "a,area,base,body,link,meta,img,image,source,iframe,frame,video,audio,track,embed,object,\
                        script,form,input,use,template";

thread_local! {
    /// Parsed once per thread: parsing them costs as much as reading a small page.
    pub(super) static SELECTORS: Selectors = Selectors::new();
}

/// The selectors of the handlers.
pub(super) struct Selectors {
    elements: Selector,
    svg_title: Selector,
    title: Selector,
    noscript: Selector,
    style: Selector,
    styled: Selector,
    language: Selector,
    anchor: Selector,
    anchor_image: Selector,
}

impl Selectors {
    fn new() -> Selectors {
        let parse = |text: &str| text.parse::<Selector>().expect("a list of names is a selector");
        Selectors {
            elements: parse(ELEMENTS),
            svg_title: parse("svg title"),
            title: parse("title"),
            noscript: parse("noscript,noframes"),
            style: parse("style"),
            styled: parse("[style]"),
            language: parse("html[lang]"),
            anchor: parse("a"),
            anchor_image: parse("a img[alt]"),
        }
    }

    pub(super) fn settings<'h, 's>(
        &'s self,
        html: &'h RefCell<Html<'_>>,
        encoding: AsciiCompatibleEncoding,
        memory_max: usize,
        styles: bool,
    ) -> Settings<'h, 's> {
        let elements = ElementContentHandlers::default().element(move |element: &mut Element<'_, '_>| {
            html.borrow_mut().handle_element(element);
            Ok(())
        });
        let svg_title = ElementContentHandlers::default().element(move |_: &mut Element<'_, '_>| {
            html.borrow_mut().is_svg_title = true;
            Ok(())
        });
        let title = ElementContentHandlers::default()
            .element(move |_: &mut Element<'_, '_>| {
                html.borrow_mut().handle_title();
                Ok(())
            })
            .text(move |text: &mut TextChunk<'_>| {
                html.borrow_mut().handle_title_text(text);
                Ok(())
            });
        let noscript = ElementContentHandlers::default().text(move |text: &mut TextChunk<'_>| {
            html.borrow_mut().handle_noscript_text(text);
            Ok(())
        });
        let style = ElementContentHandlers::default().text(move |text: &mut TextChunk<'_>| {
            html.borrow_mut().handle_style_text(text);
            Ok(())
        });
        let styled = ElementContentHandlers::default().element(move |element: &mut Element<'_, '_>| {
            html.borrow_mut().handle_styled(element);
            Ok(())
        });
        let memory = MemorySettings::new().with_max_allowed_memory_usage(memory_max);
        // Not strict: ambiguous markup is read in one of its ways, not refused.
        let mut settings = Settings::new()
            .append_element_content_handler((Cow::Borrowed(&self.elements), elements))
            .append_element_content_handler((Cow::Borrowed(&self.svg_title), svg_title))
            .append_element_content_handler((Cow::Borrowed(&self.title), title))
            .append_element_content_handler((Cow::Borrowed(&self.noscript), noscript))
            .with_encoding(encoding)
            .with_memory_settings(memory)
            .with_strict(false);
        if html.borrow().noted.is_some() {
            let language = ElementContentHandlers::default().element(move |element: &mut Element<'_, '_>| {
                html.borrow_mut().handle_language(element);
                Ok(())
            });
            let anchor = ElementContentHandlers::default().text(move |text: &mut TextChunk<'_>| {
                html.borrow_mut().handle_anchor_text(text);
                Ok(())
            });
            let image = ElementContentHandlers::default().element(move |element: &mut Element<'_, '_>| {
                html.borrow_mut().handle_anchor_image(element);
                Ok(())
            });
            settings = settings
                .append_element_content_handler((Cow::Borrowed(&self.language), language))
                .append_element_content_handler((Cow::Borrowed(&self.anchor), anchor))
                .append_element_content_handler((Cow::Borrowed(&self.anchor_image), image));
        }
        if !styles {
            return settings;
        }
        settings
            .append_element_content_handler((Cow::Borrowed(&self.style), style))
            .append_element_content_handler((Cow::Borrowed(&self.styled), styled))
    }
}
