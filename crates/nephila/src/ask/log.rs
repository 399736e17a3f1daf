//! `nephila log`: the outcome log, filtered, followed, and in the format that scripts for Heritrix read.

use std::io::{self, Write};
use std::time::Duration;

use nephila_api::log_view::{Filter, Follow};
use nephila_core::text::shown;

use super::{on_terminal, out, print_json, time};
use crate::cli::ask::{LogArgs, LogFormat};
use nephila_engine::clock::Clock;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::log::{Line, Lines, Purpose};

/// Polling interval of a followed log.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(300);

/// `nephila log`.
pub(super) fn run(args: &LogArgs) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.place.output.as_deref());
    if !folder.logs().is_dir() {
        folder.expect_crawl_or_node()?;
    }
    let now = Clock::new().now().wall;
    let from = args.since.as_deref().map(|text| time::since(text, now)).transpose()?;
    let filter =
        Filter::of_host(args.host.as_deref()).with_outcomes(args.outcome.clone()).between(from, None);
    let format = match args.format {
        Some(format) => format,
        None if args.place.json || !on_terminal() => LogFormat::Jsonl,
        None => LogFormat::Text,
    };
    let mut out = out();
    let mut count = 0u64;
    let mut print = |line: &Line, out: &mut dyn Write| -> io::Result<()> {
        if filter.takes(line) {
            count += 1;
            write(out, line, format)?;
        }
        Ok(())
    };
    if args.follow {
        let mut follow = Follow::new(folder.logs());
        loop {
            while let Some(line) = follow.next_line()? {
                print(&line, &mut out)?;
            }
            out.flush()?;
            std::thread::sleep(FOLLOW_INTERVAL);
        }
    }
    let mut lines = Lines::of(&folder.logs())?;
    for line in lines.by_ref() {
        print(&line?, &mut out)?;
    }
    out.flush()?;
    if lines.skipped() > 0 {
        eprintln!("nephila: {} lines of the log cannot be read and were skipped", lines.skipped());
    }
    Ok(if count > 0 { Exit::Done } else { Exit::Failed })
}

fn write(out: &mut dyn Write, line: &Line, format: LogFormat) -> io::Result<()> {
    match format {
        LogFormat::Jsonl => print_json(out, line),
        LogFormat::CrawlLog => writeln!(out, "{}", crawl_log(line)),
        LogFormat::Text => {
            let status = line.status.map_or_else(|| "-".into(), |status| status.to_string());
            let what = match line.purpose {
                Purpose::Page => "",
                Purpose::Robots => " robots.txt",
                Purpose::Head => " head",
            };
            writeln!(
                out,
                "{}  {status:>3} {:<16} {:>8} {:>9}  {}{what}{}",
                line.began(),
                shown(&line.outcome).to_string(),
                time::span(line.took_ms),
                time::size(line.bytes),
                shown(&line.url),
                line.redirect.as_deref().map(|to| format!(" -> {}", shown(to))).unwrap_or_default(),
            )
        }
    }
}

