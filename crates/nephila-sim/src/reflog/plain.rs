//! The seed's pipeline in its original steps, on plain sorted lists: sort, group, join, filter. The pipeline uses
//! nothing of the core, parses lines on its own, and gets the time as an argument.
//!
//! Points that the seed leaves open are decided as in the core's `reflog`: exactly an hour is not more than one, an
//! empty tag says nothing, hits that were not sent wait for ten hours, a part of a batch counts once, and the clock
//! never runs backwards.

use std::collections::BTreeSet;

/// An hour, in milliseconds.
const HOUR: u64 = 3_600_000;

/// A line, with the fields that the pipeline needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    pub(super) id: u64,
    time: u64,
    hits: u64,
    tag: String,
}

/// The lines of a text.
#[derive(Debug, Default)]
pub(super) struct Reading<'a> {
    /// Each line and its URL.
    pub(super) lines: Vec<(Line, &'a str)>,
    pub(super) unreadable: u64,
}

/// Reads lines: seven fields between tabs, of which the last two may be missing.
pub(super) fn read(text: &str) -> Reading<'_> {
    let mut reading = Reading::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match fields(line) {
            Some(read) => reading.lines.push(read),
            None => reading.unreadable += 1,
        }
    }
    reading
}

fn fields(line: &str) -> Option<(Line, &str)> {
    let mut fields = line.split('\t').map(str::trim);
    let (_batch, _priority) = (fields.next()?, fields.next()?);
    let time = time(fields.next()?)?;
    let (_page, url) = (fields.next()?, fields.next()?);
    let hits = fields.next().map_or(Some(1), |hits| hits.parse().ok())?;
    let tag = fields.next().unwrap_or_default().to_owned();
    Some((Line { id: id(url), time, hits, tag }, url))
}

/// The id of a URL: a hash of its text (FNV-1a).
pub(super) fn id(url: &str) -> u64 {
    url.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Milliseconds since 1970 of `YYYYMMDDhhmmss`.
fn time(text: &str) -> Option<u64> {
    if text.len() != 14 {
        return None;
    }
    let part = |from: usize, to: usize| text[from..to].parse::<u64>().ok();
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut days: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    for before in 1..month {
        days += match before {
            2 => 28 + u64::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
    }
    Some((((days + day - 1) * 24 + hour) * 60 + minute) * 60_000 + second * 1_000)
}

/// A URL of `current_log`: URLs sent within the last hour.
#[derive(Clone, Debug)]
struct Current {
    id: u64,
    time: u64,
    tag: String,
}

/// A record that is kept for ten hours.
#[derive(Clone, Debug)]
struct Kept {
    id: u64,
    named: u64,
    tag: String,
    hits: u64,
}

/// The decision on a URL of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) id: u64,
    /// Its hits, if the URL was sent.
    pub(super) sent: Option<u64>,
    /// The time of the line that was sent last.
    pub(super) time: u64,
    /// Hits that wait.
    pub(super) waiting: u64,
    /// Its last tag.
    pub(super) tag: String,
}

/// The files of one master.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    current: Vec<Current>,
    kept: Vec<Kept>,
    batches: BTreeSet<(u64, u32)>,
    now: u64,
}

impl Pipeline {
    /// Processes a part of a batch. None if the part was processed before (deduplication); else the decisions on its
    /// URLs, in the order of their ids.
    pub(super) fn run(&mut self, part: (u64, u32), lines: &[Line], now: u64) -> Option<Vec<Decided>> {
        if !self.batches.insert(part) {
            return None;
        }
        self.now = self.now.max(now);
        let incoming = group(lines);
        self.kept.retain(|kept| self.now - kept.named <= 10 * HOUR);
        // Join and filter.
        let mut filtered = BTreeSet::new();
        let mut current = Vec::with_capacity(self.current.len() + incoming.len());
        let (mut old, mut new) =
            (std::mem::take(&mut self.current).into_iter().peekable(), incoming.iter().peekable());
        loop {
            let next = match (old.peek(), new.peek()) {
                (Some(old), Some(new)) => old.id.min(new.id),
                (Some(old), None) => old.id,
                (None, Some(new)) => new.id,
                (None, None) => break,
            };
            match (old.next_if(|old| old.id == next), new.next_if(|new| new.id == next)) {
                // URL_A
                (None, Some(new)) => {
                    let known = self.kept.binary_search_by_key(&next, |kept| kept.id).ok();
                    let known = known.map(|at| self.kept[at].tag.clone()).unwrap_or_default();
                    let tag = if new.tag.is_empty() { known } else { new.tag.clone() };
                    current.push(Current { id: next, time: new.time, tag });
                    filtered.insert(next);
                }
                // URL_B
                (Some(old), None) => {
                    if self.now.saturating_sub(old.time) <= HOUR {
                        current.push(old);
                    }
                }
                // URL_C
                (Some(old), Some(new)) => {
                    let is_changed = !new.tag.is_empty() && new.tag != old.tag;
                    if new.time.saturating_sub(old.time) > HOUR || is_changed {
                        let tag = if new.tag.is_empty() { old.tag } else { new.tag.clone() };
                        current.push(Current { id: next, time: new.time, tag });
                        filtered.insert(next);
                    } else {
                        current.push(old);
                    }
                }
                (None, None) => unreachable!("one of them has it"),
            }
        }
        self.current = current;
        Some(self.count(&incoming, &filtered))
    }

