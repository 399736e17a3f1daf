//! The certificate authority of the test web, and server settings that issue by name.
//!
//! A [`Ca`] is made fresh in memory: nothing is read from or written to disk. A leaf is issued on demand, either
//! directly ([`Ca::issue`], [`Ca::issue_with`]) or by the server name in a TLS hello ([`Ca::server_config`]). Leaves
//! issued by name are cached, at most [`LEAVES_MAX`] of them, so that a handshake costs a signature and not a
//! certificate.
//!
//! Invariants: the aws-lc-rs provider is named everywhere, so a process without a default provider, or with another
//! one, behaves the same; all leaves of one `Ca` share one key unless `own_key` is set.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Capacity of the cache of leaves issued by server name; when one more is needed, the cache is cleared and leaves are
/// issued again on demand.
pub const LEAVES_MAX: usize = 4096;

/// ALPN for HTTP/1.1 alone.
pub const ALPN_HTTP1: &[&[u8]] = &[b"http/1.1"];
/// ALPN for HTTP/2, then HTTP/1.1.
pub const ALPN_BOTH: &[&[u8]] = &[b"h2", b"http/1.1"];

/// 2020-01-01, from which leaves and authorities are valid unless told otherwise.
const VALID_FROM: Duration = Duration::from_secs(1_577_836_800);
/// 2040-01-01, until which they are.
const VALID_UNTIL: Duration = Duration::from_secs(2_208_988_800);
/// The names of the leaf given to a client that sends no server name, as one does for an address in the URL.
const NAMES_WITHOUT_SNI: &[&str] = &["localhost", "127.0.0.1", "::1"];

/// A certificate chain, leaf first, and the key of the leaf.
pub type Issued = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// A certificate authority. Cheap to clone; clones share the leaves.
#[derive(Clone)]
pub struct Ca(Arc<Inner>);

struct Inner {
    issuer: CertifiedIssuer<'static, KeyPair>,
    leaf_key: KeyPair,
    /// The authority that signed this one, leaf-to-root order, for chains longer than one.
    above: Vec<CertificateDer<'static>>,
    leaves: Mutex<HashMap<String, Arc<CertifiedKey>>>,
    provider: Arc<CryptoProvider>,
}

/// How a leaf differs from an ordinary one.
#[derive(Clone)]
pub struct IssueOptions {
    /// DNS names and addresses the leaf is valid for.
    pub names: Vec<String>,
    /// When its validity begins; 2020 unless set.
    pub not_before: Option<SystemTime>,
    /// When its validity ends; 2040 unless set.
    pub not_after: Option<SystemTime>,
    /// The issuer; the `Ca` itself unless set.
    pub issuer: Option<Ca>,
    /// Self-signed, with the leaf's own key. Overrides `issuer`.
    pub self_signed: bool,
    /// Has a key of its own instead of the one all leaves share.
    pub own_key: bool,
    /// May be used by TLS servers (extended key usage); otherwise by TLS clients only.
    pub for_servers: bool,
}

impl Default for IssueOptions {
    fn default() -> IssueOptions {
        IssueOptions {
            names: Vec::new(),
            not_before: None,
            not_after: None,
            issuer: None,
            self_signed: false,
            own_key: false,
            for_servers: true,
        }
    }
}

impl IssueOptions {
    /// An ordinary leaf for these names.
    pub fn names(names: &[&str]) -> IssueOptions {
        IssueOptions {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..IssueOptions::default()
        }
    }
}

impl Ca {
    /// A new authority with fresh keys, signed by itself.
    #[expect(clippy::new_without_default, reason = "it makes keys: two of them are never equal")]
    pub fn new() -> Ca {
        let key = new_key();
        let issuer =
            CertifiedIssuer::self_signed(authority_params("testweb root"), key).expect("fixed parameters");
        Ca::from_issuer(issuer, Vec::new())
    }

    /// An authority signed by this one. Its leaves come with its own certificate, so a client that trusts the upper
    /// authority accepts them.
    pub fn intermediate(&self) -> Ca {
        let params = authority_params("testweb intermediate");
        let issuer = CertifiedIssuer::signed_by(params, new_key(), &self.0.issuer)
            .expect("fixed parameters and a good key");
        let mut above = vec![issuer.der().clone()];
        above.extend(self.0.above.iter().cloned());
        Ca::from_issuer(issuer, above)
    }

    fn from_issuer(issuer: CertifiedIssuer<'static, KeyPair>, above: Vec<CertificateDer<'static>>) -> Ca {
        Ca(Arc::new(Inner {
            issuer,
            leaf_key: new_key(),
            above,
            leaves: Mutex::new(HashMap::new()),
            provider: provider(),
        }))
    }

    /// The certificate of this authority, as PEM, for a trust file.
    pub fn pem(&self) -> String {
        self.0.issuer.pem()
    }

