//! The OpenAPI 3.1 document of a table of operations, with schemas from the types of bodies and answers.
//!
//! Invariant: the document has every operation of the table and nothing else.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::agent;
use super::idempotency::KEY_BYTES_MAX;
use super::lines::LINES_TYPE;
use super::operation::{
    Form, Kind, Operation, Parameter, Place, TIME_DIGITS_MAX, TIME_UNITS, VALUE_CHARS_MAX, Verb,
};
use super::problem::{KINDS, PREFIX, PROBLEM_TYPE};
use super::tokens::{COOKIE, COOKIE_TLS};

/// Version of the API, which is the version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Problems that every operation may answer with.
const ALWAYS: [u16; 8] = [400, 403, 404, 405, 408, 413, 500, 503];
/// Refusals of heads that are no head of HTTP or too large, before an operation is known: they have no body.
const HEADS: [(u16, &str, &str); 2] = [
    (414, "UriTooLong", "The target of the request has more than 64 KiB."),
    (431, "HeadTooLarge", "The head of the request is too large."),
];

/// What clients of a server need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Open,
    /// A token or a session.
    Tokens,
    /// The same; the connections are encrypted, and the cookie has another name.
    TokensTls,
    /// A token or a session if the server has tokens; it is not known here.
    Either,
}

impl Access {
    /// All of them.
    pub const ALL: [Access; 4] = [Access::Open, Access::Tokens, Access::TokensTls, Access::Either];

    /// What an operation that needs a role asks for.
    fn security(self) -> Value {
        match self {
            Access::Open => json!([]),
            Access::Tokens | Access::TokensTls => json!([{"bearer": []}, {"session": []}]),
            Access::Either => json!([{"bearer": []}, {"session": []}, {}]),
        }
    }

    fn schemes(self) -> Value {
        let cookie = if self == Access::TokensTls { COOKIE_TLS } else { COOKIE };
        match self {
            Access::Open => json!({}),
            _ => json!({
                "bearer": {"type": "http", "scheme": "bearer", "description": "A token of the settings. Without tokens, none is needed."},
                "session": {"type": "apiKey", "in": "cookie", "name": cookie, "description": "The cookie of `beginSession`."},
            }),
        }
    }
}

/// The document of these operations.
pub(super) fn document(
    title: &str,
    access: Access,
    operations: impl Iterator<Item = &'static Operation>,
) -> Value {
    let at = |settings: SchemaSettings| {
        settings.with(|settings| settings.definitions_path = "/components/schemas".into())
    };
    let mut answers = at(SchemaSettings::draft2020_12().for_serialize()).into_generator();
    // A request may have fields that answers do not have, so its schemas do not share names with theirs.
    let mut bodies =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator();
    let mut paths = Map::new();
    for operation in operations {
        let path = operation.path.replace("{*", "{");
        let described = described(operation, &mut answers, &mut bodies);
        let at = paths.entry(path).or_insert_with(|| json!({}));
        at[operation.verb.name().to_lowercase()] = described;
    }
    let mut schemas = answers.take_definitions(true);
    schemas.insert("Problem".to_owned(), problem_schema());
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": VERSION,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
            "description": "Times are RFC 3339 in UTC, durations numbers of seconds (`_s`) or milliseconds (`_ms`), sizes bytes. \
                            Errors are problems of RFC 9457 with a `type` from a closed list. A head that is no HTTP, or too large, is \
                            refused with 400, 414 or 431 and without a body. The `Content-Type` of a request is not looked at. Texts \
                            of a query are percent-encoded UTF-8: a space is `%20`, and `+` is a plus sign.",
        },
        "servers": [{"url": "/"}],
        "security": access.security(),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": problems(),
            "parameters": {"IdempotencyKey": {
                "name": "Idempotency-Key",
                "in": "header",
                "required": false,
                "description": "A text of the client's choice, at most 255 visible characters. A repeated request with the same \
                                key gets the first answer again, for 24 hours, and changes nothing.",
                "schema": {"type": "string", "minLength": 1, "maxLength": KEY_BYTES_MAX, "pattern": "^[!-~]+$"},
            }},
            "securitySchemes": access.schemes(),
        },
    });
    with_limits(&mut document);
    document
}

