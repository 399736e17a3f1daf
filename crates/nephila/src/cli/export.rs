//! Arguments of `nephila export`: a crawl in the formats of other programs.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `nephila export …`.
#[derive(Debug, Subcommand)]
pub enum ExportCommand {
    /// Write tables of captures and links: the 30 columns of Common Crawl's index table, and more.
    ///
    /// Every closed archive file gets `captures/crawl=NAME/subset=SUBSET/part-FILE.parquet` and
    /// `links/crawl=NAME/part-FILE.parquet`. Files that are there and match are skipped; the same archive file always gives
    /// the same bytes. A crawl may run meanwhile. Exit code: 0 done, 1 an archive file could not be read, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila export parquet -o docs\n  nephila export parquet -o docs --to /data/tables"
    )]
    Parquet(ExportArgs),
    /// Write the crawl as one WACZ file, which opens in ReplayWeb.page and pywb.
    ///
    /// The file has the closed archive files as they are, an index, and a list of the HTML pages with their titles.
    /// Titles come from the tables if they are written (`tables.write`, `nephila export parquet`), which is much faster
    /// than reading the archive. Bodies in an object store (`media.to`) are not in the file. A crawl may run meanwhile.
    /// Exit code: 0 done, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila export wacz -o docs\n  nephila export wacz -o docs --to docs-2026.wacz --text"
    )]
    Wacz(WaczArgs),
    /// Write selected captures as one WARC file.
    ///
    /// Each capture comes with the records that belong to it (request, metadata, text), as they are stored. A revisit, whose
    /// body is stored with another capture, becomes a response with that body, so that the file is complete in itself.
    /// A body in an object store (`media.to`) is not in the file: its record has the head and the name of the object.
    /// Exit code: 0 done, 1 nothing matched, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila export warc -o docs --host docs.example.org --to docs.warc.gz\n  nephila export warc -o docs --type application/pdf --since 2026-11-01 --to - > pdf.warc.gz"
    )]
    Warc(WarcArgs),
    /// Write the text of the pages as one WET file, as Common Crawl has them.
    ///
    /// A `conversion` record for each HTML page and text with status 200: all text of the page, or with `--main` the main
    /// text alone. Revisits are left out. Exit code: 0 done, 1 nothing matched, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila export wet -o docs --to docs.warc.wet.gz\n  nephila export wet -o docs --main --to - | zcat"
    )]
    Wet(WetArgs),
    /// Write the metadata of the captures as one WAT file, as Common Crawl has them.
    ///
    /// A `metadata` record for each response: JSON with the WARC fields, the HTTP fields, and of a page title, description
    /// and links (absolute URLs, with the text of each link). Revisits are left out. Exit code: 0 done, 1 nothing matched,
    /// 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila export wat -o docs --to docs.warc.wat.gz\n  nephila export wat -o docs --host docs.example.org --to - | zcat"
    )]
    Wat(WatArgs),
}

/// The captures to export, and the file.
#[derive(Args, Clone, Debug)]
pub struct SelectArgs {
    /// Crawl folder [default: . if . is a crawl or a node, else ./nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// File to write; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Only captures of this host; with `*.` before it also of names below; repeatable
    #[arg(long, value_name = "HOST", help_heading = "Filters")]
    pub host: Vec<String>,
    /// Only captures at or after this time, such as 2026-11-12
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    pub since: Option<String>,
    /// Only captures at or before this time
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    pub until: Option<String>,
    /// Only captures of this media type, such as `text/html`, or of all types of a kind: `image/`; repeatable
    #[arg(long = "type", value_name = "TYPE", help_heading = "Filters")]
    pub types: Vec<String>,
    /// Only captures with this status, such as 200, or 4 for 400 to 499; repeatable
    #[arg(long, value_name = "STATUS", help_heading = "Filters")]
    pub status: Vec<String>,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `nephila export warc`.
#[derive(Args, Clone, Debug)]
pub struct WarcArgs {
    /// The captures to export.
    #[command(flatten)]
    pub select: SelectArgs,
    /// Copy revisits as they are, without the body
    #[arg(long)]
    pub keep_revisits: bool,
}

/// Arguments of `nephila export wet`.
#[derive(Args, Clone, Debug)]
pub struct WetArgs {
    /// The captures to export.
    #[command(flatten)]
    pub select: SelectArgs,
    /// Main text only, without menus and other text around it
    #[arg(long)]
    pub main: bool,
}

/// Arguments of `nephila export wat`.
#[derive(Args, Clone, Debug)]
pub struct WatArgs {
    /// The captures to export.
    #[command(flatten)]
    pub select: SelectArgs,
}

/// Arguments of `nephila export wacz`.
#[derive(Args, Clone, Debug)]
pub struct WaczArgs {
    /// Crawl folder [default: . if . is a crawl or a node, else ./nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// File to write [default: the name of the crawl folder with .wacz, in the current folder]
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Also list the main text of each page, if the crawl stored it (`handler.text`), for searching
    #[arg(long)]
    pub text: bool,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `nephila export parquet`.
#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    /// Crawl folder [default: . if . is a crawl or a node, else ./nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Folder for the tables [default: `table` in the crawl folder]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
}
