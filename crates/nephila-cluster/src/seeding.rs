//! How a job gets its seeds: at creation, and while the job runs.
//!
//! A few seeds are in the record of their job. Many are in a list ([`super::lists`]), and such a job is created in
//! steps: the record, the whole list, the mark that the list is complete, the seeds to their partitions, and the mark
//! that all were sent. So links from the first pages are judged by all seeds. An interrupted creation is finished by
//! repeating the command, because listing and sending are idempotent.
//!
//! Invariants: no seed is sent that is neither in the record nor in the list; a job is not complete before all seeds
//! were sent; no list is written while a live node does not know lists, and no such node can join afterwards.

use nephila_core::job::{Job, JobId, SEEDS_MAX, State};
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;

use super::admin::{Adding, Error, check};
use super::jobs::{JobRecord, JobStore, LINE_BYTES, SEEDS_BYTES_MAX};
use super::lists::{LIST_BYTES_MAX, Lines, List, SEEDS_IN_LISTS_MAX};
use super::views::Created;
use super::{Cluster, LISTS_FORMAT, raise};
use nephila_api::views::Added;
use nephila_engine::clock::Clock;
use nephila_engine::crawl::adding::seed;
use nephila_engine::reach::Reach;
use nephila_engine::settings::Settings;
use nephila_engine::worker::Link;

/// What an older program does not know.
const LISTS: &str = "jobs with more than 512 kB of seeds";

/// Number of seeds that are listed or sent per call.
pub const AT_ONCE: usize = 20_000;

/// Whether these seeds are too many for the record of their job.
pub fn are_many(seeds: &[String]) -> bool {
    bytes_of(seeds) > SEEDS_BYTES_MAX
}

/// Size in bytes of these seeds in the record of a job.
pub fn bytes_of(seeds: &[String]) -> usize {
    seeds.iter().map(|seed| seed.len() + LINE_BYTES).sum()
}

impl Cluster {
    /// Returns the access to the records of jobs.
    pub fn store(&self) -> JobStore {
        JobStore::new(self.leases.clone(), self.lists.clone())
    }

    /// Creates a job. Seeds with a forbidden address are left out; a job without any other seed is refused.
    pub async fn create(&self, mut job: Job, settings: &Settings) -> Result<Created, Error> {
        let reachable = reachable(&job, &Reach::new(&settings.spider))?;
        if are_many(&job.scope.seeds) {
            let seeds = std::mem::take(&mut job.scope.seeds);
            return self.create_listed(job, &seeds, settings).await;
        }
        let id = match self.cut_short(&job, |record| record.job.scope.seeds == job.scope.seeds).await? {
            Some(id) => id,
            None => self.store().create(job.clone(), None).await?.id,
        };
        let job = Job { id, ..job };
        self.tell(&job).await?;
        let links: Vec<Link> = reachable.into_iter().map(|url| seed(url, &job)).collect();
        self.send_links(&links).await?;
        self.seeded(&job.name).await?;
        Ok(Created { id: job.id, name: job.name, seeds: links.len() as u64 })
    }

    /// The same with seeds that are too many for a record.
    pub async fn create_listed(
        &self,
        job: Job,
        seeds: &[String],
        settings: &Settings,
    ) -> Result<Created, Error> {
        let now = Clock::new().now().wall;
        let created = self.begin(job).await?;
        for some in seeds.chunks(AT_ONCE) {
            self.list(&created.name, some.iter().map(String::as_str), settings, now).await?;
        }
        self.listed(&created.name).await?;
        let adding = Adding { job: Some(created.name.clone()), as_seeds: true };
        let mut sent = 0;
        for some in seeds.chunks(AT_ONCE) {
            sent += self.add(&adding, some.iter().map(String::as_str), settings, now).await?.taken;
        }
        self.seeded(&created.name).await?;
        Ok(Created { seeds: sent, ..created })
    }

    /// The first step of a job with many seeds: creates the record, with an empty list. Resumes an interrupted
    /// creation.
    pub async fn begin(&self, job: Job) -> Result<Created, Error> {
        if self.cut_short(&job, |record| record.list.is_some()).await?.is_some() {
            let record = self.job(&job.name).await?;
            // The interrupted creation may not have come to this step.
            self.tell(&record.job).await?;
            return Ok(Created { id: record.job.id, seeds: record.seeds(), name: job.name });
        }
        self.are_known(LISTS_FORMAT, LISTS).await?;
        let list = List { open: true, ..List::default() };
        let job = self.store().create(job, Some(list)).await?;
        self.tell(&job).await?;
        Ok(Created { id: job.id, name: job.name, seeds: 0 })
    }

