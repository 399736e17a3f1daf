//! `nephila job create`: sends a few seeds at once, many seeds step by step with progress messages.

use std::time::{Duration, Instant};

use nephila_core::job::Job;

use super::{Who, said, say, spread, with};
use crate::cli::cluster::{JobCreateArgs, LimitArgs};
use crate::command::resolved;
use nephila_api::views::Added;
use nephila_cluster::seeding::are_many;
use nephila_cluster::views::Created;
use nephila_engine::clock::Clock;
use nephila_engine::exit::Exit;
use nephila_engine::human;
use nephila_engine::settings::usage;

/// Maximum size in bytes of the seeds in one request: within the limit of a node.
const PIECE_BYTES: usize = 1 << 20;
/// Interval of progress messages.
const SAY_EVERY: Duration = Duration::from_secs(2);

pub(super) fn create(args: &JobCreateArgs) -> anyhow::Result<Exit> {
    let mut job = resolved::job(&args.name, &args.urls, &args.seeds, &args.what)?;
    let LimitArgs { priority, limit, size_limit, time_limit, limit_per_host, limit_per_domain } = args.limits;
    job.priority = priority.unwrap_or(job.priority);
    job.limits.pages_max = limit.unwrap_or(0);
    job.limits.bytes_max = size_limit.unwrap_or(0);
    job.limits.time_max = time_limit.unwrap_or_default();
    job.limits.pages_per_host_max = limit_per_host.unwrap_or(0);
    job.limits.pages_per_domain_max = limit_per_domain.unwrap_or(0);
    job.schedule = args.again.schedule().unwrap_or(job.schedule);
    job.check().map_err(|error| usage(error.into()))?;
    with(&args.common, &args.remote, async |who| {
        // Before the seeds, which take the same way to the home of their domain.
        spread::spread(&who, &args.spread).await?;
        if are_many(&job.scope.seeds) {
            return many(&who, job).await;
        }
        let Created { id, name, seeds } = who.create(job).await?;
        say(&format!("job {name} ({id}): {seeds} seeds sent"));
        Ok(Exit::Done)
    })
}

/// Creates a job with many seeds, or resumes an interrupted creation.
async fn many(who: &Who, mut job: Job) -> anyhow::Result<Exit> {
    let seeds = std::mem::take(&mut job.scope.seeds);
    let Created { id, name, seeds: before } = who.begin(job).await?;
    if before > 0 {
        let before = human::count(before);
        eprintln!("nephila: job {name} was begun before, and has {before} seeds: what is missing is added");
    }
    let mut told = Told { name: &name, all: seeds.len(), last: Instant::now() };
    let (mut refused, mut done) = (Added::default(), 0);
    for (lines, count) in pieces(&seeds) {
        let listed = who.list(&name, &lines).await?;
        refused.plus(Added { taken: 0, ..listed });
        done += count;
        told.say("listed", done);
    }
    for refusal in &refused.refusals {
        let (url, why) = (nephila_core::text::shown(&refusal.url), nephila_core::text::shown(&refusal.why));
        eprintln!("nephila: {url}: {why}");
    }
    who.seeding(&name, "listed").await?;
    let (mut sent, mut done) = (0, 0);
    for (lines, count) in pieces(&seeds) {
        sent += who.add(&name, true, &lines).await?.taken;
        done += count;
        told.say("sent", done);
    }
    who.seeding(&name, "seeded").await?;
    let left_out = match refused.refused {
        0 => String::new(),
        refused => format!(", {refused} refused"),
    };
    say(&format!("job {name} ({id}): {sent} seeds sent{left_out}"));
    Ok(Exit::Done)
}

/// Prints progress messages at intervals.
struct Told<'a> {
    name: &'a str,
    all: usize,
    last: Instant,
}

impl Told<'_> {
    fn say(&mut self, what: &str, done: usize) {
        if self.last.elapsed() >= SAY_EVERY {
            self.last = Instant::now();
            let (done, all) = (human::count(done as u64), human::count(self.all as u64));
            eprintln!("nephila: job {}: {done} of {all} seeds {what}", self.name);
        }
    }
}

/// Splits seeds into pieces, one seed per line, with the number of seeds in each.
fn pieces(seeds: &[String]) -> impl Iterator<Item = (String, usize)> + '_ {
    let mut left = seeds;
    std::iter::from_fn(move || {
        let mut lines = String::new();
        let fits = left.iter().take_while(|seed| {
            let fits = lines.is_empty() || lines.len() + seed.len() < PIECE_BYTES;
            if fits {
                lines.push_str(seed);
                lines.push('\n');
            }
            fits
        });
        let count = fits.count();
        left = &left[count..];
        (count > 0).then_some((lines, count))
    })
}

impl Who {
    async fn create(&self, job: Job) -> anyhow::Result<Created> {
        match self {
            Who::Node(node) => node.create(&job).await,
            Who::Servers(to) => to.0.create(job, &to.1).await.map_err(said),
        }
    }

    async fn begin(&self, job: Job) -> anyhow::Result<Created> {
        match self {
            Who::Node(node) => node.begin(&job).await,
            Who::Servers(to) => to.0.begin(job).await.map_err(said),
        }
    }

    async fn list(&self, name: &str, lines: &str) -> anyhow::Result<Added> {
        match self {
            Who::Node(node) => node.list(name, lines).await,
            Who::Servers(to) => {
                let now = Clock::new().now().wall;
                to.0.list(name, lines.lines(), &to.1, now).await.map_err(said)
            }
        }
    }

    async fn seeding(&self, name: &str, step: &str) -> anyhow::Result<()> {
        match (self, step) {
            (Who::Node(node), step) => node.seeding(name, step).await,
            (Who::Servers(to), "listed") => to.0.listed(name).await.map_err(said),
            (Who::Servers(to), _) => to.0.seeded(name).await.map_err(said),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_01_every_seed_is_in_one_piece() {
        let seeds: Vec<String> = (0..100_000).map(|n| format!("https://site-{n}.test/")).collect();
        let all: Vec<(String, usize)> = pieces(&seeds).collect();
        assert!(all.len() > 2 && all.iter().all(|(lines, _)| lines.len() <= PIECE_BYTES + 100));
        let lines: Vec<&str> = all.iter().flat_map(|(lines, _)| lines.lines()).collect();
        assert_eq!(lines, seeds);
        assert_eq!(all.iter().map(|(_, count)| count).sum::<usize>(), seeds.len());
        assert_eq!(pieces(&[]).count(), 0);
    }
}
