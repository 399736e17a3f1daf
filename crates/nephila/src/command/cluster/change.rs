//! `nephila job set`, `pause`, `resume` and `stop`: change a job while the job runs.

use nephila_core::job::State;

use super::{say, spread, with};
use crate::cli::cluster::{JobNameArgs, JobSetArgs, LimitArgs};
use nephila_cluster::views::{JobChange, LimitsChange, ScopeChange};
use nephila_engine::exit::Exit;
use nephila_engine::settings::usage;

/// `nephila job set`.
pub(super) fn set(args: &JobSetArgs) -> anyhow::Result<Exit> {
    let LimitArgs { priority, limit, size_limit, time_limit, limit_per_host, limit_per_domain } = args.limits;
    let change = JobChange {
        state: None,
        priority,
        schedule: args.again.schedule(),
        scope: ScopeChange {
            kind: args.scope.map(Into::into),
            include_add: args.include.clone(),
            exclude_add: args.exclude.clone(),
            include_remove: args.drop_include.clone(),
            exclude_remove: args.drop_exclude.clone(),
            extra_hops: args.extra_hops,
            depth_max: args.depth,
            ..ScopeChange::default()
        },
        limits: LimitsChange {
            pages_per_host_max: limit_per_host,
            pages_per_domain_max: limit_per_domain,
            pages_max: limit,
            bytes_max: size_limit,
            time_max: time_limit,
        },
    };
    let changes = change != JobChange::default();
    if !changes && args.spread.is_empty() {
        return Err(usage(anyhow::anyhow!("nothing was said that changes: see `nephila job set --help`")));
    }
    let JobNameArgs { name, remote, common } = &args.job;
    with(common, remote, async |who| {
        spread::spread(&who, &args.spread).await?;
        if !changes {
            return Ok(Exit::Done);
        }
        who.change(name, &change).await?;
        say(&format!("job {name}: changed; every partition learns of it through its inbox"));
        Ok(Exit::Done)
    })
}

/// `nephila job pause`, `resume` and `stop`.
pub(super) fn set_state(args: &JobNameArgs, state: State) -> anyhow::Result<Exit> {
    with(&args.common, &args.remote, async |who| {
        who.change(&args.name, &JobChange::state(state)).await?;
        say(&format!("job {}: {}", args.name, state.name()));
        Ok(Exit::Done)
    })
}