/// Adds the largest number of each format: `uint32` alone is a remark for people.
fn with_limits(value: &mut Value) {
    if let Value::Array(values) = value {
        values.iter_mut().for_each(with_limits);
    }
    let Value::Object(fields) = value else { return };
    fields.values_mut().for_each(with_limits);
    let most = match fields.get("format").and_then(Value::as_str) {
        Some("uint32") => Some(u64::from(u32::MAX)),
        Some("uint64" | "uint") => Some(u64::MAX),
        _ => None,
    };
    if let Some(most) = most
        && !fields.contains_key("maximum")
    {
        fields.insert("maximum".to_owned(), most.into());
    }
}

fn described(operation: &Operation, answers: &mut SchemaGenerator, bodies: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = operation.parameters.iter().map(parameter).collect();
    if operation.verb == Verb::Post {
        parameters.push(json!({"$ref": "#/components/parameters/IdempotencyKey"}));
    }
    let mut usual = json!({"description": operation.summary});
    let mut content = content(&operation.answer, answers);
    if operation.rows.is_some() {
        content[LINES_TYPE] = json!({"schema": {"type": "string", "description": "A row in each line; then the other fields."}});
    }
    if operation.status != 204 {
        usual["content"] = content;
    }
    let mut replies = json!({operation.status.to_string(): usual});
    if let Some((status, meaning, form)) = &operation.other {
        replies[status.to_string()] =
            json!({"description": meaning, "content": self::content(form, answers)});
    }
    for (status, meaning) in operation.also {
        replies[status.to_string()] = json!({"description": meaning});
        if *status == 302 {
            replies[status.to_string()]["headers"] =
                field("Location", "Where to ask.", json!({"type": "string"}));
        }
    }
    let replies = match operation.is_capture {
        true => {
            let meaning = "A capture, with the status and the content type that its site sent; or a problem.";
            replies["default"] = json!({"description": meaning, "content": {"*/*": {}}});
            replies
        }
        false if operation.path.starts_with(agent::FIRECRAWL) => {
            replies["default"] = json!({"$ref": "#/components/responses/Firecrawl"});
            replies
        }
        false => with_problems(replies, operation),
    };
    let mut described = json!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": parameters,
        "responses": replies,
        "x-nephila-role": operation.role.map_or("none", |role| role.name()),
    });
    if operation.role.is_none() {
        described["security"] = json!([]);
    }
    if let Some(body) = &operation.body {
        // Text of no lines is a body too.
        let is_required = matches!(body, Form::Json(_));
        described["requestBody"] = json!({"required": is_required, "content": self::content(body, bodies)});
    }
    described
}

/// Adds the problems with which an operation may answer.
fn with_problems(mut replies: Value, operation: &Operation) -> Value {
    let mut expected = ALWAYS.to_vec();
    if operation.role.is_some() {
        expected.extend([401, 429]);
    }
    if operation.verb != Verb::Get {
        expected.push(409);
    }
    if operation.verb == Verb::Post {
        expected.push(422);
    }
    for status in expected {
        replies[status.to_string()] = json!({"$ref": format!("#/components/responses/{}", name_of(status))});
    }
    if operation.is_by_link {
        replies["429"] = json!({"$ref": format!("#/components/responses/{}", name_of(429))});
        let meaning = "No such thing, or a link that opens nothing (any more); a page, if the client accepts `text/html`.";
        let problem = json!({"schema": {"$ref": "#/components/schemas/Problem"}});
        let page = json!({"schema": {"type": "string"}});
        replies["404"] =
            json!({"description": meaning, "content": {PROBLEM_TYPE: problem, "text/html": page}});
    }
    for (status, name, _) in HEADS {
        replies[status.to_string()] = json!({"$ref": format!("#/components/responses/{name}")});
    }
    replies
}

fn content(form: &Form, generator: &mut SchemaGenerator) -> Value {
    match form {
        Form::Json(shape) => json!({"application/json": {"schema": shape(generator)}}),
        Form::Other(types) => {
            let one = |of: &&'static str| {
                let is_text = of.starts_with("text/") || *of == LINES_TYPE;
                let schema = if is_text { json!({"type": "string"}) } else { json!({}) };
                ((*of).to_owned(), json!({"schema": schema}))
            };
            Value::Object(types.iter().map(one).collect())
        }
    }
}

