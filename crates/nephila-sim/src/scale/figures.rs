//! The figures of a run, beside the predictions of our capacity model.
//!
//! Predictions come in two forms: from the original model (`model`), and with the findings of the simulation
//! (`corrected`).

use std::fmt::Write as _;

use nephila_core::frontier::slot_grant::BLOCK;

use super::web::{
    Class, FETCH_MEAN, HOST_REST, HOSTS_PER_NODE, NEIGHBOURS, OF_FLEETS, PARTITIONS_PER_NODE, SLOT_REST,
};
use super::{COMMIT, SETTLED, Sim, member_settings};

/// Requests for a page, as in the model.
const REQUESTS_PER_PAGE: f64 = 1.2;
/// Bytes of the own log for a page, as measured with real nodes: an input, not a result.
const OWN_BYTES: f64 = 104.0;
/// Links to other domains for a page, and the share of them that the sender's cache does not catch.
const FOREIGN: f64 = 105.0 * 0.21 * 0.2;
/// The same as measured in the simulation. A link has one place in the sender's cache, so another link evicts the first
/// now and then, and the cache catches 76 in a hundred, not 80.
const FOREIGN_SENT: f64 = 105.0 * 0.21 * 0.24;
/// Bytes of a link, packed among many.
const LINK_BYTES: f64 = 23.5;
/// Seconds that a link waits for others at most.
const LINK_WAIT: f64 = 1.0;
/// Target size of a message.
const BATCH: f64 = 16e3;

/// Bytes of a parcel beside the bytes of its links, as measured in the simulation: the sender, a number, a hash, and an
/// origin that shares nothing with a predecessor.
const PARCEL_BYTES: f64 = 73.5;
/// Mean age of a lease, the delay until another node sees that the lease is gone, and the opening of a partition, in
/// seconds.
const LEASE_AGE: f64 = 2.0;
const SEEN_AFTER: f64 = 0.5;
const OPENING: f64 = 2.0;

/// The figures of a run of one size. Rates are by second of virtual time, of the whole cluster.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Nodes.
    pub nodes: u64,
    /// Fetches since the cluster had settled.
    pub fetches: u64,
    /// Virtual seconds of them.
    pub seconds: f64,
    /// Nodes killed; leases lost besides.
    pub kills: u64,
    /// Nodes that stopped because their lease was over (fencing).
    pub fenced: u64,
    /// Fetches of the busiest node over the mean, of nodes that lived all the time.
    pub busiest: f64,
    /// From the death of a node to the first fetch of each of its partitions, in seconds: half of them, and all.
    pub take_over: (f64, f64),
    /// Share of the fetches from addresses that several nodes request.
    pub shared: f64,
    /// Turns for each of these.
    pub turns: f64,
    /// Share of the promised rate that was used, of addresses with 60 and with 4 hosts.
    pub used: (f64, f64),
    /// Rings that a node went by.
    pub rings: f64,
    /// Packets about slots.
    pub packets: f64,
    /// Their bytes.
    pub packet_bytes: f64,
    /// Packets in the busiest second, and in the middle one.
    pub packets_peak: (f64, f64),
    /// Fetches from shared addresses in the worst ten seconds, over the middle ten.
    pub worst: f64,
    /// Messages to the logs: groups of partitions.
    pub groups: f64,
    /// Parcels of links, of all nodes if all are like the one that was followed.
    pub parcels: f64,
    /// Bytes of parcels for a page.
    pub parcel_bytes: f64,
    /// Pages fetched again, of a million.
    pub repeats: f64,
    /// Seconds of CPU that the run took.
    pub cpu: f64,
}

