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

    use crate::process::Signals;
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
        pub async fn finish(self, _: &mut Signals) -> anyhow::Result<()> {
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
    use std::time::Duration;

    use anyhow::Context;
    use nephila_store::disk::RealDisk;
    use nephila_tables::{Error, Folder};
    use tokio::sync::oneshot;

    use crate::crawl::decoded::decoded;
    use crate::process::Signals;
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
        /// Tells the thread that the archive is closed; tells of its end.
        running: Option<(Sender<()>, oneshot::Receiver<()>)>,
    }

    impl Tables {
        /// Starts the thread for the folder of a crawl or a node.
        pub fn start(dir: &Path, settings: &Settings) -> anyhow::Result<Tables> {
            if !settings.tables.write {
                return Ok(Tables { running: None });
            }
            let mut work = Work { folder: Folder::new(dir, None), done: BTreeSet::new(), said: false };
            let (stop, stopped) = mpsc::channel();
            let (end, ended) = oneshot::channel();
            let run = move || {
                while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    work.look(&|| stopped.try_recv() == Err(mpsc::TryRecvError::Empty));
                }
                // The archive is closed by now.
                work.look(&|| true);
                let _ = end.send(());
            };
            let thread = std::thread::Builder::new().name("tables".into()).spawn(run);
            thread.context("starting the thread of the tables")?;
            Ok(Tables { running: Some((stop, ended)) })
        }

        /// Writes the last tables, after the archive was closed. Ends at once at a signal: the next run writes what is
        /// missing then.
        pub async fn finish(self, signals: &mut Signals) -> anyhow::Result<()> {
            let Some((stop, ended)) = self.running else { return Ok(()) };
            drop(stop);
            tokio::select! {
                ended = ended => ended.map_err(|_| anyhow::anyhow!("the thread of the tables panicked")),
                () = signals.next() => Ok(()),
            }
        }
    }

    /// Writes the tables of a closed archive file that are missing. A file that cannot be read gets none.
    fn write_one(folder: &Folder, warc: &Path) -> Result<bool, Error> {
        match folder.write_one(&RealDisk, warc, &decode) {
            Ok(_) => Ok(true),
            Err(error @ (Error::Record { .. } | Error::Table { .. })) => {
                tracing::warn!("no tables of this file: {error}; `nephila verify` says more");
                Ok(false)
            }
            Err(error) => Err(error),
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
            match write_one(&self.folder, warc).context("writing tables")? {
                true => Ok(self.folder.tables_of(warc)?),
                false => Ok(Vec::new()),
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
                if let Err(error) = write_one(&self.folder, &file) {
                    if !std::mem::replace(&mut self.said, true) {
                        let cause =
                            std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                        tracing::warn!("tables cannot be written: {error}: {cause}; they are tried again");
                    }
                    return;
                }
                self.said = false;
                self.done.insert(file);
            }
        }
    }
}

#[cfg(all(test, feature = "tables"))]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::Tables;
    use crate::process::Signals;
    use crate::settings::Settings;

    #[tokio::test]
    async fn a_signal_ends_the_wait_for_the_last_tables() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("archive")).unwrap();
        // Nobody writes to this pipe: opening it to read waits forever.
        let pipe = dir.path().join("archive/slow.warc");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut settings = Settings::default();
        settings.tables.write = true;
        let tables = Tables::start(dir.path(), &settings).unwrap();
        let stop = Arc::new(Notify::new());
        let mut signals = Signals::Embedded(Arc::clone(&stop));
        let finish = tables.finish(&mut signals);
        tokio::pin!(finish);
        let waited = tokio::time::timeout(Duration::from_millis(500), &mut finish).await;
        assert!(waited.is_err(), "without a signal the end is waited for");
        stop.notify_one();
        tokio::time::timeout(Duration::from_secs(5), finish).await.expect("a signal ends it").unwrap();
    }
}
