//! Engine checks for `nephila doctor`: compares servers and streams with our operating advice.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::link::options;
use super::{Credentials, Engine, SERVER_VERSION_MIN, Settings};

/// Timeout of one request to a monitoring address.
const MONITOR_WAIT: Duration = Duration::from_secs(5);
/// Timeout for a server to accept or refuse a client without credentials.
const KNOCK_WAIT: Duration = Duration::from_secs(5);
/// Maximum size of a response from a monitoring address, in bytes.
const MONITOR_BYTES_MAX: u64 = 4 << 20;
/// A replica that is behind is looked at this number of times: in a stream that is written to, one is behind now and then.
const LOOKS: usize = 4;
/// Time between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// A replica that is at least this number of operations behind is reported as lagging.
const LAG_MAX: u64 = 1_000;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Good,
    /// Works, with a risk named in the text.
    Warning,
    /// A cluster must not run like this.
    Bad,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub level: Level,
    /// The observation, and the remedy.
    pub text: String,
}

impl Finding {
    fn new(level: Level, text: impl Into<String>) -> Self {
        Finding { level, text: text.into() }
    }
}

impl Engine {
    /// Checks the servers and the streams.
    pub async fn check(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        match self.0.link.client.try_server_info() {
            Some(info) => {
                found.push(of_version(&info.server_name, &info.version));
                let access = Access {
                    is_open: self.lets_everybody_in().await,
                    is_encrypted: self.0.settings.tls.is_some() || info.tls_required,
                    is_local: self.0.settings.servers.iter().all(|server| is_local(host_of(server)))
                        && is_local(&info.host),
                };
                found.extend(of_access(&info.server_name, access));
            }
            None => found.push(Finding::new(Level::Bad, "no server is connected")),
        }
        found.push(of_replicas(self.0.settings.replicas));
        match self.is_there().await {
            Ok(false) => {
                let text = format!(
                    "there is no cluster {} on these servers yet: the first `nephila serve` makes it",
                    self.0.settings.cluster
                );
                found.push(Finding::new(Level::Warning, text));
            }
            _ => {
                for config in self.0.configs() {
                    found.extend(self.of_stream(&config.name).await);
                }
            }
        }
        if self.0.settings.monitors.is_empty() {
            found.push(Finding::new(
                Level::Warning,
                "whether the servers run with `sync_interval: always` was not looked at, since no monitoring address \
                 is given: look for it in the `jetstream` section of each server's configuration. Without it a power \
                 loss of all servers loses what they acknowledged in the last two minutes",
            ));
        }
        for monitor in &self.0.settings.monitors {
            found.extend(of_monitor(monitor).await);
        }
        found
    }

    /// Whether the servers accept a client without credentials.
    async fn lets_everybody_in(&self) -> bool {
        let settings = &self.0.settings;
        if settings.credentials == Credentials::None {
            return true;
        }
        let nobody = Settings { credentials: Credentials::None, ..settings.clone() };
        let knock = async {
            let losses = Arc::default();
            options(&nobody, &losses).await.ok()?.connect(&nobody.servers).await.ok()
        };
        timeout(KNOCK_WAIT, knock).await.ok().flatten().is_some()
    }

    /// Findings about a stream. Those about its copies are the last ones of several looks.
    async fn of_stream(&self, name: &str) -> Vec<Finding> {
        let mut found = self.of_stream_now(name).await;
        for _ in 1..LOOKS {
            if found.iter().all(|finding| finding.level != Level::Warning) {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
            found = self.of_stream_now(name).await;
        }
        found
    }

    async fn of_stream_now(&self, name: &str) -> Vec<Finding> {
        let stream = match self.0.link.answer(self.0.context.get_stream(name)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return vec![Finding::new(Level::Bad, format!("stream {name}: {error}"))],
            Err(why) => return vec![Finding::new(Level::Bad, format!("stream {name}: {why}"))],
        };
        let info = stream.cached_info();
        let mut found = Vec::new();
        let wanted = self.0.settings.replicas;
        if info.config.num_replicas != wanted {
            let text = format!("stream {name} has {} replicas, not {wanted}", info.config.num_replicas);
            found.push(Finding::new(Level::Bad, text));
        }
        // For comparison before and after maintenance of the servers.
        let state = &info.state;
        let text = format!("stream {name}: {} messages, the last is {}", state.messages, state.last_sequence);
        found.push(Finding::new(Level::Good, text));
        let Some(cluster) = info.cluster.as_ref().filter(|_| wanted > 1) else { return found };
        if cluster.leader.is_none() {
            found.push(Finding::new(Level::Bad, format!("stream {name} has no leader")));
        }
        let copies: Vec<Copy<'_>> = cluster
            .replicas
            .iter()
            .map(|peer| Copy {
                server: &peer.name,
                is_offline: peer.offline,
                is_current: peer.current,
                lag: peer.lag.unwrap_or(0),
            })
            .collect();
        found.extend(of_copies(name, wanted, &copies));
        found
    }
}

/// Who can connect to the servers.
#[derive(Clone, Copy, Debug)]
struct Access {
    is_open: bool,
    is_encrypted: bool,
    is_local: bool,
}

/// The host of `nats://USER:PASSWORD@HOST:PORT`, or of `HOST:PORT`.
fn host_of(server: &str) -> &str {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    match rest.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => rest.split(':').next().unwrap_or(rest),
    }
}

