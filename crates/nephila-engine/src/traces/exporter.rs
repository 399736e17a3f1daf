//! The task that sends spans: in batches, with retries, one request at a time.
//!
//! Invariants: a batch waits at most [`EVERY`] for more spans; while a batch is sent, further spans wait in the queue, and
//! when the queue is full, they are dropped there. The task ends when the crawl ends or when nobody can send it spans.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use nephila_core::trace::delivery::{self, Next};
use nephila_core::trace::otlp::Batch;
use nephila_core::trace::span::Spans;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use super::Counts;
use super::collector::Collector;

/// Maximum time that spans wait for a batch to fill.
const EVERY: Duration = Duration::from_secs(5);
/// Maximum pause before a retry while the crawl ends.
const PAUSE_AT_END: Duration = Duration::from_millis(500);

/// See the module.
pub(super) struct Exporter {
    collector: Collector,
    batch: Batch,
    counts: Arc<Counts>,
    /// Whether the last batch was lost.
    is_failing: bool,
}

impl Exporter {
    pub(super) fn new(collector: Collector, batch: Batch, counts: Arc<Counts>) -> Exporter {
        Exporter { collector, batch, counts, is_failing: false }
    }

    /// Sends spans until the end is announced or all senders are gone, then what is left.
    pub(super) async fn run(mut self, mut waiting: mpsc::Receiver<Spans>, mut ending: watch::Receiver<bool>) {
        let mut due = Instant::now();
        let mut hears = true;
        loop {
            // Nobody announces the end when the crawl is dropped; then the senders go, too.
            let is_due = tokio::select! {
                biased;
                is_ending = announced(&mut ending), if hears => {
                    hears = false;
                    if is_ending {
                        // The spans in the queue are still received.
                        waiting.close();
                    }
                    false
                }
                spans = waiting.recv() => {
                    let Some(spans) = spans else { break };
                    if self.batch.spans() == 0 {
                        due = Instant::now() + EVERY;
                    }
                    self.batch.push(&spans);
                    self.batch.is_full()
                }
                () = tokio::time::sleep_until(due), if self.batch.spans() > 0 => true,
            };
            if is_due {
                self.deliver(&mut ending).await;
            }
        }
        self.deliver(&mut ending).await;
    }

    /// Sends the batch, again if the collector is busy or away.
    async fn deliver(&mut self, ending: &mut watch::Receiver<bool>) {
        let spans = self.batch.spans() as u64;
        if spans == 0 {
            return;
        }
        let body = Bytes::from(self.batch.take());
        // Differs between nodes and batches.
        let chance = xxh3_64(&body);
        let mut tries = 0;
        loop {
            tries += 1;
            let (answer, why) = self.collector.post(body.clone()).await;
            match delivery::next(answer, tries, chance >> tries) {
                Next::Sent(rejected) => {
                    let rejected = rejected.min(spans);
                    self.counts.sent.fetch_add(spans - rejected, Relaxed);
                    self.counts.failed.fetch_add(rejected, Relaxed);
                    return self.note((rejected > 0).then_some(&why));
                }
                Next::Again(time) => pause(time, ending).await,
                Next::Failed => {
                    self.counts.failed.fetch_add(spans, Relaxed);
                    return self.note(Some(&why));
                }
            }
        }
    }

    /// Tells people about the first lost batch after good ones, and about the first good one after lost ones.
    fn note(&mut self, why: Option<&String>) {
        let to = self.collector.name();
        match (why, self.is_failing) {
            (Some(why), false) => {
                tracing::warn!("traces: {to} does not take spans: {why}; the crawl goes on without them");
            }
            (None, true) => tracing::info!("traces: {to} takes spans again"),
            _ => {}
        }
        self.is_failing = why.is_some();
    }
}

/// Waits until the end of the crawl is announced: true; false if nobody can announce it.
async fn announced(ending: &mut watch::Receiver<bool>) -> bool {
    ending.wait_for(|is_ending| *is_ending).await.is_ok()
}

/// Waits before a retry, shorter if the crawl ends meanwhile.
async fn pause(time: Duration, ending: &mut watch::Receiver<bool>) {
    if !*ending.borrow() {
        tokio::select! {
            () = tokio::time::sleep(time) => return,
            true = announced(ending) => {}
        }
    }
    tokio::time::sleep(time.min(PAUSE_AT_END)).await;
}
