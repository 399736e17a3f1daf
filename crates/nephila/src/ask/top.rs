//! `nephila top`: what a crawl does and what holds it back, again and again.
//!
//! All numbers are from `GET /metrics`, of the process of a folder or of nodes, so this command shows what Prometheus
//! would. On a terminal the board takes the whole screen until q; elsewhere each look is one line.
//!
//! Invariant: a process that does not answer at one look is asked again at the next; if none answers at the first look,
//! the command fails.

mod board;
mod terminal;

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use nephila_api::tls::Trust;
use nephila_api::{Peer, Question};
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::process::{block_on, small_runtime};
use nephila_engine::settings::usage;

use self::board::{Looks, Samples};
use self::terminal::Terminal;
use super::out;
use super::socket::ask_bytes;
use crate::cli::top::TopArgs;

/// Minimum time between two looks.
const EVERY_MIN: Duration = Duration::from_secs(1);
/// Timeout of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of an answer in bytes.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Maximum number of nodes.
const NODES_MAX: usize = 1_000;
/// Path of the metrics.
const PATH: &str = "/metrics";

/// Who is asked.
enum Source {
    /// The process of a folder.
    Folder(Folder),
    /// Nodes.
    Nodes(tokio::runtime::Runtime, Vec<Peer>),
}

impl Source {
    fn open(args: &TopArgs) -> anyhow::Result<Source> {
        let Some(urls) = &args.node else {
            let folder = Folder::find(args.output.as_deref());
            folder.expect_crawl_or_node()?;
            return Ok(Source::Folder(folder));
        };
        let token = nephila_cluster::api::token(args.token_file.as_deref().unwrap_or(Path::new("")))?;
        let trust = args.ca_file.as_deref().map(Trust::in_file).transpose().map_err(usage)?;
        let named = |url: &str| Peer::named(url.trim(), token.clone(), trust.as_ref());
        let peers: Result<Vec<Peer>, _> = urls.split(',').take(NODES_MAX).map(named).collect();
        Ok(Source::Nodes(small_runtime()?, peers.map_err(|error| usage(anyhow::anyhow!(error)))?))
    }

    /// One look: the samples, and what went wrong with some of the nodes.
    fn look(&self) -> anyhow::Result<(Samples, Vec<String>)> {
        let mut samples = Samples::default();
        match self {
            Source::Folder(folder) => {
                samples.add(&String::from_utf8_lossy(&ask_bytes(folder, &format!("GET {PATH}"), b"")?));
                Ok((samples, Vec::new()))
            }
            Source::Nodes(runtime, peers) => {
                let mut faults = Vec::new();
                for peer in peers {
                    match block_on(runtime, metrics_of(peer)) {
                        Ok(text) => samples.add(&text),
                        Err(error) => faults.push(format!("{error:#}")),
                    }
                }
                anyhow::ensure!(faults.len() < peers.len(), "{}", faults.join("; "));
                Ok((samples, faults))
            }
        }
    }
}

async fn metrics_of(peer: &Peer) -> anyhow::Result<String> {
    let reply = peer.ask(Question::get(PATH, ANSWER_BYTES_MAX, ANSWER_TIMEOUT)).await?;
    anyhow::ensure!(reply.status.is_success(), "{} answers {PATH} with {}", peer.address(), reply.status);
    Ok(String::from_utf8_lossy(&reply.body).into_owned())
}

/// Runs the command.
pub(super) fn run(args: &TopArgs) -> anyhow::Result<Exit> {
    let every = args.every.max(EVERY_MIN);
    let source = Source::open(args)?;
    let (mut before, _) = source.look().context("no crawl answers; is one running?")?;
    let mut looked = Instant::now();
    let terminal = Terminal::open().context("preparing the terminal")?;
    for look in 1_u64.. {
        // The first rates come soon.
        let wait = if look == 1 { EVERY_MIN } else { every };
        match &terminal {
            Some(terminal) if terminal.is_over(wait) => break,
            Some(_) => {}
            None => std::thread::sleep(wait),
        }
        let (lines, seen) = match source.look() {
            Ok((now, faults)) => {
                let looks = Looks { now: &now, before: &before, between: looked.elapsed() };
                let lines = lines(&looks, terminal.as_ref(), &faults);
                (lines, Some(now))
            }
            Err(error) => (vec![format!("no answer: {error:#}")], None),
        };
        if let Some(now) = seen {
            (before, looked) = (now, Instant::now());
        }
        match &terminal {
            Some(terminal) => terminal.show(&lines)?,
            None => {
                let mut out = out();
                writeln!(out, "{}", lines.join("; "))?;
                out.flush()?;
            }
        }
        if look == args.looks {
            break;
        }
    }
    Ok(Exit::Done)
}

/// What to show: the board, or one line without a terminal.
fn lines(looks: &Looks<'_>, terminal: Option<&Terminal>, faults: &[String]) -> Vec<String> {
    let mut lines = match terminal {
        Some(terminal) => looks.board(terminal.size().0),
        None => vec![looks.line()],
    };
    lines.extend(faults.iter().map(|fault| nephila_core::text::shown(fault).to_string()));
    if terminal.is_some() {
        lines.extend([String::new(), "q quits".into()]);
    }
    lines
}
