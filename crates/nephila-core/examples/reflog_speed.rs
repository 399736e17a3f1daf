//! How fast a stream of visited URLs is decided on, beside only reading, parsing and hashing its lines.
//!
//!     cargo run --release -p nephila-core --example reflog_speed
//!
//! The ratio is what grouping, the one-hour rule and its memory cost on top. With arguments it is a part of `cargo xtask
//! bench reflog`: `write FILE LINES` writes lines into a file, `read FILE` only reads, parses and hashes them.

// An example is a program: it has a clock and an output.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use nephila_core::intake::reflog;
use nephila_core::reflog::{BatchKey, Batches, Window, group};
use nephila_core::time::Timestamp;

/// Lines of one part of a batch.
const PART_LINES: u64 = 16_384;

/// Bytes of a file that are read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Parts, one a virtual minute.
const PARTS: u64 = 24;

/// Different URLs; a tenth of them has half of all lines.
const URLS: u64 = 100_000;

/// 2026-11-16T12:00:00Z.
const NOON: u64 = 1_794_830_400_000;

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", file, lines] => write_lines(file, lines.parse().expect("a number of lines")),
        ["read", file] => read_lines(file),
        _ => {
            in_memory();
            Ok(())
        }
    }
}

/// Lines of a day, as many as are wanted.
fn write_lines(file: &str, lines: u64) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    for number in 0..lines.div_ceil(PART_LINES) {
        let wanted = PART_LINES.min(lines - number * PART_LINES) as usize;
        for line in part(number).split_inclusive('\n').take(wanted) {
            out.write_all(line.as_bytes())?;
        }
    }
    out.flush()
}

/// What cannot be left out: the lines of a file are read, parsed and hashed.
fn read_lines(file: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::open(file)?;
    let (mut held, mut lines) = (Vec::new(), 0_u64);
    loop {
        let from = held.len();
        held.resize(from + CHUNK_BYTES, 0);
        let got = file.read(&mut held[from..])?;
        held.truncate(from + got);
        let end = match got {
            0 => held.len(),
            _ => held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1),
        };
        for entry in reflog::entries(&held[..end]).flatten() {
            black_box(entry.url.id());
            lines += 1;
        }
        held.drain(..end);
        if got == 0 {
            println!("{lines}");
            return Ok(());
        }
    }
}

fn in_memory() {
    let parts: Vec<String> = (0..PARTS).map(part).collect();
    let lines = PART_LINES * PARTS;
    let bytes: usize = parts.iter().map(String::len).sum();
    println!("{lines} lines, {} MB, {URLS} URLs", bytes / 1_000_000);
    for round in 1..=3 {
        let start = Clock::start();
        for part in &parts {
            for entry in reflog::entries(part.as_bytes()).flatten() {
                black_box(entry.url.id());
            }
        }
        let bare = lines as f64 / start.spent().as_secs_f64();

        let start = Clock::start();
        let (mut batches, mut window) = (Batches::default(), Window::default());
        let mut sent = 0;
        for (number, part) in parts.iter().enumerate() {
            let now = Timestamp(NOON + number as u64 * 60_000);
            let key = BatchKey::of("speed", number as u32, PART_LINES as u32);
            let batch = batches.check(key, now).expect("each part comes once");
            let groups = group(reflog::entries(part.as_bytes()).flatten());
            sent += black_box(window.handle_batch(&batch, groups)).len();
            batches.fold(key, &batch);
        }
        let whole = lines as f64 / start.spent().as_secs_f64();
        println!(
            "round {round}: only read, parsed and hashed {bare:.0} lines/s, decided {whole:.0} lines/s, ratio {:.2}; {sent} sent",
            whole / bare
        );
    }
}

/// The time this program was at work, which a busy machine does not change; the time that passed where that is unknown.
struct Clock {
    at_work: Option<u64>,
    start: Instant,
}

impl Clock {
    fn start() -> Clock {
        Clock { at_work: Clock::at_work(), start: Instant::now() }
    }

    fn spent(&self) -> Duration {
        match (self.at_work, Clock::at_work()) {
            (Some(before), Some(after)) => Duration::from_nanos(after - before),
            _ => self.start.elapsed(),
        }
    }

    /// Nanoseconds on a processor so far (proc(5), schedstat).
    fn at_work() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
        text.split_whitespace().next()?.parse().ok()
    }
}

fn part(number: u64) -> String {
    let mut seed = number + 1;
    let mut chance = move |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    let mut text = String::new();
    for _ in 0..PART_LINES {
        let url = if chance(2) == 0 { chance(URLS / 10) } else { chance(URLS) };
        let at = Timestamp(NOON + number * 60_000 - chance(60) * 1_000).digits14();
        let (host, hits, tag) = (url % 5_000, 1 + chance(9), chance(20) / 19);
        writeln!(text, "2026111612\t5\t{at}\t2310\thttp://www.host{host}.example/section/page-{url}.html?id={url}\t{hits}\t{tag}")
            .expect("a string takes all");
    }
    text
}
