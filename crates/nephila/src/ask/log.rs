//! `nephila log`: the outcome log, filtered, followed, and in the format that scripts for Heritrix read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nephila_core::text::shown;
use nephila_core::time::Timestamp;

use super::{on_terminal, out, print_json, time};
use crate::cli::ask::{LogArgs, LogFormat};
use nephila_engine::clock::Clock;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::log::{Line, Lines, Purpose, files};

/// Polling interval of a followed log.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(300);

/// Filter for lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    host: Option<String>,
    outcomes: Vec<String>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
}

impl Filter {
    /// Lines of this host, as a person writes a host.
    pub(super) fn of_host(host: Option<&str>) -> Filter {
        Filter { host: host.map(|host| host.trim_end_matches('/').to_ascii_lowercase()), ..Filter::default() }
    }

    /// Lines of requests that began between these times.
    pub(super) fn between(self, from: Option<Timestamp>, to: Option<Timestamp>) -> Filter {
        Filter { from, to, ..self }
    }

    /// Whether the host of this origin matches.
    pub(super) fn takes_origin(&self, origin: &str) -> bool {
        self.host.as_deref().is_none_or(|host| is_host(origin, host))
    }

    /// Whether the line matches.
    pub(super) fn takes(&self, line: &Line) -> bool {
        self.from.is_none_or(|from| line.began() >= from)
            && self.to.is_none_or(|to| line.began() <= to)
            && self.takes_origin(&line.origin)
            && (self.outcomes.is_empty() || self.outcomes.iter().any(|wanted| is_outcome(line, wanted)))
    }
}

/// Whether `host` names this origin: by the whole origin, its authority, or its host name.
fn is_host(origin: &str, host: &str) -> bool {
    let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
    if origin == host || authority == host {
        return true;
    }
    // An address of IPv6 has colons of its own.
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => authority,
    };
    name == host || name.trim_matches(['[', ']']) == host
}

fn is_outcome(line: &Line, wanted: &str) -> bool {
    line.outcome == wanted
        || line.class == wanted
        || line.status.is_some_and(|status| wanted.parse() == Ok(status))
}

/// `nephila log`.
pub(super) fn run(args: &LogArgs) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.place.output.as_deref());
    if !folder.logs().is_dir() {
        folder.expect_crawl_or_node()?;
    }
    let now = Clock::new().now().wall;
    let filter = Filter {
        outcomes: args.outcome.clone(),
        from: args.since.as_deref().map(|text| time::since(text, now)).transpose()?,
        ..Filter::of_host(args.host.as_deref())
    };
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
            while let Some(line) = follow.next()? {
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

/// Reads a growing log, file after file. A line counts once it ends with a newline.
struct Follow {
    folder: PathBuf,
    open: Option<(PathBuf, BufReader<File>)>,
    buffer: Vec<u8>,
}

impl Follow {
    fn new(folder: PathBuf) -> Follow {
        Follow { folder, open: None, buffer: Vec::new() }
    }

    /// The next line; none if there is none yet.
    fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let Some((path, open)) = &mut self.open else {
                let Some(first) = files(&self.folder)?.into_iter().next() else { return Ok(None) };
                self.go_to(&first)?;
                continue;
            };
            open.read_until(b'\n', &mut self.buffer)?;
            if self.buffer.ends_with(b"\n") {
                let line = serde_json::from_slice(&self.buffer).ok();
                self.buffer.clear();
                match line {
                    Some(line) => return Ok(Some(line)),
                    None => continue,
                }
            }
            let path = path.clone();
            let Some(next) = files(&self.folder)?.into_iter().find(|file| *file > path) else {
                return Ok(None);
            };
            // The next file was started after the last line of this one; lines written in the meantime are read first.
            let (_, open) = self.open.as_mut().expect("it is open");
            if open.read_until(b'\n', &mut self.buffer)? == 0 {
                self.buffer.clear();
                self.go_to(&next)?;
            } else if self.buffer.ends_with(b"\n") {
                let line = serde_json::from_slice(&self.buffer).ok();
                self.buffer.clear();
                if line.is_some() {
                    return Ok(line);
                }
            }
        }
    }

    fn go_to(&mut self, path: &Path) -> io::Result<()> {
        self.open = Some((path.into(), BufReader::with_capacity(64 * 1024, File::open(path)?)));
        Ok(())
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

    #[test]
    fn a_filter_knows_hosts_outcomes_and_times() {
        let line = line("not-found", Some(404));
        for host in ["a.test", "a.test:8080", "http://a.test:8080", "http://a.test:8080/", "A.test"] {
            assert!(Filter::of_host(Some(host)).takes(&line), "{host}");
        }
        for host in ["test", "b.test", "a.test:80", "https://a.test:8080"] {
            assert!(!Filter::of_host(Some(host)).takes(&line), "{host}");
        }
        assert!(is_host("http://[::1]:80", "::1") && is_host("http://[::1]", "[::1]"));
        for (wanted, takes) in
            [("not-found", true), ("ok", true), ("404", true), ("200", false), ("gone", false)]
        {
            let filter = Filter { outcomes: vec![wanted.into()], ..Filter::default() };
            assert_eq!(filter.takes(&line), takes, "{wanted}");
        }
        let at = |ms| Some(Timestamp(ms));
        assert!(Filter::default().between(at(line.at), at(line.at)).takes(&line));
        assert!(!Filter::default().between(at(line.at + 1), None).takes(&line));
        assert!(!Filter::default().between(None, at(line.at - 1)).takes(&line));
    }

    #[test]
    fn a_log_that_is_written_is_followed_over_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut follow = Follow::new(dir.path().into());
        assert_eq!(follow.next().unwrap(), None, "there is no file yet");
        let (one, two) =
            (dir.path().join("outcomes-00000001.jsonl"), dir.path().join("outcomes-00000002.jsonl"));
        let json = line("ok", Some(200)).json();
        std::fs::write(&one, &json[..50]).unwrap();
        assert_eq!(follow.next().unwrap(), None, "half a line is none");
        let mut file = File::options().append(true).open(&one).unwrap();
        file.write_all(&json[50..]).unwrap();
        assert_eq!(follow.next().unwrap().unwrap().outcome, "ok");
        assert_eq!(follow.next().unwrap(), None);
        file.write_all(&line("gone", Some(410)).json()).unwrap();
        std::fs::write(&two, line("reset", None).json()).unwrap();
        assert_eq!(follow.next().unwrap().unwrap().outcome, "gone");
        assert_eq!(follow.next().unwrap().unwrap().outcome, "reset");
        assert_eq!(follow.next().unwrap(), None);
    }
}
