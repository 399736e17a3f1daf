//! The states of the tokenizer, one by one, by section of the HTML standard, and limits.

// The same as in another parser.
mod alike;
mod oracle;

use std::time::{Duration, Instant};

use encoding_rs::UTF_8;

use super::open::Open;
use super::outline::outline;
use super::{Attribute, Name, Scanner, Token};

/// Compares outlines without the words `start`.
#[track_caller]
fn check(page: &str, want: &[&str]) {
    let lines = outline(page.as_bytes());
    let lines: Vec<&str> = lines.iter().map(|line| line.strip_prefix("start ").unwrap_or(line)).collect();
    assert_eq!(lines, want, "{page:?}");
}

#[test]
fn data_13_2_5_1_and_tag_open_13_2_5_6() {
    check("", &[]);
    check("text", &["data text"]);
    check("a < b", &["data a < b"]);
    check("a <", &["data a <"]);
    check("a </", &["data a </"]);
    check("<<a>", &["data <", "a"]);
    check("<1>", &["data <1>"]);
    check("<é>", &["data <é>"]);
    check("<>", &["data <>"]);
    check("< a>", &["data < a>"]);
    check("<a", &[]);
    check("x<a", &["data x"]);
    check("<a ", &[]);
    check("&lt;a&gt;", &["data &lt;a&gt;"]);
    check("a\0b", &["data a\0b"]);
}

#[test]
fn end_tag_open_13_2_5_7() {
    check("<p></p>", &["p", "close 0"]);
    check("</p>", &[]);
    check("a</>b", &["data a", "data b"]);
    check("a</ x>b", &["data a", "data b"]);
    check("a</1>b", &["data a", "data b"]);
    check("a</!-->b", &["data a", "data b"]);
    check("<p></p x='>'>y", &["p", "close 0", "data y"]);
    check("<p></p/>y", &["p", "close 0", "data y"]);
    check("<p></p", &["p"]);
    check("<p></px></p>", &["p", "close 0"]);
}

#[test]
fn tag_name_13_2_5_8() {
    check("<DIV>", &["div"]);
    check("<a\thref=x>", &["a|href=x"]);
    check("<a\nhref=x>", &["a|href=x"]);
    check("<a\x0chref=x>", &["a|href=x"]);
    check("<a\rhref=x>", &["a|href=x"]);
    check("<a/href=x>", &["a|href=x"]);
    check("<a\0 href=x>", &["?|href=x"]);
    check("<a<b>", &["?"]);
    check("<a=b>", &["?"]);
    check("<a\">", &["?"]);
    check("<my-widget></MY-WIDGET>", &["?", "close 0"]);
    let long = "x".repeat(70);
    check(&format!("<{long}></{long}y></{}>", long.to_uppercase()), &["?", "close 0"]);
}

#[test]
fn rcdata_13_2_5_2_and_rawtext_13_2_5_3() {
    for name in ["title", "textarea", "style", "xmp", "iframe", "noembed", "noframes", "noscript"] {
        let raw = |text: &str| format!("raw {text}");
        check(&format!("<{name}><a></{name}>"), &[name, "raw <a>", "close 0"]);
        check(&format!("<{name}></{name} x=y>z"), &[name, "close 0", "data z"]);
        check(&format!("<{name}></{name}/>z"), &[name, "close 0", "data z"]);
        check(&format!("<{name}></{}\n>z", name.to_uppercase()), &[name, "close 0", "data z"]);
        check(&format!("<{name}>a</{name}b></x></>"), &[name, &raw(&format!("a</{name}b></x></>"))]);
        check(&format!("<{name}>a</{name}"), &[name, &raw(&format!("a</{name}"))]);
        check(&format!("<{name}>a</{name} "), &[name, "raw a"]);
        check(&format!("<{name}><!-- </{name}>-->"), &[name, "raw <!-- ", "close 0", "data -->"]);
        check(&format!("<{name}/>a"), &[&format!("{name}/"), "raw a"]);
        check(&format!("<{name}>a<"), &[name, "raw a<"]);
        check(&format!("<{name}>a</"), &[name, "raw a</"]);
    }
    check("<title><title></title></title>", &["title", "raw <title>", "close 0"]);
}

#[test]
fn plaintext_13_2_5_5() {
    check("<plaintext>a</plaintext><b>", &["plaintext", "raw a</plaintext><b>"]);
    check("<plaintext>", &["plaintext"]);
}

#[test]
fn script_data_13_2_5_4() {
    check("<script>a<b</script>c", &["script", "raw a<b", "close 0", "data c"]);
    check("<script>'</scripts>'</script >", &["script", "raw '</scripts>'", "close 0"]);
    check("<script></SCRIPT/>", &["script", "close 0"]);
    check("<script>a</script", &["script", "raw a</script"]);
    check("<script><!</script>", &["script", "raw <!", "close 0"]);
    check("<script><!-</script>", &["script", "raw <!-", "close 0"]);
}

