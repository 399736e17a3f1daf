//! Why a request of [`agent`](super) has no answer, with the HTTP status and the code that clients of Firecrawl decide by.

use std::fmt;

use http::StatusCode;

use crate::client::{NoAnswer, Reply};

/// What sort of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is wrong: 400.
    Wrong,
    /// The role of the token does not permit it: 403.
    Role,
    /// robots.txt, the stop list, the scope or a trap rule forbids the page: 403.
    Forbidden,
    /// There is no such capture or crawl: 404.
    NotFound,
    /// The page did not come in time: 408.
    Timeout,
    /// The thing exists, or has ended: 409.
    Conflict,
    /// The page is larger than is read: 413.
    TooLarge,
    /// Too many requests: 429.
    Busy,
    /// The site gave no page: 500, as at Firecrawl.
    Site,
    /// The server cannot answer now: 503.
    Away,
}

impl Kind {
    /// The HTTP status.
    pub const fn status(self) -> StatusCode {
        match self {
            Kind::Wrong => StatusCode::BAD_REQUEST,
            Kind::Role | Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Timeout => StatusCode::REQUEST_TIMEOUT,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::Busy => StatusCode::TOO_MANY_REQUESTS,
            Kind::Site => StatusCode::INTERNAL_SERVER_ERROR,
            Kind::Away => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Why there is no answer: what happened, why, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// What sort of failure it is.
    pub kind: Kind,
    /// What happened, why, and what to do.
    pub message: String,
    /// A word that programs decide by, such as `SCRAPE_TIMEOUT`.
    pub code: Option<&'static str>,
    /// Seconds after which the same request may be answered.
    pub retry_after: Option<u64>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Failure {
    /// A failure without a code.
    pub fn new(kind: Kind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), code: None, retry_after: None }
    }

    /// The request is wrong.
    pub fn wrong(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Wrong, message)
    }

    /// Sets the word that programs decide by.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Failure {
        self.code = Some(code);
        self
    }

    /// The problem in an answer of the API.
    pub fn of(reply: &Reply) -> Failure {
        let kind = match reply.status.as_u16() {
            400 | 422 => Kind::Wrong,
            401 | 403 => Kind::Role,
            404 | 405 => Kind::NotFound,
            408 => Kind::Timeout,
            409 => Kind::Conflict,
            413 => Kind::TooLarge,
            429 => Kind::Busy,
            _ => Kind::Away,
        };
        let (title, detail) = reply.problem();
        let message = match (title.is_empty(), detail.is_empty()) {
            (true, _) => format!("the server answers {}", reply.status),
            (false, true) => title,
            (false, false) => format!("{title}: {detail}"),
        };
        let retry_after = reply.field("retry-after").and_then(|seconds| seconds.parse().ok());
        Failure { retry_after, ..Failure::new(kind, message) }
    }
}

impl From<NoAnswer> for Failure {
    fn from(error: NoAnswer) -> Failure {
        Failure::new(Kind::Away, error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        Failure::new(Kind::Away, format!("the server is of another version: {error}"))
    }
}
