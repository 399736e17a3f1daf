//! Events of a crawl on one machine, read from the journals of its partitions.
//!
//! A reader follows every partition and derives events from each new group. Partitions are independent of each other,
//! so a position names a group of each: `PARTITION.GROUP.MARK`, separated by commas. The mark tells whether the log is
//! still the one that was read.
//!
//! Invariants: nothing is written; the events of a group come together and in order; the position of a page is behind
//! everything in the page and nothing else; a page for which anything new was read has another position than the page
//! before.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use nephila_core::event::{self, Event};
use nephila_store::journal::{Follow, Step};

use super::{Bounds, From, Page, READ_TIME_MAX, Wanted};
use nephila_engine::folder::Folder;
use nephila_engine::settings::usage;

/// The last group read and its mark, by partition.
type Places = BTreeMap<u32, (u64, u32)>;

/// See the module.
#[derive(Debug)]
pub struct Local {
    folder: Folder,
    from: From,
    parts: Vec<Part>,
    places: Places,
    /// Index of the partition to read next (round-robin).
    turn: usize,
}

#[derive(Debug)]
struct Part {
    number: u32,
    log: PathBuf,
    follow: Follow,
    /// This group was read before, with this mark if known.
    known: Option<(u64, Option<u32>)>,
}

impl Local {
    /// Opens a reader at this position.
    pub fn open(folder: &Folder, from: From) -> anyhow::Result<Local> {
        let places = match &from {
            From::Position(text) => parse(text)?,
            From::Beginning | From::End => Places::new(),
        };
        let (parts, folder) = (Vec::new(), folder.clone());
        let mut local = Local { folder, from, parts, places, turn: 0 };
        local.find_parts()?;
        Ok(local)
    }

    /// Finds the partitions, once they exist. Their number does not change then.
    fn find_parts(&mut self) -> anyhow::Result<()> {
        let state = self.folder.state();
        let entries = match std::fs::read_dir(&state) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            entries => entries.with_context(|| state.display().to_string())?,
        };
        for entry in entries {
            let entry = entry.with_context(|| state.display().to_string())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(number) = name.strip_prefix("partition-").and_then(|number| number.parse().ok()) else {
                continue;
            };
            if self.parts.iter().any(|part| part.number == number) {
                continue;
            }
            let log = entry.path().join("log");
            let known = match (&self.from, self.places.get(&number)) {
                (_, Some(&(group, mark))) => Some((group, Some(mark))),
                (From::End, None) => Follow::last(&log)?.map(|last| (last, None)),
                (_, None) => None,
            };
            let follow = Follow::new(&log, known.map_or(1, |(group, _)| group));
            self.parts.push(Part { number, log, follow, known });
        }
        self.parts.sort_by_key(|part| part.number);
        Ok(())
    }

    /// Reads the next page of events, possibly empty.
    pub fn read(&mut self, wanted: &Wanted) -> anyhow::Result<Page> {
        self.read_within(wanted, Bounds::default())
    }

    /// Like [`Local::read`], with other limits.
    pub fn read_within(&mut self, wanted: &Wanted, bounds: Bounds) -> anyhow::Result<Page> {
        // They are made one after the other when a crawl begins.
        self.find_parts()?;
        let mut page = Page::default();
        let (began, mut read, mut counted, mut events) = (Instant::now(), 0, 0, 0);
        let count = self.parts.len();
        'parts: for _ in 0..count {
            let turn = self.turn % count;
            while let Some(bytes) = self.parts[turn].next(wanted, &mut self.places, &mut page)? {
                read += bytes;
                events += page.lines[counted..].iter().filter(|byte| **byte == b'\n').count();
                counted = page.lines.len();
                let is_enough = page.lines.len() >= bounds.bytes
                    || events >= bounds.events
                    || read >= bounds.read_bytes
                    || began.elapsed() >= READ_TIME_MAX;
                // Only a new group changes the position, so that the client makes progress.
                if bytes > 0 && is_enough {
                    // A busy partition does not hold back the others.
                    self.turn = turn + 1;
                    page.is_full = true;
                    break 'parts;
                }
            }
            self.turn = turn + 1;
        }
        page.position = write(&self.places);
        Ok(page)
    }
}

