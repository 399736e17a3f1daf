//! The directory of keys that a site reads to check our signatures: a JSON Web Key Set at
//! `/.well-known/http-message-signatures-directory`.

use data_encoding::BASE64URL_NOPAD;
use serde::Serialize;

use super::signature::{self, Component, Parameters, TAG_DIRECTORY};

/// The path of the directory, below the agent's URL.
pub const PATH: &str = "/.well-known/http-message-signatures-directory";
/// The media type of the directory.
pub const MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";

/// A public key in the published form (RFC 7517, RFC 8037).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Jwk {
    kty: &'static str,
    crv: &'static str,
    /// The thumbprint, by which signatures name the key.
    pub kid: String,
    /// The 32 bytes of the key.
    pub x: String,
    #[serde(rename = "use")]
    usage: &'static str,
    alg: &'static str,
}

/// All keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Directory {
    /// The keys.
    pub keys: Vec<Jwk>,
}

impl Jwk {
    /// From an Ed25519 key; `thumbprint` is the SHA-256 of [`thumbprint_text`].
    pub fn new(public: &[u8; 32], thumbprint: &[u8; 32]) -> Jwk {
        Jwk {
            kty: "OKP",
            crv: "Ed25519",
            kid: BASE64URL_NOPAD.encode(thumbprint),
            x: BASE64URL_NOPAD.encode(public),
            usage: "sig",
            alg: "EdDSA",
        }
    }
}

/// The text whose SHA-256 is the thumbprint of a key (RFC 7638, 3; RFC 8037, 2): the members of the key, sorted by
/// name, without a space.
pub fn thumbprint_text(public: &[u8; 32]) -> String {
    format!("{{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"{}\"}}", BASE64URL_NOPAD.encode(public))
}

/// The header fields with which this authority serves the directory. The signature keeps other sites from claiming the
/// keys.
pub fn fields(
    authority: &str,
    keyid: &str,
    created: u64,
    expires: u64,
    sign: impl FnOnce(&[u8]) -> Vec<u8>,
) -> [(&'static str, String); 3] {
    let component = Component { name: "@authority", parameters: ";req".into(), value: authority };
    let parameters = Parameters {
        created,
        expires: Some(expires),
        keyid,
        alg: Some("ed25519"),
        tag: Some(TAG_DIRECTORY),
        ..Parameters::default()
    };
    let components = [component];
    let signature = sign(signature::base(&components, &parameters).as_bytes());
    [
        ("Content-Type", MEDIA_TYPE.into()),
        ("Signature-Input", format!("{}={}", signature::LABEL, signature::input(&components, &parameters))),
        ("Signature", format!("{}=:{}:", signature::LABEL, data_encoding::BASE64.encode(&signature))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of RFC 8037, A.2 and A.3.
    #[test]
    fn a_key_is_written_as_others_write_it() {
        let x = BASE64URL_NOPAD.decode(b"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap();
        let public: [u8; 32] = x.try_into().unwrap();
        assert_eq!(
            thumbprint_text(&public),
            "{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}"
        );
        let print = BASE64URL_NOPAD.decode(b"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k").unwrap();
        let keys = vec![Jwk::new(&public, &print.try_into().unwrap())];
        assert_eq!(
            serde_json::to_string(&Directory { keys }).unwrap(),
            "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k\",\
             \"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\",\"use\":\"sig\",\"alg\":\"EdDSA\"}]}"
        );
    }

    #[test]
    fn the_directory_is_signed_for_its_authority() {
        let mut signed = Vec::new();
        let fields = fields("crawler.example", "k", 1, 2, |bytes| {
            signed = bytes.to_vec();
            vec![0]
        });
        assert_eq!(
            String::from_utf8(signed).unwrap(),
            "\"@authority\";req: crawler.example\n\"@signature-params\": (\"@authority\";req);created=1;expires=2\
             ;keyid=\"k\";alg=\"ed25519\";tag=\"http-message-signatures-directory\""
        );
        assert_eq!(fields[2], ("Signature", "sig1=:AA==:".to_owned()));
    }
}
