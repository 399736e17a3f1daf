//! The HTTP API of a node.

use std::collections::HashSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Default address and port of the API.
pub const API_LISTEN: &str = "127.0.0.1:6374";
/// Requests per second that a token may send, without a number of its own.
pub const PER_SECOND: u32 = 1_000;
/// Maximum number of requests per second of a token.
const PER_SECOND_MAX: u32 = 100_000;
/// Maximum number of `[[api.tokens]]`.
const TOKENS_MAX: usize = 64;
/// Maximum length of the name of a token in bytes.
const TOKEN_NAME_BYTES_MAX: usize = 64;
/// Names of the tokens in `token_file` and `read_token_file`.
pub const RESERVED: [&str; 2] = ["token_file", "read_token_file"];

/// The HTTP API of a node. Section `[api]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Api {
    /// Listen address and port of the API. Empty: no API. An address that other machines can reach requires a token.
    pub listen: String,
    /// Address by which the other nodes reach this node, `HOST:PORT`. Empty: as `listen`.
    pub advertise: String,
    /// Address at which other people reach `/public/`, such as that of a proxy: `https://HOST` or `https://HOST/PATH`.
    /// Links of `nephila link` begin with it. Empty: the address of the request, or `listen`.
    pub public_url: String,
    /// Certificate of this node, with `tls_key_file`: the API then uses TLS, and other nodes are requested over TLS
    /// only. `nephila cluster keys` creates both, `node-NAME.pem` and `node-NAME.key`.
    pub tls_cert_file: PathBuf,
    /// Private key of `tls_cert_file`. Only its owner may be able to read the file.
    pub tls_key_file: PathBuf,
    /// File with the CA certificates of the nodes. Empty: `cluster.tls_ca_file`.
    pub tls_ca_file: PathBuf,
    /// File with the token that every request must carry, the same on all nodes. The token permits everything. Takes
    /// precedence over `token`.
    pub token_file: PathBuf,
    /// The token itself. A file is safer: settings are printed.
    pub token: String,
    /// File with a read-only token, for dashboards and programs.
    pub read_token_file: PathBuf,
    /// Further tokens, each with a role and a rate, as many `[[api.tokens]]` as there are clients: `name`, `file` with
    /// the token, `role` (`read`: asks for everything but secrets; `operate`: also jobs, URLs, pauses and stops of
    /// jobs; `admin`: everything), `per_second`, the number of requests per second (0: 1,000).
    pub tokens: Vec<TokenSettings>,
    /// File with the secret by which nodes authenticate to each other, the same on all nodes and nowhere else. The
    /// secret permits the read requests of a node, and no changes. Empty: `token_file`.
    pub node_token_file: PathBuf,
    /// Maximum memory in bytes for captures that are read often; 0 for none. The newest capture of a URL is known after
    /// two seconds at most.
    pub cache_bytes: u64,
    /// When pages are read: `partial` answers at any time with what is there, `when-ready` answers 503 with
    /// `Retry-After` while URLs are queued, or due within `crawl.retry_wait_max`.
    pub reads: Reads,
}

/// A token of a client. Section `[[api.tokens]]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenSettings {
    /// Name for people: letters, digits, `-` and `_`.
    pub name: String,
    /// File with the token.
    pub file: PathBuf,
    /// What the token permits.
    pub role: Role,
    /// Maximum number of requests per second; 0 is [`PER_SECOND`].
    pub per_second: u32,
}

/// What a client may do. Each role may do what the roles before it may.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Ask for everything but secrets.
    #[default]
    Read,
    /// Create and change jobs, and add URLs.
    Operate,
    /// Stop hosts, drain nodes, assign domains, change delays.
    Admin,
}

impl Role {
    /// All roles, the least first.
    pub const ALL: [Role; 3] = [Role::Read, Role::Operate, Role::Admin];

    /// The role in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }
}

/// When pages are read.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reads {
    /// At any time.
    #[default]
    Partial,
    /// Once nothing is left to crawl.
    WhenReady,
}