    /// The certificate of this authority, for a root store.
    pub fn der(&self) -> CertificateDer<'static> {
        self.0.issuer.der().clone()
    }

    /// A leaf for these names, valid now, and its key.
    ///
    /// # Panics
    ///
    /// When a name is not ASCII.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_with(IssueOptions::names(names))
    }

    /// A leaf that may be wrong on purpose: expired, not yet valid, signed by another authority or self-signed.
    ///
    /// # Panics
    ///
    /// When a name is not ASCII.
    pub fn issue_with(&self, options: IssueOptions) -> Issued {
        let mut params = CertificateParams::new(options.names).expect("names are ASCII");
        params.distinguished_name = common_name("testweb leaf");
        set_validity(
            &mut params,
            since_epoch(options.not_before, VALID_FROM),
            since_epoch(options.not_after, VALID_UNTIL),
        );
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![if options.for_servers {
            ExtendedKeyUsagePurpose::ServerAuth
        } else {
            ExtendedKeyUsagePurpose::ClientAuth
        }];
        params.use_authority_key_identifier_extension = !options.self_signed;
        let own_key = options.own_key.then(new_key);
        let key = own_key.as_ref().unwrap_or(&self.0.leaf_key);
        let signer = options.issuer.as_ref().unwrap_or(self);
        let leaf = if options.self_signed {
            params.self_signed(key)
        } else {
            params.signed_by(key, &signer.0.issuer)
        }
        .expect("parameters built above and a good key");
        let mut chain = vec![leaf.der().clone()];
        if !options.self_signed {
            chain.extend(signer.0.above.iter().cloned());
        }
        (chain, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())))
    }

    /// Settings of a server that shows a good leaf for any name the client asks.
    pub fn server_config(&self, alpn: &[&[u8]]) -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(self.0.provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider speaks TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ByName(self.clone())));
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }

    /// Settings of a server that shows this one chain to every client, right or wrong.
    pub fn server_config_fixed(issued: Issued, alpn: &[&[u8]]) -> Arc<ServerConfig> {
        let (chain, key) = issued;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the provider speaks TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("the key belongs to the leaf");
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }

    /// The leaf for one server name, issued now or before.
    fn leaf(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        let wanted = name.unwrap_or_default();
        if let Some(leaf) = self.leaves().get(wanted) {
            return leaf.clone();
        }
        let (chain, key) = match name {
            Some(name) => self.issue(&[name]),
            None => self.issue(NAMES_WITHOUT_SNI),
        };
        let key = self.0.provider.key_provider.load_private_key(key).expect("a key of our own making");
        let leaf = Arc::new(CertifiedKey::new(chain, key));
        let mut leaves = self.leaves();
        if leaves.len() >= LEAVES_MAX {
            leaves.clear();
        }
        leaves.insert(wanted.to_owned(), leaf.clone());
        leaf
    }

    fn leaves(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<CertifiedKey>>> {
        self.0.leaves.lock().expect("nobody panics while holding the leaves")
    }
}

impl std::fmt::Debug for Ca {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ca")
    }
}

/// The one provider of cryptography all of the test web uses.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Answers a hello with a leaf for its server name.
#[derive(Debug)]
struct ByName(Ca);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.leaf(hello.server_name()))
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("the system gives random bytes")
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    set_validity(&mut params, VALID_FROM, VALID_UNTIL);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Validity in seconds since 1970. The library does not export its type of time, so the value is made by addition.
fn set_validity(params: &mut CertificateParams, from: Duration, until: Duration) {
    params.not_before = rcgen::date_time_ymd(1970, 1, 1) + from;
    params.not_after = rcgen::date_time_ymd(1970, 1, 1) + until;
}

fn since_epoch(at: Option<SystemTime>, otherwise: Duration) -> Duration {
    at.map_or(otherwise, |at| at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls_pki_types::{ServerName, UnixTime};

    /// The result of a client that trusts `root` and verifies this chain under this name today.
    fn check(root: &Ca, chain: &[CertificateDer<'static>], name: &str) -> Result<(), rustls::Error> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(root.der()).unwrap();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(&chain[0], &chain[1..], &name, &[], UnixTime::now()).map(|_| ())
    }

    #[test]
    fn a_leaf_is_trusted_for_its_names_and_addresses_only() {
        let ca = Ca::new();
        let (chain, _) = ca.issue(&["a.test", "127.0.0.9"]);
        check(&ca, &chain, "a.test").unwrap();
        check(&ca, &chain, "127.0.0.9").unwrap();
        check(&ca, &chain, "b.test").unwrap_err();
        check(&Ca::new(), &chain, "a.test").unwrap_err();
    }

    #[test]
    fn leaves_can_be_wrong_in_every_way_asked_for() {
        let ca = Ca::new();
        let day = Duration::from_secs(86_400);
        let wrong = [
            IssueOptions { not_after: Some(SystemTime::now() - day), ..IssueOptions::names(&["a.test"]) },
            IssueOptions { not_before: Some(SystemTime::now() + day), ..IssueOptions::names(&["a.test"]) },
            IssueOptions { issuer: Some(Ca::new()), ..IssueOptions::names(&["a.test"]) },
            IssueOptions { self_signed: true, ..IssueOptions::names(&["a.test"]) },
            IssueOptions { for_servers: false, ..IssueOptions::names(&["a.test"]) },
        ];
        for options in wrong {
            let (chain, _) = ca.issue_with(options);
            check(&ca, &chain, "a.test").unwrap_err();
        }
    }

    #[test]
    fn an_intermediate_sends_the_chain_its_root_needs() {
        let root = Ca::new();
        let (chain, _) = root.intermediate().issue(&["a.test"]);
        assert_eq!(chain.len(), 2);
        check(&root, &chain, "a.test").unwrap();
        check(&root, &chain[..1], "a.test").unwrap_err();
    }

    #[test]
    fn leaves_by_name_are_remembered_and_bounded() {
        let ca = Ca::new();
        let first = ca.leaf(Some("a.test"));
        assert!(Arc::ptr_eq(&first, &ca.leaf(Some("a.test"))));
        for n in 0..LEAVES_MAX {
            ca.leaves().insert(format!("filler{n}"), first.clone());
        }
        ca.leaf(Some("b.test"));
        assert!(ca.leaves().len() <= LEAVES_MAX);
        check(&ca, &ca.leaf(None).cert, "127.0.0.1").unwrap();
    }
}
