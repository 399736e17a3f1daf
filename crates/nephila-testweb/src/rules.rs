//! A small reader of robots.txt, for ground truth and for judging a crawler from outside.
//!
//! Written from RFC 9309 alone, without code of any crawler, so that a misreading on one side shows as a difference.
//! Obviously right is preferred over quick: a rule is tried against a path by trying every stretch a `*` may cover.
//!
//! Invariant: `/robots.txt` itself is allowed, and so is everything that no rule names.

use std::time::Duration;

/// Rules read from one file; RFC 9309, 2.5 lets a crawler stop after 500 KiB, ours are far smaller.
const TEXT_BYTES_MAX: usize = 512 * 1024;

/// The rules of one robots.txt that concern one crawler.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rules {
    rules: Vec<(bool, String)>,
    crawl_delay: Option<Duration>,
}

impl Rules {
    /// Everything is allowed, as when there is no file.
    pub fn allow_all() -> Rules {
        Rules::default()
    }

    /// Nothing is allowed, as when the file cannot be had.
    pub fn deny_all() -> Rules {
        Rules { rules: vec![(false, "/".to_owned())], crawl_delay: None }
    }

    /// The rules for the crawler with this product token: the rules of all groups that name the token, otherwise the
    /// rules of all groups for `*`.
    pub fn parse(text: &str, agent: &str) -> Rules {
        let mut named = Rules::default();
        let mut anybody = Rules::default();
        let mut is_named = false;
        // Whether the group that is being read concerns us, by name and by `*`, and whether its head is over.
        let (mut for_us, mut for_all, mut in_rules) = (false, false, false);
        let end =
            (0..=TEXT_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        for line in text[..end].split(['\n', '\r']) {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "user-agent" => {
                    if in_rules {
                        (for_us, for_all, in_rules) = (false, false, false);
                    }
                    for_us |= value.eq_ignore_ascii_case(agent);
                    for_all |= value == "*";
                    is_named |= for_us;
                }
                "allow" | "disallow" => {
                    in_rules = true;
                    if value.is_empty() {
                        continue;
                    }
                    let rule = (key == "allow", value.to_owned());
                    if for_us {
                        named.rules.push(rule.clone());
                    }
                    if for_all {
                        anybody.rules.push(rule);
                    }
                }
                "crawl-delay" => {
                    in_rules = true;
                    let seconds = value.parse::<f64>().ok().filter(|delay| (0.0..1e6).contains(delay));
                    let delay = seconds.map(Duration::from_secs_f64);
                    if for_us {
                        named.crawl_delay = delay;
                    }
                    if for_all {
                        anybody.crawl_delay = delay;
                    }
                }
                _ => {}
            }
        }
        if is_named { named } else { anybody }
    }

    /// Whether a path (with its query) may be fetched: the longest rule that fits decides, `Allow` when two are
    /// equally long.
    pub fn allows(&self, path: &str) -> bool {
        if path == "/robots.txt" {
            return true;
        }
        let mut best: Option<(usize, bool)> = None;
        for (allow, pattern) in &self.rules {
            if fits(pattern.as_bytes(), path.as_bytes()) {
                let found = (pattern.len(), *allow);
                best = Some(best.map_or(found, |best| best.max(found)));
            }
        }
        best.is_none_or(|(_, allow)| allow)
    }

    /// The `Crawl-delay`, if the file has one.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }
}

/// Whether a pattern covers the beginning of a path, or the whole path if the pattern ends in `$`.
fn fits(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => true,
        [b'$'] => path.is_empty(),
        [b'*', rest @ ..] => (0..=path.len()).any(|skip| fits(rest, &path[skip..])),
        [first, rest @ ..] => path.first() == Some(first) && fits(rest, &path[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, path: &str) -> bool {
        Rules::parse(text, "nephila").allows(path)
    }

    #[test]
    fn the_longest_rule_decides_and_allow_wins_a_tie() {
        let text = "user-agent: *\ndisallow: /a\nallow: /a/b\ndisallow: /a/b/c\nallow: /t\ndisallow: /t\n";
        assert!(!check(text, "/a"));
        assert!(check(text, "/a/b/x"));
        assert!(!check(text, "/a/b/c"));
        assert!(check(text, "/t"));
        assert!(check(text, "/"));
    }

    #[test]
    fn wildcards_cover_anything_and_dollars_mean_the_end() {
        let text = "User-Agent: *\nDisallow: /*.gif$\nDisallow: /x*y\n";
        assert!(!check(text, "/a/b.gif"));
        assert!(check(text, "/a/b.gif?x"));
        assert!(!check(text, "/x123yz"));
        assert!(check(text, "/xz"));
    }

    #[test]
    fn a_group_of_ones_own_replaces_the_one_for_all() {
        let text = "User-agent: *\nDisallow: /\n\nUser-agent: other\nUser-agent: NEPHILA\nDisallow: /a\n\
                    \nUser-agent: nephila\nDisallow: /b\nCrawl-delay: 1.5\n";
        assert!(check(text, "/c") && !check(text, "/a") && !check(text, "/b"));
        assert!(!Rules::parse(text, "stranger").allows("/c"));
        assert_eq!(Rules::parse(text, "nephila").crawl_delay(), Some(Duration::from_millis(1500)));
        // A group without a single rule still counts as one's own.
        assert!(check("User-agent: *\nDisallow: /\n\nUser-agent: nephila\nDisallow:\n", "/x"));
    }

    #[test]
    fn robots_txt_itself_is_always_allowed() {
        assert!(Rules::deny_all().allows("/robots.txt"));
        assert!(!Rules::deny_all().allows("/"));
        assert!(Rules::allow_all().allows("/anything"));
    }
}
