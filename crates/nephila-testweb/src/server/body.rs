//! Bodies: the pieces of an answer, or the drops of a tarpit.
//!
//! A body carries the note of its request. The note is written into the journal when the body is dropped, which is
//! when the last piece has been handed to the socket or the client has gone.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::Open;
use crate::journal::{Event, Request};

/// A tarpit ends after this many bytes, so that nothing here is endless.
const TARPIT_BYTES_MAX: u64 = 100_000;

/// The body of an answer.
pub(super) struct Body {
    pieces: std::vec::IntoIter<Bytes>,
    left: u64,
    tarpit: Option<Tarpit>,
    note: Option<Note>,
}

struct Tarpit {
    sleep: Pin<Box<Sleep>>,
    pace: Duration,
}

/// The journal record of a request.
pub(super) struct Note {
    pub(super) request: Request,
    pub(super) open: Arc<Open>,
}

impl Body {
    /// A body of these pieces.
    pub(super) fn new(pieces: Vec<Bytes>, note: Option<Note>) -> Body {
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Body { pieces: pieces.into_iter(), left, tarpit: None, note }
    }

    /// A body that comes a byte at a time.
    pub(super) fn tarpit(pace: Duration, note: Option<Note>) -> Body {
        let tarpit = Tarpit { sleep: Box::pin(tokio::time::sleep(pace)), pace };
        Body { pieces: Vec::new().into_iter(), left: TARPIT_BYTES_MAX, tarpit: Some(tarpit), note }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        if body.left == 0 {
            return Poll::Ready(None);
        }
        let piece = match &mut body.tarpit {
            None => body.pieces.next(),
            Some(tarpit) => {
                ready!(tarpit.sleep.as_mut().poll(cx));
                tarpit.sleep.as_mut().reset(Instant::now() + tarpit.pace);
                Some(Bytes::from_static(b"."))
            }
        };
        let Some(piece) = piece else { return Poll::Ready(None) };
        body.left -= piece.len() as u64;
        if let Some(note) = &mut body.note {
            note.request.bytes += piece.len() as u64;
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        match self.tarpit {
            None => SizeHint::with_exact(self.left),
            Some(_) => SizeHint::default(),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(Note { mut request, open }) = self.note.take() {
            request.is_complete = self.left == 0;
            let journal = &open.shared.journal;
            request.end_us = match request.is_complete {
                true => journal.now_us(),
                false => open.given_up_us().max(request.start_us),
            };
            journal.note(request.connection, Event::Request(request));
        }
    }
}