    /// The second step: adds seeds to the list, one per line.
    pub async fn list(
        &self,
        name: &str,
        lines: impl Iterator<Item = &str>,
        settings: &Settings,
        now: Timestamp,
    ) -> Result<Added, Error> {
        let record = self.job(name).await?;
        if record.list.is_none() || record.seeded {
            return Err(Error::Exists(format!(
                "the job {name} has begun: add seeds to it with `nephila add --seed`"
            )));
        }
        let adding = Adding { job: Some(name.to_owned()), as_seeds: true };
        let reach = Reach::new(&settings.spider);
        let mut jobs = self.judges(&adding).await?;
        let (mut added, mut seeds) = (Added::default(), Vec::new());
        for line in lines {
            match self.judged(line, &adding, &mut jobs, (&reach, &settings.trap), now).await? {
                None => {}
                Some(Ok(link)) if link.want.job == record.job.id => seeds.push(link.url.as_str().to_owned()),
                Some(Ok(link)) => added.refuse(link.url.as_str(), "this is a seed of another job"),
                Some(Err((url, why))) => added.refuse(&url, why),
            }
        }
        self.list_seeds(record.job.id, &seeds).await?;
        added.taken = seeds.len() as u64;
        Ok(added)
    }

    /// The third step: marks the list as complete; links are judged by the list from now on.
    pub async fn listed(&self, name: &str) -> Result<(), Error> {
        let record = self.job(name).await?;
        if record.seeds() == 0 {
            return Err(Error::Wrong(format!("none of the seeds of job {name} can be fetched")));
        }
        let close = |record: &mut JobRecord| {
            if let Some(list) = &mut record.list {
                list.open = false;
            }
        };
        self.store().change(record.job.id, close).await?;
        Ok(())
    }

    /// The last step: marks that all seeds of a job were sent.
    pub async fn seeded(&self, name: &str) -> Result<(), Error> {
        let record = self.job(name).await?;
        if record.list.is_some_and(|list| list.open) {
            return Err(Error::Wrong(format!("the seeds of job {name} are not listed yet")));
        }
        self.store().change(record.job.id, |record| record.seeded = true).await?;
        self.reopen([record.job.id]).await
    }

    /// Adds seeds to a job: to its record, or to its list if the job has or needs one.
    pub async fn take_seeds(&self, id: JobId, new: &[String]) -> Result<(), Error> {
        let all = self.jobs().await?;
        let Some(record) = all.iter().find(|record| record.job.id == id) else { return Ok(()) };
        let seeds = &record.job.scope.seeds;
        if record.list.is_some_and(|list| list.open) {
            let name = &record.job.name;
            let text = format!(
                "the seeds of job {name} are being listed: repeat `nephila job create {name}` to its end first"
            );
            return Err(Error::Exists(text));
        }
        if record.list.is_some() || bytes_of(seeds) + bytes_of(new) > SEEDS_BYTES_MAX {
            if record.list.is_none() {
                self.are_known(LISTS_FORMAT, LISTS).await?;
            }
            return self.list_seeds(id, new).await;
        }
        let put = |record: &mut JobRecord| {
            let seeds = &mut record.job.scope.seeds;
            let mut known: std::collections::HashSet<String> = seeds.iter().cloned().collect();
            seeds.extend(new.iter().filter(|seed| known.insert((*seed).clone())).cloned());
        };
        if let Some(changed) = self.store().change(id, put).await? {
            self.tell(&changed.job).await?;
        }
        Ok(())
    }

