//! Links: where an ordinary page leads.
//!
//! Page n of a host links to pages 2n+1 and 2n+2, so a host is a tree that hangs on its home page; home pages of
//! hosts form the same tree over the hosts. The other links are drawn: `links_inside` of all stay in the domain, most
//! of these on the host itself, and large hosts and early pages are linked to more often than small and late ones.
//!
//! Invariant: links do not depend on virtual time, so ground truth about reachability stays true.

use super::draw::{Tag, below, unit};
use super::{Place, What, World};

/// Of the links that stay in the domain, the share that stays on the host.
const SAME_HOST: f64 = 0.8;

impl World {
    /// Calls `each` with the target of every link of an ordinary page, in the order they stand there.
    pub fn each_link(&self, host: u32, page: u64, mut each: impl FnMut(Place)) {
        let mut inside = 0u32;
        let mut written = 0u32;
        let own_domain = self.domain_hosts(host);
        let own_pages = self.host_pages(host);
        for child in [2 * page + 1, 2 * page + 2] {
            if child < own_pages {
                each(Place { host, what: What::Page(child) });
                inside += 1;
                written += 1;
            }
        }
        if page == 0 {
            for child in [2 * u64::from(host) + 1, 2 * u64::from(host) + 2] {
                if child < u64::from(self.settings.hosts) {
                    let child = child as u32;
                    each(Place { host: child, what: What::Page(0) });
                    inside += u32::from(own_domain.contains(&child));
                    written += 1;
                }
            }
        }
        let all = self.settings.links;
        let drawn = all.saturating_sub(written);
        if drawn == 0 {
            return;
        }
        // The share of the fixed links above is subtracted, so that the whole page has the requested share.
        let share = (self.settings.links_inside * f64::from(all) - f64::from(inside)) / f64::from(drawn);
        // One draw per page and a step per link: a full draw for each would be most of the cost of a page.
        let place_draw = self.draw(Tag::Link, host, page);
        for n in 0..u64::from(drawn) {
            let x = place_draw.wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let target = if unit(super::draw::draw(x, Tag::Link, 0, 0)) < share
                || own_domain.len() as u64 == u64::from(self.settings.hosts)
            {
                self.inside(host, x)
            } else {
                self.outside(host, x)
            };
            let pages = if target == host { own_pages } else { self.host_pages(target) };
            let number = popular_page(pages, super::draw::draw(x, Tag::LinkPage, 0, 0));
            each(Place { host: target, what: What::Page(number) });
        }
    }

    /// Whether the n-th link of a page carries a fragment, which a crawler has to cut off.
    pub(crate) fn has_fragment(&self, host: u32, page: u64, n: u64) -> bool {
        self.draw(Tag::Fragment, host, page).wrapping_add(n).is_multiple_of(16)
    }

    /// A host of the same domain.
    fn inside(&self, host: u32, x: u64) -> u32 {
        let x = super::draw::draw(x, Tag::LinkHost, 0, 0);
        let domain = self.domain_hosts(host);
        if domain.len() == 1 || unit(x) < SAME_HOST {
            return host;
        }
        let step = 1 + below(x << 20, domain.len() as u64 - 1) as u32;
        domain.start + (host - domain.start + step) % domain.len() as u32
    }

    /// A host of another domain, large ones more often.
    fn outside(&self, host: u32, x: u64) -> u32 {
        let hosts = self.settings.hosts;
        let u = unit(super::draw::draw(x, Tag::LinkHost, 1, 0));
        let s = self.settings.size_exponent;
        // The inverse of the continuous power law with the same exponent.
        let top = f64::from(hosts) + 1.0;
        let rank = if (s - 1.0).abs() < 1e-6 {
            top.powf(u)
        } else {
            (1.0 + u * (top.powf(1.0 - s) - 1.0)).powf(1.0 / (1.0 - s))
        };
        let other = (rank as u32).clamp(1, hosts) - 1;
        let own = self.domain_hosts(host);
        if own.contains(&other) { (own.end + (other - own.start)) % hosts } else { other }
    }
}

/// One of `pages` pages, early ones more often.
fn popular_page(pages: u64, x: u64) -> u64 {
    let u = unit(x);
    ((pages as f64 * u * u) as u64).min(pages - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn inside_share(world: &World) -> f64 {
        let (mut inside, mut all) = (0u64, 0u64);
        for place in world.pages() {
            let What::Page(page) = place.what else { panic!() };
            world.each_link(place.host, page, |to| {
                all += 1;
                inside += u64::from(world.domain_hosts(place.host).contains(&to.host));
                let What::Page(number) = to.what else { panic!() };
                assert!(world.has_page(to.host, number));
            });
        }
        inside as f64 / all as f64
    }

    #[test]
    fn four_links_in_five_stay_in_the_domain() {
        let world = World::new(Settings { hosts: 100, pages: 10_000, ..Settings::default() }, 80, 443);
        let share = inside_share(&world);
        assert!((share - 0.79).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_web_of_one_domain_links_to_itself_alone() {
        let world = World::new(Settings { hosts: 3, pages: 300, ..Settings::default() }, 80, 443);
        assert_eq!(inside_share(&world), 1.0);
    }

    #[test]
    fn large_hosts_are_linked_to_more_than_small_ones() {
        let world = World::new(Settings { hosts: 1000, pages: 10_000, ..Settings::default() }, 80, 443);
        let (mut large, mut small) = (0, 0);
        for host in 500..600 {
            world.each_link(host, 0, |to| {
                large += u32::from(to.host < 10);
                small += u32::from(to.host >= 990);
            });
        }
        assert!(large > 10 * small.max(1), "{large} {small}");
    }
}
