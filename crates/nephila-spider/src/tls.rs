//! TLS: trusted roots, offered protocols, and verification of certificates.

use std::fmt;
use std::io::{self, BufReader};
use std::sync::Arc;

use nephila_core::spider::{HttpVersion, Outcome, Settings, TlsPolicy};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error;

/// Maximum sessions cached for resumption.
const SESSIONS_MAX: usize = 4096;

/// TLS parameters of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsInfo {
    /// For `WARC-Protocol`: `tls/1.3`, `tls/1.2`.
    pub version: &'static str,
    /// The cipher suite by its IANA name.
    pub cipher: String,
    /// The fault of the certificate. Always `None` where certificates are verified.
    pub certificate: Option<Outcome>,
}

/// Makes TLS connections.
pub(crate) struct Tls {
    both: TlsConnector,
    only_h1: TlsConnector,
    /// Judges afterwards a certificate that was accepted without verification.
    judge: Option<Arc<WebPkiServerVerifier>>,
}

impl Tls {
    pub(crate) fn new(settings: &Settings) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = &settings.ca_file {
            let file = std::fs::File::open(path)
                .map_err(|e| io::Error::new(e.kind(), format!("spider.ca_file {}: {e}", path.display())))?;
            for certificate in CertificateDer::pem_reader_iter(BufReader::new(file)) {
                let certificate = certificate
                    .map_err(|e| io::Error::other(format!("spider.ca_file {}: {e}", path.display())))?;
                roots
                    .add(certificate)
                    .map_err(|e| io::Error::other(format!("spider.ca_file {}: {e}", path.display())))?;
            }
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(io::Error::other)?;
        let accept_any = settings.tls == TlsPolicy::AcceptAny;
        let chosen: Arc<dyn ServerCertVerifier> =
            if accept_any { Arc::new(AcceptAny(provider.clone())) } else { verifier.clone() };
        let connector = |h2: bool| -> io::Result<TlsConnector> {
            let mut config = ClientConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions()
                .map_err(io::Error::other)?
                .dangerous()
                .with_custom_certificate_verifier(chosen.clone())
                .with_no_client_auth();
            config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
            config.alpn_protocols = settings
                .http_versions
                .iter()
                .filter_map(|version| match version {
                    HttpVersion::H2 => h2.then(|| b"h2".to_vec()),
                    HttpVersion::Http11 => Some(b"http/1.1".to_vec()),
                })
                .collect();
            Ok(TlsConnector::from(Arc::new(config)))
        };
        Ok(Tls { both: connector(true)?, only_h1: connector(false)?, judge: accept_any.then_some(verifier) })
    }

    /// Performs the handshake with `host`. Returns the stream, whether the connection uses HTTP/2, and the TLS
    /// parameters.
    pub(crate) async fn connect<S>(
        &self,
        host: &str,
        stream: S,
        h2: bool,
    ) -> Result<(TlsStream<S>, bool, TlsInfo), (Outcome, String)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let bare = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_owned();
        let name = ServerName::try_from(bare).map_err(|e| (Outcome::UrlBadHost, e.to_string()))?;
        let connector = if h2 { &self.both } else { &self.only_h1 };
        let stream = connector
            .connect(name.clone(), stream)
            .await
            .map_err(|e| (error::of_handshake(&e), error::describe(&e)))?;
        let connection = stream.get_ref().1;
        let info = TlsInfo {
            version: match connection.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_3) => "tls/1.3",
                _ => "tls/1.2",
            },
            cipher: connection
                .negotiated_cipher_suite()
                .map(|suite| format!("{:?}", suite.suite()))
                .unwrap_or_default(),
            certificate: self
                .judge
                .as_ref()
                .and_then(|judge| judgement(judge, &name, connection.peer_certificates())),
        };
        let is_h2 = connection.alpn_protocol() == Some(b"h2");
        Ok((stream, is_h2, info))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("verify", &self.judge.is_none()).finish_non_exhaustive()
    }
}

fn judgement(
    judge: &WebPkiServerVerifier,
    name: &ServerName<'_>,
    chain: Option<&[CertificateDer<'_>]>,
) -> Option<Outcome> {
    let (own, others) = chain?.split_first()?;
    judge.verify_server_cert(own, others, name, &[], UnixTime::now()).err().map(|error| error::of_tls(&error))
}

/// Accepts every certificate; signatures are still checked, so that the peer at least owns its certificate.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
