//! What is read of good documents.

use nephila_pdf::{Cut, Error, Limits};

use crate::build::{Document, FONT, flate};
use crate::{Test, limits, read, reader};

pub(crate) const TESTS: &[Test] = &[
    ("text::all_text_operators_are_read", all_text_operators_are_read),
    ("text::a_gap_is_a_space", a_gap_is_a_space),
    ("text::compressed_content_is_read", compressed_content_is_read),
    ("text::object_streams_are_read", object_streams_are_read),
    ("text::codes_are_mapped_to_unicode", codes_are_mapped_to_unicode),
    ("text::fonts_without_a_map_are_read", fonts_without_a_map_are_read),
    ("text::forms_are_read", forms_are_read),
    ("text::title_and_pages", title_and_pages),
    ("text::a_long_text_is_cut", a_long_text_is_cut),
    ("text::further_pages_are_left_out", further_pages_are_left_out),
    ("text::a_damaged_table_is_made_up_for", a_damaged_table_is_made_up_for),
    ("text::what_has_no_text", what_has_no_text),
];

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn all_text_operators_are_read() {
    let content = "BT /F 12 Tf 14 TL 72 700 Td (one) Tj T* (two) Tj (three) ' 1 0 (four) \" [(fi) 10 (ve)] TJ
        0 -20 TD <736978> Tj 1 0 0 1 72 500 Tm (se\\166en \\(7\\)) Tj ET
        BT /F 12 Tf 72 400 Td (eight) Tj ET";
    let pdf = read(&Document::page(content).finish()).unwrap();
    assert_eq!(words(&pdf.text), ["one", "two", "three", "fourfive", "six", "seven", "(7)", "eight"]);
    assert_eq!(pdf.text.lines().next(), Some("one"), "each baseline is a line");
}

fn a_gap_is_a_space() {
    let content = "BT /F 12 Tf 72 700 Td [(wide) -600 (gap) -20 (ped)] TJ 200 0 Td (far) Tj ET";
    let pdf = read(&Document::page(content).finish()).unwrap();
    assert_eq!(words(&pdf.text), ["wide", "gapped", "far"]);
}

fn compressed_content_is_read() {
    let mut document = Document::page("");
    let content = b"BT /F 12 Tf 72 700 Td (packed words) Tj ET";
    document.stream(11, "/Filter /FlateDecode", &flate(content));
    assert_eq!(read(&document.finish()).unwrap().text, "packed words");
    document.stream(11, "/Filter [/FlateDecode /FlateDecode]", &flate(&flate(content)));
    assert_eq!(read(&document.finish()).unwrap().text, "packed words");
}

fn object_streams_are_read() {
    let document = Document::page("BT /F 12 Tf 72 700 Td (from an object stream) Tj ET");
    let pdf = document.finish_packed();
    assert!(!pdf.windows(8).any(|window| window == b"/Catalog"), "the objects are packed");
    assert_eq!(read(&pdf).unwrap().text, "from an object stream");
}

fn codes_are_mapped_to_unicode() {
    let mut document = Document::page("BT /F 12 Tf 72 700 Td <000100020003> Tj ET");
    let font =
        "/Font << /F << /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /ToUnicode 30 0 R
        /DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X /CIDSystemInfo
        << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>] >> >>";
    document.leaf(10, 11, font);
    let map =
        "/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <0000> <ffff> endcodespacerange
        1 beginbfchar <0001> <041C> endbfchar 1 beginbfrange <0002> <0003> <043E> endbfrange endcmap";
    document.stream(30, "/Filter /FlateDecode", &flate(map.as_bytes()));
    assert_eq!(read(&document.finish()).unwrap().text, "Моп");
}

fn fonts_without_a_map_are_read() {
    // The codes are those of GBK; the font has no map to Unicode of its own.
    let mut document = Document::page("BT /F 12 Tf 72 700 Td <C7C5> Tj ET");
    let font = "/Font << /F << /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /GBK-EUC-H
        /DescendantFonts [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light /CIDSystemInfo
        << /Registry (Adobe) /Ordering (GB1) /Supplement 2 >> >>] >> >>";
    document.leaf(10, 11, font);
    assert_eq!(read(&document.finish()).unwrap().text, "桥");
}