/// A line of Heritrix' crawl.log: thirteen fields, the last one JSON.
fn crawl_log(line: &Line) -> String {
    let ended = line.ended();
    let field = |text: &str| -> String {
        let clean: String =
            text.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect();
        if clean.is_empty() { "-".into() } else { shown(&clean).to_string() }
    };
    // The path to the URL, a letter per hop: links, or `P` for a prerequisite robots.txt.
    let path = match line.purpose {
        Purpose::Robots => "P".to_owned(),
        Purpose::Page | Purpose::Head => "L".repeat(usize::from(line.depth)),
    };
    let size = line.status.map_or_else(|| "-".to_owned(), |_| line.bytes.to_string());
    let mut notes = Vec::new();
    if line.retries > 0 {
        notes.push(format!("{}t", line.retries + 1));
    }
    if line.warc.as_ref().is_some_and(|warc| !matches!(&*warc.kind, "response" | "resource")) {
        notes.push("warcRevisit:digest".to_owned());
    }
    if let Some(links) = line.links {
        notes.push(format!("{}links", links.wanted + links.out));
    }
    notes.push(format!("outcome:{}", field(&line.outcome)));
    let extra = match &line.warc {
        Some(warc) => serde_json::json!({"warcFilename": warc.file, "warcOffset": warc.offset}),
        None => serde_json::json!({}),
    };
    let extra = super::json(&extra);
    let digest = line.digest.as_deref().unwrap_or("-");
    let digest =
        if digest == "-" || digest.contains(':') { digest.to_owned() } else { format!("sha1:{digest}") };
    format!(
        "{}.{:03}Z {:>5} {size:>10} {} {} - {} #000 {}+{} {} - {} {extra}",
        ended.warc_date().trim_end_matches('Z'),
        ended.0 % 1_000,
        code(line),
        field(&line.url),
        field(&path),
        if line.mime.is_empty() { "unknown".to_owned() } else { field(&line.mime) },
        line.began().digits17(),
        line.took_ms,
        field(&digest),
        notes.join(","),
    )
}

/// The HTTP status, or Heritrix' negative code for an outcome without one.
fn code(line: &Line) -> i32 {
    if let Some(status) = line.status {
        return i32::from(status);
    }
    match line.outcome.as_str() {
        // Prerequisites: name, robots.txt.
        "robots-denied" => -9998,
        "robots-unreachable" => -61,
        name if name.starts_with("dns-") => -1,
        "out-of-scope" => -5000,
        "address-private" | "port-denied" => -5001,
        name if name.starts_with("url-") => -7,
        "cancelled" => -50,
        "empty-reply" => -404,
        name if name.ends_with("-timeout") || name == "cut-time" => -4,
        "reset" | "cut-disconnect" | "tls-closed" | "h2-reset" | "h2-goaway" => -3,
        name if name.starts_with("connect-") || name.starts_with("tls-") || name == "proxy-failed" => -2,
        // The answer was not HTTP, or our own resources ran short.
        _ => -5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(outcome: &str, status: Option<u16>) -> Line {
        Line {
            at: 1_794_697_089_123,
            url: "http://a.test:8080/x".into(),
            origin: "http://a.test:8080".into(),
            outcome: outcome.into(),
            class: "ok".into(),
            status,
            took_ms: 456,
            bytes: 1_234,
            depth: 2,
            mime: "text/html".into(),
            digest: Some("sha1:ABC".into()),
            ..Line::default()
        }
    }

    #[test]
    fn a_line_has_the_thirteen_fields_of_heritrix() {
        let text = crawl_log(&line("ok", Some(200)));
        assert_eq!(
            text,
            "2026-11-14T22:58:09.579Z   200       1234 http://a.test:8080/x LL - text/html #000 \
             20261114225809123+456 sha1:ABC - outcome:ok {}"
        );
        assert_eq!(text.split_whitespace().count(), 13);
        let mut evil = line("ok", None);
        evil.mime = "text/ht ml\u{1b}[2J\u{202e}".into();
        evil.warc = Some(nephila_engine::log::Stored {
            file: "a b".into(),
            offset: 3,
            length: 4,
            kind: "response".into(),
        });
        let text = crawl_log(&evil);
        assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text}");
    }

    #[test]
    fn what_has_no_status_has_a_negative_code() {
        for (outcome, want) in [
            ("robots-denied", -9998),
            ("dns-nxdomain", -1),
            ("dns-timeout", -1),
            ("connect-refused", -2),
            ("connect-timeout", -4),
            ("head-timeout", -4),
            ("reset", -3),
            ("out-of-scope", -5000),
            ("empty-reply", -404),
            ("bad-framing", -5),
        ] {
            assert_eq!(code(&line(outcome, None)), want, "{outcome}");
        }
        assert_eq!(code(&line("not-found", Some(404))), 404);
        for outcome in nephila_core::spider::outcome::Outcome::ALL {
            assert!(code(&line(outcome.name(), None)) < 0, "{outcome}");
        }
    }
}
