//! Where the key of links comes from: the secret of a cluster, or a file in the folder of a crawl.
//!
//! Invariants: a file that is there is never changed here, so that links live until a person removes or changes it;
//! however many ask, a file that is missing is looked for once in [`MISSING_AGE`].

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nephila_engine::folder::Folder;

use super::link::LinkKey;

/// Time for which a file that is missing is not looked for again.
const MISSING_AGE: Duration = Duration::from_secs(1);

/// The secret of links.
#[derive(Debug)]
pub struct LinkSecret {
    known: OnceLock<LinkKey>,
    /// When the file was missing the last time.
    missing: Mutex<Option<Instant>>,
    /// The folder with the file, unless the key is known from the beginning.
    folder: Option<Folder>,
}

impl LinkSecret {
    /// The key of the nodes of a cluster: from the secret that its servers keep, and from the secret among the nodes.
    /// A link alone is of no use for guessing the latter.
    pub fn of_cluster(secret: &[u8], nodes: &str) -> LinkSecret {
        let known = OnceLock::from(LinkKey::new(secret, nodes.as_bytes()));
        LinkSecret { known, missing: Mutex::default(), folder: None }
    }

    /// The key in the folder of a crawl.
    pub fn in_folder(folder: Folder) -> LinkSecret {
        LinkSecret { known: OnceLock::new(), missing: Mutex::default(), folder: Some(folder) }
    }

    /// The key, if there is one by now. A file that was read counts until the process ends.
    pub(super) fn known(&self) -> anyhow::Result<Option<LinkKey>> {
        let Some(folder) = self.folder.as_ref().filter(|_| self.known.get().is_none()) else {
            return Ok(self.known.get().cloned());
        };
        // Held while the file is read: others wait for what this one finds.
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if missing.is_some_and(|at| at.elapsed() < MISSING_AGE) {
            return Ok(None);
        }
        let secret = folder.link_secret()?;
        *missing = secret.is_none().then(Instant::now);
        Ok(secret.map(|secret| self.keep(&secret)))
    }

    /// The key. A folder without one gets one, durably: this may take a while.
    pub(super) fn made(&self) -> anyhow::Result<LinkKey> {
        if let Some(known) = self.known()? {
            return Ok(known);
        }
        let folder = self.folder.as_ref().expect("a key without a folder is known");
        Ok(self.keep(&folder.make_link_secret()?))
    }

    fn keep(&self, secret: &[u8]) -> LinkKey {
        self.known.get_or_init(|| LinkKey::new(secret, b"")).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::link::{Kind, Subject};
    use super::*;

    #[test]
    fn a_folder_keeps_its_secret_and_a_removed_one_ends_all_links() {
        let dir = tempfile::tempdir().unwrap();
        let secret = || LinkSecret::in_folder(Folder::new(dir.path()));
        let job = Subject::named(Kind::Job, "press").unwrap();
        let early = secret();
        assert!(early.known().unwrap().is_none(), "a question makes no file");
        let signature = secret().made().unwrap().sign(&job, 100);
        let opens = |secret: &LinkSecret| secret.known().unwrap().unwrap().opens(&job, "100", &signature, 1);
        let look_at = |secret: &LinkSecret, at| *secret.missing.lock().unwrap() = Some(at);
        look_at(&early, Instant::now() + Duration::from_secs(3_600));
        assert!(early.known().unwrap().is_none(), "the disk is not asked each time");
        look_at(&early, Instant::now().checked_sub(MISSING_AGE).unwrap());
        assert!(opens(&secret()) && opens(&early), "also for a process that began before");
        assert_eq!(secret().made().unwrap().sign(&job, 100), signature, "no second file is made");
        let file = dir.path().join("links.key");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
        std::fs::remove_file(&file).unwrap();
        assert!(opens(&early), "a running process goes on");
        let later = secret();
        later.made().unwrap();
        assert!(!opens(&later));
        std::fs::write(&file, "short").unwrap();
        assert!(format!("{:#}", secret().known().unwrap_err()).contains("links.key"));
    }

    #[test]
    fn nodes_with_the_same_secrets_open_each_others_links() {
        let job = Subject::named(Kind::Job, "press").unwrap();
        let key = |secret: u8, nodes: &str| LinkSecret::of_cluster(&[secret; 16], nodes).made().unwrap();
        let signature = key(1, "nodes").sign(&job, 100);
        let opens = |key: LinkKey| key.opens(&job, "100", &signature, 1);
        assert!(opens(key(1, "nodes")));
        assert!(!opens(key(2, "nodes")) && !opens(key(1, "others")) && !opens(key(1, "")));
    }
}
