//! The seed's steps in the listed order, on lists of plain lines: sort, group, join, filter. 24 virtual hours of random
//! batches, delivered late, in another order and again, must send the same URLs at the same batches with the same hits.

// The figures are worth seeing.
#![allow(clippy::disallowed_macros)]

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::chance::Chance;

/// One line: URL, time, hits, tag.
type Line = (String, u64, u64, String);

/// The seed's data about a URL in `current_log`.
#[derive(Clone)]
struct Current {
    time: u64,
    tag: String,
}

/// The data that is kept up to ten hours: the last batch time, the last tag, the hits that were not sent.
#[derive(Clone)]
struct Kept {
    named: u64,
    tag: String,
    hits: u64,
}

#[derive(Default)]
struct Pipeline {
    current: BTreeMap<String, Current>,
    kept: BTreeMap<String, Kept>,
    batches: BTreeSet<String>,
}

impl Pipeline {
    fn run(&mut self, id: &str, lines: &[Line], now: u64) -> BTreeMap<String, u64> {
        if !self.batches.insert(id.to_owned()) {
            return BTreeMap::new();
        }
        // (1) sort by URL and time, (2) group.
        let mut lines: Vec<Line> = lines.to_vec();
        lines.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        let mut incoming: BTreeMap<String, (u64, u64, String)> = BTreeMap::new();
        for (url, time, hits, tag) in lines {
            let group = incoming.entry(url).or_insert((time, 0, String::new()));
            group.0 = time;
            group.1 += hits;
            if !tag.is_empty() {
                group.2 = tag;
            }
        }
        // The ten-hour memory.
        self.kept.retain(|_, kept| now - kept.named <= 10 * 60 * MINUTE);
        // (3) join, (4) filter.
        let urls: BTreeSet<String> = incoming.keys().chain(self.current.keys()).cloned().collect();
        let (mut current, mut filtered) = (BTreeMap::new(), BTreeMap::new());
        for url in urls {
            match (self.current.get(&url), incoming.get(&url)) {
                (None, Some((time, _, tag))) => {
                    // The kept data may have a tag that this batch does not have.
                    let known = self.kept.get(&url).map(|kept| kept.tag.clone()).unwrap_or_default();
                    let tag = if tag.is_empty() { known } else { tag.clone() };
                    current.insert(url.clone(), Current { time: *time, tag });
                    filtered.insert(url.clone(), 0);
                }
                (Some(old), None) => {
                    // Signed, as its time may lie ahead of the clock.
                    if now as i64 - old.time as i64 <= 60 * MINUTE as i64 {
                        current.insert(url.clone(), old.clone());
                    }
                }
                (Some(old), Some((time, _, tag))) => {
                    let later = *time as i64 - old.time as i64;
                    let changed = !tag.is_empty() && *tag != old.tag;
                    if later > 60 * MINUTE as i64 || changed {
                        let tag = if tag.is_empty() { old.tag.clone() } else { tag.clone() };
                        current.insert(url.clone(), Current { time: *time, tag });
                        filtered.insert(url.clone(), 0);
                    } else {
                        current.insert(url.clone(), old.clone());
                    }
                }
                (None, None) => unreachable!(),
            }
        }
        // Hits: those of the batch and those that waited.
        for (url, (_, hits, tag)) in incoming {
            let kept =
                self.kept.entry(url.clone()).or_insert(Kept { named: now, tag: String::new(), hits: 0 });
            kept.named = now;
            kept.hits += hits;
            if !tag.is_empty() {
                kept.tag = tag;
            }
            if let Some(sent) = filtered.get_mut(&url) {
                *sent = std::mem::take(&mut kept.hits);
            }
        }
        self.current = current;
        filtered
    }
}

/// A batch of random lines: some URLs come all the time, most now and then.
fn batch(chance: &mut Chance, now: u64, lines: u64) -> Vec<Line> {
    (0..lines)
        .map(|_| {
            let url = if chance.below(3) == 0 { chance.below(5) } else { chance.below(400) };
            let late = if chance.below(10) == 0 { chance.below(180) } else { chance.below(5) };
            let tag = ["", "", "1", "1", "1", "2"][chance.below(6) as usize].to_owned();
            // The format has whole seconds.
            let time = (now - late * MINUTE) / 1_000 * 1_000;
            (format!("http://u{url}.test/"), time, chance.below(9), tag)
        })
        .collect()
}

fn as_text(id: &str, lines: &[Line]) -> String {
    let mut text = String::from("<unknown field>\n");
    for (url, time, hits, tag) in lines {
        text.push_str(&format!("{id}\t5\t{}\t77\t{url}\t{hits}\t{tag}\n", Timestamp(*time).digits14()));
    }
    text
}

fn check(seed: u64) -> (u64, u64) {
    let mut chance = Chance(seed);
    let mut deliveries = Vec::new();
    let mut now = NOON;
    let mut number = 0;
    while now < NOON + 24 * 60 * MINUTE {
        let id = format!("2026{seed:04}{number:08}");
        let count = 1 + chance.below(120);
        let lines = batch(&mut chance, now, count);
        // One in five comes again, up to nine hours later; one in five comes late, so that others overtake it.
        let late = if chance.below(5) == 0 { chance.below(90) * MINUTE } else { 0 };
        deliveries.push((now + late, id.clone(), lines.clone()));
        if chance.below(5) == 0 {
            deliveries.push((now + late + chance.below(540) * MINUTE, id, lines));
        }
        number += 1;
        now += (1 + chance.below(20)) * MINUTE;
    }
    deliveries.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let (mut plain, mut batches, mut window) = (Pipeline::default(), Batches::default(), Window::default());
    let (mut total, mut sends) = (0, 0);
    for (at, id, lines) in deliveries {
        let want = plain.run(&id, &lines, at);
        let key = BatchKey::of(&id, 0, lines.len() as u32);
        let mut got = BTreeMap::new();
        if let Some(batch) = batches.check(key, Timestamp(at)) {
            let reading = reflog::read(as_text(&id, &lines).as_bytes());
            assert_eq!((reading.entries.len(), reading.bad["fields"]), (lines.len(), 1));
            let sent = window.handle_batch(&batch, group(reading.entries));
            got.extend(sent.into_iter().map(|line| (line.url.as_str().to_owned(), line.hits)));
            batches.fold(key, &batch);
            total += lines.len() as u64;
        }
        assert_eq!(got, want, "seed {seed}, batch {id} at {at}");
        sends += want.len() as u64;
        if chance.below(10) == 0 {
            window.forget(Timestamp(at));
        }
    }
    (total, sends)
}

#[test]
fn ours_sends_what_the_seeds_pipeline_sends() {
    let (mut lines, mut sends) = (0, 0);
    for seed in 0..6 {
        let (l, s) = check(seed);
        lines += l;
        sends += s;
    }
    assert!(lines > 30_000 && sends > 3_000 && sends < lines, "{lines} lines, {sends} sent");
    println!("{lines} lines, {sends} sent");
}
