//! The path of a page through a simulated node: requested, answered, stored, its links sent, reported.

use std::time::Duration;

use nephila_core::cluster::outbox::Pushed;
use nephila_core::frontier::Offered;
use nephila_core::frontier::report::RobotsReport;
use nephila_core::frontier::ticket::{Purpose, Report, Ticket, TicketId};
use nephila_core::robots::policy::RobotsResult;
use nephila_core::spider::outcome::Outcome;

use super::calls::Call;
use super::node::{Flight, Node, Stage, partition_of};
use super::{Event, Planted, Running, Sim};
use crate::{Checker, Violation};

impl Sim {
    /// A request goes out.
    pub(crate) fn start(&mut self, n: usize, partition: u32, ticket: Ticket) -> Result<(), Violation> {
        let t = self.t;
        let part = self.nodes[n].parts.get_mut(&partition).expect("it gave out the ticket");
        let page = match ticket.purpose {
            Purpose::Robots => None,
            Purpose::Page => Some(self.web.by_url[&ticket.url]),
        };
        let origin = ticket.url.strip_suffix("/robots.txt").filter(|_| page.is_none());
        let host = match (page, origin) {
            (Some(page), _) => self.web.pages[page as usize].host,
            (None, Some(origin)) => self.web.by_origin[origin],
            (None, None) => unreachable!("no robots.txt of ours redirects"),
        };
        let depth = ticket.depth.saturating_add(1);
        part.flights.insert(ticket.id, Flight { page, depth, stage: Stage::Running, lost: false });
        let (part, epoch) = (part.life, part.epoch);
        self.figures.pages += u64::from(page.is_some());
        self.trace(&[t, n as u64, ticket.id.0, u64::from(partition)], ticket.url.as_bytes());
        self.tell(|| format!("node {n} asks for {} under {epoch:?}", ticket.url));
        self.books.handle_act(partition, epoch, "a request", t)?;
        self.books.handle_start(host, page, t)?;
        let took_max = if self.rng.one_in(10) { 8_000 } else { 400 };
        let took = self.rng.within(1, took_max);
        let id = self.next();
        let running =
            Running { node: n, part, partition, ticket: ticket.id, host, page, took, orphan: false };
        self.running.insert(id, running);
        self.at(took, Event::Answered { request: id });
        Ok(())
    }

    /// A server has answered.
    pub(crate) fn handle_answered(&mut self, request: u64) {
        let Some(running) = self.running.remove(&request) else { return };
        if !running.orphan {
            self.books.handle_end(running.host, Some(self.t));
        }
        let failed = running.page.is_some_and(|page| {
            let fails = self.books.failed(page) < self.web.pages[page as usize].fails;
            if fails {
                self.books.handle_failed(page);
            }
            fails
        });
        self.at(0, Event::Came { running, failed });
    }

    /// An answer reaches its node.
    pub(crate) fn handle_came(&mut self, running: &Running, failed: bool) -> Result<(), Violation> {
        let n = running.node;
        let now = self.nodes[n].now(self.t);
        let partition = running.partition;
        self.nodes[n].next_page += 1;
        let number = self.nodes[n].next_page;
        let Some(part) = self.nodes[n].parts.get_mut(&partition).filter(|part| part.life == running.part)
        else {
            return Ok(());
        };
        let took = Duration::from_millis(running.took);
        let Some(page) = running.page else {
            part.flights.remove(&running.ticket);
            let report = RobotsReport::of(RobotsResult::Status(404), took);
            part.frontier.handle_robots(running.ticket, report, now)?;
            return Ok(());
        };
        // The host is free from here on; the outcome follows when everything else is durable.
        part.frontier.handle_released(running.ticket, took, now);
        let links = if failed { Vec::new() } else { self.web.links(page) };
        let flight = part.flights.get_mut(&running.ticket).expect("its ticket is open");
        flight.stage =
            Stage::Fetched { failed, links, pushed: 0, number, finished: false, safe: false, stored: failed };
        self.nodes[n].pages.insert(number, (partition, running.ticket));
        if !failed {
            let (part, ticket) = (running.part, running.ticket);
            self.call(n, Call::Put { partition, part, ticket, attempt: 0 });
        }
        Ok(())
    }

    /// A capture is stored.
    pub(crate) fn handle_stored(&mut self, n: usize, partition: u32, part: u64, ticket: TicketId) {
        let found = self.nodes[n].parts.get_mut(&partition).filter(|found| found.life == part);
        let flight = found.and_then(|part| part.flights.get_mut(&ticket));
        if let Some(Flight { stage: Stage::Fetched { stored, .. }, .. }) = flight {
            *stored = true;
        }
    }

    /// Sends the links of fetched pages to their partitions; reports pages whose links and captures are durable.
    pub(crate) fn advance_pages(&mut self, n: usize, partition: u32) -> Result<bool, Violation> {
        let now = self.nodes[n].now(self.t);
        let Node { parts, outbox, table, .. } = &mut self.nodes[n];
        let Some(part) = parts.get_mut(&partition) else { return Ok(false) };
        let mut busy = false;
        let (early, late) = (self.planted == Planted::ReportEarly, self.planted == Planted::LinksLate);
        for (ticket, flight) in &mut part.flights {
            let Stage::Fetched { failed, links, pushed, number, finished, safe, stored } = &mut flight.stage
            else {
                continue;
            };
            let before = *pushed;
            while let Some(&link) = links.get(*pushed) {
                let mut url = self.web.offered(link, flight.depth);
                table.rekey(&mut url, &self.secret);
                let to = partition_of(url.key.host, self.partitions);
                let offered = match to == partition {
                    true => part.frontier.offer(url.offer()),
                    false => Offered::Elsewhere,
                };
                let taken = match offered {
                    Offered::Taken | Offered::Recent => true,
                    Offered::Full => false,
                    Offered::Elsewhere => outbox.push(now.mono, to, url, *number) != Pushed::Full,
                };
                if !taken {
                    break;
                }
                *pushed += 1;
            }
            if *pushed == links.len() && !*finished {
                *finished = true;
                outbox.finish(*number);
                busy = true;
            }
            busy |= *pushed > before;
            let durable = *finished && (*stored || early) && (*safe || late);
            if durable {
                let page = flight.page.expect("a page");
                let missing = self.web.pages[page as usize].missing;
                let (outcome, status) = match (*failed, missing) {
                    (true, _) => (Outcome::ServerError, 500),
                    (false, true) => (Outcome::NotFound, 404),
                    (false, false) => (Outcome::Fetched, 200),
                };
                let mut report = Report::of(outcome, status, Duration::from_millis(1));
                report.digest = if outcome == Outcome::Fetched { u64::from(page) + 1 } else { 0 };
                let taken = part.frontier.handle_report(*ticket, &report, now)?;
                if !taken {
                    let what = format!("the report of page {page} was not taken");
                    return Err(Violation::new(Checker::Repeats, what));
                }
                flight.stage = Stage::Reported;
                busy = true;
            }
        }
        Ok(busy)
    }
}
