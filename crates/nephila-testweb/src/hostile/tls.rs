//! TLS-01 to TLS-16: certificates, handshakes and protocols that are wrong.
//!
//! Variants are labels, because the choice falls before a path is sent. Handshakes no library would make are written
//! by hand, see `tlsbytes`; all others are made by rustls with the wrong settings.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, GeneralSubtree, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, NameConstraints,
};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::conn::{Conn, Head, Next, page, redirect, response};
use super::{Case, good, host, tlsbytes};
use crate::tls::{ALPN_BOTH, ALPN_HTTP1, Ca, IssueOptions, Issued, provider};

const PAGE: &[(&str, &str)] = &[("/page", "an ordinary page for whoever gets through")];

pub(super) const CASES: &[Case] = &[
    Case::https("tls-01", PAGE).labels(&[("notyet", "not valid yet")]),
    Case::https("tls-02", PAGE)
        .labels(&[("unknown", "an issuer nobody knows"), ("nointermediate", "the intermediate is not sent")]),
    Case::https("tls-03", PAGE),
    Case::https("tls-04", PAGE).labels(&[
        ("hello10", "a ServerHello of TLS 1.0"),
        ("hello11", "a ServerHello of TLS 1.1"),
        ("rc4", "a ServerHello of TLS 1.2 with RC4"),
    ]),
    Case::https("tls-05", PAGE)
        .labels(&[("drip", "ServerHello, one byte per second"), ("deaf", "reads nothing either")]),
    Case::https("tls-06", PAGE),
    Case::https("tls-07", PAGE).labels(&[("many", "200 certificates")]),
    Case::https("tls-08", PAGE),
    Case::https("tls-09", PAGE),
    Case::https("tls-10", PAGE).labels(&[("fatal", "the alert is fatal")]),
    Case::https("tls-11", PAGE)
        .labels(&[("fin", "FIN in the middle of the ServerHello"), ("reset", "RST there")]),
    Case::https(
        "tls-12",
        &[("/page", "close-delimited, FIN without close_notify"), ("/length", "the same with a length")],
    ),
    Case::https("tls-13", PAGE).labels(&[("required", "refuses clients without a certificate")]),
    Case::both("tls-14", &[("/page", "plain HTTP on the TLS port, TLS on the plain port")]),
    Case::https("tls-15", PAGE).labels(&[
        ("excluded", "the name is in the excluded tree"),
        ("wild", "a wildcard wider than the permitted tree"),
    ]),
    Case::both(
        "tls-16",
        &[("/loop", "https sets a cookie and leads to http, http leads to https, for ever")],
    ),
];

/// Intermediates of TLS-06, all with one name.
const EXPLODING: usize = 24;
/// Certificates of TLS-07.
const MANY: usize = 200;
const DRIP: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// The protocol after the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// The settings of every TLS server.
#[derive(Debug)]
pub(super) struct Configs {
    /// HTTP/2 and HTTP/1.1, a good certificate for any requested name.
    both: Arc<ServerConfig>,
    /// HTTP/1.1 only.
    http1: Arc<ServerConfig>,
    special: HashMap<(&'static str, &'static str), Arc<ServerConfig>>,
    /// The root of TLS-15.
    constraints_root: (CertificateDer<'static>, String),
}

impl Configs {
    pub(super) fn new(ca: &Ca) -> anyhow::Result<Configs> {
        let mut special = HashMap::new();
        let names = |id: &str| vec![host(id), format!("*.{}", host(id))];
        let fixed = |issued: Issued| Ca::server_config_fixed(issued, ALPN_HTTP1);
        let leaf = |id: &str, change: &dyn Fn(&mut IssueOptions)| {
            let mut options = IssueOptions { names: names(id), ..IssueOptions::default() };
            change(&mut options);
            fixed(ca.issue_with(options))
        };
        let (past, future) = (SystemTime::now() - DAY, SystemTime::now() + DAY);
        special.insert(("tls-01", ""), leaf("tls-01", &|options| options.not_after = Some(past)));
        special.insert(("tls-01", "notyet"), leaf("tls-01", &|options| options.not_before = Some(future)));
        special.insert(("tls-02", ""), leaf("tls-02", &|options| options.self_signed = true));
        special.insert(("tls-02", "unknown"), fixed(unknown(&names("tls-02"))?));
        let (mut chain, key) =
            ca.intermediate().issue_with(IssueOptions { names: names("tls-02"), ..Default::default() });
        chain.truncate(1);
        special.insert(("tls-02", "nointermediate"), fixed((chain, key)));
        special.insert(("tls-03", ""), fixed(ca.issue(&["somebody-else.test"])));
        special.insert(("tls-06", ""), fixed(exploding(&names("tls-06"))?));
        let (mut chain, key) = ca.issue_with(IssueOptions { names: names("tls-07"), ..Default::default() });
        let filler = chain[0].clone();
        chain.resize(MANY, filler);
        special.insert(("tls-07", "many"), fixed((chain, key)));
        special.insert(("tls-08", ""), ca.server_config(&[]));
        special.insert(("tls-09", ""), ca.server_config(ALPN_BOTH));
        for (label, required) in [("", false), ("required", true)] {
            special.insert(("tls-13", label), asks_for_certificate(ca, required)?);
        }
        let root = constraints_root()?;
        let own = host("tls-15");
        for (label, leaf_name, constraints) in [
            ("", own.clone(), tree(&["allowed.test"], &[])),
            ("excluded", host("excluded.tls-15"), tree(&[], &["hostile.test"])),
            ("wild", format!("*.{own}"), tree(&[&host("allowed.tls-15")], &[])),
        ] {
            special.insert(("tls-15", label), fixed(constrained(&root, leaf_name, constraints)?));
        }
        // H2-10: one certificate for a thousand names.
        let mut many: Vec<String> = (0..1000).map(|n| host(&format!("n{n}.h2-10"))).collect();
        many.push(host("h2-10"));
        let issued = ca.issue_with(IssueOptions { names: many, ..Default::default() });
        special.insert(("h2-10", ""), Ca::server_config_fixed(issued, ALPN_BOTH));
        Ok(Configs {
            both: ca.server_config(ALPN_BOTH),
            http1: ca.server_config(ALPN_HTTP1),
            special,
            constraints_root: (root.der().clone(), root.pem()),
        })
    }

