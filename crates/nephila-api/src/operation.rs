//! Operations of the API as data: method, path, parameters, body, answer and the role that may ask.
//!
//! Routing, the check of roles and parameters, and the OpenAPI document come from the same [`Operation`]. An operation
//! is described once; each kind of server lists the operations that it answers, each with its handler (`routes`).

use http::Method;
use nephila_engine::settings::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::question::HttpQuestion;

/// Maximum length of the value of a parameter in characters. A URL has at most 8 KiB.
pub const VALUE_CHARS_MAX: usize = 16 << 10;
/// Maximum number of digits of a time such as `20s`.
pub const TIME_DIGITS_MAX: usize = 6;
/// Units of such a time.
pub const TIME_UNITS: [&str; 4] = ["ms", "s", "m", "h"];

/// The JSON schema of a type.
pub type Shape = fn(&mut SchemaGenerator) -> Schema;

/// The JSON schema of `T`, for an [`Operation`].
pub const fn shape<T: JsonSchema>() -> Shape {
    SchemaGenerator::subschema_for::<T>
}

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Reads; HEAD is answered as well.
    Get,
    /// Changes or creates.
    Post,
    /// Changes a part.
    Patch,
    /// Removes.
    Delete,
}

impl Verb {
    /// The name of the method.
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
        }
    }

    /// The verb that answers a method.
    pub fn of(method: &Method) -> Option<Verb> {
        match *method {
            Method::GET | Method::HEAD => Some(Verb::Get),
            Method::POST => Some(Verb::Post),
            Method::PATCH => Some(Verb::Patch),
            Method::DELETE => Some(Verb::Delete),
            _ => None,
        }
    }
}

/// Permitted values of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// A text with a sign that is neither a blank nor a quotation mark.
    Phrase,
    /// A number between two limits, both included.
    Number(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Some of these words, with commas between them.
    Words(&'static [&'static str]),
    /// A URL. Whether it is one that is crawled, the operation judges.
    Url,
    /// The cursor of an answer, which has no meaning for clients.
    Cursor,
    /// A date of HTTP. Whether the day exists, the operation judges.
    Date,
    /// As many digits as this, both included: `2026`, `20261115120000`.
    Digits(usize, usize),
    /// Such as `20s`: digits, and `ms`, `s`, `m` or `h`.
    Time,
}

impl Kind {
    /// Whether a text is a permitted value.
    fn takes(self, text: &str) -> bool {
        match self {
            Kind::Text | Kind::Date => is_short(text),
            Kind::Url | Kind::Cursor => !text.is_empty() && is_short(text),
            Kind::Phrase => is_short(text) && text.split('"').any(|part| !part.trim().is_empty()),
            Kind::Number(least, most) => {
                let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
                number.is_some_and(|number: u64| (least..=most).contains(&number))
            }
            Kind::Word(words) => words.contains(&text),
            // None of them is a list too: a client need not leave the parameter out.
            Kind::Words(words) => text.is_empty() || text.split(',').all(|word| words.contains(&word)),
            Kind::Digits(least, most) => {
                (least..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
            }
            Kind::Time => {
                let digits = text.bytes().take_while(u8::is_ascii_digit).count();
                (1..=TIME_DIGITS_MAX).contains(&digits) && TIME_UNITS.contains(&&text[digits..])
            }
        }
    }

    /// The permitted values, in words.
    fn meaning(self) -> String {
        match self {
            Kind::Text => format!("a text of at most {VALUE_CHARS_MAX} characters"),
            Kind::Phrase => format!("at least one word, in at most {VALUE_CHARS_MAX} characters"),
            Kind::Url => format!("a URL of at most {VALUE_CHARS_MAX} characters"),
            Kind::Date => "a date such as Sun, 15 Nov 2026 12:00:00 GMT".to_owned(),
            Kind::Cursor => "the cursor of an answer".to_owned(),
            Kind::Words(words) => format!("{}, with commas between them", words.join(", ")),
            Kind::Digits(least, most) => format!("{least} to {most} digits, such as 20261115"),
            Kind::Number(least, most) => format!("a number from {least} to {most}"),
            Kind::Word(words) => words.join(", "),
            Kind::Time => "a time such as 20s".to_owned(),
        }
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= VALUE_CHARS_MAX || text.chars().count() <= VALUE_CHARS_MAX
}

/// The place of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A part of the path, named in the template.
    Path,
    /// A parameter of the query.
    Query,
    /// A header field.
    Field,
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name, as sent.
    pub name: &'static str,
    /// Place in the request.
    pub place: Place,
    /// Permitted values.
    pub kind: Kind,
    /// Whether a request without the parameter is refused.
    pub is_required: bool,
    /// Whether a request may have the parameter several times.
    pub is_repeated: bool,
    /// Meaning, in a sentence.
    pub help: &'static str,
}

/// An optional parameter of the query.
pub const fn query(name: &'static str, kind: Kind, help: &'static str) -> Parameter {
    Parameter { name, place: Place::Query, kind, is_required: false, is_repeated: false, help }
}

/// A part of the path.
pub const fn part(name: &'static str, help: &'static str) -> Parameter {
    Parameter { name, place: Place::Path, kind: Kind::Text, is_required: true, is_repeated: false, help }
}

/// An optional header field.
pub const fn field(name: &'static str, kind: Kind, help: &'static str) -> Parameter {
    Parameter { name, place: Place::Field, kind, is_required: false, is_repeated: false, help }
}

impl Parameter {
    /// The same parameter, without which a request is refused.
    pub const fn required(mut self) -> Parameter {
        self.is_required = true;
        self
    }

