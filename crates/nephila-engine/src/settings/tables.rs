//! Settings of the tables.

use serde::{Deserialize, Serialize};

/// Tables of captures and links, in Parquet. Section `[tables]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tables {
    /// Write the tables of an archive file when the file is closed, into `table` in the crawl folder. Tables that are
    /// missing after a crash are written by the next run. Without this setting, `nephila export parquet` writes the same
    /// files afterwards.
    pub write: bool,
}
