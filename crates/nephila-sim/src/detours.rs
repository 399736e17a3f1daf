//! Redirects of robots.txt files. Each hop is a request to the redirect's target and belongs to the site whose
//! robots.txt redirected.
//!
//! The hops of a site have URLs of their own, so the URL of a ticket names the site. After a redirect a chain continues
//! in one of two ways: exactly the next hop is requested; or the frontier says in the log, without a request, that the
//! hop was not reached. A redirect loop and a chain that is too long end at once, as a file without rules.

use nephila_core::entry::{Entry, Group};
use nephila_core::frontier::report::{RobotsAnswer, RobotsReport};
use nephila_core::frontier::ticket::Ticket;
use nephila_core::robots::policy::RobotsResult;
use nephila_core::url::CrawlUrl;

use std::time::Duration;

use crate::harness::{Finished, Sim};
use crate::reach::Failure;
use crate::robots::File;
use crate::{Checker, Violation};

/// Redirects that are followed (RFC 9309, 2.3.1.2).
const HOPS_MAX: usize = 5;

/// A robots.txt that redirects.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// URLs that were requested.
    asked: Vec<String>,
    /// The URL that must be requested next; none while its request is open.
    next: Option<String>,
    /// Wall clock time when the last redirect was reported; earlier if the clock was set back since.
    pub(crate) since: u64,
}

/// The site whose robots.txt this URL is a hop of; none if the URL is not a hop.
pub(crate) fn asker(url: &str) -> Option<usize> {
    let (_, path) = url.split_once("://")?.1.split_once('/')?;
    path.strip_prefix("hop-")?.split('-').next()?.parse().ok()
}

impl Sim {
    /// The site that a ticket for a robots.txt is sent to; the ticket must be for the expected URL.
    pub(crate) fn start_robots(&mut self, ticket: &Ticket) -> Result<usize, Violation> {
        let path = ticket.url.split_once("://").and_then(|(_, rest)| rest.find('/')).expect("a URL of ours");
        let origin = &ticket.url[..path + ticket.url.find("://").expect("as above") + 3];
        let host = self.world.by_origin[origin];
        let asker = asker(&ticket.url).unwrap_or(host);
        let wanted = match self.chains.get_mut(&asker) {
            None => ticket.url == format!("{}/robots.txt", self.world.hosts[asker].origin),
            Some(chain) => chain.next.take().is_some_and(|next| next == ticket.url),
        };
        if wanted {
            return Ok(host);
        }
        let what = format!("{} is asked for, the chain is {:?}", ticket.url, self.chains.get(&asker));
        Err(Violation::new(Checker::Robots, what))
    }

    /// The target to which a robots.txt redirects this time; none if the file does not redirect.
    pub(crate) fn detour(&mut self, finished: &Finished) -> Option<String> {
        if !self.rng.one_in(if self.calm { 6 } else { 4 }) {
            return None;
        }
        let asker = asker(&finished.ticket.url).unwrap_or(finished.host);
        let asked = self.chains.get(&asker).map_or(0, |chain| chain.asked.len());
        let hop = format!("/hop-{asker}-{}", asked + 1);
        let own = &self.world.hosts[finished.host].origin;
        let any = self.rng.index(self.world.hosts.len());
        Some(match self.rng.below(8) {
            0 => finished.ticket.url.clone(),
            1 if asked > 0 => self.chains[&asker].asked[0].clone(),
            2 if self.world.detours => format!("http://void.test{hop}"),
            // The void is the last.
            3..8 if self.world.detours && any + 1 < self.world.hosts.len() => {
                format!("{}{hop}", self.world.hosts[any].origin)
            }
            _ => format!("{own}{hop}"),
        })
    }

    /// Reports a redirect.
    pub(crate) fn report_redirect(&mut self, finished: &Finished, target: &str) -> Result<(), Violation> {
        let target = CrawlUrl::parse(target).expect("a URL of ours");
        let answer = RobotsAnswer::Redirect(Box::new(target.clone()));
        let report = RobotsReport::of(answer, Duration::from_millis(finished.took));
        let Some(open) = self.taken(finished, report)? else { return Ok(()) };
        self.tell(|| format!("{} redirects to {}", finished.ticket.url, target.as_str()));
        self.polite.handle_report(open.host, open.address, finished.took, 0, self.clock.t);
        let since = self.clock.wall();
        let chain = self.chains.entry(open.asker);
        let chain = chain.or_insert(Chain { asked: Vec::new(), next: None, since });
        chain.asked.push(finished.ticket.url.clone());
        let circle = chain.asked.iter().any(|asked| asked == target.as_str());
        if circle || chain.asked.len() > HOPS_MAX {
            self.chains.remove(&open.asker);
            self.site_answered(open.asker, Failure::None);
            self.robots_known(open.asker, RobotsResult::RedirectLimit, &File::default(), None, 0, since);
        } else {
            (chain.next, chain.since) = (Some(target.as_str().to_owned()), since);
        }
        Ok(())
    }

    /// Whether a hop must still be requested and has no ticket yet.
    pub(crate) fn awaits_hop(&self, host: usize) -> bool {
        self.chains.get(&host).is_some_and(|chain| chain.next.is_some())
    }

    /// A hop did not connect, and is requested at another address of its host.
    pub(crate) fn ask_elsewhere(&mut self, url: &str, asker: usize) {
        let since = self.clock.wall();
        if let Some(chain) = self.chains.get_mut(&asker) {
            (chain.next, chain.since) = (Some(url.to_owned()), since);
        }
    }

    /// A group records chains whose next hop was never requested: these were not reached.
    pub(crate) fn chains_given_up(&mut self, group: &Group) {
        for entry in &group.entries {
            let Entry::Robots(read) = entry else { continue };
            let host = self.keys.iter().position(|key| *key == Some(read.host)).expect("it was resolved");
            let waits = self.chains.get(&host).is_some_and(|chain| chain.next.is_some());
            if let Some(chain) = self.chains.remove(&host).filter(|_| waits) {
                let rest = self.robots_rest(RobotsResult::Unreachable, None);
                self.figures.given_up += 1;
                self.site_answered(host, Failure::Failed);
                self.robots_known(host, RobotsResult::Unreachable, &File::default(), None, rest, chain.since);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_tells_whose_it_is() {
        assert_eq!(asker("http://h1.d2.test/hop-17-3"), Some(17));
        assert_eq!(asker("http://h1.d2.test/robots.txt"), None);
    }
}