fn forms_are_read() {
    let mut document = Document::page("q 1 0 0 1 72 700 cm /X Do Q");
    document.leaf(10, 11, "/XObject << /X 31 0 R >>");
    let entries = format!("/Type /XObject /Subtype /Form /BBox [0 0 500 50] /Resources << {FONT} >>");
    document.stream(31, &entries, b"BT /F 12 Tf (inside a form) Tj ET");
    assert_eq!(read(&document.finish()).unwrap().text, "inside a form");
}

fn title_and_pages() {
    let content = "BT /F 12 Tf 72 700 Td (page) Tj ET";
    let mut document = Document::pages(&[content, "", content]);
    document.trailer = "/Info << /Title <FEFF04200435043A0430> >>".into();
    let pdf = read(&document.finish()).unwrap();
    assert_eq!((pdf.title.as_str(), pdf.pages, pdf.pages_read, pdf.cut), ("Река", 3, 3, None));
    assert_eq!(pdf.text, "page\n\npage");
}

fn a_long_text_is_cut() {
    let content = "BT /F 12 Tf 72 700 Td (some words here) Tj ET";
    let document = Document::pages(&[content; 20]).finish();
    let pdf = reader(Limits { text_max: 100, ..limits() }).read(&document).unwrap();
    assert!((80..=100).contains(&pdf.text.len()), "{} bytes", pdf.text.len());
    assert_eq!((pdf.cut, pdf.pages), (Some(Cut::Text), 20));
    assert!(pdf.text.starts_with("some words here\n\nsome words here"));
}

fn further_pages_are_left_out() {
    let content = "BT /F 12 Tf 72 700 Td (word) Tj ET";
    let document = Document::pages(&[content; 5]).finish();
    let pdf = reader(Limits { pages_max: 3, ..limits() }).read(&document).unwrap();
    assert_eq!((pdf.pages, pdf.pages_read, pdf.cut), (5, 3, Some(Cut::Pages)));
    assert_eq!(words(&pdf.text).len(), 3);
    let pdf = reader(Limits { pages_max: 5, ..limits() }).read(&document).unwrap();
    assert_eq!(pdf.cut, None);
}

fn a_damaged_table_is_made_up_for() {
    let pdf = Document::page("BT /F 12 Tf 72 700 Td (still here) Tj ET").finish();
    let table = pdf.windows(4).position(|window| window == b"xref").unwrap();
    assert_eq!(read(&pdf[..table]).unwrap().text, "still here");
    // From the second object on, the table points beside each of them.
    let moved = String::from_utf8(pdf.clone()).unwrap().replace("\n2 0 obj", "          \n2 0 obj");
    assert_eq!(read(moved.as_bytes()).unwrap().text, "still here");
    let shifted = [b"some bytes before\r\n", &pdf[..]].concat();
    assert_eq!(read(&shifted).unwrap().text, "still here");
}

fn what_has_no_text() {
    assert!(matches!(read(b"<!doctype html><p>not one</p>"), Err(Error::NotPdf)));
    assert!(matches!(read(b""), Err(Error::NotPdf)));
    assert!(matches!(read(b"%PDF-1.7\nand then nothing of it"), Err(Error::NotPdf | Error::NoText)));
    assert!(matches!(read(&Document::page("0 0 m 9 9 l S").finish()), Err(Error::NoText)));
    let mut document = Document::page("BT /F 12 Tf (secret) Tj ET");
    let key = "00".repeat(32);
    document.trailer = format!(
        "/ID [<00> <00>] /Encrypt << /Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O <{key}> /U <{key}> >>"
    );
    assert!(matches!(read(&document.finish()), Err(Error::Encrypted)));
    let small = Limits { bytes_max: 100, ..limits() };
    assert!(matches!(reader(small).read(&document.finish()), Err(Error::TooLarge(100))));
}
