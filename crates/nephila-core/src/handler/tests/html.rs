//! Markup as browsers read markup, and hostile markup.

use std::time::{Duration, Instant};

use super::*;
use crate::handler::{LinkKind, read_page_until};

/// Far above the need of any of these tests, far below the need of a parser without limits.
const TIME_MAX: Duration = Duration::from_secs(20);

#[test]
fn each_element_has_its_kind() {
    kinds("<a href=/x>", &[("link", "http://a.test/x")]);
    kinds("<map><area href=/x></map>", &[("area", "http://a.test/x")]);
    kinds("<link rel=canonical href=/x>", &[("canonical", "http://a.test/x")]);
    kinds("<link rel=alternate hreflang=de href=/de>", &[("alternate", "http://a.test/de")]);
    kinds("<link rel=alternate type=application/rss+xml href=/f>", &[("feed", "http://a.test/f")]);
    kinds("<link rel=next href=/2>", &[("link", "http://a.test/2")]);
    kinds("<link rel=sitemap href=/s.xml>", &[("sitemap", "http://a.test/s.xml")]);
    kinds("<link rel='shortcut icon' href=/i>", &[("requisite", "http://a.test/i")]);
    kinds("<link rel=preconnect href=//cdn.test><link href=/x>", &[]);
    kinds(
        "<iframe src=/f></iframe><frame src=/g>",
        &[("iframe", "http://a.test/f"), ("iframe", "http://a.test/g")],
    );
    let requisites = "<img src=1 srcset='2 1x'><picture><source srcset=3></picture><video src=4 poster=5><track src=6>\
         </video><audio src=7></audio><embed src=8><object data=9></object><script src=10></script>\
         <input type=image src=11><body background=12><svg><image xlink:href=13 /><use href='14#x'/></svg>";
    let found = Answer::html(requisites).read().links;
    assert!(found.iter().all(|f| f.kind == LinkKind::Requisite), "{found:?}");
    let names: Vec<&str> = found.iter().map(|f| f.url.path().rsplit('/').next().unwrap()).collect();
    assert_eq!(names.join(" "), "1 2 3 4 5 6 7 8 9 10 11 12 13 14");
    assert!(Answer::html(requisites).limit(|l| l.requisites = false).read().links.is_empty());
    // Sources are no links.
    kinds("<blockquote cite=/x></blockquote><q cite=/y></q><ins cite=/z></ins><input src=/w>", &[]);
}

#[test]
fn one_url_is_named_once_and_by_its_strongest_kind() {
    kinds(
        "<img src=/x><a href=/x><link rel=canonical href='/x#top'><a href='http://A.test:80/dir/../x'>",
        &[("link", "http://a.test/x")],
    );
    kinds(
        "<a href=/f><link rel=alternate type=application/atom+xml href=/f>",
        &[("feed", "http://a.test/f")],
    );
    // The page itself and its fragments are no links.
    links(
        "<a href='#top'><a href=''><a href=page><a href='/dir/page#x'><a href='?q'>",
        &["http://a.test/dir/page?q"],
    );
}

#[test]
fn links_come_before_what_a_page_needs_to_be_shown() {
    let mut html = String::new();
    (0..50).for_each(|i| html.push_str(&format!("<img src=/i{i}><a href=/l{i}>")));
    let findings = Answer::html(html).limit(|l| l.links_max = 60).read();
    assert_eq!(findings.links.len(), 60);
    assert_eq!(findings.links.iter().filter(|f| f.kind == LinkKind::Link).count(), 50);
    assert_eq!((findings.counts.over_limit, findings.cut), (40, true));
}

#[test]
fn references_are_decoded_as_in_attributes() {
    links("<a href='/?a=1&amp;b=2&copy=3&lt;&#x41;'>", &["http://a.test/?a=1&b=2&copy=3%3CA"]);
    links(
        "<p>A NUL among enough text to pass for a page, as long as it is one.<a href='/a\0b'>",
        &["http://a.test/a%EF%BF%BDb"],
    );
    links("<a href=/1 href=/2>", &["http://a.test/1"]);
}