impl Part {
    /// Appends the next group's events to the page. Returns the size of the group in bytes, 0 for a group read before,
    /// and none without a next group.
    fn next(
        &mut self,
        wanted: &Wanted,
        places: &mut Places,
        page: &mut Page,
    ) -> anyhow::Result<Option<usize>> {
        let what = || format!("the journal of partition {}", self.number);
        let mut push = |event: &Event| {
            if wanted.takes(event) {
                page.lines.extend(event.line());
            }
        };
        let mut new_bytes = 0;
        match self.follow.step_on().with_context(what)? {
            Step::Nothing => {
                let Some((group, _)) = self.known else { return Ok(None) };
                // The group was read before, so the log should still have the group.
                if Follow::last(&self.log).with_context(what)?.unwrap_or(0) >= group {
                    return Ok(None);
                }
                push(&self.begin_again(group, places));
            }
            Step::Gone(first, last) => {
                // The first of them may have been read before.
                let first = first + u64::from(self.known.take().is_some());
                if first <= last {
                    push(&Event::gap(self.number, first, last));
                }
            }
            Step::Group(group, bytes) => {
                let (events, behind) = event::of_bytes(self.number, &bytes).with_context(what)?;
                let mark = event::mark(behind);
                match self.known.take() {
                    Some((known, Some(wanted_mark))) if known == group && wanted_mark != mark => {
                        push(&self.begin_again(group, places));
                        page.moved = true;
                        return Ok(Some(0));
                    }
                    Some((known, _)) if known == group => {}
                    _ => {
                        new_bytes = bytes.len();
                        events.iter().for_each(push);
                    }
                }
                places.insert(self.number, (group, mark));
            }
        }
        page.moved = true;
        Ok(Some(new_bytes))
    }

    /// Restarts at the first group, with a gap event: the log is another one than the log that was read up to this
    /// group.
    fn begin_again(&mut self, group: u64, places: &mut Places) -> Event {
        self.follow = Follow::new(&self.log, 1);
        self.known = None;
        places.remove(&self.number);
        Event::gap(self.number, 1, group)
    }
}

fn write(places: &Places) -> String {
    if places.is_empty() {
        return "beginning".to_owned();
    }
    let places = places.iter().map(|(partition, (group, mark))| format!("{partition}.{group}.{mark:08x}"));
    places.collect::<Vec<_>>().join(",")
}