fn parameter(parameter: &Parameter) -> Value {
    let schema = match parameter.kind {
        Kind::Text if parameter.place == Place::Path => {
            json!({"type": "string", "minLength": 1, "maxLength": VALUE_CHARS_MAX})
        }
        Kind::Text => json!({"type": "string", "maxLength": VALUE_CHARS_MAX}),
        Kind::Phrase => json!({"type": "string", "maxLength": VALUE_CHARS_MAX, "pattern": "[^\\s\"]"}),
        Kind::Url => {
            json!({"type": "string", "format": "uri", "minLength": 1, "maxLength": VALUE_CHARS_MAX})
        }
        Kind::Cursor => {
            json!({"type": "string", "format": "cursor", "minLength": 1, "maxLength": VALUE_CHARS_MAX})
        }
        Kind::Date => {
            json!({"type": "string", "format": "http-date", "examples": ["Sun, 15 Nov 2026 12:00:00 GMT"]})
        }
        Kind::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Kind::Word(words) => json!({"type": "string", "enum": words}),
        Kind::Words(words) => {
            let words = words.join("|");
            json!({"type": "string", "pattern": format!("^(({words})(,({words}))*)?$")})
        }
        Kind::Digits(least, most) => {
            json!({"type": "string", "pattern": format!("^[0-9]{{{least},{most}}}$")})
        }
        Kind::Time => {
            let pattern = format!("^[0-9]{{1,{TIME_DIGITS_MAX}}}({})$", TIME_UNITS.join("|"));
            json!({"type": "string", "pattern": pattern, "examples": ["20s"]})
        }
    };
    let schema = if parameter.is_repeated { json!({"type": "array", "items": schema}) } else { schema };
    let place = match parameter.place {
        Place::Path => "path",
        Place::Query => "query",
        Place::Field => "header",
    };
    json!({
        "name": parameter.name,
        "in": place,
        "required": parameter.is_required || parameter.place == Place::Path,
        "description": parameter.help,
        "schema": schema,
    })
}

/// Name of the answer with a problem: `NotFound`.
fn name_of(status: u16) -> String {
    let kind = KINDS.iter().find(|(number, ..)| *number == status).map_or("problem", |(_, kind, _)| kind);
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    kind.split('-').map(word).collect()
}

