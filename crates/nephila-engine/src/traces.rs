//! Traces of sampled tickets, sent to a collector of OpenTelemetry by OTLP over HTTP with JSON.
//!
//! [`Trace`] records one ticket while it is carried through the crawl and hands its spans over at the end; [`exporter`] is
//! the task that sends them in batches, [`collector`] the HTTP client. Ids, spans, bytes and retries are decided in
//! [`nephila_core::trace`].
//!
//! The exporter is our own: a handful of spans with fixed names as JSON needs no SDK. The OpenTelemetry crates for the same
//! (SDK, OTLP, protobuf, HTTP) would add dozens of packages to every build, and a second HTTP client.
//!
//! Invariants: the crawl never waits for a trace: a full queue drops the spans of the ticket and counts them. A ticket that
//! is not sampled allocates nothing and reads no clock here; the spider takes the times of every fetch, as metrics need them,
//! and over HTTP/1 those of the request and of the first byte too. Every span is counted exactly once as sent, dropped or
//! failed.

mod collector;
mod exporter;
mod trace;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nephila_core::frontier::ticket::{Ticket, TicketId};
use nephila_core::key::Secret;
use nephila_core::time::Timestamp;
use nephila_core::trace::otlp::Batch;
use nephila_core::trace::span::Spans;
use nephila_core::trace::{Sampler, TraceId};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::settings::Settings;

use self::collector::Collector;
use self::exporter::Exporter;
pub(crate) use self::trace::Trace;

/// Maximum number of tickets whose spans wait for the exporter.
const WAITING_MAX: usize = 1_024;
/// Maximum time for sending what is left at the end of a crawl.
const FLUSH_MAX: Duration = Duration::from_secs(5);

/// Traces of a crawl. Cheap to clone. Off by default.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<Running>>);

#[derive(Debug)]
struct Running {
    sampler: Sampler,
    secret: Secret,
    /// When this run of the crawl began.
    run: Timestamp,
    queue: mpsc::Sender<Spans>,
    counts: Arc<Counts>,
    /// None once the end was announced.
    task: Mutex<Option<(watch::Sender<bool>, JoinHandle<()>)>>,
}

/// Spans by result, since the start.
#[derive(Debug, Default)]
struct Counts {
    /// Handed to the exporter.
    taken: AtomicU64,
    /// Accepted by the collector.
    sent: AtomicU64,
    /// Not taken, because the queue was full or closed.
    dropped: AtomicU64,
    /// Refused by the collector, or not delivered.
    failed: AtomicU64,
}

impl Traces {
    /// Starts the exporter if the settings say so. `run` is the time at which the crawl begins.
    pub fn start(settings: &Settings, secret: &Secret, run: Timestamp) -> anyhow::Result<Traces> {
        let of = &settings.traces;
        if !of.is_on() {
            return Ok(Traces::default());
        }
        let collector = Collector::new(of)?;
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let (end, ending) = watch::channel(false);
        let counts = Arc::<Counts>::default();
        let version = env!("CARGO_PKG_VERSION");
        let instance = match &*settings.cluster.node {
            "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            node => node.to_owned(),
        };
        let resource = [
            ("service.name", &*of.service_name),
            ("service.version", version),
            ("service.instance.id", &*instance),
        ];
        let exporter = Exporter::new(collector, Batch::new(&resource, version), counts.clone());
        let task = tokio::spawn(exporter.run(waiting, ending));
        let (sampler, secret, task) = (Sampler::new(of.share), *secret, Mutex::new(Some((end, task))));
        Ok(Traces(Some(Arc::new(Running { sampler, secret, run, queue, counts, task }))))
    }

    /// The id of a ticket's trace, if the ticket is sampled.
    pub fn id_of(&self, ticket: TicketId) -> Option<TraceId> {
        let running = self.0.as_ref().filter(|running| running.sampler.takes(ticket))?;
        Some(TraceId::of(&running.secret, running.run, ticket))
    }

    /// Begins the trace of a ticket; the result records nothing if the ticket is not sampled. `job` is the name of its job.
    pub(crate) fn begin(&self, ticket: &Ticket, job: impl FnOnce() -> Option<String>) -> Trace {
        match (&self.0, self.id_of(ticket.id)) {
            (Some(running), Some(id)) => Trace::begin(running.clone(), id, ticket, job()),
            _ => Trace::none(),
        }
    }

    /// Spans by result; none if there are no traces.
    pub fn counts(&self) -> Option<[(&'static str, u64); 3]> {
        let counts = &self.0.as_ref()?.counts;
        let get = |count: &AtomicU64| count.load(Relaxed);
        Some([
            ("sent", get(&counts.sent)),
            ("dropped", get(&counts.dropped)),
            ("failed", get(&counts.failed)),
        ])
    }

    /// Sends what waits, within [`FLUSH_MAX`]. Later spans are dropped.
    pub async fn flush(&self) {
        let Some(running) = &self.0 else { return };
        let task = running.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((end, mut task)) = task else { return };
        // An exporter that has ended hears nothing.
        _ = end.send(true);
        if tokio::time::timeout(FLUSH_MAX, &mut task).await.is_err() {
            task.abort();
            _ = task.await;
            let counts = &running.counts;
            let ended = counts.sent.load(Relaxed) + counts.failed.load(Relaxed);
            let left = counts.taken.load(Relaxed).saturating_sub(ended);
            counts.failed.fetch_add(left, Relaxed);
            tracing::warn!("traces: {left} spans could not be sent within {} s", FLUSH_MAX.as_secs());
        }
    }
}

impl Running {
    /// Hands the spans of a ticket to the exporter, or drops them.
    fn give(&self, spans: Spans) {
        let number = spans.all().len() as u64;
        self.counts.taken.fetch_add(number, Relaxed);
        if self.queue.try_send(spans).is_err() {
            self.counts.taken.fetch_sub(number, Relaxed);
            self.counts.dropped.fetch_add(number, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
