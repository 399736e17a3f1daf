//! The queries of the dashboard, asked of a Prometheus that scrapes a cluster.
//!
//! Each must be answered and have a series at one of the looks. After a whole run, in which every fault was made, each must have
//! had a number too: a quantile of nothing is a series without one.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::prometheus::Prometheus;
use crate::{metrics, shell};

/// Values of the variables of Grafana: the time between some looks, the whole run, every node.
const VARIABLES: [(&str, &str); 3] = [("$__rate_interval", "1m"), ("$__range", "10m"), ("$instance", ".*")];

/// See the module.
pub(super) struct Queries {
    all: Vec<String>,
    /// Those with a series, and those with a number.
    with_series: BTreeSet<String>,
    with_number: BTreeSet<String>,
    faults: BTreeSet<String>,
}

impl Queries {
    /// The queries of the shipped dashboard.
    pub(super) fn new() -> Result<Queries> {
        let path = shell::root().join("deploy/grafana/nephila.json");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let mut all = metrics::queries(&text)?;
        all.sort();
        all.dedup();
        let (with_series, with_number, faults) = Default::default();
        Ok(Queries { all, with_series, with_number, faults })
    }

    /// Asks all of them.
    pub(super) fn look(&mut self, prometheus: &Prometheus) {
        for query in &self.all {
            let values = match label_values(query) {
                Some((matching, label)) => {
                    prometheus.label_values(label, matching).map(|values| vec![1.0; values.len()])
                }
                None => prometheus.query(&filled(query)),
            };
            match values {
                Err(error) => _ = self.faults.insert(format!("{query}: {error:#}")),
                Ok(values) => {
                    if values.iter().any(|value| value.is_finite()) {
                        self.with_number.insert(query.clone());
                    }
                    if !values.is_empty() {
                        self.with_series.insert(query.clone());
                    }
                }
            }
        }
    }

    /// What is wrong, and one line of figures.
    pub(super) fn conclude(&self, is_whole: bool) -> (Vec<String>, String) {
        let mut faults: Vec<String> = self.faults.iter().cloned().collect();
        for query in &self.all {
            if !self.with_series.contains(query) {
                faults.push(format!("no series: {query}"));
            } else if is_whole && !self.with_number.contains(query) {
                faults.push(format!("never a number: {query}"));
            }
        }
        let line = format!(
            "{} queries of the dashboard answered, {} with series, {} with numbers",
            self.all.len() - self.faults.len(),
            self.with_series.len(),
            self.with_number.len()
        );
        (faults, line)
    }
}

/// A query with values in place of variables.
fn filled(query: &str) -> String {
    VARIABLES.iter().fold(query.to_owned(), |query, (name, value)| query.replace(name, value))
}

/// The parts of `label_values(MATCHING, LABEL)`, which Grafana itself turns into a request.
fn label_values(query: &str) -> Option<(&str, &str)> {
    query.strip_prefix("label_values(")?.strip_suffix(')')?.rsplit_once(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variable_is_left_in_a_query() {
        let queries = Queries::new().unwrap();
        assert!(queries.all.len() > 50, "{}", queries.all.len());
        for query in &queries.all {
            assert!(label_values(query).is_some() || !filled(query).contains('$'), "{query}");
        }
        assert_eq!(label_values("label_values(a{b=\"1\"}, instance)"), Some(("a{b=\"1\"}", "instance")));
    }

    #[test]
    fn a_query_without_an_answer_or_without_series_is_a_fault() {
        let mut queries = Queries::new().unwrap();
        let all = queries.all.clone();
        queries.with_series = all[1..].iter().cloned().collect();
        queries.with_number = all[2..].iter().cloned().collect();
        let (series, number) = (format!("no series: {}", all[0]), format!("never a number: {}", all[1]));
        assert_eq!(queries.conclude(true).0, [series.clone(), number]);
        assert_eq!(queries.conclude(false).0, [series]);
        queries.with_series.insert(all[0].clone());
        queries.faults.insert("up: refused".to_owned());
        assert_eq!(queries.conclude(false).0, ["up: refused"]);
    }
}
