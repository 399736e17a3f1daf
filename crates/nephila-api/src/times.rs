//! How long requests to the API took, by route and status: `nephila_api_request_duration_seconds`.
//!
//! The time begins when a request has arrived with its body, and ends when the answer is ready to be sent, so neither
//! a slow client nor a stream is counted. A request that is refused before its body is read is counted from its head on.
//!
//! Invariants: routes are templates of paths, with [`OTHER`] for all paths that no operation has, and statuses are from
//! [`STATUSES`], with one word for each class of the others: the number of series is bounded, whatever clients send.

use std::sync::OnceLock;
use std::time::Duration;

use http::StatusCode;
use nephila_core::histogram::Histogram;

use super::metrics::{Family, histograms};

/// Name of the family.
const NAME: &str = "nephila_api_request_duration_seconds";
/// Route of paths that no operation has.
const OTHER: &str = "other";
/// Upper bounds of the buckets in microseconds.
const BOUNDS_US: [u64; 14] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    10_000_000, 30_000_000,
];
/// Statuses that have a series of their own: those of operations, and those of problems.
const STATUSES: [u16; 18] =
    [200, 201, 202, 204, 302, 304, 400, 401, 403, 404, 405, 408, 409, 413, 422, 429, 500, 503];
/// Labels of other statuses, by class: a capture has the status that its site sent.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Number of labels of the status.
const COLUMNS: usize = STATUSES.len() + CLASSES.len();

/// A route, as [`Times`] counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RouteId(usize);

/// See the module.
#[derive(Debug)]
pub(super) struct Times {
    /// Templates without duplicates; [`OTHER`] is last.
    routes: Vec<&'static str>,
    /// A row for each route, a column for each label of the status. Those that never occurred take no memory.
    cells: Box<[OnceLock<Histogram>]>,
}

impl Times {
    /// For operations with these paths.
    pub(super) fn new(paths: impl IntoIterator<Item = &'static str>) -> Times {
        let mut routes: Vec<&'static str> = paths.into_iter().collect();
        routes.sort_unstable();
        routes.dedup();
        routes.push(OTHER);
        let cells = (0..routes.len() * COLUMNS).map(|_| OnceLock::new()).collect();
        Times { routes, cells }
    }

    /// The route with a template; none for a path that no operation has.
    pub(super) fn route(&self, template: Option<&str>) -> RouteId {
        let known = template.and_then(|path| self.routes[..self.routes.len() - 1].binary_search(&path).ok());
        RouteId(known.unwrap_or(self.routes.len() - 1))
    }

    /// Counts an answer.
    pub(super) fn add(&self, route: RouteId, status: StatusCode, took: Duration) {
        let cell = &self.cells[route.0 * COLUMNS + column(status.as_u16())];
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        cell.get_or_init(|| Histogram::new(&BOUNDS_US)).add(us);
    }

    /// The metrics.
    pub(super) fn family(&self) -> Family {
        let series = self.cells.iter().enumerate().filter_map(|(place, cell)| {
            let (route, status) = (self.routes[place / COLUMNS], label(place % COLUMNS));
            Some((format!("route=\"{route}\",status=\"{status}\""), cell.get()?.get()))
        });
        histograms(NAME, "Time to answer an API request, by route and status.", 1e6, series)
    }
}

fn column(status: u16) -> usize {
    match STATUSES.binary_search(&status) {
        Ok(column) => column,
        Err(_) => STATUSES.len() + usize::from(status / 100).clamp(1, CLASSES.len()) - 1,
    }
}

fn label(column: usize) -> String {
    match STATUSES.get(column) {
        Some(status) => status.to_string(),
        None => CLASSES[column - STATUSES.len()].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics::text;
    use super::super::problem::KINDS;
    use super::*;

    fn line(times: &Times, start: &str) -> Option<String> {
        text("single", vec![times.family()]).lines().find(|line| line.starts_with(start)).map(str::to_owned)
    }

    #[test]
    fn an_answer_is_counted_under_its_route_and_its_status() {
        let times = Times::new(["/api/v1/jobs/{job}", "/livez", "/api/v1/jobs/{job}"]);
        let job = times.route(Some("/api/v1/jobs/{job}"));
        for ms in [3, 30] {
            times.add(job, StatusCode::OK, Duration::from_millis(ms));
        }
        let labels = "{route=\"/api/v1/jobs/{job}\",status=\"200\"";
        for end in [",le=\"0.005\"} 1", ",le=\"0.05\"} 2", ",le=\"+Inf\"} 2"] {
            let bucket = format!("{NAME}_bucket{labels}{end}");
            assert_eq!(line(&times, &bucket), Some(bucket));
        }
        let sum = format!("{NAME}_sum{labels}}} 0.033");
        assert_eq!(line(&times, &sum), Some(sum));
    }

    #[test]
    fn the_number_of_series_is_bounded_whatever_is_asked_and_captured() {
        let times = Times::new(["/livez"]);
        for status in 100..1_000 {
            let status = StatusCode::from_u16(status).unwrap();
            for path in [None, Some("/livez"), Some("/other/path"), Some(OTHER)] {
                times.add(times.route(path), status, Duration::ZERO);
            }
        }
        let text = text("single", vec![times.family()]);
        assert_eq!(
            text.lines().filter(|line| line.starts_with(&format!("{NAME}_count"))).count(),
            2 * COLUMNS
        );
        assert!(text.contains("{route=\"other\",status=\"4xx\""), "{text}");
    }

    #[test]
    fn each_problem_has_a_series_of_its_own() {
        assert!(STATUSES.is_sorted());
        for (status, ..) in KINDS {
            assert!(STATUSES.contains(&status), "{status}");
        }
    }
}
