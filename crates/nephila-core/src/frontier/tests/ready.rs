//! Whether a crawl is ready for reads, in random crawls and against a plain model that looks at every URL.

use std::collections::BTreeSet;
use std::time::Duration;

use super::lab::{Lab, config, failed};
use crate::chance::Chance;
use crate::entry::Entry;
use crate::frontier::outlook::Left;
use crate::key::{HostKey, Prefixes, UrlKey};
use crate::spider::outcome::Outcome;
use crate::state::State as _;
use crate::state::record::UrlState;
use crate::time::Seconds;

/// The shipped value of `crawl.retry_wait_max`.
const WITHIN: Duration = Duration::from_secs(60);
/// A crawl that has nothing to do is ready after this number of milliseconds at the latest.
const LATE_MAX: u64 = 5_000;
/// Interval between looks meanwhile.
const LOOK: u64 = 250;
const PARTITIONS: u32 = 3;

/// What the model says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Crawling,
    Ready,
    /// What is due belongs to a host that asked for a longer rest: either is right.
    Either,
}

fn horizon(lab: &Lab) -> Seconds {
    Seconds::from(lab.now.wall).plus(WITHIN)
}

fn is_ready(lab: &mut Lab) -> bool {
    let horizon = horizon(lab);
    lab.frontier.left(horizon, lab.now).unwrap() == Left::Nothing
}

/// Looks at every URL of every partition.
fn model(lab: &mut Lab, resting: &BTreeSet<HostKey>) -> Model {
    if lab.frontier.gauges().tickets_open > 0 {
        return Model::Crawling;
    }
    let (horizon, mut model) = (horizon(lab), Model::Ready);
    for partition in 0..PARTITIONS as usize {
        let first = HostKey { domain: Prefixes::ALL.first_domain(), host: 0 };
        let mut urls = Vec::new();
        lab.frontier.state(partition).urls_from(UrlKey { host: first, path: 0 }, 10_000, &mut urls).unwrap();
        for (key, url) in urls {
            match url.state {
                UrlState::Waiting => return Model::Crawling,
                UrlState::Later(due) if due > horizon => {}
                UrlState::Later(_) if resting.contains(&key.host) => model = Model::Either,
                UrlState::Later(_) => return Model::Crawling,
                _ => {}
            }
        }
    }
    model
}

/// A crawl by chance. Returns how often it became ready, and how often it began anew.
fn crawl(seed: u64) -> (u32, u32) {
    let mut chance = Chance(seed);
    let mut lab = Lab::with_partitions(config(), PARTITIONS);
    lab.stores = chance.below(2) * 300;
    let (mut count, mut resting) = (0, BTreeSet::new());
    // A page of some host, with links to further ones, and sometimes an error.
    let mut page = |lab: &mut Lab, chance: &mut Chance, resting: &mut BTreeSet<HostKey>| {
        let mut next = || {
            count += 1;
            format!("http://h{}.test/{count}", count % (1 + seed % 7))
        };
        let first = next();
        let (mut at, links) = (first.clone(), chance.below(6));
        for _ in 0..links {
            let to = next();
            lab.web.links.insert(at, vec![to.clone()]);
            match chance.below(8) {
                0 => _ = lab.web.pages.insert(to.clone(), failed(Outcome::ServerError, 500, None)),
                1 => {
                    let rest = 30 + chance.below(7_200);
                    lab.web.pages.insert(to.clone(), failed(Outcome::RateLimited, 429, Some(rest)));
                    resting.insert(super::lab::key(&to).host);
                }
                _ => {}
            }
            at = to;
        }
        first
    };
    let (mut was_ready, mut became, mut anew) = (false, 0, 0);
    for _ in 0..600 {
        if chance.below(if was_ready { 20 } else { 60 }) == 0 {
            let url = page(&mut lab, &mut chance, &mut resting);
            lab.offer(&[&url]);
            assert!(!is_ready(&mut lab), "seed {seed}: the first new URL counts at once");
            anew += u32::from(was_ready);
            was_ready = false;
        }
        if chance.below(100) == 0 {
            lab.web.pages.clear();
        }
        let is_long = chance.below(10) == 0;
        lab.run(50 + chance.below(if is_long { 120_000 } else { 2_000 }));
        let mut ready = is_ready(&mut lab);
        for _ in 0..LATE_MAX / LOOK {
            if ready || model(&mut lab, &resting) != Model::Ready {
                break;
            }
            lab.run(LOOK);
            ready = is_ready(&mut lab);
        }
        let model = model(&mut lab, &resting);
        assert!(!(ready && model == Model::Crawling), "seed {seed}: ready too early at {:?}", lab.now);
        assert!(ready || model != Model::Ready, "seed {seed}: ready too late at {:?}", lab.now);
        became += u32::from(ready && !was_ready);
        was_ready = ready;
    }
    (became, anew)
}

#[test]
fn e9_readiness_flips_right_in_fifty_random_crawls() {
    let (mut became, mut anew) = (0, 0);
    for seed in 0..50 {
        let (of_became, of_anew) = crawl(seed);
        (became, anew) = (became + of_became, anew + of_anew);
    }
    assert!(became > 100 && anew > 100, "ready {became} times, begun anew {anew} times");
}

#[test]
fn e9_a_mark_in_an_inbox_leaves_a_ready_crawl_ready_while_it_is_written() {
    let mut lab = Lab::with_partitions(config(), PARTITIONS);
    lab.offer(&["http://a.test/"]);
    lab.run(120_000);
    assert!(is_ready(&mut lab));
    lab.say(Entry::Inbox { name: "in".into(), position: 7 });
    assert!(is_ready(&mut lab), "taken");
    assert!(lab.frontier.poll_group(0, lab.now).unwrap().is_some());
    assert!(is_ready(&mut lab), "on its way to the log");
    lab.offer(&["http://a.test/more"]);
    assert!(!is_ready(&mut lab), "a URL is work");
    lab.frontier.handle_committed(0, lab.now).unwrap();
    assert!(!is_ready(&mut lab));
}
