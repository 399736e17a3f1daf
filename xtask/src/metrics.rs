//! `cargo xtask metrics`: are the metrics what the documents, the alerts and the dashboard say?
//!
//! A crawl of the test web is scraped while it runs. `promtool` (of `.ci/run`, or of Debian) reads the metrics, the alerts,
//! the queries of the dashboard and the sample configuration, and runs the tests of the alerts, which fire and end each
//! of them. Then the names are compared: what the crawl serves with `docs/metrics.md`, what alerts and dashboard ask for
//! with the same page, and the alerts with the sections of `docs/runbooks.md`. These comparisons are tests as well,
//! except the first, which needs the crawl.
//!
//! Invariant: the crawl and the web end with the command.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::programs::{Programs, of_others};
use crate::watched::{Watched, Web};
use crate::{alerts, shell};

/// Options of `metrics`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pages of the web
    #[arg(long, default_value_t = 200)]
    pages: u32,
    /// Makes the fault of each alert in a cluster that a real Prometheus scrapes, asks the queries of the dashboard, and
    /// measures what scrapes cost
    #[arg(long)]
    alerts: bool,
    #[command(flatten)]
    more: alerts::Args,
}

/// Time until the crawl has served everything that is waited for.
const SCRAPE_LIMIT: Duration = Duration::from_secs(60);
/// Interval of scrapes.
const SCRAPE_EVERY: Duration = Duration::from_millis(200);
/// Timeout of one call of promtool, and of one scrape.
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// The checker of Prometheus, and the package that has it.
const PROMTOOL: &str = "promtool";
const PACKAGE: &str = "prometheus";

/// Sections of `docs/metrics.md` with the families of every process, and with those of some.
const OF_ALL: &str = "Of every process";
const OF_SOME: [&str; 4] =
    ["Of a node in a cluster alone", "With remote spiders alone", "With webhooks alone", "With traces alone"];
/// A family that is missing on file systems that do not say.
const OPTIONAL: &str = "nephila_store_disk_free_bytes";

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.alerts {
        return alerts::run(&args.more);
    }
    let program = of_others(PROMTOOL, "NEPHILA_PROMTOOL", &args.more.cache()?)?;
    let promtool = |args: &[&str], stdin: &str| judge(&program, args, stdin);
    promtool(&["--version"], "")?;
    let prometheus = shell::root().join("deploy/prometheus");
    let file = |name: &str| prometheus.join(name).display().to_string();
    promtool(&["check", "rules", &file("alerts.yml")], "")?;
    promtool(&["check", "config", &file("prometheus.yml")], "")?;
    promtool(&["test", "rules", &file("alerts.test.yml")], "")?;

    let texts = Texts::read()?;
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let as_rules = folder.path().join("dashboard.json");
    std::fs::write(&as_rules, rules_of(&queries(&texts.dashboard)?).to_string())?;
    promtool(&["check", "rules", &as_rules.display().to_string()], "")
        .context("a query of deploy/grafana/nephila.json is wrong")?;

    let text = scrape_a_crawl(args.pages)?;
    promtool(&["check", "metrics"], &text)?;
    let served = families(&text);
    let mut faults = compare(&served, &documented(&texts.metrics));
    faults.extend(texts.faults());
    ensure!(faults.is_empty(), "metrics:\n  {}", faults.join("\n  "));
    println!(
        "metrics: {} families served as documented, {} alerts fired and ended, {} queries of the dashboard",
        served.len(),
        alerts(&texts.alerts).len(),
        queries(&texts.dashboard)?.len()
    );
    Ok(())
}

/// Runs promtool with this input. What it complains about is an error, also if its exit code is good.
fn judge(program: &Path, args: &[&str], stdin: &str) -> Result<()> {
    let mut child = match Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "{} is missing: `.ci/run` fetches it; or install the Debian package {PACKAGE}, or name the program in NEPHILA_PROMTOOL",
            program.display()
        ),
        spawned => spawned.with_context(|| format!("start {}", program.display()))?,
    };
    let mut input = child.stdin.take().expect("piped above");
    input.write_all(stdin.as_bytes()).context("write to promtool")?;
    drop(input);
    let output = child.wait_with_output().context("run promtool")?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let (out, err) = (said(&output.stdout), said(&output.stderr));
    let is_clean = args.first() != Some(&"check") || args.get(1) != Some(&"metrics") || err.is_empty();
    ensure!(output.status.success() && is_clean, "`promtool {}`:\n{out}\n{err}", args.join(" "));
    Ok(())
}

/// The metrics of a crawl that has fetched some pages.
fn scrape_a_crawl(pages: u32) -> Result<String> {
    let programs = Programs::build()?;
    let mut crawl = Watched::start(&programs, &Web { hosts: 5, pages, delay: "250ms" })?;
    let end = Instant::now() + SCRAPE_LIMIT;
    let mut last = anyhow::anyhow!("nothing was scraped");
    while Instant::now() < end && crawl.is_running()? {
        match scrape(crawl.address()).and_then(|text| is_under_way(&text).map(|()| text)) {
            Ok(text) => return Ok(text),
            Err(error) => last = error,
        }
        std::thread::sleep(SCRAPE_EVERY);
    }
    Err(last
        .context(format!("the crawl did not serve the metrics of some pages; it said:\n{}", crawl.said())))
}

