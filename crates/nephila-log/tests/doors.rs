//! Servers that require credentials.

mod worlds;

use std::time::Duration;

use bytes::Bytes;
use nephila_log::conformance::block;
use nephila_log::jetstream::{Credentials, Engine, Settings, Tls};
use nephila_log::{Error, Leases};
use nephila_testnats::{Nats, Options};
use worlds::settings;

async fn started(extra: String) -> Nats {
    block(|| Nats::with(Options { extra, ..Options::default() })).await.unwrap()
}

/// Connects and makes one request.
async fn enters(settings: Settings) -> Result<(), Error> {
    let leases = Engine::connect(settings).await?.leases();
    leases.put("here", None, Bytes::new()).await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_or_a_password_opens_and_a_wrong_one_is_refused_at_once() {
    let nats = started(r#"authorization { token: "open sesame" }"#.to_owned()).await;
    let with = |credentials| Settings { credentials, ..settings(nats.urls(), 1) };
    enters(with(Credentials::Token("open sesame".to_owned()))).await.unwrap();
    for wrong in [Credentials::None, Credentials::Token("open".to_owned())] {
        let refused = tokio::time::timeout(Duration::from_secs(30), enters(with(wrong))).await.unwrap();
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
    let nats = started(r#"authorization { user: "ali", password: "baba" }"#.to_owned()).await;
    let with = |credentials| Settings { credentials, ..settings(nats.urls(), 1) };
    let user = |password: &str| Credentials::User("ali".to_owned(), password.to_owned());
    enters(with(user("baba"))).await.unwrap();
    let refused = enters(with(user("40"))).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert!(!format!("{:?}", with(user("baba"))).contains("baba"), "secrets are not shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_server_is_trusted_by_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("server.pem"), folder.path().join("server.key"));
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let nats = started(format!(
        "tls {{ cert_file: {:?}, key_file: {:?} }}",
        certificate.display().to_string(),
        key.display().to_string()
    ))
    .await;
    let trusting = Tls { roots: Some(certificate), ..Tls::default() };
    enters(Settings { tls: Some(trusting), ..settings(nats.urls(), 1) }).await.unwrap();
    let refused = enters(Settings { tls: Some(Tls::default()), ..settings(nats.urls(), 1) }).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
}
