//! The cases, their addresses, and the list of all of them.
//!
//! Address scheme: 127.80.0.1 is `good`; case number N of an area lives at 127.A.N.1 with A from [`AREAS`], and its
//! label number k (from 0) at 127.A.N.(k+2). So an address names its case and label without a table. All addresses lie
//! in 127.80.0.0/12, which a test may allow as a whole while 127.0.0.1 stays forbidden.

use std::net::Ipv4Addr;
use std::sync::LazyLock;

use super::{ZONE, compression, dns, encoding, fields, framing, good, h2, redirect, ssrf, tcp, tls, urls};

/// How a case is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP only.
    Http,
    /// TLS only; the plain port serves nothing of interest.
    Https,
    /// Both ports.
    Both,
}

/// One row of the catalogue that has a server. The bare name behaves as the row says; labels and paths are its
/// variants.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The id in lower case: `h1-12`.
    pub id: &'static str,
    /// The scheme of the case.
    pub scheme: Scheme,
    /// Names in front of the case's own, each with an address of its own, and their behaviour.
    pub labels: &'static [(&'static str, &'static str)],
    /// Paths and their content. A label of a case serves the same paths.
    pub paths: &'static [(&'static str, &'static str)],
}

impl Case {
    /// A case on plain HTTP.
    pub(super) const fn http(id: &'static str, paths: &'static [(&'static str, &'static str)]) -> Case {
        Case { id, scheme: Scheme::Http, labels: &[], paths }
    }

    /// A case on TLS.
    pub(super) const fn https(id: &'static str, paths: &'static [(&'static str, &'static str)]) -> Case {
        Case { id, scheme: Scheme::Https, labels: &[], paths }
    }

    /// A case on both.
    pub(super) const fn both(id: &'static str, paths: &'static [(&'static str, &'static str)]) -> Case {
        Case { id, scheme: Scheme::Both, labels: &[], paths }
    }

    /// The same with labels.
    pub(super) const fn labels(self, labels: &'static [(&'static str, &'static str)]) -> Case {
        Case { labels, ..self }
    }

    /// The addresses of a case: the bare name first, then its labels in order.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (Ipv4Addr, &'static str)> {
        let labels = std::iter::once("").chain(self.labels.iter().map(|(label, _)| *label));
        let base = base_address(self.id).octets();
        (1u8..).zip(labels).map(move |(last, label)| (Ipv4Addr::new(base[0], base[1], base[2], last), label))
    }
}

/// All cases that have a server, in the order of the catalogue; `good` comes first.
pub static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    [
        good::CASES,
        dns::CASES,
        tcp::CASES,
        tls::CASES,
        framing::CASES,
        fields::CASES,
        h2::CASES,
        redirect::CASES,
        encoding::CASES,
        compression::CASES,
        urls::CASES,
        ssrf::CASES,
    ]
    .concat()
});

/// Rows of our areas that no server can play, and why.
pub const NO_SERVER: &[(&str, &str)] = &[
    ("tcp-13", "our own file descriptors run out: the test sets a limit on itself and crawls `good`"),
    ("tcp-14", "our own ephemeral ports run out: needs a network namespace, not a server"),
    ("cmp-14", "damage in our own snapshots: tested where snapshots are read"),
    ("url-13", "a rule of the URL key: two spellings compared in a unit test"),
    ("url-14", "a rule of the URL key: two spellings compared in a unit test"),
    ("url-19", "a property of the id: tested on the hash, no request is made"),
    ("url-20", "a reflog line, not a response"),
    ("ssr-07", "needs a proxy between crawler and web, not a server on it"),
    (
        "ssr-09",
        "the deny list is built from the node's own addresses; names for any address are under ssr-01",
    ),
    ("ssr-11", "an operator's setting; names for any address are under ssr-01"),
    ("ssr-12", "an API call; names for any address are under ssr-01"),
    ("ssr-15", "an API call that must not exist"),
];

/// Second octet of the addresses of each area, by the prefix of its ids.
pub(super) const AREAS: &[(&str, u8)] = &[
    ("dns", 81),
    ("tcp", 82),
    ("tls", 83),
    ("h1", 84),
    ("h2", 85),
    ("red", 86),
    ("enc", 87),
    ("cmp", 88),
    ("ssr", 89),
    ("url", 90),
];

fn base_address(id: &str) -> Ipv4Addr {
    let parsed = id.split_once('-').and_then(|(area, number)| {
        let area = AREAS.iter().find(|(prefix, _)| *prefix == area)?.1;
        Some((area, number.parse::<u8>().ok()?))
    });
    match parsed {
        Some((area, number)) => Ipv4Addr::new(127, area, number, 1),
        None => Ipv4Addr::new(127, 80, 0, 1),
    }
}

/// The case with this id.
pub(super) fn find(id: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.id == id)
}

/// Splits `label.id` (without the zone); the label may be empty or have dots.
pub(super) fn split(name: &str) -> (&str, &str) {
    match name.rsplit_once('.') {
        Some((label, id)) => (label, id),
        None => ("", name),
    }
}

/// Splits a whole host name of our zone into label and case id.
pub(super) fn split_host(host: &str) -> Option<(&str, &str)> {
    host.strip_suffix(ZONE)?.strip_suffix('.').map(split)
}

/// The address of `id` or `label.id`. A label that is not listed lives at the case's own address.
pub(super) fn address_of_host(name: &str) -> Option<Ipv4Addr> {
    let (label, id) = split(name);
    let case = find(id)?;
    let own = case.addresses().find(|(_, listed)| *listed == label);
    own.or_else(|| case.addresses().next()).map(|(address, _)| address)
}
