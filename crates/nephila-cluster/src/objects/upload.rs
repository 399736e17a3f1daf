//! Uploads of files: a long file goes to a service as a multipart upload that a restarted process resumes, and to a
//! folder as a temporary file that is renamed.
//!
//! Invariant: at most [`PARTS_AT_ONCE`] parts of a file are in memory.

use std::io::{self, Read as _, Seek as _};
use std::path::{Path as FilePath, PathBuf};

use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::ObjectStoreExt as _;
use object_store::aws::AmazonS3;
use object_store::local::LocalFileSystem;
use object_store::multipart::{MultipartStore as _, PartId};
use serde::{Deserialize, Serialize};

use super::{CALL_MAX, Error, Objects, PART_BYTES, PARTS_AT_ONCE, Store, text};

/// Progress of a multipart upload.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Upload id from the service.
    pub id: String,
    /// Part ids from the service, in order.
    pub parts: Vec<String>,
}

impl Objects {
    /// Stores a file, as a multipart upload if the file is long. `sent` is the progress of an earlier call; `note` is
    /// called after every part, and saves the progress. On return, an object of this length exists.
    pub async fn put_file(
        &self,
        name: &str,
        file: &FilePath,
        sent: Sent,
        note: impl FnMut(&Sent),
    ) -> Result<u64, Error> {
        let bytes = std::fs::metadata(file).map_err(|error| Error::file(file, error))?.len();
        if bytes < PART_BYTES {
            self.put(name, read_part(file.into(), 0, bytes).await?).await?;
        } else {
            match &self.store {
                Store::S3(store) => self.put_parts(store, name, file, bytes, sent, note).await?,
                Store::Folder(store) => self.put_stream(store, name, file, bytes).await?,
            }
        }
        match self.size(name).await? {
            Some(stored) if stored == bytes => Ok(bytes),
            stored => {
                let why = format!("it has {} bytes after {bytes} were stored", stored.unwrap_or(0));
                Err(Error::Damaged { name: name.into(), store: self.place.clone(), why })
            }
        }
    }

    /// Multipart upload; each part is retried separately.
    async fn put_parts(
        &self,
        store: &AmazonS3,
        name: &str,
        file: &FilePath,
        bytes: u64,
        mut sent: Sent,
        mut note: impl FnMut(&Sent),
    ) -> Result<(), Error> {
        let path = self.path(name);
        let count = bytes.div_ceil(PART_BYTES);
        if sent.id.is_empty() || sent.parts.len() as u64 > count {
            let id = self.tried("beginning", name, || store.create_multipart(&path)).await?;
            sent = Sent { id, parts: Vec::new() };
            note(&sent);
        }
        let (id, before) = (sent.id.clone(), sent.parts.len());
        let rest = (sent.parts.len() as u64..count).map(|index| {
            let (path, id) = (&path, &id);
            async move {
                let begin = index * PART_BYTES;
                let part = read_part(file.into(), begin, PART_BYTES.min(bytes - begin)).await?;
                let put = || store.put_part(path, id, index as usize, part.clone().into());
                self.tried("sending a part of", name, put).await
            }
        });
        let mut rest = futures_util::stream::iter(rest).buffered(PARTS_AT_ONCE);
        while let Some(part) = rest.next().await {
            match part {
                Ok(part) => sent.parts.push(part.content_id),
                Err(error) => {
                    // The service answers, but refuses further parts of an upload that an earlier process began: the
                    // service no longer knows the upload, and the next try starts over.
                    let is_first = sent.parts.len() == before && before > 0;
                    if error.is_lost() || (is_first && self.size(name).await.is_ok()) {
                        note(&Sent::default());
                    }
                    return Err(error);
                }
            }
            note(&sent);
        }
        drop(rest);
        let parts = || sent.parts.iter().map(|part| PartId { content_id: part.clone() }).collect();
        let done = self.tried("ending", name, || store.complete_multipart(&path, &id, parts())).await;
        if let Err(error) = done {
            // An earlier try may have completed the upload although its answer was lost; the length tells.
            note(&Sent::default());
            if self.size(name).await? != Some(bytes) {
                _ = tokio::time::timeout(CALL_MAX, store.abort_multipart(&path, &id)).await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Stores a file in a folder: writes a temporary file and renames the complete file. An interrupted upload starts
    /// over.
    async fn put_stream(
        &self,
        store: &LocalFileSystem,
        name: &str,
        file: &FilePath,
        bytes: u64,
    ) -> Result<(), Error> {
        let path = self.path(name);
        let mut upload = self.tried("beginning", name, || store.put_multipart(&path)).await?;
        for index in 0..bytes.div_ceil(PART_BYTES) {
            let begin = index * PART_BYTES;
            let part = read_part(file.into(), begin, PART_BYTES.min(bytes - begin)).await?;
            let put = tokio::time::timeout(CALL_MAX, upload.put_part(part.into())).await;
            if let Some(why) = failed(put) {
                _ = upload.abort().await;
                return Err(self.away("sending a part of", name, why));
            }
        }
        match failed(tokio::time::timeout(CALL_MAX, upload.complete()).await) {
            None => Ok(()),
            Some(why) => Err(self.away("ending", name, why)),
        }
    }
}

pub(super) fn failed<T>(
    result: Result<object_store::Result<T>, tokio::time::error::Elapsed>,
) -> Option<String> {
    match result {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(text(&error)),
        Err(_) => Some(format!("no answer within {} s", CALL_MAX.as_secs())),
    }
}

async fn read_part(path: PathBuf, begin: u64, bytes: u64) -> Result<Bytes, Error> {
    let place = path.clone();
    let read = move || {
        let mut file = std::fs::File::open(&path)?;
        file.seek(io::SeekFrom::Start(begin))?;
        let mut part = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        file.read_exact(&mut part)?;
        Ok(Bytes::from(part))
    };
    let read = tokio::task::spawn_blocking(read).await.map_err(io::Error::other).and_then(|read| read);
    read.map_err(|error| Error::file(&place, error))
}
