//! One simulated node: the core's member, outbox and frontiers, and the shell that carries out their decisions.
//!
//! A page is processed in the order that durability requires: its capture is stored, its links to other partitions are
//! in their inboxes, its own links are offered, and only then is the page reported. The shell acts in the name of a
//! partition only while the member allows that (lease).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use nephila_core::cluster::member::{Action as Deed, Member, NodeRecord};
use nephila_core::cluster::message::Message;
use nephila_core::cluster::outbox::{self, Outbox, Pushed};
use nephila_core::cluster::{Epoch, Incarnation, NodeId, member};
use nephila_core::entry::Entry;
use nephila_core::frontier::offers::OfferedUrl;
use nephila_core::frontier::ticket::TicketId;
use nephila_core::frontier::{Action, Frontier, Offered};
use nephila_core::key::{HostKey, Prefixes, Secret};
use nephila_core::spread::Spread;
use nephila_core::state::{MemoryState, State};
use nephila_core::time::{Now, Timestamp};

use super::calls::Call;
use super::slot_grants::SlotGrants;
use super::{Planted, Sim};
use crate::{Checker, Violation};

/// Reading of the wall clock when the world begins.
const WALL_BEGAN: u64 = 1_800_000_000_000;

/// Maximum error of a node's wall clock in milliseconds, either way.
const SKEW_MAX: u64 = 300_000;

/// Maximum drift of a node's wall clock, in milliseconds per thousand seconds, either way.
const DRIFT_MAX: u64 = 10_000;

/// A group is written at most this often, in milliseconds.
const GROUP_EVERY: u64 = 400;

/// Interval between reads of an inbox, in milliseconds.
const INBOX_EVERY: u64 = 700;

/// Maximum number of rounds of one turn: each may make work for the next.
const ROUNDS_MAX: usize = 16;

/// A node that wants to be called at once is called after this, in milliseconds.
const WAKE_MIN: u64 = 5;

/// The inbox's name in the log.
const INBOX: &str = "in";

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    /// Number of this process among the processes of this name.
    pub(crate) life: u64,
    began: u64,
    first: u64,
    /// Error of the wall clock, and its drift in a million milliseconds.
    skew: i64,
    drift: i64,
    pub(crate) member: Member,
    pub(crate) outbox: Outbox,
    pub(crate) parts: BTreeMap<u32, Part>,
    /// Partitions whose log is being read.
    pub(crate) loading: BTreeMap<u32, Epoch>,
    pub(crate) sleeps_until: u64,
    pub(crate) dead_until: Option<u64>,
    pub(crate) cut_until: u64,
    /// When the node has work to do.
    pub(crate) wake: u64,
    /// The spread domains, as this node has read them.
    pub(crate) table: Spread,
    /// Pages whose links travel, by the outbox's number.
    pub(crate) pages: BTreeMap<u64, (u32, TicketId)>,
    pub(crate) next_page: u64,
    pub(crate) turns: SlotGrants,
}

/// A partition that a node works on.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) frontier: Frontier<MemoryState>,
    pub(crate) epoch: Epoch,
    /// Distinguishes this opening from any other.
    pub(crate) life: u64,
    pub(crate) draining: bool,
    /// The group that is being written to the log.
    pub(crate) group: Option<Vec<u8>>,
    group_at: u64,
    /// How far the inbox was processed.
    pub(crate) inbox_at: u64,
    pub(crate) reading: bool,
    read_at: u64,
    todo: VecDeque<Todo>,
    /// Number in the outbox of the links of a message that are sent on, and whether all are in the outbox.
    sending: Option<(u64, bool)>,
    /// Number of published decisions about spread domains, and whether a call is under way.
    pub(crate) published: usize,
    pub(crate) publishing: bool,
    pub(crate) flights: BTreeMap<TicketId, Flight>,
}

#[derive(Debug)]
enum Todo {
    Offer(OfferedUrl),
    Command(Box<Entry>),
    Position(u64),
    /// Waits until the log has the inbox up to this position.
    Settle(u64),
}

