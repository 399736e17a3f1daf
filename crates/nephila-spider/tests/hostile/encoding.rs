//! Pages whose bytes, header field and meta element disagree about the charset: fetched, decided, and stored unchanged.
//!
//! Tests of the decision itself are in `nephila_core::handler::charset`; here the input comes from a connection.

use http::header::CONTENT_TYPE;
use nephila_core::handler::charset::{self, Decision, Decoded, Source};
use nephila_core::handler::sniff::{self, Kind};
use nephila_core::spider::Outcome;
use nephila_core::store::Truncation;
use nephila_core::text::{shown, shown_bytes};
use nephila_core::url::CrawlUrl;
use nephila_spider::Fetched;
use sha1::{Digest, Sha1};

use crate::support::{World, body};

const TEXT_BYTES_MAX: usize = 32 * 1024 * 1024;

struct Read {
    fetched: Fetched,
    bytes: Vec<u8>,
    decision: Decision,
    decoded: Decoded,
}

/// Fetches a page and reads its text. Checks that the stored bytes are the bytes received.
async fn read(world: &World, id: &str, path: &str) -> Read {
    let fetched = world.get(id, path).await;
    assert_eq!(fetched.outcome, Outcome::Fetched, "{id}{path}: {}", fetched.detail);
    let bytes = body(&fetched);
    let length = fetched.fields["content-length"].to_str().unwrap();
    assert_eq!(bytes.len().to_string(), length, "{id}{path}: every byte is stored");
    let decision = charset::decide(fetched.fields.get(CONTENT_TYPE).map(|value| value.as_bytes()), &bytes);
    let decoded = charset::decode(decision.encoding, &bytes, TEXT_BYTES_MAX);
    assert_eq!(
        Some(<[u8; 20]>::from(Sha1::digest(&bytes))),
        fetched.sha1,
        "{id}{path}: untouched by the reading"
    );
    Read { fetched, bytes, decision, decoded }
}

/// The links of a page, resolved as a browser would.
fn links(read: &Read, id: &str) -> Vec<String> {
    let base = CrawlUrl::parse(&format!("http://{id}.hostile.test/")).unwrap();
    let hrefs = read.decoded.text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    hrefs
        .map(|href| {
            base.join_with_encoding(href, read.decision.encoding).unwrap().path_and_query().to_owned()
        })
        .collect()
}

fn check(read: &Read, encoding: &str, source: Source) {
    assert_eq!((read.decision.encoding.name(), read.decision.source), (encoding, source));
}

#[tokio::test]
async fn enc_01_the_field_wins_over_the_meta_and_the_bytes_stay() {
    let world = World::start().await;
    let page = read(&world, "enc-01", "/").await;
    check(&page, "UTF-8", Source::Transport);
    assert!(page.decoded.replaced, "the field was false, and browsers believe it too");
    assert_eq!(links(&page, "enc-01"), ["/found"]);
    let russian = b"<title>\xcf\xf0\xe8\xe2\xe5\xf2 \xec\xe8\xf0</title>";
    assert!(page.bytes.windows(russian.len()).any(|window| window == russian), "raw bytes are stored");
    let page = read(&world, "enc-01", "/meta").await;
    check(&page, "windows-1251", Source::Page);
    assert!(page.decoded.text.contains("<title>Привет мир</title>") && !page.decoded.replaced);
}

#[tokio::test]
async fn enc_02_a_byte_order_mark_wins_and_links_are_found() {
    let world = World::start().await;
    for (path, encoding) in [("/le", "UTF-16LE"), ("/be", "UTF-16BE"), ("/utf8", "UTF-8")] {
        let page = read(&world, "enc-02", path).await;
        check(&page, encoding, Source::Bom);
        assert!(page.decoded.text.starts_with("<html>") && !page.decoded.replaced, "{path}");
        assert_eq!(links(&page, "enc-02"), ["/found/gr%C3%B6%C3%9Fe"], "{path}");
        let label = page.fetched.fields[CONTENT_TYPE].as_bytes();
        assert_eq!(sniff::sniff([label], &page.bytes).kind, Kind::Html, "{path}");
    }
}

