//! Loads the settings: finds the file, merges the environment and `--set`, checks the result; and writes the contact of
//! a user into the file of that user.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{Origins, Settings, check, secrets, usage};

/// Loads the effective settings from a file, the environment and `KEY=VALUE` pairs. The file is `before` if given,
/// since a crawl continues with the settings of its last run; else `config`; else the first file in the usual places.
pub fn load(config: Option<&Path>, pairs: &[String], before: Option<&Path>) -> anyhow::Result<Settings> {
    let usual = find(config);
    let mut table = match before.or(usual.as_deref()) {
        Some(path) => read(path)?,
        None => toml::Table::new(),
    };
    let mut origins = Origins::default();
    if let Some(path) = before.or(usual.as_deref()) {
        origins.note_file(&table, path);
    }
    if let (Some(_), Some(usual)) = (before, &usual) {
        secrets::fill(&mut table, &read(usual)?);
    }
    for (name, value) in std::env::vars() {
        if let Some(key) = name.strip_prefix("NEPHILA_").filter(|key| key.contains("__")) {
            let key = key.to_ascii_lowercase().replace("__", ".");
            origins.note(&key, format!("environment {name}"));
            set(&mut table, &key, &value);
        }
    }
    for pair in pairs {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| usage(anyhow::anyhow!("--set {pair:?} is not key=value")))?;
        origins.note(key.trim(), "--set".to_owned());
        set(&mut table, key.trim(), value.trim());
    }
    let mut settings: Settings =
        table.try_into().map_err(|e: toml::de::Error| usage(anyhow::anyhow!("settings: {}", e.message())))?;
    check(&settings).map_err(|e| usage(anyhow::anyhow!("settings: {e}")))?;
    origins.note_loaded(&toml::Table::try_from(&settings).context("settings as TOML")?);
    settings.origins = origins;
    Ok(settings)
}

fn read(path: &Path) -> anyhow::Result<toml::Table> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("settings file {}", path.display()))
        .map_err(usage)?;
    text.parse().map_err(|e| usage(anyhow::anyhow!("settings file {}: {e}", path.display())))
}

/// Writes the contact into the user's own settings file, so that the question is asked once.
pub fn remember_contact(contact: &str) -> anyhow::Result<PathBuf> {
    let folder = home().context("there is no home folder")?.join("nephila");
    let path = folder.join("nephila.toml");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let old = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.with_context(|| path.display().to_string())?,
    };
    anyhow::ensure!(!old.contains("[identity]"), "{} has an [identity] without contact", path.display());
    let new = format!("{old}\n[identity]\ncontact = \"{contact}\"\n");
    std::fs::write(&path, new.trim_start()).with_context(|| path.display().to_string())?;
    Ok(path)
}

fn home() -> Option<PathBuf> {
    std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config")))
}

/// The settings file that nobody named and that was changed after this one: a crawl that goes on does not read it.
pub fn changed_after(kept: &Path) -> Option<PathBuf> {
    let time = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    find(None).filter(|path| time(path) > time(kept))
}

fn find(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = named {
        return Some(path.to_owned());
    }
    if let Some(path) = std::env::var_os("NEPHILA_CONFIG") {
        return Some(path.into());
    }
    let candidates = [
        Some("nephila.toml".into()),
        home().map(|home| home.join("nephila/nephila.toml")),
        Some("/etc/nephila/nephila.toml".into()),
    ];
    candidates.into_iter().flatten().find(|path| path.is_file())
}

/// Sets a dotted key. A value that parses as TOML has its type (`5`, `true`, `["a"]`); any other value is text.
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
