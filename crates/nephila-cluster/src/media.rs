//! Large bodies in an object store (SEEDS E11): written before the capture, read by redirects.
//!
//! [`KeepMedia`] stands before the archive: a body that the rule of the settings wants is sent to the store, and the
//! archive gets the name of the object. A body that the store has already is not sent again. While the store is away such
//! pages wait like for a full disk, and are offered again.
//!
//! Invariants: the archive gets the name of an object after the object is durable; at most [`HELD_BYTES_MAX`] bytes of
//! bodies are in memory for uploads.

use std::io::{self, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use aws_lc_rs::digest::{Context as Hash, SHA256};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use nephila_api::media::ReadMedia;
use nephila_core::store::media::Rule;
use nephila_core::store::{Exchange, Media, Payload, head};
use nephila_engine::settings::{Cluster, Settings};
use nephila_engine::stage::{Keep, NotKept};
use nephila_store::archive::{LastCapture, Receipt};
use tokio::sync::Semaphore;

use crate::objects::{Content, Error, Label, Objects, PART_BYTES, PARTS_HELD};

/// How long a signed URL is valid.
pub const URL_VALID: Duration = Duration::from_secs(300);
/// Maximum bytes of bodies in memory for uploads.
pub const HELD_BYTES_MAX: u64 = 64 << 20;
/// Unit in which these bytes are counted.
const HELD_UNIT: u64 = 1 << 20;
/// Buffer size in bytes for hashing a body.
const HASH_BYTES: usize = 256 << 10;

/// The object store of media.
#[derive(Clone, Debug)]
pub struct MediaStore {
    objects: Objects,
    public_url: String,
}

impl MediaStore {
    /// The store of the settings, if configured. Sends no request.
    pub fn open(settings: &Settings) -> anyhow::Result<Option<MediaStore>> {
        let Some(place) = settings.media.place(&settings.cluster) else { return Ok(None) };
        let cluster = Cluster { objects: place.to_owned(), ..settings.cluster.clone() };
        let objects = Objects::open(&cluster).context("media.to")?;
        Ok(objects.map(|objects| MediaStore::new(objects, &settings.media.public_url)))
    }

    /// A store in these objects.
    pub fn new(objects: Objects, public_url: &str) -> MediaStore {
        MediaStore { objects, public_url: public_url.trim_end_matches('/').to_owned() }
    }

    /// Stores a body, unless an object of this name and length is there.
    async fn put(&self, media: &Media, exchange: &Exchange) -> Result<(), Error> {
        let key = media.key();
        if self.objects.size(&key).await? == Some(media.bytes) {
            return Ok(());
        }
        self.objects.put_body(&key, &*exchange.body, label(&exchange.response_head)).await
    }

    /// Reads an object and compares length and digest.
    pub async fn verify(&self, media: &Media) -> Result<(), Error> {
        self.objects.verify(&media.key(), &content(media)).await
    }

    /// Reads the body of a capture and compares length and digest.
    pub async fn read(&self, media: &Media) -> Result<Bytes, Error> {
        self.objects.get_whole(&media.key(), &content(media)).await
    }

    /// A URL by which a client reads the body itself; none if the store has no address for others.
    pub async fn url(&self, media: &Media) -> Result<Option<String>, Error> {
        match &*self.public_url {
            "" => self.objects.signed(&media.key(), URL_VALID).await,
            public => Ok(Some(format!("{public}/{}", media.key()))),
        }
    }
}

/// The store of the settings for readers of captures, if configured.
pub fn reader(settings: &Settings) -> anyhow::Result<Option<Arc<dyn ReadMedia>>> {
    Ok(MediaStore::open(settings)?.map(|store| Arc::new(store) as Arc<dyn ReadMedia>))
}

impl ReadMedia for MediaStore {
    fn url<'a>(&'a self, media: &'a Media) -> BoxFuture<'a, anyhow::Result<Option<String>>> {
        Box::pin(async move { Ok(MediaStore::url(self, media).await?) })
    }

    fn body<'a>(&'a self, media: &'a Media) -> BoxFuture<'a, anyhow::Result<Bytes>> {
        Box::pin(async move { Ok(self.read(media).await?) })
    }
}

fn content(media: &Media) -> Content {
    Content { bytes: media.bytes, sha256: media.hex() }
}

/// What readers of the object are told. A type that a browser would run is left out: the bytes are of third parties.
fn label(response_head: &[u8]) -> Label {
    let is_run = |label: &str| ["xml", "html", "script", "pdf"].iter().any(|word| label.contains(word));
    let content_type = head::field(response_head, "content-type");
    Label {
        content_type: content_type.filter(|label| !is_run(&label.to_ascii_lowercase())),
        content_encoding: head::field(response_head, "content-encoding"),
    }
}

/// An archive whose large bodies go to an object store.
pub struct KeepMedia {
    store: MediaStore,
    rule: Rule,
    archive: Arc<dyn Keep>,
    /// A permit for each [`HELD_UNIT`] in memory.
    held: Semaphore,
    /// Whether the last upload failed.
    is_away: AtomicBool,
}

/// The archive of these settings: as given, or behind an object store for media.
pub fn keep(archive: Arc<dyn Keep>, settings: &Settings) -> anyhow::Result<Arc<dyn Keep>> {
    Ok(match MediaStore::open(settings)? {
        Some(store) => Arc::new(KeepMedia::new(store, settings.media.rule(), archive)),
        None => archive,
    })
}

impl KeepMedia {
    /// Sends the bodies that `rule` wants to `store`.
    pub fn new(store: MediaStore, rule: Rule, archive: Arc<dyn Keep>) -> KeepMedia {
        let held = Semaphore::new((HELD_BYTES_MAX / HELD_UNIT) as usize);
        KeepMedia { store, rule, archive, held, is_away: AtomicBool::new(false) }
    }

    /// Sends the body of an exchange, and returns when the object is durable.
    async fn send(&self, exchange: &Exchange) -> Result<Media, NotKept> {
        let in_memory = exchange.body.len().min(PARTS_HELD * PART_BYTES);
        let permits = in_memory.div_ceil(HELD_UNIT).max(1) as u32;
        let _held = self.held.acquire_many(permits).await.expect("never closed");
        let body = exchange.body.share();
        let hashed = tokio::task::spawn_blocking(move || media_of(&*body)).await;
        let media = hashed
            .map_err(io::Error::other)
            .flatten()
            .context("reading the body")
            .map_err(NotKept::Failed)?;
        match self.store.put(&media, exchange).await {
            Ok(()) => {
                if self.is_away.swap(false, Ordering::Relaxed) {
                    tracing::info!("the object store {} takes media again", self.store.objects.place());
                }
                Ok(media)
            }
            Err(error @ Error::File { .. }) => Err(NotKept::Failed(error.into())),
            Err(error) => {
                if !self.is_away.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "{error}; pages with media wait until it answers, and nothing is lost");
                }
                Err(NotKept::Away)
            }
        }
    }
}

