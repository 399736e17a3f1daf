//! The connection to the servers, as a request sees the connection: whether a server is connected, and whether the
//! connection was lost during the request.
//!
//! Invariants: nothing is handed to the client while no server is connected, so its queue does not grow; a request ends
//! when its connection is lost, and not only at its timeout.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::{ASK_WAIT, BACKOFF_FIRST, BACKOFF_MAX, Backoff, CONNECT_PATIENCE, Credentials, Settings};
use crate::Error;

/// Timeout of one attempt to reach one server.
const DIAL_WAIT: Duration = Duration::from_secs(3);
/// Interval of pings. A dead connection is dropped after three pings, well before a lease of the usual length expires.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum messages of one subscription buffered in the client.
const SUBSCRIPTION_MESSAGES_MAX: usize = 4_096;
/// Maximum commands buffered in the client for the connection.
const CLIENT_COMMANDS_MAX: usize = 1_024;
/// Maximum bytes read from a file with a secret.
const SECRET_BYTES_MAX: u64 = 4_096;

/// The connection. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) client: Client,
    /// Number of lost connections.
    losses: Arc<watch::Sender<u64>>,
}

impl Link {
    /// Connects, with retries while no server answers.
    pub(super) async fn dial(settings: &Settings) -> Result<Link, Error> {
        let losses = Arc::new(watch::Sender::new(0));
        let end = Instant::now() + CONNECT_PATIENCE;
        let mut backoff = Backoff::new();
        loop {
            let options = options(settings, &losses).await?;
            let why = match timeout(CONNECT_PATIENCE, options.connect(settings.servers.clone())).await {
                Ok(Ok(client)) => return Ok(Link { client, losses }),
                Ok(Err(error)) => match error.kind() {
                    ConnectErrorKind::ServerParse
                    | ConnectErrorKind::Authentication
                    | ConnectErrorKind::AuthorizationViolation
                    | ConnectErrorKind::Tls => return Err(Error::Refused(error.to_string())),
                    // The client distinguishes this from a broken connection only in its error text.
                    _ if error.to_string().contains("certificate") => {
                        return Err(Error::Refused(error.to_string()));
                    }
                    _ => error.to_string(),
                },
                Err(_) => "no answer".to_owned(),
            };
            if Instant::now() >= end {
                return Err(Error::Unavailable { what: "connecting", waited: CONNECT_PATIENCE, why });
            }
            sleep(backoff.next()).await;
        }
    }

    /// Whether a server is connected at this moment.
    pub(super) fn is_up(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Number of connections lost so far.
    pub(super) fn losses(&self) -> u64 {
        *self.losses.borrow()
    }

    /// Awaits the answer to one request, or returns the reason for its failure.
    pub(super) async fn answer<T>(&self, question: impl Future<Output = T>) -> Result<T, String> {
        self.answer_within(ASK_WAIT, question).await
    }

    /// Like [`Link::answer`], with a given timeout.
    pub(super) async fn answer_within<T>(
        &self,
        limit: Duration,
        question: impl Future<Output = T>,
    ) -> Result<T, String> {
        if !self.is_up() {
            return Err("no server is connected".to_owned());
        }
        let mut losses = self.losses.subscribe();
        tokio::select! {
            biased;
            answer = timeout(limit, question) => answer.map_err(|_| "no answer".to_owned()),
            Ok(()) = losses.changed() => Err("the connection was lost".to_owned()),
        }
    }
}

pub(super) async fn options(
    settings: &Settings,
    losses: &Arc<watch::Sender<u64>>,
) -> Result<ConnectOptions, Error> {
    let losses = losses.clone();
    let mut options = ConnectOptions::new()
        .name(format!("nephila {}", settings.cluster))
        .connection_timeout(DIAL_WAIT)
        .request_timeout(Some(ASK_WAIT))
        .ping_interval(PING_INTERVAL)
        .subscription_capacity(SUBSCRIPTION_MESSAGES_MAX)
        .client_capacity(CLIENT_COMMANDS_MAX)
        .max_reconnects(None)
        .reconnect_delay_callback(|tries| {
            BACKOFF_MAX.min(BACKOFF_FIRST * u32::try_from(tries).unwrap_or(u32::MAX).min(100))
        })
        .event_callback(move |event| {
            if matches!(event, Event::Disconnected) {
                losses.send_modify(|count| *count += 1);
            }
            std::future::ready(())
        });
    if !settings.discover {
        options = options.ignore_discovered_servers();
    }
    options = match &settings.credentials {
        Credentials::None => options,
        Credentials::Token(token) => options.token(token.clone()),
        Credentials::User(user, password) => options.user_and_password(user.clone(), password.clone()),
        Credentials::UserFile(user, path) => options.user_and_password(user.clone(), secret(path)?),
        Credentials::NkeyFile(path) => options.nkey(nkey_seed(path)?),
        Credentials::File(path) => options
            .credentials_file(path)
            .await
            .map_err(|error| Error::Refused(format!("credentials {}: {error}", path.display())))?,
    };
    if let Some(tls) = &settings.tls {
        options = options.require_tls(true);
        if let Some(roots) = &tls.roots {
            options = options.add_root_certificates(roots.clone());
        }
        if let Some((certificate, key)) = &tls.identity {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        if tls.first {
            options = options.tls_first();
        }
    }
    Ok(options)
}

/// Reads the one line of a file that holds a secret.
fn secret(path: &Path) -> Result<String, Error> {
    let fault = |why: String| Error::Refused(format!("{}: {why}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| fault(error.to_string()))?;
    let mut text = String::new();
    file.take(SECRET_BYTES_MAX).read_to_string(&mut text).map_err(|error| fault(error.to_string()))?;
    match text.trim() {
        "" => Err(fault("it holds nothing".to_owned())),
        line if line.contains('\n') => Err(fault("it holds more than one line".to_owned())),
        line => Ok(line.to_owned()),
    }
}

/// Reads the nkey seed from a file. Validated here, since the client reports an invalid seed as a refusal by the
/// server.
fn nkey_seed(path: &Path) -> Result<String, Error> {
    let seed = secret(path)?;
    match nkeys::KeyPair::from_seed(&seed).map(|pair| pair.key_pair_type()) {
        Ok(nkeys::KeyPairType::User) => Ok(seed),
        _ => {
            let why = "it holds no seed of a user (SU…): `nephila cluster key` makes one";
            Err(Error::Refused(format!("{}: {why}", path.display())))
        }
    }
}
