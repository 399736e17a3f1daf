//! How fast pages are read: `read_page` beside `lol_html`, which only finds the same elements, on three generated pages.
//!
//!     cargo run --release -p nephila-core --example page_speed
//!
//! The ratio compares a whole page with its links, resolved and each one once, with the mere tags of a rewriting parser.

// An example is a program: it has a clock and an output.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue};
use lol_html::html_content::Element;
use lol_html::{ElementContentHandlers, HtmlRewriter, Selector, Settings};
use nephila_core::handler::{Limits, Page, ReadAs, read_page};
use nephila_core::url::{CrawlUrl, KeyRules};

/// The size of a page.
const PAGE_BYTES: usize = 100 * 1024;

/// Rounds whose median counts.
const ROUNDS: usize = 15;

/// A round lasts at least so long.
const ROUND_TIME: Duration = Duration::from_millis(60);

fn main() {
    let url = CrawlUrl::parse("https://www.example.com/news/2026/index.html").expect("it is a URL");
    let keys = KeyRules::default();
    let limits = Limits::default();
    let mut fields = HeaderMap::new();
    fields.insert("content-type", HeaderValue::from_static("text/html; charset=utf-8"));

    println!(
        "{:<14} {:>6} {:>12} {:>12} {:>7} {:>12}",
        "page", "links", "lol MB/s", "ours MB/s", "ratio", "ns per link"
    );
    for (name, html) in
        [("text-heavy", text_heavy()), ("link-heavy", link_heavy()), ("script-heavy", script_heavy())]
    {
        let page = Page {
            url: &url,
            fields: &fields,
            body: html.as_bytes(),
            read_as: ReadAs::Page,
            agent: "nephila",
            keys: &keys,
        };
        let links = read_page(&page, &limits).counts.seen;
        let bare = median(|| {
            black_box(parse_only(html.as_bytes()));
        });
        let ours = median(|| {
            black_box(read_page(&page, &limits));
        });
        let speed = |time: Duration| html.len() as f64 / time.as_secs_f64() / 1e6;
        let per_link = ours.as_nanos() as f64 / links as f64;
        println!(
            "{name:<14} {links:>6} {:>12.0} {:>12.0} {:>7.2} {per_link:>12.0}",
            speed(bare),
            speed(ours),
            ours.as_secs_f64() / bare.as_secs_f64(),
        );
    }
}

/// `lol_html` alone: it finds the same elements and hands out the attributes that hold references.
fn parse_only(html: &[u8]) -> usize {
    let mut seen = 0;
    let names = "a,area,base,body,link,meta,img,image,source,iframe,frame,video,audio,track,embed,object,script,form,\
                 input,use,template";
    let elements: Selector = names.parse().expect("a list of names is a selector");
    let texts: Selector = "title,noscript,noframes".parse().expect("a list of names is a selector");
    let handlers = ElementContentHandlers::default().element(|element: &mut Element<'_, '_>| {
        for name in ["href", "src", "rel"] {
            seen += element.get_attribute(name).map_or(0, |value| value.len());
        }
        Ok(())
    });
    let text = ElementContentHandlers::default().text(|_: &mut lol_html::html_content::TextChunk<'_>| Ok(()));
    let settings = Settings::new()
        .append_element_content_handler((std::borrow::Cow::Borrowed(&elements), handlers))
        .append_element_content_handler((std::borrow::Cow::Borrowed(&texts), text))
        .with_strict(false);
    let mut parser = HtmlRewriter::new(settings, |_: &[u8]| {});
    parser.write(html).expect("there is no limit");
    parser.end().expect("there is no limit");
    seen
}

/// The median time of one call.
fn median(mut call: impl FnMut()) -> Duration {
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let (begun, mut calls) = (Instant::now(), 0);
            while begun.elapsed() < ROUND_TIME {
                call();
                calls += 1;
            }
            begun.elapsed() / calls
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2]
}

fn page(mut part: impl FnMut(usize, &mut String)) -> String {
    let mut html = "<!doctype html><html><head><title>A page</title><meta charset=utf-8>\
                    <link rel=canonical href=/news/><link rel=stylesheet href=/s.css></head><body>"
        .to_owned();
    let mut number = 0;
    while html.len() < PAGE_BYTES {
        part(number, &mut html);
        number += 1;
    }
    html + "</body></html>"
}

fn text_heavy() -> String {
    page(|i, html| {
        let words =
            "The weaver sits where two paths cross and waits for whatever the wind may bring. ".repeat(12);
        html.push_str(&format!(
            "<h2>Part {i}</h2><p class=\"text\">{words}<a href=\"/part/{i}.html\">more</a></p>"
        ));
    })
}

fn link_heavy() -> String {
    page(|i, html| {
        // Every third is written twice, as pictures and headlines do.
        let number = i - i % 3 / 2;
        html.push_str(&format!(
            "<li class=\"item\"><a href=\"/section/{}/story-{number}.html?page={}&amp;ref=list\">Story {number}</a></li>\n",
            number % 17,
            number % 5
        ));
    })
}

fn script_heavy() -> String {
    page(|i, html| {
        let code = "function f(a,b){if(a<b){return \"<a href='/no'>\"+a}else{return b*2}}\n".repeat(40);
        html.push_str(&format!("<script>{code}</script><a href=\"/s/{i}\">x</a>"));
    })
}
