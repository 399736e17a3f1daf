//! Tables of the crawl, written while it runs: a thread of its own looks for closed archive files without tables. A node
//! that sends its archive to an object store writes the tables of a file before it sends both.
//!
//! The crawl never waits for a table. Only closed files are read, which nobody changes any more, one at a time. When the
//! crawl ends, the files that were closed last get their tables before the process ends; after a kill, the next run finds
//! what is missing. With an error of the disk the thread tries again at its next look.

#[cfg(feature = "tables")]
pub use running::{Tables, Writer, decode};
#[cfg(not(feature = "tables"))]
pub use without::{Tables, Writer};

/// Refuses the setting: this program cannot write tables.
#[cfg(not(feature = "tables"))]
mod without {
    use std::path::{Path, PathBuf};

    use crate::settings::{Settings, usage};

    fn check(settings: &Settings) -> anyhow::Result<()> {
        if settings.tables.write {
            return Err(usage(anyhow::anyhow!(
                "tables.write = true, but this program was built without tables: build it with the feature `tables`"
            )));
        }
        Ok(())
    }

    /// Writes no tables.
    #[derive(Debug)]
    pub struct Tables;

    impl Tables {
        /// Fails if the settings ask for tables.
        pub fn start(_: &Path, settings: &Settings) -> anyhow::Result<Tables> {
            check(settings).map(|()| Tables)
        }

        /// Does nothing.
        pub async fn finish(self) -> anyhow::Result<()> {
            Ok(())
        }
    }

    /// Writes no tables.
    #[derive(Clone, Debug)]
    pub struct Writer;

    impl Writer {
        /// Fails if the settings ask for tables.
        pub fn new(_: &Path, settings: &Settings) -> anyhow::Result<Option<Writer>> {
            check(settings).map(|()| None)
        }

        /// Writes nothing.
        pub fn write(&self, _: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
            Ok(Vec::new())
        }
    }
}

#[cfg(feature = "tables")]
mod running {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};
    use std::sync::mpsc::{self, RecvTimeoutError, Sender};
    use std::thread::JoinHandle;
    use std::time::Duration;

    use anyhow::Context;
    use nephila_store::disk::RealDisk;
    use nephila_tables::{Error, Folder};

    use crate::crawl::decoded::decoded;
    use crate::settings::Settings;

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
        /// Starts the thread for the folder of a crawl or a node.
        pub fn start(dir: &Path, settings: &Settings) -> anyhow::Result<Tables> {
            if !settings.tables.write {
                return Ok(Tables { running: None });
            }
            let mut work = Work { folder: Folder::new(dir, None), done: BTreeSet::new(), said: false };
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

    /// Writes the tables of one archive file at a time.
    #[derive(Clone, Debug)]
    pub struct Writer {
        folder: Folder,
    }

    impl Writer {
        /// For the folder of a node; none if its settings do not ask for tables.
        pub fn new(dir: &Path, settings: &Settings) -> anyhow::Result<Option<Writer>> {
            Ok(settings.tables.write.then(|| Writer { folder: Folder::new(dir, None) }))
        }

        /// Writes the tables of a closed archive file that are missing. Returns them, by their names within the folder of
        /// tables; the links are last. A file that cannot be read has none.
        pub fn write(&self, warc: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
            match self.folder.write_one(&RealDisk, warc, &decode) {
                Ok(_) => Ok(self.folder.tables_of(warc)?),
                Err(error @ (Error::Record { .. } | Error::Table { .. })) => {
                    tracing::warn!("no tables of this file: {error}; `nephila verify` says more");
                    Ok(Vec::new())
                }
                Err(error) => Err(error).context("writing tables"),
            }
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
