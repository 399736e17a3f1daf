//! How often each rule of a job's scope decided, with examples of what it rejected.
//!
//! Links out of scope are not stored one by one; an operator who edits the rules still wants to see what they reject.
//! Each job has a counter per rule, and a reservoir of rejected URLs per rule: a fair sample of all of them, however
//! many there are. Kept in memory, since the start of the process or the last change of the rules.
//!
//! Invariant: memory is bounded by [`RULES_MAX`], [`EXAMPLES_MAX`] and [`EXAMPLE_BYTES_MAX`].

use std::collections::BTreeMap;
use std::sync::Mutex;

use nephila_core::job::{Rule, Rules, ScopeVerdict};
use nephila_core::trap::Trap;
use nephila_core::url::CrawlUrl;

/// Maximum number of rules that are counted apart.
pub const RULES_MAX: usize = 2_100;
/// Maximum number of examples of rejected URLs per rule.
pub const EXAMPLES_MAX: usize = 100;
/// Maximum length of an example in bytes. A longer URL is cut.
pub const EXAMPLE_BYTES_MAX: usize = 2_048;

/// What decided about a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Decider {
    /// A rule of the scope.
    Rule(Rule),
    /// A trap, by its name.
    Trap(&'static str, &'static str),
}

/// The count of a rule.
#[derive(Clone, Debug, Default)]
struct Counted {
    wanted: bool,
    hits: u64,
    examples: Vec<Box<str>>,
}

/// A rule with its count, for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCount {
    /// The rule in words.
    pub rule: String,
    /// Where the rule comes from: a pattern, a setting, or `trap`.
    pub origin: String,
    /// Whether the rule lets URLs in.
    pub wanted: bool,
    /// Number of links about which the rule decided.
    pub hits: u64,
    /// A sample of the rejected URLs, each once.
    pub examples: Vec<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Verdicts(Mutex<BTreeMap<Decider, Counted>>);

impl Verdicts {
    fn note(&self, decider: Decider, wanted: bool, url: &CrawlUrl) {
        let mut counts = self.0.lock().expect("nobody panics holding it");
        if counts.len() >= RULES_MAX && !counts.contains_key(&decider) {
            return;
        }
        let count = counts.entry(decider).or_default();
        count.wanted = wanted;
        count.hits += 1;
        if !wanted && let Some(place) = place(count.hits) {
            let url = url.as_str();
            let example: Box<str> = url[..url.floor_char_boundary(EXAMPLE_BYTES_MAX)].into();
            // A menu has the same link on every page.
            if count.examples.contains(&example) {
                return;
            }
            match count.examples.get_mut(place) {
                Some(other) => *other = example,
                None => count.examples.push(example),
            }
        }
    }

    /// Counts a verdict of the scope.
    pub fn judged(&self, url: &CrawlUrl, verdict: &ScopeVerdict) {
        // A million seeds are one rule.
        let rule = match verdict.rule {
            Rule::Within(_) => Rule::Within(0),
            rule => rule,
        };
        self.note(Decider::Rule(rule), verdict.is_in(), url);
    }

    /// Counts a URL that was rejected as a trap.
    pub fn trapped(&self, url: &CrawlUrl, trap: Trap) {
        self.note(Decider::Trap(trap.name(), trap.meaning()), false, url);
    }

    /// The counts of all rules that decided, the most frequent first.
    pub fn all(&self, rules: &Rules) -> Vec<RuleCount> {
        let counts = self.0.lock().expect("nobody panics holding it").clone();
        let of = |(decider, count): (Decider, Counted)| {
            let (rule, origin) = match decider {
                Decider::Rule(rule @ Rule::Within(_)) => (rules.text(rule), "seeds".to_owned()),
                Decider::Rule(rule) => (rules.text(rule), rules.origin(rule)),
                Decider::Trap(name, meaning) => (format!("{name}: {}", meaning.trim()), "trap".to_owned()),
            };
            let examples = count.examples.into_iter().map(String::from).collect();
            RuleCount { rule, origin, wanted: count.wanted, hits: count.hits, examples }
        };
        let mut all: Vec<RuleCount> = counts.into_iter().map(of).collect();
        all.sort_by(|a, b| b.hits.cmp(&a.hits).then_with(|| a.rule.cmp(&b.rule)));
        all
    }
}