#[test]
fn script_data_escaped_13_2_5_18_to_13_2_5_24() {
    check("<script><!-- </script>x", &["script", "raw <!-- ", "close 0", "data x"]);
    check("<script><!-- <a></script>x", &["script", "raw <!-- <a>", "close 0", "data x"]);
    check("<script><!-- --></script>x", &["script", "raw <!-- -->", "close 0", "data x"]);
    check("<script><!--</scriptx></script>x", &["script", "raw <!--</scriptx>", "close 0", "data x"]);
    check("<script><!-- - </script>x", &["script", "raw <!-- - ", "close 0", "data x"]);
}

#[test]
fn script_data_double_escaped_13_2_5_25_to_13_2_5_31() {
    let whole = |inside: &str| {
        check(
            &format!("<script>{inside}</script>x"),
            &["script", &format!("raw {inside}"), "close 0", "data x"],
        );
    };
    whole("<!--<script></script>-->");
    whole("<!--<script></script>");
    whole("<!--<SCRIPT\n></sCRIPT/>");
    whole("<!--<script></script>--><!--");
    whole("<!-- <script></script> <script></script> ");
    whole("<!--<script></scriptx></script>");
    // Nothing is hidden here.
    whole("<!--<scripts>");
    whole("<!-- --><script>");
    whole("<!--><script>");
    whole("<!---><script>");
    whole("<!----><script>");
    whole("<!-- <script> --><b>");
    whole("<!-<script>");
    check("<script><!--<script></script>x", &["script", "raw <!--<script></script>x"]);
    // The end of the comment ends both, and another comment begins behind the script.
    check("<script><!--<script>--></script><!--</script>x", &["script", "raw <!--<script>-->", "close 0"]);
    check(
        "<script><!--<script>--</script>-->x</script>",
        &["script", "raw <!--<script>--</script>-->x", "close 0"],
    );
}

#[test]
fn attribute_names_13_2_5_32_to_13_2_5_34() {
    check("<a href>", &["a|href="]);
    check("<a href >", &["a|href="]);
    check("<a href/>", &["a/|href="]);
    check("<a href rel=x>", &["a|href=|rel=x"]);
    check("<a href/rel=x>", &["a|href=|rel=x"]);
    check("<a HREF=x>", &["a|href=x"]);
    check("<a href=1 HREF=2 href=3>", &["a|href=1"]);
    check("<a href href=2>", &["a|href="]);
    check("<a =href=x>", &["a"]);
    check("<a = href=x>", &["a|href=x"]);
    check("<a hre\0f=x>", &["a"]);
    check("<a \"href=x>", &["a"]);
    check("<a <href=x>", &["a"]);
    check("<a xlink:href=x>", &["a|xlink:href=x"]);
    check("<a / / href=x / >", &["a|href=x"]);
    check("<a / >", &["a"]);
    check("<a //>", &["a/"]);
}

#[test]
fn attribute_values_13_2_5_35_to_13_2_5_39() {
    check("<a href = x>", &["a|href=x"]);
    check("<a href\n=\n'x'>", &["a|href=x"]);
    check("<a href=\"a'b>c\">", &["a|href=a'b>c"]);
    check("<a href='a\"b>c'>", &["a|href=a\"b>c"]);
    check("<a href=''>", &["a|href="]);
    check("<a href=a'b\"c`d=e<f>", &["a|href=a'b\"c`d=e<f"]);
    check("<a href=x/>", &["a|href=x/"]);
    check("<a href=x />", &["a/|href=x"]);
    check("<a href=/>", &["a|href=/"]);
    check("<a href='x'rel=y>", &["a|href=x|rel=y"]);
    check("<a href='x'/>", &["a/|href=x"]);
    check("<a href==x>", &["a|href==x"]);
    check("<a href=&amp;>", &["a|href=&amp;"]);
    check("<a href=>x", &["a|href=", "data x"]);
    check("<a href= >x", &["a|href=", "data x"]);
    check("<style media=><a></style>", &["style", "raw <a>", "close 0"]);
    for torn in
        ["<a href='x", "<a href=\"x>", "<a href=x", "<a href=", "<a href= ", "<a href='x'", "<a href/"]
    {
        check(torn, &[]);
    }
}