    /// Adds up hits: hits of the batch and hits that waited.
    fn count(&mut self, incoming: &[Line], filtered: &BTreeSet<u64>) -> Vec<Decided> {
        let mut decided = Vec::with_capacity(incoming.len());
        let mut kept = Vec::with_capacity(self.kept.len() + incoming.len());
        let mut old = std::mem::take(&mut self.kept).into_iter().peekable();
        for line in incoming {
            while let Some(before) = old.next_if(|old| old.id < line.id) {
                kept.push(before);
            }
            let mut this = old.next_if(|old| old.id == line.id).unwrap_or_else(|| Kept {
                id: line.id,
                named: self.now,
                tag: String::new(),
                hits: 0,
            });
            this.named = self.now;
            this.hits += line.hits;
            if !line.tag.is_empty() {
                this.tag.clone_from(&line.tag);
            }
            let sent = filtered.contains(&line.id).then(|| std::mem::take(&mut this.hits));
            let at = self.current.binary_search_by_key(&line.id, |current| current.id);
            let time = self.current[at.expect("what came is in the new current_log")].time;
            decided.push(Decided { id: line.id, sent, time, waiting: this.hits, tag: this.tag.clone() });
            kept.push(this);
        }
        kept.extend(old);
        self.kept = kept;
        decided
    }
}

/// Sorts by id and time and groups: hits are summed, the last tag that is not empty stays.
fn group(lines: &[Line]) -> Vec<Line> {
    let mut sorted: Vec<&Line> = lines.iter().collect();
    // Lines of one moment stay in their order.
    sorted.sort_by_key(|line| (line.id, line.time));
    let mut groups: Vec<Line> = Vec::new();
    for line in sorted {
        match groups.last_mut() {
            Some(last) if last.id == line.id => {
                last.time = line.time;
                last.hits += line.hits;
                if !line.tag.is_empty() {
                    last.tag.clone_from(&line.tag);
                }
            }
            _ => groups.push(line.clone()),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_everybody_reads_them() {
        assert_eq!(time("19700101000000"), Some(0));
        assert_eq!(time("20261116120000"), Some(1_794_830_400_000));
        assert_eq!((time("yesterday"), time("2026111612000x")), (None, None));
    }

    #[test]
    fn the_three_cases_are_told_apart() {
        let line = |id, minute: u64, tag: &str| Line { id, time: minute * 60_000, hits: 1, tag: tag.into() };
        let mut pipeline = Pipeline::default();
        let mut sent = |number, lines: &[Line], minute: u64| {
            let decided = pipeline.run((1, number), lines, minute * 60_000)?;
            Some(
                decided
                    .into_iter()
                    .filter_map(|decided| Some((decided.id, decided.sent?)))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(sent(0, &[line(1, 100, "x"), line(2, 100, "")], 100), Some(vec![(1, 1), (2, 1)]));
        assert_eq!(sent(0, &[line(3, 100, "")], 100), None, "the same part again");
        assert_eq!(sent(1, &[line(1, 150, "y"), line(2, 160, "")], 160), Some(vec![(1, 1)]));
        assert_eq!(sent(2, &[line(1, 211, "y"), line(2, 161, "")], 211), Some(vec![(1, 1), (2, 2)]));
    }
}
