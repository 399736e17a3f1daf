//! What sorted runs cost: bytes and nanoseconds a key, for a table shaped like that of URLs.
//!
//!     run_speed [--keys N] [--dir FOLDER]
//!
//! Writes a run of N keys (1,000,000 unless said), opens it and asks it everything, each question several times
//! with the file in memory; prints the best. Times are CPU time of this program, the kernel's part of it included,
//! since others may be at work. Keys are 12 + 8 bytes, 100 of a host; values are a URL record of about 60 bytes.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nephila_store::disk::RealDisk;
use nephila_store::runs::{
    Cache, Filter, Io, KeyColumn, Keys, Merge, Options, Policy, Run, RunWriter, Shape, Source,
};

const URLS: Shape = Shape { group: 12, suffix: 8 };
const WIDTH: usize = 20;
const URLS_PER_HOST: u64 = 100;
const TIMES: usize = 5;
/// Short batches are asked more often.
const BATCH_TIMES: usize = 25;
/// Out of a hundred keys asked for, so many are there.
const PRESENT: u64 = 80;

type Key = [u8; WIDTH];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut count = 1_000_000;
    let mut dir = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().ok_or("an option needs a value")?;
        match arg.as_str() {
            "--keys" => count = value.parse()?,
            "--dir" => dir = Some(PathBuf::from(value)),
            _ => return Err(format!("unknown option {arg}").into()),
        }
    }
    let folder = match &dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let mut keys: Vec<Key> = (0..count).map(key).collect();
    keys.sort_unstable();
    println!("{count} keys, best of {TIMES}");

    let path = folder.path().join("urls.run");
    let run = build("urls, raw keys", &path, Options::new(URLS), &keys, record)?;
    let zstd = Options { keys: KeyColumn::Zstd, ..Options::new(URLS) };
    build("urls, zstd keys", &folder.path().join("zstd.run"), zstd, &keys, record)?;
    build("fingerprints only", &folder.path().join("bare.run"), Options::new(URLS), &keys, |_, _| ())?;
    let bare = Options { filter: Filter::None, ..Options::new(URLS) };
    build("without a filter", &folder.path().join("none.run"), bare, &keys, |_, _| ())?;

    for density in [1, 2, 10, 100, 1_000, 10_000] {
        batch(&run, &keys, density)?;
    }
    points(&run, &keys)?;
    walk(&run)?;
    fold(folder.path(), &keys)?;
    Ok(())
}

fn build(
    name: &str,
    path: &Path,
    options: Options,
    keys: &[Key],
    value: impl Fn(&Key, &mut Vec<u8>),
) -> Result<Run, Box<dyn std::error::Error>> {
    let mut buffer = Vec::new();
    let mut raw = 0;
    // What making the values costs is not the writer's.
    let own = cpu();
    for key in keys {
        buffer.clear();
        value(key, &mut buffer);
        raw += black_box(&buffer).len();
    }
    let own = cpu() - own;
    let begun = cpu();
    let mut writer = RunWriter::create(&RealDisk, path, options)?;
    for key in keys {
        buffer.clear();
        value(key, &mut buffer);
        writer.push(key, &buffer)?;
    }
    let pushed = cpu() - begun;
    let info = writer.finish(&[])?;
    let whole = cpu() - begun;
    let begun = cpu();
    let run = Run::open(path)?;
    let opened = cpu() - begun;
    let n = keys.len() as f64;
    println!(
        "build {name}: {:.2} bytes a key on disk (key {WIDTH}, value {:.1}), {:.3} resident; push {:.0} ns, finish {:.0} ns a key; open {:.1} ms",
        info.file_bytes as f64 / n,
        raw as f64 / n,
        info.resident_bytes as f64 / n,
        each(pushed.saturating_sub(own), keys.len()),
        each(whole - pushed, keys.len()),
        opened.as_secs_f64() * 1e3,
    );
    Ok(run)
}

/// One key in `density` entries is asked for.
fn batch(run: &Run, keys: &[Key], density: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut asked: Vec<Key> = keys
        .chunks(density)
        .enumerate()
        .map(|(n, chunk)| {
            let n = n as u64;
            let mut key = chunk[hash(n) as usize % chunk.len()];
            if hash(n ^ 0x5555) % 100 >= PRESENT {
                key[12..].copy_from_slice(&hash(n ^ 0x1234_5678).to_be_bytes());
            }
            key
        })
        .collect();
    asked.sort_unstable();
    asked.dedup();
    let flat = asked.as_flattened();
    let mut best = Duration::MAX;
    let (mut io, mut hits) = (Io::default(), 0);
    let times = if density < 100 { TIMES } else { BATCH_TIMES };
    for _ in 0..times {
        let mut found = vec![false; asked.len()];
        io = Io::default();
        let begun = cpu();
        run.contains_sorted(Keys::new(flat, WIDTH), &mut found, &mut io)?;
        best = best.min(cpu() - begun);
        hits = found.iter().filter(|found| **found).count();
    }
    let mut values = Duration::MAX;
    for _ in 0..times {
        let begun = cpu();
        let mut bytes = 0;
        run.get_sorted(Keys::new(flat, WIDTH), &mut Io::default(), |_, value| bytes += value.len())?;
        values = values.min(cpu() - begun);
        black_box(bytes);
    }
    println!(
        "contains_sorted 1:{density}: {:.0} ns a key ({} keys, {} % there, {} reads, {:.1} MB); get_sorted {:.0} ns",
        each(best, asked.len()),
        asked.len(),
        hits * 100 / asked.len(),
        io.reads,
        io.bytes as f64 / 1e6,
        each(values, asked.len()),
    );
    Ok(())
}

