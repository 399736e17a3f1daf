//! What goes into the desk and what comes out of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::remote::record::Record;

/// A URL that some spider is to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The caller's number for it; unique among open asks.
    pub id: u64,
    /// The URL in its canonical form.
    pub url: String,
    /// The only address that the spider may dial.
    pub ip: IpAddr,
    /// How long the host rests between two requests.
    pub rest: Duration,
}

/// Why an ask is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum AskError {
    /// `asks_max` URLs wait already.
    #[error("too many URLs wait for a spider (asks_max)")]
    Full,
    /// An open ask has the same number.
    #[error("an ask with this number is open")]
    Known,
    /// The URL cannot stand in a line.
    #[error("the URL is too long for a line or has bytes that cannot stand in one")]
    Url,
    /// Every DOC is in use or was in use a moment ago.
    #[error("no DOC is free")]
    NoDoc,
}

/// How a connection is to be spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// The push dialect.
    Push,
    /// The pull dialect.
    Pull,
    /// Pull if the spider sends `GET` soon after it connected, else push.
    Auto,
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// There are `connections_max` connections.
    #[error("too many spiders (connections_max)")]
    Full,
    /// The number of the connection is in use.
    #[error("a connection with this number is open")]
    Known,
}

/// A record as the store connection received it. `B` is the caller's handle of the stored data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<B> {
    /// Everything but the data.
    pub record: Record,
    /// The caller's handle of the data; the desk never looks at it.
    pub body: B,
}

/// Why a URL got no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LostWhy {
    /// Neither `DONE` nor `WORKING` within `status_timeout`. The spider may still be asking the host.
    Silent,
    /// `DONE`, but no record within `store_wait`.
    NoRecord,
    /// The connection closed. The spider may still be asking the host.
    Closed,
}

impl LostWhy {
    /// The reason as a short phrase, for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            LostWhy::Silent => "the spider fell silent",
            LostWhy::NoRecord => "the spider sent no record",
            LostWhy::Closed => "the connection to the spider closed",
        }
    }
}

/// The end of an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End<B> {
    /// There is a record.
    Recorded {
        /// The record.
        received: Received<B>,
        /// Time from the last sending to `DONE`, or to the end if there was no `DONE`.
        took: Duration,
        /// When `DONE` came, or the ask ended: the rest of the host counts from then.
        done: u64,
        /// Name of the spider that was sent the URL last.
        spider: Arc<str>,
        /// Number of times that the URL was sent.
        sent: u32,
    },
    /// There is none: the outcome is `spider-lost`.
    Lost {
        /// The reason, the last time.
        why: LostWhy,
        /// Number of times that the URL was sent.
        sent: u32,
    },
}

/// Why the desk closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseWhy {
    /// Too many unreadable lines.
    Unreadable,
    /// The same spider connected once more.
    Replaced,
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<B> {
    /// Write these bytes to a connection.
    Send {
        /// The connection.
        connection: u64,
        /// One line with its end.
        bytes: Vec<u8>,
    },
    /// An ask ended.
    End {
        /// The number of the ask.
        ask: u64,
        /// How it ended.
        end: End<B>,
    },
    /// Close a connection. The desk has forgotten it already.
    Close {
        /// The connection.
        connection: u64,
        /// The reason.
        why: CloseWhy,
    },
    /// Many records named a URL that is not that of their DOC: tell an operator. Raised once.
    Alarm,
}

/// Counters of the desk. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Asks taken.
    pub asked: u64,
    /// Asks refused.
    pub refused: u64,
    /// Lines sent, one per URL and sending.
    pub sent: u64,
    /// Of these, URLs sent again.
    pub resent: u64,
    /// Asks that ended with a record.
    pub recorded: u64,
    /// Of these, before `DONE` came, or after the desk had given up this sending.
    pub without_done: u64,
    /// Asks that ended without a record.
    pub lost: u64,
    /// Asks that the caller took back.
    pub cancelled: u64,
    /// URLs about which a spider fell silent.
    pub silent: u64,
    /// URLs that were done and had no record in time.
    pub no_record: u64,
    /// URLs that were open at a connection when it closed.
    pub orphaned: u64,
    /// Replies with a TRANS that is not open at their connection: late, repeated or made up.
    pub unknown_trans: u64,
    /// Records with a DOC that is not open.
    pub unknown_doc: u64,
    /// Records beyond the first of a DOC.
    pub second_record: u64,
    /// Records with another URL than that of their DOC.
    pub wrong_url: u64,
    /// Lines that could not be read.
    pub unreadable: u64,
    /// `GET`s on a connection of the push dialect.
    pub get_ignored: u64,
}
