//! Simple regular expressions of clients of Firecrawl as patterns of a scope.
//!
//! Understood are text, `.*`, `.+`, `^`, `$`, and `|` between such expressions. In a pattern a star takes anything, also
//! slashes and colons. So a pattern that is to stay on a host begins with the scheme and the whole authority and a slash,
//! written out: a star before that slash would take other hosts, and the host would be found in their paths.
//!
//! Invariant: the patterns within [`Within::Host`] and [`Within::UrlsOf`] match URLs of this host and of no other.

use super::failure::Failure;
use super::site::parsed;

/// What an expression is compared with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Within<'a> {
    /// The path with its query, on this host with its port, by http and https.
    Host(&'a str),
    /// The path with its query, on the hosts of this domain and perhaps on others: for URLs that are left out.
    Domain(&'a str),
    /// The whole URL, on this host with its port.
    UrlsOf(&'a str),
    /// The whole URL, on any host: for URLs that are left out.
    Urls,
}

/// One expression, without `|`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expression {
    /// Text, with stars for anything.
    text: String,
    from_start: bool,
    to_end: bool,
}

impl Expression {
    /// Reads the expressions between `|`; or why a pattern cannot say the same.
    pub(super) fn read(regex: &str) -> Result<Vec<Expression>, String> {
        let mut all = Vec::new();
        let mut text = String::new();
        let mut letters = regex.chars();
        let (mut from_start, mut to_end) = (false, false);
        let unknown = |what: &str| {
            Err(format!("{what} is not supported: write text, .*, ^, $ and |, and \\ before any other sign"))
        };
        loop {
            let letter = letters.next();
            if to_end && !matches!(letter, None | Some('|')) {
                return unknown("$ before the end");
            }
            match letter {
                None | Some('|') => {
                    if text.trim_matches('*').is_empty() {
                        return Err("it matches every URL: leave it out".to_owned());
                    }
                    all.push(Expression { text, from_start, to_end });
                    (text, from_start, to_end) = (String::new(), false, false);
                    if letter.is_none() {
                        return Ok(all);
                    }
                }
                Some('^') if text.is_empty() && !from_start => from_start = true,
                Some('$') => to_end = true,
                Some('.') => match letters.next() {
                    Some('*' | '+') => {
                        text.push('*');
                        // Not greedy is the same here.
                        if letters.as_str().starts_with('?') {
                            letters.next();
                        }
                    }
                    _ => return unknown("a dot for any letter"),
                },
                Some('\\') => match letters.next() {
                    Some(sign) if sign.is_ascii_punctuation() && !"*^$".contains(sign) => text.push(sign),
                    _ => return unknown("this \\"),
                },
                Some(sign) if "*+?()[]{}^".contains(sign) => return unknown(&format!("the sign {sign}")),
                Some(sign) => text.push(sign),
            }
        }
    }

    /// The patterns that match the same; or why there are none.
    pub(super) fn patterns(&self, within: Within<'_>) -> Result<Vec<String>, String> {
        let end = if self.to_end { "$" } else { "" };
        match within {
            Within::Host(host) | Within::UrlsOf(host) if host.contains('*') => {
                Err(format!("the host {host} has a *, which a pattern takes for anything"))
            }
            Within::Host(host) => {
                self.in_paths(&["http", "https"].map(|scheme| format!("^{scheme}://{host}")))
            }
            // Other ports belong to the domain.
            Within::Domain(domain) => {
                self.in_paths(&["", ":*"].map(|port| format!("^http*://*{domain}{port}")))
            }
            Within::UrlsOf(host) => {
                let is_of = |scheme: &str| self.text.starts_with(&format!("{scheme}://{host}/"));
                match self.from_start && (is_of("http") || is_of("https")) {
                    true => Ok(vec![format!("^{}{end}", self.text)]),
                    false => Err(format!(
                        "it may match URLs of other hosts: begin it with ^http://{host}/ or ^https://{host}/, or leave \
                         out regexOnFullURL"
                    )),
                }
            }
            Within::Urls => {
                let start = if self.from_start { "^" } else { "" };
                Ok(vec![format!("{start}{}{end}", self.text)])
            }
        }
    }

    /// The patterns for paths behind these beginnings, each of which ends with an authority.
    fn in_paths(&self, sites: &[String]) -> Result<Vec<String>, String> {
        let end = if self.to_end { "$" } else { "" };
        // `^.*text` is `text`.
        let text = self.text.trim_start_matches('*');
        let from_start = self.from_start && text.len() == self.text.len();
        if from_start && !text.starts_with('/') {
            return Err("behind ^ stands a path, which begins with a slash".to_owned());
        }
        let mut all = Vec::new();
        for site in sites {
            if text.starts_with('/') {
                all.push(format!("{site}{text}{end}"));
            }
            if !from_start {
                all.push(format!("{site}/*{text}{end}"));
            }
        }
        Ok(all)
    }
}

/// Patterns of paths, as a scope writes them, as patterns of URLs on the host of this URL and on no other.
pub fn paths_of_host(url: &str, patterns: &[String]) -> Result<Vec<String>, Failure> {
    let seed = parsed(url)?;
    let mut all = Vec::new();
    for pattern in patterns {
        let wrong = |why: &str| Failure::wrong(format!("the pattern {pattern:?}: {why}"));
        let (text, to_end) = pattern.strip_suffix('$').map_or((pattern.as_str(), false), |text| (text, true));
        let (text, from_start) = text.strip_prefix('^').map_or((text, false), |text| (text, true));
        if text.trim_matches('*').is_empty() {
            return Err(wrong("it matches every URL: leave it out"));
        }
        if text.contains("://") {
            return Err(wrong("write the path alone, such as /blog/: the host is that of the URL"));
        }
        let expression = Expression { text: text.to_owned(), from_start, to_end };
        all.extend(expression.patterns(Within::Host(seed.authority())).map_err(|why| wrong(&why))?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use nephila_core::job::Pattern;
    use nephila_core::url::CrawlUrl;

    use super::*;

    const HOST: Within<'static> = Within::Host("a.test:8080");
    const BASE: &str = "http://a.test:8080";

    fn patterns(regex: &str, within: Within<'_>) -> Result<Vec<String>, String> {
        let mut all = Vec::new();
        for expression in Expression::read(regex)? {
            all.extend(expression.patterns(within)?);
        }
        Ok(all)
    }

    /// URLs that match, and URLs that do not, all behind `base`.
    fn check(regex: &str, within: Within<'_>, base: &str, yes: &[&str], no: &[&str]) {
        let patterns = patterns(regex, within).unwrap();
        let matches = |rest: &&str| {
            let url = CrawlUrl::parse(&format!("{base}{rest}")).unwrap();
            patterns.iter().any(|text| Pattern::parse(text).unwrap().matches(url.key()))
        };
        assert!(yes.iter().all(matches), "{regex}: {patterns:?} {yes:?}");
        assert!(!no.iter().any(matches), "{regex}: {patterns:?} {no:?}");
    }

    #[test]
    fn simple_expressions_become_patterns_and_others_are_refused() {
        let path = |regex: &str| patterns(regex, Within::Host("a.test")).map(|all| all.join(" "));
        assert_eq!(path("blog/.*"), Ok("^http://a.test/*blog/* ^https://a.test/*blog/*".into()));
        let docs = "^http://a.test/docs/*.html$ ^https://a.test/docs/*.html$";
        assert_eq!(path("^/docs/.+?\\.html$"), Ok(docs.into()));
        assert_eq!(path("^/a|^/b").unwrap().split(' ').count(), 4);
        let whole = patterns("^https://a\\.test/x", Within::UrlsOf("a.test"));
        assert_eq!(whole, Ok(vec!["^https://a.test/x".into()]));
        assert_eq!(patterns("\\?", Within::Urls), Ok(vec!["?".into()]));
        for other in
            ["", ".*", "^$", "a.b", "(a|b)", "[0-9]+", "a?", "a{2}", "\\d", "a$b", "a\\*", "^docs/", "^@b/"]
        {
            assert!(path(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_pattern_finds_what_its_expression_finds() {
        let all = |regex: &str, yes: &[&str], no: &[&str]| check(regex, HOST, BASE, yes, no);
        all("blog/", &["/blog/", "/x/blog/y", "/myblog/"], &["/blog", "/"]);
        all("/blog", &["/blog", "/x/blog?y"], &["/myblog"]);
        all("^/blog", &["/blog", "/blogs/x"], &["/x/blog"]);
        all("^.*/blog$", &["/blog", "/x/blog"], &["/blog/x"]);
        all("^/$", &["/"], &["/x"]);
        all("^/a|c$", &["/ab", "/xc"], &["/xa"]);
        check("^/blog", HOST, "https://a.test", &[":8080/blog"], &["/blog", ":80/blog"]);
    }

    #[test]
    fn no_pattern_that_brings_urls_in_leaves_the_host() {
        let others = [
            "a.test.evil.test/blog/",
            "a.test/blog/",
            "a.test:808/blog/",
            "nota.test:8080/blog/",
            "x.a.test:8080/blog/",
            "evil.test/?u=http://a.test:8080/blog/",
            "evil.test/http://a.test:8080/blog/",
            "evil.test:8080/blog/",
        ];
        for regex in ["blog/", "/blog/", "^/blog/", "^.*blog/", ".*blog/.*", "blog|x", "/blog/$"] {
            check(regex, HOST, "http://", &["a.test:8080/blog/"], &others);
            check(regex, HOST, "https://", &["a.test:8080/blog/"], &others);
            let without = ["a.test.evil.test/blog/", "a.test:8080/blog/", "evil.test/?u=http://a.test/blog/"];
            check(regex, Within::Host("a.test"), "http://", &["a.test/blog/"], &without);
        }
        let urls = Within::UrlsOf("a.test:8080");
        check("^http://a\\.test:8080/.*blog", urls, "http://", &["a.test:8080/x/blog"], &others);
        for wide in
            ["/article/.*", "^.*/article/", "^http://a\\.test", "^http.*://a\\.test:8080/", "a\\.test"]
        {
            assert!(patterns(wide, urls).unwrap_err().contains("other hosts"), "{wide}");
        }
        assert!(patterns("/x", Within::Host("a*.test")).is_err());
    }

    #[test]
    fn what_is_left_out_is_left_out_on_all_hosts_of_a_domain() {
        let domain = Within::Domain("a.test");
        let urls = ["a.test/no/x", "b.a.test/no/", "b.a.test:81/no/"];
        check("^/no/", domain, "http://", &urls, &["b.a.test/yes/", "a.test/x/no/"]);
        check("no/", domain, "https://", &urls, &["b.a.test/yes/"]);
        check("/no/", Within::Urls, "http://", &["c.test/no/"], &["c.test/yes/"]);
    }

    #[test]
    fn patterns_of_paths_stay_on_the_host_of_the_url() {
        let of = |pattern: &str| paths_of_host("http://a.test:8080/x", &[pattern.to_owned()]);
        assert_eq!(of("^/blog/").unwrap(), ["^http://a.test:8080/blog/", "^https://a.test:8080/blog/"]);
        for pattern in ["/blog/", "blog", "*blog*", "/blog$"] {
            let all: Vec<Pattern> =
                of(pattern).unwrap().iter().map(|text| Pattern::parse(text).unwrap()).collect();
            let takes = |url: &str| all.iter().any(|one| one.matches(CrawlUrl::parse(url).unwrap().key()));
            assert!(takes("http://a.test:8080/blog/") || takes("https://a.test:8080/de/blog"), "{pattern}");
            for other in
                ["http://b.test/blog/", "http://a.test.evil/blog/", "http://evil/?u=http://a.test:8080/blog/"]
            {
                assert!(!takes(other), "{pattern} takes {other}");
            }
        }
        for wrong in ["*", "", "^", "https://b.test/blog/", "^blog"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