    /// The root of TLS-15. A client must trust this root so that only the constraints refuse the chain.
    pub(super) fn constraints_root(&self) -> &(CertificateDer<'static>, String) {
        &self.constraints_root
    }

    fn config(&self, id: &'static str, label: &'static str) -> &Arc<ServerConfig> {
        let special = self.special.get(&(id, label));
        special.unwrap_or(if id.starts_with("tls-") || id.starts_with("red-") {
            &self.http1
        } else {
            &self.both
        })
    }
}

/// Performs the handshake of the case. `None` when the connection has come to its end.
pub(super) async fn handshake(mut conn: Conn) -> io::Result<Option<(Conn, Protocol)>> {
    match (conn.id(), conn.label) {
        ("tls-04", label) => {
            tlsbytes::read_hello(&mut conn).await?;
            match label {
                "hello10" => conn.send(tlsbytes::server_hello(0x0301, tlsbytes::RC4_SHA)).await?,
                "hello11" => conn.send(tlsbytes::server_hello(0x0302, tlsbytes::RC4_SHA)).await?,
                "rc4" => conn.send(tlsbytes::server_hello(0x0303, tlsbytes::RC4_SHA)).await?,
                _ => conn.send(tlsbytes::alert(tlsbytes::FATAL, tlsbytes::PROTOCOL_VERSION)).await?,
            }
            return conn.end(Next::Close).await.map(|()| None);
        }
        ("tls-05", "drip") => {
            tlsbytes::read_hello(&mut conn).await?;
            conn.drip(&tlsbytes::server_hello(0x0303, tlsbytes::ECDHE_AES128), DRIP).await?;
            return conn.end(Next::Close).await.map(|()| None);
        }
        ("tls-05", "deaf") => {
            conn.hold_unread().await;
            return Ok(None);
        }
        ("tls-05", _) => return conn.hold().await.map(|()| None),
        ("tls-07", "") => {
            tlsbytes::read_hello(&mut conn).await?;
            conn.send(tlsbytes::server_hello(0x0303, tlsbytes::ECDHE_AES128)).await?;
            conn.send(tlsbytes::big_certificate()).await?;
            conn.hold().await?;
            return Ok(None);
        }
        ("tls-10", "fatal") => {
            tlsbytes::read_hello(&mut conn).await?;
            conn.send(tlsbytes::alert(tlsbytes::FATAL, tlsbytes::UNRECOGNIZED_NAME)).await?;
            return conn.end(Next::Close).await.map(|()| None);
        }
        ("tls-10", _) => conn.send(tlsbytes::alert(tlsbytes::WARNING, tlsbytes::UNRECOGNIZED_NAME)).await?,
        ("tls-11", label) => {
            tlsbytes::read_hello(&mut conn).await?;
            let hello = tlsbytes::server_hello(0x0303, tlsbytes::ECDHE_AES128);
            match label {
                "" => conn.send(tlsbytes::alert(tlsbytes::WARNING, tlsbytes::CLOSE_NOTIFY)).await?,
                _ => conn.send(&hello[..hello.len() / 2]).await?,
            }
            let how = if label == "reset" { Next::Reset } else { Next::Close };
            return conn.end(how).await.map(|()| None);
        }
        _ => {}
    }
    let config = conn.shared.tls.config(conn.id(), conn.label).clone();
    let io = conn.io;
    let stream = tokio_rustls::TlsAcceptor::from(config).accept(io).await?;
    let session = stream.get_ref().1;
    let certificates = session.peer_certificates().map_or(0, <[_]>::len) as u64;
    conn.shared.journal.offered_certificates(conn.case.id, certificates);
    let http2 = session.alpn_protocol() == Some(b"h2");
    let server_name = session.server_name().map(str::to_owned);
    let mut conn = Conn { io: Box::new(stream), tls: true, server_name, ..conn };
    if conn.id() == "tls-09" && http2 {
        conn.note("(h2)".to_owned(), String::new(), b"");
        conn.send(page("<p>HTTP/1.1 where HTTP/2 was agreed on</p>")).await?;
        return conn.end(Next::Close).await.map(|()| None);
    }
    Ok(Some((conn, if http2 { Protocol::Http2 } else { Protocol::Http1 })))
}

/// Answers after a handshake that worked.
pub(super) async fn answer(conn: &mut Conn, head: &Head) -> io::Result<Next> {
    match (conn.id(), head.path.as_str()) {
        ("tls-12", "/length") => {
            conn.send(page("<p>complete, but the end was not authenticated</p>")).await?;
            Ok(Next::Cut)
        }
        ("tls-12", _) => {
            conn.send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>is this all?</p>",
            )
            .await?;
            Ok(Next::Cut)
        }
        ("tls-16", path) => {
            let answer = if conn.tls {
                let to = conn.shared.url("tls-16", path);
                response("302 Found", &format!("Location: {to}\r\nSet-Cookie: sid=over-tls; Path=/\r\n"), "")
            } else {
                redirect("302 Found", &conn.shared.https_url("tls-16", path))
            };
            conn.send(answer).await?;
            Ok(Next::Keep)
        }
        _ => good::answer(conn, head).await,
    }
}

