//! Spans as OTLP/JSON: the body of a request to a collector (OpenTelemetry protocol 1.x, `ExportTraceServiceRequest`).
//!
//! OTLP/JSON is the JSON mapping of Protocol Buffers with two exceptions: ids are hexadecimal, and enumerations are
//! numbers. 64-bit numbers are strings.
//!
//! Invariants: a batch has at most [`SPANS_MAX`] spans and [`BYTES_MAX`] bytes, beyond these at most one ticket; its body
//! is whole at every moment.

use serde::Serialize;
use serde::ser::SerializeStruct;
use serde::ser::Serializer;

use super::span::{Kind, Span, Spans, Value};

/// Number of spans after which a batch is sent.
pub const SPANS_MAX: usize = 512;
/// Number of bytes after which a batch is sent.
pub const BYTES_MAX: usize = 1 << 20;
/// End of a body, behind the spans.
const END: &[u8] = b"]}]}]}";

/// Spans that are sent together.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Beginning of a body, up to the spans.
    head: Vec<u8>,
    spans: Vec<u8>,
    number: usize,
}

impl Batch {
    /// An empty batch. `resource` describes the program: attributes by the semantic conventions.
    pub fn new(resource: &[(&str, &str)], version: &str) -> Batch {
        let attributes: Vec<_> =
            resource.iter().map(|(key, value)| Attribute { key, value: AnyValue::Text(value) }).collect();
        let scope = serde_json::json!({"name": "nephila", "version": version});
        let head = format!(
            r#"{{"resourceSpans":[{{"resource":{{"attributes":{}}},"scopeSpans":[{{"scope":{scope},"spans":["#,
            json(&attributes)
        );
        Batch { head: head.into(), spans: Vec::new(), number: 0 }
    }

    /// Adds the spans of a ticket.
    pub fn push(&mut self, spans: &Spans) {
        for (number, span) in spans.all().iter().enumerate() {
            if self.number > 0 {
                self.spans.push(b',');
            }
            self.spans.extend_from_slice(json(&Wire { spans, number, span }).as_bytes());
            self.number += 1;
        }
    }

    /// Number of spans.
    pub fn spans(&self) -> usize {
        self.number
    }

    /// Whether the batch is to be sent.
    pub fn is_full(&self) -> bool {
        self.number >= SPANS_MAX || self.spans.len() >= BYTES_MAX
    }

    /// The body of the request. The batch is empty afterwards.
    pub fn take(&mut self) -> Vec<u8> {
        let body = [&self.head, &*self.spans, END].concat();
        self.spans.clear();
        self.number = 0;
        body
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings and numbers can be written")
}

/// An attribute on the wire.
#[derive(Serialize)]
struct Attribute<'a> {
    key: &'a str,
    value: AnyValue<'a>,
}

/// The value of an attribute on the wire: the field's name is its type.
#[derive(Serialize)]
enum AnyValue<'a> {
    #[serde(rename = "stringValue")]
    Text(&'a str),
    #[serde(rename = "intValue")]
    Number(String),
    #[serde(rename = "boolValue")]
    Flag(bool),
}

impl<'a> From<&'a Value> for AnyValue<'a> {
    fn from(value: &'a Value) -> AnyValue<'a> {
        match value {
            Value::Text(text) => AnyValue::Text(text),
            Value::Word(word) => AnyValue::Text(word),
            Value::Number(number) => AnyValue::Number(number.to_string()),
            Value::Flag(flag) => AnyValue::Flag(*flag),
        }
    }
}

/// A span on the wire.
struct Wire<'a> {
    spans: &'a Spans,
    number: usize,
    span: &'a Span,
}

/// `STATUS_CODE_ERROR`.
const FAILED: u8 = 2;

#[derive(Serialize)]
struct Status<'a> {
    code: u8,
    message: &'a str,
}