#[test]
fn other_schemes_are_counted_and_not_returned() {
    let html = "<a href='javascript:void(0)'><a href=mailto:x@y.test><a href=tel:1><img src='data:image/png,x'>\
                <a href='http://'><a href='http://[::1'><a href=ftp://a.test/>";
    let findings = Answer::html(html).read();
    assert!(findings.links.is_empty());
    let counts = findings.counts;
    assert_eq!((counts.seen, counts.dropped_scheme, counts.dropped_invalid), (7, 5, 2));
}

#[test]
fn a_title_is_one_line_and_the_first() {
    let title = |html: &str| Answer::html(html).read().title;
    assert_eq!(title("<title> A &amp;\n B </title><title>C</title>").as_deref(), Some("A & B"));
    assert_eq!(title("<svg><title>no</title></svg><title>yes</title>").as_deref(), Some("yes"));
    assert_eq!(title("<title></title>"), None);
    let long = title(&format!("<title>{}</title>", "é".repeat(5_000))).unwrap();
    assert_eq!(long.len(), 512);
    let words = title(&format!("<title>{}</title>", "ab ".repeat(5_000))).unwrap();
    assert!(words.len() <= 512 && words.ends_with("ab"));
}

#[test]
fn a_refresh_is_a_redirect_if_it_is_short() {
    kinds("<meta http-equiv=Refresh content='0; url=/x'>", &[("redirect", "http://a.test/x")]);
    kinds("<meta http-equiv=refresh content='30;url=/x'>", &[("refresh", "http://a.test/x")]);
    kinds("<meta http-equiv=refresh content=30>", &[]);
    kinds("<meta http-equiv=refresh content='0;url=/dir/page'>", &[]);
    kinds(
        "<noscript><meta http-equiv=refresh content='0; url=/nojs'></noscript>",
        &[("refresh", "http://a.test/nojs")],
    );
    let findings =
        Answer::html("<meta http-equiv=refresh content='5;url=/x'>").field("refresh", "0;url=/y").read();
    assert_eq!(findings.refresh.unwrap().delay, Duration::ZERO);
    assert_eq!(findings.links.len(), 2);
}

/// The time and the findings of a page that must not take long.
fn timed(answer: &Answer) -> Findings {
    let begun = Instant::now();
    let findings = answer.read();
    assert!(begun.elapsed() < TIME_MAX, "took {:?}", begun.elapsed());
    findings
}

#[test]
fn htm_01_nesting_costs_no_more_than_its_bytes() {
    for tag in ["<div>", "<ul><li>", "<b>", "<svg>", "<table><tr><td>", "<span><p>"] {
        let html = format!("{}<a href=/deep>", tag.repeat(512 * 1024 / tag.len()));
        let findings = timed(&Answer::html(html));
        assert_eq!(findings.links.len(), 1, "{tag}: the link at the bottom");
        assert!(!findings.cut, "{tag}");
    }
}

#[test]
fn htm_02_a_million_unclosed_tags_are_read_to_the_end() {
    let html = format!("{}<a href=/end>", "<i>".repeat(1_000_000));
    let findings = timed(&Answer::html(html));
    assert_eq!((findings.links.len(), findings.cut), (1, false));
}

#[test]
fn htm_03_a_tag_may_have_a_hundred_thousand_attributes() {
    let attributes: String = (0..20_000).map(|i| format!(" a{i}=1")).collect();
    let findings = timed(&Answer::html(format!("<a{attributes} href=/x>x</a><a href=/y>")));
    assert_eq!(findings.links.len(), 2);
    // More than the parser's memory holds: cut there, and earlier findings are kept.
    let attributes: String = (0..400_000).map(|i| format!(" a{i}=1")).collect();
    let findings = timed(&Answer::html(format!("<a href=/before><a{attributes} href=/x>x</a>")));
    assert_eq!((findings.links.len(), findings.cut), (1, true));
}

