//! Settings of the pool, what goes into it and what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::frame::Frame;
use super::super::message::{Facts, Wanted};

/// How a node treats its spiders of version 2.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How long a spider may ask sites after it asked for a lease. A spider that is not heard of for this long is gone.
    pub lease: Duration,
    /// Bytes of results that a spider may send before it is told of more.
    pub window_bytes: u64,
    /// Maximum number of URLs at one spider.
    pub capacity_max: u32,
    /// Maximum number of spiders.
    pub sessions_max: usize,
    /// Maximum number of URLs that wait for a spider.
    pub asks_max: usize,
    /// Maximum number of times that a URL is sent. Then it is lost.
    pub sends_max: u32,
    /// Maximum size of a body.
    pub body_bytes_max: u64,
    /// How long a spider keeps a connection to a site that it does not use. Until then it is counted.
    pub kept_for: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            lease: Duration::from_secs(15),
            window_bytes: 4 << 20,
            capacity_max: 1_024,
            sessions_max: 64,
            asks_max: 10_000,
            sends_max: 4,
            body_bytes_max: 10 << 20,
            kept_for: Duration::from_secs(6),
        }
    }
}

impl Settings {
    /// The lease in milliseconds.
    pub fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A URL that some spider is to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The caller's number for it, which no other ask ever has.
    pub id: u64,
    /// The URL, and how to fetch it. `connections_max` is the limit of the address for all spiders together.
    pub wanted: Wanted,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write this frame.
    Send {
        /// The connection.
        connection: u64,
        /// The frame.
        frame: Frame,
    },
    /// Close this connection, after what was to be written. [`super::Pool::closed`] need not be called.
    Close {
        /// The connection.
        connection: u64,
    },
    /// Bytes of the body of a result have come.
    Part {
        /// The ask.
        ask: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// Forget the bytes of the body: they come again.
    Restart {
        /// The ask.
        ask: u64,
    },
    /// An ask has ended.
    End {
        /// The ask.
        ask: u64,
        /// How.
        end: End,
    },
}

/// How an ask ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A spider fetched it. [`super::Pool::stored`] is to be called when the result is durable.
    Came {
        /// The result; the body came before.
        facts: Box<Facts>,
        /// Name of the spider.
        spider: Arc<str>,
        /// Its session.
        session: u64,
        /// Number of times that the URL was sent to a spider.
        sent: u32,
    },
    /// No spider fetched it.
    Lost {
        /// Why.
        why: Lost,
        /// Name of the last spider that had it; empty if none had.
        spider: Arc<str>,
        /// Number of times that the URL was sent to a spider.
        sent: u32,
    },
}

/// Why a URL is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// The spider was not heard of for the time of a lease.
    Silent,
    /// The spider ended.
    Left,
    /// Spiders returned the URL too often.
    Returned,
}

impl Lost {
    /// The reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Lost::Silent => "the spider was not heard of until its lease lapsed",
            Lost::Left => "the spider ended",
            Lost::Returned => "spiders returned the URL without asking for it",
        }
    }
}

/// What has happened so far, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// URLs to fetch.
    pub asked: u64,
    /// URLs that were not taken because too many wait.
    pub refused: u64,
    /// URLs sent to spiders.
    pub sent: u64,
    /// Results.
    pub came: u64,
    /// URLs that no spider fetched.
    pub lost: u64,
    /// URLs that spiders returned.
    pub returned: u64,
    /// URLs that were taken back.
    pub cancelled: u64,
    /// Sessions that went on after a break of the connection.
    pub resumed: u64,
    /// Frames about URLs that the spider does not have.
    pub unknown: u64,
    /// Connections closed because of what a result cannot be.
    pub bad_results: u64,
}

/// A spider, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpiderView {
    /// The session.
    pub session: u64,
    /// The name of the spider.
    pub name: Arc<str>,
    /// Whether it is connected now.
    pub is_connected: bool,
    /// Maximum number of URLs at it.
    pub capacity: usize,
    /// URLs at it.
    pub open: usize,
    /// Results of this session.
    pub fetched: u64,
}
