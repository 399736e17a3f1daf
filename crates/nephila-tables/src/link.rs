//! The table of links.

use crate::table::{Millis, table};

table! {
    /// A link of a captured page.
    "links" LinkRow {
        /// URL of the page.
        source: String,
        /// URL that the page names.
        target: String,
        /// How the page names the URL: `link`, `redirect`, `requisite`, `canonical` and so on.
        kind: String,
        /// The text of the link.
        anchor: Option<String>,
        /// The `rel` as written.
        rel: Option<String>,
        /// Where the page names the URL: `a/@href`, `Location:`.
        place: String,
        /// Time of the capture of the page, UTC: with `source` the key of the capture.
        fetch_time: Millis,
    }
}