/// The place of the `hit`-th URL in a reservoir; none if the URL is not kept. The chance comes from the number of the
/// hit alone, so nobody can choose what is kept by choosing URLs.
fn place(hit: u64) -> Option<usize> {
    let max = EXAMPLES_MAX as u64;
    let place = if hit <= max { hit - 1 } else { mix(hit) % hit };
    (place < max).then_some(place as usize)
}

/// A well mixed number (SplitMix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use nephila_core::job::{FoundBy, Kind, Scope};
    use nephila_core::url::KeyRules;

    use super::*;

    fn rules() -> Rules {
        let scope = Scope {
            kind: Kind::Host,
            seeds: vec!["http://a.test/".into(), "http://b.test/".into()],
            exclude: vec!["/cart".into()],
            ..Scope::default()
        };
        scope.resolve(&KeyRules::default()).unwrap()
    }

    fn look(verdicts: &Verdicts, rules: &Rules, text: &str) {
        let url = CrawlUrl::parse(text).unwrap();
        verdicts.judged(&url, &rules.verdict(&url, FoundBy::link(1, 0)));
    }

    #[test]
    fn each_rule_is_counted_and_shows_what_it_rejected() {
        let (verdicts, rules) = (Verdicts::default(), rules());
        for url in ["http://a.test/x", "http://b.test/x", "http://a.test/cart", "http://c.test/<script>"] {
            look(&verdicts, &rules, url);
        }
        let all = verdicts.all(&rules);
        let shown: Vec<(&str, &str, bool, u64)> =
            all.iter().map(|count| (&*count.rule, &*count.origin, count.wanted, count.hits)).collect();
        assert_eq!(
            shown,
            [
                ("scope=host", "seeds", true, 2),
                ("exclude /cart", "exclude #1", false, 1),
                ("scope=host of 2 places", "scope", false, 1)
            ]
        );
        assert!(all[0].examples.is_empty(), "what is wanted is in the frontier");
        assert_eq!(all[1].examples, ["http://a.test/cart"]);
        assert_eq!(all[2].examples, ["http://c.test/%3Cscript%3E"]);
    }

    #[test]
    fn a_link_that_stands_on_every_page_is_one_example() {
        let (verdicts, rules) = (Verdicts::default(), rules());
        for number in 0..900 {
            look(&verdicts, &rules, ["http://c.test/1", "http://c.test/2", "http://c.test/3"][number % 3]);
        }
        let all = verdicts.all(&rules);
        assert_eq!((all[0].hits, all[0].examples.len()), (900, 3));
    }

    #[test]
    fn a_reservoir_is_bounded_and_fair() {
        let (verdicts, rules) = (Verdicts::default(), rules());
        let long = "y".repeat(3 * EXAMPLE_BYTES_MAX);
        look(&verdicts, &rules, &format!("http://c.test/{long}"));
        for number in 0..20_000 {
            look(&verdicts, &rules, &format!("http://c.test/{number}"));
        }
        let all = verdicts.all(&rules);
        assert_eq!((all[0].hits, all[0].examples.len()), (20_001, EXAMPLES_MAX));
        assert!(all[0].examples.iter().all(|example| example.len() <= EXAMPLE_BYTES_MAX));
        let late =
            all[0].examples.iter().filter_map(|example| example.rsplit('/').next()?.parse::<u32>().ok());
        let late = late.filter(|number| *number >= 10_000).count();
        assert!((25..=75).contains(&late), "half of the examples are of the second half: {late}");
    }

    #[test]
    fn traps_are_counted_like_rules() {
        let (verdicts, rules) = (Verdicts::default(), rules());
        let url = CrawlUrl::parse("http://a.test/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/").unwrap();
        let trap = nephila_core::trap::judge(&url, &nephila_core::trap::Settings::default()).unwrap();
        verdicts.trapped(&url, trap);
        let all = verdicts.all(&rules);
        assert_eq!((&*all[0].origin, all[0].hits, all[0].examples.len()), ("trap", 1, 1));
    }
}
