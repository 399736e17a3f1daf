//! Children that do not behave, and what is left of them.

use std::time::{Duration, Instant};

use nephila_pdf::{Error, Limits, Reader};

use crate::build::Document;
use crate::{Test, limits, reader};

pub(crate) const TESTS: &[Test] = &[
    ("process::a_program_that_is_missing", a_program_that_is_missing),
    ("process::a_child_that_never_ends_is_killed", a_child_that_never_ends_is_killed),
    ("process::a_child_that_ignores_its_input", a_child_that_ignores_its_input),
    ("process::an_endless_answer_is_not_kept", an_endless_answer_is_not_kept),
    ("process::a_child_that_fails_is_a_crash", a_child_that_fails_is_a_crash),
    ("process::many_at_once", many_at_once),
];

/// Fails if this process has a child, running or as a zombie.
pub(crate) fn assert_no_children() {
    let left = rustix::process::waitpid(None, rustix::process::WaitOptions::NOHANG);
    assert_eq!(left.err(), Some(rustix::io::Errno::CHILD), "a child is left");
}

/// The most memory this process ever had, in bytes.
pub(crate) fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")).unwrap();
    peak.parse::<u64>().unwrap() << 10
}

/// A reader whose child is a shell with this script.
fn shell(script: &str, wall_max: Duration) -> Reader {
    Reader::new("/bin/sh", ["-c", script], Limits { wall_max, text_max: 1 << 20, ..limits() })
}

const SECOND: Duration = Duration::from_secs(1);

fn document() -> Vec<u8> {
    // More than a pipe holds.
    let mut pdf = Document::page("BT /F 12 Tf 72 700 Td (words) Tj ET").finish();
    pdf.resize(pdf.len() + (1 << 20), b'\n');
    pdf
}

fn a_program_that_is_missing() {
    let reader = Reader::new("/no/such/program", ["child"], limits());
    assert!(matches!(reader.read(&document()), Err(Error::Start(_))));
}

fn a_child_that_never_ends_is_killed() {
    for script in ["exec sleep 1000", "exec >&- 2>&-; exec sleep 1000"] {
        let start = Instant::now();
        assert!(matches!(shell(script, SECOND).read(&document()), Err(Error::OutOfTime)));
        assert!((SECOND..5 * SECOND).contains(&start.elapsed()), "{:?}", start.elapsed());
        assert_no_children();
    }
}

fn a_child_that_ignores_its_input() {
    let read = shell("exec <&-; echo nonsense", 10 * SECOND).read(&document());
    assert!(matches!(read, Err(Error::Crashed(_))), "{read:?}");
}

fn an_endless_answer_is_not_kept() {
    let before = peak();
    let read = shell("exec yes words", SECOND * 5).read(&document());
    assert!(matches!(read, Err(Error::Crashed(_) | Error::OutOfTime)), "{read:?}");
    assert!(peak() - before < 16 << 20, "{} more bytes", peak() - before);
}

fn a_child_that_fails_is_a_crash() {
    let read = shell("cat >/dev/null; echo this is why >&2; exit 7", 10 * SECOND).read(&document());
    let Err(Error::Crashed(why)) = read else { panic!("{read:?}") };
    assert!(why.contains('7') && why.contains("this is why"), "{why}");
    let read = shell("kill -SEGV $$", 10 * SECOND).read(&document());
    assert!(matches!(read, Err(Error::Crashed(_))), "{read:?}");
    let read =
        shell("cat >/dev/null; echo memory allocation of 9 bytes failed >&2; kill -ABRT $$", 10 * SECOND);
    assert!(matches!(read.read(&document()), Err(Error::OutOfMemory)));
}

fn many_at_once() {
    let (reader, pdf) = (reader(limits()), document());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(reader.read(&pdf).unwrap().text, "words");
                }
            });
        }
    });
}
