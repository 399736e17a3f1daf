//! `nephila link`: a link to the public page of a job or a host, made by a node, by the process of a folder, or here.

use std::io::Write as _;

use anyhow::{Context, bail, ensure};
use nephila_api::public::{Kind, LinkSaid, LinkWanted, link_of_folder};
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::process::{block_on, small_runtime};

use super::socket::{ask_bytes, is_answered};
use super::{out, print_json, settings_of};
use crate::cli::link::{LinkArgs, LinkCommand};

/// Runs the command.
pub(super) fn run(command: &LinkCommand) -> anyhow::Result<Exit> {
    let (kind, args) = match command {
        LinkCommand::Job(args) => (Kind::Job, args),
        LinkCommand::Host(args) => (Kind::Host, args),
    };
    let wanted = LinkWanted { kind, name: args.name.clone(), for_s: Some(args.life.as_secs()) };
    let link = made(args, &wanted)?;
    let mut out = out();
    match args.json {
        true => print_json(&mut out, &link)?,
        false => writeln!(out, "{}", link.url)?,
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn made(args: &LinkArgs, wanted: &LinkWanted) -> anyhow::Result<LinkSaid> {
    if let Some(node) = args.remote.open()? {
        return block_on(&small_runtime()?, node.link(wanted));
    }
    let folder = Folder::find(args.output.as_deref());
    folder.expect_crawl_or_node()?;
    if is_answered(&folder)? {
        let body = ask_bytes(&folder, "POST /api/v1/links", &serde_json::to_vec(wanted)?)?;
        return serde_json::from_slice(&body)
            .context("the process that crawls is of another version: use its own program");
    }
    if folder.is_node() {
        bail!(
            "{} is the folder of a node that does not run: ask another with --node URL",
            folder.dir().display()
        );
    }
    if wanted.kind == Kind::Job {
        let first = folder.plan()?.map(|plan| plan.job.name);
        let more = folder.more_jobs()?.jobs.into_iter().map(|more| more.job.name);
        let names: Vec<String> = first.into_iter().chain(more).collect();
        ensure!(names.contains(&wanted.name), "no such job: {}; there is {}", wanted.name, names.join(", "));
    }
    link_of_folder(&folder, &settings_of(&folder)?, wanted)
}
