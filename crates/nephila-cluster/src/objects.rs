//! The object store: a bucket of an S3-compatible service, or a folder that all nodes see.
//!
//! Snapshots and closed archive files are stored there. An object is written once under a name that no other content
//! ever has, so nothing here relies on conditional writes, which some services accept and do not honour. A large file
//! is sent as a multipart upload; the progress can be saved ([`Sent`]), so that a restarted process resumes and sends
//! only the missing parts.
//!
//! Invariants: every call ends, by a result or by its timeout; a failed call is retried a few times with backoff, and
//! the error names the object, the store and a remedy; at most [`PARTS_AT_ONCE`] parts of a file are in memory.

mod body;
mod upload;

use std::io::{self, Read as _, Write as _};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context as Hash, SHA256};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt as _, RetryConfig};
use serde::{Deserialize, Serialize};

use nephila_engine::settings;

pub use body::{Label, PARTS_HELD};
pub use upload::Sent;

/// Part size of a multipart upload, and the minimum file length for one. Services ask for at least 5 MiB; all parts but
/// the last are equal.
pub const PART_BYTES: u64 = 16 << 20;
/// Maximum number of parts of one file that are sent concurrently.
pub const PARTS_AT_ONCE: usize = 2;
/// Timeout for one try of a part or a small object.
const CALL_MAX: Duration = Duration::from_secs(60);
/// Maximum number of tries of a call.
const TRIES_MAX: u32 = 3;
/// Backoff before the second try; doubles with each further try.
const REST_FIRST: Duration = Duration::from_millis(250);
/// Timeout of the connect.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Retries by the client library, within our timeout.
const CLIENT_TRIES_MAX: usize = 1;
/// Maximum number of objects in a listing; a partition has a few hundred.
const LIST_MAX: usize = 100_000;
/// Maximum size in bytes of an object that is read into memory.
const SMALL_BYTES_MAX: u64 = 16 << 20;
/// Buffer size in bytes for hashing a file.
const HASH_BYTES: usize = 1 << 20;

/// Why a call to the object store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store did not answer, or refused. The stored objects are unchanged; retry later.
    #[error("{action} {name} in {store} failed: {why}; {hint}")]
    Away {
        /// The attempted action.
        action: &'static str,
        /// The object.
        name: String,
        /// The store.
        store: Arc<str>,
        /// The error of the last try.
        why: String,
        /// Hint for the operator.
        hint: &'static str,
    },
    /// There is no such object.
    #[error(
        "{name} is not in {store}: somebody removed it, or `cluster.objects` leads elsewhere than it did"
    )]
    Missing {
        /// The object.
        name: String,
        /// The store.
        store: Arc<str>,
    },
    /// The received content differs from the stored content. Use another copy.
    #[error("{name} in {store} is damaged: {why}")]
    Damaged {
        /// The object.
        name: String,
        /// The store.
        store: Arc<str>,
        /// The difference.
        why: String,
    },
    /// A local file could not be read or written.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Whether the stored object is unusable, so that a retry cannot help.
    pub fn is_lost(&self) -> bool {
        matches!(self, Error::Missing { .. } | Error::Damaged { .. })
    }

    fn file(path: &FilePath, source: io::Error) -> Error {
        Error::File { path: path.into(), source }
    }
}

/// Length and digest of a file or an object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Content {
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
}

impl Content {
    /// The content of bytes in memory.
    pub fn of(bytes: &[u8]) -> Content {
        let mut hash = Hash::new(&SHA256);
        hash.update(bytes);
        Content { bytes: bytes.len() as u64, sha256: hex(hash) }
    }

    /// The content of a file. Reads the whole file: only for a thread that may block.
    pub fn of_file(path: &FilePath) -> Result<Content, Error> {
        let wrong = |error| Error::file(path, error);
        let mut file = std::fs::File::open(path).map_err(wrong)?;
        let (mut hash, mut buffer, mut bytes) = (Hash::new(&SHA256), vec![0; HASH_BYTES], 0);
        loop {
            let read = file.read(&mut buffer).map_err(wrong)?;
            if read == 0 {
                return Ok(Content { bytes, sha256: hex(hash) });
            }
            hash.update(&buffer[..read]);
            bytes += read as u64;
        }
    }
}

fn hex(hash: Hash) -> String {
    hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Clone, Debug)]
enum Store {
    S3(Arc<AmazonS3>),
    Folder(Arc<LocalFileSystem>),
}

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Objects {
    store: Store,
    prefix: Path,
    /// The store, for messages.
    place: Arc<str>,
}

impl Objects {
    /// The store from the settings, if configured. Sends no request.
    pub fn open(settings: &settings::Cluster) -> anyhow::Result<Option<Objects>> {
        Objects::open_as(settings, AmazonS3Builder::from_env())
    }

