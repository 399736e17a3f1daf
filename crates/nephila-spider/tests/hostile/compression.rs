//! Decompression bombs and broken content codings: decoded within limits, kept as sent, with a note of the fault.
//!
//! CMP-14, damage in our own files, is in `crates/nephila-store/tests/damaged.rs`.

use std::process::Command;

use http::header::{HeaderValue, IF_NONE_MATCH};
use nephila_core::handler::sniff::{self, Kind};
use nephila_core::spider::{Action, Outcome};
use nephila_core::store::Truncation;
use nephila_spider::decode::{Note, unpack};
use nephila_spider::{Fetched, Keep, Request};

use crate::support::{World, body, decoded, request, text};

/// The ordinary page that most cases serve, decoded.
const PAGE_BYTES: u64 = 1220;

fn assert_page(fetched: &Fetched, note: Note, what: &str) {
    assert_eq!((fetched.outcome, fetched.truncated), (Outcome::Fetched, None), "{what}: {}", fetched.detail);
    assert_eq!((fetched.decoding, fetched.decoded_bytes), (Some(note), PAGE_BYTES), "{what}");
    let page = text(fetched);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{what}: {page:.100}");
}

/// Checks that the bomb stopped at the limit, and that the kept bytes are the sent bytes.
fn assert_bomb(world: &World, fetched: &Fetched, what: &str) {
    assert_eq!(fetched.outcome, Outcome::DecodeLimit, "{what}: {}", fetched.detail);
    assert_eq!(fetched.outcome.action(), Action::KeepUnread, "{what}");
    assert_eq!(
        (fetched.decoding, fetched.decoded_bytes),
        (Some(Note::Limit), world.settings.decoded_bytes_max),
        "{what}"
    );
    let exchange = fetched.exchange.as_ref().expect("kept as sent");
    assert_eq!(exchange.body.len(), fetched.body_bytes, "{what}");
    assert!(fetched.body_bytes <= world.settings.body_bytes_max, "{what}");
    assert_eq!(exchange.notes.get("outcome"), Some("decode-limit"), "{what}: {:?}", exchange.notes);
}

#[tokio::test]
async fn cmp_01_a_gzip_bomb_stops_at_the_decoded_limit() {
    let world = World::start().await;
    assert_eq!(world.settings.decoded_bytes_max, 10 * 1024 * 1024);
    let fetched = world.get("cmp-01", "/").await;
    assert_bomb(&world, &fetched, "/");
    assert!((900_000..1_200_000).contains(&fetched.body_bytes), "{}", fetched.body_bytes);
    assert!(body(&fetched).starts_with(&[0x1f, 0x8b]));
    let fetched = world.get("cmp-01", "/endless").await;
    assert_bomb(&world, &fetched, "/endless");
    assert_eq!(fetched.truncated, Some(Truncation::Length));
}

/// Memory is measured in a child process, started by this test: see [`child_decodes_bombs`].
#[test]
fn cmp_01_bombs_are_decoded_in_constant_memory() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "compression::child_decodes_bombs", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{said}\n{}", String::from_utf8_lossy(&child.stderr));
    let grown: u64 =
        said.split("grown by ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
    // Three bombs of 1 GB each: a brotli window of 16 MB, the bodies as sent, buffers. Kept decoded bytes are none.
    assert!(grown < 96 * 1024, "grown by {grown} kB");
}

#[tokio::test]
#[ignore = "run by cmp_01_bombs_are_decoded_in_constant_memory, in a process of its own"]
async fn child_decodes_bombs() {
    let world = World::start().await;
    let before = memory_peak();
    for (id, path) in [("cmp-01", "/"), ("cmp-02", "/"), ("cmp-03", "/1g")] {
        let keep = Keep { exchange: true, decoded: false, sha1: true };
        let fetched = world.ask(Request { keep, ..request(&world.web.url(id, path)) }).await;
        assert_bomb(&world, &fetched, id);
    }
    println!("grown by {} kB", memory_peak() - before);
}

/// Peak memory of this process, in kB.
fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn cmp_02_a_brotli_bomb_stops_inside_one_chunk() {
    let world = World::start().await;
    let fetched = world.get("cmp-02", "/").await;
    assert_bomb(&world, &fetched, "/");
    assert!(fetched.body_bytes < 1_000, "all of it came in one chunk of {} bytes", fetched.body_bytes);
}

#[tokio::test]
async fn cmp_02_an_endless_brotli_bomb_stops_as_well() {
    let world = World::start_with(|settings| settings.body_bytes_max = 100_000).await;
    let fetched = world.get("cmp-02", "/endless").await;
    assert_bomb(&world, &fetched, "/endless");
    assert_eq!((fetched.body_bytes, fetched.truncated), (100_000, Some(Truncation::Length)));
}