/// An open ticket.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) page: Option<u32>,
    pub(crate) depth: u8,
    pub(crate) stage: Stage,
    /// Another node has the partition already: the books record this ticket as open at a fault.
    pub(crate) lost: bool,
}

#[derive(Debug)]
pub(crate) enum Stage {
    Running,
    Fetched {
        failed: bool,
        links: Vec<u32>,
        pushed: usize,
        number: u64,
        finished: bool,
        safe: bool,
        stored: bool,
    },
    Reported,
}

impl Node {
    pub(crate) fn new(sim: &mut Sim, index: u64, life: u64) -> Node {
        let id = NodeId(index + 1);
        let first = *sim.rng.pick(&[0, 1, 7_000_000]);
        let incarnation = Incarnation((index + 1) << 48 | life << 24);
        let me = NodeRecord { node: id, incarnation, ..NodeRecord::default() };
        let settings = outbox::Settings {
            parcel_bytes: *sim.rng.pick(&[300, 4_000]),
            parcel_age: Duration::from_millis(*sim.rng.pick(&[200, 1_000, 5_000])),
            waiting_bytes_max: *sim.rng.pick(&[600, 100_000]),
            recent_max: *sim.rng.pick(&[1, 16, 1_024]),
            busy_links: *sim.ways.pick(&[0, 5, 1_000]),
            ..outbox::Settings::default()
        };
        let nonce = (index + 1) << 32 | life;
        let (skew, drift) = match sim.skewed {
            true => (sim.ways.either_way(SKEW_MAX), sim.ways.either_way(DRIFT_MAX)),
            false => (0, 0),
        };
        Node {
            id,
            life,
            began: sim.t,
            first,
            skew,
            drift,
            member: Member::new(member::Settings::default(), me, sim.partitions),
            outbox: Outbox::new(settings, id, sim.secret, nonce),
            parts: BTreeMap::new(),
            loading: BTreeMap::new(),
            sleeps_until: 0,
            dead_until: None,
            cut_until: 0,
            wake: sim.t,
            table: Spread::default(),
            pages: BTreeMap::new(),
            next_page: 0,
            turns: SlotGrants::default(),
        }
    }

    pub(crate) fn now(&self, t: u64) -> Now {
        let wrong = self.skew + t as i64 * self.drift / 1_000_000;
        Now {
            mono: t - self.began + self.first,
            wall: Timestamp((WALL_BEGAN + t).saturating_add_signed(wrong)),
        }
    }

    fn t_of(&self, mono: u64) -> u64 {
        (mono + self.began).saturating_sub(self.first)
    }

    pub(crate) fn is_awake(&self, t: u64) -> bool {
        self.dead_until.is_none() && self.sleeps_until <= t
    }
}

impl Part {
    pub(crate) fn new(frontier: Frontier<MemoryState>, epoch: Epoch, life: u64, inbox_at: u64) -> Part {
        Part {
            frontier,
            epoch,
            life,
            draining: false,
            group: None,
            group_at: 0,
            inbox_at,
            reading: false,
            read_at: 0,
            todo: VecDeque::new(),
            sending: None,
            published: 0,
            publishing: false,
            flights: BTreeMap::new(),
        }
    }

    /// How far the inbox was read, according to the log.
    pub(crate) fn durable_inbox(state: &MemoryState) -> u64 {
        state.meta().inboxes.get(INBOX).copied().unwrap_or(0)
    }
}

