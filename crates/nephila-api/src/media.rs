//! Bodies of captures in an object store, as the API reads them.

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use nephila_core::store::Media;

/// A result that comes later.
type Later<'a, T> = Pin<Box<dyn Future<Output = anyhow::Result<T>> + Send + 'a>>;

/// The object store of media.
pub trait ReadMedia: fmt::Debug + Send + Sync {
    /// A URL by which a client reads the body itself; none if the store has no address for others.
    fn url<'a>(&'a self, media: &'a Media) -> Later<'a, Option<String>>;

    /// The body, whole and with the right digest.
    fn body<'a>(&'a self, media: &'a Media) -> Later<'a, Bytes>;
}
