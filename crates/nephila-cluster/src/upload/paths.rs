//! Path lists, as Common Crawl has them: the objects of one kind in the order of their names, one on each line, compressed
//! with gzip.
//!
//! Each node has lists of its own in `paths/NODE/`, written anew from its notes after files were stored. `warc.paths.gz`
//! names archive files, `cc-index.paths.gz` their indexes, `cc-index-table.paths.gz` the tables of captures and
//! `links.paths.gz` those of links. Lists of several nodes joined byte for byte are one list.

use std::io::Write as _;

use anyhow::Context;
use flate2::{Compression, GzBuilder};

use super::{Uploads, index_name, read_note};

impl Uploads {
    /// Writes the lists of everything that this node has stored.
    pub async fn write_paths(&self) -> anyhow::Result<()> {
        let uploads = self.clone();
        let lists = tokio::task::spawn_blocking(move || uploads.lists()).await.context("path lists")??;
        for (name, lines) in lists.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            self.paths.put(&format!("{name}.paths.gz"), packed(&lines)?.into()).await?;
        }
        Ok(())
    }

    fn lists(&self) -> anyhow::Result<[(&'static str, Vec<String>); 4]> {
        let (mut warcs, mut indexes, mut captures, mut links) = (vec![], vec![], vec![], vec![]);
        let entries = match std::fs::read_dir(&self.notes) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            entries => Some(entries.with_context(|| self.notes.display().to_string())?),
        };
        for entry in entries.into_iter().flatten() {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")) else {
                continue;
            };
            let note = read_note(&path)?;
            let Some(index) = index_name(name).filter(|_| note.stored_ms > 0) else { continue };
            warcs.push(self.objects.key(name));
            indexes.push(self.objects.key(&index));
            let tables =
                self.tables.iter().flat_map(|(tables, _)| note.tables.iter().map(|it| tables.key(it)));
            let (of_links, of_captures) =
                tables.partition::<Vec<String>, _>(|key| key.rsplit('/').nth(2) == Some("links"));
            links.extend(of_links);
            captures.extend(of_captures);
        }
        let mut lists =
            [("warc", warcs), ("cc-index", indexes), ("cc-index-table", captures), ("links", links)];
        lists.iter_mut().for_each(|(_, lines)| lines.sort());
        Ok(lists)
    }
}

/// The lines, compressed. The same lines give the same bytes.
fn packed(lines: &[String]) -> anyhow::Result<Vec<u8>> {
    let mut out = GzBuilder::new().write(Vec::new(), Compression::default());
    for line in lines {
        writeln!(out, "{line}").context("packing")?;
    }
    out.finish().context("packing")
}
