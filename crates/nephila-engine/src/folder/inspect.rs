//! Checks a folder for missing or damaged files, for `nephila verify` and `nephila doctor`. Changes nothing.
//!
//! [`nephila_store::verify`] checks the archive; this module checks the state and the small files.

use std::path::PathBuf;

use nephila_core::state::StateError;
use nephila_store::contents::{Contents, Key};
use nephila_store::journal::{self, Marks};
use nephila_store::state;

use super::Folder;

/// A missing or damaged file, and advice.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path of the missing or damaged file.
    pub file: PathBuf,
    /// Description of the fault, with advice for the user.
    pub text: String,
}

/// Checks a folder. While a process holds the folder, its journals and tables change and are not checked.
pub fn inspect(folder: &Folder, held: bool) -> anyhow::Result<Vec<Finding>> {
    let mut found: Vec<Finding> =
        folder.wrong_papers()?.into_iter().map(|(file, text)| Finding { file, text }).collect();
    let mut add = |file: PathBuf, text: String| found.push(Finding { file, text });
    // A damaged inventory is reported by the check of the archive.
    let contents = Contents::read(folder.dir()).ok().flatten().unwrap_or_default();
    if contents.partitions == 0 || held {
        return Ok(found);
    }
    let dir = folder.dir().display().to_string();
    let mend =
        format!("put it back from a copy, or `nephila crawl -o {dir} --mend` asks for everything again");
    if !folder.has_partitions() {
        add(folder.state(), format!("the state of the crawl is gone: {mend}"));
        return Ok(found);
    }
    let secret = folder.state().join("secret");
    if let Some(Key(key)) = contents.key
        && std::fs::read(&secret).ok().as_deref() != Some(&key[..])
    {
        add(secret, "is gone or damaged; the next crawl puts it back from the list of the folder".into());
    }
    let marks = match Marks::read(&folder.marks(), contents.partitions)? {
        Some(marks) => marks,
        None => {
            add(
                folder.marks(),
                "is gone: whether a journal lost its end cannot be told; the next crawl makes it".into(),
            );
            vec![None; contents.partitions as usize]
        }
    };
    for (number, mark) in marks.into_iter().enumerate() {
        let path = folder.state().join(format!("partition-{number:04}"));
        let mark = mark.unwrap_or_default();
        let first = match journal::check(&path.join("log"), mark.synced) {
            Ok(groups) => groups.map_or(1, |(first, _)| first),
            Err(error) => {
                add(path, format!("{error}: {mend}"));
                continue;
            }
        };
        let tables = path.join("tables");
        let checked = match mark.synced > 0 && !tables.is_dir() {
            true => Err(StateError::Damaged(format!("{} is gone", tables.display()))),
            false => state::check(&tables, mark.checkpoint, &mut u64::MAX.clone()),
        };
        if let Err(error) = checked {
            let todo = match first {
                1 => "the next crawl makes it again from the journal",
                _ => &mend,
            };
            add(path, format!("{error}: {todo}"));
        }
    }
    Ok(found)
}
