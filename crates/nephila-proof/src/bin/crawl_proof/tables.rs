//! Tables of a crawl: handed to a judge that shares no code with the crawler, with the truth of the web beside them.
//!
//! The judge is `xtask/interop/tables_judge.py`: warcio reads the archive, pyarrow the tables. This module writes what the
//! web knows into `truth.jsonl`: a line for each page that is to be captured, with its links.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use nephila_testweb::model::{PageKind, Reach, Truth, What, World};

/// A program that judges tables.
#[derive(Debug, clap::Args)]
pub struct Judge {
    /// Write tables, and compare them with the archive and with the web.
    #[arg(long, requires_all = ["judge", "judge_script"])]
    tables: bool,
    /// With --tables: the Python of an environment that has pyarrow and warcio.
    #[arg(long)]
    judge: Option<PathBuf>,
    /// With --tables: the script.
    #[arg(long)]
    judge_script: Option<PathBuf>,
}

impl Judge {
    /// The settings of a crawl that is judged. Small files: the web of a proof is small, and there are to be many.
    pub fn settings(&self) -> &'static [&'static str] {
        if self.tables { &["tables.write=true", "store.bytes_max=2000000"] } else { &[] }
    }

    /// Whether tables are judged.
    pub fn is_wanted(&self) -> bool {
        self.tables
    }

    /// Judges the tables of a crawl. Returns what the judge says last, if there is one.
    pub fn run(&self, dir: &Path, world: &World, truth: &Truth) -> anyhow::Result<Option<String>> {
        let (true, Some(python), Some(script)) = (self.tables, &self.judge, &self.judge_script) else {
            return Ok(None);
        };
        let path = dir.join("truth.jsonl");
        write(&path, world, truth).with_context(|| path.display().to_string())?;
        let output = Command::new(python).arg(script).arg(dir).arg(&path).output().context("the judge")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the judge of tables: {said}{errors}");
        Ok(said.lines().last().map(str::to_owned))
    }
}

/// What a cluster has stored, in the form of a crawl's folder: archive files of all nodes, tables and path lists.
pub fn gather(objects: &Path, dir: &Path) -> anyhow::Result<()> {
    let mut clusters = std::fs::read_dir(objects)?.collect::<Result<Vec<_>, _>>()?;
    let (Some(cluster), true) = (clusters.pop(), clusters.is_empty()) else {
        anyhow::bail!("{} is not the store of one cluster", objects.display());
    };
    let archive = dir.join("archive");
    std::fs::create_dir_all(&archive)?;
    for node in std::fs::read_dir(cluster.path().join("archive"))? {
        for file in std::fs::read_dir(node?.path())? {
            let file = file?;
            symlink(file.path(), archive.join(file.file_name()))?;
        }
    }
    for name in ["table", "paths"] {
        symlink(cluster.path().join(name), dir.join(name))?;
    }
    Ok(())
}

fn write(path: &Path, world: &World, truth: &Truth) -> std::io::Result<()> {
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    for (place, _) in truth.iter().filter(|(_, reach)| *reach == Reach::Page) {
        let url = world.url(place);
        let mut links = None;
        if let What::Page(page) = place.what
            && world.page_kind(place.host, page) == PageKind::Normal
        {
            let mut found = BTreeSet::new();
            world.each_link(place.host, page, |to| {
                found.insert(world.url(to));
            });
            found.remove(&url);
            links = Some(found);
        }
        serde_json::to_writer(&mut out, &serde_json::json!({"url": url, "links": links}))?;
        writeln!(out)?;
    }
    out.flush()
}
