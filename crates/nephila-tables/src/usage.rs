//! Statements about the use of a page, from the verbatim lines of its metadata record to yes, no or nothing.
//!
//! Understood are `Content-Usage` of the IETF's AI preferences (`train-ai=n`, in robots.txt after an optional path),
//! `Content-Signal` (`ai-train=no, search=yes`), `tdm-reservation` and `tdm-policy` of TDMRep, and the words `noai` and
//! `noimageai` of a page. Of several statements about one use the most restrictive counts: a page cannot be used by
//! mistake because two sources contradict each other.

/// What was said about the uses of a page. None: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Training of AI.
    pub train_ai: Option<bool>,
    /// Search.
    pub search: Option<bool>,
    /// Text and data mining.
    pub tdm: Option<bool>,
    /// Policy for text and data mining.
    pub tdm_policy: Option<String>,
}

impl Usage {
    /// Takes a line such as `robots.txt content-usage: /a train-ai=n`, for a page with this path and query.
    pub fn handle_line(&mut self, line: &str, path: &str) {
        let Some((source, statement)) = line.split_once(' ') else { return };
        let Some((name, value)) = statement.split_once(": ") else { return };
        let value = value.trim();
        match (source, name.to_ascii_lowercase().as_str()) {
            ("robots.txt", "content-usage" | "content-signal") if value.starts_with('/') => {
                let (prefix, rest) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
                if matches(prefix, path) {
                    self.preferences(rest);
                }
            }
            (_, "content-usage" | "content-signal") => self.preferences(value),
            (_, "tdm-reservation") => match value {
                "1" => restrict(&mut self.tdm, false),
                "0" => restrict(&mut self.tdm, true),
                _ => {}
            },
            (_, "tdm-policy") if self.tdm_policy.is_none() => self.tdm_policy = Some(value.to_owned()),
            (_, "robots") if matches!(value, "noai" | "noimageai") => restrict(&mut self.train_ai, false),
            _ => {}
        }
    }

    fn preferences(&mut self, text: &str) {
        for part in text.split([',', ';']) {
            let Some((name, value)) = part.split_once('=') else { continue };
            let says = match value.trim().to_ascii_lowercase().as_str() {
                "y" | "yes" => true,
                "n" | "no" => false,
                _ => continue,
            };
            match name.trim().to_ascii_lowercase().as_str() {
                "train-ai" | "ai-train" | "train-genai" => restrict(&mut self.train_ai, says),
                "search" => restrict(&mut self.search, says),
                "bots" | "all" => {
                    restrict(&mut self.train_ai, says);
                    restrict(&mut self.search, says);
                }
                _ => {}
            }
        }
    }
}

/// No wins over yes, and both over nothing.
fn restrict(use_of: &mut Option<bool>, says: bool) {
    *use_of = Some(use_of.unwrap_or(true) && says);
}

/// Whether a path of robots.txt covers this one. Of a pattern, the part before its first wildcard counts.
fn matches(prefix: &str, path: &str) -> bool {
    match prefix.strip_suffix('$') {
        Some(whole) if !whole.contains('*') => path == whole,
        _ => path.starts_with(prefix.split(['*', '$']).next().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str], train_ai: Option<bool>, search: Option<bool>, tdm: Option<bool>) {
        let mut usage = Usage::default();
        lines.iter().for_each(|line| usage.handle_line(line, "/a/b"));
        assert_eq!((usage.train_ai, usage.search, usage.tdm), (train_ai, search, tdm), "{lines:?}");
    }

    #[test]
    fn statements_become_yes_or_no() {
        check(&[], None, None, None);
        check(&["page content-usage: train-ai=n, search=y"], Some(false), Some(true), None);
        check(&["robots.txt Content-Signal: ai-train=no; search=yes"], Some(false), Some(true), None);
        check(&["robots.txt content-usage: /a train-ai=y"], Some(true), None, None);
        check(&["robots.txt content-usage: /b train-ai=n"], None, None, None);
        check(&["robots.txt content-usage: /a/b$ train-ai=n"], Some(false), None, None);
        check(&["page robots: noai", "robots.txt content-usage: train-ai=y"], Some(false), None, None);
        check(&["page tdm-reservation: 1", "page tdm-reservation: 0"], None, None, Some(false));
        check(&["page content-usage: train-ai=perhaps", "nonsense", "page x"], None, None, None);
    }

    #[test]
    fn the_first_policy_is_kept() {
        let mut usage = Usage::default();
        usage.handle_line("page tdm-policy: https://a.test/1", "/");
        usage.handle_line("page tdm-policy: https://a.test/2", "/");
        assert_eq!(usage.tdm_policy.as_deref(), Some("https://a.test/1"));
    }
}
