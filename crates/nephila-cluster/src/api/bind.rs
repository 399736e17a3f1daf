//! Listening socket of a node: its address, access control and TLS certificate.
//!
//! Invariants: a node reachable from other machines has a token; a node configured for TLS serves TLS or does not
//! start.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use nephila_api::tls::{self, Among, HTTPS, Trust, name_of};
use nephila_api::{Guard, Keys, Token};
use nephila_engine::settings::{API_LISTEN, PER_SECOND, RESERVED, Role, Settings, TokenSettings, usage};

/// Maximum length of a token in bytes.
pub const TOKEN_BYTES_MAX: usize = 4_096;

/// A bound socket, not yet served.
pub struct Bound {
    /// Bound TCP socket that accepts connections to the API.
    pub listener: TcpListener,
    /// Rule that decides whether a request to the API is permitted.
    pub guard: Guard,
    /// TLS configuration; none without TLS.
    pub tls: Option<TlsAcceptor>,
    /// Address for other nodes: `HOST:PORT`, with TLS `https://HOST:PORT`.
    pub(crate) address: String,
}

impl Bound {
    /// URL for people.
    pub fn url(&self) -> String {
        if self.tls.is_some() { self.address.clone() } else { format!("http://{}", self.address) }
    }
}

/// Binds the socket, if configured.
pub async fn bind(settings: &Settings, node: &str) -> anyhow::Result<Option<Bound>> {
    let api = &settings.api;
    if api.listen.is_empty() {
        return Ok(None);
    }
    let token = match token(&api.token_file)? {
        None if api.token.is_empty() => None,
        None => Some(Arc::from(api.token.trim())),
        token => token,
    };
    let tls = answers_over(settings, node).map_err(usage)?;
    let is_local = |address: &SocketAddr| address.ip().is_loopback();
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(&*api.listen)
        .await
        .map_err(|error| usage(anyhow::anyhow!("api.listen {:?}: {error}", api.listen)))?
        .collect();
    if token.is_none() && api.tokens.is_empty() && !addresses.iter().all(is_local) {
        return Err(usage(anyhow::anyhow!(
            "api.listen {} can be reached from other machines, which needs a token: name a file with it in \
             api.token_file, the same on all nodes, or listen on 127.0.0.1",
            api.listen
        )));
    }
    let listener = match TcpListener::bind(&*addresses).await {
        Ok(listener) => listener,
        // Several nodes on one machine are at home there as well: the first of them has the usual port.
        Err(error) if api.listen == API_LISTEN => {
            tracing::warn!(%error, "{API_LISTEN}: {error}; this node answers on its folder's socket alone");
            return Ok(None);
        }
        Err(error) => {
            return Err(usage(anyhow::anyhow!("api.listen {}: {error}", api.listen)));
        }
    };
    let bound = listener.local_addr().context("the address of the API")?;
    let address = match &*api.advertise {
        // The unspecified address cannot be dialled by others.
        "" if bound.ip().is_unspecified() => {
            let name = rustix::system::uname();
            format!("{}:{}", name.nodename().to_string_lossy(), bound.port())
        }
        "" => bound.to_string(),
        advertise => advertise.to_owned(),
    };
    let address = if tls.is_some() { format!("{HTTPS}{address}") } else { address };
    let guard = match keys(settings, token, node)? {
        None => Guard::Local,
        Some(keys) => Guard::Token(Arc::new(keys)),
    };
    Ok(Some(Bound { listener, guard, tls, address }))
}

