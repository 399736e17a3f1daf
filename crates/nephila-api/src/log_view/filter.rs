//! Which lines of the crawl log are wanted.

use nephila_core::time::Timestamp;
use nephila_engine::log::Line;

/// Filter for lines.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    host: Option<String>,
    outcomes: Vec<String>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
}

impl Filter {
    /// Lines of this host, as a person writes a host.
    pub fn of_host(host: Option<&str>) -> Filter {
        Filter { host: host.map(|host| host.trim_end_matches('/').to_ascii_lowercase()), ..Filter::default() }
    }

    /// Lines of requests that began between these times.
    pub fn between(self, from: Option<Timestamp>, to: Option<Timestamp>) -> Filter {
        Filter { from, to, ..self }
    }

    /// Lines with one of these outcomes: the name or the class of an outcome, or a status. All lines if there are none.
    pub fn with_outcomes(self, outcomes: Vec<String>) -> Filter {
        Filter { outcomes, ..self }
    }

    /// A text that every matching line has, if there is one.
    pub(crate) fn needle(&self) -> Option<&str> {
        // An origin is written as in the line; an address may be written with or without brackets.
        self.host.as_deref().map(|host| host.trim_matches(['[', ']'])).filter(|host| is_plain(host))
    }

    /// Whether the host of this origin matches.
    pub fn takes_origin(&self, origin: &str) -> bool {
        self.host.as_deref().is_none_or(|host| is_host(origin, host))
    }

    /// Whether the line matches.
    pub fn takes(&self, line: &Line) -> bool {
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

/// Whether a text stands in JSON as it is.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(outcome: &str, status: Option<u16>) -> Line {
        Line {
            at: 1_794_697_089_123,
            origin: "http://a.test:8080".into(),
            outcome: outcome.into(),
            class: "ok".into(),
            status,
            took_ms: 456,
            ..Line::default()
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
    fn a_needle_is_in_every_line_that_matches() {
        let json = String::from_utf8(line("ok", None).json()).unwrap();
        for host in ["a.test", "a.test:8080", "http://a.test:8080/", "A.test"] {
            let filter = Filter::of_host(Some(host));
            assert!(filter.takes(&line("ok", None)) && json.contains(filter.needle().unwrap()), "{host}");
        }
        assert_eq!(Filter::of_host(Some("[::1]")).needle(), Some("::1"));
        assert_eq!(Filter::of_host(Some("a\"b")).needle(), None);
        assert_eq!(Filter::default().needle(), None);
    }
}