impl Sim {
    /// The figures since the cluster had settled.
    pub fn figures(&self) -> Figures {
        let (before, packets_before) = self.before;
        let now = self.tally;
        let seconds = (self.t - SETTLED) as f64 / 1e3;
        let fetches = now.fetches - before.fetches;
        let pages = (now.pages - before.pages) as f64;
        let whole: Vec<f64> =
            self.nodes.iter().filter(|node| !node.broken).map(|node| node.fetches as f64).collect();
        let mean = whole.iter().sum::<f64>() / whole.len().max(1) as f64;
        let packets = self.packets_sent();
        let (sampled, links) = self.links.figures();
        let shared = now.shared - before.shared;
        let used = |class: Class, used: u64| {
            let slots = self.web.slots.iter().filter(|slot| slot.class == class).count();
            used as f64 / 1e3 / (slots as f64 * seconds)
        };
        let mut take_overs = self.take_overs.clone();
        take_overs.sort_unstable();
        let at = |n: usize| take_overs.get(n).map_or(0.0, |ms| *ms as f64 / 1e3);
        let settled = &self.seconds[(SETTLED / 1_000) as usize..];
        let mut by_second: Vec<u64> = settled.iter().map(|(packets, _)| *packets).collect();
        by_second.sort_unstable();
        let mut by_ten: Vec<u64> =
            settled.chunks_exact(10).map(|ten| ten.iter().map(|(_, shared)| shared).sum()).collect();
        by_ten.sort_unstable();
        let middle = |of: &[u64]| of.get(of.len() / 2).copied().unwrap_or(0) as f64;
        let parcels_per_page = links.parcels as f64 / sampled.max(1) as f64;
        Figures {
            nodes: self.nodes.len() as u64,
            fetches,
            seconds,
            kills: now.kills,
            fenced: now.fenced,
            busiest: whole.iter().fold(0.0, |most: f64, one| most.max(*one)) / mean,
            take_over: (at(take_overs.len() / 2), at(take_overs.len().saturating_sub(1))),
            shared: shared as f64 / fetches as f64,
            turns: (now.turns - before.turns) as f64 / shared.max(1) as f64,
            used: (
                used(Class::Big, now.used_big - before.used_big),
                used(Class::Mid, now.used_mid - before.used_mid),
            ),
            rings: (packets.2 - packets_before.2) as f64 / self.nodes.len() as f64,
            packets: (packets.0 - packets_before.0) as f64 / seconds,
            packet_bytes: (packets.1 - packets_before.1) as f64 / seconds,
            packets_peak: (by_second.last().copied().unwrap_or(0) as f64, middle(&by_second)),
            worst: by_ten.first().copied().unwrap_or(0) as f64 / middle(&by_ten).max(1.0),
            groups: (now.groups - before.groups) as f64 / seconds,
            parcels: parcels_per_page * pages / seconds,
            parcel_bytes: links.bytes as f64 / sampled.max(1) as f64,
            repeats: (now.cut + now.unwritten) as f64 / REQUESTS_PER_PAGE / pages * 1e6,
            cpu: 0.0,
        }
    }
}

impl Figures {
    fn rate(&self) -> f64 {
        self.fetches as f64 / self.seconds
    }

    fn pages(&self) -> f64 {
        self.rate() / REQUESTS_PER_PAGE
    }

    /// Turns a second, as the model had them: blocks of twenty for hosts that share their address.
    pub fn turns_model(&self) -> f64 {
        self.rate() * (0.225 + 0.40) / 20.0
    }

    /// With the findings of the simulation: a turn is as many starts as its node has hosts that are ready, and in a
    /// large cluster that is one. Whole blocks are used only where a node has more hosts at an address than can be
    /// requested before the first is ready again.
    pub fn turns_corrected(&self) -> f64 {
        let nodes = self.nodes as f64;
        let hosts = nodes * HOSTS_PER_NODE as f64;
        let slot_time = (FETCH_MEAN + SLOT_REST) as f64 / 1e3;
        let host_time = (FETCH_MEAN + HOST_REST) as f64 / 1e3;
        let of_addresses = NEIGHBOURS.iter().map(|(share, neighbours)| {
            // All of them are asked as often as they may be.
            let starts = hosts * share / neighbours / slot_time;
            let mine = neighbours / (nodes * (1.0 - (1.0 - 1.0 / nodes).powf(*neighbours)));
            starts / if mine * slot_time < host_time { mine } else { f64::from(BLOCK) }
        });
        let (share, lanes) = OF_FLEETS;
        let others = hosts * share / lanes * (1.0 - 1.0 / nodes);
        of_addresses.sum::<f64>() + hosts * share / host_time * (1.0 - (-others).exp())
    }

    /// Turns a second.
    pub fn turns_rate(&self) -> f64 {
        self.turns * self.shared * self.rate()
    }

    /// Groups a second, as the model had them: each partition one each second.
    pub fn groups_model(&self) -> f64 {
        (self.nodes as usize * PARTITIONS_PER_NODE) as f64 * 1e3 / COMMIT as f64
    }

    /// With fetches that come at random: a group begins with one, takes more for a second, and the next begins with the
    /// next one.
    pub fn groups_corrected(&self) -> f64 {
        let partitions = (self.nodes as usize * PARTITIONS_PER_NODE) as f64;
        let each = self.rate() / partitions;
        partitions * each / (1.0 + each * COMMIT as f64 / 1e3)
    }