#[tokio::test]
async fn enc_03_labels_that_mean_nothing_fall_back_to_the_bytes() {
    let world = World::start().await;
    for (path, source) in [
        ("/unknown", Source::Guess),
        ("/empty", Source::Guess),
        ("/none", Source::Guess),
        ("/long", Source::Guess),
        ("/single", Source::Guess),
        ("/quoted", Source::Transport),
        ("/utf8", Source::Transport),
    ] {
        let page = read(&world, "enc-03", path).await;
        assert_eq!((page.decision.encoding.name(), page.decision.source), ("UTF-8", source), "{path}");
        assert!(page.decoded.text.contains("<title>Größe ✓</title>"), "{path}");
        assert_eq!(links(&page, "enc-03"), ["/found/gr%C3%B6%C3%9Fe"], "{path}");
    }
}

#[tokio::test]
async fn enc_04_a_meta_behind_long_comments_is_found() {
    let world = World::start().await;
    for path in ["/", "/5000"] {
        let page = read(&world, "enc-04", path).await;
        check(&page, "windows-1251", Source::Page);
        assert!(page.decoded.text.contains("<title>Привет</title>"), "{path}");
        assert_eq!(links(&page, "enc-04"), ["/found?%E4%EE%EC"], "{path}");
    }
}

#[tokio::test]
async fn enc_05_only_the_standards_encodings_are_decoded() {
    let world = World::start().await;
    for path in ["/utf7", "/utf7meta"] {
        let page = read(&world, "enc-05", path).await;
        assert_eq!(page.decision.source, Source::Guess, "{path}: {:?}", page.decision);
        assert!(page.decoded.text.contains("+ADw-script+AD4-"), "{path}: UTF-7 stays what it is");
        assert!(!page.decoded.text.contains("<script"), "{path}");
        assert_eq!(links(&page, "enc-05"), ["/found"], "{path}");
    }
    let page = read(&world, "enc-05", "/hz").await;
    check(&page, "replacement", Source::Transport);
    assert_eq!(page.decoded.text, "\u{fffd}", "an encoding that was given up hides nothing any more");
    let page = read(&world, "enc-05", "/iso2022jp").await;
    check(&page, "ISO-2022-JP", Source::Transport);
    assert!(
        !page.decoded.text.contains("<script"),
        "bytes of two-byte characters are no tags: {}",
        page.decoded.text
    );
    assert_eq!(links(&page, "enc-05"), ["/found"]);
}

#[tokio::test]
async fn enc_06_invalid_bytes_in_one_link_leave_the_others_alone() {
    let world = World::start().await;
    let page = read(&world, "enc-06", "/").await;
    assert_eq!(links(&page, "enc-06"), ["/found/a%EF%BF%BD%EF%BF%BDb", "/found/after"]);
    let page = read(&world, "enc-06", "/many").await;
    let links = links(&page, "enc-06");
    assert_eq!(links.len(), 100);
    for (n, pair) in links.chunks(2).enumerate() {
        assert_eq!(pair, ["/found/%EF%BF%BD(%EF%BF%BD".to_owned(), format!("/found/{n}")]);
    }
}

#[tokio::test]
async fn enc_07_a_query_goes_out_in_the_pages_encoding_and_the_path_in_utf_8() {
    let world = World::start().await;
    let page = read(&world, "enc-07", "/").await;
    check(&page, "windows-1251", Source::Transport);
    let wanted = "/found/%D0%BF%D1%83%D1%82%D1%8C?%EF%EE%E8%F1%EA=%E4%EE%EC";
    assert_eq!(links(&page, "enc-07"), [wanted]);
    // The request goes to the server with that spelling.
    let fetched = world.get("enc-07", wanted).await;
    assert_eq!(fetched.outcome, Outcome::Fetched, "{}", fetched.detail);
    assert_eq!(world.web.requests("enc-07").last().unwrap().path, wanted);
}

