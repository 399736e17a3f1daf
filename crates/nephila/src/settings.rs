//! Settings: what a person writes in a file, in the environment or behind `--set`, resolved once into what is meant.
//!
//! Order: `--set` over environment (`NEPHILA_SPIDER__TOTAL_TIMEOUT=30s`) over the first file found over defaults.
//! An unknown key is an error. `nephila settings` prints everything; the comments it prints are the doc comments of
//! the fields, read from the sources, so that they cannot disagree.

mod print;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::cli::{Common, SettingsArgs};
use crate::exit::Exit;

/// Everything that can be set.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Who we are.
    pub identity: Identity,
    /// When a host may be asked.
    pub frontier: Politeness,
    /// robots.txt.
    pub robots: Robots,
    /// How one URL is fetched.
    pub spider: nephila_core::spider::Settings,
    /// What is kept.
    pub store: nephila_store::archive::Settings,
}

/// Who we are to the people whose sites we visit. Section `[identity]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// Our name in robots.txt: letters, `_` and `-` only (RFC 9309, 2.2.1).
    pub agent: String,
    /// A URL or a mail address. Empty: only addresses opened by `spider.allow_addresses` may be fetched.
    pub contact: String,
    /// The User-Agent field; `{agent}`, `{version}` and `{contact}` are filled in.
    pub user_agent: String,
    /// The From field, if not empty.
    pub from: String,
}

impl Default for Identity {
    fn default() -> Self {
        Identity {
            agent: "Nephila".into(),
            contact: String::new(),
            user_agent: "Mozilla/5.0 (compatible; {agent}/{version}; +{contact})".into(),
            from: String::new(),
        }
    }
}

impl Identity {
    /// The User-Agent field as it is sent.
    pub fn user_agent(&self) -> String {
        let contact = if self.contact.is_empty() { "no-contact" } else { &self.contact };
        let text =
            self.user_agent.replace("{agent}", &self.agent).replace("{version}", env!("CARGO_PKG_VERSION"));
        text.replace("{contact}", contact)
    }
}

/// When a host and an address may be asked. Section `[frontier]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Politeness {
    /// Rest of a host after a fetch from it ended. A longer Crawl-delay of robots.txt wins; a shorter one does not.
    #[serde(with = "humantime_serde")]
    pub host_delay: Duration,
    /// Connections to one host at the same time.
    pub host_parallel_max: usize,
    /// Rest of an address after a fetch from it ended, whatever names lead to it.
    #[serde(with = "humantime_serde")]
    pub slot_delay: Duration,
    /// Connections to one address at the same time.
    pub slot_parallel_max: usize,
    /// A Crawl-delay longer than this refuses the host instead of waiting.
    #[serde(with = "humantime_serde")]
    pub crawl_delay_max: Duration,
    /// Rest of a host that answered with a challenge for browsers. A longer Retry-After wins.
    #[serde(with = "humantime_serde")]
    pub challenge_delay: Duration,
}

impl Default for Politeness {
    fn default() -> Self {
        Politeness {
            host_delay: Duration::from_secs(2),
            host_parallel_max: 1,
            slot_delay: Duration::from_millis(500),
            slot_parallel_max: 1,
            crawl_delay_max: Duration::from_secs(3600),
            challenge_delay: Duration::from_secs(60),
        }
    }
}

/// Whether and how robots.txt is obeyed. Section `[robots]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Robots {
    /// Off is recorded in every archive file.
    pub obey: bool,
    /// robots.txt is read up to this many bytes (RFC 9309, 2.5).
    pub bytes_max: u64,
}

impl Default for Robots {
    fn default() -> Self {
        Robots { obey: true, bytes_max: 512_000 }
    }
}

