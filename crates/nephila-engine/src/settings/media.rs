//! Section `[media]`: large bodies in an object store.

use nephila_core::store::media::{self, Rule};
use serde::{Deserialize, Serialize};

/// Value of `media.to` for the object store of the cluster.
const OBJECTS: &str = "objects";

/// Large bodies in an object store instead of the archive. Section `[media]`. See `docs/media.md`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Media {
    /// Where these bodies go: `objects`, the object store of `cluster.objects`, or one of its own, `s3://BUCKET/PREFIX` or
    /// `file:///FOLDER`; `cluster.objects_endpoint`, `objects_region` and `objects_http` count for both. Empty: every
    /// body goes to the archive.
    pub to: String,
    /// Media types of these bodies, by `Content-Type`; `image/*` means all images.
    pub types: Vec<String>,
    /// Minimum size in bytes of these bodies.
    pub bytes_min: u64,
    /// Readers of a capture are redirected to this URL, with `/media/SHA-256` behind it. Empty: to the object store, by
    /// a URL that is valid for 5 minutes.
    pub public_url: String,
}

impl Default for Media {
    fn default() -> Self {
        Media {
            to: String::new(),
            types: ["image/*", "audio/*", "video/*"].map(str::to_owned).into(),
            bytes_min: 256_000,
            public_url: String::new(),
        }
    }
}

impl Media {
    /// The place of the objects, for the settings `cluster`; none if all bodies go to the archive.
    pub fn place<'a>(&'a self, cluster: &'a super::Cluster) -> Option<&'a str> {
        match &*self.to {
            "" => None,
            OBJECTS => Some(&cluster.objects),
            place => Some(place),
        }
    }

    /// Which bodies go to the object store.
    pub fn rule(&self) -> Rule {
        let types = self.types.iter().map(|kind| kind.to_ascii_lowercase()).collect();
        Rule { types, bytes_min: self.bytes_min }
    }

    /// Checks constraints that types cannot express.
    pub(super) fn check(&self, cluster: &super::Cluster) -> Result<(), String> {
        match self.place(cluster) {
            Some("") => return Err("media.to is \"objects\", but cluster.objects says no place".into()),
            Some(place) if !["s3://", "file://"].iter().any(|scheme| place.starts_with(scheme)) => {
                return Err(format!(
                    "media.to {place:?} is neither objects nor s3://BUCKET nor file:///FOLDER"
                ));
            }
            _ => {}
        }
        if let Some(wrong) = self.types.iter().find(|kind| !media::is_type(kind)) {
            return Err(format!("media.types: {wrong:?} is no media type, such as video/mp4 or image/*"));
        }
        let url = &self.public_url;
        if !url.is_empty() && !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(format!("media.public_url {url:?} must begin with https:// or http://"));
        }
        Ok(())
    }
}