fn parse(text: &str) -> anyhow::Result<Places> {
    let place = |text: &str| {
        let mut parts = text.split('.');
        let place = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let mark = u32::from_str_radix(parts.next()?, 16).ok()?;
        parts.next().is_none().then_some((place.0, (place.1, mark)))
    };
    let places: Option<Places> = text.split(',').map(place).collect();
    let wrong = || {
        usage(anyhow::anyhow!(
            "{text:?} is no position of this crawl: `beginning`, `end`, or what a line of kind `position` said"
        ))
    };
    places.ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nephila_core::entry::{Entry, EventContext, Group, HostChange, seal};
    use nephila_core::key::{DomainKey, HostKey};
    use nephila_core::state::Position;
    use nephila_core::time::Seconds;
    use nephila_store::disk::RealDisk;
    use nephila_store::journal::{Journal, Settings};

    use super::*;

    struct Crawl {
        folder: Folder,
        logs: Vec<(Journal, Position)>,
    }

    impl Crawl {
        fn new(dir: &std::path::Path) -> Crawl {
            let folder = Folder::new(dir);
            let log = |number: usize| {
                let path = folder.state().join(format!("partition-{number:04}/log"));
                let settings = Settings { segment_bytes_max: 400, keep_bytes: 0 };
                (Journal::open(Arc::new(RealDisk), &path, settings).unwrap().0, Position::default())
            };
            Crawl { logs: (0..3).map(log).collect(), folder }
        }

        fn happen(&mut self, partition: usize, seconds: u32) {
            let host = HostKey { domain: DomainKey(7), host: 1 };
            let context = EventContext { at: Seconds(seconds), ..EventContext::default() };
            let entries = vec![Entry::Host(HostChange::Resume(host)), Entry::EventContext(Box::new(context))];
            let (log, position) = &mut self.logs[partition];
            let (bytes, behind) = seal(&Group { epoch: 1, entries }, *position);
            log.append(behind.sequence, &bytes).unwrap();
            log.sync().unwrap();
            *position = behind;
        }

        fn read(&self, local: &mut Local) -> (Vec<Event>, String) {
            let (mut lines, mut page) = (Vec::new(), local.read(&Wanted::default()).unwrap());
            // On a slow disk there may be several.
            while page.moved {
                lines.extend(page.lines);
                page = local.read(&Wanted::default()).unwrap();
            }
            let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            (lines.map(|line| serde_json::from_slice(line).unwrap()).collect(), page.position)
        }
    }

    #[test]
    fn a_reader_that_is_killed_at_any_page_sees_everything_and_knows_repeats() {
        let dir = tempfile::tempdir().unwrap();
        let mut crawl = Crawl::new(dir.path());
        let (mut ids, mut count, mut position) =
            (std::collections::BTreeSet::new(), 0, "beginning".to_owned());
        for round in 0..60 {
            crawl.happen(round % 3, 1_000 + round as u32);
            crawl.happen((round * 7) % 3, 2_000);
            // A new process each time.
            let mut local = Local::open(&crawl.folder, From::parse(&position)).unwrap();
            let (events, next) = crawl.read(&mut local);
            count += events.len();
            ids.extend(events.into_iter().map(|event| event.id));
            // Every third one dies before it has written down how far it came.
            if round % 3 > 0 {
                position = next;
            }
        }
        let mut local = Local::open(&crawl.folder, From::parse(&position)).unwrap();
        ids.extend(crawl.read(&mut local).0.into_iter().map(|event| event.id));
        assert_eq!(ids.len(), 120);
        assert!(count > 120, "some were seen twice");
        let (events, _) = crawl.read(&mut Local::open(&crawl.folder, From::Beginning).unwrap());
        let all: std::collections::BTreeSet<String> = events.into_iter().map(|event| event.id).collect();
        assert_eq!(all, ids);
    }

    #[test]
    fn a_page_of_few_events_takes_turns_among_the_partitions() {
        let dir = tempfile::tempdir().unwrap();
        let mut crawl = Crawl::new(dir.path());
        (0..9).for_each(|number| crawl.happen(0, number));
        (1..3).for_each(|partition| crawl.happen(partition, 1));
        let mut local = Local::open(&crawl.folder, From::Beginning).unwrap();
        let bounds = Bounds { events: 3, ..Bounds::default() };
        let (mut pages, mut position) = (Vec::new(), String::new());
        loop {
            let page = local.read_within(&Wanted::default(), bounds).unwrap();
            if !page.moved {
                break;
            }
            pages.push((page.lines.iter().filter(|byte| **byte == b'\n').count(), page.is_full));
            position = page.position;
        }
        // Three of the first, one each of the others and one more of the first, and so on. The last one has the rest.
        assert_eq!(pages, [(3, true), (3, true), (3, true), (2, false)]);
        assert_eq!(crawl.read(&mut Local::open(&crawl.folder, From::parse(&position)).unwrap()).0, []);
    }

    #[test]
    fn from_the_end_there_is_only_what_happens_then() {
        let dir = tempfile::tempdir().unwrap();
        let mut crawl = Crawl::new(dir.path());
        crawl.happen(0, 1);
        crawl.happen(1, 2);
        let mut local = Local::open(&crawl.folder, From::End).unwrap();
        assert_eq!(crawl.read(&mut local).0, []);
        crawl.happen(1, 3);
        crawl.happen(2, 4);
        let (events, position) = crawl.read(&mut local);
        assert_eq!(events.len(), 2);
        assert_eq!(crawl.read(&mut Local::open(&crawl.folder, From::parse(&position)).unwrap()).0, []);
    }

    #[test]
    fn what_is_gone_is_said_and_another_log_is_read_from_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let mut crawl = Crawl::new(dir.path());
        (0..20).for_each(|number| crawl.happen(0, number));
        let (events, position) = crawl.read(&mut Local::open(&crawl.folder, From::Beginning).unwrap());
        assert_eq!(events.len(), 20);
        crawl.logs[0].0.truncate_before(15).unwrap();
        let (events, _) = crawl.read(&mut Local::open(&crawl.folder, From::Beginning).unwrap());
        assert_eq!(events[0].kind, event::Kind::Gap);
        assert_eq!(events[0].gone.unwrap()[..2], [0, 1]);
        // A crawl that was begun anew in the same folder.
        drop(crawl);
        std::fs::remove_dir_all(dir.path().join("state")).unwrap();
        let mut crawl = Crawl::new(dir.path());
        (100..125).for_each(|number| crawl.happen(0, number));
        let mut local = Local::open(&crawl.folder, From::parse(&position)).unwrap();
        let (events, _) = crawl.read(&mut local);
        assert_eq!((events[0].kind, events.len()), (event::Kind::Gap, 26));
        for wrong in ["x", "0.1", "0.1.2.3", "0.1.zz", ",", "0.1.00000001,"] {
            assert!(Local::open(&crawl.folder, From::parse(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_position_behind_the_end_is_told_and_read_from_the_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let mut crawl = Crawl::new(dir.path());
        (0..20).for_each(|number| crawl.happen(0, number));
        crawl.happen(1, 1);
        let (_, position) = crawl.read(&mut Local::open(&crawl.folder, From::Beginning).unwrap());
        // A crawl that was begun anew in the same folder, and is not as far yet.
        drop(crawl);
        std::fs::remove_dir_all(dir.path().join("state")).unwrap();
        let mut crawl = Crawl::new(dir.path());
        (100..103).for_each(|number| crawl.happen(0, number));
        let mut local = Local::open(&crawl.folder, From::parse(&position)).unwrap();
        let (events, next) = crawl.read(&mut local);
        let gaps: Vec<_> = events.iter().filter_map(|event| event.gone).collect();
        assert_eq!(gaps, [[0, 1, 20], [1, 1, 1]]);
        assert_eq!(events.len(), 5);
        assert_ne!(next, position);
        assert_eq!(crawl.read(&mut local).0, [], "it is said once");
    }

    #[test]
    fn a_page_ends_though_nothing_in_it_is_wanted_and_whoever_goes_on_comes_to_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut crawl = Crawl::new(dir.path());
        (0..60).for_each(|number| crawl.happen(number as usize % 3, number));
        let jobs = Wanted::parse(["job"]).unwrap();
        let (mut position, mut pages) = ("beginning".to_owned(), 0);
        loop {
            // Over HTTP, each request may get another reader.
            let mut local = Local::open(&crawl.folder, From::parse(&position)).unwrap();
            let page = local.read_within(&jobs, Bounds { read_bytes: 1, ..Bounds::default() }).unwrap();
            assert!(page.lines.is_empty());
            if page.position == position {
                break;
            }
            (position, pages) = (page.position, pages + 1);
        }
        assert_eq!(pages, 60, "one group is enough for a page");
        crawl.happen(2, 100);
        let (events, _) = crawl.read(&mut Local::open(&crawl.folder, From::parse(&position)).unwrap());
        assert_eq!(events.len(), 1, "nothing was left out on the way");
    }
}
