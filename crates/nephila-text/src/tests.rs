//! Whole pages: what is found on them, and that no page is costly.

#[path = "tests/hostile.rs"]
mod hostile;

use std::time::Instant;

use hostile::hostile;

use super::*;

const STORY: &str = include_str!("tests/story.html");
const THREAD: &str = include_str!("tests/thread.html");

fn check(html: &str, url: &str, kind: PageKind, wanted: &[&str], unwanted: &[&str]) -> Extracted {
    let found = extract(html, url);
    assert_eq!(found.kind, kind, "{}", found.text);
    for part in wanted {
        assert!(found.text.contains(part), "missing {part:?} in {}", found.text);
    }
    for part in unwanted {
        assert!(!found.text.contains(part), "unwanted {part:?} in {}", found.text);
    }
    found
}

#[test]
fn the_text_of_a_story_is_found_without_what_stands_around_it() {
    let found = check(
        STORY,
        "https://news.test/2026/11/14/harbour-bridge-is-open",
        PageKind::Article,
        &["After eleven months of repairs", "the last crane was taken away"],
        &["Subscribe to our newsletter", "Cookie settings", "Weather today"],
    );
    assert_eq!(found.title, "The harbour bridge is open again");
    assert_eq!(found.author, "Ida Sand");
    assert_eq!(found.language, "en");
    assert!(found.published.starts_with("2026-11-14T09:30:00"), "{}", found.published);
}

#[test]
fn all_posts_of_a_thread_are_found() {
    check(
        THREAD,
        "https://boats.test/viewtopic.php?t=7",
        PageKind::Forum,
        &["two planks of an old rowing boat", "cures with the moisture", "Resorcinol is ugly"],
        &["Register", "Delete all board cookies"],
    );
}

#[test]
fn a_page_without_text_has_none() {
    for html in ["", "<html><body></body></html>", "<script>let words = 'many words here'</script>", "\0"] {
        assert_eq!(extract(html, "").text, "", "{html:?}");
    }
}

#[test]
fn the_same_page_has_the_same_text() {
    assert_eq!(extract(STORY, ""), extract(STORY, ""));
}

#[test]
fn broken_bytes_and_addresses_do_no_harm() {
    for url in ["", "://", "http://", "?#", "http://h/%%%/\u{1f980}?a=b", &"/".repeat(10_000)] {
        extract(STORY, url);
    }
    // Every page that is cut off is a page.
    for end in (0..THREAD.len()).step_by(97) {
        extract(cut(THREAD, end), "https://boats.test/");
    }
}

#[test]
fn hostile_pages_are_read_soon_and_without_a_deep_stack() {
    for (name, html) in hostile(1 << 18) {
        let began = Instant::now();
        let thread = std::thread::Builder::new().stack_size(1 << 20);
        thread.spawn(move || extract(&html, "https://hostile.test/")).unwrap().join().unwrap();
        // An optimised build needs less than a second, or two where the clock stops it; this is for a loaded machine.
        assert!(began.elapsed().as_secs() < 60, "{name}: {:?}", began.elapsed());
    }
}
