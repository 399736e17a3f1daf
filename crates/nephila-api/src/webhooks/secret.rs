//! Secrets of webhooks, and the signatures of deliveries by Standard Webhooks: HMAC-SHA256 over id, time and body.
//!
//! Invariant: no secret is printed.

use std::fmt;
use std::path::Path;

use anyhow::{Context, ensure};
use aws_lc_rs::{digest, hmac};
use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER};

use super::super::tls;

/// Beginning of a secret.
const PREFIX: &str = "whsec_";
/// Length of a secret in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Maximum number of secrets of one webhook.
const SECRETS_MAX: usize = 4;
/// Bytes of the digest that an id has.
const ID_BYTES: usize = 16;

/// The secrets of a webhook, at least one.
pub(super) struct Secrets(Vec<hmac::Key>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// Reads a file with one secret per line, which only its owner may be able to read.
    pub(super) fn read(path: &Path) -> anyhow::Result<Secrets> {
        let bytes = tls::read(path, true)?;
        Secrets::parse(std::str::from_utf8(&bytes).context("it is no text")?)
    }

    fn parse(text: &str) -> anyhow::Result<Secrets> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let keys: Vec<hmac::Key> = lines.map(key).collect::<anyhow::Result<_>>()?;
        ensure!(!keys.is_empty(), "there is no secret in it: a line is {PREFIX} and Base64");
        ensure!(keys.len() <= SECRETS_MAX, "there may be {SECRETS_MAX} secrets in it");
        Ok(Secrets(keys))
    }

    /// The field `webhook-signature`: a signature with each secret.
    pub(super) fn signatures(&self, id: &str, seconds: u64, body: &[u8]) -> String {
        let sign = |key: &hmac::Key| {
            let mut signing = hmac::Context::with_key(key);
            signing.update(format!("{id}.{seconds}.").as_bytes());
            signing.update(body);
            format!("v1,{}", BASE64.encode(signing.sign().as_ref()))
        };
        self.0.iter().map(sign).collect::<Vec<_>>().join(" ")
    }
}

fn key(line: &str) -> anyhow::Result<hmac::Key> {
    // The error shows nothing of the line.
    let secret = line.strip_prefix(PREFIX).and_then(|secret| {
        let secret = secret.trim_end_matches('=');
        BASE64_NOPAD.decode(secret.as_bytes()).ok()
    });
    let secret = secret.with_context(|| format!("a line is {PREFIX} and Base64"))?;
    ensure!(
        SECRET_BYTES.contains(&secret.len()),
        "a secret has {} to {} bytes, and one has {}: `openssl rand -base64 32` makes one",
        SECRET_BYTES.start(),
        SECRET_BYTES.end(),
        secret.len()
    );
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &secret))
}

/// The id of a delivery: the same body has the same id.
pub(super) fn id_of(body: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, body);
    format!("msg_{}", HEXLOWER.encode(&digest.as_ref()[..ID_BYTES]))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn a_signature_is_the_published_one() {
        let (id, at) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330);
        let body = br#"{"test": 2432232314}"#;
        let signed = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(Secrets::parse(SECRET).unwrap().signatures(id, at, body), signed);
        let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let both = Secrets::parse(&format!("{other}\n\n{SECRET}\n")).unwrap().signatures(id, at, body);
        let (first, second) = both.split_once(' ').unwrap();
        assert!(first.starts_with("v1,") && first != signed);
        assert_eq!(second, signed);
    }

    #[test]
    fn a_file_that_is_no_secret_is_refused_without_being_shown() {
        for wrong in ["", "\n", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!!", "whsec_MfKQ9r8G"] {
            let error = format!("{:#}", Secrets::parse(wrong).unwrap_err());
            assert!(!error.contains("MfKQ"), "{error}");
        }
        assert!(Secrets::parse(&[SECRET; SECRETS_MAX + 1].join("\n")).is_err());
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        std::fs::write(&file, SECRET).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(format!("{:#}", Secrets::read(&file).unwrap_err()).contains("chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(format!("{:?}", Secrets::read(&file).unwrap()), "Secrets");
    }

    #[test]
    fn the_same_body_has_the_same_id() {
        assert_eq!(id_of(b"a"), id_of(b"a"));
        assert_ne!(id_of(b"a"), id_of(b"b"));
        assert_eq!(id_of(b"").len(), 4 + 2 * ID_BYTES);
    }
}
