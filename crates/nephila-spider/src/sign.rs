//! Signs requests, so that a site can verify the crawler's identity (RFC 9421, Ed25519, Web Bot Auth).
//!
//! The key is read once and stays here: never printed and never written anywhere. `nephila_core::identity` decides
//! which parts are signed; this module has the key, the clock and the random numbers.
//!
//! Invariant: every request sent carries a signature made for this request alone, with its own time and its own nonce.
//! No signature is sent twice, and none goes to another authority than its own.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::{self, SystemRandom};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use data_encoding::BASE64URL_NOPAD;
use http::header::{HeaderName, HeaderValue};
use nephila_core::identity::directory::{self, Directory, Jwk};
use nephila_core::identity::signature::{self, Asking, LABEL, Parameters, TAG_BOT};
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;

/// Maximum remembered origins that requested signatures. Forgetting one costs one more request, nothing else.
const WANTING_MAX: usize = 100_000;
/// Bytes of a nonce.
const NONCE_BYTES: usize = 32;
/// Maximum validity of a signature.
const VALID_MAX: Duration = Duration::from_secs(24 * 3600);

/// Which requests are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signed {
    /// Requests over https, and requests to sites that asked for signatures.
    #[default]
    Https,
    /// All requests.
    Always,
    /// Only requests to sites that asked for signatures.
    Asked,
}

/// An unusable key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(String);

/// Our private key.
pub struct Key(Ed25519KeyPair);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

impl Key {
    /// A new key, as the text of its file (PKCS #8 in PEM, as OpenSSL reads it).
    pub fn generate() -> Result<String, KeyError> {
        let failed = |_| KeyError("no key could be made".into());
        let document = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).map_err(failed)?;
        let mut text = "-----BEGIN PRIVATE KEY-----\n".to_owned();
        text.push_str(&data_encoding::BASE64.encode(document.as_ref()));
        text.push_str("\n-----END PRIVATE KEY-----\n");
        Ok(text)
    }

    /// Reads the key from a file's text.
    pub fn from_pem(text: &[u8]) -> Result<Key, KeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(text)
            .map_err(|error| KeyError(format!("no private key in PEM: {error:?}")))?;
        Ed25519KeyPair::from_pkcs8(der.secret_pkcs8_der())
            .map(Key)
            .map_err(|error| KeyError(format!("no Ed25519 key: {error}")))
    }

    fn public(&self) -> [u8; 32] {
        self.0.public_key().as_ref().try_into().expect("an Ed25519 key has 32 bytes")
    }

    fn jwk(&self) -> Jwk {
        let public = self.public();
        let thumbprint = digest(&SHA256, directory::thumbprint_text(&public).as_bytes());
        Jwk::new(&public, thumbprint.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// The key id: the thumbprint of the public key.
    pub fn id(&self) -> String {
        self.jwk().kid
    }

    /// The key directory to publish, with this key only.
    pub fn directory(&self) -> Directory {
        Directory { keys: vec![self.jwk()] }
    }

    /// Signs bytes.
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.sign(bytes).as_ref().to_vec()
    }
}

/// Signs requests.
#[derive(Debug)]
pub struct Signer {
    key: Key,
    id: String,
    agent: String,
    signed: Signed,
    valid: Duration,
    /// Origins that asked for signatures, with the requested label.
    wanting: Mutex<HashMap<String, Box<str>>>,
}

impl Signer {
    /// Signs with this key as the agent whose directory is at `agent`; a signature is valid for `valid`.
    pub fn new(key: Key, agent: String, signed: Signed, valid: Duration) -> Signer {
        let id = key.id();
        Signer { key, id, agent, signed, valid: valid.min(VALID_MAX), wanting: Mutex::default() }
    }

    /// The signature fields for one request, if the request is to be signed.
    pub(crate) fn fields(
        &self,
        method: &str,
        url: &CrawlUrl,
        now: Timestamp,
    ) -> Option<[(HeaderName, HeaderValue); 3]> {
        let wanted = self.wanting.lock().expect("nobody panics holding it").get(url.origin()).cloned();
        let by_itself = match self.signed {
            Signed::Always => true,
            Signed::Https => url.is_https(),
            Signed::Asked => false,
        };
        if !by_itself && wanted.is_none() {
            return None;
        }
        let mut bytes = [0; NONCE_BYTES];
        // Without random numbers there is no nonce, and a signature without a nonce could repeat.
        rand::fill(&mut bytes).ok()?;
        let nonce = BASE64URL_NOPAD.encode(&bytes);
        let created = now.0 / 1_000;
        let parameters = Parameters {
            created,
            expires: Some(created + self.valid.as_secs()),
            nonce: Some(&nonce),
            keyid: &self.id,
            alg: None,
            tag: Some(TAG_BOT),
        };
        let asking = Asking {
            method,
            authority: url.authority(),
            path: url.path(),
            agent: &self.agent,
            label: wanted.as_deref().unwrap_or(LABEL),
        };
        let fields = signature::sign(&asking, &parameters, |bytes| self.key.sign(bytes));
        let value = |text: &str| HeaderValue::from_str(text).ok();
        Some([
            (HeaderName::from_static("signature-agent"), value(&fields.agent)?),
            (HeaderName::from_static("signature-input"), value(&fields.input)?),
            (HeaderName::from_static("signature"), value(&fields.signature)?),
        ])
    }

