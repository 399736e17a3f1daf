//! The outline of a page as `lol_html` sees it. Also a part of the fuzz target `markup`, so it names nothing of the crate.

use std::cell::RefCell;
use std::rc::Rc;

use lol_html::html_content::{Element, TextChunk, TextType};
use lol_html::{HtmlRewriter, Settings, doc_text, element};

/// The outline of a page in UTF-8, with these names of elements and attributes.
pub(crate) fn outline(page: &[u8], elements: &[&str], attributes: &[&str]) -> Vec<String> {
    let lines = Rc::new(RefCell::new(Vec::new()));
    let (of_elements, of_texts) = (Rc::clone(&lines), Rc::clone(&lines));
    let mut starts = 0;
    let mut text = String::new();
    let settings = Settings::new()
        .with_strict(false)
        .append_element_content_handler(element!("*", |element: &mut Element<'_, '_>| {
            of_elements.borrow_mut().push(start_line(element, elements, attributes));
            let number = starts;
            starts += 1;
            let lines = Rc::clone(&of_elements);
            if let Some(handlers) = element.end_tag_handlers() {
                handlers.push(Box::new(move |_| {
                    lines.borrow_mut().push(format!("close {number}"));
                    Ok(())
                }));
            }
            Ok(())
        }))
        .append_document_content_handler(doc_text!(|chunk: &mut TextChunk<'_>| {
            text.push_str(chunk.as_str());
            if chunk.last_in_text_node() {
                let kind = if chunk.text_type() == TextType::Data { "data" } else { "raw" };
                of_texts.borrow_mut().push(format!("{kind} {}", std::mem::take(&mut text)));
            }
            Ok(())
        }));
    let mut parser = HtmlRewriter::new(settings, |_: &[u8]| {});
    parser.write(page).expect("nothing is limited");
    parser.end().expect("nothing is limited");
    lines.take()
}

fn start_line(element: &Element<'_, '_>, elements: &[&str], attributes: &[&str]) -> String {
    let name = element.tag_name();
    let name = if elements.contains(&name.as_str()) { name.as_str() } else { "?" };
    let mut line = format!("start {name}{}", if element.is_self_closing() { "/" } else { "" });
    for attribute in attributes {
        if let Some(value) = element.get_attribute(attribute) {
            line.push_str(&format!("|{attribute}={value}"));
        }
    }
    line
}

/// The elements whose start tags change how text is read.
const RAW_TEXT: [&str; 10] =
    ["iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "textarea", "title", "xmp"];

/// Why the two may differ on this page, of which `ours` is our outline: the table in decision 24.
pub(crate) fn may_differ(page: &[u8], ours: &[String]) -> Option<&'static str> {
    let has = |bytes: &[u8]| page.windows(bytes.len()).any(|window| window.eq_ignore_ascii_case(bytes));
    let starts = |name: &str| {
        let starts = ours.iter().filter_map(|line| line.strip_prefix("start ")?.strip_prefix(name));
        starts.filter(|rest| rest.is_empty() || rest.starts_with(['/', '|'])).count()
    };
    let ends_without_value = |(at, _): (usize, &u8)| {
        let rest = page[at + 1..].iter().find(|byte| !b"\t\n\x0c\r ".contains(byte));
        page[at] == b'=' && rest == Some(&b'>')
    };
    let has_raw_text = RAW_TEXT.iter().any(|name| starts(name) > 0);
    if has_raw_text && page.iter().enumerate().any(ends_without_value) {
        return Some("a tag that changes how text is read ends behind `=`");
    }
    if starts("svg/") + starts("math/") > 0 {
        return Some("`svg` or `math` closes itself");
    }
    if starts("svg") + starts("math") > 1 {
        return Some("HTML ends foreign content within foreign content");
    }
    if has("\u{feff}".as_bytes()) || has(b"\xff\xfe") || has(b"\xfe\xff") {
        return Some("a value begins with a byte order mark");
    }
    if starts("annotation-xml") > 0
        && page.windows(8).filter(|w| w.eq_ignore_ascii_case(b"encoding")).count() > 1
    {
        return Some("`annotation-xml` with two encodings");
    }
    None
}
