//! A crawl is killed in the middle, its folder is copied, each copy is damaged in another way, and the crawl goes on.
//! The crawl names every missing or damaged file and acts as specified: the damage is mended, or the page is fetched
//! again, or the folder is refused.
//!
//! Settings that differ from the shipped ones: no rests between requests, so that a run takes a second; small archive
//! files in the first run and small checkpoints, so that a small folder has several of each. The run that is killed
//! writes one archive file that does not get full, so that the kill leaves the file open.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::site::{Ended, HOSTS, PAGES, PATIENCE, PROGRAM, Site, crawl_args, run};

/// Requests answered before the process is killed.
const ANSWERED: usize = 20;
/// Copies that are crawled at the same time.
const AT_ONCE: usize = 3;

/// A folder as left by a kill, and its site.
struct Base {
    site: Site,
    dir: tempfile::TempDir,
}

impl Base {
    fn make() -> Base {
        let (site, dir) = (Site::start(), tempfile::tempdir().expect("a folder"));
        let mut args = crawl_args(site.port, "base");
        for set in [
            "store.bytes_max=20000",
            "worker.dirty_bytes_max=3000",
            "worker.dirty_bytes_all_max=40000",
            "identity.from=base@x.test",
        ] {
            args.extend(["--set".into(), set.into()]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let first = run(dir.path(), &[&args[..], &["--limit", "15"]].concat());
        assert_eq!(first.code, 20, "{}", first.said);
        site.left.store(ANSWERED, Ordering::SeqCst);
        let mut command = Command::new(PROGRAM);
        command.args(["crawl", "-o", "base", "--progress", "none", "--limit", "100000"]);
        command.args(["--set", "store.bytes_max=10000000"]);
        command.current_dir(dir.path()).env("HOME", dir.path()).stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the crawl starts");
        let began = Instant::now();
        while site.left.load(Ordering::SeqCst) > 0 && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        // Answered requests have time to become durable.
        std::thread::sleep(Duration::from_millis(700));
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        site.left.store(usize::MAX, Ordering::SeqCst);
        Base { site, dir }
    }

    /// A copy of the folder that goes by its own name.
    fn copy(&self, name: &str) -> PathBuf {
        let (from, to) = (self.dir.path().join("base"), self.dir.path().join(name));
        copy_folder(&from, &to);
        to
    }

    /// Continues a copy; returns how the run ended.
    fn crawl(&self, name: &str, more: &[&str]) -> Ended {
        let from = format!("identity.from={name}@x.test");
        let args = ["crawl", "-o", name, "--progress", "none", "--set", &from];
        run(self.dir.path(), &[&args[..], more].concat())
    }

    fn ask(&self, args: &[&str]) -> Ended {
        run(self.dir.path(), args)
    }

    /// The pages that were served neither in the base nor to this copy.
    fn missing(&self, name: &str) -> Vec<String> {
        let mut served = self.site.served_to("base@x.test");
        served.extend(self.site.served_to(&format!("{name}@x.test")));
        let all = (0..HOSTS).flat_map(|host| {
            let host = format!("s{host}.test:{}", self.site.port);
            (0..PAGES).map(move |page| format!("{host}/p{page}"))
        });
        all.filter(|page| !served.contains(page)).collect()
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &target);
        } else if path.is_file() {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// All files below a folder whose relative path contains this text; the largest last.
fn files(dir: &Path, part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.strip_prefix(dir).unwrap().to_string_lossy().contains(part) => found.push(path),
                false => {}
            }
        }
    }
    found.sort_by_key(|path| (fs::metadata(path).unwrap().len(), path.clone()));
    assert!(!found.is_empty(), "{part} in {}", dir.display());
    found
}

fn largest(dir: &Path, part: &str) -> PathBuf {
    files(dir, part).pop().unwrap()
}

/// The first closed archive file by name: written by the first run.
fn oldest_warc(dir: &Path) -> PathBuf {
    files(&dir.join("archive"), ".warc.gz")
        .into_iter()
        .filter(|path| path.extension().unwrap() == "gz")
        .min()
        .unwrap()
}

#[derive(Clone, Copy)]
enum Where {
    Head,
    Middle,
    Tail,
}

fn flip(path: &Path, place: Where) {
    let mut bytes = fs::read(path).unwrap();
    let at = match place {
        Where::Head => 3.min(bytes.len() - 1),
        Where::Middle => bytes.len() / 2,
        Where::Tail => bytes.len().saturating_sub(20),
    };
    bytes[at] ^= 0x41;
    fs::write(path, bytes).unwrap();
}

