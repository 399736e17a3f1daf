//! The catalogue of false and missing labels.

use encoding_rs::{GBK, ISO_2022_JP, SHIFT_JIS, WINDOWS_1251};
use proptest::prelude::*;

use super::*;

fn check(content_type: Option<&str>, page: &[u8], encoding: &'static Encoding, source: Source) {
    let decision = decide(content_type.map(str::as_bytes), page);
    assert_eq!(decision, Decision { encoding, source }, "{content_type:?} {}", page.escape_ascii());
}

fn guessed(content_type: Option<&str>, page: &[u8]) {
    let decision = decide(content_type.map(str::as_bytes), page);
    assert_eq!(decision.source, Source::Guess, "{content_type:?} {} is {decision:?}", page.escape_ascii());
}

/// "Hello, this is a page" in Russian, in windows-1251.
const RUSSIAN: &[u8] =
    b"\xcf\xf0\xe8\xe2\xe5\xf2, \xfd\xf2\xee \xf1\xf2\xf0\xe0\xed\xe8\xf6\xe0 \xed\xe0 \xf0\xf3\xf1\xf1\xea\xee\xec";

#[test]
fn enc_01_mark_then_transport_then_page_then_guess() {
    let page = [b"<meta charset=windows-1251>", RUSSIAN].concat();
    let stored = page.clone();
    check(Some("text/html; charset=utf-8"), &page, UTF_8, Source::Transport);
    check(Some("text/html"), &page, WINDOWS_1251, Source::Page);
    check(None, &page, WINDOWS_1251, Source::Page);
    check(Some("text/html"), RUSSIAN, WINDOWS_1251, Source::Guess);
    check(Some("text/html; charset=koi8-r"), &[b"\xef\xbb\xbf", RUSSIAN].concat(), UTF_8, Source::Bom);
    check(None, "plain é and more é".as_bytes(), UTF_8, Source::Guess);
    // Decoding with the false label loses letters, but the bytes stay unchanged.
    let decoded = decode(UTF_8, &page, usize::MAX);
    assert!(decoded.replaced && page == stored);
    assert_eq!(Source::Transport.as_str(), "transport");
}

#[test]
fn enc_02_a_byte_order_mark_wins_over_the_field_and_links_are_found() {
    for (encoding, mark) in [(UTF_16LE, &b"\xff\xfe"[..]), (UTF_16BE, b"\xfe\xff")] {
        let mut page = mark.to_vec();
        for unit in "<a href=/é>".encode_utf16() {
            page.extend(if encoding == UTF_16LE { unit.to_le_bytes() } else { unit.to_be_bytes() });
        }
        check(Some("text/html; charset=iso-8859-1"), &page, encoding, Source::Bom);
        let decoded = decode(encoding, &page, usize::MAX);
        assert_eq!(decoded, Decoded { text: "<a href=/é>".into(), replaced: false, cut: false });
    }
}

#[test]
fn enc_03_labels_that_mean_nothing_fall_back() {
    let long = format!("text/html; charset={}", "x".repeat(10_000));
    for content_type in [
        "text/html; charset=",
        "text/html; charset",
        "text/html; charset=none",
        "text/html; charset=\"\"",
        "text/html; charset=\"unknown",
        "text/html; charset=utf-99",
        "text/html;;;",
        "charset",
        "",
        &long,
    ] {
        guessed(Some(content_type), b"hello");
        let page = [b"<meta charset=windows-1251>", RUSSIAN].concat();
        check(Some(content_type), &page, WINDOWS_1251, Source::Page);
    }
    for content_type in [
        "text/html; charset=utf8",
        "text/html; charset=\"UTF-8\"",
        "text/html;charset= utf-8 ",
        "text/html; x=y; CHARSET=utf-8; charset=koi8-r",
        "text/html; charset=\"u\\tf-8\"",
    ] {
        check(Some(content_type), b"hello", UTF_8, Source::Transport);
    }
    for page in [
        &b"<meta charset=none>hello"[..],
        b"<meta charset=''>hello",
        b"<meta charset=hello",
        b"<meta content='text/html; charset=koi8-r'>",
        b"<meta http-equiv=content-type content='charset'>",
    ] {
        guessed(None, page);
    }
    let meta = format!("<meta charset='{}'>", "x".repeat(10_000));
    guessed(None, meta.as_bytes());
}

#[test]
fn enc_04_a_meta_behind_long_comments_is_found() {
    for bytes in [1_500, 4_000] {
        let page = format!("<!-- {} --><meta charset=windows-1251>", "c".repeat(bytes));
        check(None, page.as_bytes(), WINDOWS_1251, Source::Page);
    }
    // Further away the declaration is not searched for, and the bytes decide.
    let page = [format!("<!--{}--><meta charset=koi8-r>", "c".repeat(9_000)).as_bytes(), RUSSIAN].concat();
    check(None, &page, WINDOWS_1251, Source::Guess);
}

