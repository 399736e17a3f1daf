//! The secret of the links to public pages: `links.key`, random, readable by its owner alone.
//!
//! Invariants: the file appears as a whole and is never replaced, so that all who make a secret at the same time make
//! one; a secret that was made is durable.

use std::fs::{self, File, OpenOptions};
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
        let in_hex = |bytes: [u8; 16]| bytes.map(|byte| format!("{byte:02x}")).concat();
        let text = format!("{}{}\n", in_hex(new_secret()?.0), in_hex(new_secret()?.0));
        // Others may make the secret at the same time, also in this process.
        let new = self.dir().join(format!("{NAME}.{}.new", in_hex(new_secret()?.0)));
        let link = |mut file: File| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            // Unlike a rename, this leaves the file of another alone.
            match fs::hard_link(&new, &path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(()),
            }
        };
        let write = || {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            let linked = link(file);
            _ = fs::remove_file(&new);
            linked?;
            File::open(self.dir())?.sync_all()
        };
        write().with_context(|| format!("writing {}", path.display()))?;
        self.link_secret()?.with_context(|| format!("{} is gone again", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_make_the_secret_at_the_same_time_get_the_same_one() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let begin = std::sync::Barrier::new(8);
            let make = || {
                begin.wait();
                Folder::new(dir.path()).make_link_secret().unwrap()
            };
            let secrets: Vec<Vec<u8>> = std::thread::scope(|scope| {
                let making: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
                making.into_iter().map(|one| one.join().unwrap()).collect()
            });
            assert!(secrets.iter().all(|secret| *secret == secrets[0] && secret.len() == 64));
            let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
            assert_eq!(left.len(), 1, "nothing else is left: {left:?}");
        }
    }
}
