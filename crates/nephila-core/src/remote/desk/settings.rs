//! Settings of the desk: every wait and every limit.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Number of bits of TRANS that name a connection: the most connections that a desk can tell apart.
const CONNECTIONS_MAX: usize = 1 << 16;

/// How a node treats its spiders of version 1.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// A spider that sends neither `DONE` nor `WORKING` for this long is assumed to have crashed while it fetched the
    /// URL, and the URL is sent again.
    #[serde(with = "humantime_serde")]
    pub status_timeout: Duration,
    /// How often a spider is expected to send `WORKING`. `status_timeout` must be at least twice as long.
    #[serde(with = "humantime_serde")]
    pub update_every: Duration,
    /// Maximum time between `DONE` and the record.
    #[serde(with = "humantime_serde")]
    pub store_wait: Duration,
    /// Timeout of a whole fetch at the spider. For this long after its connection closed a spider may still be asking.
    #[serde(with = "humantime_serde")]
    pub total_timeout: Duration,
    /// A connection without a fixed dialect that sends no `GET` for this long speaks the push dialect.
    #[serde(with = "humantime_serde")]
    pub dialect_wait: Duration,
    /// Maximum number of URLs at one connection at a time, those without a record included. Also the most that the
    /// `GET`s of a connection can add up to.
    pub tickets_max: usize,
    /// Maximum number of times that a URL is sent again. Then the URL is lost.
    pub resends_max: u32,
    /// Maximum number of URLs that wait at the desk because they are at no connection. More are refused.
    pub asks_max: usize,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// This number of unreadable lines within `unreadable_window` closes a connection.
    pub unreadable_max: usize,
    /// The time over which unreadable lines are counted.
    #[serde(with = "humantime_serde")]
    pub unreadable_window: Duration,
    /// This number of records with a wrong URL, in all, raises the alarm.
    pub wrong_urls_alarm: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            status_timeout: Duration::from_secs(60),
            update_every: Duration::from_secs(25),
            store_wait: Duration::from_secs(30),
            total_timeout: Duration::from_secs(120),
            dialect_wait: Duration::from_secs(2),
            tickets_max: 64,
            resends_max: 3,
            asks_max: 10_000,
            connections_max: 1_024,
            unreadable_max: 10,
            unreadable_window: Duration::from_secs(60),
            wrong_urls_alarm: 100,
        }
    }
}

/// Settings that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A spider that works and says so in time would count as crashed.
    #[error(
        "status_timeout is {status_timeout:?}, but must be at least twice update_every, which is {update_every:?}"
    )]
    StatusTimeout {
        /// The setting of this name.
        status_timeout: Duration,
        /// The setting of this name.
        update_every: Duration,
    },
    /// A limit that must be at least 1 is 0.
    #[error("{0} is 0, but must be at least 1")]
    Zero(&'static str),
    /// More connections than TRANS can tell apart.
    #[error("connections_max is {0}, but must be at most 65,536")]
    Connections(usize),
}

impl Settings {
    /// Whether the settings can work; checked at the start of a node.
    pub fn check(&self) -> Result<(), SettingsError> {
        let Settings { status_timeout, update_every, .. } = *self;
        if status_timeout < update_every.saturating_mul(2) {
            return Err(SettingsError::StatusTimeout { status_timeout, update_every });
        }
        let limits = [
            ("tickets_max", self.tickets_max),
            ("asks_max", self.asks_max),
            ("connections_max", self.connections_max),
            ("unreadable_max", self.unreadable_max),
        ];
        if let Some((name, _)) = limits.iter().find(|(_, limit)| *limit == 0) {
            return Err(SettingsError::Zero(name));
        }
        match self.connections_max > CONNECTIONS_MAX {
            true => Err(SettingsError::Connections(self.connections_max)),
            false => Ok(()),
        }
    }
}

/// A duration in whole milliseconds.
pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