#[test]
fn comments_13_2_5_41_to_13_2_5_52() {
    for comment in [
        "<!---->",
        "<!-->",
        "<!--->",
        "<!-- <a> -->",
        "<!----->",
        "<!------>",
        "<!--a--!>",
        "<!----!>",
        "<!-- -- > -->",
        "<!-- --!- -->",
        "<!-- --!-->",
        "<!-- <!-->",
        "<!-- <!--->",
        "<!--<!-- -->",
        "<!-- > -- > -> !> --!x>-->",
        "<!---!>-->",
        "<!---x>-->",
        "<!>",
        "<!a>",
        "<!-a->",
        "<! -- >",
        "<!DOCTYPE>",
        "<!DOCTYPE html>",
        "<!doctype html PUBLIC 'a' \"b\">",
        "<!DOCTYPEhtml SYSTEM\">",
        "<!DOCTYPE a [<!ENTITY b 'c'>",
        "<?>",
        "<?xml version='1.0'?>",
        "<?php echo '>",
        "</->",
        "<![CDATA[x]]>",
        "<![CDATA[>",
    ] {
        check(&format!("{comment}<b>"), &["b"]);
        check(&format!("x{comment}y"), &["data x", "data y"]);
    }
    for torn in [
        "<!--",
        "<!---",
        "<!-- ",
        "<!-- --",
        "<!-- -- >",
        "<!-- --!",
        "<!",
        "<!x",
        "<!DOCTYPE '",
        "<?",
        "</ ",
    ] {
        check(&format!("a{torn}"), &["data a"]);
    }
    check("<!-- <a> --<b>", &[]);
}

#[test]
fn cdata_13_2_5_69_is_for_foreign_content() {
    check("<svg><![CDATA[<a>]]>x", &["svg", "raw <a>", "data x"]);
    check("<svg><![CDATA[]]]]><b>", &["svg", "raw ]]", "b"]);
    check("<svg><![CDATA[]]><b>", &["svg", "b"]);
    check("<svg><![CDATA[]>]]<b>]]>", &["svg", "raw ]>]]<b>"]);
    check("<svg><![CDATA[a", &["svg", "raw a"]);
    // In other letters it is a comment.
    check("<svg><![cdata[<i>]]>", &["svg", "data ]]>"]);
    check("<math><mi><![CDATA[x]]>", &["math", "mi"]);
    check("<svg></svg><![CDATA[x]]>", &["svg", "close 0"]);
}

#[test]
fn foreign_content_13_2_6_5_decides_how_text_is_read() {
    let raw = |page: &str| {
        let lines = outline(page.as_bytes());
        lines.iter().any(|line| line == "raw <a>")
    };
    for foreign in [
        "<svg>",
        "<math>",
        "<svg><g>",
        "<svg><desc></desc>",
        "<svg><desc/>",
        "<svg><foreignObject><p></p></foreignObject>",
        "<math><mi></mi>",
        "<math><annotation-xml>",
        "<math><annotation-xml encoding=x>",
        "<math><annotation-xml encoding=text/html></annotation-xml>",
        "<svg><font>",
        "<svg><svg></svg>",
        "<svg><a></a>",
        "<p><svg></p>x<svg>",
    ] {
        assert!(!raw(&format!("{foreign}<style><a></style>")), "{foreign}");
    }
    for html in [
        "",
        "<svg></svg>",
        "<svg/>",
        "<math/>",
        "<svg><g/></svg>",
        "<svg><desc>",
        "<svg><title>",
        "<svg><foreignObject>",
        "<math><mtext>",
        "<math><annotation-xml encoding='Text/HTML'>",
        "<math><annotation-xml encoding=application/xhtml+xml>",
        "<svg><p>",
        "<svg><g><div>",
        "<svg><font color=x>",
        "<svg></p>",
        "<math></br>",
        "<svg><svg><p>",
        "<svg><math><p>",
        "<svg><foreignObject><math></math>",
        "<svg><foreignObject><svg></svg>",
    ] {
        assert!(raw(&format!("{html}<style><a></style>")), "{html}");
    }
}

#[test]
fn end_tags_close_what_is_inside() {
    check("<div><p><i></div></i>x", &["div", "p", "i", "close 2", "close 1", "close 0", "data x"]);
    check("<p><p></p></p></p>", &["p", "p", "close 1", "close 0"]);
    check("<br><img><p></br></p>", &["br", "img", "p", "close 2"]);
    check("<x><y></z></x>", &["?", "?", "close 1", "close 0"]);
    check("<svg><g/><g></g></svg>", &["svg", "g/", "g", "close 2", "close 0"]);
    // `br` ends the foreign content, so that the slash of `g` says nothing.
    check("<svg><br/><g/><g></g></svg>", &["svg", "br/", "g/", "g", "close 3", "close 2", "close 0"]);
    check("<div/></div>", &["div/", "close 0"]);
}