impl Sim {
    /// A node does everything that is possible now.
    pub(crate) fn turn(&mut self, n: usize) -> Result<(), Violation> {
        let life = self.nodes[n].life;
        for _ in 0..ROUNDS_MAX {
            let mut busy = false;
            for partition in Vec::from_iter(self.nodes[n].parts.keys().copied()) {
                busy |= self.work(n, partition)?;
            }
            busy |= self.take_turns(n);
            let mono = self.nodes[n].now(self.t).mono;
            while let Some(deed) = self.nodes[n].member.poll(mono) {
                busy = true;
                self.carry_out(n, deed)?;
            }
            while let Some(parcel) = self.nodes[n].outbox.poll(mono) {
                self.figures.parcels += 1;
                self.call(
                    n,
                    Call::Publish { partition: parcel.partition, id: parcel.id, bytes: parcel.bytes },
                );
            }
            while let Some(number) = self.nodes[n].outbox.poll_safe() {
                busy = true;
                let Some((partition, ticket)) = self.nodes[n].pages.remove(&number) else {
                    for part in self.nodes[n].parts.values_mut() {
                        part.sending = part.sending.filter(|(sending, _)| *sending != number);
                    }
                    continue;
                };
                let part = self.nodes[n].parts.get_mut(&partition);
                let flight = part.and_then(|part| part.flights.get_mut(&ticket));
                if let Some(Flight { stage: Stage::Fetched { safe, .. }, .. }) = flight {
                    *safe = true;
                }
            }
            if !busy {
                break;
            }
        }
        debug_assert_eq!(life, self.nodes[n].life);
        self.nodes[n].wake = self.next_wake(n);
        Ok(())
    }

    fn next_wake(&self, n: usize) -> u64 {
        let node = &self.nodes[n];
        let now = node.now(self.t);
        let parts = node.parts.values().flat_map(|part| {
            let group = (part.group.is_none() && part.frontier.has_group(0)).then_some(part.group_at);
            let read = (!part.reading && !part.draining && part.todo.is_empty()).then_some(part.read_at);
            let frontier = part.frontier.poll_timeout(now).filter(|_| !part.draining);
            group.into_iter().chain(read).chain(frontier)
        });
        let all = parts.chain(node.member.next_wake(now.mono)).chain(node.outbox.poll_timeout());
        let all = all.chain(node.turns.next_wake());
        all.min().map_or(u64::MAX, |mono| node.t_of(mono).max(self.t + WAKE_MIN))
    }

    /// Carries out a decision of the member.
    fn carry_out(&mut self, n: usize, deed: Deed) -> Result<(), Violation> {
        let t = self.t;
        match deed {
            Deed::Fence => {
                self.tell(|| format!("node {n} is fenced"));
                self.figures.fenced += 1;
                self.drop_everything(n);
                let mono = self.nodes[n].now(t).mono;
                self.nodes[n].member.handle_fenced(mono);
            }
            Deed::Read { incarnation } => self.call(n, Call::Owners { incarnation }),
            Deed::Open { partition, epoch } => {
                self.figures.opened += 1;
                self.tell(|| format!("node {n} opens {partition} under {epoch:?}"));
                self.nodes[n].loading.insert(partition, epoch);
                self.call(n, Call::Load { partition, epoch });
            }
            Deed::Drain { partition, epoch } => match self.nodes[n].parts.get_mut(&partition) {
                Some(part) => part.draining = true,
                None => {
                    self.nodes[n].loading.remove(&partition);
                    self.nodes[n].member.handle_drained(partition, epoch);
                }
            },
            Deed::Leave { .. } => {
                self.tell(|| format!("node {n} leaves"));
                self.drop_everything(n);
                self.call(n, Call::Member(deed));
                let away = self.rng.within(1_000, 60_000);
                self.nodes[n].dead_until = Some(if self.calm { t } else { t + away });
            }
            deed => self.call(n, Call::Member(deed)),
        }
        Ok(())
    }

    /// Drops all partitions without a message: requests are aborted, entries that were not written are lost.
    pub(crate) fn drop_everything(&mut self, n: usize) {
        for partition in Vec::from_iter(self.nodes[n].parts.keys().copied()) {
            self.drop_part(n, partition);
        }
        self.nodes[n].loading.clear();
        self.nodes[n].turns.drop_all();
    }

    pub(crate) fn drop_part(&mut self, n: usize, partition: u32) {
        let Some(part) = self.nodes[n].parts.remove(&partition) else { return };
        for (ticket, flight) in &part.flights {
            if let Some(page) = flight.page.filter(|_| !flight.lost) {
                self.books.handle_lost(partition, ticket.0, page);
            }
            if let Stage::Fetched { number, .. } = flight.stage {
                self.nodes[n].pages.remove(&number);
                self.nodes[n].outbox.forget(number);
            }
        }
        if let Some((number, _)) = part.sending {
            self.nodes[n].outbox.forget(number);
        }
        let t = self.t;
        let books = &mut self.books;
        self.running.retain(|_, running| {
            let mine = running.part == part.life;
            if mine && !running.orphan {
                books.handle_end(running.host, Some(t));
            }
            !mine
        });
    }