impl Keep for KeepMedia {
    fn keep(&self, mut exchange: Exchange) -> BoxFuture<'_, Result<Receipt, NotKept>> {
        Box::pin(async move {
            if self.rule.wants(&exchange) && !exchange.is_redundant() {
                exchange.media = Some(self.send(&exchange).await?);
            }
            self.archive.keep(exchange).await
        })
    }

    fn last_capture(&self, url: &str) -> Option<LastCapture> {
        self.archive.last_capture(url)
    }

    fn close(&self) -> BoxFuture<'_, anyhow::Result<()>> {
        self.archive.close()
    }
}

/// Length and digest of a body. Reads the whole body: only for a thread that may block.
fn media_of(body: &dyn Payload) -> io::Result<Media> {
    let mut hash = Hash::new(&SHA256);
    let mut left = body.len();
    let mut reader = body.reader()?.take(left);
    let mut piece = vec![0; HASH_BYTES];
    while left > 0 {
        let read = reader.read(&mut piece)?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the body is shorter than it said"));
        }
        hash.update(&piece[..read]);
        left -= read as u64;
    }
    let digest = hash.finish();
    let sha256 = digest.as_ref().try_into().expect("SHA-256 has 32 bytes");
    Ok(Media { sha256, bytes: body.len() })
}

#[cfg(test)]
mod tests;
