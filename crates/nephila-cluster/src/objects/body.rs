//! Bodies of captures as objects, and URLs by which others read them.
//!
//! Invariant: at most [`PARTS_HELD`] parts of a body are in memory.

use std::io::{self, Read as _};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use nephila_core::store::Payload;
use object_store::signer::Signer as _;
use object_store::{Attribute, Attributes, PutMultipartOptions, PutOptions};
use tokio::sync::mpsc;

use super::upload::failed;
use super::{CALL_MAX, Content, Error, Objects, PART_BYTES, Store};

/// Maximum parts of a body in memory: one is read, one waits, one is sent.
pub const PARTS_HELD: u64 = 3;

/// What an object store tells the readers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Content-Encoding`.
    pub content_encoding: Option<String>,
}

impl Label {
    fn attributes(self) -> Attributes {
        let said = [
            (Attribute::ContentType, self.content_type),
            (Attribute::ContentEncoding, self.content_encoding),
        ];
        said.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl Objects {
    /// Stores a body, as a multipart upload if the body is long. On return, an object of this length exists.
    pub async fn put_body(&self, name: &str, body: &dyn Payload, label: Label) -> Result<(), Error> {
        let attributes = match &self.store {
            Store::S3(_) => label.attributes(),
            // A folder keeps no labels.
            Store::Folder(_) => Attributes::new(),
        };
        let bytes = body.len();
        let mut parts = parts(body.share());
        if bytes < PART_BYTES {
            let whole = self.next(&mut parts, name).await?;
            let path = self.path(name);
            let put = || {
                let options = PutOptions { attributes: attributes.clone(), ..PutOptions::default() };
                self.api().put_opts(&path, whole.clone().into(), options)
            };
            self.tried("storing", name, put).await?;
        } else {
            self.put_long(name, bytes, &mut parts, attributes).await?;
        }
        match self.size(name).await? {
            Some(stored) if stored == bytes => Ok(()),
            stored => {
                let why = format!("it has {} bytes after {bytes} were stored", stored.unwrap_or(0));
                Err(Error::Damaged { name: name.into(), store: self.place.clone(), why })
            }
        }
    }

    /// Multipart upload. After a failure nothing of it stays, and the next try starts over.
    async fn put_long(
        &self,
        name: &str,
        bytes: u64,
        parts: &mut mpsc::Receiver<io::Result<Bytes>>,
        attributes: Attributes,
    ) -> Result<(), Error> {
        let path = self.path(name);
        let options = || PutMultipartOptions { attributes: attributes.clone(), ..Default::default() };
        let begin = || self.api().put_multipart_opts(&path, options());
        let mut upload = self.tried("beginning", name, begin).await?;
        for _ in 0..bytes.div_ceil(PART_BYTES) {
            let sent = match self.next(parts, name).await {
                Ok(part) => failed(tokio::time::timeout(CALL_MAX, upload.put_part(part.into())).await)
                    .map(|why| self.away("sending a part of", name, why)),
                Err(error) => Some(error),
            };
            if let Some(error) = sent {
                _ = tokio::time::timeout(CALL_MAX, upload.abort()).await;
                return Err(error);
            }
        }
        match failed(tokio::time::timeout(CALL_MAX, upload.complete()).await) {
            None => Ok(()),
            Some(why) => Err(self.away("ending", name, why)),
        }
    }

    async fn next(&self, parts: &mut mpsc::Receiver<io::Result<Bytes>>, name: &str) -> Result<Bytes, Error> {
        let part = parts.recv().await.unwrap_or_else(|| Err(io::Error::other("its reader ended")));
        part.map_err(|source| Error::File { path: format!("the body of {name}").into(), source })
    }

    /// Reads an object into memory and verifies length and digest. The caller limits the length.
    pub async fn get_whole(&self, name: &str, wanted: &Content) -> Result<Bytes, Error> {
        let mut whole = Vec::with_capacity(usize::try_from(wanted.bytes).unwrap_or(0));
        let read = self.read(name, wanted, |part| {
            whole.extend_from_slice(part);
            Ok(())
        });
        read.await?.map_err(|source| Error::File { path: name.into(), source })?;
        Ok(whole.into())
    }

    /// A URL by which anybody can read an object for this time; none for a folder.
    pub async fn signed(&self, name: &str, time: Duration) -> Result<Option<String>, Error> {
        let Store::S3(store) = &self.store else { return Ok(None) };
        let path = self.path(name);
        let url = self.tried("signing a URL of", name, || store.signed_url(Method::GET, &path, time)).await?;
        Ok(Some(url.into()))
    }
}

/// Reads a body on a thread that may block, part by part.
fn parts(body: Box<dyn Payload>) -> mpsc::Receiver<io::Result<Bytes>> {
    let (send, receive) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        let mut left = body.len();
        let mut reader = match body.reader() {
            Ok(reader) => reader,
            Err(error) => return drop(send.blocking_send(Err(error))),
        };
        while left > 0 {
            let length = left.min(PART_BYTES);
            let mut part = vec![0; length as usize];
            let read = reader.read_exact(&mut part).map(|()| Bytes::from(part));
            let is_broken = read.is_err();
            // Nobody reads on after a failed upload.
            if send.blocking_send(read).is_err() || is_broken {
                return;
            }
            left -= length;
        }
    });
    receive
}
