//! Programs of the operator to which events are sent: `[[webhooks]]` of the settings file.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use nephila_core::event::Kind;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Maximum number of webhooks.
pub const WEBHOOKS_MAX: usize = 16;
/// Maximum length of a name in bytes.
const NAME_BYTES_MAX: usize = 32;
/// Range of `events_max`.
const EVENTS: std::ops::RangeInclusive<usize> = 1..=1_000;
/// Range of `bytes_max`.
const BYTES: std::ops::RangeInclusive<usize> = 4 << 10..=4 << 20;
/// Range of `timeout`.
const TIMEOUT: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(300);

/// A program of the operator to which the events of a crawl on one machine are sent. Table `[[webhooks]]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Webhook {
    /// Name: 1 to 32 letters, digits, `-` and `_`. The position up to which events were delivered is kept under this
    /// name, also if the other values change.
    pub name: String,
    /// URL to which events are sent. Redirects are not followed. The URL is printed with the settings, so a secret
    /// belongs in `secret_file`.
    pub url: String,
    /// Kinds of events that are sent, by the names in `docs/events.md`. Empty: all kinds. A `gap` is always sent.
    pub kinds: Vec<String>,
    /// File with the secret that signs deliveries, `whsec_` and the Base64 of 24 to 64 bytes, readable by its owner
    /// alone. With several secrets, one per line, a delivery has a signature of each, so that a secret can be replaced.
    pub secret_file: PathBuf,
    /// First event of a webhook without a position: the `beginning`, all events that are still kept, or the `end`,
    /// events from then on.
    pub from: WebhookFrom,
    /// Maximum number of events in a delivery, at most 1,000.
    pub events_max: usize,
    /// Maximum size of the events in a delivery in bytes, 4 KiB to 4 MiB.
    pub bytes_max: usize,
    /// Maximum time from the first packet to the head of the answer, 1 s to 5 min.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Permit `http` to an address that is not loopback. Everybody on the way can then read the events; the signature
    /// still protects against changes.
    pub allow_http: bool,
    /// File with the CA certificates that the receiver's certificate must be signed by. Empty: the public ones.
    pub ca_file: PathBuf,
}

/// First event of a webhook.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookFrom {
    /// All events that are kept.
    #[default]
    Beginning,
    /// Future events.
    End,
}

impl Default for Webhook {
    fn default() -> Self {
        Webhook {
            name: String::new(),
            url: String::new(),
            kinds: [Kind::Story, Kind::Changed, Kind::Failed, Kind::Job]
                .map(|kind| kind.name().into())
                .into(),
            secret_file: PathBuf::new(),
            from: WebhookFrom::Beginning,
            events_max: 100,
            bytes_max: 256 << 10,
            timeout: Duration::from_secs(15),
            allow_http: false,
            ca_file: PathBuf::new(),
        }
    }
}