fn cut(path: &Path, bytes: u64) {
    let length = fs::metadata(path).unwrap().len();
    fs::File::options().write(true).open(path).unwrap().set_len(length.saturating_sub(bytes)).unwrap();
}

fn zeros(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    let end = bytes.len().min(middle + 3_000);
    bytes[middle..end].fill(0);
    fs::write(path, bytes).unwrap();
}

/// The index of an archive file.
fn index_of(warc: &Path) -> PathBuf {
    warc.with_extension("").with_extension("cdxj")
}

/// Damages the record of a page, found by the lines of an index or of the acknowledged captures.
fn flip_capture(warc: &Path, lines: &Path) {
    let text = fs::read_to_string(lines).unwrap();
    let line = text.lines().rfind(|line| line.contains("\"status\": \"200\"")).expect("a page is in it");
    let number = |name: &str| -> usize {
        let (_, rest) = line.split_once(&format!("\"{name}\": \"")).expect("a line has it");
        rest.split('"').next().unwrap().parse().unwrap()
    };
    let mut bytes = fs::read(warc).unwrap();
    bytes[number("offset") + number("length") / 2] ^= 0x41;
    fs::write(warc, bytes).unwrap();
}

/// A kind of damage to a folder.
type Act = fn(&Path);

/// Damages one copy for each of these kinds, a few at a time, and judges each.
fn each(kinds: &[(&str, Act, &str)], judge: impl Fn(&Base, &str, &str) + Sync) {
    let base = Base::make();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, act, words)) = kinds.get(next.fetch_add(1, Ordering::SeqCst)) {
                    act(&base.copy(name));
                    judge(&base, name, words);
                }
            });
        }
    });
}

/// The crawl reports the damage, mends the folder and ends well, and no page is missing.
fn is_mended(base: &Base, name: &str, words: &str) {
    let ended = base.crawl(name, &[]);
    assert!(ended.said.contains(words), "{name}: {}", ended.said);
    assert_eq!(ended.code, 0, "{name}: {}", ended.said);
    assert_eq!(base.missing(name), [""; 0], "{name}: {}", ended.said);
    let verified = base.ask(&["verify", name]);
    assert_eq!(verified.code, 0, "{name}: {}", verified.said);
}

/// The crawl refuses to begin, and names the fault and the remedy; `verify` does so too; the remedy (`--mend`) works.
fn is_refused(base: &Base, name: &str, words: &str) {
    let verified = base.ask(&["verify", name]);
    assert_eq!(verified.code, 1, "{name}: {}", verified.said);
    assert!(verified.said.contains(words) && verified.said.contains("--mend"), "{name}: {}", verified.said);
    let ended = base.crawl(name, &[]);
    assert_eq!(ended.code, 17, "{name}: {}", ended.said);
    assert!(ended.said.contains(words) && ended.said.contains("--mend"), "{name}: {}", ended.said);
    assert_eq!(base.site.served_to(&format!("{name}@x.test")).len(), 0, "{name}: nobody was asked");
    let ended = base.crawl(name, &["--mend"]);
    assert_eq!(ended.code, 0, "{name}: {}", ended.said);
    assert_eq!(base.missing(name), [""; 0], "{name}: {}", ended.said);
    let verified = base.ask(&["verify", name]);
    assert_eq!(verified.code, 0, "{name}: {}", verified.said);
}

#[test]
fn pro_02_nothing_is_said_of_a_folder_that_a_kill_left_whole() {
    each(&[("whole", |_| {}, "")], |base, name, words| {
        is_mended(base, name, words);
        let ended = base.crawl(name, &[]);
        assert_eq!((ended.code, ended.said.matches("nephila: ").count()), (0, 0), "{}", ended.said);
        let doctor = base.ask(&["doctor", "-o", name]);
        assert!(doctor.said.contains("all there"), "{}", doctor.said);
    });
}

