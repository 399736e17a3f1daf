//! robots.txt: the variant of a host and its content at a virtual time.
//!
//! Invariants: host 0 allows everything, and [`World::robots_rules`] equals the rules that a crawler following RFC 9309
//! derives from [`World::robots_answer`].

use super::draw::{Tag, unit};
use super::{Place, What, World};
use crate::rules::Rules;

/// The variants of robots.txt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RobotsKind {
    /// Allows everything.
    Open,
    /// Closes `/private/`.
    Private,
    /// Closes everything.
    Closed,
    /// Closes `/private/` and asks for a delay.
    Delay,
    /// 404.
    Missing,
    /// 503.
    Broken,
    /// Redirects to `/robots-real.txt`, which closes `/private/`.
    Redirecting,
    /// Opens and closes `/private/` in turn.
    Changing,
    /// Has a group for the crawler of the settings and closes everything to others.
    Named,
    /// Uses `*` and `$`.
    Patterns,
    /// Takes the other variants in turn.
    Shifting,
}

/// The variants that a shifting robots.txt takes, one after the other.
const SHAPES: [RobotsKind; 6] = [
    RobotsKind::Private,
    RobotsKind::Broken,
    RobotsKind::Missing,
    RobotsKind::Redirecting,
    RobotsKind::Delay,
    RobotsKind::Closed,
];

/// The answer to `/robots.txt`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RobotsAnswer {
    /// The status.
    pub status: u16,
    /// The body, empty for errors and redirects.
    pub body: String,
    /// Where a redirect leads.
    pub location: Option<String>,
}

impl World {
    /// Which variant a host has.
    pub fn robots_kind(&self, host: u32) -> RobotsKind {
        if host == 0 {
            return RobotsKind::Open;
        }
        let shares = &self.settings.robots;
        let mut left = unit(self.draw(Tag::Robots, host, 0));
        let kinds = [
            (shares.private, RobotsKind::Private),
            (shares.closed, RobotsKind::Closed),
            (shares.delay, RobotsKind::Delay),
            (shares.missing, RobotsKind::Missing),
            (shares.broken, RobotsKind::Broken),
            (shares.redirecting, RobotsKind::Redirecting),
            (shares.changing, RobotsKind::Changing),
            (shares.named, RobotsKind::Named),
            (shares.patterns, RobotsKind::Patterns),
            (shares.shifting, RobotsKind::Shifting),
        ];
        for (share, kind) in kinds {
            if left < share {
                return kind;
            }
            left -= share;
        }
        RobotsKind::Open
    }

    /// The variant of a host at a virtual time: never [`RobotsKind::Shifting`], but the current variant.
    pub fn robots_shape(&self, host: u32, now: u64) -> RobotsKind {
        match self.robots_kind(host) {
            RobotsKind::Shifting => {
                // Not all hosts at once.
                let first = self.draw(Tag::Robots, host, 1) % SHAPES.len() as u64;
                SHAPES[((first + self.robots_turn(now)) % SHAPES.len() as u64) as usize]
            }
            kind => kind,
        }
    }

    /// How often a changing robots.txt has changed.
    fn robots_turn(&self, now: u64) -> u64 {
        now.saturating_sub(self.settings.time_start) / self.settings.robots_period.as_secs().max(1)
    }

    /// The answer of a host to `/robots.txt` at a virtual time.
    pub fn robots_answer(&self, host: u32, now: u64) -> RobotsAnswer {
        let error = |status| RobotsAnswer { status, body: String::new(), location: None };
        match self.robots_shape(host, now) {
            RobotsKind::Missing => error(404),
            RobotsKind::Broken => error(503),
            RobotsKind::Redirecting => {
                let real = Place { host: self.robots_at(host), what: What::RobotsReal };
                let location = if real.host == host { self.path(real) } else { self.url(real) };
                RobotsAnswer { status: 301, body: String::new(), location: Some(location) }
            }
            _ => RobotsAnswer { status: 200, body: self.robots_text(host, now), location: None },
        }
    }

