//! Where the effective settings come from: a file, the environment, `--set`, a flag, or the defaults.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

/// The origin of a setting that nobody set.
const DEFAULT: &str = "default";
/// The origin of a setting that a flag of the command changed after the settings were loaded.
const COMMAND_LINE: &str = "command line";

/// The origins of settings, by key. Where settings come from does not make them differ.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// Origins of the settings that somebody set.
    set: BTreeMap<String, String>,
    /// The values as loaded, as text.
    loaded: BTreeMap<String, String>,
}

impl PartialEq for Origins {
    fn eq(&self, _: &Origins) -> bool {
        true
    }
}

impl Origins {
    /// The values of a file.
    pub(super) fn note_file(&mut self, table: &Table, path: &Path) {
        let origin = format!("file {}", path.display());
        leaves(table, "", &mut |key, _| _ = self.set.insert(key, origin.clone()));
    }

    /// A value from elsewhere.
    pub(super) fn note(&mut self, key: &str, origin: String) {
        self.set.insert(key.to_owned(), origin);
    }

    /// The effective values after loading.
    pub(super) fn note_loaded(&mut self, table: &Table) {
        self.loaded.clear();
        leaves(table, "", &mut |key, value| _ = self.loaded.insert(key, value.to_string()));
    }

    /// The origin of a setting with this effective value and this default.
    pub(super) fn of(&self, key: &str, value: Option<&Value>, default: Option<&Value>) -> String {
        let loaded = self.loaded.get(key).map(String::as_str);
        if !self.loaded.is_empty() && value.map(Value::to_string).as_deref() != loaded {
            return COMMAND_LINE.to_owned();
        }
        // The folder of a crawl keeps all settings of its last run: most of them are defaults.
        match self.set.get(key) {
            Some(origin) if origin.starts_with("file ") && value == default => DEFAULT.to_owned(),
            Some(origin) => origin.clone(),
            None => DEFAULT.to_owned(),
        }
    }
}

/// Calls `take` with the key and the value of each setting.
fn leaves(table: &Table, prefix: &str, take: &mut dyn FnMut(String, &Value)) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(inner) => leaves(inner, &key, take),
            value => take(key, value),
        }
    }
}
