//! Answers: JSON, other bytes, and problems (RFC 9457).
//!
//! Invariant: the `type` of a problem follows from its status and is one of [`KINDS`]; titles and details may change.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;

use super::content::Content;

/// An HTTP answer.
pub type HttpAnswer = Response<Content>;

/// An error answer, sent instead of the requested one.
pub type Instead = Box<HttpAnswer>;

/// Content type of a problem.
pub(super) const PROBLEM_TYPE: &str = "application/problem+json";

/// Prefix of the `type` of every problem.
pub(super) const PREFIX: &str = "urn:nephila:problem:";

/// The closed list of problems: status, last part of the `type`, and meaning.
pub(super) const KINDS: [(u16, &str, &str); 12] = [
    (400, "invalid-request", "A parameter or the body is missing or malformed; `detail` says which."),
    (401, "unauthorized", "The token or the session is missing, unknown or expired."),
    (
        403,
        "forbidden",
        "The role of the token does not permit the operation, or a page of another site asked.",
    ),
    (404, "not-found", "The path, the job, the host or the capture does not exist."),
    (405, "method-not-allowed", "The path has other methods; `Allow` names them."),
    (408, "request-timeout", "The body did not arrive in time."),
    (
        409,
        "conflict",
        "The thing exists already, or a request with the same Idempotency-Key is being answered.",
    ),
    (413, "content-too-large", "The body of the request or of the capture is larger than permitted."),
    (422, "idempotency-key-reused", "The Idempotency-Key was used for another request."),
    (429, "too-many-requests", "The token has sent more requests than its rate permits; see `Retry-After`."),
    (500, "internal-error", "The server failed; `detail` says where to look."),
    (
        503,
        "unavailable",
        "The request cannot be answered now; `Retry-After` says when to repeat the request.",
    ),
];

/// Last part of the `type` of a problem with this status.
fn kind(status: StatusCode) -> &'static str {
    let known = KINDS.iter().find(|(number, ..)| *number == status.as_u16());
    known.map_or("internal-error", |(_, kind, _)| kind)
}

/// An RFC 9457 problem.
#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: String,
}

/// An error answer (RFC 9457): a `type` by the status, title, and detail with advice.
pub fn problem(status: StatusCode, title: &str, detail: impl Into<String>) -> HttpAnswer {
    let body = json(&Problem {
        r#type: format!("{PREFIX}{}", kind(status)),
        title,
        status: status.as_u16(),
        detail: detail.into(),
    });
    reply(status, PROBLEM_TYPE, body)
}

/// Adds `Retry-After` to an answer.
pub fn retry_after(mut answer: HttpAnswer, seconds: u64) -> HttpAnswer {
    answer.headers_mut().insert(header::RETRY_AFTER, seconds.max(1).into());
    answer
}

/// A JSON answer.
pub fn ok(value: &impl Serialize) -> HttpAnswer {
    reply(StatusCode::OK, "application/json", json(value))
}

/// Builds an answer with a status, a content type and a body, and forbids content sniffing (`nosniff`).
pub fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> HttpAnswer {
    let mut response = Response::new(Content::whole(body));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Text of third parties is never interpreted as another type.
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers can be written")
}