    /// Appends seeds to the list of a job, with deduplication.
    pub async fn list_seeds(&self, id: JobId, seeds: &[String]) -> Result<(), Error> {
        let mut guard = self.lists.known(id).await?;
        // If this call is aborted, the list is read again.
        let mut known = guard.take().expect("it was just read");
        let mut new: Vec<&str> = seeds.iter().map(String::as_str).collect();
        new.retain(|seed| known.insert(seed));
        self.has_room(id, known.len(), bytes_of(seeds) as u64).await?;
        let upto = self.lists.leave(id, Lines::Seeds, &new).await?;
        let bytes: usize = new.iter().map(|seed| seed.len() + 1).sum();
        let put = |record: &mut JobRecord| {
            let list = record.list.get_or_insert_default();
            list.upto = list.upto.max(upto).max(known.upto());
            list.seeds = (list.seeds + new.len() as u64).max(known.len());
            list.bytes += bytes as u64;
        };
        self.store().change(id, put).await?;
        *guard = Some(known);
        Ok(())
    }

    /// Checks the capacity for a list with this number of seeds, and this number of additional bytes.
    pub async fn has_room(&self, id: JobId, seeds: u64, more: u64) -> Result<(), Error> {
        if seeds > SEEDS_MAX as u64 {
            let text = format!("a job has at most {SEEDS_MAX} seeds: divide them among several");
            return Err(Error::Wrong(text));
        }
        let all = self.jobs().await?;
        let own = all.iter().find(|record| record.job.id == id).and_then(|record| record.list);
        if own.map_or(0, |list| list.bytes) + more > LIST_BYTES_MAX {
            let text =
                format!("a list of seeds has at most {LIST_BYTES_MAX} bytes: divide them among several jobs");
            return Err(Error::Wrong(text));
        }
        let others = all.iter().filter(|record| record.job.id != id && record.job.state != State::Stopped);
        let listed: u64 = others.filter_map(|record| record.list).map(|list| list.seeds).sum();
        if listed + seeds > SEEDS_IN_LISTS_MAX {
            let text = format!(
                "the jobs of a cluster have at most {SEEDS_IN_LISTS_MAX} seeds in lists, and {listed} are: stop one of them"
            );
            return Err(Error::Wrong(text));
        }
        Ok(())
    }

    /// The id of an equal job whose creation was interrupted before all seeds were sent.
    pub async fn cut_short(
        &self,
        job: &Job,
        is_it: impl Fn(&JobRecord) -> bool,
    ) -> Result<Option<JobId>, Error> {
        let others = self.jobs().await?;
        let Some(record) = others.iter().find(|record| record.job.name == job.name) else {
            check(job, &others)?;
            return Ok(None);
        };
        if !record.seeded && is_same(&record.job, job) && is_it(record) {
            return Ok(Some(record.job.id));
        }
        Err(Error::Exists(format!("there is a job {} already", job.name)))
    }

    /// Ensures that every node knows a format: the live ones, and future ones.
    pub async fn are_known(&self, format: u32, what: &str) -> Result<(), Error> {
        self.no_older_node(format, what).await?;
        raise(&*self.leases, format).await?;
        // One may have come in between.
        self.no_older_node(format, what).await
    }

    /// Fails if a live node has a version without this format.
    pub async fn no_older_node(&self, format: u32, what: &str) -> Result<(), Error> {
        let view = self.view().await?;
        match view.nodes.iter().find(|node| node.format < format) {
            None => Ok(()),
            Some(node) => Err(Error::Wrong(format!(
                "node {} is of an older version, which does not know {what}: install this version there first",
                node.name
            ))),
        }
    }
}

/// Whether these jobs have equal definitions, except for their seeds.
pub fn is_same(one: &Job, other: &Job) -> bool {
    let bare = |job: &Job| {
        let mut scope = job.scope.clone();
        scope.seeds.clear();
        Job { id: JobId(0), state: State::Running, scope, ..job.clone() }
    };
    bare(one) == bare(other)
}

/// The seeds of a job with a permitted address, as far as their text tells. Seeds that are no URLs are skipped.
pub fn reachable(job: &Job, reach: &Reach) -> Result<Vec<CrawlUrl>, Error> {
    let mut refusal = None;
    let mut seeds: Vec<CrawlUrl> =
        job.scope.seeds.iter().filter_map(|seed| CrawlUrl::parse(seed).ok()).collect();
    seeds.retain(|seed| match reach.check(seed) {
        Ok(()) => true,
        Err(why) => {
            refusal.get_or_insert(why);
            false
        }
    });
    match refusal {
        Some(why) if seeds.is_empty() => Err(Error::Wrong(why)),
        _ => Ok(seeds),
    }
}