/// Whether only this machine can reach the address.
fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn of_access(server: &str, access: Access) -> Vec<Finding> {
    let mut found = Vec::new();
    match access {
        Access { is_open: true, is_local: false, .. } => found.push(Finding::new(
            Level::Bad,
            format!(
                "server {server} lets in whoever reaches it, and other machines do: they can read, change and stop the \
                 crawl. `nephila cluster keys` makes accounts; see \"Who may speak to the servers\" in docs/operating.md"
            ),
        )),
        Access { is_open: true, is_local: true, .. } => found.push(Finding::new(
            Level::Good,
            format!("server {server} has no accounts; only this machine reaches it"),
        )),
        Access { is_open: false, .. } => {
            found.push(Finding::new(Level::Good, format!("server {server} lets in only those it knows")));
        }
    }
    if !access.is_local && !access.is_encrypted {
        let text = format!(
            "server {server} is spoken to without encryption: whoever is on the way can read the crawl. Give the servers \
             certificates (`nephila cluster keys`), and set cluster.tls_ca_file"
        );
        found.push(Finding::new(Level::Warning, text));
    }
    found
}

/// A replica of a stream other than its leader.
#[derive(Clone, Copy, Debug)]
struct Copy<'a> {
    server: &'a str,
    is_offline: bool,
    is_current: bool,
    lag: u64,
}

impl Copy<'_> {
    fn is_whole(&self) -> bool {
        !self.is_offline && self.is_current && self.lag <= LAG_MAX
    }
}