#[test]
fn pro_02_what_can_be_made_again_is_made_again_and_said() {
    let kinds: &[(&str, Act, &str)] = &[
        ("secret-flipped", |dir| flip(&dir.join("state/secret"), Where::Middle), "secret was damaged"),
        ("secret-gone", |dir| fs::remove_file(dir.join("state/secret")).unwrap(), "secret was gone"),
        ("secret-cut", |dir| cut(&dir.join("state/secret"), 9), "secret was damaged"),
        (
            "manifest-flipped",
            |dir| flip(&largest(dir, "tables/manifest"), Where::Middle),
            "made again from the journal",
        ),
        (
            "manifest-gone",
            |dir| fs::remove_file(largest(dir, "tables/manifest")).unwrap(),
            "made again from the journal",
        ),
        ("manifest-cut", |dir| cut(&largest(dir, "tables/manifest"), 30), "made again from the journal"),
        ("run-flipped", |dir| flip(&largest(dir, ".run"), Where::Middle), "made again from the journal"),
        ("run-tail-flipped", |dir| flip(&largest(dir, ".run"), Where::Tail), "made again from the journal"),
        ("run-gone", |dir| fs::remove_file(largest(dir, ".run")).unwrap(), "made again from the journal"),
        ("run-cut", |dir| cut(&largest(dir, ".run"), 100), "made again from the journal"),
        (
            "tables-gone",
            |dir| fs::remove_dir_all(largest(dir, "tables/manifest").parent().unwrap()).unwrap(),
            "made again from the journal",
        ),
        ("log-gone", |dir| fs::remove_dir_all(dir.join("logs")).unwrap(), "the log in"),
        ("requests-flipped", |dir| flip(&largest(dir, "state/requests/0"), Where::Middle), "is set aside"),
        ("marks-gone", |dir| fs::remove_file(dir.join("state/marks")).unwrap(), "marks was gone"),
        ("marks-flipped", |dir| flip(&dir.join("state/marks"), Where::Head), "marks in"),
        ("contents-flipped", |dir| flip(&dir.join("contents"), Where::Middle), "contents was damaged"),
        ("contents-gone", |dir| fs::remove_file(dir.join("contents")).unwrap(), "contents was gone"),
        ("job-gone", |dir| fs::remove_file(dir.join("job.json")).unwrap(), "job.json was gone"),
        (
            "settings-gone",
            |dir| fs::remove_file(dir.join("settings.toml")).unwrap(),
            "settings.toml was gone",
        ),
        (
            "index-gone",
            |dir| fs::remove_file(index_of(&oldest_warc(dir))).unwrap(),
            "made from its archive file",
        ),
        (
            "index-flipped",
            |dir| flip(&index_of(&oldest_warc(dir)), Where::Middle),
            "made from its archive file",
        ),
    ];
    each(kinds, is_mended);
}

#[test]
fn pro_02_a_crawl_that_would_lose_pages_does_not_begin_and_says_what_to_do() {
    let kinds: &[(&str, Act, &str)] = &[
        ("journal-gone", |dir| fs::remove_file(largest(dir, "/log/0")).unwrap(), "ends with group 0"),
        ("journal-flipped", |dir| flip(&largest(dir, "/log/0"), Where::Middle), "is damaged at byte"),
        ("journal-head-flipped", |dir| flip(&largest(dir, "/log/0"), Where::Head), "is damaged at byte 0"),
        ("journal-tail-flipped", |dir| flip(&largest(dir, "/log/0"), Where::Tail), ".journal"),
        // A cut may fall between two frames: then the end is missing, and nothing is damaged.
        ("journal-cut", |dir| cut(&largest(dir, "/log/0"), 300), "put it back from a copy"),
        (
            "journal-half",
            |dir| {
                let path = largest(dir, "/log/0");
                cut(&path, fs::metadata(&path).unwrap().len() / 2);
            },
            "put it back from a copy",
        ),
        ("journal-zeros", |dir| zeros(&largest(dir, "/log/0")), "is damaged at byte"),
        ("journal-empty", |dir| cut(&largest(dir, "/log/0"), u64::MAX), ".journal"),
        (
            "partition-gone",
            |dir| fs::remove_dir_all(largest(dir, "/log/0").ancestors().nth(2).unwrap()).unwrap(),
            "ends with group 0",
        ),
        ("state-gone", |dir| fs::remove_dir_all(dir.join("state")).unwrap(), "the state of the crawl"),
        (
            "job-flipped",
            |dir| flip(&dir.join("job.json"), Where::Middle),
            "job.json is not as it was written",
        ),
        ("job-cut", |dir| cut(&dir.join("job.json"), 40), "job.json is not as it was written"),
        (
            "settings-flipped",
            |dir| flip(&dir.join("settings.toml"), Where::Middle),
            "settings.toml is not as it was written",
        ),
    ];
    each(kinds, is_refused);
}

