//! Proxies: HTTP CONNECT and SOCKS5, always to an address that we have resolved and checked ourselves.
//!
//! A proxy that is given a name resolves the name again, and the address filter never sees the result. So names are
//! resolved here first and the proxy gets the address. Both http and https go through a tunnel. A proxy that allows
//! CONNECT to port 443 only cannot be used for http.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use url::Url;

/// Maximum size of the proxy's answer to CONNECT, in bytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// A proxy to tunnel through.
#[derive(Clone)]
pub(crate) struct Proxy {
    kind: Kind,
    /// Host and port of the proxy itself.
    pub(crate) host: String,
    pub(crate) port: u16,
    credentials: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Http,
    Socks5,
}

/// The proxies of the environment and the settings, and the hosts without a proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    none: Vec<String>,
}

impl Proxies {
    /// Reads the setting, or, if empty, `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`.
    pub(crate) fn new(setting: &str, environment: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        if !setting.is_empty() {
            let proxy = Proxy::parse(setting)?;
            return Ok(Proxies { http: Some(proxy.clone()), https: Some(proxy), none: Vec::new() });
        }
        let read = |name: &str| -> Result<Option<Proxy>, String> {
            let lower = name.to_ascii_lowercase();
            let value = environment(&lower).or_else(|| environment(name)).filter(|value| !value.is_empty());
            value.map(|value| Proxy::parse(&value)).transpose()
        };
        let none = environment("no_proxy").or_else(|| environment("NO_PROXY")).unwrap_or_default();
        Ok(Proxies {
            http: read("HTTP_PROXY")?,
            https: read("HTTPS_PROXY")?,
            none: none
                .split(',')
                .map(|name| name.trim().trim_start_matches('.').to_ascii_lowercase())
                .filter(|n| !n.is_empty())
                .collect(),
        })
    }

    /// The proxy for this host. Called for every fetch, so that a redirect to another scheme may change the proxy.
    pub(crate) fn of(&self, https: bool, host: &str) -> Option<&Proxy> {
        let exempt = |name: &String| {
            name == "*"
                || host == name
                || host.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.'))
        };
        if self.none.iter().any(exempt) {
            return None;
        }
        if https { self.https.as_ref() } else { self.http.as_ref() }
    }
}

impl Proxy {
    fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("proxy: not a URL ({error})"))?;
        let (kind, default_port) = match url.scheme() {
            "http" => (Kind::Http, 80),
            "socks5" | "socks5h" => (Kind::Socks5, 1080),
            other => return Err(format!("proxy: {other} is not supported; http and socks5 are")),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or("proxy: no host")?;
        let credentials = (!url.username().is_empty())
            .then(|| (percent_decoded(url.username()), percent_decoded(url.password().unwrap_or_default())));
        Ok(Proxy {
            kind,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: url.port().unwrap_or(default_port),
            credentials,
        })
    }

    /// Asks the proxy for a tunnel to `target`.
    pub(crate) async fn tunnel<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        target: SocketAddr,
    ) -> io::Result<()> {
        match self.kind {
            Kind::Http => self.connect(stream, target).await,
            Kind::Socks5 => self.socks5(stream, target).await,
        }
    }

    async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        target: SocketAddr,
    ) -> io::Result<()> {
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some((user, password)) = &self.credentials {
            let token = data_encoding::BASE64.encode(format!("{user}:{password}").as_bytes());
            request.push_str(&format!("Proxy-Authorization: Basic {token}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        // Byte by byte, because the bytes after the blank line belong to the tunnel.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() >= ANSWER_BYTES_MAX {
                return Err(io::Error::other("the proxy's answer is too long"));
            }
            answer.push(stream.read_u8().await?);
        }
        let line = answer.split(|b| *b == b'\r').next().unwrap_or_default();
        let status = line.split(|b| *b == b' ').nth(1).unwrap_or_default();
        if line.starts_with(b"HTTP/1.") && status.len() == 3 && status[0] == b'2' {
            return Ok(());
        }
        Err(io::Error::other(format!("the proxy answered {:?}", String::from_utf8_lossy(line))))
    }

    /// RFC 1928 and RFC 1929.
    async fn socks5<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        target: SocketAddr,
    ) -> io::Result<()> {
        const NO_AUTHENTICATION: u8 = 0;
        const PASSWORD: u8 = 2;
        let method = if self.credentials.is_some() { PASSWORD } else { NO_AUTHENTICATION };
        stream.write_all(&[5, 1, method]).await?;
        let mut chosen = [0; 2];
        stream.read_exact(&mut chosen).await?;
        if chosen != [5, method] {
            return Err(io::Error::other("the proxy wants another kind of authentication"));
        }
        if let Some((user, password)) = &self.credentials {
            let length = |text: &str| {
                u8::try_from(text.len()).map_err(|_| io::Error::other("proxy credentials are too long"))
            };
            let mut message = vec![1, length(user)?];
            message.extend_from_slice(user.as_bytes());
            message.push(length(password)?);
            message.extend_from_slice(password.as_bytes());
            stream.write_all(&message).await?;
            let mut verdict = [0; 2];
            stream.read_exact(&mut verdict).await?;
            if verdict[1] != 0 {
                return Err(io::Error::other("the proxy refuses our credentials"));
            }
        }
        let mut message = vec![5, 1, 0];
        match target.ip() {
            IpAddr::V4(address) => {
                message.push(1);
                message.extend_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                message.push(4);
                message.extend_from_slice(&address.octets());
            }
        }
        message.extend_from_slice(&target.port().to_be_bytes());
        stream.write_all(&message).await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await?;
        if answer[0] != 5 || answer[1] != 0 {
            return Err(io::Error::other(format!("the proxy cannot connect (code {})", answer[1])));
        }
        let bound = match answer[3] {
            1 => 4,
            4 => 16,
            3 => usize::from(stream.read_u8().await?),
            other => return Err(io::Error::other(format!("the proxy gave an address of kind {other}"))),
        };
        stream.read_exact(&mut vec![0; bound + 2]).await?;
        Ok(())
    }
}

/// Prints the proxy without its password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} proxy {}:{}", self.kind, self.host, self.port)
    }
}

fn percent_decoded(text: &str) -> String {
    String::from_utf8_lossy(&nephila_core::url::percent::decode_all(text.as_bytes())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(list: &[(&str, &str)]) -> Proxies {
        Proxies::new("", |name| list.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())).unwrap()
    }

    #[test]
    fn the_scheme_chooses_the_proxy_and_exceptions_go_without() {
        let proxies = proxies(&[
            ("http_proxy", "http://a.test:3128"),
            ("HTTPS_PROXY", "socks5://b.test"),
            ("NO_PROXY", "local.test, .corp"),
        ]);
        assert_eq!(proxies.of(false, "x.test").unwrap().host, "a.test");
        assert_eq!(proxies.of(true, "x.test").unwrap().port, 1080);
        assert!(proxies.of(true, "local.test").is_none());
        assert!(proxies.of(true, "www.local.test").is_none());
        assert!(proxies.of(true, "notlocal.test").is_some());
    }

    #[test]
    fn the_setting_wins_and_the_password_is_not_shown() {
        let proxies =
            Proxies::new("http://user:p%40ss@p.test:8080", |_| Some("http://other.test".into())).unwrap();
        let proxy = proxies.of(true, "x.test").unwrap();
        assert_eq!(proxy.credentials, Some(("user".into(), "p@ss".into())));
        assert!(!format!("{proxy:?}").contains("ss"), "{proxy:?}");
        assert!(Proxies::new("ftp://p.test", |_| None).is_err());
    }
}
