//! Pages in other encodings.

use super::*;
use crate::handler::charset::Source;

fn utf16(text: &str, little: bool) -> Vec<u8> {
    let bytes = |unit: u16| if little { unit.to_le_bytes() } else { unit.to_be_bytes() };
    text.encode_utf16().flat_map(bytes).collect()
}

#[test]
fn enc_01_links_are_read_in_the_encoding_that_was_decided() {
    // "кот" in windows-1251, which the page says, while the label says UTF-8: the label wins.
    let html = b"<meta charset=windows-1251><a href='/?q=\xea\xee\xf2'>".to_vec();
    let answer = Answer::html(html.clone()).field("content-type", "text/html; charset=utf-8");
    let findings = answer.read();
    assert_eq!(findings.charset.unwrap().source, Source::Transport);
    assert_eq!(answer.links(), ["http://a.test/?q=%EF%BF%BD%EF%BF%BD%EF%BF%BD"]);
    assert_eq!(Answer::html(html).links(), ["http://a.test/?q=%EA%EE%F2"]);
}

#[test]
fn enc_02_links_are_found_in_utf_16_whatever_the_label_says() {
    for little in [true, false] {
        let mut body = utf16("\u{feff}<title>é</title><a href='/ü?ü'>", little);
        let answer = Answer::html(body.clone()).field("content-type", "text/html; charset=iso-8859-1");
        assert_eq!(answer.links(), ["http://a.test/%C3%BC?%C3%BC"]);
        assert_eq!(answer.read().title.as_deref(), Some("é"));
        // Half a character at the end.
        body.pop();
        Answer::html(body).read();
    }
}

#[test]
fn enc_05_shifts_cannot_hide_or_show_links() {
    // ISO-2022-JP is decoded before the parser sees it, so that what stands in two-byte mode is no markup.
    let html = b"<meta charset=iso-2022-jp><p>\x1b$B<a href=/no>\x1b(B</p><a href=/yes>";
    assert_eq!(Answer::html(html.to_vec()).links(), ["http://a.test/yes"]);
    // UTF-7 is never decoded.
    let html = "<meta charset=utf-7>+ADw-a href=/no+AD4-<a href=/yes>";
    links(html, &["http://a.test/yes"]);
    // The replacement encoding shows nothing at all.
    links("<meta charset=hz-gb-2312><a href=/no>", &[]);
}

#[test]
fn enc_06_bytes_that_mean_nothing_become_what_browsers_send() {
    let html = b"<meta charset=utf-8><a href='/a\xff\xc3b'><a href=/good>".to_vec();
    assert_eq!(Answer::html(html).links(), ["http://a.test/a%EF%BF%BD%EF%BF%BDb", "http://a.test/good"]);
}

#[test]
fn enc_07_queries_keep_the_encoding_of_their_page() {
    let html = b"<meta charset=windows-1251><a href='/\xea?\xea'><a href='?&#1082;&#22823;'>".to_vec();
    let want = ["http://a.test/%D0%BA?%EA", "http://a.test/dir/page?%EA%26%2322823%3B"];
    assert_eq!(Answer::html(html).links(), want);
}

#[test]
fn enc_08_bytes_that_are_no_page_are_not_read_as_one() {
    let mut jpeg = b"\xff\xd8\xff\xe0".to_vec();
    jpeg.extend_from_slice(b"<a href=/x>");
    assert!(Answer::html(jpeg).links().is_empty());
    let mut zeros = vec![0; 10_000];
    zeros.extend_from_slice(b"<a href=/x>");
    assert!(Answer::html(zeros).links().is_empty());
}

#[test]
fn enc_09_a_character_cut_at_the_limit_is_no_trouble() {
    let html = format!("<meta charset=utf-8><a href=/1>{}", "大".repeat(100)).into_bytes();
    for limit in 0..html.len() {
        Answer::html(html.clone()).limit(|l| l.html_bytes_max = limit).read();
    }
    let wide = utf16("\u{feff}<a href=/1>𝄞𝄞𝄞<a href=/2>", true);
    for limit in 0..wide.len() {
        Answer::html(wide.clone()).limit(|l| l.html_bytes_max = limit).read();
    }
}
