//! The files of the dashboard, a line for each. The folder `assets` has no other files.

use super::Asset;

/// The name of a file and its bytes.
macro_rules! file {
    ($name:literal) => {
        Asset { name: $name, bytes: include_bytes!(concat!("assets/", $name)) }
    };
}

/// All files.
pub(super) static ASSETS: &[Asset] = &[
    file!("index.html"),
    file!("actions.js"),
    file!("api.js"),
    file!("app.js"),
    file!("archive.js"),
    file!("charts.js"),
    file!("cluster.js"),
    file!("dom.js"),
    file!("feeds.js"),
    file!("format.js"),
    file!("gaps.js"),
    file!("host.js"),
    file!("hosts.js"),
    file!("job.js"),
    file!("jobs.js"),
    file!("limits.js"),
    file!("links.js"),
    file!("live.js"),
    file!("log.js"),
    file!("overview.js"),
    file!("page.js"),
    file!("parts.js"),
    file!("politeness.js"),
    file!("public-closed.html"),
    file!("public.html"),
    file!("public.js"),
    file!("settings.js"),
    file!("stages.js"),
    file!("style.css"),
    file!("table.js"),
    file!("uplot-license.txt"),
    file!("uplot.css"),
    file!("uplot.js"),
    file!("url.js"),
];