    /// One partition's share of a turn. Returns whether this made work for others.
    fn work(&mut self, n: usize, partition: u32) -> Result<bool, Violation> {
        let now = self.nodes[n].now(self.t);
        let may = self.nodes[n].member.epoch(now.mono, partition).is_some()
            || self.planted == Planted::NoLeaseCheck;
        let mut busy = self.advance_pages(n, partition)?;
        let late = self.planted == Planted::SentOnLate;
        let Node { parts, outbox, next_page, .. } = &mut self.nodes[n];
        let Some(part) = parts.get_mut(&partition) else { return Ok(busy) };
        part.frontier.handle_timeout(now)?;
        let sent_on = part.take_in(&self.secret, late, |url, number| {
            let number = number.unwrap_or_else(|| {
                *next_page += 1;
                *next_page
            });
            match url {
                Some(url) => {
                    let to = partition_of(url.key.host, self.partitions);
                    (outbox.push(now.mono, to, url, number) != Pushed::Full).then_some(number)
                }
                None => {
                    outbox.finish(number);
                    Some(number)
                }
            }
        })?;
        self.figures.sent_on += sent_on;
        busy |= sent_on > 0;
        let mut tickets = Vec::new();
        while may && !part.draining {
            match part.frontier.poll_action(now)? {
                None => break,
                Some(Action::Resolve { host, origin }) => {
                    let address = self.web.hosts[self.web.by_origin[&origin]].address;
                    part.frontier.handle_resolved(host, &[address], now);
                }
                Some(Action::Fetch(ticket)) => tickets.push(ticket),
            }
        }
        let (epoch, part_life) = (part.epoch, part.life);
        let mut calls = Vec::new();
        let writes = may && part.group.is_none() && now.mono >= part.group_at;
        if let Some(bytes) = if writes { part.frontier.poll_group(0, now)? } else { None } {
            part.group_at = now.mono + GROUP_EVERY;
            part.group = Some(bytes.clone());
            calls.push(Call::Append { partition, part: part_life, epoch, bytes });
        }
        if may && !part.reading && !part.draining && part.todo.is_empty() && now.mono >= part.read_at {
            part.reading = true;
            part.read_at = now.mono + INBOX_EVERY;
            calls.push(Call::Inbox { partition, part: part_life, from: part.inbox_at });
        }
        let decided = part.frontier.spread_of(0);
        if may && !part.publishing && decided.iter().count() > part.published {
            part.publishing = true;
            calls.push(Call::Spread { partition, part: part_life, decided: decided.clone() });
        }
        let done = part.group.is_none() && part.flights.is_empty() && !part.frontier.has_group(0);
        let drained = part.draining && done;
        if drained {
            self.snapshot(n, partition);
            self.drop_part(n, partition);
            self.nodes[n].member.handle_drained(partition, epoch);
            busy = true;
        }
        for ticket in tickets {
            self.start(n, partition, ticket)?;
        }
        for call in calls {
            self.call(n, call);
        }
        Ok(busy)
    }

    /// A group is in the log, and its writer has the acknowledgement.
    pub(crate) fn handle_written(
        &mut self,
        n: usize,
        partition: u32,
        part_life: u64,
    ) -> Result<(), Violation> {
        let now = self.nodes[n].now(self.t);
        let Some(part) = self.nodes[n].parts.get_mut(&partition).filter(|part| part.life == part_life) else {
            return Ok(());
        };
        if part.group.take().is_none() {
            return Ok(());
        }
        part.frontier.handle_committed(0, now)?;
        let books = &self.books;
        part.flights.retain(|ticket, flight| {
            !(matches!(flight.stage, Stage::Reported) && books.has_ended(partition, ticket.0))
        });
        if self.rng.one_in(12) {
            self.snapshot(n, partition);
        }
        Ok(())
    }

