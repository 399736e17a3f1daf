//! Facts that become true when a group is in the log, as the checkers see them.
//!
//! A fact waits beside its partition until the next group is written, travels with that group, and is true once the
//! group is in the log. If the process dies before, the fact never becomes true.

use nephila_core::job::Job;
use nephila_core::spider::outcome::Outcome;

use crate::Violation;
use crate::completeness::Plan;
use crate::harness::Sim;
use crate::robots::{InForce, Word};
use crate::site::Version;

/// One fact.
#[derive(Clone, Debug)]
pub(crate) enum Fact {
    /// A URL is known.
    Known(u32),
    /// A page was fetched, with this outcome.
    Ended {
        url: u32,
        plan: Plan,
        outcome: Outcome,
        /// Its links, if they were read.
        links: Vec<u32>,
        /// The version, if the outcome has one.
        version: Version,
        /// A rest that the site requested, in wall clock time; 0 if none.
        rest_until: u64,
    },
    /// A page ended without a request.
    Unasked(u32),
    /// A robots.txt is in force.
    Robots { host: usize, word: Word, rest_until: u64 },
    /// The number of failures of a site in a row.
    Failures { host: usize, failures: u32 },
    /// The name of a site was found.
    Found { host: usize, at: u64 },
    /// An operator set a rest, in milliseconds.
    Delay { host: usize, delay: u64 },
    /// An operator stopped a host, or resumed one.
    Stopped { host: usize, stopped: bool },
    /// A job is new or has changed.
    Job { partition: usize, job: Box<Job> },
    /// A feed was read up to here.
    Feed { at: usize },
}

impl Sim {
    /// A group of this partition is in the log: its facts become true.
    pub(crate) fn facts_are_true(&mut self, partition: usize) -> Result<(), Violation> {
        let facts = std::mem::take(&mut self.parts[partition].facts_in_flight);
        for fact in &facts {
            if let Fact::Known(url) = fact {
                self.complete.handle_known(*url);
            }
        }
        for fact in facts {
            match fact {
                Fact::Known(_) => {}
                Fact::Ended { url, plan, outcome, links, version, rest_until } => {
                    self.asked.handle_ended_known(url, outcome, &version);
                    self.complete.handle_ended_known(url, plan, outcome);
                    self.complete.check_links(url, &links, &self.world)?;
                    self.polite.handle_rest(self.world.urls[url as usize].host, rest_until);
                }
                Fact::Unasked(url) => self.asked.handle_unasked(url),
                Fact::Robots { host, word, rest_until } => {
                    match &word.in_force {
                        InForce::Rules(file) => {
                            self.polite.handle_crawl_delay(host, file.crawl_delay.unwrap_or(0) * 1_000);
                        }
                        InForce::AllowAll => self.polite.handle_crawl_delay(host, 0),
                        InForce::Unknown | InForce::DisallowAll => {}
                    }
                    self.obedience.handle_word(host, word);
                    self.polite.handle_rest(host, rest_until);
                }
                Fact::Failures { host, failures } => self.reach.handle_known(host, failures),
                Fact::Found { host, at } => self.reach.handle_found(host, at),
                Fact::Delay { host, delay } => self.polite.handle_delay(host, delay),
                Fact::Stopped { host, stopped } => self.stopped[host] = stopped,
                Fact::Job { partition, job } => _ = self.jobs.insert((partition, job.id), *job),
                Fact::Feed { at } => self.parts[partition].feed_durable = at,
            }
        }
        Ok(())
    }
}
