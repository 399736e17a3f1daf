//! When a request deserves an immediate second try, and when the retry table decides instead.
//!
//! In a few cases the server cannot have answered, or indicates that another way would work, and every careful client
//! sends one more request. A second try is a request like any other: host and address rest before, so the fetch itself
//! never sends one. The component that keeps the crawl delays does.
//!
//! Invariant: at most one second try, whatever happens.

use super::Outcome;

/// The result of the first try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The outcome.
    pub outcome: Outcome,
    /// On a kept-alive connection, which the server may have closed while our request was on its way.
    pub reused: bool,
    /// Over HTTP/2.
    pub h2: bool,
    /// The server required HTTP/1.1, or violated HTTP/2 before any response.
    pub wants_h1: bool,
    /// The server sent GOAWAY and did not process the request.
    pub unprocessed: bool,
    /// The server rejected the request because a signature is required, and we can make one.
    pub wants_proof: bool,
    /// This was the second try.
    pub again: bool,
}

/// How the second try is made. Always on a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// As before.
    Same,
    /// Over HTTP/1.1, which this host keeps.
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
        // 421: this name requires a connection of its own. Ours are never shared between names, so only a kept-alive
        // one can be stale; RFC 9110, 15.5.20 allows one more request on a new connection.
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
