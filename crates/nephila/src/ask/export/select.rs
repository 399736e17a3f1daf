//! Which captures are exported, and the file that they go to.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use flate2::write::GzEncoder;
use nephila_core::store::record::{self, WarcInfo};
use nephila_core::store::{Digest, cdxj};
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use nephila_engine::clock::Clock;
use nephila_engine::folder::Folder;
use nephila_store::archive::new_id;

use super::replaced;
use crate::ask::time::{digits, since, until};
use crate::cli::export::SelectArgs;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// The captures to export.
pub(super) struct Select {
    pub(super) folder: Folder,
    hosts: Vec<String>,
    since: Option<String>,
    until: Option<String>,
    types: Vec<String>,
    statuses: Vec<String>,
}

impl Select {
    pub(super) fn new(folder: Folder, args: &SelectArgs) -> anyhow::Result<Select> {
        let now = Clock::new().now().wall;
        let digits14 = |time: Timestamp| time.digits17()[..14].to_owned();
        if let Some(time) = &args.until {
            digits(time)?;
        }
        Ok(Select {
            folder,
            hosts: args.host.iter().map(|host| host.to_lowercase()).collect(),
            since: args.since.as_deref().map(|time| since(time, now)).transpose()?.map(digits14),
            until: args.until.as_deref().map(until).transpose()?.map(digits14),
            types: args.types.iter().map(|name| name.to_lowercase()).collect(),
            statuses: args.status.clone(),
        })
    }

    /// Whether a capture is exported. A revisit has the type and status of its own head, if any.
    pub(super) fn takes(&self, capture: &cdxj::Capture, mime: Option<&str>) -> bool {
        let time = capture.digits14.as_str();
        let host = || {
            let url = CrawlUrl::parse(&capture.url).ok();
            let host = url.map(|url| url.host().to_string()).unwrap_or_default();
            self.hosts.iter().any(|wanted| match wanted.strip_prefix("*.") {
                Some(name) => host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')),
                None => host == *wanted,
            })
        };
        let mime = mime.unwrap_or_default().to_lowercase();
        let is_type =
            |wanted: &String| mime == *wanted || (wanted.ends_with('/') && mime.starts_with(wanted.as_str()));
        let status = capture.status.as_deref().unwrap_or_default();
        self.since.as_deref().is_none_or(|since| since <= time)
            && self.until.as_deref().is_none_or(|until| time <= until)
            && (self.types.is_empty() || self.types.iter().any(is_type))
            && (self.statuses.is_empty()
                || self.statuses.iter().any(|wanted| status.starts_with(wanted.as_str())))
            && (self.hosts.is_empty() || host())
    }

    /// Whether the type of a capture decides.
    pub(super) fn asks_for_type(&self) -> bool {
        !self.types.is_empty()
    }
}

/// A file of gzip members, each a record.
pub(super) struct Out {
    to: Box<dyn Write>,
    pub(super) bytes: u64,
}

impl Out {
    /// Fills a file, which has its name only when it is complete; `-` is the standard output. Returns also the number of
    /// bytes.
    pub(super) fn fill<T>(
        to: &Path,
        fill: &mut dyn FnMut(&mut Out) -> anyhow::Result<T>,
    ) -> anyhow::Result<(T, u64)> {
        if to == Path::new("-") {
            let mut out =
                Out { to: Box::new(BufWriter::with_capacity(BUFFER_BYTES, io::stdout())), bytes: 0 };
            out.begin(&to.to_string_lossy())?;
            let done = fill(&mut out)?;
            out.to.flush()?;
            return Ok((done, out.bytes));
        }
        replaced(to, |temporary| {
            let named = |doing: &'static str| format!("{doing} {}", temporary.display());
            let file = File::create(temporary).with_context(|| named("creating"))?;
            let again = file.try_clone()?;
            let mut out = Out { to: Box::new(BufWriter::with_capacity(BUFFER_BYTES, file)), bytes: 0 };
            out.begin(&to.file_name().unwrap_or_default().to_string_lossy())?;
            let done = fill(&mut out)?;
            out.to.flush().and_then(|()| again.sync_all()).with_context(|| named("writing"))?;
            Ok((done, out.bytes))
        })
    }

    /// Writes the first record, which says what made the file.
    fn begin(&mut self, name: &str) -> anyhow::Result<()> {
        let software = concat!("nephila/", env!("CARGO_PKG_VERSION")).to_owned();
        let block = WarcInfo { software, ..WarcInfo::default() }.block();
        let digest = Digest::of(&[&block]);
        let head = record::warcinfo(&new_id(), Clock::new().now().wall, name, &digest, block.len() as u64);
        self.record(&[&head, &block])
    }

    /// Writes a record of these parts.
    pub(super) fn record(&mut self, parts: &[&[u8]]) -> anyhow::Result<()> {
        let mut member = GzEncoder::new(Vec::new(), flate2::Compression::default());
        parts.iter().try_for_each(|part| member.write_all(part))?;
        member.write_all(record::END)?;
        let member = member.finish()?;
        self.raw(&member)
    }

    /// Writes bytes of a member as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.to.write_all(bytes).context("writing")?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}
