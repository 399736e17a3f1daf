//! Body of an answer: whole, or a stream of pieces without a known end.
//!
//! Invariant: a body never fails; a stream that cannot go on ends.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

/// Pieces of an answer, as they come.
type Pieces = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// See the module.
pub enum Content {
    /// A body that is known as a whole.
    Whole(Full<Bytes>),
    /// A body whose pieces come later.
    Pieces(Pieces),
}

impl Content {
    /// A body that is known as a whole.
    pub fn whole(bytes: impl Into<Bytes>) -> Content {
        Content::Whole(Full::new(bytes.into()))
    }

    /// A body whose pieces come later.
    pub fn pieces(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Content {
        Content::Pieces(Box::pin(pieces))
    }

    /// Whether the pieces come later.
    pub fn is_stream(&self) -> bool {
        matches!(self, Content::Pieces(_))
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_stream() { "Content::Pieces" } else { "Content::Whole" })
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Content::Whole(body) => Pin::new(body).poll_frame(context),
            Content::Pieces(pieces) => {
                pieces.as_mut().poll_next(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Content::Whole(body) => body.is_end_stream(),
            Content::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(body) => body.size_hint(),
            Content::Pieces(_) => SizeHint::default(),
        }
    }
}
