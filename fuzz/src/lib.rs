//! Shared by the fuzz targets: an oracle of work.
//!
//! A parser of foreign bytes takes time in proportion to its input. [`linear`] looks for input on which a parser does
//! not: the function splits an input into a start, a middle and an end, repeats the middle until the whole is long, and
//! compares the CPU time of the parser with the CPU time for four times as much, which is twice as much twice. The
//! fuzzer chooses the bytes and, by the last two of them, the places of the split. Input that grows can pass from a
//! cheap part of a format into a dear one (from the extra field of a gzip head into its name), which is a step and no
//! slope: the verdict needs two fourfold sizes in a row that both cost too much.
//!
//! Only one input in [`MEASURED_ONE_IN`] is measured, since measuring costs as much as hundreds of inputs; the choice
//! is a function of the bytes, so that a failure can be repeated.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use xxhash_rust::xxh3::xxh3_64;

/// Maximum growth of CPU time when the input doubles.
const GROWTH_MAX: f64 = 2.5;
/// Maximum CPU time of one input of [`BYTES`], in a build with counters and assertions.
const CPU_MAX: Duration = Duration::from_secs(2);
/// Minimum CPU time of a usable measurement of growth.
const MEASURABLE: Duration = Duration::from_millis(4);
/// Size in bytes of the smaller of the two inputs.
const BYTES: usize = 64 * 1024;
/// One input in this number is measured.
const MEASURED_ONE_IN: u64 = 256;
/// Number of runs of which the least counts, and number of measurements before a bad verdict stands: machines are
/// shared.
const RUNS: usize = 3;
const LOOKS: usize = 5;

/// Fails if `read` takes more than [`GROWTH_MAX`] times as long for twice the input, over two fourfold steps in a row,
/// or more CPU time than the limit.
pub fn linear(data: &[u8], read: impl Fn(&[u8])) {
    let [content @ .., from, to] = data else { return };
    if content.is_empty() || !xxh3_64(data).is_multiple_of(MEASURED_ONE_IN) {
        return;
    }
    let at = |byte: u8| content.len() * usize::from(byte) / 256;
    let (from, to) = (at(*from.min(to)), at(*from.max(to)) + 1);
    let pumped = |bytes: usize| {
        let (start, middle, end) = (&content[..from], &content[from..to], &content[to..]);
        [start, &middle.repeat(bytes / middle.len()), end].concat()
    };
    let least = |bytes: usize| {
        let input = pumped(bytes);
        (0..RUNS).map(|_| cpu_of(|| read(&input))).min().unwrap_or_default()
    };
    let mut worst = None;
    for _ in 0..LOOKS {
        let (single, fourfold) = (least(BYTES), least(4 * BYTES));
        let is_slope = || !is_good(least(BYTES / 4), single) || !is_good(fourfold, least(16 * BYTES));
        if is_good(single, fourfold) || single <= CPU_MAX && !is_slope() {
            return;
        }
        worst = Some((single, fourfold));
    }
    panic!(
        "{BYTES} bytes, and four times as many, take {worst:?}; {:?} is repeated",
        String::from_utf8_lossy(&content[from..to])
    );
}

fn is_good(single: Duration, fourfold: Duration) -> bool {
    let most = GROWTH_MAX * GROWTH_MAX * single.as_secs_f64();
    let grows = fourfold > MEASURABLE && fourfold.as_secs_f64() > most;
    !grows && single <= CPU_MAX
}

fn cpu_of(work: impl FnOnce()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    };
    let began = now();
    work();
    now() - began
}