fn asks_for_certificate(ca: &Ca, required: bool) -> anyhow::Result<Arc<ServerConfig>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca.der())?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    let verifier = if required { verifier } else { verifier.allow_unauthenticated() };
    let (chain, key) = ca.issue(&[&host("tls-13"), &host("required.tls-13")]);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier.build()?)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn key_der(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()))
}

/// A chain in which every intermediate may have issued every other: all have the name of the trusted root and keys
/// of their own, so path building has `EXPLODING` choices at every step and each ends in a signature that is wrong.
fn exploding(names: &[String]) -> anyhow::Result<Issued> {
    let params = authority("testweb root");
    let keys: Vec<KeyPair> = (0..EXPLODING).map(|_| KeyPair::generate()).collect::<Result<_, _>>()?;
    let leaf_key = KeyPair::generate()?;
    let issuer = Issuer::from_params(&params, &keys[0]);
    let leaf = CertificateParams::new(names)?.signed_by(&leaf_key, &issuer)?;
    let mut chain = vec![leaf.der().clone()];
    for (n, key) in keys.iter().enumerate() {
        let issuer = Issuer::from_params(&params, &keys[(n + 1) % EXPLODING]);
        chain.push(params.signed_by(key, &issuer)?.der().clone());
    }
    Ok((chain, key_der(&leaf_key)))
}

/// A leaf of an authority with a name that no client knows. A second `Ca` does not suffice: both have the same name.
fn unknown(names: &[String]) -> anyhow::Result<Issued> {
    let issuer = CertifiedIssuer::self_signed(authority("somebody else's root"), KeyPair::generate()?)?;
    let leaf_key = KeyPair::generate()?;
    let leaf = CertificateParams::new(names)?.signed_by(&leaf_key, &issuer)?;
    Ok((vec![leaf.der().clone()], key_der(&leaf_key)))
}

fn constraints_root() -> anyhow::Result<CertifiedIssuer<'static, KeyPair>> {
    CertifiedIssuer::self_signed(authority("testweb constraints root"), KeyPair::generate()?)
        .context("own root")
}

fn tree(permitted: &[&str], excluded: &[&str]) -> NameConstraints {
    let trees =
        |names: &[&str]| names.iter().map(|name| GeneralSubtree::DnsName((*name).to_owned())).collect();
    NameConstraints { permitted_subtrees: trees(permitted), excluded_subtrees: trees(excluded) }
}

/// A leaf under an intermediate whose constraints forbid the leaf.
fn constrained(
    root: &CertifiedIssuer<'static, KeyPair>,
    name: String,
    constraints: NameConstraints,
) -> anyhow::Result<Issued> {
    let mut params = authority("testweb constrained");
    params.name_constraints = Some(constraints);
    let intermediate = CertifiedIssuer::signed_by(params, KeyPair::generate()?, root)?;
    let leaf_key = KeyPair::generate()?;
    let leaf = CertificateParams::new(vec![name])?.signed_by(&leaf_key, &intermediate)?;
    Ok((vec![leaf.der().clone(), intermediate.der().clone()], key_der(&leaf_key)))
}