#[test]
fn pro_02_a_lost_archive_file_is_named_and_its_pages_are_fetched_again_when_asked_for() {
    let kinds: &[(&str, Act, &str)] = &[
        ("warc-gone", |dir| fs::remove_file(oldest_warc(dir)).unwrap(), "is gone"),
        ("warc-cut", |dir| cut(&oldest_warc(dir), 3_000), "bytes, and has"),
        ("warc-flipped", |dir| flip_capture(&oldest_warc(dir), &index_of(&oldest_warc(dir))), "is damaged"),
    ];
    each(kinds, |base, name, words| {
        let verified = base.ask(&["verify", name]);
        assert_eq!(verified.code, 1, "{name}: {}", verified.said);
        assert!(verified.said.contains(words), "{name}: {}", verified.said);
        // The crawl goes on, since the file may lie elsewhere; and names the file at each start.
        for _ in 0..2 {
            let ended = base.crawl(name, &[]);
            assert_eq!((ended.code, ended.said.contains(words)), (0, true), "{name}: {}", ended.said);
            assert!(ended.said.contains("--mend"), "{name}: {}", ended.said);
        }
        assert_eq!(base.missing(name), [""; 0]);
        let before = base.site.served_to(&format!("{name}@x.test"));
        if name == "warc-gone" {
            // A page that only the lost file had: the first of a host.
            let url = format!("http://s0.test:{}/", base.site.port);
            let explained = base.ask(&["explain", "--json", "-o", name, &url]);
            assert!(explained.said.contains("\"gone\":"), "{}", explained.said);
            assert!(explained.said.contains("\"responses\":0"), "{}", explained.said);
            let doctor = base.ask(&["doctor", "-o", name]);
            assert!(doctor.said.contains("is gone") && doctor.code == 1, "{}", doctor.said);
        }
        let ended = base.crawl(name, &["--mend"]);
        assert_eq!(ended.code, 0, "{name}: {}", ended.said);
        assert!(ended.said.contains("lost captures are fetched again"), "{name}: {}", ended.said);
        assert!(
            base.site.served_to(&format!("{name}@x.test")).len() > before.len(),
            "{name}: they were asked for"
        );
        let ended = base.crawl(name, &[]);
        assert_eq!((ended.code, ended.said.contains(words)), (0, false), "{name}: {}", ended.said);
        let verified = base.ask(&["verify", name]);
        assert_eq!(verified.code, 0, "{name}: {}", verified.said);
    });
}

#[test]
fn pro_02_captures_of_the_open_file_are_never_dropped_in_silence() {
    let kinds: &[(&str, Act, &str)] = &[
        ("open-flipped", |dir| flip_capture(&largest(dir, ".warc.gz.open"), &largest(dir, ".acked")), "lost"),
        ("open-cut", |dir| cut(&largest(dir, ".warc.gz.open"), 3_000), "lost"),
        ("open-gone", |dir| fs::remove_file(largest(dir, ".warc.gz.open")).unwrap(), "lost"),
        ("open-zeros", |dir| zeros(&largest(dir, ".warc.gz.open")), "lost"),
    ];
    each(kinds, |base, name, words| {
        let before = base.site.served_to("base@x.test");
        let ended = base.crawl(name, &[]);
        assert_eq!(ended.code, 0, "{name}: {}", ended.said);
        assert!(ended.said.contains(words) && ended.said.contains("fetched again"), "{name}: {}", ended.said);
        let again = base.site.served_to(&format!("{name}@x.test"));
        assert!(again.intersection(&before).count() > 0, "{name}: what was lost was asked for again");
        assert!(!base.dir.path().join(name).join("lost").exists(), "{name}");
        assert_eq!(base.ask(&["verify", name]).code, 0, "{name}");
        // Every page that was served has a capture.
        let cdx = base.ask(&["cdx", "-o", name, "--match", "domain", "test"]).said;
        for page in before.union(&again) {
            assert!(cdx.contains(&format!("http://{page}\"")), "{name}: {page}\n{cdx}");
        }
    });
}

#[test]
fn pro_02_a_folder_of_the_version_before_opens_and_gets_a_list() {
    each(&[("old", |_| {}, "")], |base, name, _| {
        let dir = base.dir.path().join(name);
        for file in ["contents", "state/marks"] {
            fs::remove_file(dir.join(file)).unwrap();
        }
        fs::remove_dir_all(dir.join("state/papers")).unwrap();
        for path in files(&dir, ".acked") {
            fs::remove_file(path).unwrap();
        }
        is_mended(base, name, "");
        assert!(dir.join("contents").is_file() && dir.join("state/papers/job.json").is_file());
        // From now on the folder has a list of its files.
        fs::remove_file(oldest_warc(&dir)).unwrap();
        assert!(base.crawl(name, &[]).said.contains("is gone"));
    });
}

#[test]
fn verify_names_the_way_to_check_a_wacz_file() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("all.wacz"), b"PK\x03\x04").unwrap();
    let said = run(dir.path(), &["verify", "all.wacz"]);
    assert_eq!(said.code, 2, "{}", said.said);
    assert!(said.said.contains("unzip all.wacz -d FOLDER, then nephila verify FOLDER"), "{}", said.said);
}
