//! A Prometheus server on loopback, and what it says over its HTTP API.
//!
//! Invariants: the server ends with its value; its data lie in a folder of the caller; every request has a timeout.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::programs::of_others;
use crate::watched::Answering;

/// The server of Prometheus.
const PROGRAM: &str = "prometheus";
/// Time until the server answers.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Timeout of one request.
const ASK_LIMIT: Duration = Duration::from_secs(20);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(100);

/// How a server is set up.
pub(super) struct Setup<'a> {
    /// Interval of scrapes and of rules.
    pub(super) every: Duration,
    /// Names and addresses of what is scraped.
    pub(super) targets: &'a [(&'a str, SocketAddr)],
    /// The token of a reader, if the targets want one.
    pub(super) token: Option<&'a str>,
    /// The alerts, as a file has them.
    pub(super) rules: &'a str,
}

impl Setup<'_> {
    fn config(&self) -> String {
        let millis = self.every.as_millis();
        let mut text = format!(
            "global:\n  scrape_interval: {millis}ms\n  scrape_timeout: {millis}ms\n  evaluation_interval: {millis}ms\n\
             rule_files: [alerts.yml]\nscrape_configs:\n  - job_name: nephila\n    honor_labels: true\n"
        );
        if let Some(token) = self.token {
            text += &format!("    authorization: {{ credentials: {token} }}\n");
        }
        text += "    static_configs:\n";
        for (name, address) in self.targets {
            text += &format!("      - targets: [\"{address}\"]\n        labels: {{ instance: {name} }}\n");
        }
        text
    }
}

/// A running server.
pub(super) struct Prometheus {
    child: Child,
    address: SocketAddr,
}

/// An alert and the node that it names, if any.
pub(super) type Named = (String, Option<String>);

impl Prometheus {
    /// Starts a server with its data in this folder, and waits until it answers.
    pub(super) fn start(cache: &Path, folder: &Path, setup: &Setup) -> Result<Prometheus> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("prometheus.yml"), setup.config())?;
        std::fs::write(folder.join("alerts.yml"), setup.rules)?;
        let (address, said) = (Answering::free_address()?, folder.join("prometheus.log"));
        let log = File::create(&said)?;
        let program = of_others(PROGRAM, "NEPHILA_PROMETHEUS", cache)?;
        let child = Command::new(&program)
            .current_dir(folder)
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| {
                format!(
                    "start {}: `.ci/run` fetches it; or install the Debian package prometheus, or name one in NEPHILA_PROMETHEUS",
                    program.display()
                )
            })?;
        let mut server = Prometheus { child, address };
        let end = Instant::now() + START_LIMIT;
        while get(address, "/-/ready").is_err() {
            if server.child.try_wait()?.is_some() || Instant::now() >= end {
                bail!("{PROGRAM} does not run; it said:\n{}", std::fs::read_to_string(said)?);
            }
            std::thread::sleep(LOOK);
        }
        Ok(server)
    }

    fn ask(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        let mut target = format!("/api/v1/{path}");
        for (at, (name, value)) in query.iter().enumerate() {
            let sign = if at == 0 { '?' } else { '&' };
            target += &format!("{sign}{}={}", encoded(name), encoded(value));
        }
        let said: Value = serde_json::from_str(&get(self.address, &target)?)?;
        ensure!(said["status"] == "success", "{target}: {said}");
        Ok(said["data"].clone())
    }

    /// The values of the series of a query, now. Some may be no number.
    pub(super) fn query(&self, query: &str) -> Result<Vec<f64>> {
        let data = self.ask("query", &[("query", query)])?;
        let one = |value: &Value| value[1].as_str().and_then(|text| text.parse::<f64>().ok());
        let values = match data["resultType"].as_str() {
            Some("vector") => data["result"].as_array().context("no result")?,
            _ => bail!("{query}: {data}"),
        };
        values.iter().map(|series| one(&series["value"]).context("a value")).collect()
    }

    /// The sum of the series of a query; 0 if there is none.
    pub(super) fn sum(&self, query: &str) -> Result<f64> {
        Ok(self.query(query)?.into_iter().sum())
    }

    /// The values of a label in the series that match.
    pub(super) fn label_values(&self, label: &str, matching: &str) -> Result<Vec<String>> {
        let data = self.ask(&format!("label/{label}/values"), &[("match[]", matching)])?;
        Ok(serde_json::from_value(data)?)
    }

    /// The alerts that fire.
    pub(super) fn firing(&self) -> Result<BTreeSet<Named>> {
        let data = self.ask("alerts", &[])?;
        let alerts = data["alerts"].as_array().context("no list of alerts")?;
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        let text = |value: &Value| value.as_str().map(str::to_owned);
        firing
            .map(|alert| {
                let labels = &alert["labels"];
                Ok((
                    text(&labels["alertname"]).context("an alert without a name")?,
                    text(&labels["instance"]),
                ))
            })
            .collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(char::from(byte)),
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}

/// The body of a good answer to `GET`, of this server or of a node.
pub(super) fn get(address: SocketAddr, target: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ASK_LIMIT)?;
    stream.set_read_timeout(Some(ASK_LIMIT))?;
    write!(stream, "GET {target} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no end of the head")?;
    ensure!(
        head.split(' ').nth(1) == Some("200"),
        "{target}: {} {body}",
        head.lines().next().unwrap_or_default()
    );
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_written_as_a_part_of_an_address() {
        assert_eq!(
            encoded("sum(a{b=~\".*\"}[5m]) > 0"),
            "sum%28a%7Bb%3D~%22.%2A%22%7D%5B5m%5D%29%20%3E%200".replace('~', "%7E")
        );
    }

    #[test]
    fn the_configuration_names_every_target_and_the_token() {
        let targets = [("one", "127.0.0.1:1".parse().unwrap()), ("two", "127.0.0.1:2".parse().unwrap())];
        let every = Duration::from_millis(250);
        let setup = Setup { every, targets: &targets, token: Some("read"), rules: "" };
        let text = setup.config();
        for part in [
            "scrape_interval: 250ms",
            "[\"127.0.0.1:2\"]\n        labels: { instance: two }",
            "credentials: read",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!Setup { token: None, ..setup }.config().contains("authorization"));
    }
}
