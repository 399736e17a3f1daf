//! TLS of the API, between commands and nodes and among nodes.
//!
//! The certificate of a node proves its name, `NODE.CLUSTER.nephila`, which is not in DNS. Nodes find each other's
//! addresses in leases, and verify that name regardless of the address. A person names an address, and the client
//! verifies this address; so the certificate has both names.
//!
//! Invariants: TLS 1.3 and one cryptography provider; a node that serves TLS connects to other nodes only with TLS; a
//! key file that other users can read is rejected.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use nephila_engine::private;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Prefix of the address of a node that serves TLS.
pub const HTTPS: &str = "https://";
/// The application protocol (ALPN).
pub const ALPN: &[u8] = b"http/1.1";
/// Maximum size in bytes of a file with certificates or a key.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Trusted root certificates.
#[derive(Clone)]
pub struct Trust {
    connector: TlsConnector,
    verifier: Arc<WebPkiServerVerifier>,
}

impl Trust {
    /// Trusts the root certificates in a file.
    pub fn in_file(path: &Path) -> anyhow::Result<Trust> {
        let what = || format!("the certificates in {}", path.display());
        let mut roots = RootCertStore::empty();
        for certificate in certificates(path).with_context(what)? {
            roots.add(certificate).with_context(what)?;
        }
        Trust::of(roots).with_context(what)
    }

    /// Trusts the public root certificates of browsers.
    pub fn public() -> Trust {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        Trust::of(roots).expect("there are some")
    }

    /// Trusts these root certificates, for TLS 1.3 alone. Fails if there is no root certificate.
    pub fn of(roots: RootCertStore) -> anyhow::Result<Trust> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_webpki_verifier(verifier.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Trust { connector: TlsConnector::from(Arc::new(config)), verifier })
    }

    /// TLS handshake with a server that must prove this name.
    pub async fn connect(
        &self,
        name: ServerName<'static>,
        stream: TcpStream,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        self.connector.connect(name, stream).await
    }

    /// Verifies a certificate chain for this name.
    pub fn check(&self, chain: &[CertificateDer<'_>], name: &ServerName<'_>) -> Result<(), rustls::Error> {
        let (own, others) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        self.verifier.verify_server_cert(own, others, name, &[], UnixTime::now()).map(|_| ())
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

/// Server name in the certificate of a node.
pub fn name_of(node: &str, cluster: &str) -> Result<ServerName<'static>, String> {
    let name = format!("{node}.{cluster}.nephila");
    match ServerName::try_from(name.clone()) {
        Ok(proved @ ServerName::DnsName(_)) => Ok(proved),
        _ => Err(format!("no certificate can have the name {name}: names of nodes have at most 63 letters")),
    }
}

/// TLS configuration for connections among nodes of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Among {
    /// Name of the cluster, which is a part of the server name in every certificate of a node.
    pub cluster: String,
    /// Trusted root certificates; none without TLS.
    pub trust: Option<Trust>,
    /// Whether this node serves TLS, and so refuses connections without TLS.
    pub always: bool,
}

/// Trust, and the name that the server must prove.
pub(crate) type Proved = (Trust, ServerName<'static>);

impl Among {
    /// How to reach a node with this address in its lease: `HOST:PORT`, and trust and name for TLS.
    pub fn way<'a>(&self, node: &str, address: &'a str) -> Result<(&'a str, Option<Proved>), String> {
        match (address.strip_prefix(HTTPS), &self.trust) {
            (Some(rest), Some(trust)) => Ok((rest, Some((trust.clone(), name_of(node, &self.cluster)?)))),
            (Some(_), None) => Err(format!(
                "it answers over TLS at {address}, and this node believes nobody's certificates: set api.tls_ca_file"
            )),
            (None, _) if self.always => Err(format!(
                "it answers without TLS at {address}, and this node asks over TLS alone: set api.tls_cert_file there"
            )),
            (None, _) => Ok((address, None)),
        }
    }
}

/// TLS server configuration from a certificate file and a key file. With `as_whom`, the certificate must be valid for
/// this node's name under the trust of the other nodes.
pub fn acceptor(certificate: &Path, key: &Path, as_whom: Option<&Proved>) -> anyhow::Result<TlsAcceptor> {
    let what = || format!("api.tls_cert_file {}", certificate.display());
    let chain = certificates(certificate).with_context(what)?;
    if let Some((trust, name)) = as_whom {
        trust.check(&chain, name).with_context(|| {
            let name = name.to_str();
            format!(
                "{}: the other nodes do not believe that this is {name}; `nephila cluster keys` makes one",
                what()
            )
        })?;
    }
    let key_what = || format!("api.tls_key_file {}", key.display());
    let text = read(key, true).with_context(key_what)?;
    let pair = PrivateKeyDer::from_pem_slice(&text).with_context(key_what)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, pair)
        .with_context(|| format!("{} and {}", what(), key_what()))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Reads all certificates of a PEM file. Fails if the file has none.
pub fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let text = read(path, false)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>()?;
    anyhow::ensure!(!found.is_empty(), "there is no certificate in it");
    Ok(found)
}

/// Reads at most [`FILE_BYTES_MAX`] bytes of a file. Fails for a secret file that other users can access.
pub fn read(path: &Path, is_secret: bool) -> anyhow::Result<Vec<u8>> {
    let file = std::fs::File::open(path)?;
    let is_closed = !is_secret || private::is_secret(&file.metadata()?);
    anyhow::ensure!(is_closed, "it can be read by others: chmod 600 it");
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_04_a_node_with_tls_asks_over_nothing_else() {
        let (plain, tls) = ("10.0.0.1:6374", "https://10.0.0.1:6374");
        let without = Among { cluster: "news".into(), ..Among::default() };
        assert!(matches!(without.way("one", plain), Ok(("10.0.0.1:6374", None))));
        assert!(without.way("one", tls).unwrap_err().contains("api.tls_ca_file"));
        let trusting = Among { trust: Some(Trust::public()), ..without };
        assert!(matches!(trusting.way("one", plain), Ok((_, None))), "it has no TLS itself");
        let always = Among { always: true, ..trusting };
        assert!(always.way("one", plain).unwrap_err().contains("without TLS"));
        let (address, proved) = always.way("one", tls).unwrap();
        assert_eq!((address, proved.unwrap().1), (plain, ServerName::try_from("one.news.nephila").unwrap()));
    }

    #[test]
    fn every_name_of_a_node_can_be_proved() {
        for node in ["one", "node-1", "Node_1", &"n".repeat(63)] {
            assert!(name_of(node, "news").is_ok(), "{node}");
        }
        assert!(name_of(&"n".repeat(64), "news").is_err());
        assert!(name_of("one", "").is_err());
    }
}