#[test]
fn the_prescan_reads_markup_as_browsers_do() {
    for (page, encoding) in [
        ("<meta http-equiv='Content-Type' content='text/html; charset=koi8-r'>", encoding_rs::KOI8_R),
        ("<META CONTENT=\"text/html; charset = 'gbk'\" HTTP-EQUIV=content-type>", GBK),
        ("<meta/charset=gbk>", GBK),
        ("<meta charset = \"gbk\" />", GBK),
        ("<!--><meta charset=gbk>", GBK),
        ("<!-- <meta charset=koi8-r> --><meta charset=gbk>", GBK),
        ("<p title='<meta charset=koi8-r>'><meta charset=gbk>", GBK),
        ("<?php echo ?><!doctype html></p x><meta charset=gbk>", GBK),
        ("<meta charset=bogus><meta charset=gbk>", GBK),
        ("<meta charset=gbk charset=koi8-r>", GBK),
        ("<meta name=x content='charset=koi8-r'><meta charset=gbk>", GBK),
        ("<meta charset=utf-16le>", UTF_8),
        ("<meta charset=x-user-defined>", WINDOWS_1252),
        ("<?xml version='1.0' encoding='shift_jis'?><rss>", SHIFT_JIS),
        ("<?xml version=\"1.0\" encoding = \"utf-16\"?><rss>", UTF_8),
    ] {
        check(None, page.as_bytes(), encoding, Source::Page);
    }
    check(None, b"<\0?\0x\0m\0l\0", UTF_16LE, Source::Page);
    guessed(None, b"<metacharset=gbk>");
    guessed(None, b" <?xml encoding='gbk'?>");
}

#[test]
fn enc_05_only_the_standards_encodings_exist_and_utf_7_is_none() {
    // "+ADw-script+AD4-" is <script> in UTF-7, and must stay as it is.
    let page = b"+ADw-script+AD4-";
    for label in
        ["utf-7", "UTF-7", "csUnicode11UTF7", "unicode-1-1-utf-7", "utf-32", "cesu-8", "bocu-1", "scsu"]
    {
        let decision = decide(Some(format!("text/html; charset={label}").as_bytes()), page);
        assert_eq!(decision.source, Source::Guess, "{label}");
        assert_eq!(decode(decision.encoding, page, usize::MAX).text, "+ADw-script+AD4-");
    }
    // Encodings with shifts that the standard has given up are one replacement character, whatever is in them.
    for label in ["hz-gb-2312", "iso-2022-kr", "iso-2022-cn"] {
        let decision = decide(Some(format!("text/html; charset={label}").as_bytes()), b"~{<script>~}");
        assert_eq!(decision, Decision { encoding: REPLACEMENT, source: Source::Transport });
        assert_eq!(decode(REPLACEMENT, b"~{<script>~}", usize::MAX).text, "\u{fffd}");
    }
    // ISO-2022-JP is decoded when the site says so, and never guessed.
    let shifted = b"\x1b$B$3$s\x1b(B <a>";
    check(Some("text/html; charset=iso-2022-jp"), shifted, ISO_2022_JP, Source::Transport);
    assert_eq!(decode(ISO_2022_JP, shifted, usize::MAX).text, "こん <a>");
    assert_ne!(decide(None, &shifted.repeat(50)).encoding, ISO_2022_JP);
}

#[test]
fn enc_09_a_character_cut_at_the_limit_does_no_harm() {
    let page = "aé日😀".as_bytes();
    for end in 0..=page.len() {
        let decision = decide(Some(b"text/html; charset=utf-8"), &page[..end]);
        let decoded = decode(decision.encoding, &page[..end], usize::MAX);
        assert!("aé日😀".starts_with(decoded.text.trim_end_matches('\u{fffd}')), "{end}");
    }
    for max in 0..=page.len() {
        let decoded = decode(UTF_8, page, max);
        assert!(decoded.text.len() <= max && "aé日😀".starts_with(&decoded.text));
        assert_eq!(decoded.cut, max < page.len(), "{max}");
    }
    // Half a character of every encoding there is, and a prescan cut at every byte.
    for label in
        ["gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr", "utf-16le", "utf-16be", "gbk"]
    {
        let encoding = Encoding::for_label(label.as_bytes()).unwrap();
        for tail in [&b"a\x81"[..], b"\x81\x30\x81", b"\x1b$", b"\x8f\xa1", b"\xd8"] {
            decode(encoding, tail, usize::MAX);
        }
    }
    let html =
        b"<!-- x --><p a='1' b=\"2\" c=3><meta http-equiv=content-type content='text/html; charset=gbk'>";
    for end in 0..html.len() {
        decide(None, &html[..end]);
    }
}

#[test]
fn decoded_text_never_passes_its_limit() {
    // Each byte becomes three in UTF-8.
    let decoded = decode(UTF_8, &[0xff; 3_000], 1_000);
    assert!(decoded.text.len() <= 1_000 && decoded.cut && decoded.replaced);
    assert_eq!(decode(UTF_8, b"", 0), Decoded { text: String::new(), replaced: false, cut: false });
}

proptest! {
    #[test]
    fn any_bytes_get_an_encoding_and_a_bounded_text(
        field in proptest::collection::vec(any::<u8>(), 0..60),
        pieces in proptest::collection::vec(prop_oneof![
            Just(b"<meta ".to_vec()), Just(b"charset=".to_vec()), Just(b"content='".to_vec()), Just(b"<!--".to_vec()),
            Just(b"http-equiv=content-type ".to_vec()), Just(b">".to_vec()), Just(b"<?xml encoding=".to_vec()),
            Just(b"\xff\xfe".to_vec()), Just(b"gbk".to_vec()), proptest::collection::vec(any::<u8>(), 0..20),
        ], 0..20),
        max in 0usize..300,
    ) {
        let page = pieces.concat();
        let decision = decide(Some(&field), &page);
        let decoded = decode(decision.encoding, &page, max);
        prop_assert!(decoded.text.len() <= max);
    }
}
