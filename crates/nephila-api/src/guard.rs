//! Access control: which clients may ask for which operations.
//!
//! Invariants: with tokens, a request without a valid token, session or proof of a node reaches only operations that
//! need no role; a browser's session changes something only from a page of our own origin; without tokens, only
//! programs and pages of this machine are answered.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode, request};
use nephila_engine::settings::Role;

use super::content::Content;
use super::problem::{HttpAnswer, Instead, problem, retry_after, whole};
use super::proof::{self, Nonce, Once};
use super::public::is_public;
use super::tokens::{Session, Token, Tokens};

/// Access control: which clients may send requests.
#[derive(Clone, Debug)]
pub enum Guard {
    /// Every client that can open the socket: the folder's owner.
    Owner,
    /// Every client on this machine, and pages of our own origin in a browser.
    Local,
    /// Every program on this machine; a page of another origin may have `/` in a frame; the policy of `/` says which.
    Framed,
    /// Clients with a token; the token determines the permissions.
    Token(Arc<Keys>),
}

/// Tokens of clients, and the secret among nodes.
#[derive(Debug)]
pub struct Keys {
    /// Tokens of clients other than nodes.
    pub tokens: Tokens,
    /// Shared secret of the nodes, for read requests only. A node proves knowledge of the secret and never sends the
    /// secret.
    pub nodes: Arc<str>,
    /// The name of this node.
    pub node: Arc<str>,
    /// Recent nonces of nodes, to reject replays.
    pub once: Once,
}

impl Keys {
    /// Keys of a node with this name.
    pub fn new(tokens: impl IntoIterator<Item = Token>, nodes: Arc<str>, node: &str) -> Keys {
        Keys { tokens: Tokens::new(tokens), nodes, node: node.into(), once: Once::default() }
    }
}

/// How a client was recognised.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// No token is needed here, or for this operation.
    Anyone,
    /// A token, by its index.
    Token(usize),
    /// A browser's session.
    Session(Session),
    /// Another node; the answer carries a proof over this nonce.
    Node(Nonce),
}

/// A client that was let in.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) who: Who,
    /// The role; none for an operation that needs no role, where nobody was asked.
    pub(super) role: Option<Role>,
    /// The keys, if tokens are needed here.
    pub(super) keys: Option<Arc<Keys>>,
}

impl Asker {
    /// Name under which requests of the client are counted and remembered.
    pub(super) fn name(&self) -> &str {
        match (&self.who, &self.keys) {
            (Who::Token(index) | Who::Session(Session { token: index, .. }), Some(keys)) => {
                &keys.tokens.get(*index).name
            }
            _ => "",
        }
    }

    /// Adds the proof to an answer for a node.
    pub(super) async fn prove(&self, answer: HttpAnswer) -> HttpAnswer {
        let (Some(keys), Who::Node(nonce)) = (&self.keys, &self.who) else { return answer };
        // Nodes do not follow streams.
        if answer.body().is_stream() {
            return answer;
        }
        let (mut head, body) = whole(answer).await;
        let mac = proof::of_answer(&keys.nodes, nonce, head.status, &head.headers, &body);
        let mac = HeaderValue::from_str(&mac).expect("it is base64");
        head.headers.insert(proof::PROOF, mac);
        HttpAnswer::from_parts(head, Content::whole(body))
    }
}

impl Guard {
    /// Lets a client in that may ask for an operation with this role. Otherwise the answer says why not.
    pub(super) fn lets_in(
        &self,
        head: &request::Parts,
        needed: Option<Role>,
        is_tls: bool,
    ) -> Result<Asker, Instead> {
        let anyone = |role| Asker { who: Who::Anyone, role, keys: None };
        let keys = match self {
            Guard::Owner => return Ok(anyone(Some(Role::Admin))),
            // The link permits, whoever holds it: also a page of another site, or a proxy under another name.
            Guard::Local if needed.is_none() && is_public(head.uri.path()) => return Ok(anyone(None)),
            Guard::Local | Guard::Framed => {
                self.check_page(head.uri.path(), &head.headers)?;
                return Ok(anyone(Some(Role::Admin)));
            }
            Guard::Token(keys) => keys,
        };
        let Some(needed) = needed else {
            return Ok(Asker { keys: Some(keys.clone()), ..anyone(None) });
        };
        let (who, role) = keys.recognise(head, is_tls)?;
        if role < needed {
            let detail = format!(
                "the role of this token is {}, and the operation needs {}: see docs/api.md",
                role.name(),
                needed.name()
            );
            return Err(problem(StatusCode::FORBIDDEN, "forbidden for this token", detail).into());
        }
        Ok(Asker { who, role: Some(role), keys: Some(keys.clone()) })
    }

