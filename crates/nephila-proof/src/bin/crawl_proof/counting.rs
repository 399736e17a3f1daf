//! What counting costs while nobody asks: the counters, histograms and the meter of politeness that each page passes.
//!
//! One thread counts many pages of many hosts as a crawl does: the begin and the end of its request, its outcome, its phases, its
//! record and the kinds of its links.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::ensure;
use nephila_core::handler::LinkKind;
use nephila_core::spider::Outcome;
use nephila_engine::metrics::Metrics;
use nephila_engine::metrics::politeness::Promise;
use nephila_spider::Timings;

/// Pages of a round, hosts that they are of, and rounds. The quickest round counts: other programs disturb the others.
const PAGES: u32 = 50_000;
const HOSTS: u32 = 20_000;
const ROUNDS: u32 = 10;

/// Prints the nanoseconds that a page takes.
pub fn run() -> anyhow::Result<()> {
    let metrics = Metrics::default();
    let hosts: Vec<(String, IpAddr)> = (0..HOSTS)
        .map(|number| {
            (format!("http://www.site{number}.example"), Ipv4Addr::from(0x0a00_0000 + number).into())
        })
        .collect();
    let promise = Promise { rest: Duration::ZERO, connections: 1 };
    let took = Duration::from_millis(7);
    let timings = Timings {
        connect: Some(took),
        tls: Some(took),
        head: Some(took),
        body: Some(took),
        total: took,
        ..Timings::default()
    };
    let mut quickest = Duration::MAX;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for (origin, address) in hosts.iter().cycle().take(PAGES as usize) {
            metrics.politeness.begin(black_box(origin), *address, promise, promise).ended(true);
            metrics.fetched(black_box(Outcome::Fetched));
            metrics.fetch_took.add(black_box(7));
            metrics.phases.add(black_box(&timings));
            metrics.records.add(black_box("response"), 1);
            metrics.written_bytes.fetch_add(black_box(4_000), Relaxed);
            for kind in LinkKind::ALL {
                metrics.discoveries.add(black_box(kind.name()), 1);
            }
        }
        quickest = quickest.min(began.elapsed());
    }
    let nanos = quickest.as_nanos() / u128::from(PAGES);
    let counted = metrics.fetches.get().iter().map(|(_, count)| *count).sum::<u64>();
    ensure!(counted == u64::from(PAGES * ROUNDS), "{counted} pages are counted");
    println!("counting: {nanos} ns per page");
    Ok(())
}
