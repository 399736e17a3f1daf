//! The rules by which the links of an archive were judged, kept with the plan of a crawl.

use nephila_core::job::{Kind, Scope};
use serde::{Deserialize, Serialize};

use crate::settings::Handler;

/// The rules by which links are judged, as far as they can become wider.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Judged {
    kind: Kind,
    include: Vec<String>,
    exclude: Vec<String>,
    extra_hops: u8,
    depth_max: u8,
    page_requisites: bool,
    forms: bool,
    nofollow: bool,
}

impl Judged {
    /// These rules.
    pub fn of(scope: &Scope, handler: &Handler) -> Judged {
        Judged {
            kind: scope.kind,
            include: scope.include.clone(),
            exclude: scope.exclude.clone(),
            extra_hops: scope.extra_hops,
            depth_max: scope.depth_max,
            page_requisites: handler.page_requisites,
            forms: handler.forms,
            nofollow: handler.nofollow,
        }
    }

    /// May these rules want what the others did not?
    pub fn is_wider_than(&self, old: &Judged) -> bool {
        let lacks = |a: &[String], b: &[String]| b.iter().any(|pattern| !a.contains(pattern));
        self.kind > old.kind
            || lacks(&old.include, &self.include)
            || lacks(&self.exclude, &old.exclude)
            || self.extra_hops > old.extra_hops
            || self.depth_max > old.depth_max
            || self.page_requisites && !old.page_requisites
            || self.forms && !old.forms
            || !self.nofollow && old.nofollow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fin_04_only_rules_that_want_more_make_the_archive_be_read_again() {
        let old = Judged {
            kind: Kind::Prefix,
            exclude: vec!["/x".into()],
            depth_max: 3,
            nofollow: true,
            ..Judged::default()
        };
        let wider = [
            Judged { kind: Kind::Domain, ..old.clone() },
            Judged { depth_max: 4, ..old.clone() },
            Judged { page_requisites: true, ..old.clone() },
            Judged { include: vec!["/y".into()], ..old.clone() },
            Judged { exclude: Vec::new(), ..old.clone() },
            Judged { extra_hops: 1, ..old.clone() },
            Judged { nofollow: false, ..old.clone() },
            Judged { forms: true, ..old.clone() },
        ];
        for wider in wider {
            assert!(wider.is_wider_than(&old) && !old.is_wider_than(&wider), "{wider:?}");
        }
        assert!(!old.is_wider_than(&old));
    }
}
