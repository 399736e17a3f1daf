//! Robots directives in pages and header fields, links in the head.

use super::*;
use crate::handler::sniff::Kind;

#[test]
fn links_in_the_head_are_found_whatever_the_body_is() {
    let answer = Answer::html("%PDF-1.7 x")
        .field("content-type", "application/pdf")
        .field("link", "</c>; rel=\"canonical\", <2>; rel=next")
        .field("link", "</f>; rel=alternate; type=application/atom+xml, <x.css>; rel=preload");
    assert_eq!(answer.read().kind, Kind::Pdf);
    let urls = |name: &str| format!("http://a.test/{name}");
    assert_eq!(
        answer.kinds(),
        [
            ("canonical", urls("c")),
            ("header-link", urls("dir/2")),
            ("feed", urls("f")),
            ("requisite", urls("dir/x.css")),
        ]
    );
}

#[test]
fn the_head_knows_nothing_of_a_base() {
    let answer = Answer::html("<base href=/b/><a href=x>").field("link", "<x>; rel=next");
    assert_eq!(answer.links(), ["http://a.test/dir/x", "http://a.test/b/x"]);
}

#[test]
fn links_from_other_pages_and_unknown_ones_are_left_out() {
    let answer = Answer::html("")
        .field("link", "</a>; rel=next; anchor=\"/other\", </b>; rel=\"https://api.w.org/\", </c>")
        .field("link", "</d>; rel=preconnect");
    assert!(answer.read().links.is_empty());
}

#[test]
fn statements_about_use_come_from_head_and_page() {
    let robots = Answer::html("<meta name=tdm-reservation content=1><meta name=robots content=noai>")
        .field("content-usage", "train-ai=n")
        .read()
        .page_robots;
    let usage: Vec<String> = robots.usage.iter().map(|(a, b)| format!("{a}: {b}")).collect();
    assert_eq!(usage, ["content-usage: train-ai=n", "tdm-reservation: 1", "robots: noai"]);
}

// Style sheets are read, as `css` does.
#[test]
fn other_bodies_are_left_alone() {
    for (label, body) in [
        ("application/json", "{\"a\":\"<a href=/x>\"}"),
        ("text/plain", "<a href=/x>"),
        ("application/javascript", "'<a href=/x>'"),
        ("image/svg+xml", "<svg/>"),
    ] {
        assert!(Answer::html(body).field("content-type", label).read().links.is_empty(), "{label}");
    }
}