    /// The current state becomes the snapshot that the next owner begins with.
    fn snapshot(&mut self, n: usize, partition: u32) {
        let part = self.nodes[n].parts.get_mut(&partition).expect("it is open");
        let state = part.frontier.state(0);
        let kept = &mut self.engine.snapshots[partition as usize];
        if state.position().sequence > kept.position().sequence {
            *kept = state.clone();
        }
    }

    /// Messages of an inbox reach its owner.
    pub(crate) fn handle_messages(
        &mut self,
        n: usize,
        partition: u32,
        part_life: u64,
        messages: Option<Vec<bytes::Bytes>>,
    ) -> Result<(), Violation> {
        let secret = self.secret;
        let Some(part) = self.nodes[n].parts.get_mut(&partition).filter(|part| part.life == part_life) else {
            return Ok(());
        };
        part.reading = false;
        for bytes in messages.into_iter().flatten() {
            let mut settles = false;
            match Message::decode(&bytes, &secret) {
                Ok(Message::Offers { offers, .. }) => part.todo.extend(offers.into_iter().map(Todo::Offer)),
                Ok(Message::Command(entry)) => {
                    settles = matches!(*entry, Entry::Spread(_));
                    part.todo.push_back(Todo::Command(entry));
                }
                Err(error) => return Err(Violation::new(Checker::Error, error.to_string())),
            }
            part.inbox_at += 1;
            part.todo.push_back(Todo::Position(part.inbox_at));
            part.todo.extend(settles.then_some(Todo::Settle(part.inbox_at)));
        }
        Ok(())
    }
}

impl Part {
    /// Processes messages of the inbox, up to the capacity of the queue. The inbox position goes into the same group.
    /// URLs that belong elsewhere are sent on, and their message counts as read when they are there. `send` puts a URL
    /// into the outbox, or ends their list. Returns the number of URLs sent on.
    fn take_in(
        &mut self,
        secret: &Secret,
        late: bool,
        mut send: impl FnMut(Option<OfferedUrl>, Option<u64>) -> Option<u64>,
    ) -> Result<u64, Violation> {
        let mut sent_on = 0;
        while let Some(todo) = self.todo.pop_front() {
            match todo {
                Todo::Offer(url) => {
                    let (here, elsewhere) = self.frontier.spread_of(0).divide(vec![url.clone()], secret);
                    for on in elsewhere {
                        let Some(number) = send(Some(on), self.sending.map(|(number, _)| number)) else {
                            self.todo.push_front(Todo::Offer(url));
                            return Ok(sent_on);
                        };
                        self.sending = Some((number, false));
                        sent_on += 1;
                    }
                    for url in here {
                        match self.frontier.offer(url.offer()) {
                            Offered::Taken | Offered::Recent => {}
                            Offered::Full => {
                                self.todo.push_front(Todo::Offer(url));
                                return Ok(sent_on);
                            }
                            Offered::Elsewhere => {
                                let what = format!("{}{} came to the wrong partition", url.origin, url.text);
                                return Err(Violation::new(Checker::Owners, what));
                            }
                        }
                    }
                }
                Todo::Command(entry) => self.frontier.handle_command(0, *entry),
                Todo::Position(position) => {
                    if let Some((number, finished)) = self.sending {
                        if !finished {
                            send(None, Some(number));
                            self.sending = Some((number, true));
                        }
                        if !late {
                            self.todo.push_front(Todo::Position(position));
                            return Ok(sent_on);
                        }
                        self.sending = None;
                    }
                    let name = INBOX.into();
                    self.frontier.handle_command(0, Entry::Inbox { name, position });
                }
                Todo::Settle(position) => {
                    if Part::durable_inbox(self.frontier.state(0)) < position {
                        self.todo.push_front(Todo::Settle(position));
                        return Ok(sent_on);
                    }
                }
            }
        }
        Ok(sent_on)
    }
}

/// The partition of a host.
pub(crate) fn partition_of(host: HostKey, partitions: u32) -> u32 {
    let holds = |number: &u32| Prefixes::share(*number, partitions).holds(host.domain);
    (0..partitions).find(holds).expect("the shares hold everything")
}
