//! The secret of the links to public pages: `links.key`, random, readable by its owner alone.
//!
//! Invariant: the file appears as a whole and is never replaced, so that two processes make one secret.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use anyhow::{Context, ensure};

use super::{Folder, new_secret};

/// Name of the file.
const NAME: &str = "links.key";
/// Minimum length of the secret in bytes.
const BYTES_MIN: usize = 32;
/// Maximum length of the file in bytes.
const BYTES_MAX: usize = 4_096;

impl Folder {
    /// The secret of links; none if no link was made.
    pub fn link_secret(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.dir().join(NAME);
        let text = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let secret = text.trim_ascii();
        ensure!(
            (BYTES_MIN..=BYTES_MAX).contains(&secret.len()),
            "{}: a secret of links has {BYTES_MIN} to {BYTES_MAX} bytes; remove the file to begin with a new one, \
             which ends all links",
            path.display()
        );
        Ok(Some(secret.to_vec()))
    }

    /// The secret of links, made now unless there is one.
    pub fn make_link_secret(&self) -> anyhow::Result<Vec<u8>> {
        let path = self.dir().join(NAME);
        let halves = [new_secret()?, new_secret()?];
        let text: String = halves.iter().flat_map(|half| half.0).map(|byte| format!("{byte:02x}")).collect();
        let new = self.dir().join(format!("{NAME}.{}.new", std::process::id()));
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(format!("{text}\n").as_bytes())?;
            file.sync_all()?;
            // Unlike a rename, this leaves the file of another process alone.
            match fs::hard_link(&new, &path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(()),
            }
        };
        let written = write();
        _ = fs::remove_file(&new);
        written.with_context(|| format!("writing {}", path.display()))?;
        self.link_secret()?.with_context(|| format!("{} is gone again", path.display()))
    }
}
