//! When a request is worth a second one soon, and when that is the retry table's business.
//!
//! There are a few cases in which the server cannot have answered, or says itself that another way would do, and in which
//! one more request is what every careful client sends. It is a request like any other: host and address rest before it,
//! so it is never sent by the fetch itself, but by whoever keeps the rests.
//!
//! Invariant: at most one second try, whatever happens.

use super::Outcome;

/// How the first try went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// How it ended.
    pub outcome: Outcome,
    /// On a kept connection, which the server may have closed while our request was on its way.
    pub reused: bool,
    /// Over HTTP/2.
    pub h2: bool,
    /// The server said that HTTP/1.1 is required, or broke HTTP/2 before any answer.
    pub wants_h1: bool,
    /// The server said good-bye and did not process the request.
    pub unprocessed: bool,
    /// The server turned us away because it wants a signature, and we can make one.
    pub wants_proof: bool,
    /// This was the second try.
    pub again: bool,
}

/// How the second try is made. Always on a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// As before.
    Same,
    /// Over HTTP/1.1, and this host stays with it.
    Http11,
}

/// Whether to try a second time, as soon as host and address have rested.
pub fn second_try(tried: Tried) -> Option<Second> {
    if tried.again {
        return None;
    }
    if tried.h2 && tried.wants_h1 {
        return Some(Second::Http11);
    }
    if tried.wants_proof {
        return Some(Second::Same);
    }
    match tried.outcome {
        Outcome::EmptyReply | Outcome::Reset | Outcome::WriteTimeout if tried.reused => Some(Second::Same),
        Outcome::H2Goaway if tried.unprocessed || tried.reused => Some(Second::Same),
        // 421: this name wants a connection of its own. Ours are never shared between names, so only a kept one can
        // have gone stale; asking once more on a new one is what RFC 9110, 15.5.20 allows.
        Outcome::Misdirected => Some(Second::Same),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Tried = Tried {
        outcome: Outcome::EmptyReply,
        reused: false,
        h2: false,
        wants_h1: false,
        unprocessed: false,
        wants_proof: false,
        again: false,
    };

    #[test]
    fn a_kept_connection_that_died_is_replaced_once() {
        assert_eq!(second_try(Tried { reused: true, ..FIRST }), Some(Second::Same));
        assert_eq!(second_try(FIRST), None);
        assert_eq!(second_try(Tried { reused: true, again: true, ..FIRST }), None);
    }

    #[test]
    fn a_server_that_cannot_do_http2_is_asked_over_http11() {
        let broken = Tried { outcome: Outcome::H2Protocol, h2: true, wants_h1: true, ..FIRST };
        assert_eq!(second_try(broken), Some(Second::Http11));
        assert_eq!(second_try(Tried { again: true, ..broken }), None);
    }

    #[test]
    fn an_unprocessed_request_is_sent_again() {
        let goaway = Tried { outcome: Outcome::H2Goaway, h2: true, unprocessed: true, ..FIRST };
        assert_eq!(second_try(goaway), Some(Second::Same));
        assert_eq!(second_try(Tried { unprocessed: false, ..goaway }), None);
    }

    #[test]
    fn a_site_that_wants_a_signature_is_asked_once_more_with_one() {
        let denied = Tried { outcome: Outcome::ClientError, wants_proof: true, ..FIRST };
        assert_eq!(second_try(denied), Some(Second::Same));
        assert_eq!(second_try(Tried { again: true, ..denied }), None);
    }

    #[test]
    fn no_answer_of_the_server_is_argued_with() {
        for outcome in Outcome::ALL {
            let tried = Tried { outcome: *outcome, ..FIRST };
            assert_eq!(second_try(tried).is_some(), *outcome == Outcome::Misdirected, "{outcome}");
        }
    }
}