    /// Like [`Objects::open`], with the given credentials.
    fn open_as(settings: &settings::Cluster, who: AmazonS3Builder) -> anyhow::Result<Option<Objects>> {
        let place = settings.objects.trim_end_matches('/');
        if place.is_empty() {
            return Ok(None);
        }
        let wrong = |why: String| settings::usage(anyhow::anyhow!("cluster.objects {place:?}: {why}"));
        let url = url::Url::parse(place).map_err(|error| wrong(error.to_string()))?;
        let (store, prefix) = match url.scheme() {
            "file" => {
                let folder = url.to_file_path().map_err(|()| wrong("it is no path".into()))?;
                std::fs::create_dir_all(&folder).map_err(|error| wrong(error.to_string()))?;
                let store = LocalFileSystem::new_with_prefix(&folder).map_err(|e| wrong(e.to_string()))?;
                (Store::Folder(Arc::new(store.with_fsync(true))), Path::default())
            }
            "s3" => {
                let bucket = url.host_str().ok_or_else(|| wrong("there is no bucket".into()))?;
                let store = s3(bucket, settings, who).map_err(wrong)?;
                let prefix = Path::from_url_path(url.path()).map_err(|error| wrong(error.to_string()))?;
                (Store::S3(Arc::new(store)), prefix)
            }
            other => return Err(wrong(format!("{other} is neither `s3` nor `file`"))),
        };
        Ok(Some(Objects { store, prefix, place: place.into() }))
    }

    /// The same store, with a subfolder as root.
    pub fn within(&self, folder: &str) -> Objects {
        let prefix = self.path(folder);
        Objects { store: self.store.clone(), prefix, place: format!("{}/{folder}", self.place).into() }
    }

    /// The store, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The name of an object in the whole store.
    pub fn key(&self, name: &str) -> String {
        self.path(name).to_string()
    }

    fn path(&self, name: &str) -> Path {
        let mut path = self.prefix.clone();
        for part in name.split('/').filter(|part| !part.is_empty()) {
            path = path.join(part);
        }
        path
    }

    fn api(&self) -> &dyn ObjectStore {
        match &self.store {
            Store::S3(store) => &**store,
            Store::Folder(store) => &**store,
        }
    }

    /// Stores bytes.
    pub async fn put(&self, name: &str, bytes: Bytes) -> Result<(), Error> {
        let path = self.path(name);
        let put = || async { self.api().put(&path, bytes.clone().into()).await.map(|_| ()) };
        self.tried("storing", name, put).await
    }