impl Serialize for Wire<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (id, span) = (self.spans.id, self.span);
        let kind = match span.kind {
            Kind::Internal => 1,
            Kind::Client => 3,
        };
        let attributes: Vec<_> =
            span.attributes.iter().map(|(key, value)| Attribute { key, value: value.into() }).collect();
        let mut out = serializer.serialize_struct("Span", 9)?;
        out.serialize_field("traceId", &id.to_string())?;
        out.serialize_field("spanId", &id.span(self.number).to_string())?;
        if let Some(parent) = span.parent {
            out.serialize_field("parentSpanId", &id.span(parent).to_string())?;
        }
        out.serialize_field("name", span.name)?;
        out.serialize_field("kind", &kind)?;
        out.serialize_field("startTimeUnixNano", &span.from.to_string())?;
        out.serialize_field("endTimeUnixNano", &span.to.to_string())?;
        out.serialize_field("attributes", &attributes)?;
        if let Some(message) = &span.error {
            out.serialize_field("status", &Status { code: FAILED, message })?;
        }
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;
    use crate::trace::TraceId;

    fn ticket() -> Spans {
        let mut spans = Spans::new(TraceId([0xab; 16]), "ticket", 1_700_000_000_123_456_789);
        spans.set(0, "url.full", Value::url("http://a.test/\"x\"\n"));
        let number =
            spans.add(0, "GET", Kind::Client, 1_700_000_000_123_456_790, 1_700_000_000_200_000_000).unwrap();
        spans.set(number, "http.response.status_code", Value::Number(404));
        spans.set(number, "nephila.reused", Value::Flag(false));
        spans.fail(number, Value::Word("404"), "not there");
        spans
    }

    #[test]
    fn a_body_is_otlp_json() {
        let mut batch = Batch::new(&[("service.name", "my \"crawler\"")], "0.1.0");
        batch.push(&ticket());
        assert_eq!(batch.spans(), 2);
        let body: Json = serde_json::from_slice(&batch.take()).unwrap();
        let resource = &body["resourceSpans"][0];
        assert_eq!(
            resource["resource"]["attributes"],
            serde_json::json!([{"key": "service.name", "value": {"stringValue": "my \"crawler\""}}])
        );
        let scope = &resource["scopeSpans"][0];
        assert_eq!(scope["scope"], serde_json::json!({"name": "nephila", "version": "0.1.0"}));
        let (root, request) = (&scope["spans"][0], &scope["spans"][1]);
        assert_eq!(root["traceId"], "ab".repeat(16));
        assert_eq!(root.get("parentSpanId"), None);
        assert_eq!(request["parentSpanId"], root["spanId"]);
        assert_eq!(root["startTimeUnixNano"], "1700000000123456789");
        assert_eq!((&root["kind"], &request["kind"]), (&Json::from(1), &Json::from(3)));
        assert_eq!(root["attributes"][0]["value"]["stringValue"], "http://a.test/\"x\"\n");
        assert_eq!(
            request["attributes"],
            serde_json::json!([
                {"key": "http.response.status_code", "value": {"intValue": "404"}},
                {"key": "nephila.reused", "value": {"boolValue": false}},
                {"key": "error.type", "value": {"stringValue": "404"}},
            ])
        );
        assert_eq!(request["status"], serde_json::json!({"code": 2, "message": "not there"}));
        assert_eq!(root.get("status"), None);
    }

    #[test]
    fn a_batch_is_full_by_spans_or_by_bytes_and_empty_when_taken() {
        let mut batch = Batch::new(&[], "0");
        let mut tickets = 0;
        while !batch.is_full() {
            batch.push(&ticket());
            tickets += 1;
        }
        assert_eq!((tickets, batch.spans()), (SPANS_MAX / 2, SPANS_MAX));
        let body: Json = serde_json::from_slice(&batch.take()).unwrap();
        let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        assert_eq!((spans.len(), batch.spans(), batch.is_full()), (SPANS_MAX, 0, false));
        let empty: Json = serde_json::from_slice(&batch.take()).unwrap();
        assert_eq!(empty["resourceSpans"][0]["scopeSpans"][0]["spans"], serde_json::json!([]));
        let mut long = ticket();
        (0..200).for_each(|_| long.set(1, "url.full", Value::url(&"u".repeat(9_000))));
        (0..3).for_each(|_| batch.push(&long));
        assert!(batch.is_full() && batch.spans() == 6, "{} bytes", batch.take().len());
    }
}
