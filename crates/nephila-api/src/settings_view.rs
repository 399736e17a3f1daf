//! `GET /api/v1/settings`: the effective settings of the answering process, each with its default and its origin.
//!
//! Invariant: no secret is in the answer; a secret that is set is shown as `(set)`.

use nephila_engine::settings::{ListedSetting, Settings, list};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SettingsSaid {
    /// The settings, in the order of the settings file.
    pub settings: Vec<SettingSaid>,
}

/// A setting.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SettingSaid {
    /// Section and name, such as `frontier.host_delay`.
    pub key: String,
    /// The effective value; null if it is not set.
    pub value: Value,
    /// The default; null if there is none.
    pub default: Value,
    /// `default`, `file PATH`, `environment NAME`, `--set`, or `command line` for a flag.
    pub origin: String,
    /// Whether the value can be changed while the process runs.
    pub live: bool,
    /// Whether the value is a secret, and therefore not shown.
    pub secret: bool,
    /// The meaning, in words.
    pub help: String,
}

impl SettingSaid {
    fn of(listed: ListedSetting) -> SettingSaid {
        let json = |value: Option<toml::Value>| value.map_or(Value::Null, |value| json_of(&value));
        SettingSaid {
            key: listed.key,
            value: json(listed.value),
            default: json(listed.default),
            origin: listed.origin,
            // A running process does not read its settings again.
            live: false,
            secret: listed.secret,
            help: listed.help,
        }
    }
}

/// A value of TOML as JSON. Dates are text there.
fn json_of(value: &toml::Value) -> Value {
    serde_json::to_value(value).unwrap_or_else(|_| Value::String(value.to_string()))
}

impl SettingsSaid {
    /// The effective settings.
    pub fn of(settings: &Settings) -> anyhow::Result<SettingsSaid> {
        Ok(SettingsSaid { settings: list(settings)?.into_iter().map(SettingSaid::of).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_types_and_secrets_are_not_shown() {
        let mut settings = Settings::default();
        settings.api.token = "SECRET".into();
        let said = SettingsSaid::of(&settings).unwrap();
        let of = |key: &str| said.settings.iter().find(|setting| setting.key == key).unwrap();
        assert_eq!(of("robots.obey").value, Value::Bool(true));
        assert_eq!(of("crawl.concurrency").value, Value::from(256));
        assert_eq!(of("api.token").value, Value::from("(set)"));
        assert!(!of("frontier.host_delay").help.is_empty());
        assert!(!serde_json::to_string(&said).unwrap().contains("SECRET"));
    }
}