    /// Refuses pages of other sites where no token is needed. Such a page can make a browser send requests to us. The
    /// browser says so in `Origin` or `Sec-Fetch-Site`, or (DNS rebinding) sends a `Host` name that we do not have.
    fn check_page(&self, path: &str, headers: &HeaderMap) -> Result<(), Instead> {
        let is_frame = path == "/" && headers.get("sec-fetch-dest").is_some_and(|it| it == "iframe");
        let may_be_elsewhere = is_frame && matches!(self, Guard::Framed);
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_own_page = matches!(self, Guard::Local) && is_own_origin(headers) && is_loopback(host);
        let is_strange = (headers.contains_key(header::ORIGIN) && !is_own_page)
            || (is_from_elsewhere(headers) && !may_be_elsewhere)
            || !is_literal(host);
        if !is_strange {
            return Ok(());
        }
        let detail =
            "ask by address, such as 127.0.0.1, and not from a page of another site; or set api.token_file";
        Err(problem(StatusCode::FORBIDDEN, "forbidden for web pages", detail).into())
    }
}

impl Keys {
    /// Recognises a client by a node's proof, a token or a session.
    fn recognise(&self, head: &request::Parts, is_tls: bool) -> Result<(Who, Role), Instead> {
        let now = seconds();
        let credentials = head.headers.get(header::AUTHORIZATION).and_then(|text| text.to_str().ok());
        if let Some(credentials) = credentials {
            let target = head.uri.path_and_query().map_or("", |target| target.as_str());
            let asked = (&head.method, target);
            let nonce = proof::check_request(&self.nodes, &self.node, asked, credentials, now);
            if let Some(nonce) = nonce.filter(|nonce| self.once.is_first(nonce, now)) {
                return Ok((Who::Node(nonce), Role::Read));
            }
        }
        let (index, who) = match self.tokens.bearer(&head.headers) {
            Some(index) => (index, Who::Token(index)),
            // Whoever sends a token means the token.
            None if credentials.is_some() => return Err(no_token()),
            None => {
                let session = self.tokens.session(&head.headers, is_tls, now).ok_or_else(no_token)?;
                check_session(head)?;
                (session.token, Who::Session(session))
            }
        };
        if let Err(wait) = self.tokens.count(index) {
            let Token { name, per_second, .. } = self.tokens.get(index);
            let detail = format!("the token {name} may send {per_second} requests per second");
            let answer = problem(StatusCode::TOO_MANY_REQUESTS, "too many requests", detail);
            return Err(retry_after(answer, wait).into());
        }
        Ok((who, self.tokens.get(index).role))
    }
}

fn no_token() -> Instead {
    let detail = "send `Authorization: Bearer TOKEN`; commands do with --token-file FILE";
    let mut answer = problem(StatusCode::UNAUTHORIZED, "missing or invalid token", detail);
    let realm = HeaderValue::from_static("Bearer realm=\"nephila\"");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
    answer.into()
}

/// Refuses requests of other sites' pages that carry a session (CSRF).
fn check_session(head: &request::Parts) -> Result<(), Instead> {
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    let is_same_site = head.headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin");
    let is_ours = match is_read {
        true => !is_from_elsewhere(&head.headers),
        false => is_same_site && is_own_origin(&head.headers),
    };
    if is_ours {
        return Ok(());
    }
    let detail = "with a session, only pages of this server change something: Sec-Fetch-Site is same-origin, and Origin is the \
                  address in Host";
    Err(problem(StatusCode::FORBIDDEN, "forbidden for web pages", detail).into())
}

/// Whether `Origin` is the address in `Host`.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(origin), Some(host)) = (text(header::ORIGIN), text(header::HOST)) else { return false };
    let place = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    headers.get_all(header::ORIGIN).iter().count() == 1
        && !host.is_empty()
        && place.is_some_and(|place| place.eq_ignore_ascii_case(host))
}

/// Whether the browser reports a request from a page of another site. For typed addresses and our own pages the field
/// is `none` or `same-origin`.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    site.is_some_and(|site| site != b"none" && site != b"same-origin")
}

/// The name or address in a `Host` field.
fn name_in(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// Whether a `Host` field is an IP address or `localhost`.
fn is_literal(host: &str) -> bool {
    let name = name_in(host);
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

/// Whether a `Host` field is an address of this machine alone.
fn is_loopback(host: &str) -> bool {
    let name = name_in(host);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Unix time in seconds.
pub(super) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