fn points(run: &Run, keys: &[Key]) -> Result<(), Box<dyn std::error::Error>> {
    const GETS: u64 = 5_000;
    let pick = |n: u64| &keys[hash(n) as usize % keys.len()];
    let begun = cpu();
    for n in 0..GETS {
        let value = run.get(pick(n), &mut Io::default())?;
        assert!(value.is_some(), "the key was written");
    }
    let present = cpu() - begun;
    let begun = cpu();
    let mut io = Io::default();
    for n in 0..GETS {
        let mut key = *pick(n);
        key[12] ^= 0xff;
        black_box(run.get(&key, &mut io)?);
    }
    let absent = cpu() - begun;

    let cached = Run::open_cached(run.path(), &Cache::new(8 << 20))?;
    let from = keys.len() / 2;
    let begun = cpu();
    let near = &keys[from..(from + GETS as usize).min(keys.len())];
    for key in near {
        assert!(cached.get(key, &mut Io::default())?.is_some(), "the key was written");
    }
    println!(
        "get: {:.1} us there, {:.2} us not there ({} reads for {GETS}), {:.2} us neighbours through the cache",
        each(present, GETS as usize) / 1e3,
        each(absent, GETS as usize) / 1e3,
        io.reads,
        each(cpu() - begun, near.len()) / 1e3,
    );
    Ok(())
}

fn walk(run: &Run) -> Result<(), Box<dyn std::error::Error>> {
    let mut best = Duration::MAX;
    let mut entries = 0;
    for _ in 0..TIMES {
        let mut scan = run.scan(&[]);
        entries = 0;
        let begun = cpu();
        while let Some(entry) = scan.next()? {
            black_box(entry);
            entries += 1;
        }
        best = best.min(cpu() - begun);
    }
    println!("scan: {:.1} ns an entry", each(best, entries));
    Ok(())
}

/// Merges runs as a compaction would: one large and some small ones, then equal ones.
fn fold(folder: &Path, keys: &[Key]) -> Result<(), Box<dyn std::error::Error>> {
    for (name, parts) in [("2 runs, 9:1", vec![9, 1]), ("8 equal runs", vec![1; 8])] {
        let shares: u64 = parts.iter().sum();
        let mut runs = Vec::new();
        let mut low = 0;
        for (n, part) in parts.iter().enumerate() {
            let range = low..low + part;
            low += part;
            let path = folder.join(format!("{}-{n}.run", parts.len()));
            let mut writer = RunWriter::create(&RealDisk, &path, Options::new(URLS))?;
            let mut value = Vec::new();
            for key in keys.iter().filter(|key| range.contains(&(suffix(key) % shares))) {
                value.clear();
                record(key, &mut value);
                writer.push(key, &value)?;
            }
            writer.finish(&[])?;
            runs.push(Run::open(&path)?);
        }
        let mut best = Duration::MAX;
        for _ in 0..TIMES {
            let begun = cpu();
            let mut merge = Merge::new(runs.iter().map(|run| run.scan(&[])).collect(), Policy::Together);
            let mut entries = 0;
            while let Some(group) = merge.next()? {
                black_box((group.key(), group.newest()));
                entries += 1;
            }
            best = best.min(cpu() - begun);
            assert_eq!(entries, keys.len());
        }
        let begun = cpu();
        let path = folder.join(format!("{}-all.run", parts.len()));
        let mut writer = RunWriter::create(&RealDisk, &path, Options::new(URLS))?;
        let mut merge = Merge::new(
            runs.iter().map(|run| Box::new(run.scan(&[])) as Box<dyn Source>).collect(),
            Policy::Together,
        );
        while let Some(group) = merge.next()? {
            writer.push(group.key(), group.newest())?;
        }
        writer.finish(&[])?;
        println!(
            "merge {name}: {:.1} ns an entry; with writing, filter and sync {:.0} ns",
            each(best, keys.len()),
            each(cpu() - begun, keys.len()),
        );
    }
    Ok(())
}

fn each(time: Duration, count: usize) -> f64 {
    time.as_nanos() as f64 / count as f64
}

fn cpu() -> Duration {
    // SAFETY: clock_gettime writes a plain struct that we own.
    #[allow(unsafe_code, reason = "the standard library has no CPU clock")]
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time);
        time
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn key(n: u64) -> Key {
    let mut key = [0; WIDTH];
    let host = n / URLS_PER_HOST;
    key[..8].copy_from_slice(&hash(host).to_be_bytes());
    key[8..12].copy_from_slice(&hash(host ^ 0xabcd).to_be_bytes()[..4]);
    key[12..].copy_from_slice(&hash(n ^ (1 << 60)).to_be_bytes());
    key
}

fn suffix(key: &Key) -> u64 {
    u64::from_be_bytes(key[12..].try_into().expect("eight bytes"))
}

/// Some state and the text of a URL's path, made from the key's hash.
fn record(key: &Key, out: &mut Vec<u8>) {
    const WORDS: [&str; 16] = [
        "news", "article", "products", "view", "the", "story", "category", "tag", "page", "2026", "archive",
        "review", "index", "world", "local", "sport",
    ];
    let h = hash(suffix(key));
    out.extend_from_slice(&[(h % 3) as u8, 2, 0, 1]);
    out.extend_from_slice(&(200_000_000 + (h >> 44) as u32).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    let word = |shift: u32| WORDS[(h >> shift) as usize % WORDS.len()];
    for shift in [0, 4, 8] {
        out.push(b'/');
        out.extend_from_slice(word(shift).as_bytes());
    }
    out.extend_from_slice(format!("-{}-{}-{}.html", word(12), word(16), h >> 40).as_bytes());
}

/// SplitMix64: the same numbers on every machine.
fn hash(n: u64) -> u64 {
    let mut x = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
