//! What people without a token may see of a job: how far it is. No seeds, hosts, rules or settings.

use nephila_core::job::State;
use nephila_core::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Crawler;
use crate::jobs::{EndedSaid, ProgressSaid};

/// A job, for those who wait for it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PublicJob {
    /// Name of the job.
    pub job: String,
    /// Time of the answer.
    pub now: String,
    /// Who crawls.
    pub crawler: Crawler,
    /// `running`, `paused`, `stopped` or `done`.
    pub state: String,
    /// When the job was begun, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<String>,
    /// Completion time, if the job is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<String>,
    /// Number of URLs still to be requested.
    pub queued: u64,
    /// Number of pages fetched.
    pub pages: u64,
    /// Number of bytes received.
    pub bytes: u64,
    /// How the URLs ended.
    pub ended_as: EndedSaid,
    /// Whether these counts lack those of a node that did not answer.
    #[serde(default)]
    pub partial: bool,
    /// Pages per second over the last minutes; none while that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages_per_s: Option<f64>,
    /// Seconds until the queue is empty at this rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_s: Option<u64>,
}

/// What of `GET jobs/{job}` is looked at, on one machine and in a cluster.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Whole {
    job: Named,
    #[serde(default)]
    progress: ProgressSaid,
    #[serde(default)]
    ended_as: EndedSaid,
    #[serde(default)]
    partial: bool,
    #[serde(default)]
    begun: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Named {
    name: String,
    state: State,
}

impl Whole {
    /// Number of pages fetched.
    pub(super) fn pages(&self) -> u64 {
        self.progress.pages
    }
}

impl PublicJob {
    /// The answer for a job at this time, with this rate.
    pub(super) fn of(whole: Whole, crawler: Crawler, now: Timestamp, rate: Option<f64>) -> PublicJob {
        let Whole { job: Named { name, state }, progress, ended_as, partial, begun } = whole;
        let ProgressSaid { left, pages, bytes, complete, .. } = progress;
        let is_done = complete.is_some() || (state == State::Running && left == 0 && pages > 0);
        let is_running = state == State::Running && !is_done;
        let pages_per_s = rate.filter(|_| is_running).map(|rate| (rate * 100.0).round() / 100.0);
        let left_s = rate.filter(|rate| is_running && left > 0 && *rate > 0.0);
        PublicJob {
            job: name,
            now: now.warc_date(),
            crawler,
            state: if is_done { "done" } else { state.name() }.to_owned(),
            begun,
            complete,
            queued: left,
            pages,
            bytes,
            ended_as,
            partial,
            pages_per_s,
            left_s: left_s.map(|rate| (left as f64 / rate) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(job: serde_json::Value, rate: Option<f64>) -> PublicJob {
        let whole = serde_json::from_value(job).unwrap();
        PublicJob::of(whole, Crawler::default(), Timestamp(1_800_000_000_000), rate)
    }

    fn whole(state: &str, left: u64) -> serde_json::Value {
        json!({
            "job": {"name": "press", "state": state, "scope": {"seeds": ["http://user:secret@a.test/"]}},
            "moved": ["http://b.test/"],
            "progress": {"left": left, "pages": 40, "bytes": 9},
            "ended_as": {"ok": 30, "redirect": 4, "missing": 3, "refused": 2, "failed": 1},
            "seeds": [{"url": "http://user:secret@a.test/", "state": "fetched"}],
            "rules": [],
        })
    }

    #[test]
    fn a_job_says_how_far_it_is_and_nothing_of_its_sites() {
        let job = said(whole("running", 100), Some(0.5));
        assert_eq!((&*job.state, job.queued, job.pages, job.ended_as.ok), ("running", 100, 40, 30));
        assert_eq!((job.pages_per_s, job.left_s), (Some(0.5), Some(200)));
        let text = serde_json::to_string(&job).unwrap();
        assert!(!text.contains("a.test") && !text.contains("secret") && !text.contains("b.test"), "{text}");
    }

    #[test]
    fn counts_that_lack_a_node_say_so() {
        assert!(!said(whole("running", 9), None).partial, "one machine says nothing of it");
        for partial in [true, false] {
            let mut job = whole("running", 9);
            job["partial"] = partial.into();
            assert_eq!(said(job, None).partial, partial);
        }
    }

    #[test]
    fn what_does_not_run_has_no_end_in_sight() {
        for (state, left, is) in [
            ("paused", 100, "paused"),
            ("stopped", 100, "stopped"),
            ("running", 0, "done"),
            ("running", 9, "running"),
        ] {
            let job = said(whole(state, left), Some(2.0));
            assert_eq!((&*job.state, job.left_s.is_some()), (is, is == "running"), "{state} {left}");
        }
        assert_eq!(said(whole("running", 9), Some(0.0)).left_s, None);
        assert_eq!(said(whole("running", 9), None).pages_per_s, None);
    }
}
