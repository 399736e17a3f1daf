//! Positions of webhooks: up to where events were delivered, `webhooks/NAME.json`.
//!
//! A position is written after each delivery, so it has no copy in `state/papers`: replacing the file is atomic, and a
//! lost position only repeats events.

use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{Folder, replace};

/// Name of the directory.
const NAME: &str = "webhooks";

#[derive(Debug, Deserialize, Serialize)]
struct Position {
    position: String,
}

impl Folder {
    fn webhook_path(&self, name: &str) -> PathBuf {
        self.dir().join(NAME).join(format!("{name}.json"))
    }

    /// The position of a webhook, if one was recorded.
    pub fn webhook_position(&self, name: &str) -> anyhow::Result<Option<String>> {
        let path = self.webhook_path(name);
        let what = || format!("{}: remove it to begin anew", path.display());
        match fs::read(&path) {
            Ok(bytes) => {
                let read: Position = serde_json::from_slice(&bytes).with_context(what)?;
                Ok(Some(read.position))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Records the position of a webhook. Returns when the position is durable.
    pub fn set_webhook_position(&self, name: &str, position: &str) -> anyhow::Result<()> {
        let path = self.webhook_path(name);
        let dir = self.dir().join(NAME);
        if !dir.is_dir() {
            fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
            let synced = fs::File::open(self.dir()).and_then(|parent| parent.sync_all());
            synced.with_context(|| format!("making {}", dir.display()))?;
        }
        let line = serde_json::to_string(&Position { position: position.to_owned() });
        replace(&path, format!("{}\n", line.context("a position as JSON")?).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_back_and_a_broken_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        assert_eq!(folder.webhook_position("a").unwrap(), None);
        for position in ["beginning", "0.77.1b2c3d4e,3.1042.9f3a21bc"] {
            folder.set_webhook_position("a", position).unwrap();
            assert_eq!(folder.webhook_position("a").unwrap().as_deref(), Some(position));
        }
        assert_eq!(folder.webhook_position("b").unwrap(), None);
        fs::write(dir.path().join("webhooks/a.json"), "{").unwrap();
        let error = format!("{:#}", folder.webhook_position("a").unwrap_err());
        assert!(error.contains("webhooks/a.json: remove it"), "{error}");
    }
}