impl Api {
    /// Refuses tokens that have no usable name, no file, or too high a rate.
    pub(super) fn check(&self) -> Result<(), String> {
        let url = &*self.public_url;
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let is_address = |rest: &str| {
            !rest.starts_with('/')
                && rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#@\"<>\\".contains(&byte))
        };
        if !url.is_empty() && !rest.is_some_and(|rest| !rest.is_empty() && is_address(rest)) {
            return Err(format!("api.public_url {url:?}: https://HOST or https://HOST/PATH"));
        }
        if self.tokens.len() > TOKENS_MAX {
            return Err(format!("api.tokens: at most {TOKENS_MAX} tokens"));
        }
        let mut names = HashSet::from(RESERVED);
        for TokenSettings { name, file, per_second, .. } in &self.tokens {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if name.is_empty() || name.len() > TOKEN_NAME_BYTES_MAX || !name.bytes().all(is_plain) {
                return Err(format!(
                    "api.tokens: name {name:?}: 1 to {TOKEN_NAME_BYTES_MAX} letters, digits, - or _"
                ));
            }
            if !names.insert(name) {
                return Err(format!(
                    "api.tokens: name {name:?} is used twice, or belongs to another setting"
                ));
            }
            if file.as_os_str().is_empty() {
                return Err(format!("api.tokens: {name}: file is missing"));
            }
            if *per_second > PER_SECOND_MAX {
                return Err(format!("api.tokens: {name}: per_second is at most {PER_SECOND_MAX}"));
            }
        }
        Ok(())
    }

    /// `cache_bytes` as a size of memory.
    pub fn cache_bytes(&self) -> usize {
        usize::try_from(self.cache_bytes).unwrap_or(usize::MAX)
    }
}

impl Default for Api {
    fn default() -> Self {
        Api {
            listen: API_LISTEN.into(),
            advertise: String::new(),
            public_url: String::new(),
            tls_cert_file: PathBuf::new(),
            tls_key_file: PathBuf::new(),
            tls_ca_file: PathBuf::new(),
            token_file: PathBuf::new(),
            token: String::new(),
            read_token_file: PathBuf::new(),
            tokens: Vec::new(),
            node_token_file: PathBuf::new(),
            cache_bytes: 128 << 20,
            reads: Reads::Partial,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_begin_with_an_address_of_the_web() {
        let check = |url: &str| Api { public_url: url.into(), ..Api::default() }.check();
        for right in ["", "https://crawl.example.org", "http://127.0.0.1:8080/crawl/", "https://[::1]:9"] {
            assert_eq!(check(right), Ok(()), "{right}");
        }
        for wrong in [
            "crawl.example.org",
            "https://",
            "ftp://x",
            "https://x/?a",
            "https://x/#a",
            "https://u@x",
            "https:// x",
            "https:///x",
        ] {
            assert!(check(wrong).unwrap_err().contains("api.public_url"), "{wrong}");
        }
    }

    #[test]
    fn a_token_has_a_name_of_its_own_and_a_file() {
        let token = |name: &str, file: &str, per_second| TokenSettings {
            name: name.into(),
            file: file.into(),
            per_second,
            ..TokenSettings::default()
        };
        let check = |tokens: Vec<TokenSettings>| Api { tokens, ..Api::default() }.check();
        assert_eq!(check(vec![token("a", "a.token", 0), token("B-2", "b.token", PER_SECOND_MAX)]), Ok(()));
        for (tokens, named) in [
            (vec![token("", "a", 0)], "name"),
            (vec![token("a.b", "a", 0)], "a.b"),
            (vec![token("a", "a", 0), token("a", "b", 0)], "twice"),
            (vec![token("token_file", "a", 0)], "token_file"),
            (vec![token("a", "", 0)], "file is missing"),
            (vec![token("a", "a", PER_SECOND_MAX + 1)], "per_second"),
            (vec![token("a", "a", 0); TOKENS_MAX + 1], "at most"),
        ] {
            let error = check(tokens).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
