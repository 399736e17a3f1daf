//! Where a node listens, by which address the others reach it, and who may ask.
//!
//! What always holds: a node that others than this machine can reach has a token.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;

use crate::api::Guard;
use crate::settings::{self, API_LISTEN, usage};

/// The longest token.
const TOKEN_BYTES_MAX: usize = 4_096;

/// A socket that nobody reads from yet.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: TcpListener,
    pub(crate) guard: Guard,
    /// How others reach it.
    pub(crate) address: String,
}

/// Listens, if the settings say where.
pub(crate) async fn bind(api: &settings::Api, node: &str) -> anyhow::Result<Option<Bound>> {
    if api.listen.is_empty() {
        return Ok(None);
    }
    let token = match token(&api.token_file)? {
        None if api.token.is_empty() => None,
        None => Some(Arc::from(api.token.trim())),
        token => token,
    };
    let is_local = |address: &SocketAddr| address.ip().is_loopback();
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(&*api.listen)
        .await
        .map_err(|error| usage(anyhow::anyhow!("api.listen {:?}: {error}", api.listen)))?
        .collect();
    if token.is_none() && !addresses.iter().all(is_local) {
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
            eprintln!("nephila: {API_LISTEN}: {error}; this node answers on its folder's socket alone");
            return Ok(None);
        }
        Err(error) => {
            return Err(usage(anyhow::anyhow!("api.listen {}: {error}", api.listen)));
        }
    };
    let bound = listener.local_addr().context("the address of the API")?;
    let address = match &*api.advertise {
        // Nobody is reached at "all addresses".
        "" if bound.ip().is_unspecified() => {
            let name = rustix::system::uname();
            format!("{}:{}", name.nodename().to_string_lossy(), bound.port())
        }
        "" => bound.to_string(),
        advertise => advertise.to_owned(),
    };
    let reads = self::token(&api.read_token_file)?;
    let guard = match token {
        None if reads.is_some() => {
            let text = "api.read_token_file needs api.token_file: without it everybody on this machine may change things";
            return Err(usage(anyhow::anyhow!(text)));
        }
        None => Guard::Local,
        Some(token) => Guard::Token { token, reads, node: node.into() },
    };
    Ok(Some(Bound { listener, guard, address }))
}

/// The token in a file; none if no file is named.
pub(crate) fn token(file: &Path) -> anyhow::Result<Option<Arc<str>>> {
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
    use crate::exit::Exit;

    fn api(listen: &str) -> settings::Api {
        settings::Api { listen: listen.into(), ..settings::Api::default() }
    }

    #[tokio::test]
    async fn whoever_is_reached_from_elsewhere_needs_a_token() {
        for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let error = bind(&api(listen), "one").await.unwrap_err();
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
        let settings = settings::Api {
            token_file: file.clone(),
            advertise: "one.test:7000".into(),
            ..api("127.0.0.1:0")
        };
        let bound = bind(&settings, "one").await.unwrap().unwrap();
        assert!(matches!(&bound.guard, Guard::Token { token, .. } if **token == *"geheim"));
        assert_eq!(bound.address, "one.test:7000");
        for wrong in ["", "two words", "line\nline", "umläut"] {
            std::fs::write(&file, wrong).unwrap();
            assert!(token(&file).is_err(), "{wrong:?}");
        }
        assert!(token(&dir.path().join("none")).is_err());
    }

    #[tokio::test]
    async fn a_port_that_was_asked_for_must_be_had() {
        let first = bind(&api("127.0.0.1:0"), "one").await.unwrap().unwrap();
        assert!(bind(&api(&first.address), "one").await.is_err());
    }
}