fn problems() -> Value {
    let one = |(status, kind, meaning): &(u16, &str, &str)| {
        let mut described = json!({
            "description": format!("`{PREFIX}{kind}`. {meaning}"),
            "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        });
        match status {
            429 | 503 => {
                described["headers"] =
                    field("Retry-After", "Seconds until the next try.", json!({"type": "integer"}));
            }
            405 => {
                described["headers"] = field("Allow", "The methods of the path.", json!({"type": "string"}))
            }
            401 => {
                described["headers"] =
                    field("WWW-Authenticate", "The scheme: Bearer.", json!({"type": "string"}));
            }
            _ => {}
        }
        (name_of(*status), described)
    };
    let heads = HEADS.iter().map(|(_, name, meaning)| ((*name).to_owned(), json!({"description": meaning})));
    let firecrawl = json!({
        "description": "An error in the form of Firecrawl; the status says what sort it is.",
        "content": {"application/json": {"schema": {
            "type": "object",
            "required": ["success", "error"],
            "properties": {
                "success": {"type": "boolean", "const": false},
                "error": {"type": "string"},
                "code": {"type": "string"},
            },
        }}},
    });
    let own = [("Firecrawl".to_owned(), firecrawl)];
    Value::Object(KINDS.iter().map(one).chain(heads).chain(own).collect())
}

/// A header field that an answer always has.
fn field(name: &str, help: &str, schema: Value) -> Value {
    json!({name: {"description": help, "required": true, "schema": schema}})
}

fn problem_schema() -> Value {
    let kinds: Vec<String> = KINDS.iter().map(|(_, kind, _)| format!("{PREFIX}{kind}")).collect();
    let statuses: Vec<u16> = KINDS.iter().map(|(status, ..)| *status).collect();
    json!({
        "type": "object",
        "description": "An error (RFC 9457). Programs decide by `type`, which is stable; `title` and `detail` are for people.",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string", "enum": kinds},
            "title": {"type": "string"},
            "status": {"type": "integer", "enum": statuses},
            "detail": {"type": "string"},
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::Questions;
    use super::super::routes::Answers as _;
    use super::super::web::ReadOnly;
    use super::*;

    /// All references in a document.
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn the_document_says_what_parameters_and_answers_are() {
        let document = document("test", Access::TokensTls, Questions::routes().operations());
        let parameter = |path: &str, name: &str| {
            let all = document["paths"][path]["get"]["parameters"].as_array().unwrap();
            all.iter().find(|one| one["name"] == name).unwrap()["schema"].clone()
        };
        assert_eq!(parameter("/api/v1/search", "q")["pattern"], "[^\\s\"]");
        assert_eq!(parameter("/api/v1/events", "wait")["pattern"], "^[0-9]{1,6}(ms|s|m|h)$");
        assert_eq!(parameter("/api/v1/pages", "at")["pattern"], "^[0-9]{4,14}$");
        assert_eq!(parameter("/api/v1/live", "topics")["pattern"], "^((status|log)(,(status|log))*)?$");
        assert_eq!(parameter("/api/v1/log", "outcome")["type"], "array");
        assert_eq!(parameter("/api/v1/pages", "bytes_max")["maximum"], u64::MAX);
        let answers = |path: &str, method: &str| document["paths"][path][method]["responses"].clone();
        let added = answers("/api/v1/urls", "post");
        assert_eq!(added["200"]["content"], added["202"]["content"], "on one machine and in a cluster");
        assert!(added["431"]["$ref"].is_string() && added["415"].is_null());
        let capture = answers("/web/{address}", "get");
        assert!(capture["default"]["content"]["*/*"].is_object() && capture["404"].is_null());
        assert_eq!(capture["302"]["headers"]["Location"]["required"], true);
        let page = answers("/public/host/{host}", "get");
        assert!(page["404"]["content"]["text/html"].is_object() && page["429"]["$ref"].is_string());
        assert!(page["401"].is_null(), "a link is enough");
        assert_eq!(document["components"]["securitySchemes"]["session"]["name"], "__Host-nephila_session");
    }

    #[test]
    fn numbers_of_a_body_have_the_limits_of_their_type() {
        let mut schema =
            json!({"a": [{"format": "uint32", "minimum": 0}], "b": {"format": "uint8", "maximum": 9}});
        with_limits(&mut schema);
        assert_eq!((&schema["a"][0]["maximum"], &schema["b"]["maximum"]), (&json!(u32::MAX), &json!(9)));
    }

    #[test]
    fn the_document_has_each_operation_and_each_reference_leads_somewhere() {
        let tables: [Vec<&'static Operation>; 2] =
            [Questions::routes().operations().collect(), ReadOnly::routes().operations().collect()];
        for table in tables {
            let document = document("test", Access::Either, table.iter().copied());
            let mut count = 0;
            for methods in document["paths"].as_object().unwrap().values() {
                count += methods.as_object().unwrap().len();
            }
            assert_eq!(count, table.len());
            let ids: BTreeSet<&str> = table.iter().map(|operation| operation.id).collect();
            assert_eq!(ids.len(), table.len(), "names are unique");
            let mut found = BTreeSet::new();
            references(&document, &mut found);
            assert!(found.len() > 10);
            for reference in found {
                let place = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(place).is_some(), "{reference}");
            }
            for operation in table {
                let parts = operation
                    .path
                    .split('/')
                    .filter_map(|part| part.strip_prefix('{'))
                    .map(|part| part.trim_start_matches('*').trim_end_matches('}'));
                let named: Vec<&str> = parts.collect();
                let places = operation.parameters.iter().filter(|parameter| parameter.place == Place::Path);
                assert_eq!(places.map(|place| place.name).collect::<Vec<_>>(), named, "{}", operation.id);
                assert!(
                    operation.summary.ends_with('.') || operation.summary.ends_with('`'),
                    "{}",
                    operation.id
                );
            }
        }
    }
}
