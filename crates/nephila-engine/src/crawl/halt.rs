//! Pauses, resumes and stops the one job of a crawl while the crawl runs.
//!
//! A paused job keeps its queue and takes discoveries; a stopped one takes none. The state of the job is in the plan,
//! so a served folder stays paused over a restart; `nephila crawl` always runs its job.
//!
//! Invariant: on return the new state is in the plan and in the log of every partition.

use nephila_core::job::{Job, Scope, State};

use super::jobs::InForce;
use super::more_jobs;
use super::shared::{JOB, Shared};
use crate::worker::Command;

/// Sets the state of the job. Returns when the state is durable and in force. Callers take turns.
pub async fn set_state(shared: &Shared, state: State) -> anyhow::Result<()> {
    {
        let mut plan = shared.plan();
        plan.job.state = state;
        shared.folder.set_plan(&plan)?;
        shared.jobs.set_again(InForce::new(&plan.job, &plan.moved)?);
    }
    let (seeds, job) = shared.seeds_and_job();
    shared.handle.command(Command::Job(Box::new(job.clone()))).await?;
    if state != State::Running {
        let scope = Scope { seeds, ..job.scope };
        more_jobs::leave(shared, &Job { scope, ..job })?;
    }
    Ok(())
}

/// The state of the job.
pub fn state(shared: &Shared) -> State {
    shared.jobs.get(JOB).map_or_else(State::default, |job| job.state)
}
