//! What a worker counts. Only plain numbers: whoever publishes them gives them their names.

use nephila_core::frontier::{self, Gauges};
use nephila_core::state::totals::Totals;

/// What a worker did and holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// What the frontier did.
    pub frontier: frontier::Stats,
    /// What the frontier holds.
    pub gauges: Gauges,
    /// What the partitions have counted, also before this process.
    pub totals: Totals,
    /// Turns of the loop.
    pub turns: u64,
    /// Events taken.
    pub events: u64,
    /// Offers taken.
    pub offers: u64,
    /// Offers of other workers' partitions, dropped.
    pub elsewhere: u64,
    /// Actions handed out.
    pub actions: u64,
    /// Times when nobody took actions and the loop went on without handing out more.
    pub held_back: u64,
    /// Groups made durable.
    pub groups: u64,
    /// Bytes of them, before compression.
    pub group_bytes: u64,
    /// Times when one or more groups had become durable.
    pub commits: u64,
    /// Milliseconds that groups were on their way, all together.
    pub commit_ms: u64,
    /// Milliseconds of the one that took longest.
    pub commit_ms_max: u64,
    /// Groups that are on their way.
    pub on_their_way: usize,
    /// Checkpoints of a partition's state.
    pub checkpoints: u64,
    /// Groups folded again when the worker was opened.
    pub replayed: u64,
    /// Callers that wait for something to be durable.
    pub waiters: usize,
    /// Bytes of the journals' files.
    pub journal_bytes: u64,
    /// Is the disk full? Then nothing is handed out until there is room.
    pub disk_full: bool,
    /// Times when it was, or still was.
    pub disk_full_met: u64,
    /// Bytes of the states that are only in memory and in the journals.
    pub dirty_bytes: usize,
}
