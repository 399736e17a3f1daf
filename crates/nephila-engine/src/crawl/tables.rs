//! Tables of the crawl, written while it runs: a thread of its own looks for closed archive files without tables.
//!
//! The crawl never waits for a table. The thread reads closed files only, which nobody changes any more, one at a time.
//! When the crawl ends, the files that were closed last get their tables before the process ends; after a kill, the next
//! run finds what is missing. With an error of the disk the thread tries again at its next look.

use super::shared::Shared;

#[cfg(feature = "tables")]
pub use running::{Tables, decode};

/// Writes tables; without the feature `tables`, never.
#[cfg(not(feature = "tables"))]
#[derive(Debug)]
pub struct Tables;

#[cfg(not(feature = "tables"))]
impl Tables {
    /// Refuses the setting: this program cannot write tables.
    pub fn start(shared: &Shared) -> anyhow::Result<Tables> {
        if shared.settings.tables.write {
            return Err(crate::settings::usage(anyhow::anyhow!(
                "tables.write = true, but this program was built without tables: build it with the feature `tables`"
            )));
        }
        Ok(Tables)
    }

    /// Does nothing.
    pub async fn finish(self) -> anyhow::Result<()> {
        Ok(())
    }
}

#[cfg(feature = "tables")]
mod running {
    use std::collections::BTreeSet;
    use std::path::PathBuf;
    use std::sync::mpsc::{self, RecvTimeoutError, Sender};
    use std::thread::JoinHandle;
    use std::time::Duration;

    use anyhow::Context;
    use nephila_store::disk::RealDisk;
    use nephila_tables::{Error, Folder};

    use super::Shared;
    use crate::crawl::decoded::decoded;

    /// Interval between two looks for closed files.
    const LOOK_EVERY: Duration = Duration::from_secs(2);

    /// Undoes content codings, for the rows of tables.
    pub fn decode(http: &[u8], body: &[u8], bytes_max: u64) -> Option<Vec<u8>> {
        decoded(http, body, bytes_max).ok().map(|(body, _)| body)
    }

    /// The thread that writes tables, if the settings ask for them.
    #[derive(Debug)]
    pub struct Tables {
        running: Option<(Sender<()>, JoinHandle<()>)>,
    }

    impl Tables {
        /// Starts the thread.
        pub fn start(shared: &Shared) -> anyhow::Result<Tables> {
            let is_wanted = shared.settings.tables.write && shared.stages.keep.is_some();
            if !is_wanted {
                return Ok(Tables { running: None });
            }
            let mut work =
                Work { folder: Folder::new(shared.folder.dir(), None), done: BTreeSet::new(), said: false };
            let (stop, stopped) = mpsc::channel();
            let run = move || {
                while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    work.look(&|| stopped.try_recv() == Err(mpsc::TryRecvError::Empty));
                }
                // The archive is closed by now.
                work.look(&|| true);
            };
            let thread = std::thread::Builder::new().name("tables".into()).spawn(run);
            Ok(Tables { running: Some((stop, thread.context("starting the thread of the tables")?)) })
        }

        /// Writes the last tables, after the archive was closed.
        pub async fn finish(self) -> anyhow::Result<()> {
            let Some((stop, thread)) = self.running else { return Ok(()) };
            drop(stop);
            let ended = tokio::task::spawn_blocking(move || thread.join()).await?;
            ended.map_err(|_| anyhow::anyhow!("the thread of the tables panicked"))
        }
    }

    struct Work {
        folder: Folder,
        /// Files that have their tables, or cannot have any.
        done: BTreeSet<PathBuf>,
        /// Whether the present trouble with the disk was reported.
        said: bool,
    }

    impl Work {
        /// Writes the tables that are missing, while `go_on` says so.
        fn look(&mut self, go_on: &dyn Fn() -> bool) {
            let files = self.folder.files().unwrap_or_default();
            for file in files {
                if !go_on() {
                    return;
                }
                if self.done.contains(&file) {
                    continue;
                }
                match self.folder.write_one(&RealDisk, &file, &decode) {
                    Ok(_) => self.said = false,
                    Err(error @ (Error::Record { .. } | Error::Table { .. })) => {
                        tracing::warn!("no tables of this file: {error}; `nephila verify` says more");
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut self.said, true) {
                            let cause = std::error::Error::source(&error)
                                .map(ToString::to_string)
                                .unwrap_or_default();
                            tracing::warn!(
                                "tables cannot be written: {error}: {cause}; they are tried again"
                            );
                        }
                        return;
                    }
                }
                self.done.insert(file);
            }
        }
    }
}
