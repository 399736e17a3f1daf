//! Faults of a cluster: nodes die, sleep, are cut off, leave and come back; the engine is away; a log has a hole.

use nephila_core::state::State;

use super::node::Node;
use super::{Hole, Sim};

/// The longest that a node sleeps or is dead, in milliseconds.
const GONE_MAX: u64 = 60_000;

/// The longest that a node is cut off, or the engine is away.
const CUT_MAX: u64 = 25_000;

impl Sim {
    /// Injects one random fault.
    pub(crate) fn fault(&mut self) {
        let n = self.rng.index(self.nodes.len());
        let (t, gone, cut) = (self.t, self.rng.below(GONE_MAX), self.rng.below(CUT_MAX));
        match self.rng.below(12) {
            0..4 => self.kill(n, gone),
            4..6 => self.sleep(n, gone),
            6..8 => {
                self.figures.cuts += 1;
                self.tell(|| format!("node {n} is cut off for {cut}"));
                self.nodes[n].cut_until = t + cut;
            }
            8 => {
                self.figures.aways += 1;
                self.tell(|| format!("the engine is away for {cut}"));
                self.away_until = t + cut;
            }
            9 => {
                if self.nodes[n].is_awake(t) {
                    self.figures.drains += 1;
                    self.tell(|| format!("node {n} is asked to leave"));
                    let mono = self.nodes[n].now(t).mono;
                    self.nodes[n].member.drain(mono);
                    self.nodes[n].wake = t;
                }
            }
            10 => {
                for partition in Vec::from_iter(self.nodes[n].parts.keys().copied()) {
                    let load = self.rng.below(100) as u32;
                    self.nodes[n].member.set_load(partition, load);
                }
            }
            _ => self.lie(n),
        }
    }

    /// A process dies at once, and another begins after a while.
    pub(crate) fn kill(&mut self, n: usize, gone: u64) {
        if self.nodes[n].dead_until.is_some() {
            return;
        }
        self.figures.kills += 1;
        self.tell(|| format!("node {n} dies for {gone}"));
        self.drop_everything(n);
        let node = &mut self.nodes[n];
        node.life += 1;
        node.dead_until = Some(self.t + gone);
    }

    /// Another process of the same name begins.
    pub(crate) fn restart(&mut self, n: usize) {
        self.tell(|| format!("node {n} is back"));
        let life = self.nodes[n].life + 1;
        self.nodes[n] = Node::new(self, n as u64, life);
    }

    /// A process is stopped, and later goes on as if nothing had happened. Its requests are with the kernel: they go
    /// on, and no node is responsible for them.
    fn sleep(&mut self, n: usize, gone: u64) {
        if !self.nodes[n].is_awake(self.t) {
            return;
        }
        self.figures.sleeps += 1;
        self.tell(|| format!("node {n} sleeps for {gone}"));
        self.nodes[n].sleeps_until = self.t + gone;
        for running in self.running.values_mut().filter(|running| running.node == n && !running.orphan) {
            running.orphan = true;
            self.books.handle_end(running.host, None);
        }
    }

    /// The engine loses a group that was acknowledged, and the owner dies: the next owner has to notice.
    fn lie(&mut self, n: usize) {
        if !self.lying || self.lied.is_some() || !self.nodes[n].is_awake(self.t) {
            return;
        }
        for partition in Vec::from_iter(self.nodes[n].parts.keys().copied()) {
            let known = self.engine.snapshots[partition as usize].position().sequence as usize;
            let groups = &mut self.engine.logs[partition as usize].groups;
            // Neither a group that the snapshot holds nor the last group: both would look like a log that is just
            // shorter.
            if groups.len() > known + 2 {
                groups.remove(known + 1);
                self.lied = Some(Hole { partition, sequence: known as u64 + 1 });
                self.tell(|| format!("log {partition} has a hole"));
                self.kill(n, 0);
                return;
            }
        }
    }
}
