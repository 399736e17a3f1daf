//! The spans of one ticket, as values: the root, one span for each stage, one for each request, and one for each phase of
//! a request.
//!
//! The names of attributes follow the semantic conventions of OpenTelemetry where there is one; names that begin with
//! `nephila.` are ours.
//!
//! Invariants: a child lies within its parent in time; a trace has at most [`SPANS_MAX`] spans; no text is longer than
//! its limit.

use super::TraceId;

/// Maximum number of spans of a ticket. A ticket with a HEAD request and two GET requests has fewer than 40.
pub const SPANS_MAX: usize = 64;
/// Maximum size in bytes of a URL in an attribute.
pub const URL_BYTES_MAX: usize = 2_048;
/// Maximum size in bytes of any other text.
pub const TEXT_BYTES_MAX: usize = 256;

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Work of this process.
    Internal,
    /// A request to another program.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text of a site or of an operator, cut to its limit.
    Text(String),
    /// A word of ours.
    Word(&'static str),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

impl Value {
    /// A text of at most [`TEXT_BYTES_MAX`] bytes.
    pub fn text(text: &str) -> Value {
        Value::Text(cut(text, TEXT_BYTES_MAX))
    }

    /// A URL of at most [`URL_BYTES_MAX`] bytes.
    pub fn url(url: &str) -> Value {
        Value::Text(cut(url, URL_BYTES_MAX))
    }

    /// A number; one beyond 63 bits is the largest.
    pub fn number(number: u64) -> Value {
        Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// Cuts a text to this number of bytes. A text that was cut ends with `…`.
pub fn cut(text: &str, bytes_max: usize) -> String {
    const CUT: &str = "…";
    match text.len() <= bytes_max {
        true => text.to_owned(),
        false => format!("{}{CUT}", &text[..text.floor_char_boundary(bytes_max.saturating_sub(CUT.len()))]),
    }
}

/// A span. Times are nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The name, from a closed set.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The number of the parent; none for the root.
    pub parent: Option<usize>,
    /// Begin.
    pub from: u64,
    /// End.
    pub to: u64,
    /// Attributes.
    pub attributes: Vec<(&'static str, Value)>,
    /// The cause, if the work failed.
    pub error: Option<String>,
}

/// The trace of a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spans {
    /// The id.
    pub id: TraceId,
    all: Vec<Span>,
}

impl Spans {
    /// A trace with its root, which ends last of all spans.
    pub fn new(id: TraceId, name: &'static str, from: u64) -> Spans {
        let root = Span {
            name,
            kind: Kind::Internal,
            parent: None,
            from,
            to: from,
            attributes: Vec::new(),
            error: None,
        };
        Spans { id, all: vec![root] }
    }

    /// Adds a span that has ended; its times are cut to the begin of its parent. Returns its number; none if there are
    /// [`SPANS_MAX`] already.
    pub fn add(
        &mut self,
        parent: usize,
        name: &'static str,
        kind: Kind,
        from: u64,
        to: u64,
    ) -> Option<usize> {
        if self.all.len() >= SPANS_MAX {
            return None;
        }
        let from = from.max(self.all[parent].from);
        let span = Span {
            name,
            kind,
            parent: Some(parent),
            from,
            to: to.max(from),
            attributes: Vec::new(),
            error: None,
        };
        self.all.push(span);
        let number = self.all.len() - 1;
        self.stretch(number);
        Some(number)
    }

    /// Moves the end of a span to a later time.
    pub fn end(&mut self, number: usize, to: u64) {
        let span = &mut self.all[number];
        span.to = span.to.max(to);
        self.stretch(number);
    }

    /// A parent ends no earlier than its children.
    fn stretch(&mut self, number: usize) {
        let (mut at, to) = (self.all[number].parent, self.all[number].to);
        while let Some(parent) = at {
            self.all[parent].to = self.all[parent].to.max(to);
            at = self.all[parent].parent;
        }
    }

    /// Adds an attribute.
    pub fn set(&mut self, number: usize, name: &'static str, value: Value) {
        self.all[number].attributes.push((name, value));
    }

    /// Marks a span as failed. `kind` is `error.type`, the cause is for people.
    pub fn fail(&mut self, number: usize, kind: Value, cause: &str) {
        self.set(number, "error.type", kind);
        self.all[number].error = Some(cut(cause, TEXT_BYTES_MAX));
    }

    /// The spans, the root first, parents before children.
    pub fn all(&self) -> &[Span] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_lie_within_their_parents_whatever_their_times() {
        let mut spans = Spans::new(TraceId([1; 16]), "ticket", 100);
        let stage = spans.add(0, "fetch", Kind::Internal, 90, 200).unwrap();
        let request = spans.add(stage, "GET", Kind::Client, 120, 260).unwrap();
        spans.add(request, "body", Kind::Internal, 110, 105).unwrap();
        spans.end(0, 150);
        for span in spans.all() {
            assert!(span.from <= span.to, "{span:?}");
            let Some(parent) = span.parent.map(|parent| &spans.all()[parent]) else { continue };
            assert!(parent.from <= span.from && span.to <= parent.to, "{parent:?} {span:?}");
        }
        assert_eq!(spans.all()[0].to, 260);
    }

    #[test]
    fn spans_and_texts_have_limits() {
        let mut spans = Spans::new(TraceId([1; 16]), "ticket", 0);
        let added = (0..1_000).filter(|_| spans.add(0, "fetch", Kind::Internal, 0, 1).is_some()).count();
        assert_eq!((added, spans.all().len()), (SPANS_MAX - 1, SPANS_MAX));
        let Value::Text(text) = Value::text(&"ü".repeat(1_000)) else { panic!("a text") };
        assert!(text.len() <= TEXT_BYTES_MAX && text.ends_with("ü…"), "{text}");
        assert_eq!(Value::text("short"), Value::Text("short".into()));
        let Value::Text(url) = Value::url(&"u".repeat(9_000)) else { panic!("a text") };
        assert_eq!(url.len(), URL_BYTES_MAX);
        assert_eq!(Value::number(u64::MAX), Value::Number(i64::MAX));
    }
}
