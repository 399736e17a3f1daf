//! Hot captures in memory: a page that many clients read costs one read of the archive (SEEDS E12).
//!
//! A capture never changes, so its bytes need no invalidation: they are kept by file and offset as long as there is
//! room. Which capture is the best for a URL does change; that answer is kept for [`FRESH`]. Several requests for the same
//! capture at the same time are one read.
//!
//! Invariants: at most the given number of bytes, in captures and lines together; an answer is at most [`FRESH`] old.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nephila_core::store::cdxj::Line;
use nephila_store::captures::Capture;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Maximum age of the answer which capture is the best for a URL.
pub(crate) const FRESH: Duration = Duration::from_secs(2);
/// A capture larger than this part of the cache is not kept.
const LARGEST: usize = 16;
/// This part of the cache is for lines.
const LINES: usize = 16;
/// Typical size of an entry, from which the tables are sized.
const TYPICAL_BYTES: usize = 16 << 10;
/// Size in bytes of an entry besides its texts.
const ENTRY_BYTES: usize = 200;

/// URL and time of a request.
type Asked = (String, Option<String>);
/// File and offset of a record.
type Place = (String, u64);

/// The cache of an archive.
#[derive(Debug)]
pub(crate) struct Hot {
    bytes_max: usize,
    lines: Cache<Asked, (Instant, Option<Arc<Line>>), Sizes>,
    captures: Cache<Place, Arc<Capture>, Sizes>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Sizes of entries.
#[derive(Clone, Debug)]
struct Sizes;

fn size_of(capture: &Capture) -> usize {
    let fields: usize = capture.header.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    ENTRY_BYTES + fields + capture.http.len() + capture.body.len()
}

impl Weighter<Place, Arc<Capture>> for Sizes {
    fn weight(&self, place: &Place, capture: &Arc<Capture>) -> u64 {
        (place.0.len() + size_of(capture)) as u64
    }
}

impl Weighter<Asked, (Instant, Option<Arc<Line>>)> for Sizes {
    fn weight(&self, asked: &Asked, line: &(Instant, Option<Arc<Line>>)) -> u64 {
        // A line has the URL twice: as the key, and as text.
        let line = line.1.as_ref().map_or(0, |line| 2 * line.capture.url.len() + ENTRY_BYTES);
        (asked.0.len() + line + ENTRY_BYTES) as u64
    }
}

impl Hot {
    /// A cache of this size; 0 keeps nothing.
    pub(crate) fn new(bytes_max: usize) -> Hot {
        let (lines, captures) = (bytes_max / LINES, bytes_max - bytes_max / LINES);
        Hot {
            bytes_max,
            lines: Cache::with_weighter(lines / (2 * ENTRY_BYTES), lines as u64, Sizes),
            captures: Cache::with_weighter(captures / TYPICAL_BYTES, captures as u64, Sizes),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The line of the best capture, as it was at most [`FRESH`] ago; otherwise read by `read`.
    pub(crate) async fn line<E>(
        &self,
        asked: &Asked,
        read: impl Future<Output = Result<Option<Line>, E>>,
    ) -> Result<Option<Arc<Line>>, E> {
        if let Some((at, line)) = self.lines.get(asked)
            && at.elapsed() < FRESH
        {
            return Ok(line);
        }
        // Before the read: what changes meanwhile counts as newer.
        let began = Instant::now();
        let line = read.await?.map(Arc::new);
        if self.bytes_max > 0 {
            self.lines.insert(asked.clone(), (began, line.clone()));
        }
        Ok(line)
    }

    /// The capture of a line, and whether it was in memory; otherwise read by `read`, once for all who wait for it.
    pub(crate) async fn capture<E>(
        &self,
        line: &Line,
        read: impl Future<Output = Result<Capture, E>>,
    ) -> Result<(Arc<Capture>, bool), E> {
        let place = (line.filename.clone(), line.offset);
        // The length on disk is a lower bound of the size.
        if line.length as usize > self.bytes_max / LARGEST {
            return Ok((Arc::new(read.await?), false));
        }
        let mut was_read = false;
        let guarded = async {
            was_read = true;
            read.await.map(Arc::new)
        };
        let capture = self.captures.get_or_insert_async(&place, guarded).await?;
        if size_of(&capture) > self.bytes_max / LARGEST {
            self.captures.remove(&place);
        }
        let counter = if was_read { &self.misses } else { &self.hits };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok((capture, !was_read))
    }

    /// Numbers of captures that were in memory, and of those that were read.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed)]
    }

    /// Bytes that are kept.
    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.lines.weight() + self.captures.weight()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use nephila_core::store::cdxj;

    use super::*;

    fn line(number: u64) -> Line {
        let capture = cdxj::Capture { url: format!("http://a.test/{number}"), ..cdxj::Capture::default() };
        Line { key: String::new(), capture, length: 300, offset: number, filename: "a.warc.gz".into() }
    }

    fn capture(bytes: usize) -> Capture {
        Capture {
            header: Default::default(),
            http: Vec::new(),
            body: vec![b'x'; bytes],
            origin: None,
            media: None,
        }
    }

    async fn read(hot: &Hot, number: u64, bytes: usize) -> bool {
        hot.capture(&line(number), async { Ok::<_, Infallible>(capture(bytes)) }).await.unwrap().1
    }

    #[tokio::test]
    async fn the_cache_stays_within_its_bytes() {
        let hot = Hot::new(1 << 20);
        for number in 0..200_000_u64 {
            read(&hot, number % 5_000, 100 + (number * 7_919 % 3_000) as usize).await;
            let asked = (format!("http://a.test/{number}"), None);
            hot.line(&asked, async { Ok::<_, Infallible>(Some(line(number))) }).await.unwrap();
            assert!(hot.bytes() <= 1 << 20, "{} bytes after {number}", hot.bytes());
        }
        let [hits, misses] = hot.counts();
        assert!(hits + misses == 200_000 && misses > 5_000, "{hits} hits, {misses} misses");
        // One that is large would take the place of many.
        assert!(!read(&hot, 9_999, 200_000).await && !read(&hot, 9_999, 200_000).await);
    }

    #[tokio::test]
    async fn many_who_want_the_same_cause_one_read() {
        let (hot, reads) = (Arc::new(Hot::new(1 << 20)), Arc::new(AtomicU64::new(0)));
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (hot, reads) = (hot.clone(), reads.clone());
                tokio::spawn(async move {
                    let read = async {
                        reads.fetch_add(1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        Ok::<_, Infallible>(capture(10))
                    };
                    hot.capture(&line(1), read).await.unwrap().0.body.len()
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), 10);
        }
        assert_eq!((reads.load(Ordering::SeqCst), hot.counts()), (1, [49, 1]));
    }

    #[tokio::test]
    async fn a_failed_read_is_not_kept_and_the_next_one_reads() {
        let hot = Hot::new(1 << 20);
        let failed = hot.capture(&line(1), async { Err::<Capture, _>("no disk") }).await;
        assert_eq!(failed.unwrap_err(), "no disk");
        assert!(!read(&hot, 1, 10).await && read(&hot, 1, 10).await);
    }

    #[tokio::test]
    async fn the_best_capture_is_known_for_two_seconds() {
        let hot = Hot::new(1 << 20);
        let asked = ("http://a.test/".to_owned(), None);
        let offset = async |number: u64| {
            let read = async { Ok::<_, Infallible>(Some(line(number))) };
            hot.line(&asked, read).await.unwrap().unwrap().offset
        };
        assert_eq!((offset(1).await, offset(2).await), (1, 1));
        tokio::time::sleep(FRESH + Duration::from_millis(10)).await;
        assert_eq!(offset(3).await, 3);
        // Without a cache every answer is read.
        let none = Hot::new(0);
        assert!(!read(&none, 1, 10).await && !read(&none, 1, 10).await);
    }
}
