//! robots.txt: any file gives a verdict on any path, line ends and comments change nothing, and lists keep their limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::robots::{Group, NOTES_MAX, Robots, SITEMAPS_MAX};

const AGENT: &str = "Nephila";

fuzz_target!(|data: &[u8]| {
    // The first line is a path, the rest is the file.
    let at = data.iter().position(|b| *b == b'\n').unwrap_or(data.len());
    let path = format!("/{}", String::from_utf8_lossy(&data[..at]));
    let file = data.get(at + 1..).unwrap_or_default();

    let robots = Robots::parse(file, AGENT);
    let verdict = robots.verdict(&path);
    assert!(robots.verdict("/robots.txt").allowed, "robots.txt itself is always allowed");
    assert!(robots.sitemaps().len() <= SITEMAPS_MAX && robots.notes().len() <= NOTES_MAX);
    if robots.group() == Group::None || robots.rule_count() == 0 {
        assert!(verdict.allowed, "nobody forbids it");
    }
    if !verdict.allowed {
        let (line, _) = verdict.rule.expect("who forbids is named");
        assert!(line >= 1 && line <= file.len() + 1);
    }
    // A version behind our name, another case, a fragment: all the same to the file.
    assert_eq!(Robots::parse(file, "nephila/1.0").verdict(&path), verdict);
    assert_eq!(robots.verdict(&format!("{}#x", path.split('#').next().unwrap_or_default())), verdict);

    nephila_fuzz::linear(file, |file| _ = Robots::parse(file, AGENT).verdict(&path));

    // Byte order marks speak about the whole file, so these two are for ASCII alone.
    if !file.is_ascii() {
        return;
    }
    let moved = Robots::parse(&[b"# moved\n", file].concat(), AGENT);
    assert_eq!(moved.verdict(&path).allowed, verdict.allowed, "a comment changes the verdict");
    assert_eq!(moved.rule_count(), robots.rule_count(), "a comment changes the rules");
    if robots.group() == Group::None {
        let closed = Robots::parse(&[file, b"\nUser-agent: nephila\nDisallow: /\n"].concat(), AGENT);
        let is_robots = path.split(['?', '#']).next() == Some("/robots.txt");
        assert!(is_robots || !closed.verdict(&path).allowed, "a closed site is open");
    }
});