    /// Parcels a second, as the model had them.
    pub fn parcels_model(&self) -> f64 {
        let links = self.pages() * FOREIGN;
        let pairs = self.nodes as f64 * self.nodes as f64 * PARTITIONS_PER_NODE as f64;
        (links * LINK_BYTES / BATCH).max(links.min(pairs / LINK_WAIT))
    }

    /// With links that come at random.
    pub fn parcels_corrected(&self) -> f64 {
        let pairs = self.nodes as f64 * self.nodes as f64 * PARTITIONS_PER_NODE as f64;
        let each = self.pages() * FOREIGN_SENT / pairs;
        pairs * each / (1.0 + each * LINK_WAIT)
    }

    /// Messages to the logs for a page, as the model had them.
    pub fn messages_model(&self) -> f64 {
        (self.groups_model() + self.parcels_model()) / self.pages()
    }

    /// With groups and parcels as they are.
    pub fn messages_corrected(&self) -> f64 {
        (self.groups_corrected() + self.parcels_corrected()) / self.pages()
    }

    /// Bytes of parcels for a page, with the overhead of a parcel of a few links.
    pub fn parcel_bytes_corrected(&self) -> f64 {
        self.parcels_corrected() / self.pages() * PARCEL_BYTES + FOREIGN_SENT * LINK_BYTES
    }

    /// Packets a second because nodes come and go: two from each node to each other for a ring, the acknowledgements included.
    pub fn ring_packets(&self) -> f64 {
        let nodes = self.nodes as f64;
        2.0 * nodes * (nodes - 1.0) * self.rings / self.seconds
    }

    /// Seconds until half of the partitions of a dead node are fetched from: its lease ends, another node sees that,
    /// claims and opens them, and their hosts rest.
    pub fn take_over_model(&self) -> f64 {
        let lease = member_settings().ttl.as_secs_f64() - LEASE_AGE;
        lease + SEEN_AFTER + OPENING + HOST_REST as f64 / 1e3
    }

    /// Pages fetched again, of a million, by the model: pages that are open or not written when a node dies.
    pub fn repeats_model(&self) -> f64 {
        let node = self.rate() / self.nodes as f64;
        let lost = node * (FETCH_MEAN as f64 + COMMIT as f64) / 1e3;
        lost * self.kills as f64 / REQUESTS_PER_PAGE / (self.pages() * self.seconds) * 1e6
    }

    /// The figures by name, as they are written and drawn.
    pub fn columns(&self) -> Vec<(&'static str, f64)> {
        let pages = self.pages();
        vec![
            ("nodes", self.nodes as f64),
            ("fetches", self.fetches as f64),
            ("virtual_seconds", self.seconds),
            ("fetches_per_second", self.rate()),
            ("kills", self.kills as f64),
            ("fenced", self.fenced as f64),
            ("busiest_over_mean", self.busiest),
            ("take_over_median_s", self.take_over.0),
            ("take_over_max_s", self.take_over.1),
            ("take_over_s_model", self.take_over_model()),
            ("shared_share", self.shared),
            ("turns_per_shared_fetch", self.turns),
            ("turns_per_second", self.turns_rate()),
            ("turns_per_second_model", self.turns_model()),
            ("turns_per_second_corrected", self.turns_corrected()),
            ("used_share_60_hosts", self.used.0),
            ("used_share_4_hosts", self.used.1),
            ("slot_packets_per_second", self.packets),
            ("slot_packets_per_fetch", self.packets / self.rate()),
            ("slot_bytes_per_second", self.packet_bytes),
            ("rings", self.rings),
            ("ring_packets_per_second_model", self.ring_packets()),
            ("slot_packets_median_second", self.packets_peak.1),
            ("slot_packets_peak_second", self.packets_peak.0),
            ("shared_fetches_worst_10s", self.worst),
            ("groups_per_second", self.groups),
            ("groups_per_second_model", self.groups_model()),
            ("groups_per_second_corrected", self.groups_corrected()),
            ("parcels_per_second", self.parcels),
            ("parcels_per_second_model", self.parcels_model()),
            ("parcels_per_second_corrected", self.parcels_corrected()),
            ("messages_per_page", (self.groups + self.parcels) / pages),
            ("messages_per_page_model", self.messages_model()),
            ("messages_per_page_corrected", self.messages_corrected()),
            ("log_bytes_per_page", OWN_BYTES + self.parcel_bytes),
            ("log_bytes_per_page_model", OWN_BYTES + FOREIGN * LINK_BYTES),
            ("log_bytes_per_page_corrected", OWN_BYTES + self.parcel_bytes_corrected()),
            ("parcel_bytes_per_page", self.parcel_bytes),
            ("parcel_bytes_per_page_model", FOREIGN * LINK_BYTES),
            ("parcel_bytes_per_page_corrected", self.parcel_bytes_corrected()),
            ("repeats_per_million", self.repeats),
            ("repeats_per_million_model", self.repeats_model()),
            ("cpu_seconds", self.cpu),
        ]
    }
}

