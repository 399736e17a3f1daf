//! Scope: which URLs a job wants, and the rule that decided.
//!
//! [`Scope`] is the text of the operator. [`Scope::resolve`] turns a scope into [`Rules`] once. The rules judge each
//! discovery at the place of discovery, so rejected URLs never travel. The rules apply in this order, and the first
//! that matches decides:
//!
//! 1. `exclude` keeps a URL out, from any source.
//! 2. A seed is in.
//! 3. A URL deeper than `depth_max` is out.
//! 4. A URL within the kind of scope around a seed is in.
//! 5. `include` brings a URL in.
//! 6. The target of a seed's redirect is in, within the seed's registrable domain.
//! 7. `extra_hops` lets this number of links in a row lead out of all this. A redirect from a URL out there is no further
//!    link.
//! 8. Everything else is out.
//!
//! http and https are one site here: a scope that begins with http does not end when the site moves to https.
//!
//! Invariants: a verdict takes one search in a sorted map, however many seeds there are, and one pass over the URL for
//! each pattern; the same rules and URL give the same verdict, so a verdict can be explained at any time.

mod index;
mod listed;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::url::{CrawlUrl, KeyRules, UrlError};

use super::Pattern;
use index::{Index, bare, domain_of};
pub use listed::Listed;

/// Maximum number of seeds of one job. A longer list is offered through intake, under a scope of `any` or `include`.
pub const SEEDS_MAX: usize = 2_000_000;

/// Maximum number of patterns of `include`, and of `exclude`.
pub const PATTERNS_MAX: usize = 1_000;

/// Which URLs a job wants, as written by the operator.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scope {
    /// Wanted URLs around each seed: `page`, `prefix`, `host`, `domain` or `any`.
    pub kind: Kind,
    /// The URLs at which the job begins.
    pub seeds: Vec<String>,
    /// Patterns that bring a URL into scope: text that stands in the URL, `*` for anything, `^` and `$` for the ends.
    pub include: Vec<String>,
    /// Patterns that keep a URL out of scope. They win over everything else.
    pub exclude: Vec<String>,
    /// Maximum number of links in a row that are followed out of scope.
    pub extra_hops: u8,
    /// Maximum link depth from a seed. 0: the seeds alone; 255: no limit.
    pub depth_max: u8,
}

impl Default for Scope {
    fn default() -> Self {
        Scope {
            kind: Kind::Prefix,
            seeds: Vec::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            extra_hops: 0,
            depth_max: 20,
        }
    }
}

/// The wanted URLs around a seed.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The seed alone.
    Page,
    /// Everything in the seed's folder: its URL up to the last slash of the path.
    #[default]
    Prefix,
    /// The seed's host and port.
    Host,
    /// The seed's registrable domain with all hosts in it. For an address or a name without a registrable domain, that
    /// host alone.
    Domain,
    /// Everything.
    Any,
}

impl Kind {
    /// The kind as one word.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Page => "page",
            Kind::Prefix => "prefix",
            Kind::Host => "host",
            Kind::Domain => "domain",
            Kind::Any => "any",
        }
    }
}

/// Why a scope cannot be resolved. The operator has to change the scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// A pattern that would match everything.
    #[error("a pattern is empty")]
    PatternEmpty,
    /// A pattern longer than [`super::PATTERN_BYTES_MAX`].
    #[error("a pattern is longer than {} bytes", super::PATTERN_BYTES_MAX)]
    PatternTooLong,
    /// More than [`PATTERNS_MAX`] patterns.
    #[error("more than {PATTERNS_MAX} patterns")]
    Patterns,
    /// More than [`SEEDS_MAX`] seeds.
    #[error("more than {SEEDS_MAX} seeds")]
    Seeds,
}

/// A seed that is no URL that can be fetched. The other seeds stay valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSeed {
    /// The number of the seed, counted from 1.
    pub number: u32,
    /// The error.
    pub error: UrlError,
}

impl Scope {
    /// Resolves the scope into rules. `keys` are the rules with which the job's URLs are parsed.
    pub fn resolve(&self, keys: &KeyRules) -> Result<Rules, ScopeError> {
        let (include, exclude) = self.patterns()?;
        let mut rules = Rules {
            kind: self.kind,
            index: Index::default(),
            listed: None,
            bad_seeds: Vec::new(),
            include,
            exclude,
            extra_hops: self.extra_hops,
            depth_max: self.depth_max,
        };
        for (number, seed) in (1..).zip(&self.seeds) {
            match CrawlUrl::parse_with(seed.trim(), keys) {
                Ok(seed) => rules.index.insert(self.kind, &seed, number),
                Err(error) => rules.bad_seeds.push(BadSeed { number, error }),
            }
        }
        Ok(rules)
    }