/// Whether the crawl has fetched pages and waited between them, politely.
fn is_under_way(text: &str) -> Result<()> {
    let value = |sample: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<f64>().ok()).with_context(|| format!("no {sample}"))
    };
    for sample in [
        "nephila_spider_fetches_total{outcome=\"2xx\"}",
        "nephila_politeness_gap_ratio_count",
        "nephila_frontier_ready_wait_seconds_count",
        "nephila_spider_dns_duration_seconds_count",
        "nephila_spider_fetch_duration_seconds_count{phase=\"head\"}",
        "nephila_handler_feeds{health=\"fine\"}",
    ] {
        let is_gauge = sample.starts_with("nephila_handler_feeds");
        ensure!(value(sample)? >= if is_gauge { 0.0 } else { 3.0 }, "{sample} is still small");
    }
    for sample in [
        "nephila_politeness_gap_ratio_bucket{le=\"0.99\"}",
        "nephila_politeness_violations_total{kind=\"host\"}",
        "nephila_politeness_violations_total{kind=\"slot\"}",
    ] {
        ensure!(value(sample)? == 0.0, "{sample} is not 0: a promise was broken");
    }
    Ok(())
}

/// `GET /metrics`.
fn scrape(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, CALL_LIMIT).context("connect to the crawl")?;
    stream.set_read_timeout(Some(CALL_LIMIT))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("read the metrics")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no end of the head")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "{head}");
    Ok(body.to_owned())
}

/// The families of a text in the format of Prometheus.
fn families(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Families by the section of `docs/metrics.md` whose table names them: the second column.
fn documented(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let (mut sections, mut section) = (BTreeMap::<String, BTreeSet<String>>::new(), String::new());
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut section);
        }
        let Some(column) = line.strip_prefix('|').and_then(|row| row.split('|').nth(1)) else { continue };
        sections.entry(section.clone()).or_default().extend(names(column));
    }
    sections
}

/// All names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    words.filter(|word| word.starts_with("nephila_")).map(str::to_owned).collect()
}

/// Differences between what a crawl serves and what the page says of every process.
fn compare(served: &BTreeSet<String>, documented: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let none = BTreeSet::new();
    let of_all = documented.get(OF_ALL).unwrap_or(&none);
    let missing = of_all.difference(served).filter(|name| *name != OPTIONAL);
    let missing = missing.map(|name| format!("{name} is in docs/metrics.md and is not served"));
    let unknown = served.difference(of_all);
    missing
        .chain(unknown.map(|name| format!("{name} is served and not in docs/metrics.md, {OF_ALL}")))
        .collect()
}

/// The names of the alerts.
fn alerts(rules: &str) -> BTreeSet<String> {
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

/// The queries of a dashboard of Grafana.
pub(crate) fn queries(dashboard: &str) -> Result<Vec<String>> {
    fn collect(value: &Value, queries: &mut Vec<String>) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| collect(value, queries)),
            Value::Object(fields) => {
                let is_query = |name: &str| matches!(name, "expr" | "definition");
                let texts = fields.iter().filter(|(name, _)| is_query(name));
                queries.extend(texts.filter_map(|(_, value)| value.as_str().map(str::to_owned)));
                fields.values().for_each(|value| collect(value, queries));
            }
            _ => {}
        }
    }
    let mut queries = Vec::new();
    collect(&serde_json::from_str(dashboard).context("deploy/grafana/nephila.json")?, &mut queries);
    Ok(queries)
}

/// The queries as recording rules, which promtool reads: the variables of Grafana have values.
fn rules_of(queries: &[String]) -> Value {
    let real = queries.iter().filter(|query| !query.starts_with("label_values("));
    let rule = |(number, query): (usize, &String)| {
        let expr =
            query.replace("$__rate_interval", "5m").replace("$__range", "1h").replace("$instance", ".*");
        serde_json::json!({"record": format!("dashboard:{number}"), "expr": expr})
    };
    let rules: Vec<Value> = real.enumerate().map(rule).collect();
    serde_json::json!({"groups": [{"name": "dashboard", "rules": rules}]})
}

/// The files that are compared.
struct Texts {
    metrics: String,
    runbooks: String,
    alerts: String,
    alert_tests: String,
    dashboard: String,
}

impl Texts {
    fn read() -> Result<Texts> {
        let read = |path: &str| {
            let path = shell::root().join(Path::new(path));
            std::fs::read_to_string(&path).with_context(|| path.display().to_string())
        };
        Ok(Texts {
            metrics: read("docs/metrics.md")?,
            runbooks: read("docs/runbooks.md")?,
            alerts: read("deploy/prometheus/alerts.yml")?,
            alert_tests: read("deploy/prometheus/alerts.test.yml")?,
            dashboard: read("deploy/grafana/nephila.json")?,
        })
    }