#[test]
fn htm_04_an_attribute_that_never_ends_ends_the_page_and_not_the_process() {
    let html = format!("<a href=/before><a href=\"{}", "x".repeat(10 * 1024 * 1024));
    let findings = timed(&Answer::html(html));
    assert_eq!((findings.links.len(), findings.cut), (1, true));
    // A long value that does end is dropped for its length, and the rest is read.
    let html = format!("<a href=\"{}\"><a href=/after>", "x".repeat(100 * 1024));
    let findings = timed(&Answer::html(html));
    assert_eq!((findings.links.len(), findings.counts.dropped_invalid, findings.cut), (1, 1, false));
}

#[test]
fn htm_05_misnested_formatting_is_nothing_to_a_reader_without_a_tree() {
    let html = format!("{}<a href=/x>", "<b><i></b></i><a><p></a>".repeat(20_000));
    let findings = timed(&Answer::html(html));
    assert_eq!((findings.links.len(), findings.cut), (1, false));
}

#[test]
fn htm_06_half_a_million_links_give_as_many_as_allowed() {
    let mut html = String::new();
    (0..250_000).for_each(|i| html.push_str(&format!("<a href=/{i}><a href=/same>")));
    let findings = timed(&Answer::html(html));
    assert_eq!(findings.links.len(), Limits::default().links_max);
    assert_eq!(findings.counts.seen, 500_000);
    // Repeated ones are not over the limit: they were removed first.
    assert_eq!(findings.counts.over_limit, 250_001 - 6_000);
    assert!(findings.cut);
}

#[test]
fn htm_07_the_first_base_counts_if_it_can_be_used() {
    links("<base href=/other/><a href=x>", &["http://a.test/other/x"]);
    links("<a href=x><base href=/late/>", &["http://a.test/late/x"]);
    links("<base href=//b.test><a href=x>", &["http://b.test/x"]);
    links("<base href=/1/><base href=/2/><a href=x>", &["http://a.test/1/x"]);
    links("<base target=_top><base href=/2/><a href=x>", &["http://a.test/2/x"]);
    for unusable in ["javascript:x", "data:text/html,x", "http://", "ftp://b.test/"] {
        links(&format!("<base href='{unusable}'><base href=/2/><a href=x>"), &["http://a.test/dir/x"]);
    }
    links("<template><base href=/no/></template><a href=x>", &["http://a.test/dir/x"]);
    let findings = Answer::html("<base href='http://b.test/d/'><a href=x>").read();
    assert_eq!(findings.base_used.unwrap().as_str(), "http://b.test/d/");
    assert!(Answer::html("<base href=''><a href=x>").read().base_used.is_none());
    // A fragment of the base is another page, when the base is.
    links("<base href=/other><a href='#x'>", &["http://a.test/other"]);
}

#[test]
fn htm_08_sets_of_images_are_split_as_browsers_split_them() {
    kinds(
        "<IMG SRCSET='data:image/png;base64,AA== 1x, /w_1,h_2/a 2x,/b'>",
        &[("requisite", "http://a.test/w_1,h_2/a"), ("requisite", "http://a.test/b")],
    );
}

#[test]
fn htm_09_words_for_robots_are_lists_in_any_case() {
    let html = "<meta name=Robots content='NOINDEX, NoFollow'><a rel='noopener NOFOLLOW' href=/x><a rel=nofollowed href=/y>";
    let findings = Answer::html(html)
        .field("x-robots-tag", "otherbot: noarchive")
        .field("x-robots-tag", "nosnippet, unavailable_after: 25 Jun 2027 15:00:00 PST")
        .read();
    let robots = findings.page_robots;
    assert!(robots.noindex && robots.nofollow && robots.nosnippet && !robots.noarchive);
    assert_eq!(robots.unavailable_after.as_deref(), Some("25 Jun 2027 15:00:00 PST"));
    let nofollow: Vec<bool> = findings.links.iter().map(|f| f.nofollow).collect();
    assert_eq!(nofollow, [true, false]);
    let findings =
        Answer::html("<meta name=robots content=noindex>").field("x-robots-tag", "Nephila: nofollow").read();
    assert!(findings.page_robots.nofollow && !findings.page_robots.noindex && findings.page_robots.named);
    // One mention without `nofollow` is enough to follow.
    let findings = Answer::html("<a rel=nofollow href=/x><a href=/x>").read();
    assert!(!findings.links[0].nofollow);
}