/// The start tags of a page, read with limits.
fn starts(page: &[u8], tag_bytes_max: usize, open: &mut Open) -> (usize, bool) {
    let mut scanner = Scanner::new(page, UTF_8, tag_bytes_max, false);
    let mut starts = 0;
    loop {
        match scanner.next(open.is_foreign()) {
            Token::Start { name, closes_itself } => {
                scanner.read_as(open.start(name, closes_itself, scanner.attributes()).mode);
                starts += 1;
            }
            Token::End { name } => open.end(name),
            Token::Text { .. } => panic!("nobody wants text"),
            token => return (starts, token == Token::TooLong),
        }
    }
}

#[test]
fn a_tag_has_a_limit() {
    let page = |bytes: usize| format!("<p><a {}><p>", "x".repeat(bytes - 4));
    for (bytes, want) in [(100, (3, false)), (101, (1, true))] {
        assert_eq!(starts(page(bytes).as_bytes(), 100, &mut Open::new(1_000)), want);
        // The end of the page is no excuse.
        let torn = &page(bytes)[..bytes + 3 - 1];
        assert_eq!(starts(format!("{torn}x").as_bytes(), 100, &mut Open::new(1_000)), (1, bytes > 100));
    }
}

#[test]
fn open_elements_have_a_limit_and_are_forgotten_there() {
    let mut open = Open::new(2_000);
    let (found, _) = starts("<svg><i>".repeat(100).as_bytes(), 100, &mut open);
    assert_eq!(found, 200);
    assert!(open.count() < 100, "{}", open.count());
    // Unknown names too.
    let mut open = Open::new(20_000);
    let page: String = (0..10_000).map(|n| format!("<x-{n}></x-{n}>")).collect();
    assert_eq!(starts(page.as_bytes(), 100, &mut open), (10_000, false));
    assert_eq!(open.count(), 0);
}

#[test]
fn what_is_forgotten_is_told_and_marks_go_with_it() {
    let mut open = Open::new(48 * 4);
    let attributes = Scanner::new(b"", UTF_8, 9, false);
    let mut forgotten = 0;
    for _ in 0..10 {
        let opened = open.start(Name::Other(7), false, attributes.attributes());
        forgotten += usize::from(opened.has_forgotten);
        open.mark();
        assert_eq!(open.marked(), open.count());
    }
    assert!((1..5).contains(&forgotten), "{forgotten}");
    open.end(Name::Other(7));
    assert_eq!(open.marked(), open.count());
}

#[test]
fn values_are_decoded_as_in_attributes() {
    let value = |page: &[u8], encoding| {
        let mut scanner = Scanner::new(page, encoding, 100, false);
        scanner.next(false);
        scanner.attributes().get(Attribute::Href).map(|value| value.into_owned())
    };
    let get = |html: &str| value(html.as_bytes(), UTF_8);
    assert_eq!(get("<a href='a&amp;b&copy=c&copy;&#x41;'>").as_deref(), Some("a&b&copy=c©A"));
    assert_eq!(get("<a href='\0'>").as_deref(), Some("\u{fffd}"));
    assert_eq!(get("<a href>").as_deref(), Some(""));
    assert_eq!(get("<a hreF=\u{feff}x>").as_deref(), Some("\u{feff}x"));
    assert_eq!(get("<a>"), None);
    assert_eq!(value(b"<a href=\xea>", encoding_rs::WINDOWS_1251).as_deref(), Some("к"));
    assert_eq!(value(b"<a href='\x83\x5c>'>", encoding_rs::SHIFT_JIS).as_deref(), Some("ソ>"));
}

#[test]
fn twice_the_bytes_take_about_twice_the_time() {
    let pieces = "<!--|<!-- --|-|<|</|<!|<?|<a |<a href='|<a '|<a b=|<a a|/|=|\"|<script>|<script><!--|<!--<script>|</script|\
        <style>|</style|<title><|<svg>|<svg><![CDATA[|<svg><desc>|<math><mi>|]]|<i>|</i>|<x1>|<a></b>|<i><b></i>|<plaintext>|\
        ]]>|-->|--!";
    for piece in pieces.split('|') {
        let took = |bytes: usize| {
            let text = piece.repeat(bytes / piece.len());
            let best = (0..3).map(|_| {
                let began = Instant::now();
                starts(text.as_bytes(), usize::MAX, &mut Open::new(1 << 22));
                began.elapsed()
            });
            best.min().expect("three were made")
        };
        // Four times the bytes: sixteen times would be quadratic. Machines are shared, so a bad figure is looked at again.
        let mut looks = (0..8).map(|_| (took(1 << 18), took(1 << 20)));
        let is_linear = |(one, four): (Duration, Duration)| four < one * 10 + Duration::from_millis(50);
        assert!(looks.any(is_linear), "{piece:?}: {:?}, {:?}", took(1 << 18), took(1 << 20));
    }
}
