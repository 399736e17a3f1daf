//! The process as a whole: its runtime, its signals, its file handles.

use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// File handles beside those of the fetches themselves: standard streams, archive, resolver.
pub const HANDLES_SPARE: u64 = 256;

/// The runtime, with this number of threads that fetch and parse pages; 0 for the number of cores.
pub fn runtime(threads: usize) -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if threads > 0 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build().context("starting the runtime")
}

/// A runtime on the calling thread, for a command that only asks.
pub fn small_runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")
}

/// Runs a future to its end on this thread. Boxes it: tokio's `block_on` compiles a future four times into the program.
pub fn block_on<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    fn boxed<T>(runtime: &Runtime, future: Pin<Box<dyn Future<Output = T> + '_>>) -> T {
        runtime.block_on(future)
    }
    boxed(runtime, Box::pin(future))
}

/// Requests to stop: SIGINT and SIGTERM for a program, a [`Notify`] for an embedded crawl.
#[derive(Debug)]
pub enum Signals {
    /// SIGINT, then SIGTERM.
    System(Signal, Signal),
    /// The notification of an embedder.
    Embedded(Arc<Notify>),
}

impl Signals {
    /// Registers handlers for both signals. Fails if the system refuses a handler.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Signals::System(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    /// Waits for the next request to stop.
    pub async fn next(&mut self) {
        match self {
            Signals::Embedded(stop) => stop.notified().await,
            Signals::System(interrupt, terminate) => tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            },
        }
    }
}

/// Raises the limit of file handles to the maximum, and warns if that is not enough.
pub fn raise_handle_limit(concurrency: u32) {
    let Ok((_, hard)) = rlimit::Resource::NOFILE.get() else { return };
    let _ = rlimit::Resource::NOFILE.set(hard, hard);
    if hard < u64::from(concurrency) + HANDLES_SPARE {
        tracing::warn!(
            "--concurrency {concurrency} wants more file handles than the limit of {hard}; fetches will wait for free ones (ulimit -n)"
        );
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_crawl_has_as_many_threads_as_the_settings_say() {
        for threads in [1, 3] {
            assert_eq!(super::runtime(threads).unwrap().metrics().num_workers(), threads);
        }
        let cores = std::thread::available_parallelism().unwrap().get();
        assert_eq!(super::runtime(0).unwrap().metrics().num_workers(), cores);
    }
}
