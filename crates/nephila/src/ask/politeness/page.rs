//! The politeness report as text, and as one page for the operator of a site.
//!
//! Invariants: the page has no script and loads nothing; text of third parties is sanitized and escaped.

use std::io::{self, Write};

use nephila_api::judge::{Exception, Judged, Kind, RATIOS, Subject};
use nephila_core::text::{escaped, shown};
use nephila_core::time::Timestamp;

use super::super::time::span;

/// Maximum number of hosts and slots in a printed table; JSON has all.
const ROWS_MAX: usize = 50;
/// Maximum number of exceptions in a printed list.
const EXCEPTIONS_SHOWN_MAX: usize = 100;

/// Further data of a page.
pub(super) struct About {
    /// The host, if the report is about one.
    pub(super) host: Option<String>,
    /// Number of unreadable lines in the log.
    pub(super) skipped: u64,
    /// Number of folders the report was made from.
    pub(super) folders: usize,
    /// Time of the report.
    pub(super) made: String,
    /// Our user agent.
    pub(super) agent: String,
}

fn verdict(judged: &Judged) -> String {
    match (judged.requests, judged.exceptions_total) {
        (0, _) => "no request was sent".into(),
        (requests, 0) => format!("{requests} requests, every promise was kept"),
        (requests, 1) => format!("{requests} requests, 1 promise was not kept"),
        (requests, many) => format!("{requests} requests, {many} promises were not kept"),
    }
}

fn part(number: usize) -> String {
    let at = |number: usize| format!("{}.{:02}", RATIOS[number] / 100, RATIOS[number] % 100);
    match number {
        0 => "below 1".into(),
        last if last + 1 == RATIOS.len() => format!("{} and more", at(last)),
        _ => format!("{} to {}", at(number), at(number + 1)),
    }
}

fn ms(value: Option<u64>) -> String {
    value.map_or_else(|| "-".into(), span)
}

fn said(exception: &Exception) -> String {
    match exception.kind {
        Kind::HostRest | Kind::SlotRest => {
            format!("rested {} of {}", span(exception.had), span(exception.promised))
        }
        Kind::HostAtOnce | Kind::SlotAtOnce => {
            format!("{} requests at once, {} allowed", exception.had, exception.promised)
        }
    }
}