    /// Checks whether the scope resolves. Seeds are counted, not parsed.
    pub fn check(&self) -> Result<(), ScopeError> {
        self.patterns().map(drop)
    }

    fn patterns(&self) -> Result<(Vec<Pattern>, Vec<Pattern>), ScopeError> {
        if self.seeds.len() > SEEDS_MAX {
            return Err(ScopeError::Seeds);
        }
        if self.include.len() > PATTERNS_MAX || self.exclude.len() > PATTERNS_MAX {
            return Err(ScopeError::Patterns);
        }
        let parse = |texts: &[String]| -> Result<Vec<Pattern>, ScopeError> {
            texts.iter().map(|text| Pattern::parse(text)).collect()
        };
        Ok((parse(&self.include)?, parse(&self.exclude)?))
    }
}

/// How a URL was found, as far as the scope needs to know.
#[derive(Clone, Copy, Debug)]
pub struct FoundBy<'a> {
    /// The kind of source.
    pub how: How<'a>,
    /// Link depth from a seed; 255 stands for that many or more.
    pub depth: u8,
    /// Links in a row out of scope that led to the page of the discovery: that page's own [`Decision::In`].
    pub hops_out: u8,
}

/// The kind of source that named a URL.
#[derive(Clone, Copy, Debug)]
pub enum How<'a> {
    /// The operator.
    Seed,
    /// A page, feed or sitemap.
    Link,
    /// A redirect from a URL that is no seed.
    Redirect,
    /// A redirect from this seed.
    SeedRedirect(&'a CrawlUrl),
}

impl<'a> FoundBy<'a> {
    /// The operator named the URL.
    pub const fn seed() -> Self {
        FoundBy { how: How::Seed, depth: 0, hops_out: 0 }
    }

    /// Found on a page. `depth` is the depth of the URL, `hops_out` belongs to the page.
    pub const fn link(depth: u8, hops_out: u8) -> Self {
        FoundBy { how: How::Link, depth, hops_out }
    }

    /// Another URL redirects to the URL. `depth` and `hops_out` belong to the former.
    pub const fn redirect(depth: u8, hops_out: u8) -> Self {
        FoundBy { how: How::Redirect, depth, hops_out }
    }

    /// A seed redirects to the URL.
    pub const fn seed_redirect(seed: &'a CrawlUrl, depth: u8) -> Self {
        FoundBy { how: How::SeedRedirect(seed), depth, hops_out: 0 }
    }
}

/// Whether a URL is wanted, and the rule that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeVerdict {
    /// Whether the URL is wanted.
    pub decision: Decision,
    /// The rule that decided.
    pub rule: Rule,
}

impl ScopeVerdict {
    /// Whether the URL is wanted.
    pub fn is_in(&self) -> bool {
        matches!(self.decision, Decision::In { .. })
    }
}

/// Whether a URL is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The URL is wanted.
    In {
        /// Links in a row out of scope that led here; 0 for a URL in scope. Kept with the URL.
        hops_out: u8,
    },
    /// The URL is not wanted.
    Out,
}

/// The rule that decided. Patterns and seeds are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// This pattern of `exclude`.
    Exclude(u32),
    /// The URL is a seed.
    Seed,
    /// `depth_max`.
    Depth,
    /// The URL lies within the scope of this seed.
    Within(u32),
    /// The scope is `any`.
    Any,
    /// This pattern of `include`.
    Include(u32),
    /// A seed redirects to the URL.
    SeedRedirect,
    /// `extra_hops`.
    ExtraHops,
    /// The URL lies within the scope of no seed.
    Outside,
}

impl Rule {
    /// The name under which verdicts are counted.
    pub const fn name(self) -> &'static str {
        match self {
            Rule::Exclude(_) => "exclude",
            Rule::Seed => "seed",
            Rule::Depth => "depth",
            Rule::Within(_) | Rule::Any | Rule::Outside => "scope",
            Rule::Include(_) => "include",
            Rule::SeedRedirect => "seed-redirect",
            Rule::ExtraHops => "extra-hops",
        }
    }
}

/// A resolved scope: judges URLs.
#[derive(Clone, Debug)]
pub struct Rules {
    kind: Kind,
    index: Index,
    listed: Option<Arc<Listed>>,
    bad_seeds: Vec<BadSeed>,
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
    extra_hops: u8,
    depth_max: u8,
}