/// The settings in force, and where they came from.
pub fn load(common: &Common) -> anyhow::Result<Settings> {
    let mut table = toml::Table::new();
    if let Some(path) = find(common.config.as_deref()) {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("settings file {}", path.display()))
            .map_err(usage)?;
        table = text.parse().map_err(|e| usage(anyhow::anyhow!("settings file {}: {e}", path.display())))?;
    }
    for (name, value) in std::env::vars() {
        if let Some(key) = name.strip_prefix("NEPHILA_").filter(|key| key.contains("__")) {
            set(&mut table, &key.to_ascii_lowercase().replace("__", "."), &value);
        }
    }
    for pair in &common.set {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| usage(anyhow::anyhow!("--set {pair:?} is not key=value")))?;
        set(&mut table, key.trim(), value.trim());
    }
    let settings: Settings =
        table.try_into().map_err(|e: toml::de::Error| usage(anyhow::anyhow!("settings: {}", e.message())))?;
    check(&settings).map_err(|e| usage(anyhow::anyhow!("settings: {e}")))?;
    Ok(settings)
}

/// What no type can say.
fn check(settings: &Settings) -> Result<(), String> {
    let agent = &settings.identity.agent;
    if agent.is_empty() || !agent.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_' || b == b'-') {
        return Err(format!("identity.agent {agent:?} may have only letters, `_` and `-`"));
    }
    if settings.frontier.host_parallel_max == 0 || settings.frontier.slot_parallel_max == 0 {
        return Err("frontier.host_parallel_max and slot_parallel_max must be at least 1".into());
    }
    Ok(())
}

/// `nephila settings`.
pub(crate) fn run(args: &SettingsArgs) -> anyhow::Result<Exit> {
    let settings = if args.effective { load(&args.common)? } else { Settings::default() };
    print!("{}", print::page(&settings)?);
    Ok(Exit::Done)
}

/// Marks an error as one of the operator's making: exit code 2.
pub(crate) fn usage(error: anyhow::Error) -> anyhow::Error {
    let text = format!("{error:#}");
    anyhow::Error::new(Exit::Usage).context(text)
}

fn find(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = named {
        return Some(path.to_owned());
    }
    if let Some(path) = std::env::var_os("NEPHILA_CONFIG") {
        return Some(path.into());
    }
    let home = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config")));
    let candidates = [
        Some("nephila.toml".into()),
        home.map(|home| home.join("nephila/nephila.toml")),
        Some("/etc/nephila/nephila.toml".into()),
    ];
    candidates.into_iter().flatten().find(|path| path.is_file())
}

/// Sets a dotted key. A value that reads as TOML is taken so (`5`, `true`, `["a"]`); anything else is text.
fn set(table: &mut toml::Table, key: &str, value: &str) {
    let parsed = format!("v = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("v"));
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut parts: Vec<&str> = key.split('.').collect();
    let Some(last) = parts.pop() else { return };
    let mut at = table;
    for part in parts {
        let next = at.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        let toml::Value::Table(next) = next else { return };
        at = next;
    }
    at.insert(last.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_set(list: &[&str]) -> anyhow::Result<Settings> {
        load(&Common {
            config: Some("/dev/null".into()),
            set: list.iter().map(|s| (*s).to_owned()).collect(),
        })
    }

    #[test]
    fn what_is_set_is_meant() {
        let settings = load_set(&[
            "spider.total_timeout=30s",
            "spider.ports=[80, 9000]",
            "spider.allow_addresses=[\"127.0.0.0/8\"]",
            "spider.http_versions=[\"http/1.1\"]",
            "store.compression=zstd:3",
        ])
        .unwrap();
        assert_eq!(settings.spider.total_timeout, Duration::from_secs(30));
        assert_eq!(settings.spider.ports, [80, 9000]);
        assert_eq!(settings.store.compression.to_string(), "zstd:3");
    }

    #[test]
    fn what_is_unknown_or_wrong_is_refused_with_its_name() {
        for (said, named) in [
            ("spider.totl_timeout=30s", "totl_timeout"),
            ("spider.total_timeout=soon", "soon"),
            ("identity.agent=a b", "agent"),
        ] {
            let error = load_set(&[said]).unwrap_err();
            assert!(format!("{error:#}").contains(named), "{error:#}");
            assert_eq!(error.downcast_ref(), Some(&Exit::Usage));
        }
    }

    #[test]
    fn the_printed_file_gives_the_same_settings_back() {
        let page = print::page(&Settings::default()).unwrap();
        let back: Settings = page.parse::<toml::Table>().unwrap().try_into().unwrap();
        assert_eq!(back, Settings::default());
        assert!(page.contains("# Rest of a host after a fetch from it ended."), "{page}");
    }
}
