//! What follows an answer of a collector, by OTLP/HTTP: delivered, sent again after a pause, or given up.
//!
//! A collector that is busy or away answers 429, 502, 503 or 504, or not at all: the same body is sent again, after
//! `Retry-After` or after pauses that double. Every other answer is final.
//!
//! Invariants: a body is sent at most [`TRIES_MAX`] times; no pause is longer than [`PAUSE_MAX`].

use std::time::Duration;

/// Maximum number of times that a body is sent.
pub const TRIES_MAX: u32 = 5;
/// The first pause.
pub const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// Maximum length of a pause, also of one that the collector asks for.
pub const PAUSE_MAX: Duration = Duration::from_secs(30);

/// An answer of the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No connection, or no whole answer in time.
    None,
    /// An answer. `rejected` is the number of spans that the collector did not take, of a 2xx answer.
    Status {
        /// The HTTP status.
        status: u16,
        /// `Retry-After`.
        retry_after: Option<Duration>,
        /// Rejected spans.
        rejected: u64,
    },
}

/// The next step for a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The collector has it, except for this number of spans.
    Sent(u64),
    /// Send it again after this pause.
    Again(Duration),
    /// The spans are lost.
    Failed,
}

/// The next step after `tries` tries. `chance` is any number: it spreads the pauses of many nodes over the time between
/// half a pause and a whole one.
pub fn next(answer: Answer, tries: u32, chance: u64) -> Next {
    let asked = match answer {
        Answer::Status { status: 200..=299, rejected, .. } => return Next::Sent(rejected),
        Answer::Status { status: 429 | 502 | 503 | 504, retry_after, .. } => retry_after,
        Answer::Status { .. } => return Next::Failed,
        Answer::None => None,
    };
    if tries >= TRIES_MAX {
        return Next::Failed;
    }
    let pause = match asked {
        Some(asked) => asked,
        None => {
            let whole = PAUSE_FIRST.saturating_mul(1 << (tries.saturating_sub(1)).min(16)).min(PAUSE_MAX);
            whole.mul_f64(0.5 + (chance % 1_024) as f64 / 2_048.0)
        }
    };
    Next::Again(pause.min(PAUSE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, seconds: Option<u64>) -> Answer {
        Answer::Status { status, retry_after: seconds.map(Duration::from_secs), rejected: 0 }
    }

    #[test]
    fn only_busy_and_absent_collectors_get_a_body_again() {
        for answer in
            [status(429, None), status(502, None), status(503, None), status(504, None), Answer::None]
        {
            assert!(matches!(next(answer, 1, 0), Next::Again(_)), "{answer:?}");
            assert_eq!(next(answer, TRIES_MAX, 0), Next::Failed, "{answer:?}");
        }
        for code in [301, 400, 401, 404, 413, 500, 501] {
            assert_eq!(next(status(code, Some(1)), 1, 0), Next::Failed, "{code}");
        }
        assert_eq!(next(status(200, None), 1, 0), Next::Sent(0));
        let partial = Answer::Status { status: 200, retry_after: None, rejected: 3 };
        assert_eq!(next(partial, TRIES_MAX, 0), Next::Sent(3));
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_the_collector_may_choose_one() {
        let pause = |answer, tries, chance| match next(answer, tries, chance) {
            Next::Again(pause) => pause.as_millis(),
            other => panic!("{other:?}"),
        };
        let whole: Vec<u128> = (1..TRIES_MAX).map(|tries| pause(Answer::None, tries, 1_023)).collect();
        assert_eq!(whole, [999, 1_999, 3_998, 7_996]);
        assert_eq!(pause(Answer::None, 1, 0), 500);
        assert_eq!(pause(status(503, Some(7)), 1, 0), 7_000);
        assert_eq!(pause(status(429, Some(9_000)), 1, 0), PAUSE_MAX.as_millis());
    }
}