/// The tokens of clients and the secret among nodes; none if no token is set.
fn keys(settings: &Settings, token: Option<Arc<str>>, node: &str) -> anyhow::Result<Option<Keys>> {
    let api = &settings.api;
    let wrong = |text: String| usage(anyhow::anyhow!(text));
    let reads = self::token(&api.read_token_file)?;
    if token.is_none() && api.tokens.is_empty() {
        if reads.is_some() || !is_empty(&api.node_token_file) {
            let text = "api.read_token_file and api.node_token_file need api.token_file or [[api.tokens]]: without them \
                        everybody on this machine may change things";
            return Err(wrong(text.to_owned()));
        }
        return Ok(None);
    }
    let mut tokens = Vec::new();
    let files = [(RESERVED[0], token.clone(), Role::Admin), (RESERVED[1], reads, Role::Read)];
    for (name, secret, role) in files {
        tokens.extend(secret.map(|secret| Token { name: name.into(), secret, role, per_second: PER_SECOND }));
    }
    for TokenSettings { name, file, role, per_second } in &api.tokens {
        let secret =
            self::token(file)?.ok_or_else(|| wrong(format!("api.tokens: {name}: file is missing")))?;
        let per_second = if *per_second == 0 { PER_SECOND } else { *per_second };
        tokens.push(Token { name: name.as_str().into(), secret, role: *role, per_second });
    }
    for (number, one) in tokens.iter().enumerate() {
        if let Some(other) = tokens[..number].iter().find(|other| other.secret == one.secret) {
            return Err(wrong(format!(
                "the tokens {} and {} are the same: give each client its own, so that its role is clear",
                other.name, one.name
            )));
        }
    }
    let nodes = self::token(&api.node_token_file)?;
    if let Some(same) = tokens.iter().find(|token| Some(&token.secret) == nodes.as_ref()) {
        let text = format!(
            "api.node_token_file holds the same as the token {}: whoever has the token could pose as a node",
            same.name
        );
        return Err(wrong(text));
    }
    let nodes = match nodes.or(token) {
        Some(nodes) => nodes,
        None if !settings.cluster.servers.is_empty() => {
            let text = "nodes need a secret among each other: set api.node_token_file, or api.token_file, the same on all \
                        nodes";
            return Err(wrong(text.to_owned()));
        }
        // On one machine there are no other nodes.
        None => uuid::Uuid::new_v4().to_string().into(),
    };
    Ok(Some(Keys::new(tokens, nodes, node)))
}

/// TLS configuration for connections to other nodes.
pub fn among(settings: &Settings) -> anyhow::Result<Among> {
    let api = &settings.api;
    let file = [&api.tls_ca_file, &settings.cluster.tls_ca_file].into_iter().find(|file| !is_empty(file));
    let trust = file.map(|file| Trust::in_file(file)).transpose().map_err(usage)?;
    Ok(Among { cluster: settings.cluster.name.clone(), trust, always: !is_empty(&api.tls_cert_file) })
}

/// The TLS server configuration, if configured. In a cluster, the other nodes must accept our certificate.
pub fn answers_over(settings: &Settings, node: &str) -> anyhow::Result<Option<TlsAcceptor>> {
    let api = &settings.api;
    if is_empty(&api.tls_cert_file) {
        return Ok(None);
    }
    let mut as_whom = None;
    if !settings.cluster.servers.is_empty() {
        let trust = among(settings)?.trust.context(
            "api.tls_cert_file needs api.tls_ca_file or cluster.tls_ca_file, by which nodes know each other",
        )?;
        as_whom = Some((trust, name_of(node, &settings.cluster.name).map_err(anyhow::Error::msg)?));
    }
    tls::acceptor(&api.tls_cert_file, &api.tls_key_file, as_whom.as_ref()).map(Some)
}

/// Whether a path in the settings is unset.
pub fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

