//! Documents that are made to loop, to use much memory or to crash. Each ends within the limits.

use std::time::Instant;

use nephila_pdf::Error;

use crate::build::{Document, FONT, flate, flate_repeated};
use crate::process::peak;
use crate::{Test, limits, reader};

pub(crate) const TESTS: &[Test] = &[
    ("hostile::deflate_bombs", deflate_bombs),
    ("hostile::deep_nesting", deep_nesting),
    ("hostile::circles", circles),
    ("hostile::tables_that_loop", tables_that_loop),
    ("hostile::huge_numbers", huge_numbers),
    ("hostile::much_content", much_content),
    ("hostile::forms_that_multiply", forms_that_multiply),
    ("hostile::many_pages_of_one_content", many_pages_of_one_content),
];

/// A page of text that a hostile document shows.
const SHOWN: &str = "BT /F 12 Tf 72 700 Td (shown) Tj ET";

/// Reads a document, and fails if that is not within the limits or has no named end. Returns what came of it.
fn end_of(name: &str, pdf: &[u8]) -> String {
    let before = peak();
    let start = Instant::now();
    let read = reader(limits()).read(pdf);
    let time = start.elapsed();
    let grown = peak() - before;
    let end = match &read {
        Ok(pdf) => format!("{} bytes of text, cut: {:?}", pdf.text.len(), pdf.cut),
        Err(error) => error.to_string(),
    };
    println!(
        "  {name}: {} bytes, {:.2} s, parent +{} KiB: {end}",
        pdf.len(),
        time.as_secs_f64(),
        grown >> 10
    );
    assert!(time < limits().wall_max + std::time::Duration::from_secs(5), "{name}: {time:?}");
    assert!(grown < 8 << 20, "{name}: the parent grew by {grown} bytes");
    assert!(!matches!(read, Err(Error::Start(_))), "{name}: {end}");
    crate::process::assert_no_children();
    end
}

fn deflate_bombs() {
    // One, with 200 MiB of text operators; then zeros, and zeros packed twice.
    let block = b"(words and words) Tj ".repeat(50_000);
    let mut document = Document::page("");
    document.stream(11, "/Filter /FlateDecode", &flate_repeated(&block, 200));
    let end = end_of("200 MiB of operators", &document.finish());
    assert!(end.contains("out of memory") || end.contains("out of time"), "{end}");
    let zeros = flate_repeated(&vec![0; 1 << 20], 1000);
    assert!(zeros.len() < 2 << 20, "about a thousand to one");
    document.stream(11, "/Filter /FlateDecode", &zeros);
    end_of("1 GiB of zeros", &document.finish());
    document.stream(11, "/Filter [/FlateDecode /FlateDecode]", &flate(&zeros));
    end_of("1 GiB of zeros, packed twice", &document.finish());
    // The same as the map of a font, and as an object stream.
    document.leaf(10, 12, "/Font << /F << /Type /Font /Subtype /Type1 /BaseFont /X /ToUnicode 11 0 R >> >>");
    document.stream(12, "", SHOWN.as_bytes());
    end_of("a bomb as a map", &document.finish());
    document.stream(11, "/Type /ObjStm /N 100 /First 10 /Filter /FlateDecode", &zeros);
    end_of("a bomb as an object stream", &document.finish());
}

fn deep_nesting() {
    for (name, open, close) in [("arrays", "[", "]"), ("dictionaries", "<< /A ", ">>"), ("strings", "(", ")")]
    {
        for closed in [true, false] {
            let close = if closed { close.repeat(100_000) } else { String::new() };
            let nested = open.repeat(100_000) + &close;
            let mut document = Document::page(SHOWN);
            document.object(2, &format!("<< /Type /Pages /Kids [10 0 R] /Count 1 /X {nested} >>"));
            end_of(&format!("nested {name} in an object"), &document.finish());
            let document = Document::page(&format!("BT /F 12 Tf {nested} TJ (shown) Tj ET"));
            end_of(&format!("nested {name} in the content"), &document.finish());
        }
    }
    end_of("nested states", &Document::page(&("q BT ".repeat(300_000) + SHOWN)).finish());
    let marks = "/P << /MCID 0 >> BDC ".repeat(200_000);
    end_of("nested marks", &Document::page(&(marks + SHOWN)).finish());
}

fn circles() {
    let mut document = Document::page(SHOWN);
    document.object(2, "<< /Type /Pages /Kids [2 0 R 10 0 R 2 0 R] /Count 3 >>");
    end_of("a page tree in itself", &document.finish());
    document.object(2, "<< /Type /Pages /Kids [3 0 R 3 0 R 3 0 R] /Count 9 /Parent 3 0 R >>");
    document.object(3, "<< /Type /Pages /Kids [2 0 R 10 0 R 2 0 R] /Count 9 /Parent 2 0 R >>");
    end_of("two page trees in each other", &document.finish());
    let mut document = Document::page(SHOWN);
    document.object(11, "11 0 R");
    end_of("an object that is itself", &document.finish());
    document.object(11, "[11 0 R 11 0 R 11 0 R]");
    end_of("a content that has itself", &document.finish());
    document.object(11, "<< /Length 11 0 R >> stream\nBT ET\nendstream");
    end_of("a length that is its stream", &document.finish());
    document.leaf(10, 12, "/Font << /F 20 0 R >>");
    document.stream(12, "", SHOWN.as_bytes());
    document.object(
        20,
        "<< /Type /Font /Subtype /Type0 /DescendantFonts [20 0 R] /ToUnicode 20 0 R /Encoding 20 0 R >>",
    );
    end_of("a font in itself", &document.finish());
    document.stream(20, "/Type /CMap /UseCMap 20 0 R", b"begincmap /X usecmap endcmap");
    end_of("a map that uses itself", &document.finish());
}