#[tokio::test]
async fn cmp_03_a_zstd_window_over_8_mb_is_refused() {
    let world = World::start().await;
    let fetched = world.get("cmp-03", "/window").await;
    assert_eq!(fetched.outcome, Outcome::DecodeLimit, "{}", fetched.detail);
    assert_eq!((fetched.decoding, fetched.decoded_bytes), (Some(Note::Window), 0));
    assert!(fetched.detail.contains("window"), "{}", fetched.detail);
    assert_eq!(body(&fetched).len() as u64, fetched.body_bytes, "kept as sent");
}

#[tokio::test]
async fn cmp_03_zstd_bombs_stop_at_the_decoded_limit() {
    let world = World::start().await;
    for path in ["/1g", "/terabytes"] {
        let fetched = world.get("cmp-03", path).await;
        assert_bomb(&world, &fetched, path);
    }
}

#[tokio::test]
async fn cmp_04_more_than_two_layers_are_not_undone_however_they_are_named() {
    let world = World::start().await;
    for path in ["/layers", "/lines", "/lie"] {
        let fetched = world.get("cmp-04", path).await;
        assert_eq!(fetched.outcome, Outcome::DecodeChain, "{path}: {}", fetched.detail);
        assert_eq!(fetched.outcome.action(), Action::KeepUnread);
        assert!(fetched.decoded.is_none(), "{path}: nothing is given to a reader");
        assert_eq!(body(&fetched).len() as u64, fetched.body_bytes, "{path}: kept as sent");
    }
    let fetched = world.get("cmp-04", "/two").await;
    assert_page(&fetched, Note::Whole, "two layers");
}

#[tokio::test]
async fn cmp_05_the_first_part_of_a_cut_stream_is_given_and_the_record_marked() {
    let world = World::start().await;
    for path in ["/", "/br", "/zstd"] {
        let fetched = world.get("cmp-05", path).await;
        assert_eq!(
            (fetched.outcome, fetched.decoding),
            (Outcome::Fetched, Some(Note::Cut)),
            "{path}: {}",
            fetched.detail
        );
        let page = text(&fetched);
        assert!(!page.contains("/end"), "{path}");
        // zstd outputs whole blocks only, and this page fits one.
        assert!(page.contains("<a href=\"/start\">") || path == "/zstd", "{path}: {page:.60}");
        let exchange = fetched.exchange.as_ref().unwrap();
        assert_eq!(
            (fetched.truncated, exchange.truncated),
            (Some(Truncation::Disconnect), Some(Truncation::Disconnect)),
            "{path}"
        );
        assert_eq!(exchange.notes.get("decoding"), Some("cut"), "{path}: {:?}", exchange.notes);
    }
}

#[tokio::test]
async fn cmp_06_faults_at_the_end_of_gzip_lose_nothing_and_are_noted() {
    let world = World::start().await;
    for path in ["/garbage", "/crc", "/length", "/zeros"] {
        let fetched = world.get("cmp-06", path).await;
        assert_page(&fetched, Note::Damaged, path);
        let notes = &fetched.exchange.as_ref().unwrap().notes;
        assert_eq!(notes.get("decoding"), Some("damaged"), "{path}: {notes:?}");
    }
}

#[tokio::test]
async fn cmp_07_a_plain_body_that_claims_to_be_coded_is_used_as_it_is() {
    let world = World::start().await;
    for path in ["/", "/br"] {
        let fetched = world.get("cmp-07", path).await;
        assert_page(&fetched, Note::Plain, path);
        assert_eq!(fetched.body_bytes, PAGE_BYTES, "{path}");
    }
}

#[tokio::test]
async fn cmp_08_an_empty_body_is_an_empty_page() {
    let world = World::start().await;
    for (path, status) in [("/", 200), ("/204", 204)] {
        let fetched = world.get("cmp-08", path).await;
        assert_eq!(
            (fetched.outcome, fetched.status),
            (Outcome::Fetched, Some(status)),
            "{path}: {}",
            fetched.detail
        );
        assert_eq!(
            (text(&fetched).as_str(), fetched.truncated, fetched.detail.as_str()),
            ("", None, ""),
            "{path}"
        );
    }
    let url = world.web.url("cmp-08", "/");
    let fetched = world.ask(Request { head_only: true, ..request(&url) }).await;
    assert_eq!(
        (fetched.outcome, fetched.body_bytes, fetched.truncated),
        (Outcome::Fetched, 0, None),
        "{}",
        fetched.detail
    );
    let mut conditional = request(&world.web.url("cmp-08", "/304"));
    conditional.fields.push((IF_NONE_MATCH, HeaderValue::from_static("\"e\"")));
    let fetched = world.ask(conditional).await;
    assert_eq!(
        (fetched.outcome, fetched.body_bytes, fetched.truncated),
        (Outcome::NotModified, 0, None),
        "{}",
        fetched.detail
    );
}

