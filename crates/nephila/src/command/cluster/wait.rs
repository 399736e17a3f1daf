//! `nephila job wait`, and the progress of a job in words.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use nephila_core::job::{Schedule, State};
use nephila_core::text::shown;

use super::{Who, say};
use nephila_cluster::jobs::{Ended, JobRecord, READ_EVERY};
use nephila_cluster::views::{JobSaid, Progress};
use nephila_engine::exit::Exit;
use nephila_engine::human;
use nephila_engine::settings::usage;

/// Interval of progress messages without a terminal.
const SAY_EVERY: Duration = Duration::from_secs(30);

/// State of a job, in one word.
pub(super) fn state(state: State, progress: &Progress) -> &'static str {
    match state {
        State::Running if progress.complete.is_some() => "complete",
        _ => state.name(),
    }
}

/// Progress of a job, line by line.
pub(super) fn describe(record: &JobRecord, progress: &Progress) -> Vec<String> {
    let mut lines = Vec::new();
    match &progress.complete {
        Some(since) => lines.push(format!("  complete   since {since}: {}", done(progress))),
        None => {
            lines.push(format!("  so far     {}, {} URLs left", done(progress), human::count(progress.left)))
        }
    }
    if !record.seeded {
        let how_far = match record.list {
            Some(list) if list.open => format!("{} are listed so far", human::count(record.seeds())),
            _ => "not all of them were sent".to_owned(),
        };
        lines.push(format!(
            "  seeds      {how_far}: `nephila job create` is at it, or was cut short. Repeated with the same words it goes on"
        ));
    }
    lines
}

fn done(progress: &Progress) -> String {
    format!("{} pages, {}", human::count(progress.pages), human::size(progress.bytes))
}

/// Waits until a job is complete, or ends in another way.
pub(super) async fn wait(who: &Who, name: &str, patience: Duration) -> anyhow::Result<Exit> {
    let (began, watched) = (Instant::now(), std::io::stderr().is_terminal());
    let mut said_at: Option<Instant> = None;
    loop {
        let JobSaid { record, progress } = who.job(name).await?;
        let (job, shown_name) = (&record.job, shown(name).to_string());
        if job.state == State::Running && job.schedule != Schedule::Once {
            return Err(usage(anyhow::anyhow!(
                "job {shown_name} has a schedule: its pages are asked for again and again, and it is never complete"
            )));
        }
        let words = match (job.state, &record.ended, &progress.complete) {
            (State::Running, _, Some(since)) => {
                say(&format!("job {shown_name}: complete since {since}: {}", done(&progress)));
                return Ok(Exit::Done);
            }
            (_, Some(ended), _) => {
                say(&format!("job {shown_name}: ended at its {}: {}", ended.limit, done(&progress)));
                return Ok(ended_at(ended));
            }
            (State::Stopped, ..) => {
                say(&format!("job {shown_name}: stopped: {}", done(&progress)));
                return Ok(Exit::Failed);
            }
            (state, ..) => {
                let left = human::count(progress.left);
                format!("job {shown_name}: {}, {}, {left} URLs left", state.name(), done(&progress))
            }
        };
        if watched || said_at.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            said_at = Some(Instant::now());
            eprintln!("{words}");
        }
        let left = patience.saturating_sub(began.elapsed());
        if left.is_zero() {
            let waited = humantime::format_duration(patience);
            eprintln!("nephila: job {shown_name} is not complete after {waited}; it goes on");
            return Ok(Exit::WaitLimit);
        }
        tokio::time::sleep(READ_EVERY.min(left)).await;
    }
}

fn ended_at(ended: &Ended) -> Exit {
    match &*ended.limit {
        "bytes_max" => Exit::SizeLimit,
        "time_max" => Exit::TimeLimit,
        _ => Exit::PageLimit,
    }
}

#[cfg(test)]
mod tests {
    use nephila_core::job::{Job, JobId};

    use super::*;

    #[test]
    fn row_05_a_job_says_how_far_it_is() {
        let mut record = JobRecord::new(Job::new(JobId(1), "press"));
        record.seeded = true;
        let mut progress = Progress { left: 1_234, pages: 5, bytes: 70_000, complete: None };
        assert_eq!(state(State::Running, &progress), "running");
        assert_eq!(describe(&record, &progress), ["  so far     5 pages, 70 kB, 1 234 URLs left"]);
        progress.complete = Some("2026-11-17T04:00:00Z".to_owned());
        assert_eq!(
            (state(State::Running, &progress), state(State::Paused, &progress)),
            ("complete", "paused")
        );
        record.seeded = false;
        let lines = describe(&record, &progress);
        assert_eq!(lines[0], "  complete   since 2026-11-17T04:00:00Z: 5 pages, 70 kB");
        assert!(lines[1].contains("not all of them were sent"), "{lines:?}");
        for (limit, exit) in
            [("pages_max", Exit::PageLimit), ("bytes_max", Exit::SizeLimit), ("time_max", Exit::TimeLimit)]
        {
            assert_eq!(ended_at(&Ended { limit: limit.to_owned(), ..Ended::default() }), exit);
        }
    }
}
