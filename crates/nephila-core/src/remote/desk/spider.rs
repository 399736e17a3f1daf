//! A connection to a spider, as the desk sees it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::action::Speaks;
use crate::remote::line::Dialect;

/// A connection to a spider.
#[derive(Debug)]
pub(super) struct Spider {
    /// The caller's number of the connection.
    pub(super) connection: u64,
    /// The name of the spider.
    pub(super) name: Arc<str>,
    /// `None`: not known yet.
    pub(super) dialect: Option<Dialect>,
    /// When an unknown dialect becomes push.
    pub(super) decide_at: u64,
    /// URLs that the spider asked for and was not sent. Only in the pull dialect.
    pub(super) credit: usize,
    /// The places of the asks that were sent to it and have not ended.
    pub(super) open: BTreeSet<u32>,
    /// The number of open asks under which it is listed among those with room.
    pub(super) listed: Option<usize>,
    /// Asks of an earlier connection of this spider that may be sent to it again: age and place.
    pub(super) home: BTreeSet<(u64, u32)>,
    /// When the last unreadable lines came.
    unreadable: VecDeque<u64>,
}

impl Spider {
    pub(super) fn new(connection: u64, name: Arc<str>, speaks: Speaks, decide_at: u64) -> Spider {
        Spider {
            connection,
            name,
            dialect: match speaks {
                Speaks::Push => Some(Dialect::Push),
                Speaks::Pull => Some(Dialect::Pull),
                Speaks::Auto => None,
            },
            decide_at,
            credit: 0,
            open: BTreeSet::new(),
            listed: None,
            home: BTreeSet::new(),
            unreadable: VecDeque::new(),
        }
    }

    /// Whether one more URL may be sent.
    pub(super) fn has_room(&self, tickets_max: usize) -> bool {
        let wanted = match self.dialect {
            None => false,
            Some(Dialect::Push) => true,
            Some(Dialect::Pull) => self.credit > 0,
        };
        wanted && self.open.len() < tickets_max
    }

    /// Notes an unreadable line. Whether there were this many within the window.
    pub(super) fn note_unreadable(&mut self, now: u64, max: usize, window: u64) -> bool {
        self.unreadable.push_back(now);
        while self.unreadable.pop_front_if(|at| now.saturating_sub(*at) >= window).is_some() {}
        self.unreadable.len() >= max
    }
}