    /// The length of an object, if the object exists.
    pub async fn size(&self, name: &str) -> Result<Option<u64>, Error> {
        let path = self.path(name);
        match self.tried("looking at", name, || self.api().head(&path)).await {
            Ok(found) => Ok(Some(found.size)),
            Err(Error::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a small object.
    pub async fn get(&self, name: &str) -> Result<Bytes, Error> {
        let path = self.path(name);
        let get = || async {
            let found = self.api().get(&path).await?;
            if found.meta.size > SMALL_BYTES_MAX {
                return Ok(Err(found.meta.size));
            }
            found.bytes().await.map(Ok)
        };
        self.tried("reading", name, get).await?.map_err(|bytes| Error::Damaged {
            name: name.into(),
            store: self.place.clone(),
            why: format!("it has {bytes} bytes, and should be small"),
        })
    }

    /// Reads at most `length` bytes of an object from an offset on, fewer at the end of the object.
    pub async fn get_range(&self, name: &str, offset: u64, length: u64) -> Result<Bytes, Error> {
        let path = self.path(name);
        let range = offset..offset.saturating_add(length);
        self.tried("reading", name, || self.api().get_range(&path, range.clone())).await
    }

    /// Downloads an object into a file, verifies length and digest, and syncs the file.
    pub async fn get_file(&self, name: &str, to: &FilePath, wanted: &Content) -> Result<(), Error> {
        let mut file = std::fs::File::create(to).map_err(|error| Error::file(to, error))?;
        // A part at a time, into the system's memory.
        let found = self.read(name, wanted, |part| file.write_all(part)).await?;
        found.map_err(|error| Error::file(to, error))?;
        let synced = tokio::task::spawn_blocking(move || file.sync_all()).await;
        synced.map_err(io::Error::other).flatten().map_err(|error| Error::file(to, error))
    }

    /// Reads an object and verifies length and digest, without keeping the data.
    pub async fn verify(&self, name: &str, wanted: &Content) -> Result<(), Error> {
        self.read(name, wanted, |_| Ok(())).await.map(|_| ())
    }

    /// Reads an object part by part.
    async fn read(
        &self,
        name: &str,
        wanted: &Content,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>, Error> {
        let path = self.path(name);
        let bytes = self.tried("looking at", name, || self.api().head(&path)).await?.size;
        let mut hash = Hash::new(&SHA256);
        let mut at = 0;
        while at < bytes.min(wanted.bytes) {
            let range = at..bytes.min(at + PART_BYTES);
            let part = self.tried("reading", name, || self.api().get_range(&path, range.clone())).await?;
            if part.is_empty() {
                break;
            }
            at += part.len() as u64;
            hash.update(&part);
            if let Err(error) = take(&part) {
                return Ok(Err(error));
            }
        }
        self.compare(name, &Content { bytes, sha256: hex(hash) }, wanted)?;
        Ok(Ok(()))
    }

    fn compare(&self, name: &str, found: &Content, wanted: &Content) -> Result<(), Error> {
        if found == wanted {
            return Ok(());
        }
        let why = match found.bytes == wanted.bytes {
            true => "its digest is another".to_owned(),
            false => format!("it has {} bytes instead of {}", found.bytes, wanted.bytes),
        };
        Err(Error::Damaged { name: name.into(), store: self.place.clone(), why })
    }

    /// The names of all objects in a folder, with their lengths.
    pub async fn list(&self, folder: &str) -> Result<Vec<(String, u64)>, Error> {
        let path = self.path(folder);
        let list = || async {
            let listed = self.api().list(Some(&path)).take(LIST_MAX);
            listed.try_collect::<Vec<_>>().await
        };
        let found = self.tried("listing", folder, list).await?;
        let inside = format!("{}/", self.prefix.as_ref());
        let mut names: Vec<_> = found
            .into_iter()
            .filter_map(|object| {
                let name = object.location.as_ref();
                let name =
                    if self.prefix.as_ref().is_empty() { Some(name) } else { name.strip_prefix(&inside) };
                name.map(|name| (name.to_owned(), object.size))
            })
            .collect();
        names.sort();
        Ok(names)
    }

    /// Removes an object. Idempotent: a missing object is no error.
    pub async fn delete(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name);
        match self.tried("removing", name, || self.api().delete(&path)).await {
            Err(Error::Missing { .. }) => Ok(()),
            result => result,
        }
    }

    /// Calls with timeout, retries and backoff.
    async fn tried<T, F>(
        &self,
        action: &'static str,
        name: &str,
        mut call: impl FnMut() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let mut rest = REST_FIRST;
        let mut why = String::new();
        for tried in 0..TRIES_MAX {
            if tried > 0 {
                tokio::time::sleep(rest).await;
                rest *= 2;
            }
            match tokio::time::timeout(CALL_MAX, call()).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(object_store::Error::NotFound { .. })) => {
                    return Err(Error::Missing { name: name.into(), store: self.place.clone() });
                }
                Ok(Err(error)) => {
                    let is_final = matches!(
                        error,
                        object_store::Error::PermissionDenied { .. }
                            | object_store::Error::Unauthenticated { .. }
                            | object_store::Error::InvalidPath { .. }
                            | object_store::Error::NotSupported { .. }
                    );
                    why = text(&error);
                    if is_final {
                        break;
                    }
                }
                Err(_) => why = format!("no answer within {} s", CALL_MAX.as_secs()),
            }
        }
        Err(self.away(action, name, why))
    }

    fn away(&self, action: &'static str, name: &str, why: String) -> Error {
        let hint = match &self.store {
            Store::S3(_) => {
                "look at cluster.objects, cluster.objects_endpoint, the AWS_* variables and the service itself"
            }
            Store::Folder(_) => "look whether the folder is there, can be written and has room",
        };
        Error::Away { action, name: name.into(), store: self.place.clone(), why, hint }
    }
}

fn s3(bucket: &str, settings: &settings::Cluster, who: AmazonS3Builder) -> Result<AmazonS3, String> {
    // The client asks for the provider of the process; ours is the only one there is.
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut builder = who.with_bucket_name(bucket);
    if !settings.objects_endpoint.is_empty() {
        let is_plain = settings.objects_endpoint.starts_with("http://");
        if is_plain && !settings.objects_http {
            let why = "cluster.objects_endpoint is not encrypted: say https, or set cluster.objects_http";
            return Err(why.into());
        }
        builder = builder.with_endpoint(&settings.objects_endpoint);
    }
    if !settings.objects_region.is_empty() {
        builder = builder.with_region(&settings.objects_region);
    }
    let backoff = BackoffConfig { init_backoff: REST_FIRST, max_backoff: Duration::from_secs(2), base: 2.0 };
    let retry = RetryConfig { backoff, max_retries: CLIENT_TRIES_MAX, retry_timeout: CALL_MAX };
    let options = ClientOptions::new()
        .with_allow_http(settings.objects_http)
        .with_connect_timeout(CONNECT_MAX)
        .with_timeout(CALL_MAX);
    builder.with_client_options(options).with_retry(retry).build().map_err(|error| text(&error))
}

/// An error with its causes, in one line.
fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text.replace('\n', " ")
}

#[cfg(test)]
pub(crate) mod tests;
