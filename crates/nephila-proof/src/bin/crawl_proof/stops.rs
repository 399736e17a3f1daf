//! Stops: an operator stops hosts, domains and addresses, one after the other, while several nodes crawl.
//!
//! Invariants, as the server saw them: ten seconds after a stop no host that the stop covers is requested, regardless
//! of the node that received the command; and none of them after all nodes were killed and have begun again.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use nephila_testweb::Settings;
use nephila_testweb::journal::{Log, Request};

use crate::crawler::Place;
use crate::herd::{Herd, Size, us};
use crate::judge::Verdict;
use crate::site::Site;

/// Every node obeys a stop after this time.
const OBEYED: Duration = Duration::from_secs(10);
/// Of the stops, one in this number is an address and one in the next number a domain; the others are hosts.
const ADDRESS_EVERY: u32 = 10;
const DOMAIN_EVERY: u32 = 3;

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    size: Size,
    /// Number of nodes.
    #[arg(long, default_value_t = 4)]
    nodes: usize,
    /// Number of stops; the web has twice as many hosts.
    #[arg(long, default_value_t = 100)]
    stops: u32,
    /// Between two of them, in milliseconds.
    #[arg(long, default_value_t = 300)]
    between_ms: u64,
    /// Number of pages of the web; the crawl has to last longer than everything else here.
    #[arg(long, default_value_t = 100_000)]
    pages: u64,
    /// How long the nodes are watched after they have begun again, in seconds.
    #[arg(long, default_value_t = 30)]
    after: u64,
}

/// A stop, and the time of the command.
struct Stop {
    target: Target,
    at_us: u64,
}

enum Target {
    /// A host, or a domain which is a host here.
    Name(String),
    Address(IpAddr),
}

impl Stop {
    fn means(&self, request: &Request) -> bool {
        match &self.target {
            Target::Name(name) => request.host.split(':').next() == Some(name),
            Target::Address(address) => request.local == *address,
        }
    }

    /// Time from the stop to the start of the last covered request in the log; requests from `until_us` on are ignored.
    fn obeyed_after(&self, log: &Log, until_us: u64) -> Duration {
        let meant = log.requests.iter().filter(|request| request.start_us < until_us && self.means(request));
        let last = meant.map(|request| request.start_us).max().unwrap_or(0);
        Duration::from_micros(last.saturating_sub(self.at_us))
    }
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    let size = Size { hosts: args.stops * 2, ..args.size.clone() };
    let folder = place.folder("stops")?;
    let web = Settings { dead_share: 0.0, ..size.even_web(args.pages) };
    let site = Site::start(web, &folder)?;
    let wanted = site.all_homes(&folder)?;
    let mut herd = Herd::found(&size, place, &folder, &site, &wanted.seeds, "any")?;
    herd.join(args.nodes)?;
    herd.settle()?;
    herd.until_requests(size.hosts as usize * 2)?;

    let mut stops = Vec::new();
    for number in 0..args.stops {
        // Host 0 is never stopped, nor is every second.
        stops.push(say(&herd, &site, number * 2 + 1, number)?);
        std::thread::sleep(Duration::from_millis(args.between_ms));
    }
    std::thread::sleep(OBEYED);
    herd.expect_alive()?;
    let killed_us = herd.journal.now_us();
    herd.nodes.iter_mut().try_for_each(crate::herd::Node::kill)?;
    let again_us = herd.journal.now_us();
    herd.nodes.iter_mut().try_for_each(crate::herd::Node::start)?;
    herd.settle()?;
    std::thread::sleep(Duration::from_secs(args.after));
    herd.expect_alive()?;
    let running = herd.running();
    herd.leave(running)?;

    let log = site.stop();
    let mut verdict = Verdict::default();
    let mut late: Vec<Duration> = stops.iter().map(|stop| stop.obeyed_after(&log, killed_us)).collect();
    late.sort_unstable();
    let last = late.last().copied().unwrap_or_default();
    verdict.expect(last <= OBEYED, || format!("asked {:.1} s after it was stopped", last.as_secs_f64()));
    let asked = |from_us: u64, stopped: bool| {
        let later = log.requests.iter().filter(move |request| request.start_us >= from_us);
        later.filter(|request| stops.iter().any(|stop| stop.means(request)) == stopped).count()
    };
    let rude = asked(again_us, true);
    verdict.expect(rude == 0, || format!("{rude} requests to who was stopped before all nodes began again"));
    let (before, after) = (asked(killed_us - us(OBEYED), false), asked(again_us, false));
    verdict.expect(before > 0 && after > 0, || "the crawl was over too early: more pages".to_owned());
    verdict.end(&format!(
        "stops: {} nodes, {} stops: the last request {:.2} s after its stop in the median, {:.2} s at most; {after} requests \
         after all nodes were killed, 0 of them to who was stopped; {:.0} s in all",
        args.nodes,
        stops.len(),
        late[late.len() / 2].as_secs_f64(),
        last.as_secs_f64(),
        began.elapsed().as_secs_f64()
    ))
}

/// Stops a host, as a person would.
fn say(herd: &Herd, site: &Site, host: u32, number: u32) -> anyhow::Result<Stop> {
    let world = site.world();
    let name = world.name(host);
    let (target, words) = match number {
        number if number % ADDRESS_EVERY == 0 => {
            let address = IpAddr::V4(world.addresses(host)[0]);
            (Target::Address(address), address.to_string())
        }
        number if number % DOMAIN_EVERY == 0 => {
            let domain = name.split_once('.').map_or(name.as_str(), |(_, domain)| domain);
            (Target::Name(name.clone()), format!("*.{domain}"))
        }
        _ => (Target::Name(name.clone()), name),
    };
    let mut args: Vec<String> =
        ["stop", "add", &words, "--reason", "a complaint", "--author", "proof"].map(str::to_owned).into();
    args.extend(herd.asks.settings());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (status, said) = herd.asks.ask_all(&args)?;
    ensure!(status.success(), "nephila stop add {words}: {status}: {said}");
    Ok(Stop { target, at_us: herd.journal.now_us() })
}
