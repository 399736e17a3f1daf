//! What storing a page costs in CPU time, beside the bare compression of the same bytes.
//!
//!     append_cost [PAGES]
//!
//! Prints one line per compression: microseconds of CPU per page of 20 KB for the archive (digests, three records,
//! index, writing, syncs) and for one call of libdeflate or zstd, and their ratio. Meaningful only with `--release`.

use std::time::Duration;

use bytes::Bytes;
use nephila_core::store::Exchange;
use nephila_core::time::Timestamp;
use nephila_store::archive::{Archive, Compression, Settings, WarcInfo};

const PAGE_BYTES: usize = 20_000;
/// Appends at once.
const TASKS: usize = 16;

fn main() {
    let pages: usize = std::env::args().nth(1).map_or(5_000, |text| text.parse().expect("a number of pages"));
    let bodies: Vec<Bytes> = (0..pages).map(|n| Bytes::from(page(n as u64))).collect();
    for compression in [Compression::Gzip { level: 1 }, Compression::Zstd { level: 3 }, Compression::None] {
        let bare = bare(compression, &bodies);
        let archive = archive(compression, &bodies);
        let per_page = |time: Duration| time.as_secs_f64() * 1e6 / pages as f64;
        let ratio = if bare.is_zero() { 0.0 } else { archive.as_secs_f64() / bare.as_secs_f64() };
        println!(
            "{compression}: archive {:.1} us/page, bare compression {:.1} us/page, ratio {ratio:.2}",
            per_page(archive),
            per_page(bare)
        );
    }
}

fn bare(compression: Compression, bodies: &[Bytes]) -> Duration {
    let start = cpu();
    let mut out = vec![0; 2 * PAGE_BYTES];
    match compression {
        Compression::Gzip { level } => {
            let level = libdeflater::CompressionLvl::new(i32::from(level)).expect("a level");
            let mut compressor = libdeflater::Compressor::new(level);
            for body in bodies {
                compressor.gzip_compress(body, &mut out).expect("fits");
            }
        }
        Compression::Zstd { level } => {
            let mut compressor = zstd::bulk::Compressor::new(i32::from(level)).expect("a compressor");
            for body in bodies {
                compressor.compress_to_buffer(body, &mut out[..]).expect("fits");
            }
        }
        Compression::None => return Duration::ZERO,
    }
    cpu() - start
}

fn archive(compression: Compression, bodies: &[Bytes]) -> Duration {
    let dir = std::env::temp_dir().join(format!("append-cost-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let spent = runtime.block_on(async {
        let archive =
            Archive::open(&dir, Settings { compression, ..Settings::default() }, WarcInfo::default())
                .expect("open");
        let start = cpu();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let archive = archive.clone();
                let mine: Vec<(usize, Bytes)> =
                    bodies.iter().cloned().enumerate().skip(task).step_by(TASKS).collect();
                tokio::spawn(async move {
                    for (n, body) in mine {
                        archive.append(exchange(n, body)).await.expect("stored");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        let spent = cpu() - start;
        archive.close().await.expect("close");
        spent
    });
    std::fs::remove_dir_all(&dir).expect("removed");
    spent
}

fn exchange(n: usize, body: Bytes) -> Exchange {
    Exchange {
        url: format!("http://site.test/articles/2026/11/{n}.html"),
        started: Timestamp::from_secs(1_794_697_089),
        elapsed_ms: 42,
        address: Some("127.0.0.1".parse().expect("an address")),
        protocols: vec!["http/1.1"],
        request_head: Bytes::from_static(
            b"GET / HTTP/1.1\r\nHost: site.test\r\nUser-Agent: Mozilla/5.0 (compatible; ExampleBot/0.1)\r\nAccept: */*\r\n\r\n",
        ),
        response_head: Bytes::from_static(
            b"HTTP/1.1 200 OK\r\nServer: x\r\nDate: Sat, 14 Nov 2026 22:58:09 GMT\r\nContent-Type: text/html\r\nVary: *\r\n\r\n",
        ),
        body: Box::new(body),
        truncated: None,
        notes: [("via", "http://site.test/"), ("hopsFromSeed", "LL")].into(),
        text: "".into(),
        media: None,
    }
}

/// Text with the regularity of a page: words, some tags.
fn page(seed: u64) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "archive",
        "the",
        "of",
        "crawler",
        "<p>",
        "</p>\n",
        "and",
        "spider",
        "web",
        "a",
        "<a href=\"/",
        "\">",
        "</a>",
        "page",
        "is",
        "frontier",
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(PAGE_BYTES + 16);
    while out.len() < PAGE_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(WORDS[(state % 16) as usize].as_bytes());
        if state & 0x70 == 0 {
            out.extend_from_slice(format!("{:x}", state >> 40).as_bytes());
        }
        out.push(b' ');
    }
    out.truncate(PAGE_BYTES);
    out
}

/// CPU time of this process, all threads.
fn cpu() -> Duration {
    // SAFETY: getrusage writes a plain struct that we own.
    #[allow(unsafe_code, reason = "the standard library has no CPU clock")]
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}
