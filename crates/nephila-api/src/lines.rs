//! Lists as JSON lines, for programs that read row by row: `Accept: application/x-ndjson`.
//!
//! Each row is a line. The other fields of the answer, such as the cursor of the next page, are the last line.

use http::StatusCode;
use http::header;
use serde_json::Value;

use super::problem::{HttpAnswer, reply, whole};
use super::question::HttpQuestion;

/// Content type of JSON lines.
pub(super) const LINES_TYPE: &str = "application/x-ndjson";

/// Whether the client prefers JSON lines.
pub(super) fn is_wanted(asked: &HttpQuestion) -> bool {
    let accept = asked.field(header::ACCEPT.as_str()).unwrap_or_default();
    accept.split(',').any(|part| part.split(';').next().unwrap_or_default().trim() == LINES_TYPE)
}

/// The rows in a field of a JSON answer as lines; with an empty name, the answer itself is the list.
pub(super) async fn of(answer: HttpAnswer, field: &str) -> HttpAnswer {
    let is_json = answer.headers().get(header::CONTENT_TYPE).is_some_and(|it| it == "application/json");
    if !is_json {
        return answer;
    }
    let (head, body) = whole(answer).await;
    let (rows, rest) = match serde_json::from_slice(&body) {
        Ok(Value::Array(rows)) if field.is_empty() => (rows, None),
        Ok(Value::Object(mut fields)) => match fields.remove(field) {
            Some(Value::Array(rows)) => (rows, Some(Value::Object(fields))),
            _ => return reply(head.status, "application/json", body),
        },
        _ => return reply(head.status, "application/json", body),
    };
    let rest = rest.filter(|rest| rest.as_object().is_some_and(|fields| !fields.is_empty()));
    let mut lines = Vec::with_capacity(body.len());
    for line in rows.iter().chain(&rest) {
        serde_json::to_writer(&mut lines, line).expect("a value can be written");
        lines.push(b'\n');
    }
    let mut answer = reply(StatusCode::OK, LINES_TYPE, lines);
    for (name, value) in &head.headers {
        if ![header::CONTENT_TYPE, header::CONTENT_LENGTH].contains(name) {
            answer.headers_mut().insert(name, value.clone());
        }
    }
    answer
}