fn tables_that_loop() {
    let mut document = Document::page(SHOWN);
    let start = document.finish().windows(5).position(|window| window == b"xref\n").unwrap();
    document.trailer = format!("/Prev {start}");
    end_of("a table before itself", &document.finish());
    document.trailer = format!("/XRefStm {start} /Prev {start}");
    end_of("a table beside itself", &document.finish());
    document.trailer = "/Prev 99999999999999999999".into();
    end_of("a table outside", &document.finish());
    let mut packed = Document::page(SHOWN);
    packed.trailer = "/Extends 900 0 R /Prev 0".into();
    end_of("an object stream that extends itself", &packed.finish_packed());
}

fn huge_numbers() {
    for number in ["2147483647", "4294967296", "99999999999", "9223372036854775807", "-1", "1e99"] {
        let mut document = Document::page("");
        document.object(11, &format!("<< /Length {number} >> stream\n{SHOWN}\nendstream"));
        end_of(&format!("length {number}"), &document.finish());
        let mut document = Document::page(SHOWN);
        document.object(2, &format!("<< /Type /Pages /Kids [10 0 R] /Count {number} >>"));
        document.trailer = format!("/Size {number}");
        end_of(&format!("count and size {number}"), &document.finish());
        let parameters = format!("/DecodeParms << /Predictor 12 /Columns {number} /Colors {number} >>");
        document.stream(11, &format!("/Filter /FlateDecode {parameters}"), &flate(SHOWN.as_bytes()));
        end_of(&format!("columns {number}"), &document.finish());
        let map = format!(
            "begincmap 1 beginbfrange <0000> <ffffffff> <0041> endbfrange 1 begincidrange <00> <ff> {number} endcidrange endcmap"
        );
        document.leaf(
            10,
            11,
            "/Font << /F << /Type /Font /Subtype /Type0 /Encoding 30 0 R /ToUnicode 30 0 R >> >>",
        );
        document.stream(11, "", SHOWN.as_bytes());
        document.stream(30, "", map.as_bytes());
        end_of(&format!("a map to {number}"), &document.finish());
        let text = format!("BT /F {number} Tf {number} TL {number} {number} Td (shown) Tj T* (shown) Tj ET");
        end_of(&format!("text at {number}"), &Document::page(&text).finish());
        let mut document = Document::page(SHOWN);
        document.stream(
            40,
            &format!("/Type /XRef /W [1 4 2] /Size {number} /Index [0 {number}]"),
            b"abcdefg",
        );
        document.trailer = "/XRefStm 400".into();
        end_of(&format!("a table of {number}"), &document.finish());
    }
}

fn much_content() {
    let one = "BT /F 12 Tf 72 700 Td (a) Tj ET\n";
    end_of("a million texts in one place", &Document::page(&one.repeat(500_000)).finish());
    let mut content = String::from("BT /F 1 Tf\n");
    for at in 0..300_000_u32 {
        let (x, y) = (at.wrapping_mul(7_919) % 600, at.wrapping_mul(104_729) % 780);
        content += &format!("1 0 0 1 {x} {y} Tm (w) Tj\n");
    }
    end_of("texts all over the page", &Document::page(&content).finish());
    end_of(
        "a long string",
        &Document::page(&format!("BT /F 12 Tf ({}) Tj ET", "ab ".repeat(3_000_000))).finish(),
    );
    let lines = "0 0 m 600 0 l S 0 9 600 1 re f ".repeat(200_000);
    end_of("many lines", &Document::page(&(lines + SHOWN)).finish());
}

fn forms_that_multiply() {
    let mut document = Document::page(&"/X Do ".repeat(50));
    document.leaf(10, 11, "/XObject << /X 100 0 R >>");
    for at in 100..120 {
        let entries = format!(
            "/Subtype /Form /BBox [0 0 9 9] /Resources << {FONT} /XObject << /X {} 0 R >> >>",
            at + 1
        );
        document.stream(at, &entries, format!("{SHOWN} {}", "/X Do ".repeat(50)).as_bytes());
    }
    end_of("forms that multiply", &document.finish());
    let entries = format!("/Subtype /Form /BBox [0 0 9 9] /Resources << {FONT} /XObject << /X 100 0 R >> >>");
    document.stream(100, &entries, format!("{SHOWN} /X Do /X Do").as_bytes());
    end_of("a form in itself", &document.finish());
}

fn many_pages_of_one_content() {
    let mut document = Document::page("");
    document.object(2, &format!("<< /Type /Pages /Kids [{}] /Count 100000 >>", "10 0 R ".repeat(100_000)));
    let content = "BT /F 12 Tf 72 700 Td (word after word) Tj ET\n".repeat(3_000);
    document.stream(11, "/Filter /FlateDecode", &flate(content.as_bytes()));
    end_of("one page 100,000 times", &document.finish());
    // Too much work for the processor time, and yet some pages are read before it ends.
    let kids: String = (100..2_100).map(|at| format!("{at} 0 R ")).collect();
    document.object(2, &format!("<< /Type /Pages /Kids [{kids}] /Count 2000 >>"));
    for at in 100..2_100 {
        document.leaf(at, 11, FONT);
    }
    let end = end_of("2,000 pages of one content", &document.finish());
    assert!(end.contains("cut: Some(Time)"), "{end}");
}