    /// The same parameter of the query, which a request may have several times.
    pub const fn repeated(mut self) -> Parameter {
        self.is_repeated = true;
        self
    }
}

/// Content of a body or an answer.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// JSON of this shape.
    Json(Shape),
    /// Other content, of these types.
    Other(&'static [&'static str]),
}

/// An operation. Built by [`get`] or [`change`] and the methods below, as a static.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Stable name, unique among all operations.
    pub id: &'static str,
    /// The method.
    pub verb: Verb,
    /// Template of the path: `/api/v1/jobs/{job}`. A last part `{*rest}` takes the rest of the path with its slashes.
    pub path: &'static str,
    /// Group of the operation in the document.
    pub tag: &'static str,
    /// The least role; none for an operation that needs no token.
    pub role: Option<Role>,
    /// What the operation does, in a sentence.
    pub summary: &'static str,
    /// Parameters, in any order.
    pub parameters: &'static [Parameter],
    /// Body of the request, if there is one.
    pub body: Option<Form>,
    /// Status of a usual answer.
    pub status: u16,
    /// Content of a usual answer.
    pub answer: Form,
    /// Further answers without an error and without content, each with its meaning.
    pub also: &'static [(u16, &'static str)],
    /// A further answer without an error, with its content.
    pub other: Option<(u16, &'static str, Form)>,
    /// Whether an answer may be a capture, which has any status and any content type.
    pub is_capture: bool,
    /// Whether the holder of a link may ask (`public`). The handler checks the link.
    pub is_by_link: bool,
    /// Field of the answer with the rows of a list, which may be asked for as JSON lines; empty if the answer itself
    /// is the list.
    pub rows: Option<&'static str>,
}

const fn new(verb: Verb, id: &'static str, path: &'static str, summary: &'static str) -> Operation {
    Operation {
        id,
        verb,
        path,
        tag: "crawl",
        role: Some(Role::Read),
        summary,
        parameters: &[],
        body: None,
        status: 200,
        answer: Form::Other(&["application/json"]),
        also: &[],
        other: None,
        is_capture: false,
        is_by_link: false,
        rows: None,
    }
}

/// An operation that reads.
pub const fn get(id: &'static str, path: &'static str, summary: &'static str) -> Operation {
    new(Verb::Get, id, path, summary)
}

/// An operation that changes something, for holders of this role.
pub const fn change(
    verb: Verb,
    role: Role,
    id: &'static str,
    path: &'static str,
    summary: &'static str,
) -> Operation {
    let operation = new(verb, id, path, summary);
    Operation { role: Some(role), ..operation }
}

impl Operation {
    /// Sets the group.
    pub const fn tag(mut self, tag: &'static str) -> Operation {
        self.tag = tag;
        self
    }

    /// Needs no token.
    pub const fn open(mut self) -> Operation {
        self.role = None;
        self
    }