/// A number with three significant digits.
fn short(value: f64) -> String {
    match value {
        value if value == value.trunc() && value.abs() < 1e15 => format!("{value:.0}"),
        value if value.abs() >= 100.0 => format!("{value:.0}"),
        value if value.abs() >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}

/// The figures of one size as they are written: names and numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(Vec<(String, String)>);

impl Row {
    /// The number of this name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(this, _)| this == name)?.1.parse().ok()
    }

    /// The same, with today's predictions. Predictions follow from a few of the other figures.
    pub fn predicted_anew(mut self) -> Row {
        let value = |name: &str| self.value(name).unwrap_or(0.0);
        let (nodes, seconds) = (self.nodes(), value("virtual_seconds"));
        let (fetches, kills) = (value("fetches") as u64, value("kills") as u64);
        let figures = Figures { nodes, fetches, seconds, kills, rings: value("rings"), ..Figures::default() };
        for (name, predicted) in figures.columns() {
            let cell = self.0.iter_mut().find(|(this, _)| this == name);
            if let Some((_, cell)) = cell
                && (name.ends_with("_model") || name.ends_with("_corrected"))
            {
                *cell = short(predicted);
            }
        }
        self
    }

    /// Whether both rows have the same columns.
    pub fn is_like(&self, other: &Row) -> bool {
        self.0.iter().map(|(name, _)| name).eq(other.0.iter().map(|(name, _)| name))
    }

    /// Nodes of the cluster.
    pub fn nodes(&self) -> u64 {
        self.value("nodes").unwrap_or(0.0) as u64
    }
}

impl From<&Figures> for Row {
    fn from(figures: &Figures) -> Row {
        Row(figures.columns().into_iter().map(|(name, value)| (name.to_owned(), short(value))).collect())
    }
}

/// The rows of a [`table`]; none if the text is not a table.
pub fn read(text: &str) -> Option<Vec<Row>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split('\t').collect();
    let row = |line: &str| {
        let cells: Vec<(String, String)> =
            names.iter().zip(line.split('\t')).map(|(name, cell)| ((*name).into(), cell.into())).collect();
        let row = Row(cells);
        (row.0.len() == names.len() && row.nodes() > 0).then_some(row)
    };
    lines.map(row).collect()
}

/// All figures with tabs between: a line for each size. All have the columns of the first.
pub fn table(all: &[Row]) -> String {
    let mut out = String::new();
    for (n, row) in all.iter().enumerate() {
        if n == 0 {
            out += &Vec::from_iter(row.0.iter().map(|(name, _)| name.as_str())).join("\t");
            out += "\n";
        }
        out += &Vec::from_iter(row.0.iter().map(|(_, cell)| cell.as_str())).join("\t");
        out += "\n";
    }
    out
}

/// The figures for people: a column for each size.
pub fn report(all: &[Row]) -> String {
    let mut out = String::new();
    for (at, (name, _)) in all.first().iter().flat_map(|row| row.0.iter().enumerate()) {
        _ = write!(out, "{:<34}", name.replace('_', " "));
        for row in all {
            _ = write!(out, " {:>12}", row.0.get(at).map_or("", |(_, cell)| cell));
        }
        out += "\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let figures = Figures { nodes: 8, seconds: 3.0, fetches: 100, ..Figures::default() };
        let rows = [Row::from(&figures), Row::from(&Figures { nodes: 64, ..figures.clone() })];
        assert_eq!(read(&table(&rows)), Some(rows.to_vec()));
        assert_eq!((rows[1].nodes(), rows[1].value("fetches")), (64, Some(100.0)));
        assert_eq!(read("nodes\tfetches\n8"), None);
        let old = table(&rows).replace(&short(figures.take_over_model()), "7");
        let anew = read(&old).unwrap().into_iter().map(Row::predicted_anew);
        assert_eq!(anew.collect::<Vec<_>>(), rows);
    }
}
