//! The server of an address, on threads of its own.
//!
//! The threads of the crawl are busy as long as there are pages. There an answer would wait behind each page that is ready
//! to go on, and the system gives a thread that never rests no turn before others. A thread that mostly waits gets one
//! soon.
//!
//! Invariant: dropping the value ends all connections.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

use super::guard::Guard;
use super::http::serve;
use super::routes::Answers;

/// Threads that answer: what takes long on one of them holds nobody up on the other.
const THREADS: usize = 2;

/// See the module.
pub struct Apart(Option<Runtime>);

impl Apart {
    /// Starts to serve, as [`serve`] does.
    pub fn serve<A: Answers>(
        listener: TcpListener,
        answers: Arc<A>,
        guard: Guard,
        tls: Option<TlsAcceptor>,
        connections_max: usize,
    ) -> io::Result<Apart> {
        let runtime =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("api").enable_all().build()?;
        // A socket belongs to the threads that wait for it.
        let listener = listener.into_std()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        runtime.spawn(serve(listener, answers, guard, tls, connections_max));
        Ok(Apart(Some(runtime)))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Without waiting: the caller may be a thread that must not.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Apart")
    }
}
