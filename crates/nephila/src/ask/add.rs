//! `nephila add -o DIR`: adds URLs to a crawl's folder, whether the crawl runs or not.
//!
//! Invariant: every URL reported as taken is durable.

use super::socket::Source;
use crate::cli::cluster::AddArgs;
use crate::command::cluster::say_added;
use crate::command::inputs::{self, Piece};
use nephila_api::views::Added;
use nephila_engine::crawl::typed::typed;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;

/// Runs the command.
pub(super) fn run(args: &AddArgs) -> anyhow::Result<Exit> {
    if args.as_seeds {
        anyhow::bail!("a crawl is given seeds by `nephila crawl URL... -o DIR`, which widens its scope");
    }
    let folder = Folder::find(args.output.as_deref());
    let source = Source::open(folder.clone(), &args.remote)?;
    let mut added = Added::default();
    // Typing a URL permits its address; URLs in lists are judged by the settings. Lines of JSON are lists.
    folder.open_doors(&typed(&args.urls))?;
    let mut pieces = inputs::read(args);
    while let Some(piece) = pieces.blocking_recv() {
        match piece? {
            Piece::Lines(lines) => added.plus(source.add(&args.job, &lines)?),
            Piece::Bad(place, why) => added.refuse(&place, why),
        }
    }
    say_added(&added, args.json)
}