impl Webhook {
    /// The URL, parsed.
    pub fn parsed(&self) -> Result<Url, String> {
        // The URL is not repeated: it may hold a secret.
        let wrong = |why: &str| Err(format!("url: {why}"));
        let url = match Url::parse(&self.url) {
            Ok(url) => url,
            Err(error) => return wrong(&error.to_string()),
        };
        if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
            return wrong("https://HOST/PATH is meant");
        }
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return wrong("a URL has neither a user name nor a fragment here; deliveries are signed instead");
        }
        if url.scheme() == "http" && !self.allow_http && !is_loopback(&url) {
            return wrong(
                "everybody on the way to this host can read the events: use https, or permit http with allow_http = true",
            );
        }
        Ok(url)
    }

    fn check(&self) -> Result<(), String> {
        self.parsed()?;
        if let Some(kind) = self.kinds.iter().find(|kind| Kind::by_name(kind).is_none()) {
            let all: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            return Err(format!("{kind:?} is no kind of event; there are {}", all.join(", ")));
        }
        if self.secret_file.as_os_str().is_empty() {
            return Err("secret_file is missing: a file with a line such as whsec_BASE64".into());
        }
        if !EVENTS.contains(&self.events_max) {
            return Err(format!("events_max is from {} to {}", EVENTS.start(), EVENTS.end()));
        }
        if !BYTES.contains(&self.bytes_max) {
            return Err(format!("bytes_max is from {} to {}", BYTES.start(), BYTES.end()));
        }
        if !TIMEOUT.contains(&self.timeout) {
            return Err("timeout is from 1s to 5min".into());
        }
        Ok(())
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).to_canonical().is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Checks the webhooks. Returns the first fault.
pub(super) fn check(webhooks: &[Webhook], cluster: Option<&str>) -> Result<(), String> {
    if let (Some(cluster), false) = (cluster, webhooks.is_empty()) {
        return Err(format!(
            "[[webhooks]] are for a crawl on one machine. The events of a cluster are in the JetStream stream \
             NEPH_{cluster}_EVENTS (cluster.events = true), which any program reads with a durable consumer: \
             docs/events.md"
        ));
    }
    if webhooks.len() > WEBHOOKS_MAX {
        return Err(format!("webhooks: there may be {WEBHOOKS_MAX}"));
    }
    for (number, webhook) in webhooks.iter().enumerate() {
        let name = &webhook.name;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
            return Err(format!("webhooks: name {name:?}: 1 to {NAME_BYTES_MAX} letters, digits, - or _"));
        }
        // The positions are files, and some file systems know no case.
        if webhooks[..number].iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
            return Err(format!("webhooks: name {name:?} is used twice"));
        }
        webhook.check().map_err(|why| format!("webhooks: {name}: {why}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(url: &str) -> Webhook {
        Webhook { name: "a".into(), url: url.into(), secret_file: "s".into(), ..Webhook::default() }
    }

    #[test]
    fn a_webhook_that_cannot_work_is_refused_with_its_name_and_the_reason() {
        let usual = || webhook("https://a.example/hook?x=1");
        assert_eq!(check(&[usual()], None), Ok(()));
        let changed = |change: fn(&mut Webhook)| {
            let mut webhook = usual();
            change(&mut webhook);
            vec![webhook]
        };
        for (webhooks, said) in [
            (changed(|webhook| webhook.name.clear()), "name \"\""),
            (changed(|webhook| webhook.name = "../a".into()), "name \"../a\""),
            (changed(|webhook| webhook.url.clear()), "a: url: "),
            (changed(|webhook| webhook.url = "ftp://a.example/".into()), "https://HOST/PATH"),
            (changed(|webhook| webhook.url = "https://me:secret@a.example/".into()), "neither a user name"),
            (changed(|webhook| webhook.url = "https://a.example/#x".into()), "nor a fragment"),
            (changed(|webhook| webhook.kinds = vec!["stories".into()]), "feed-silent"),
            (changed(|webhook| webhook.kinds = vec!["other".into()]), "no kind of event"),
            (changed(|webhook| webhook.secret_file = PathBuf::new()), "secret_file is missing"),
            (changed(|webhook| webhook.events_max = 0), "events_max"),
            (changed(|webhook| webhook.bytes_max = 100), "bytes_max"),
            (changed(|webhook| webhook.timeout = Duration::from_secs(301)), "timeout"),
            (vec![usual(), Webhook { name: "A".into(), ..usual() }], "used twice"),
            (vec![usual(); WEBHOOKS_MAX + 1], "there may be 16"),
        ] {
            let error = check(&webhooks, None).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let error = check(&[usual()], Some("news")).unwrap_err();
        assert!(error.contains("NEPH_news_EVENTS") && error.contains("docs/events.md"), "{error}");
        assert_eq!(check(&[], Some("news")), Ok(()));
    }

    #[test]
    fn a_url_that_is_refused_is_not_printed_since_it_may_hold_a_password() {
        for url in [
            "https://me:SECRET@a.example/",
            "https://a.example/?key=SECRET#x",
            "ftp://me:SECRET@a.example/",
            "https://me:SECRET@a b/",
            "http://a.example/SECRET",
            "SECRET",
        ] {
            let error = check(&[webhook(url)], None).unwrap_err();
            assert!(error.starts_with("webhooks: a: url: ") && !error.contains("SECRET"), "{error}");
        }
    }

    #[test]
    fn http_is_for_this_machine_unless_the_operator_permits_more() {
        for url in ["http://127.0.0.1:80/", "http://127.9.9.9/", "http://[::1]:1/", "http://localhost/x"] {
            assert_eq!(check(&[webhook(url)], None), Ok(()), "{url}");
        }
        for url in ["http://10.0.0.1/", "http://localhost.example/", "http://a.example/", "http://[fe80::1]/"]
        {
            let error = check(&[webhook(url)], None).unwrap_err();
            assert!(error.contains("allow_http"), "{error}");
            assert_eq!(check(&[Webhook { allow_http: true, ..webhook(url) }], None), Ok(()), "{url}");
        }
    }
}