impl Rules {
    /// Judges a URL.
    pub fn verdict(&self, url: &CrawlUrl, found: FoundBy<'_>) -> ScopeVerdict {
        let yes = |rule| ScopeVerdict { decision: Decision::In { hops_out: 0 }, rule };
        let no = |rule| ScopeVerdict { decision: Decision::Out, rule };
        let first = |patterns: &[Pattern]| {
            (1u32..).zip(patterns).find(|(_, pattern)| pattern.matches(url.key())).map(|(number, _)| number)
        };
        if let Some(number) = first(&self.exclude) {
            return no(Rule::Exclude(number));
        }
        if matches!(found.how, How::Seed) {
            return yes(Rule::Seed);
        }
        if found.depth > self.depth_max {
            return no(Rule::Depth);
        }
        if self.kind == Kind::Any {
            return yes(Rule::Any);
        }
        let listed = || self.listed.as_ref()?.find(url);
        if let Some(number) = self.index.find(self.kind, url).or_else(listed) {
            return yes(Rule::Within(number));
        }
        if let Some(number) = first(&self.include) {
            return yes(Rule::Include(number));
        }
        if let How::SeedRedirect(seed) = found.how
            && domain_of(seed) == domain_of(url)
        {
            return yes(Rule::SeedRedirect);
        }
        if matches!(found.how, How::Redirect) && (1..=self.extra_hops).contains(&found.hops_out) {
            let decision = Decision::In { hops_out: found.hops_out };
            return ScopeVerdict { decision, rule: Rule::ExtraHops };
        }
        if found.hops_out < self.extra_hops {
            let decision = Decision::In { hops_out: found.hops_out + 1 };
            return ScopeVerdict { decision, rule: Rule::ExtraHops };
        }
        no(Rule::Outside)
    }

    /// The same rules with seeds that are not in the scope itself, but in a list.
    #[must_use]
    pub fn with_listed(self, listed: Arc<Listed>) -> Rules {
        debug_assert_eq!(listed.kind(), self.kind);
        Rules { listed: Some(listed), ..self }
    }

    /// Whether the scope around some seed lies below this URL, the root of a host: then the host has wanted pages though
    /// its root is no wanted page.
    pub fn has_seed_below(&self, root: &CrawlUrl) -> bool {
        self.kind == Kind::Prefix && self.index.has_below(bare(root))
    }

    /// Whether an `exclude` keeps the URL out, regardless of all other rules.
    pub fn excludes(&self, url: &CrawlUrl) -> bool {
        self.exclude.iter().any(|pattern| pattern.matches(url.key()))
    }

    /// Widens the scope to the surroundings of this URL, as if the URL were seed `number`. For a URL that a seed
    /// redirects to, once [`Rules::verdict`] let the URL in: a site that moved to `www.` is wanted there too.
    pub fn widen(&mut self, url: &CrawlUrl, number: u32) {
        self.index.insert(self.kind, url, number);
    }

    /// The seeds that could not be parsed.
    pub fn bad_seeds(&self) -> &[BadSeed] {
        &self.bad_seeds
    }

    /// The rule in words, for `map` and `explain`: `exclude /cart`, `scope=prefix https://shop.example/`.
    pub fn text(&self, rule: Rule) -> String {
        let pattern = |patterns: &[Pattern], number: u32| {
            let pattern = (number as usize).checked_sub(1).and_then(|at| patterns.get(at));
            pattern.map_or_else(String::new, |pattern| pattern.as_str().to_owned())
        };
        match rule {
            Rule::Exclude(number) => format!("exclude {}", pattern(&self.exclude, number)),
            Rule::Include(number) => format!("include {}", pattern(&self.include, number)),
            Rule::Seed => "seed".into(),
            Rule::Depth => format!("depth_max {}", self.depth_max),
            Rule::Within(_) | Rule::Any => format!("scope={}", self.kind.name()),
            Rule::SeedRedirect => "a seed redirects to it".into(),
            Rule::ExtraHops => format!("extra_hops {}", self.extra_hops),
            Rule::Outside => match (self.index.only(), &self.listed) {
                (Some(only), None) => format!("scope={} {only}", self.kind.name()),
                (_, listed) => {
                    let places = self.index.len() + listed.as_ref().map_or(0, |listed| listed.len());
                    format!("scope={} of {places} places", self.kind.name())
                }
            },
        }
    }

    /// The origin of the rule: a pattern, a seed or a setting.
    pub fn origin(&self, rule: Rule) -> String {
        match rule {
            Rule::Exclude(number) => format!("exclude #{number}"),
            Rule::Include(number) => format!("include #{number}"),
            Rule::Within(number) => format!("seed {number}"),
            Rule::Seed | Rule::SeedRedirect => "seeds".into(),
            Rule::Depth => "depth_max".into(),
            Rule::ExtraHops => "extra_hops".into(),
            Rule::Any | Rule::Outside => "scope".into(),
        }
    }
}