#[tokio::test]
async fn cmp_09_all_members_are_decoded() {
    let world = World::start().await;
    assert_page(&world.get("cmp-09", "/").await, Note::Whole, "three members");
    let fetched = world.get("cmp-09", "/many").await;
    assert_eq!((text(&fetched), fetched.decoding), ("m".repeat(5_000), Some(Note::Whole)));
}

#[tokio::test]
async fn cmp_10_deflate_is_zlib_or_raw() {
    let world = World::start().await;
    for path in ["/raw", "/zlib"] {
        assert_page(&world.get("cmp-10", path).await, Note::Whole, path);
    }
}

#[tokio::test]
async fn cmp_11_old_names_are_known_and_nonsense_is_ignored_with_a_note() {
    let world = World::start().await;
    for path in ["/xgzip", "/case"] {
        assert_page(&world.get("cmp-11", path).await, Note::Whole, path);
    }
    for path in ["/utf8", "/none", "/unknown"] {
        let fetched = world.get("cmp-11", path).await;
        assert_page(&fetched, Note::Unknown, path);
        let notes = &fetched.exchange.as_ref().unwrap().notes;
        assert_eq!(notes.get("decoding"), Some("unknown"), "{path}: {notes:?}");
    }
}

#[tokio::test]
async fn cmp_12_a_coding_we_did_not_ask_for_is_undone_if_we_can() {
    let world = World::start_with(|settings| settings.accept_encoding = "gzip".into()).await;
    for path in ["/", "/zstd"] {
        let fetched = world.get("cmp-12", path).await;
        assert_page(&fetched, Note::Whole, path);
        let asked = String::from_utf8(fetched.exchange.as_ref().unwrap().request_head.to_vec()).unwrap();
        assert!(asked.contains("\r\nAccept-Encoding: gzip\r\n"), "{asked}");
    }
}

#[tokio::test]
async fn cmp_13_a_packed_sitemap_is_undone_once_for_the_wire_and_once_for_the_file() {
    let world = World::start().await;
    let fetched = world.get("cmp-13", "/sitemap.xml.gz").await;
    assert_eq!(
        (fetched.outcome, fetched.decoding),
        (Outcome::Fetched, Some(Note::Whole)),
        "{}",
        fetched.detail
    );
    let file = &decoded(&fetched)[..];
    assert_eq!(
        sniff::sniff([&b"application/x-gzip"[..]], file).kind,
        Kind::Archive,
        "the coding alone gives the file"
    );
    let (sitemap, note) = unpack(file, world.settings.decoded_bytes_max).expect("it is gzip by itself");
    assert_eq!((sniff::sniff([], &sitemap).kind, note), (Kind::Sitemap, Note::Whole));
    assert!(String::from_utf8(sitemap).unwrap().contains("<loc>http://cmp-13.hostile.test/found</loc>"));
    // Both are limited.
    assert_eq!(unpack(file, 50).map(|(part, note)| (part.len(), note)), Some((50, Note::Limit)));
    let small = World::start_with(|settings| settings.decoded_bytes_max = 50).await;
    let fetched = small.get("cmp-13", "/sitemap.xml.gz").await;
    assert_eq!((fetched.outcome, fetched.decoded_bytes), (Outcome::DecodeLimit, 50));
}

#[tokio::test]
async fn cmp_13_a_tgz_page_is_a_file_and_never_read_as_a_page() {
    let world = World::start().await;
    let fetched = world.get("cmp-13", "/page.tgz").await;
    assert_eq!((fetched.outcome, fetched.decoding), (Outcome::Fetched, None), "{}", fetched.detail);
    let file = &decoded(&fetched)[..];
    assert_eq!(&body(&fetched)[..], file, "stored and given as it came");
    assert!(!sniff::sniff([&b"application/gzip"[..]], file).kind.is_text());
    let (inside, note) = unpack(file, world.settings.decoded_bytes_max).unwrap();
    assert_eq!((inside.len(), note), (10_240, Note::Whole));
    assert_eq!(sniff::sniff([], &inside).kind, Kind::Binary);
}
