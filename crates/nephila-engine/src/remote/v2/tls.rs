//! TLS between spiders and nodes: version 1.3 alone, the node proves itself by a certificate that the spider was given.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The protocol, as the handshake names it.
const PROTOCOL: &[u8] = b"nephila-spider/2";

/// The node's side.
pub(super) fn acceptor(certificate: &Path, key: &Path) -> anyhow::Result<TlsAcceptor> {
    let key = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("spiders.tls_key {}: no private key (PEM) can be read", key.display()))?;
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(certificates(certificate)?, key)
            .context("spiders.tls_cert and spiders.tls_key")?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The spider's side: a node is trusted if a certificate in this file is its own or has signed its own.
pub(super) fn connector(ca: &Path) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).with_context(|| ca.display().to_string())?;
    }
    let mut config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let what = || format!("{}: no certificate (PEM) can be read", file.display());
    let found = CertificateDer::pem_file_iter(file).with_context(what)?;
    let found = found.collect::<Result<Vec<_>, _>>().with_context(what)?;
    anyhow::ensure!(!found.is_empty(), "{}", what());
    Ok(found)
}