#[test]
fn htm_10_white_space_in_references_is_what_browsers_take_it_for() {
    links("<a href=' \n /x\t'>", &["http://a.test/x"]);
    links("<a href='ht\ntp://b.\ttest/a\r\nb'>", &["http://b.test/ab"]);
    links("<a href='java\tscript:alert(1)'>", &[]);
    links("<a href='/a b'>", &["http://a.test/a%20b"]);
}

#[test]
fn htm_11_one_bad_reference_does_not_spoil_the_others() {
    let html =
        "<a href=/1><a href='http://a b/'><a href='http://x:99999/'><a href='%'><a href=//><a href=/2>";
    let findings = Answer::html(html).read();
    let urls: Vec<&str> = findings.links.iter().map(|f| f.url.as_str()).collect();
    assert_eq!(urls, ["http://a.test/1", "http://a.test/dir/%", "http://a.test/2"]);
    assert_eq!(findings.counts.dropped_invalid, 3);
}

#[test]
fn htm_12_scripts_and_data_are_not_searched_for_urls() {
    let script = "var u='http://b.test/x';'<a href=/y>';{\"url\":\"/z\"}".repeat(10_000);
    let html =
        format!("<script>{script}</script><script type=application/json>{script}</script><a href=/end>");
    let findings = timed(&Answer::html(html));
    assert_eq!((findings.links.len(), findings.counts.seen), (1, 1));
}

#[test]
fn htm_13_text_that_breaks_patterns_meets_none() {
    // Nothing here is matched by a pattern of ours; values that grammars of ours read take linear time.
    let value = format!("{}{}", "a ".repeat(200_000), "(".repeat(200_000));
    let html = format!(
        "<img srcset=\"{value}\"><meta name=robots content=\"{value}\"><a rel=\"{value}\" href=/x><meta http-equiv=refresh content=\"0;{value}\">"
    );
    assert_eq!(timed(&Answer::html(html)).links.iter().filter(|f| f.kind == LinkKind::Link).count(), 1);
    let field = "<a;\"\\".repeat(10_000);
    timed(&Answer::html("").field("link", &field));
}

#[test]
fn htm_14_document_types_are_not_obeyed() {
    let xhtml = "<?xml version='1.0'?><!DOCTYPE html [<!ENTITY u '/entity'><!ENTITY x SYSTEM 'file:///etc/passwd'>]>\
                 <html xmlns='http://www.w3.org/1999/xhtml'><a href='&u;'>&x;</a><a href='/plain'/></html>";
    let found = Answer::html(xhtml).field("content-type", "application/xhtml+xml").links();
    assert_eq!(found, ["http://a.test/dir/&u;", "http://a.test/plain"]);
}

#[test]
fn htm_15_what_is_longer_than_the_limit_is_cut_there() {
    let html = format!("<a href=/1>{}<a href=/2>", " ".repeat(20 * 1024 * 1024));
    let findings = timed(&Answer::html(html));
    assert_eq!((findings.links.len(), findings.cut), (1, true));
    // The cut may fall inside a tag.
    let answer = Answer::html("<a href=/1><a href=/22222>").limit(|l| l.html_bytes_max = 20);
    assert_eq!(answer.links(), ["http://a.test/1"]);
}