    /// What does not fit together.
    fn faults(&self) -> Vec<String> {
        let documented = documented(&self.metrics);
        let sections = OF_SOME.iter().chain([&OF_ALL]);
        let served: BTreeSet<&str> =
            sections.filter_map(|name| documented.get(*name)).flatten().map(String::as_str).collect();
        let is_served = |name: &str| {
            let of_histogram = ["_bucket", "_sum", "_count"].iter().filter_map(|end| name.strip_suffix(end));
            served.contains(name) || of_histogram.into_iter().any(|name| served.contains(name))
        };
        let mut faults = Vec::new();
        let rules: String = self
            .alerts
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .collect::<Vec<_>>()
            .join("\n");
        let mut queries = vec![("alerts.yml", rules)];
        match queries_of(&self.dashboard) {
            Ok(all) => queries.extend(all),
            Err(error) => faults.push(format!("{error:#}")),
        }
        for (file, query) in queries {
            let unknown = names(&query).into_iter().filter(|name| !is_served(name));
            faults.extend(unknown.map(|name| format!("{file} asks for {name}, which no process serves")));
        }
        let (alerts, runbooks) = (alerts(&self.alerts), headings(&self.runbooks));
        let none = alerts.difference(&runbooks).map(|name| format!("docs/runbooks.md has no section {name}"));
        faults.extend(none);
        let old =
            runbooks.difference(&alerts).map(|name| format!("docs/runbooks.md: there is no alert {name}"));
        faults.extend(old);
        for name in &alerts {
            let fires = format!("alertname: {name}\n        exp_alerts:");
            let ends = format!("alertname: {name} }}");
            if !self.alert_tests.contains(&fires) || !self.alert_tests.contains(&ends) {
                faults.push(format!("alerts.test.yml does not fire {name}, or does not end it"));
            }
            let link = format!("runbook: docs/runbooks.md#{}", name.to_lowercase());
            if !self.alerts.contains(&link) {
                faults.push(format!("alerts.yml: {name} has no line `{link}`"));
            }
        }
        faults
    }
}

fn queries_of(dashboard: &str) -> Result<Vec<(&'static str, String)>> {
    Ok(queries(dashboard)?.into_iter().map(|query| ("nephila.json", query)).collect())
}

/// The sections of a page.
fn headings(page: &str) -> BTreeSet<String> {
    page.lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_dashboard_runbooks_and_the_page_of_metrics_fit_together() {
        let texts = Texts::read().unwrap();
        assert_eq!(texts.faults(), Vec::<String>::new());
        assert_eq!(alerts(&texts.alerts).len(), 8);
        assert!(queries(&texts.dashboard).unwrap().len() > 30, "the dashboard has queries");
        let documented = documented(&texts.metrics);
        assert!(documented[OF_ALL].len() > 30, "{documented:?}");
        assert!(OF_SOME.iter().all(|section| !documented[*section].is_empty()), "{documented:?}");
    }

    #[test]
    fn a_name_that_is_misspelt_anywhere_is_found() {
        let with = |change: fn(&mut Texts)| {
            let mut texts = Texts::read().unwrap();
            change(&mut texts);
            texts.faults()
        };
        let found =
            with(|texts| texts.dashboard = texts.dashboard.replacen("frontier_hosts", "frontier_host", 1));
        assert_eq!(found, ["nephila.json asks for nephila_frontier_host, which no process serves"]);
        let found = with(|texts| texts.alerts = texts.alerts.replace("upload_lag_seconds", "upload_lag"));
        assert_eq!(found, ["alerts.yml asks for nephila_store_upload_lag, which no process serves"]);
        let found = with(|texts| texts.runbooks = texts.runbooks.replace("## NephilaStalled", "## Stalled"));
        assert_eq!(found.len(), 2, "{found:?}");
        let found =
            with(|texts| texts.alert_tests = texts.alert_tests.replace("alertname: NephilaBlocked }", ""));
        assert_eq!(found, ["alerts.test.yml does not fire NephilaBlocked, or does not end it"]);
        assert!(!with(|texts| texts.dashboard.truncate(100)).is_empty(), "half a dashboard");
    }

    #[test]
    fn what_is_served_is_compared_both_ways() {
        let page = "## Of every process\n| a | `nephila_a_total`, `nephila_b` | x | `nephila_c` |\n\
                    | | `nephila_store_disk_free_bytes` | | |\n";
        let served =
            families("# HELP nephila_a_total A.\n# TYPE nephila_a_total counter\n# TYPE nephila_d gauge\n");
        let faults = compare(&served, &documented(page));
        let said = [
            "nephila_b is in docs/metrics.md and is not served",
            "nephila_d is served and not in docs/metrics.md, Of every process",
        ];
        assert_eq!(faults, said);
    }
}
