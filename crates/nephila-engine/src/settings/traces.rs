//! Section `[traces]`: traces of sampled tickets, for a collector of OpenTelemetry.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};
use url::Url;

/// Maximum length of the name of the service.
const NAME_BYTES_MAX: usize = 255;

/// Traces of sampled tickets (OTLP over HTTP, JSON). They contain the URLs of the tickets. Section `[traces]`. See
/// `docs/traces.md`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traces {
    /// URL of the collector with its path, such as `http://127.0.0.1:4318/v1/traces`. Empty: no traces.
    pub to: String,
    /// Share of the tickets that are traced, from 0 to 1. The number of a ticket decides (`fetch` in the log).
    #[serde(deserialize_with = "number")]
    pub share: f64,
    /// Name of the crawler in the traces (`service.name`).
    pub service_name: String,
    /// File with header fields for the collector, one `Name: value` in each line, read at the start. For tokens; only its
    /// owner may be able to read the file. Empty: none.
    pub headers_file: PathBuf,
    /// File with the root certificates (PEM) that prove a collector at `https://`. Empty: those of browsers.
    pub ca_file: PathBuf,
}

impl Default for Traces {
    fn default() -> Self {
        Traces {
            to: String::new(),
            share: 0.001,
            service_name: "nephila".into(),
            headers_file: PathBuf::new(),
            ca_file: PathBuf::new(),
        }
    }
}

/// A fraction, or a whole number such as 1.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Whole(i64),
        Fraction(f64),
    }
    Ok(match Number::deserialize(deserializer)? {
        Number::Whole(number) => number as f64,
        Number::Fraction(number) => number,
    })
}

impl Traces {
    /// Whether tickets are traced.
    pub fn is_on(&self) -> bool {
        !self.to.is_empty() && self.share > 0.0
    }

    /// The URL of the collector.
    pub(crate) fn url(&self) -> Result<Url, String> {
        let to = &self.to;
        let url = Url::parse(to).map_err(|error| format!("traces.to {to:?} is no URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(format!("traces.to {to:?} must begin with http:// or https://"));
        }
        if !url.username().is_empty()
            || url.password().is_some()
            || url.query().is_some()
            || url.fragment().is_some()
        {
            // The URL is not repeated: it may hold a secret.
            return Err(
                "traces.to must have neither user name, password, query nor fragment; secrets belong into \
                        traces.headers_file"
                    .into(),
            );
        }
        if url.path() == "/" {
            return Err(format!("traces.to {to:?} lacks the path, which is usually /v1/traces"));
        }
        Ok(url)
    }

    /// Checks constraints that types cannot express.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.share) {
            return Err(format!("traces.share {} must be between 0 and 1", self.share));
        }
        let name = &self.service_name;
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(format!(
                "traces.service_name must have 1 to {NAME_BYTES_MAX} bytes and no control characters"
            ));
        }
        match self.to.is_empty() {
            true => Ok(()),
            false => self.url().map(drop),
        }
    }
}