/// Text for a terminal.
pub(super) fn text(out: &mut dyn Write, judged: &Judged, about: &About) -> io::Result<()> {
    writeln!(out, "{}", verdict(judged))?;
    if let Some((first, last)) = judged.first.zip(judged.last) {
        writeln!(
            out,
            "{} to {}, {} of them for robots.txt",
            Timestamp(first),
            Timestamp(last),
            judged.robots
        )?;
    }
    let ignored: u64 = judged.hosts.iter().map(|host| host.robots_ignored).sum();
    let denied: u64 = judged.hosts.iter().map(|host| host.robots_denied).sum();
    writeln!(
        out,
        "robots.txt: {}{}",
        if denied > 0 { format!("{denied} URLs were not asked for because of it, ") } else { String::new() },
        if ignored == 0 { "obeyed everywhere".into() } else { format!("{ignored} requests did not ask it") }
    )?;
    if judged.repeated > 0 {
        writeln!(
            out,
            "{} requests were repeated without a rest: the connection had died, or the server asked for it (421, a signature)",
            judged.repeated
        )?;
    }
    writeln!(out, "\nrest between two requests of a host, over what was promised")?;
    let most = judged.histogram.iter().copied().max().unwrap_or(0).max(1);
    for (number, count) in judged.histogram.iter().enumerate() {
        let bar = "#".repeat(usize::try_from(count * 40 / most).unwrap_or(40));
        writeln!(out, "  {:<14} {count:>10}  {bar}", part(number))?;
    }
    for (title, subjects) in [("host", &judged.hosts), ("address", &judged.slots)] {
        writeln!(
            out,
            "\n{:>9} {:>12} {:>12} {:>12} {:>8} {:>7}  {title}",
            "requests", "closest", "promised", "apart", "at once", "broken"
        )?;
        for subject in subjects.iter().filter(|subject| subject.requests > 0).take(ROWS_MAX) {
            writeln!(
                out,
                "{:>9} {:>12} {:>12} {:>12} {:>8} {:>7}  {}",
                subject.requests,
                ms(subject.rest_ms_min),
                ms(subject.promise_ms_there.or(subject.promise_ms_min)),
                ms(subject.apart_ms_min),
                subject.at_once_max,
                subject.exceptions,
                shown(&subject.name)
            )?;
        }
        if subjects.len() > ROWS_MAX {
            writeln!(out, "  and {} more, none of them tighter: --json has all", subjects.len() - ROWS_MAX)?;
        }
    }
    if judged.exceptions_total > 0 {
        writeln!(out, "\npromises that were not kept")?;
        for exception in judged.exceptions.iter().take(EXCEPTIONS_SHOWN_MAX) {
            writeln!(
                out,
                "  {}  {}: {}  {}",
                Timestamp(exception.at),
                shown(&exception.subject),
                said(exception),
                shown(&exception.url)
            )?;
        }
        let listed = judged.exceptions.len().min(EXCEPTIONS_SHOWN_MAX) as u64;
        if judged.exceptions_total > listed {
            writeln!(out, "  and {} more", judged.exceptions_total - listed)?;
        }
    }
    if judged.unjudged > 0 {
        writeln!(out, "{} requests were not judged: too many hosts; narrow it with --host", judged.unjudged)?;
    }
    if about.skipped > 0 {
        writeln!(out, "{} lines of the log cannot be read", about.skipped)?;
    }
    Ok(())
}

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em .2em 0;text-align:left;vertical-align:top}\
td.n,th.n{text-align:right}th{border-bottom:1px solid #888}.bar{background:#369;height:.8em;display:block}\
.bad{color:#a00}.good{color:#060}code{word-break:break-all}";

/// HTML page for the operator of a site.
pub(super) fn html(out: &mut dyn Write, judged: &Judged, about: &About) -> io::Result<()> {
    let title = match &about.host {
        Some(host) => format!("How {} was crawled", escaped(host)),
        None => "How politely we crawled".to_owned(),
    };
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n<h1>{title}</h1>\n"
    )?;
    let class = if judged.is_clean() { "good" } else { "bad" };
    writeln!(out, "<p class=\"{class}\"><strong>{}</strong></p>", escaped(&verdict(judged)))?;
    if let Some((first, last)) = judged.first.zip(judged.last) {
        writeln!(
            out,
            "<p>From {} to {}. Our requests carry this User-Agent: <code>{}</code></p>",
            Timestamp(first),
            Timestamp(last),
            escaped(&about.agent)
        )?;
    }
    let ignored: u64 = judged.hosts.iter().map(|host| host.robots_ignored).sum();
    let denied: u64 = judged.hosts.iter().map(|host| host.robots_denied).sum();
    writeln!(
        out,
        "<p>robots.txt was asked for {} times. {}{}</p>",
        judged.robots,
        if denied > 0 {
            format!("{denied} URLs were not asked for because it forbids them. ")
        } else {
            String::new()
        },
        if ignored == 0 {
            "It was obeyed for every request.".to_owned()
        } else {
            format!("<span class=\"bad\">{ignored} requests were made without it.</span>")
        }
    )?;
    if judged.repeated > 0 {
        writeln!(
            out,
            "<p>{} requests were repeated without a rest, each of them once: the connection had died before an answer came, or \
             your server asked for it (421, or a signature).</p>",
            judged.repeated
        )?;
    }
    writeln!(
        out,
        "<h2>Rests</h2>\n<p>How long a host rested between the end of one request and the beginning of the next, \
         divided by the rest that was promised then. Nothing may be below 1.</p>\n<table>"
    )?;
    let most = judged.histogram.iter().copied().max().unwrap_or(0).max(1);
    for (number, count) in judged.histogram.iter().enumerate() {
        writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{count}</td><td><span class=\"bar\" style=\"width:{}px\"></span></td></tr>",
            part(number),
            count * 300 / most
        )?;
    }
    writeln!(out, "</table>")?;
    for (heading, column, subjects) in
        [("Hosts", "host", &judged.hosts), ("Addresses", "address", &judged.slots)]
    {
        writeln!(
            out,
            "<h2>{heading}</h2>\n<table>\n<tr><th>{column}</th><th class=\"n\">requests</th>\
             <th class=\"n\">closest rest</th><th class=\"n\">promised</th><th class=\"n\">closest starts</th>\
             <th class=\"n\">most at once</th><th class=\"n\">not kept</th>{}</tr>",
            if column == "host" { "<th>robots.txt</th>" } else { "" }
        )?;
        for subject in subjects.iter().filter(|subject| subject.requests > 0).take(ROWS_MAX) {
            row(out, subject, column == "host")?;
        }
        writeln!(out, "</table>")?;
        if subjects.len() > ROWS_MAX {
            writeln!(out, "<p>And {} more, none of them tighter.</p>", subjects.len() - ROWS_MAX)?;
        }
    }
    if judged.exceptions_total > 0 {
        writeln!(
            out,
            "<h2>Promises that were not kept: {}</h2>\n<table>\n<tr><th>when</th><th>where</th><th>what</th>\
             <th>request</th></tr>",
            judged.exceptions_total
        )?;
        for exception in judged.exceptions.iter().take(EXCEPTIONS_SHOWN_MAX) {
            writeln!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
                Timestamp(exception.at),
                escaped(&exception.subject),
                said(exception),
                escaped(&exception.url)
            )?;
        }
        writeln!(out, "</table>")?;
    }
    writeln!(
        out,
        "<h2>How this was made</h2>\n<p>From the log of the crawler, which has a line for every request with its \
         time, how long it took, and the rest that was promised when it began. At most {} request(s) at once were \
         promised to a host and {} to an address (IPv6: a network of 64 bits). Times are those of {}, to the \
         millisecond; your server sees a request later by the time it travels. Your own access log can be judged \
         with <code>nephila politeness check</code>.{}</p>\n<p>Made {} by nephila {}.</p>\n</body>\n</html>",
        judged.host_connections,
        judged.slot_connections,
        match about.folders {
            0 | 1 => "our clock".to_owned(),
            many => format!("the clocks of our {many} machines"),
        },
        if judged.unjudged > 0 {
            format!(" {} requests were not judged.", judged.unjudged)
        } else {
            String::new()
        },
        escaped(&about.made),
        env!("CARGO_PKG_VERSION")
    )
}