#[test]
fn htm_16_what_counts_as_a_source_stands_in_one_table() {
    kinds(
        "<frameset><frame src=/1></frameset><noframes><a href=/2></a></noframes>",
        &[("iframe", "http://a.test/1"), ("link", "http://a.test/2")],
    );
    links(
        "<noscript><a href=/x></a></noscript><noscript><p><a href=/y></noscript>",
        &["http://a.test/x", "http://a.test/y"],
    );
    links("<svg><a xlink:href=/x></a><a href=/y></a></svg>", &["http://a.test/x", "http://a.test/y"]);
    links(
        "<template><a href=/no></a><template><a href=/no2></a></template></template><a href=/yes>",
        &["http://a.test/yes"],
    );
    links("<template><a href=/no></a></template>", &[]);
    // A template that never ends is none; a template whose parent ends has ended.
    links("<template><a href=/1><p><a href=/2>", &["http://a.test/1", "http://a.test/2"]);
    links("<div><template><a href=/1></div><a href=/2>", &["http://a.test/2"]);
    links("<template shadowrootmode=open><a href=/x></a></template>", &["http://a.test/x"]);
    let noscript = format!("<noscript>{}</noscript>", "<a href=/x>".repeat(100_000));
    assert_eq!(timed(&Answer::html(noscript)).links.len(), 1);
}

#[test]
fn htm_17_forms_are_never_filled_in() {
    let html = "<form action=/search?x=1><input type=hidden name=token value=1><input name=q></form>\
                <form method=POST action=/login></form><form method=dialog action=/d></form><a href=/logout>";
    links(html, &["http://a.test/logout"]);
    let answer = Answer::html(html).limit(|l| l.forms = true);
    assert_eq!(answer.links(), ["http://a.test/search?x=1", "http://a.test/logout"]);
}

#[test]
fn htm_18_text_that_looks_like_tags_is_text() {
    for hidden in [
        "<!-- <a href=/no> -->",
        "<!--><!-- <a href=/no> --!>",
        "<textarea><a href=/no></textarea>",
        "<title><a href=/no></title>",
        "<style><a href=/no></style>",
        "<xmp><a href=/no></xmp>",
        "<script><!-- <script> <a href=/no> </script> --></script>",
        "<svg><![CDATA[<a href=/no>]]></svg>",
        "<iframe><a href=/no></iframe>",
        "<p title='<a href=/no>'>",
        "<?php echo '<a href=/no'; ?>",
    ] {
        links(&format!("{hidden}<a href=/yes>"), &["http://a.test/yes"]);
    }
    links("<a href=/yes><plaintext><a href=/no>", &["http://a.test/yes"]);
    // In foreign content, and in ambiguous markup, there are real links.
    links("<svg><style><a href=/x></style></svg>", &["http://a.test/x"]);
    links("<select><xmp></select></xmp><a href=/x>", &["http://a.test/x"]);
    links("<frameset><noframes></noframes></frameset><script></script><a href=/x>", &["http://a.test/x"]);
}

#[test]
fn htm_19_a_page_is_left_when_time_is_up() {
    let html = "<a href=/x>".repeat(200_000);
    let answer = Answer::html(html);
    let keys = KeyRules::default();
    let mut asked = 0;
    let findings = read_page_until(&answer.page(&keys), &answer.limits, &mut || {
        asked += 1;
        asked > 10
    });
    assert!(findings.cut && asked < 20, "asked {asked} times");
    assert!(findings.counts.seen > 0 && findings.counts.seen < 200_000);
}

#[test]
fn htm_20_a_canonical_is_a_hint_beside_the_others() {
    kinds(
        "<link rel=canonical href='https://b.test/x'><a href=/y>",
        &[("canonical", "https://b.test/x"), ("link", "http://a.test/y")],
    );
    // A refresh to the page itself names nothing.
    kinds("<link rel=canonical href='http://a.test/dir/page#x'><a href=/y>", &[("link", "http://a.test/y")]);
}
