//! The tags and texts of a page as lines, for tests that compare the scanner with another parser.

use std::fmt::Write;

use encoding_rs::UTF_8;

use super::open::Open;
use super::{Attribute, Element, Name, Scanner, Token};

/// The names of the elements and attributes that an [`outline`] tells by name.
pub fn outline_names() -> (Vec<&'static str>, Vec<&'static str>) {
    (Element::NAMES.to_vec(), Attribute::NAMES.to_vec())
}

/// The outline of a page in UTF-8: `start NAME[/]` with attributes as `|NAME=VALUE`, `close N` for the end of the element
/// that began as the Nth, `data TEXT` and `raw TEXT`. An element without a known name is `?`.
pub fn outline(page: &[u8]) -> Vec<String> {
    let mut scanner = Scanner::new(page, UTF_8, usize::MAX, true);
    scanner.wants_text = true;
    let mut open = Open::new(usize::MAX);
    let (mut lines, mut numbers, mut starts) = (Vec::new(), Vec::new(), 0);
    loop {
        match scanner.next(open.is_foreign()) {
            Token::Text { from, to, is_data } => {
                let kind = if is_data { "data" } else { "raw" };
                lines.push(format!("{kind} {}", UTF_8.decode_without_bom_handling(&page[from..to]).0));
            }
            Token::Start { name, closes_itself } => {
                let opened = open.start(name, closes_itself, scanner.attributes());
                scanner.read_as(opened.mode);
                lines.push(start_line(name, closes_itself, &scanner));
                if opened.is_open {
                    numbers.push(starts);
                }
                starts += 1;
            }
            Token::End { name } => {
                open.end(name);
                lines.extend(numbers.drain(open.count()..).rev().map(|number| format!("close {number}")));
            }
            Token::TooLong | Token::Over => return lines,
        }
    }
}

fn start_line(name: Name, closes_itself: bool, scanner: &Scanner<'_>) -> String {
    let name = match name {
        Name::Known(element) => Element::NAMES[element as usize],
        Name::Other(_) => "?",
    };
    let mut line = format!("start {name}{}", if closes_itself { "/" } else { "" });
    for attribute in Attribute::ALL {
        if let Some(raw) = scanner.attributes().raw(*attribute) {
            let value = UTF_8.decode_without_bom_handling(raw).0;
            write!(line, "|{}={value}", Attribute::NAMES[*attribute as usize]).expect("a string takes all");
        }
    }
    line
}
