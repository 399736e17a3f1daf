//! Answers: JSON, other bytes, and problems (RFC 9457).
//!
//! Invariant: the `type` of a problem follows from its status and is one of [`KINDS`]; titles and details may change.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::response::Parts;
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::content::Content;

/// An HTTP answer.
pub type HttpAnswer = Response<Content>;

/// An error answer, sent instead of the requested one.
pub type Instead = Box<HttpAnswer>;

/// Takes an answer apart once its whole body is there.
pub(super) async fn whole(answer: HttpAnswer) -> (Parts, Bytes) {
    let (head, body) = answer.into_parts();
    let Ok(body) = body.collect().await;
    (head, body.to_bytes())
}

/// `Retry-After` in seconds of a problem that will pass, where nothing better is known.
const RETRY: u64 = 5;

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
    /// Further members.
    #[serde(flatten)]
    more: Value,
}

/// An error answer (RFC 9457): a `type` by the status, title, and detail with advice.
///
/// An answer that asks for patience says for how long: five seconds, unless [`retry_after`] names another time.
pub fn problem(status: StatusCode, title: &str, detail: impl Into<String>) -> HttpAnswer {
    problem_with(status, title, detail, json!({}))
}

/// A [`problem`] with further members: the fields of an object.
pub(super) fn problem_with(
    status: StatusCode,
    title: &str,
    detail: impl Into<String>,
    more: Value,
) -> HttpAnswer {
    debug_assert!(more.is_object(), "{more}");
    let body = encoded(&Problem {
        r#type: format!("{PREFIX}{}", kind(status)),
        title,
        status: status.as_u16(),
        detail: detail.into(),
        more,
    });
    let answer = reply(status, PROBLEM_TYPE, body);
    match status {
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => retry_after(answer, RETRY),
        _ => answer,
    }
}

/// Adds `Retry-After` to an answer.
pub fn retry_after(mut answer: HttpAnswer, seconds: u64) -> HttpAnswer {
    answer.headers_mut().insert(header::RETRY_AFTER, seconds.max(1).into());
    answer
}

/// A JSON answer.
pub fn ok(value: &impl Serialize) -> HttpAnswer {
    reply(StatusCode::OK, "application/json", encoded(value))
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

fn encoded(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers can be written")
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_problem_may_have_further_members() {
        let answer = problem_with(StatusCode::NOT_FOUND, "none", "here", json!({"message": "No Captures"}));
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let said: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (&said["message"], &said["status"], &said["title"]),
            (&json!("No Captures"), &json!(404), &json!("none"))
        );
    }

    #[test]
    fn a_problem_that_will_pass_says_when_to_ask_again() {
        for (status, ..) in KINDS {
            let answer = problem(StatusCode::from_u16(status).unwrap(), "", "");
            let after = answer.headers().get(header::RETRY_AFTER).and_then(|after| after.to_str().ok());
            assert_eq!(after, matches!(status, 429 | 503).then_some("5"), "{status}");
        }
        let later = retry_after(problem(StatusCode::SERVICE_UNAVAILABLE, "", ""), 42);
        assert_eq!(later.headers().get_all(header::RETRY_AFTER).iter().collect::<Vec<_>>(), ["42"]);
    }
}
