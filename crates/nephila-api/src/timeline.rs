//! `GET /api/v1/host/timeline`: the requests to one host, each with the gap before it beside the promised one.
//!
//! Made from the lines of the crawl log, of all nodes: a host moves from node to node. The gap is counted from the end
//! of the latest request that ended before; overlapping requests have a gap of zero.

use nephila_core::url::CrawlUrl;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::log_view::{LogLine, LogSaid};

/// Maximum number of requests in an answer.
pub const REQUESTS_MAX: usize = 999;
/// Number of requests in an answer to a request without `limit`.
pub const REQUESTS_USUAL: usize = 200;

/// The requests to a host, newest first.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TimelineSaid {
    /// Scheme, name and port.
    pub origin: String,
    /// The delay that was promised at the latest request; none without a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_s: Option<f64>,
    /// The requests.
    pub requests: Vec<RequestSaid>,
    /// Where older requests follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Whether no bound on bytes or time ended the reading.
    pub complete: bool,
    /// Number of bytes of the log that were read.
    pub read_bytes: u64,
}

/// One request to a host.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct RequestSaid {
    /// Start of the request in milliseconds since 1970.
    pub at_ms: u64,
    /// Duration in milliseconds.
    pub took_ms: u64,
    /// The URL.
    pub url: String,
    /// The outcome.
    pub outcome: String,
    /// The HTTP status, if there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// `page`, `robots` or `head`.
    pub purpose: String,
    /// Milliseconds from the end of the request before to the start of this one; none if no earlier one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<u64>,
    /// The delay that was promised when the request began.
    pub promised_ms: u64,
}

/// The origin of a URL or of a bare host.
pub fn origin_of(text: &str) -> Result<String, String> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}/") };
    CrawlUrl::parse(&with_scheme).map(|url| url.origin().to_owned()).map_err(|error| error.to_string())
}

impl TimelineSaid {
    /// The timeline of a host, from lines of its requests, one more than wanted: the oldest one is only the request
    /// before another. `cursor` is behind the wanted ones.
    pub fn of(origin: String, said: LogSaid, cursor: Option<String>, limit: usize) -> TimelineSaid {
        let LogSaid { mut lines, complete, read_bytes, .. } = said;
        // Requests are logged when they end; here they stand in the order in which they began.
        lines.sort_by(|a, b| a.at_ms.cmp(&b.at_ms).then_with(|| a.took_ms.cmp(&b.took_ms)));
        let mut ended = None::<u64>;
        let mut requests = Vec::with_capacity(lines.len());
        for line in lines {
            let gap = ended.map(|ended| line.at_ms.saturating_sub(ended));
            ended = ended.max(Some(line.at_ms + line.took_ms));
            requests.push(request(line, gap));
        }
        requests.reverse();
        let delay_s = requests.first().map(|latest| latest.promised_ms as f64 / 1_000.0);
        requests.truncate(limit);
        TimelineSaid { origin, delay_s, requests, cursor, complete, read_bytes }
    }
}

fn request(line: LogLine, gap_ms: Option<u64>) -> RequestSaid {
    RequestSaid {
        at_ms: line.at_ms,
        took_ms: line.took_ms,
        url: line.url,
        outcome: line.outcome,
        status: line.status,
        purpose: line.purpose,
        gap_ms,
        promised_ms: line.promised_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at_ms: u64, took_ms: u64) -> LogLine {
        LogLine { at_ms, took_ms, promised_ms: 2_000, ..LogLine::default() }
    }

    fn timeline(lines: Vec<LogLine>, limit: usize) -> Vec<(u64, Option<u64>)> {
        let said = LogSaid { lines, cursor: None, complete: true, read_bytes: 7 };
        let said = TimelineSaid::of("http://a.test".into(), said, Some("1:0".into()), limit);
        assert_eq!((said.delay_s, said.read_bytes), (Some(2.0), 7));
        said.requests.iter().map(|request| (request.at_ms, request.gap_ms)).collect()
    }

    #[test]
    fn a_gap_is_counted_from_the_end_of_the_request_before() {
        let lines = vec![line(9_000, 50), line(4_100, 100), line(1_000, 1_000)];
        assert_eq!(timeline(lines.clone(), 10), [(9_000, Some(4_800)), (4_100, Some(2_100)), (1_000, None)]);
        assert_eq!(
            timeline(lines, 2),
            [(9_000, Some(4_800)), (4_100, Some(2_100))],
            "the last one is context"
        );
    }

    #[test]
    fn requests_at_once_have_no_gap_and_a_long_one_counts_to_its_end() {
        // The long request began first and ended last, so it is logged last.
        let lines = vec![line(1_000, 5_000), line(2_000, 10), line(500, 10)];
        assert_eq!(timeline(lines, 10), [(2_000, Some(0)), (1_000, Some(490)), (500, None)]);
        let lines = vec![line(8_000, 10), line(1_000, 5_000), line(2_000, 10)];
        assert_eq!(timeline(lines, 10)[0], (8_000, Some(2_000)));
    }

    #[test]
    fn a_host_is_named_by_its_url_or_its_name() {
        assert_eq!(origin_of("https://A.test:443/x?y").as_deref(), Ok("https://a.test"));
        assert_eq!(origin_of("a.test:8080").as_deref(), Ok("http://a.test:8080"));
        assert!(origin_of("http://").is_err());
    }
}
