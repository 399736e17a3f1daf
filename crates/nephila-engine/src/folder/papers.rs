//! The small, readable files of a folder, each with a copy and checksums: a missing file is restored, and a damaged
//! file is not trusted.
//!
//! The copy, `state/papers/NAME`, is written before the file, and also holds the checksum of the previous version: both
//! versions that a crash may leave are recognized. A folder without copies is of an earlier version, and gets copies.

use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::Context;
use nephila_store::contents;
use serde::{Deserialize, Serialize};

use super::{Folder, damaged, replace};

/// The file names.
pub(super) const PAPERS: [&str; 5] =
    ["job.json", super::more::NAME, "settings.toml", "stops.json", "doors.txt"];

/// A copy, with the checksums of the current and the previous version of the file.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Copy {
    sum: String,
    before: String,
    text: String,
}

/// State of a file compared with its copy.
#[derive(Debug, PartialEq, Eq)]
pub enum Stand {
    /// The file is as written, or neither file nor copy exists.
    Well,
    /// The file is missing; its content according to the copy.
    Gone(String),
    /// The file differs from the written content; its content according to the copy.
    Changed(String),
}

fn sum(bytes: &[u8]) -> String {
    format!("{:016x}", contents::sum(bytes))
}

impl Folder {
    fn copy_path(&self, name: &str) -> PathBuf {
        self.state().join("papers").join(name)
    }

    /// The copy of a file; none if the copy is missing or damaged.
    fn copy_of(&self, name: &str) -> Option<Copy> {
        let copy: Copy = serde_json::from_slice(&fs::read(self.copy_path(name)).ok()?).ok()?;
        (sum(copy.text.as_bytes()) == copy.sum).then_some(copy)
    }

    /// Replaces a file, its copy first.
    pub(crate) fn write_paper(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.dir().join(name);
        let before = match fs::read(&path) {
            Ok(before)
                if before == bytes && self.copy_of(name).is_some_and(|copy| copy.sum == sum(bytes)) =>
            {
                return Ok(());
            }
            Ok(before) => sum(&before),
            Err(_) => String::new(),
        };
        let copies = self.state().join("papers");
        fs::create_dir_all(&copies).with_context(|| format!("making {}", copies.display()))?;
        let copy = Copy { sum: sum(bytes), before, text: String::from_utf8_lossy(bytes).into_owned() };
        replace(&self.copy_path(name), &serde_json::to_vec(&copy).context("a copy as JSON")?)?;
        replace(&path, bytes)
    }

    /// Compares a file of the folder with its copy. Fails if the file exists and cannot be read.
    pub fn stand(&self, name: &str) -> anyhow::Result<Stand> {
        let path = self.dir().join(name);
        let copy = self.copy_of(name);
        Ok(match (fs::read(&path), copy) {
            (Ok(_), None) => Stand::Well,
            (Ok(found), Some(copy)) => match [copy.sum, copy.before].contains(&sum(&found)) {
                true => Stand::Well,
                false => Stand::Changed(copy.text),
            },
            (Err(error), copy) if error.kind() == io::ErrorKind::NotFound => match copy {
                Some(copy) => Stand::Gone(copy.text),
                None => Stand::Well,
            },
            (Err(error), _) => return Err(error).with_context(|| path.display().to_string()),
        })
    }

    /// Restores missing files, and prints a note. A damaged file is an error, or is replaced by its copy with `mend`.
    pub fn check_papers(&self, mend: bool) -> anyhow::Result<()> {
        for name in PAPERS {
            let path = self.dir().join(name);
            match self.stand(name)? {
                Stand::Well => {}
                Stand::Gone(text) => {
                    tracing::warn!(
                        path = %path.display(),
                        "{} was gone; it is put back from its copy", path.display()
                    );
                    replace(&path, text.as_bytes())?;
                }
                Stand::Changed(text) if mend => {
                    tracing::warn!(
                        path = %path.display(),
                        "{} was damaged; it is put back from its copy", path.display()
                    );
                    replace(&path, text.as_bytes())?;
                }
                Stand::Changed(_) => return Err(damaged(self.changed_text(name))),
            }
        }
        Ok(())
    }

    /// Builds the error message for a file that differs from its copy, with advice for the user.
    pub fn changed_text(&self, name: &str) -> String {
        format!(
            "{} is not as it was written: it is damaged, or was changed by hand. If you changed it, remove {}; if not, \
             `nephila crawl -o {} --mend` puts it back from that copy",
            self.dir().join(name).display(),
            self.copy_path(name).display(),
            self.dir().display()
        )
    }

    /// Descriptions of missing and damaged files.
    pub fn wrong_papers(&self) -> anyhow::Result<Vec<(PathBuf, String)>> {
        let mut wrong = Vec::new();
        for name in PAPERS {
            match self.stand(name)? {
                Stand::Well => {}
                Stand::Gone(_) => {
                    let text = "is gone; the next crawl puts it back from its copy".to_owned();
                    wrong.push((self.dir().join(name), text));
                }
                Stand::Changed(_) => wrong.push((self.dir().join(name), self.changed_text(name))),
            }
        }
        Ok(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pro_02_a_paper_is_known_by_its_copy_whatever_a_crash_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        let stand = || folder.stand("job.json").unwrap();
        assert_eq!(stand(), Stand::Well, "there is nothing yet");
        for text in ["one", "two"] {
            folder.write_paper("job.json", text.as_bytes()).unwrap();
            assert_eq!(stand(), Stand::Well);
        }
        let path = dir.path().join("job.json");
        fs::write(&path, "one").unwrap();
        assert_eq!(stand(), Stand::Well, "a crash between the copy and the file");
        fs::write(&path, "twp").unwrap();
        assert_eq!(stand(), Stand::Changed("two".into()));
        fs::remove_file(&path).unwrap();
        assert_eq!(stand(), Stand::Gone("two".into()));
        fs::write(folder.copy_path("job.json"), "{").unwrap();
        assert_eq!(stand(), Stand::Well, "nothing is known");
    }
}