    /// Records that an origin wants signatures under this label. Returns whether that is new.
    pub(crate) fn note(&self, url: &CrawlUrl, label: &str) -> bool {
        let mut wanting = self.wanting.lock().expect("nobody panics holding it");
        if wanting.len() >= WANTING_MAX {
            wanting.clear();
        }
        wanting.insert(url.origin().to_owned(), label.into()).is_none_or(|before| &*before != label)
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
    use nephila_core::identity::signature::{Component, base};

    use super::*;

    /// The key of RFC 9421, B.1.4.
    const RFC_KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n-----END PRIVATE KEY-----\n";

    #[test]
    fn the_rfcs_example_has_the_rfcs_signature() {
        let key = Key::from_pem(RFC_KEY.as_bytes()).unwrap();
        assert_eq!(key.id(), "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U");
        let components = [
            Component::new("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
            Component::new("@method", "POST"),
            Component::new("@path", "/foo"),
            Component::new("@authority", "example.com"),
            Component::new("content-type", "application/json"),
            Component::new("content-length", "18"),
        ];
        let parameters =
            Parameters { created: 1_618_884_473, keyid: "test-key-ed25519", ..Parameters::default() };
        let signature = key.sign(base(&components, &parameters).as_bytes());
        // RFC 9421, B.2.6.
        assert_eq!(
            data_encoding::BASE64.encode(&signature),
            "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="
        );
    }

    #[test]
    fn a_new_key_is_read_back_and_never_shown() {
        let text = Key::generate().unwrap();
        let key = Key::from_pem(text.as_bytes()).unwrap();
        let public = UnparsedPublicKey::new(&ED25519, key.public());
        public.verify(b"x", &key.sign(b"x")).unwrap();
        assert_ne!(Key::from_pem(Key::generate().unwrap().as_bytes()).unwrap().id(), key.id());
        let secret = text.lines().nth(1).unwrap();
        assert!(!format!("{key:?}").contains(&secret[16..]));
        for bad in ["", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert!(Key::from_pem(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_signed_is_as_the_operator_chose_and_what_a_site_asks_for() {
        let url = |text| CrawlUrl::parse(text).unwrap();
        let signer = |signed| {
            let key = Key::from_pem(RFC_KEY.as_bytes()).unwrap();
            Signer::new(key, "https://c.test".into(), signed, Duration::from_secs(300))
        };
        let (plain, tls) = (url("http://a.test/x"), url("https://a.test/x"));
        let now = Timestamp(1_700_000_000_000);
        for (signed, at_plain, at_tls) in
            [(Signed::Always, true, true), (Signed::Https, false, true), (Signed::Asked, false, false)]
        {
            let signer = signer(signed);
            assert_eq!(signer.fields("GET", &plain, now).is_some(), at_plain, "{signed:?}");
            assert_eq!(signer.fields("GET", &tls, now).is_some(), at_tls, "{signed:?}");
            assert!(signer.note(&plain, "other"));
            assert!(!signer.note(&plain, "other"), "known already");
            let fields = signer.fields("GET", &plain, now).unwrap();
            assert!(fields[1].1.to_str().unwrap().starts_with("other=(\"@authority\""));
        }
    }

    #[test]
    fn no_two_requests_have_the_same_signature() {
        let key = Key::from_pem(RFC_KEY.as_bytes()).unwrap();
        let signer = Signer::new(key, "https://c.test".into(), Signed::Always, Duration::from_secs(300));
        let url = CrawlUrl::parse("https://a.test/x").unwrap();
        let one = signer.fields("GET", &url, Timestamp(1_000)).unwrap();
        let two = signer.fields("GET", &url, Timestamp(1_000)).unwrap();
        assert_ne!(one[2].1, two[2].1);
        assert!(one[1].1.to_str().unwrap().contains(";created=1;expires=301;nonce="));
    }
}
