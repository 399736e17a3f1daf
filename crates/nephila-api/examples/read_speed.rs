//! How much the cache of captures helps: reads of a crawl folder with Zipf(1) popularity, with the shipped
//! `api.cache_bytes` and without a cache, one after the other in the same process. The cache is measured twice: from the
//! moment when it is empty, where many reads are the first of their page, and after as many reads again.
//!
//!     cargo run --release -p nephila-api --example read_speed -- FOLDER [READS]
//!
//! Prints reads per second of all, and the ratio of the last to the first. A read is one answer of `GET pages`, without the socket.

// An example is a program: it has a clock and an output.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros)]

use std::path::Path;
use std::time::Instant;

use http::{HeaderMap, Method, StatusCode};
use nephila_api::web::{ReadOnly, ReadPages};
use nephila_api::{HttpQuestion, escaped};
use nephila_engine::settings::Settings;
use nephila_store::captures::Captures;

/// Number of reads without an argument.
const READS: usize = 20_000;
/// Maximum number of URLs that are read.
const URLS_MAX: usize = 10_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or_else(|| anyhow::anyhow!("name the folder of a crawl"))?;
    let reads = args.next().map_or(Ok(READS), |reads| reads.parse())?;
    let folder = Path::new(&folder);
    let mut urls = Vec::new();
    for line in Captures::new(folder).all()?.take(URLS_MAX) {
        urls.push(line?.capture.url);
    }
    urls.sort_unstable();
    urls.dedup();
    anyhow::ensure!(!urls.is_empty(), "the folder has no captures");
    let chosen = zipf(urls.len(), 2 * reads);
    let (first, then) = chosen.split_at(reads);
    let bytes = Settings::default().api.cache_bytes();
    let plain = rate(&ReadOnly::new(folder, "plain"), &urls, then).await?;
    let archive = ReadOnly::new(folder, "cached").with_cache(bytes);
    let filling = rate(&archive, &urls, first).await?;
    let cached = rate(&archive, &urls, then).await?;
    println!("{} URLs, {reads} reads of each kind, Zipf(1), one at a time", urls.len());
    println!("without a cache                     {plain:>10.0} reads/s");
    println!("{:>3} MiB of cache, empty at first    {filling:>10.0} reads/s", bytes >> 20);
    println!("{:>3} MiB of cache, as it is then     {cached:>10.0} reads/s", bytes >> 20);
    println!("ratio                               {:>10.1}", cached / plain);
    Ok(())
}

/// Reads one URL after the other, and returns how many in a second.
async fn rate(archive: &ReadOnly, urls: &[String], chosen: &[usize]) -> anyhow::Result<f64> {
    let began = Instant::now();
    for number in chosen {
        let target = format!("/api/v1/pages?as=body&url={}", escaped(&urls[*number]));
        let asked = HttpQuestion::new(Method::GET, &target, HeaderMap::new(), false);
        let status = archive.read_page(asked).await.status();
        anyhow::ensure!(status == StatusCode::OK, "{}: {status}", urls[*number]);
    }
    Ok(chosen.len() as f64 / began.elapsed().as_secs_f64())
}

/// Numbers below `count`, of which number `k` comes with a probability of 1/(k+1) of the first; the same in every run.
fn zipf(count: usize, length: usize) -> Vec<usize> {
    let mut sums = Vec::with_capacity(count);
    let mut sum = 0.0;
    for rank in 1..=count {
        sum += 1.0 / rank as f64;
        sums.push(sum);
    }
    let mut state = 1_u64;
    let mut next = || {
        // splitmix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let part = ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        sums.partition_point(|upto| *upto < part * sum).min(count - 1)
    };
    (0..length).map(|_| next()).collect()
}
