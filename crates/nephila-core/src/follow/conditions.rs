//! Conditional requests for pages that were fetched before.

use http::header::{HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH};

use crate::frontier::ticket::Validators;
use crate::planted::{self, Bug};
use crate::spider::answer::validator;

/// The validators of the last good capture of a page in the archive; empty if the page came without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// The `ETag` header field.
    pub etag: &'a str,
    /// The `Last-Modified` header field.
    pub last_modified: &'a str,
}

/// Whether the last capture of a page is the version that the frontier knows.
pub fn is_stored(known: Option<&Validators>, stored: Option<Stored<'_>>) -> bool {
    let (Some(known), Some(stored)) = (known, stored) else { return false };
    let same = *known.etag == *stored.etag && *known.last_modified == *stored.last_modified;
    same || planted::is(Bug::ConditionUnstored)
}

/// The header fields of a conditional request. The archived version must be the one that the frontier knows: a version
/// that was stored and not reported, because of a crash, was perhaps never parsed, and a response without a body would
/// hide its links. The version of a followed feed that the frontier knows was parsed; a version with the same URLs as
/// the one before is not archived.
pub fn conditions(
    known: Option<&Validators>,
    stored: Option<Stored<'_>>,
    is_followed_feed: bool,
) -> Vec<(HeaderName, HeaderValue)> {
    let Some(known) = known.filter(|_| is_followed_feed || is_stored(known, stored)) else {
        return Vec::new();
    };
    [(IF_NONE_MATCH, &known.etag), (IF_MODIFIED_SINCE, &known.last_modified)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, validator(value)?)))
        .collect()
}
