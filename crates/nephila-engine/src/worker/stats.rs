//! Counters of a worker. Plain numbers: the publisher gives them their names.

use nephila_core::frontier::{self, Gauges};
use nephila_core::histogram::Durations;
use nephila_core::state::totals::Totals;

/// The counters and gauges of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Counters of the frontier.
    pub frontier: frontier::Stats,
    /// Gauges of the frontier.
    pub gauges: Gauges,
    /// Totals of the partitions, including earlier processes.
    pub totals: Totals,
    /// Ticks of the loop.
    pub ticks: u64,
    /// Events taken.
    pub events: u64,
    /// Offers taken.
    pub offers: u64,
    /// Offers of other workers' partitions, dropped.
    pub elsewhere: u64,
    /// Actions handed out.
    pub actions: u64,
    /// Ticks in which the action channel was full and no more actions were handed out.
    pub held_back: u64,
    /// Groups made durable.
    pub groups: u64,
    /// Bytes of the durable groups, before compression.
    pub group_bytes: u64,
    /// Ticks in which one or more groups became durable.
    pub commits: u64,
    /// Total latency of the groups, in milliseconds.
    pub commit_ms: u64,
    /// Latencies of the groups.
    pub commit_took: Durations,
    /// Partitions of this worker.
    pub partitions: usize,
    /// Maximum latency of a group, in milliseconds.
    pub commit_ms_max: u64,
    /// Groups under way.
    pub on_their_way: usize,
    /// Checkpoints of a partition's state.
    pub checkpoints: u64,
    /// Groups folded by the replay when the worker was opened.
    pub replayed: u64,
    /// Callers that wait for durability.
    pub waiters: usize,
    /// Bytes of the journals' files.
    pub journal_bytes: u64,
    /// Whether the disk is full. Then nothing is handed out until there is room.
    pub disk_full: bool,
    /// Attempts to write that met a full disk.
    pub disk_full_met: u64,
    /// Bytes of the states that are only in memory and in the journals.
    pub dirty_bytes: usize,
}
