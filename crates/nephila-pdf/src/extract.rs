//! The pages of a PDF as text. Runs in the child: nothing here is bounded but the pages and the size of the text.

use std::io;

use pdfboss_core::{Document, Error, Immediate, block_on};
use pdfboss_output::{TextOptions, extract_text_reporting_cached_with_opts};
use pdfboss_text::{FontCache, ReadingOrder};

use crate::frame::{End, Record};
use crate::{Cut, Limits, TITLE_BYTES_MAX};

/// Where the start of a PDF may stand: other readers look there too.
const START_BYTES: usize = 1024;

/// Returns whether bytes look like a PDF. Bytes before its start are allowed.
pub(crate) fn looks_like_pdf(bytes: &[u8]) -> bool {
    let start = bytes.get(..START_BYTES).unwrap_or(bytes);
    start.windows(5).any(|window| window == b"%PDF-")
}

/// Reads a document and hands over its title, its number of pages, each page, and how it ended.
pub(crate) fn extract(
    pdf: Vec<u8>,
    limits: &Limits,
    send: &mut dyn FnMut(Record) -> io::Result<()>,
) -> io::Result<()> {
    let document = match Document::load(pdf) {
        Ok(document) => document,
        Err(Error::Encrypted) => return send(Record::End(End::Encrypted)),
        Err(_) => return send(Record::End(End::NotPdf)),
    };
    let mut title = clean(&document.metadata().title.unwrap_or_default());
    title.truncate(title.floor_char_boundary(TITLE_BYTES_MAX));
    send(Record::Title(title))?;
    let pages = document.flattened_page_count();
    send(Record::Pages(u32::try_from(pages).unwrap_or(u32::MAX)))?;
    let fonts = FontCache::default();
    let layers = document.oc_state();
    let mut left = limits.text_max;
    for index in 0..pages {
        if index == limits.pages_max {
            return send(Record::End(End::Cut(Cut::Pages)));
        }
        let mut text = page(&document, index, &fonts, layers.as_ref());
        // The blank line between two pages counts too.
        let room = left.saturating_sub(2);
        let is_cut = text.len() > room;
        text.truncate(text.floor_char_boundary(room));
        left = room - text.len();
        send(Record::Page(text))?;
        if is_cut {
            return send(Record::End(End::Cut(Cut::Text)));
        }
    }
    send(Record::End(End::Whole))
}

/// The text of one page. Empty if it cannot be read.
fn page(
    document: &Document,
    index: usize,
    fonts: &FontCache,
    layers: Option<&pdfboss_core::OcState>,
) -> String {
    let Ok(page) = document.page(index) else { return String::new() };
    let text = block_on(extract_text_reporting_cached_with_opts(
        Immediate(document),
        &page,
        fonts,
        layers,
        None,
        ReadingOrder::Content,
        TextOptions::default(),
    ));
    text.map(|(text, _)| clean(&text)).unwrap_or_default()
}

/// Returns a text without control characters and without space around it.
fn clean(text: &str) -> String {
    let kept = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.trim().chars().filter(kept).collect()
}