    /// The host to which a redirecting robots.txt of this one leads.
    fn robots_at(&self, host: u32) -> u32 {
        if self.settings.robots_elsewhere { (host + 1) % self.settings.hosts } else { host }
    }

    /// The text of the robots.txt of a host, at any path; empty if the host has none.
    pub fn robots_text(&self, host: u32, now: u64) -> String {
        let mut text = String::from("# robots.txt of a synthetic host\n");
        match self.robots_shape(host, now) {
            RobotsKind::Missing | RobotsKind::Broken => return String::new(),
            RobotsKind::Open => text.push_str("User-agent: *\nDisallow:\n"),
            RobotsKind::Private | RobotsKind::Redirecting => {
                text.push_str("User-agent: *\nDisallow: /private/\n");
            }
            RobotsKind::Closed => text.push_str("User-agent: *\nDisallow: /\n"),
            RobotsKind::Delay => {
                let delay = self.settings.crawl_delay.as_secs_f64();
                text.push_str(&format!("User-agent: *\nCrawl-delay: {delay}\nDisallow: /private/\n"));
            }
            RobotsKind::Changing => {
                let turn = self.robots_turn(now);
                let closed = if turn.is_multiple_of(2) { "" } else { " /private/" };
                text.push_str(&format!("# version {turn}\nUser-agent: *\nDisallow:{closed}\n"));
            }
            RobotsKind::Named => {
                let agent = &self.settings.agent;
                text.push_str(&format!(
                    "User-agent: *\nDisallow: /\n\nUser-agent: {agent}\nDisallow: /private/\n"
                ));
            }
            RobotsKind::Patterns => {
                text.push_str(
                    "User-agent: *\nDisallow: /*7$\nDisallow: /private/\nAllow: /p/*77$\nAllow: /private/1\n",
                );
            }
            RobotsKind::Shifting => unreachable!("a shape is what it has shifted to"),
        }
        if self.has_sitemap(host) {
            text.push_str("\nSitemap: ");
            self.push_url(&mut text, Place { host, what: What::Sitemaps });
            text.push('\n');
        }
        text
    }

    /// The rules for a crawler with this product token on a host, by the robots.txt of a virtual time.
    pub fn robots_rules(&self, host: u32, agent: &str, now: u64) -> Rules {
        match self.robots_shape(host, now) {
            RobotsKind::Missing => Rules::allow_all(),
            RobotsKind::Broken => Rules::deny_all(),
            RobotsKind::Redirecting => Rules::parse(&self.robots_text(self.robots_at(host), now), agent),
            _ => Rules::parse(&self.robots_text(host, now), agent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    /// Whether the crawler `nephila` may fetch a path of the first host with this kind of robots.txt.
    fn allows(kind: RobotsKind, agent: &str, path: &str, days: u64) -> bool {
        let world = World::new(Settings { hosts: 2000, ..Settings::mixed() }, 80, 443);
        let host = (0..2000).find(|host| world.robots_kind(*host) == kind).unwrap();
        world.robots_rules(host, agent, world.settings().time_start + days * 86_400).allows(path)
    }

    #[test]
    fn every_variant_says_what_its_name_says() {
        use RobotsKind::*;
        for kind in [Open, Missing, Changing] {
            assert!(allows(kind, "nephila", "/private/5", 0), "{kind:?}");
        }
        for kind in [Private, Delay, Redirecting, Named, Patterns] {
            assert!(allows(kind, "nephila", "/p/5", 0), "{kind:?}");
            assert!(!allows(kind, "nephila", "/private/5", 0), "{kind:?}");
        }
        for kind in [Closed, Broken] {
            assert!(!allows(kind, "nephila", "/p/5", 0), "{kind:?}");
        }
        assert!(!allows(Named, "other", "/p/5", 0));
        assert!(!allows(Changing, "nephila", "/private/5", 1));
        assert!(!allows(Patterns, "nephila", "/p/7", 0));
        assert!(allows(Patterns, "nephila", "/p/77", 0));
        assert!(allows(Patterns, "nephila", "/private/12", 0));
    }
}