    /// Needs no token but a link, which the handler checks.
    pub const fn by_link(mut self) -> Operation {
        self.role = None;
        self.is_by_link = true;
        self
    }

    /// Sets the parameters.
    pub const fn with(mut self, parameters: &'static [Parameter]) -> Operation {
        self.parameters = parameters;
        self
    }

    /// The body is JSON of this type.
    pub const fn takes<T: JsonSchema>(mut self) -> Operation {
        self.body = Some(Form::Json(shape::<T>()));
        self
    }

    /// The body has one of these types.
    pub const fn takes_text(mut self, types: &'static [&'static str]) -> Operation {
        self.body = Some(Form::Other(types));
        self
    }

    /// The answer is JSON of this type.
    pub const fn gives<T: JsonSchema>(mut self) -> Operation {
        self.answer = Form::Json(shape::<T>());
        self
    }

    /// The answer has one of these types.
    pub const fn gives_text(mut self, types: &'static [&'static str]) -> Operation {
        self.answer = Form::Other(types);
        self
    }

    /// Sets the status of a usual answer.
    pub const fn status(mut self, status: u16) -> Operation {
        self.status = status;
        self
    }

    /// Sets further answers without an error.
    pub const fn or(mut self, also: &'static [(u16, &'static str)]) -> Operation {
        self.also = also;
        self
    }

    /// Sets a further answer without an error: JSON of this type.
    pub const fn or_gives<T: JsonSchema>(mut self, status: u16, meaning: &'static str) -> Operation {
        self.other = Some((status, meaning, Form::Json(shape::<T>())));
        self
    }

    /// The answer may be a capture, with the status and the content type that its site sent.
    pub const fn or_capture(mut self) -> Operation {
        self.is_capture = true;
        self
    }

    /// The rows of the answer, which may be asked for as JSON lines.
    pub const fn rows(mut self, field: &'static str) -> Operation {
        self.rows = Some(field);
        self
    }

    /// Matches a path, and decodes its parts.
    pub fn matches(&self, path: &str) -> Option<Vec<(&'static str, String)>> {
        let (mut parts, mut rest) = (Vec::new(), path);
        let mut wanted = self.path.split('/').peekable();
        while let Some(part) = wanted.next() {
            if let Some(name) = part.strip_prefix("{*").and_then(|name| name.strip_suffix('}')) {
                parts.push((name, rest.to_owned()));
                return (!rest.is_empty()).then_some(parts);
            }
            let (here, behind) = match wanted.peek() {
                Some(_) => rest.split_once('/')?,
                None => (rest, ""),
            };
            match part.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(_) if here.is_empty() || here.contains('/') => return None,
                Some(name) => parts.push((name, super::question::unescaped(here))),
                None if part != here => return None,
                None => {}
            }
            rest = behind;
        }
        Some(parts)
    }

    /// Checks the parameters of a request. The error is a title and a detail.
    pub fn check(&self, asked: &HttpQuestion) -> Result<(), (String, String)> {
        for parameter in self.parameters {
            let given = match parameter.place {
                Place::Query => asked.texts(parameter.name),
                Place::Field => Ok(asked.field(parameter.name).map(str::to_owned).into_iter().collect()),
                // The rest of a path is taken as received.
                Place::Path if self.path.contains("{*") => continue,
                Place::Path => asked.path_is_text().map(|()| vec![asked.part(parameter.name).to_owned()]),
            };
            let wrong = |detail: String| Err((format!("invalid parameter {}", parameter.name), detail));
            let Ok(given) = given else {
                return wrong(format!("{} is percent-encoded UTF-8", parameter.name));
            };
            if given.is_empty() && parameter.is_required {
                return Err((format!("missing parameter {}", parameter.name), parameter.help.to_owned()));
            }
            if given.len() > 1 && !parameter.is_repeated {
                return wrong(format!("{} is there more than once", parameter.name));
            }
            if !given.iter().all(|text| parameter.kind.takes(text)) {
                return wrong(format!("{} is {}", parameter.name, parameter.kind.meaning()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    static JOB: Operation = get("getThing", "/api/v1/jobs/{job}/{step}", "A step.").with(&[
        part("job", "The job."),
        query("max", Kind::Number(1, 10), "Rows.").required(),
        query("state", Kind::Word(&["on", "off"]), "State."),
    ]);
    static REST: Operation = get("getRest", "/web/{*url}", "The rest.");

    #[test]
    fn a_path_is_matched_part_by_part_and_its_parts_are_decoded() {
        let parts = JOB.matches("/api/v1/jobs/a%2Fb/pause").unwrap();
        assert_eq!(parts, [("job", "a/b".to_owned()), ("step", "pause".to_owned())]);
        for other in ["/api/v1/jobs/a", "/api/v1/jobs/a/b/c", "/api/v1/jobs//b", "/api/v2/jobs/a/b", "", "/"]
        {
            assert_eq!(JOB.matches(other), None, "{other}");
        }
        let rest = REST.matches("/web/2026id_/http://a.test//x%20y").unwrap();
        assert_eq!(rest, [("url", "2026id_/http://a.test//x%20y".to_owned())], "as received");
        assert_eq!(REST.matches("/web/"), None);
    }

    #[test]
    fn a_parameter_is_there_once_and_is_text() {
        static LIST: Operation = get("list", "/list/{name}", "Rows.").with(&[
            part("name", "The name."),
            query("host", Kind::Text, "A host."),
            query("outcome", Kind::Text, "Outcomes.").repeated(),
        ]);
        let check = |target: &str| {
            let mut asked = HttpQuestion::new(Method::GET, target, HeaderMap::new(), false);
            asked.parts = LIST.matches(&asked.path).unwrap();
            LIST.check(&asked).map_err(|(title, _)| title)
        };
        for target in
            ["/list/a?host=%C3%A9&outcome=a&outcome=b", "/list/100%25?host=100%", "/list/%zz?host=%zz"]
        {
            assert_eq!(check(target), Ok(()), "{target}");
        }
        for (target, name) in [
            ("/list/a?host=a&host=b", "host"),
            ("/list/a?host=%ff", "host"),
            ("/list/a?outcome=a&outcome=%C3", "outcome"),
            ("/list/%fe%00", "name"),
        ] {
            assert_eq!(check(target), Err(format!("invalid parameter {name}")), "{target}");
        }
    }

    #[test]
    fn each_kind_takes_what_the_document_describes() {
        for (kind, good, bad) in [
            (
                Kind::Time,
                &["0s", "20s", "999999ms", "5m", "1h"][..],
                &["", "s", "20", "1h 5m", "1000000s", "1d"][..],
            ),
            (Kind::Words(&["status", "log"]), &["", "log", "status,log"], &["logs", "log,", "log status"]),
            (
                Kind::Digits(4, 14),
                &["2026", "20261115120000"],
                &["202", "2026-11", "202611151200001", "\u{663}333"],
            ),
            (Kind::Url, &["http://a.test/", "a.test"], &[""]),
            (Kind::Phrase, &["a", "\"a b\"", " \u{e9}"], &["", " ", "\"\"", "\" \""]),
            (Kind::Cursor, &["x"], &[""]),
        ] {
            good.iter().for_each(|text| assert!(kind.takes(text), "{kind:?}: {text}"));
            bad.iter().for_each(|text| assert!(!kind.takes(text), "{kind:?}: {text}"));
        }
        let long = "\u{e9}".repeat(VALUE_CHARS_MAX);
        assert!(Kind::Text.takes(&long) && !Kind::Text.takes(&format!("{long}a")));
    }

    #[test]
    fn a_parameter_outside_its_limits_is_refused_by_name() {
        let check = |target: &str| {
            let asked = HttpQuestion::new(Method::GET, target, HeaderMap::new(), false);
            JOB.check(&asked).map_err(|(title, _)| title)
        };
        assert_eq!(check("/x?max=10&state=on&other=1"), Ok(()));
        for (target, title) in [
            ("/x", "missing parameter max"),
            ("/x?max=0", "invalid parameter max"),
            ("/x?max=+1", "invalid parameter max"),
            ("/x?max=", "invalid parameter max"),
            ("/x?max=99999999999999999999", "invalid parameter max"),
            ("/x?max=1&state=maybe", "invalid parameter state"),
        ] {
            assert_eq!(check(target), Err(title.to_owned()), "{target}");
        }
    }
}