#[tokio::test]
async fn enc_08_binary_called_a_page_is_found_early_and_stored_but_not_read() {
    let world = World::start().await;
    for (path, kind, bytes) in [("/jpeg", Kind::Image, 50_011), ("/zeros", Kind::Binary, 10 * 1024 * 1024)] {
        let fetched = world.get("enc-08", path).await;
        assert_eq!(
            (fetched.outcome, fetched.body_bytes),
            (Outcome::Fetched, bytes),
            "{path}: {}",
            fetched.detail
        );
        assert_eq!(fetched.fields[CONTENT_TYPE], "text/html", "{path}");
        let stored = body(&fetched);
        assert_eq!(stored.len() as u64, bytes, "{path}: stored whole");
        // The first kilobyte is enough, and the rest changes nothing.
        for part in [&stored[..1024], &stored[..]] {
            let sniffed = sniff::sniff([&b"text/html"[..]], part);
            assert_eq!(sniffed.kind, kind, "{path}");
            assert!(!sniffed.kind.is_text(), "{path}: no parser sees it");
        }
    }
}

#[tokio::test]
async fn enc_09_a_character_cut_by_the_size_limit_does_no_harm() {
    // Three limits in a row meet a three-byte character at each of its places.
    for limit in [10_000, 10_001, 10_002] {
        let world = World::start_with(|settings| settings.body_bytes_max = limit).await;
        let fetched = world.get("enc-09", "/20000").await;
        assert_eq!((fetched.outcome, fetched.truncated), (Outcome::CutLength, Some(Truncation::Length)));
        let bytes = body(&fetched);
        assert_eq!(bytes.len() as u64, limit);
        let decision = charset::decide(Some(fetched.fields[CONTENT_TYPE].as_bytes()), &bytes);
        let decoded = charset::decode(decision.encoding, &bytes, TEXT_BYTES_MAX);
        assert!(decoded.text.starts_with("<a href=\"/found\">"), "{limit}");
        let text = decoded.text.trim_end_matches('\u{fffd}');
        assert!(
            text.ends_with('€') && decoded.text.len() - text.len() <= 3,
            "{limit}: one mark for the half character"
        );
    }
}

#[tokio::test]
async fn enc_09_a_page_that_ends_inside_a_character_is_read() {
    let world = World::start().await;
    for length in [1_000, 1_001, 1_002] {
        let page = read(&world, "enc-09", &format!("/{length}")).await;
        assert_eq!(page.bytes.len(), length);
        assert!(page.decoded.replaced && page.decoded.text.ends_with("€\u{fffd}"), "{length}");
    }
}

#[tokio::test]
async fn enc_10_titles_and_urls_that_mislead_are_shown_with_visible_marks() {
    let world = World::start().await;
    for (path, title, link) in [
        ("/surrogates", "a\\xed\\xa0\\x80b&#xD800;c", "/found/%EF%BF%BD%EF%BF%BD%EF%BF%BD"),
        ("/private", "\\u{e000}\\u{f8ff}\\u{10ffff}", "/found/%EE%80%80"),
        ("/rtl", "invoice\\u{202e}gpj.exe\\u{200b}", "/found/%E2%80%AElmth.a"),
    ] {
        let page = read(&world, "enc-10", path).await;
        let start = b"<title>".len();
        let end = page.bytes.windows(8).position(|window| window == b"</title>").unwrap();
        assert_eq!(shown_bytes(&page.bytes[start..end]).to_string(), title, "{path}");
        let found = links(&page, "enc-10");
        assert_eq!(found, [link], "{path}");
        assert_eq!(shown(&found[0]).to_string(), link, "{path}: a URL has nothing left to hide");
    }
}
