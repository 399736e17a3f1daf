//! Digests of all artifacts, and their signature, by which a reader knows that the artifacts are ours.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Artifact, sha256};
use crate::shell;

/// File with the digests, as `sha256sum --check` reads it.
pub(crate) const SUMS: &str = "SHA256SUMS";
/// What a signature is for: one for another purpose is refused.
const PURPOSE: &str = "nephila";
/// Timeout of ssh-keygen, which may ask for nothing.
const LIMIT: Duration = Duration::from_secs(30);

/// The digests of all artifacts.
pub(crate) fn sums(artifacts: &[Artifact]) -> Artifact {
    let lines = artifacts.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes)));
    (SUMS.to_owned(), lines.collect::<String>().into_bytes())
}

/// Signs a file: the signature lies beside it, with `.sig` behind its name.
pub(crate) fn sign(file: &Path, key: &Path) -> Result<()> {
    let signature = file.with_extension("sig");
    if signature.exists() {
        std::fs::remove_file(&signature).context("remove the signature of before")?;
    }
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-Y", "sign", "-n", PURPOSE, "-f"]).arg(key).arg(file);
    shell::output(&mut command, LIMIT).map(drop)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_signature_is_for_these_digests_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut make = Command::new("ssh-keygen");
        make.args(["-q", "-t", "ed25519", "-N", "", "-C", "release", "-f"]).arg(path("key"));
        shell::output(&mut make, LIMIT).unwrap();
        let (name, bytes) = sums(&[("a.deb".into(), b"a".to_vec())]);
        std::fs::write(path(&name), bytes).unwrap();
        sign(&path(&name), &path("key")).unwrap();
        sign(&path(&name), &path("key")).unwrap();
        let public = std::fs::read_to_string(path("key.pub")).unwrap();
        std::fs::write(path("allowed"), format!("nephila {public}")).unwrap();
        let verified = || {
            let mut verify = Command::new("ssh-keygen");
            verify.args(["-Y", "verify", "-n", PURPOSE, "-I", "nephila", "-f"]).arg(path("allowed"));
            verify.arg("-s").arg(path("SHA256SUMS.sig")).stdin(std::fs::File::open(path(&name)).unwrap());
            verify.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
        };
        assert!(verified());
        std::fs::write(path(&name), "other digests").unwrap();
        assert!(!verified());
    }
}