/// Last status of robots.txt, and its time.
fn robots(subject: &Subject) -> String {
    match (subject.robots_status, subject.robots_at) {
        (Some(status), Some(at)) => format!("{status}, {}", Timestamp(at)),
        (None, Some(at)) => format!("no answer, {}", Timestamp(at)),
        _ if subject.robots_ignored > 0 => "not asked for".into(),
        _ => "read before".into(),
    }
}

fn row(out: &mut dyn Write, subject: &Subject, is_host: bool) -> io::Result<()> {
    writeln!(
        out,
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>{}</tr>",
        escaped(&subject.name),
        subject.requests,
        ms(subject.rest_ms_min),
        ms(subject.promise_ms_there.or(subject.promise_ms_min)),
        ms(subject.apart_ms_min),
        subject.at_once_max,
        subject.exceptions,
        if is_host { format!("<td>{}</td>", robots(subject)) } else { String::new() }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use nephila_api::judge::Judge;
    use nephila_engine::log::Line;

    fn judged() -> Judged {
        let mut judge = Judge::new(1, 2);
        for at in [0, 2_000, 2_100] {
            judge.line(&Line {
                at,
                took_ms: 50,
                url: "http://a.test/<script>alert(1)</script>\u{202e}".into(),
                origin: "http://a.test".into(),
                address: Some("127.0.0.1".parse().unwrap()),
                host_rest_ms: 1_000,
                robots_obeyed: true,
                ..Line::default()
            });
        }
        judge.finish()
    }

    fn about() -> About {
        About { host: Some("<a>".into()), skipped: 0, folders: 1, made: "now".into(), agent: "Bot".into() }
    }

    #[test]
    fn the_page_has_no_script_and_tells_what_happened() {
        let mut page = Vec::new();
        html(&mut page, &judged(), &about()).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(!page.contains("<script") && !page.contains('\u{202e}') && !page.contains("<a>"), "{page}");
        assert!(page.contains("3 requests, 1 promise was not kept"), "{page}");
        assert!(page.contains("rested 50 ms of 1.00 s"), "{page}");
        assert!(!page.contains("http-equiv") && !page.contains("src="), "nothing is loaded");
    }

    #[test]
    fn the_text_tells_the_same() {
        let mut page = Vec::new();
        text(&mut page, &judged(), &about()).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.starts_with("3 requests, 1 promise was not kept\n"), "{page}");
        assert!(page.contains("below 1") && page.contains("rested 50 ms of 1.00 s"), "{page}");
        assert!(page.contains("obeyed everywhere"), "{page}");
    }
}