/// Findings about the replicas of a stream that should have `wanted` replicas.
fn of_copies(stream: &str, wanted: usize, copies: &[Copy<'_>]) -> Vec<Finding> {
    let mut found = Vec::new();
    let whole = 1 + copies.iter().filter(|copy| copy.is_whole()).count();
    for copy in copies.iter().filter(|copy| !copy.is_whole()) {
        let server = copy.server;
        let text = if !copy.is_offline {
            format!("stream {stream}: the copy on {server} is {} operations behind: wait for it", copy.lag)
        } else if 2 * whole <= wanted || copies.iter().any(|copy| !copy.is_offline && !copy.is_whole()) {
            format!(
                "stream {stream}: the copy on {server} is offline, and not all others are whole: bring it back, or wait for \
                 them; remove no server now"
            )
        } else {
            format!(
                "stream {stream}: the copy on {server} is offline. Bring that server back. If it has left for good: start \
                 another under a new name, then `nats server raft peer-remove {server}`, and change nothing else until \
                 every stream has {wanted} whole copies again"
            )
        };
        found.push(Finding::new(Level::Warning, text));
    }
    if copies.len() + 1 < wanted {
        let text = format!(
            "stream {stream} has {} copies of {wanted}: a server is missing that could hold one; start it, and the copy is \
             made by itself",
            copies.len() + 1
        );
        found.push(Finding::new(Level::Bad, text));
    }
    found
}

fn of_version(server: &str, version: &str) -> Finding {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse::<u64>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (major, minor) = SERVER_VERSION_MIN;
    if found >= SERVER_VERSION_MIN {
        Finding::new(Level::Good, format!("server {server} is nats-server {version}"))
    } else {
        let text = format!("server {server} is nats-server {version}: {major}.{minor} or newer is needed");
        Finding::new(Level::Bad, text)
    }
}

fn of_replicas(replicas: usize) -> Finding {
    if replicas >= 3 {
        Finding::new(Level::Good, "everything is kept three times")
    } else {
        let text =
            "everything is kept once: the loss of one server's disk is the loss of its part of the crawl";
        Finding::new(Level::Warning, text)
    }
}

/// Findings from the monitoring address of one server.
async fn of_monitor(monitor: &str) -> Vec<Finding> {
    let asked = async { Ok::<_, String>((get(monitor, "/varz").await?, get(monitor, "/jsz").await?)) };
    match timeout(MONITOR_WAIT, asked).await {
        Ok(Ok((server, jetstream))) => {
            let name = server["server_name"].as_str().unwrap_or(monitor);
            vec![of_version(name, server["version"].as_str().unwrap_or("?")), of_sync(name, &jetstream)]
        }
        Ok(Err(why)) => vec![Finding::new(Level::Warning, format!("{monitor} could not be asked: {why}"))],
        Err(_) => vec![Finding::new(Level::Warning, format!("{monitor} did not answer"))],
    }
}

fn of_sync(server: &str, jetstream: &Value) -> Finding {
    let config = &jetstream["config"];
    if config["sync_always"].as_bool() == Some(true) {
        Finding::new(Level::Good, format!("server {server} syncs always"))
    } else if config.is_object() {
        let seconds = config["sync_interval"].as_u64().unwrap_or(0) / 1_000_000_000;
        let text = format!(
            "server {server} syncs every {seconds} s: set `sync_interval: always` in its `jetstream` section. With less \
             a power loss of all servers loses what they acknowledged since"
        );
        Finding::new(Level::Bad, text)
    } else {
        Finding::new(Level::Bad, format!("server {server} runs without JetStream"))
    }
}

/// Fetches one response of a monitoring address over plain HTTP.
async fn get(monitor: &str, path: &str) -> Result<Value, String> {
    let address =
        monitor.strip_prefix("http://").ok_or("it does not begin with http://")?.trim_end_matches('/');
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).await.map_err(text)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(text)?;
    let mut answer = Vec::new();
    stream.take(MONITOR_BYTES_MAX).read_to_end(&mut answer).await.map_err(text)?;
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n").ok_or("it does not answer in HTTP")? + 4;
    serde_json::from_slice(&answer[body..]).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, level) in [
            ("2.15.0", Level::Good),
            ("2.15.1-preview", Level::Good),
            ("2.100.0", Level::Good),
            ("3.0.0", Level::Good),
            ("2.9.10", Level::Bad),
            ("2.14.9", Level::Bad),
            ("", Level::Bad),
        ] {
            assert_eq!(of_version("n", version).level, level, "{version}");
        }
    }

    #[test]
    fn sec_04_servers_that_let_everybody_in_are_a_fault_unless_they_are_this_machines_own() {
        let says = |is_open, is_encrypted, is_local| {
            let found = of_access("n", Access { is_open, is_encrypted, is_local });
            found.into_iter().map(|finding| finding.level).max().unwrap()
        };
        assert_eq!(says(true, true, false), Level::Bad);
        assert_eq!(says(true, false, true), Level::Good);
        assert_eq!(says(false, false, false), Level::Warning);
        assert_eq!(says(false, true, false), Level::Good);
        for (server, local) in [
            ("nats://127.0.0.1:4222", true),
            ("tls://ali:baba@localhost:4222", true),
            ("nats://[::1]:4222", true),
            ("127.8.0.1", true),
            ("nats://0.0.0.0:4222", false),
            ("nats://one:4222", false),
            ("nats://127.0.0.1@one:4222", false),
            ("nats://[2001:db8::1]:4222", false),
        ] {
            assert_eq!(is_local(host_of(server)), local, "{server}");
        }
    }

    #[test]
    fn clu_06_a_server_that_left_for_good_is_removed_only_while_the_others_are_whole() {
        let copy = |server, is_offline, lag| Copy { server, is_offline, is_current: lag == 0, lag };
        let says = |copies: &[Copy<'_>]| -> Vec<String> {
            of_copies("S", 3, copies).into_iter().map(|finding| finding.text).collect()
        };
        assert!(says(&[copy("b", false, 0), copy("c", false, 0)]).is_empty());
        let gone = says(&[copy("b", false, 0), copy("c", true, 0)]);
        assert!(gone.len() == 1 && gone[0].contains("peer-remove c"), "{gone:?}");
        // Only the third replica has the messages that the second lacks.
        let behind = says(&[copy("b", false, 5_000), copy("c", true, 0)]);
        assert!(behind.iter().all(|text| !text.contains("peer-remove")), "{behind:?}");
        assert!(behind[0].contains("5000 operations behind") && behind[1].contains("remove no server now"));
        let alone = says(&[copy("b", true, 0), copy("c", true, 0)]);
        assert!(alone.iter().all(|text| text.contains("remove no server now")), "{alone:?}");
        // Removed, and not replaced.
        let two = of_copies("S", 3, &[copy("b", false, 0)]);
        assert!(
            two.len() == 1 && two[0].level == Level::Bad && two[0].text.contains("2 copies of 3"),
            "{two:?}"
        );
    }

    #[test]
    fn a_server_that_syncs_now_and_then_is_bad() {
        let says = |text: &str| of_sync("n", &serde_json::from_str(text).unwrap());
        assert_eq!(
            says(r#"{"config":{"sync_interval":120000000000,"sync_always":true}}"#).level,
            Level::Good
        );
        let bad = says(r#"{"config":{"sync_interval":120000000000}}"#);
        assert!(bad.level == Level::Bad && bad.text.contains("every 120 s"), "{bad:?}");
        assert_eq!(says("{}").level, Level::Bad);
    }
}