/// Reads the token from a file; none without a file.
pub fn token(file: &Path) -> anyhow::Result<Option<Arc<str>>> {
    if file.as_os_str().is_empty() {
        return Ok(None);
    }
    let what = || format!("the token in {}", file.display());
    let text = std::fs::read_to_string(file).with_context(what).map_err(usage)?;
    let token = text.trim();
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.is_empty() || token.len() > TOKEN_BYTES_MAX || !is_plain {
        let text = format!("{}: one line of letters, digits and signs", what());
        return Err(usage(anyhow::anyhow!(text)));
    }
    Ok(Some(token.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nephila_engine::exit::Exit;

    fn api(listen: &str) -> Settings {
        let mut settings = Settings::default();
        settings.api.listen = listen.into();
        settings
    }

    #[tokio::test]
    async fn whoever_is_reached_from_elsewhere_needs_a_token() {
        for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let error = bind(&api(listen), "one").await.err().unwrap();
            assert_eq!(error.downcast_ref(), Some(&Exit::Usage), "{listen}");
            assert!(format!("{error:#}").contains("api.token_file"), "{error:#}");
        }
        let bound = bind(&api("127.0.0.1:0"), "one").await.unwrap().unwrap();
        assert!(matches!(bound.guard, Guard::Local));
        assert_eq!(bound.address, bound.listener.local_addr().unwrap().to_string());
        assert!(bind(&api(""), "one").await.unwrap().is_none(), "empty is nowhere");
    }

    #[tokio::test]
    async fn a_token_is_asked_for_wherever_one_is_set() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "geheim\n").unwrap();
        let mut settings = api("127.0.0.1:0");
        (settings.api.token_file, settings.api.advertise) = (file.clone(), "one.test:7000".into());
        let bound = bind(&settings, "one").await.unwrap().unwrap();
        assert!(matches!(&bound.guard, Guard::Token(_)));
        assert_eq!(bound.address, "one.test:7000");
        // Nodes have the same, or one of their own, which nobody else has.
        assert!(matches!(&bound.guard, Guard::Token(keys) if *keys.nodes == *"geheim"));
        settings.api.node_token_file = dir.path().join("nodes");
        std::fs::write(&settings.api.node_token_file, "unter uns").unwrap();
        assert!(bind(&settings, "one").await.is_err(), "two words");
        std::fs::write(&settings.api.node_token_file, "unter-uns").unwrap();
        let bound = bind(&settings, "one").await.unwrap().unwrap();
        assert!(matches!(&bound.guard, Guard::Token(keys) if *keys.nodes == *"unter-uns"));
        settings.api.node_token_file = file.clone();
        assert!(bind(&settings, "one").await.is_err(), "whoever operates could pose as a node");
        settings.api.token_file = Default::default();
        assert!(bind(&settings, "one").await.is_err(), "everybody here could do everything");
        for wrong in ["", "two words", "line\nline", "umläut"] {
            std::fs::write(&file, wrong).unwrap();
            assert!(token(&file).is_err(), "{wrong:?}");
        }
        assert!(token(&dir.path().join("none")).is_err());
    }

    #[tokio::test]
    async fn sec_04_a_node_answers_over_tls_if_the_others_believe_that_it_is_the_one() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let nodes = vec!["one".to_owned(), "two=127.0.0.1+two.test".to_owned()];
        let (dir_of, cluster) = (dir.path().into(), "news".into());
        let keys = crate::keys::Wanted { dir: dir_of, cluster, nodes, ..Default::default() };
        crate::keys::make(&keys).unwrap();
        let mut settings = api("127.0.0.1:0");
        settings.cluster.name = "news".into();
        settings.cluster.servers = vec!["nats://127.0.0.1:4222".into()];
        settings.api.tls_cert_file = dir.path().join("node-two.pem");
        settings.api.tls_key_file = dir.path().join("node-two.key");
        let refused = async |settings: &Settings, node: &str| {
            let error = bind(settings, node).await.err().unwrap();
            assert_eq!(error.downcast_ref(), Some(&Exit::Usage));
            format!("{error:#}")
        };
        assert!(refused(&settings, "two").await.contains("api.tls_ca_file"), "by whom would it be known?");
        settings.cluster.tls_ca_file = dir.path().join("ca.pem");
        let bound = bind(&settings, "two").await.unwrap().unwrap();
        assert!(bound.tls.is_some() && bound.address.starts_with("https://127.0.0.1:"), "{}", bound.address);
        assert_eq!(bound.url(), bound.address);
        assert!(among(&settings).unwrap().always);
        assert!(refused(&settings, "one").await.contains("one.news.nephila"), "the certificate of another");
        std::fs::set_permissions(&settings.api.tls_key_file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(refused(&settings, "two").await.contains("chmod 600"));
    }

    #[tokio::test]
    async fn tokens_with_roles_stand_beside_the_others_and_no_two_are_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let token = |name: &str, text: &str, role| {
            let file = dir.path().join(name);
            std::fs::write(&file, text).unwrap();
            TokenSettings { name: name.into(), file, role, per_second: 0 }
        };
        let mut settings = api("0.0.0.0:0");
        settings.api.tokens = vec![token("desk", "desk-secret", Role::Operate)];
        let bound = bind(&settings, "one").await.unwrap().unwrap();
        assert!(matches!(bound.guard, Guard::Token(_)), "others may reach it: there is a token");
        settings.api.tokens.push(token("wall", "desk-secret", Role::Read));
        let error = bind(&settings, "one").await.err().unwrap();
        assert!(format!("{error:#}").contains("desk and wall are the same"), "{error:#}");
        settings.api.tokens.pop();
        settings.cluster.servers = vec!["nats://127.0.0.1:4222".into()];
        let error = bind(&settings, "one").await.err().unwrap();
        assert!(format!("{error:#}").contains("api.node_token_file"), "{error:#}");
        settings.api.node_token_file = dir.path().join("desk");
        let error = bind(&settings, "one").await.err().unwrap();
        assert!(format!("{error:#}").contains("pose as a node"), "{error:#}");
    }

    #[tokio::test]
    async fn a_port_that_was_asked_for_must_be_had() {
        let first = bind(&api("127.0.0.1:0"), "one").await.unwrap().unwrap();
        assert!(bind(&api(&first.address), "one").await.is_err());
    }
}
