//! The key that signs the requests of a crawl.
//!
//! Invariants: a key is written once, into a file that only its owner can read; a key file that others can read is
//! refused.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context;
use nephila_spider::sign::{Key, Signed, Signer};

use crate::private;
use crate::settings::{Identity, Sign, usage};

/// Maximum size of a key file in bytes.
pub const KEY_BYTES_MAX: u64 = 16 * 1024;

/// The signer of requests from the settings, if a key is configured.
pub fn signer(identity: &Identity) -> anyhow::Result<Option<Signer>> {
    if identity.key_file.as_os_str().is_empty() {
        return Ok(None);
    }
    let key = read(&identity.key_file).map_err(usage)?;
    let signed = match identity.sign {
        Sign::Https => Signed::Https,
        Sign::Always => Signed::Always,
        Sign::Asked => Signed::Asked,
    };
    Ok(Some(Signer::new(key, identity.agent_url.clone(), signed, identity.signature_valid)))
}

/// Makes a key, in a new file that only its owner can read.
pub fn make(file: &Path) -> anyhow::Result<Key> {
    let text = Key::generate()?;
    let mut options = OpenOptions::new();
    let mut out = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .with_context(|| format!("making {}", file.display()))?;
    out.write_all(text.as_bytes())
        .and_then(|()| out.sync_all())
        .with_context(|| file.display().to_string())?;
    Ok(Key::from_pem(text.as_bytes())?)
}

/// Reads the key from a file that only its owner can read.
pub fn read(path: &Path) -> anyhow::Result<Key> {
    let what = || format!("identity.key_file {}", path.display());
    let file = std::fs::File::open(path).with_context(what)?;
    let is_closed = private::is_secret(&file.metadata().with_context(what)?);
    anyhow::ensure!(is_closed, "{} can be read by others: chmod 600 it", what());
    let mut text = Vec::new();
    file.take(KEY_BYTES_MAX).read_to_end(&mut text).with_context(what)?;
    Key::from_pem(&text).with_context(what)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        make(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let id = read(&file).unwrap().id();
        assert!(make(&file).is_err(), "it is there already");
        assert_eq!(read(&file).unwrap().id(), id);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(format!("{:#}", read(&file).unwrap_err()).contains("chmod 600"));
    }
}
