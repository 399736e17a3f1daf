//! One open connection: its protocol, its witness, and the tasks that drive the connection.
//!
//! Dropping a [`Connection`] aborts its tasks, and its socket closes with them. So no server can keep either alive by
//! not reading or not closing. Until the socket is closed, no other connection to the same origin is opened: see
//! [`crate::closing`].

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use nephila_core::spider::head::HeadLimits;
use nephila_core::spider::{Outcome, Settings};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

use crate::closing::Noted;
use crate::error::{self, Hints};
use crate::live::Live;
use crate::tee::{Tee, Witness};
use crate::tls::TlsInfo;

/// HTTP/2 windows: enough for a page in flight, little enough for thousands of connections.
const H2_STREAM_WINDOW: u32 = 256 * 1024;
const H2_CONNECTION_WINDOW: u32 = 512 * 1024;
const H2_HEADER_LIST_MAX: u32 = 64 * 1024;
const H2_RESETS_MAX: usize = 16;

/// A request without a body.
pub(crate) type Request = http::Request<Empty<Bytes>>;

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: Sender,
    pub(crate) witness: Witness,
    /// The address actually dialled.
    pub(crate) address: SocketAddr,
    pub(crate) proxied: bool,
    pub(crate) tls: Option<TlsInfo>,
    tasks: Tasks,
    /// Where the tasks are registered when the connection is dropped and not yet closed.
    pub(crate) noted: Option<Noted>,
    /// Counts the connection at its address.
    pub(crate) live: Option<Live>,
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

/// The tasks of one connection. HTTP/2 has several: the library itself starts one that outlives the others until
/// the server has closed every stream, which some servers never do.
#[derive(Clone, Debug, Default)]
struct Tasks(Arc<Mutex<Vec<AbortHandle>>>);

impl Tasks {
    fn seen(&self) -> MutexGuard<'_, Vec<AbortHandle>> {
        self.0.lock().expect("nobody panics holding it")
    }
}

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        let mut tasks = self.seen();
        // HTTP/2 starts a task for every request on a kept connection.
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(future).abort_handle());
    }
}

/// Facts about a connection before HTTP starts.
pub(crate) struct Facts {
    pub(crate) address: SocketAddr,
    pub(crate) proxied: bool,
    pub(crate) tls: Option<TlsInfo>,
}

impl Connection {
    /// Starts HTTP on a stream.
    pub(crate) async fn start<S>(
        stream: S,
        h2: bool,
        facts: Facts,
        settings: &Settings,
    ) -> Result<Self, (Outcome, String, Hints)>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let witness = Witness::new(HeadLimits {
            bytes_max: settings.head_bytes_max,
            fields_max: settings.head_fields_max,
            informational_max: settings.informational_max,
        });
        let io = TokioIo::new(Tee::new(stream, witness.clone()));
        let tasks = Tasks::default();
        let sender = if h2 {
            witness.count_frames();
            let (sender, connection) = http2::Builder::new(tasks.clone())
                .initial_stream_window_size(H2_STREAM_WINDOW)
                .initial_connection_window_size(H2_CONNECTION_WINDOW)
                .max_header_list_size(H2_HEADER_LIST_MAX)
                .max_concurrent_reset_streams(H2_RESETS_MAX)
                .handshake(io)
                .await
                .map_err(|e| {
                    let (outcome, hints) = error::of_http2(&e);
                    (outcome, error::describe(&e), hints)
                })?;
            tasks.execute(async move { drop(connection.await) });
            Sender::Http2(sender)
        } else {
            let (sender, connection) = http1::Builder::new()
                .allow_spaces_after_header_name_in_responses(true)
                .allow_obsolete_multiline_headers_in_responses(true)
                .ignore_invalid_headers_in_responses(true)
                .title_case_headers(true)
                // One more than our own limit, so that the witness names the fault before the library does.
                .max_headers(settings.head_fields_max + 1)
                .max_buf_size(settings.head_bytes_max.max(8 * 1024) + 8 * 1024)
                .writev(false)
                .handshake(io)
                .await
                .map_err(|e| (Outcome::EmptyReply, error::describe(&e), Hints::default()))?;
            tasks.execute(async move { drop(connection.await) });
            Sender::Http1(sender)
        };
        Ok(Connection {
            sender,
            witness,
            address: facts.address,
            proxied: facts.proxied,
            tls: facts.tls,
            tasks,
            noted: None,
            live: None,
        })
    }

    pub(crate) fn is_h2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    /// Whether the connection is still usable, as far as known.
    pub(crate) async fn is_usable(&mut self) -> bool {
        match &mut self.sender {
            Sender::Http1(sender) => !sender.is_closed() && sender.ready().await.is_ok(),
            Sender::Http2(sender) => !sender.is_closed() && sender.ready().await.is_ok(),
        }
    }

    /// Sends a request and waits for the head of the response.
    pub(crate) async fn send(
        &mut self,
        request: Request,
    ) -> Result<http::Response<Incoming>, (Outcome, String, Hints)> {
        self.witness.restart();
        match &mut self.sender {
            Sender::Http1(sender) => sender
                .send_request(request)
                .await
                .map_err(|e| (error::of_http1(&e, &self.witness), error::describe(&e), Hints::default())),
            Sender::Http2(sender) => sender.send_request(request).await.map_err(|e| {
                if self.witness.seen().fault.is_some() {
                    let hints = Hints { wants_h1: true, unprocessed: false };
                    return (Outcome::H2Protocol, "a flood of frames without an answer".into(), hints);
                }
                let (outcome, hints) = error::of_http2(&e);
                (outcome, error::describe(&e), hints)
            }),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let tasks = self.tasks.seen();
        tasks.iter().for_each(AbortHandle::abort);
        if let Some(Noted { key, closing }) = &self.noted {
            closing.note(key, tasks.iter().cloned());
        }
    }
}
