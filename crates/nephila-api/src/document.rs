//! The OpenAPI 3.1 document of a table of operations, with schemas from the types of bodies and answers.
//!
//! Invariant: the document has every operation of the table and nothing else.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::idempotency::KEY_BYTES_MAX;
use super::lines::LINES_TYPE;
use super::operation::{Form, Kind, Operation, Parameter, Place, VALUE_BYTES_MAX, Verb};
use super::problem::{KINDS, PREFIX, PROBLEM_TYPE};

/// Version of the API, which is the version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Problems that every operation may answer with.
const ALWAYS: [u16; 8] = [400, 403, 404, 405, 408, 413, 500, 503];

/// The document of these operations.
pub(super) fn document(title: &str, operations: impl Iterator<Item = &'static Operation>) -> Value {
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
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": VERSION,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
            "description": "Times are RFC 3339 in UTC, durations numbers of seconds (`_s`) or milliseconds (`_ms`), sizes bytes. \
                            Errors are problems of RFC 9457 with a `type` from a closed list.",
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"session": []}, {}],
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
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A token of the settings. Without tokens, none is needed."},
                "session": {"type": "apiKey", "in": "cookie", "name": "nephila_session", "description": "The cookie of `beginSession`."},
            },
        },
    })
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
    for (status, meaning) in operation.also {
        replies[status.to_string()] = json!({"description": meaning});
    }
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
        described["requestBody"] = json!({"required": true, "content": self::content(body, bodies)});
    }
    described
}

fn content(form: &Form, generator: &mut SchemaGenerator) -> Value {
    match form {
        Form::Json(shape) => json!({"application/json": {"schema": shape(generator)}}),
        Form::Other(types) => {
            let one = |of: &&'static str| {
                let schema = if of.starts_with("text/") { json!({"type": "string"}) } else { json!({}) };
                ((*of).to_owned(), json!({"schema": schema}))
            };
            Value::Object(types.iter().map(one).collect())
        }
    }
}

fn parameter(parameter: &Parameter) -> Value {
    let schema = match parameter.kind {
        Kind::Text if parameter.place == Place::Path => json!({"type": "string", "minLength": 1}),
        Kind::Text => json!({"type": "string", "maxLength": VALUE_BYTES_MAX}),
        Kind::Number(least, u64::MAX) => json!({"type": "integer", "minimum": least}),
        Kind::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Kind::Word(words) => json!({"type": "string", "enum": words}),
        Kind::Time => json!({"type": "string", "pattern": "^[0-9]{1,6}(ms|s|m|h)$", "examples": ["20s"]}),
    };
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
        let field =
            |name: &str, help: &str, schema: Value| json!({name: {"description": help, "schema": schema}});
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
    Value::Object(KINDS.iter().map(one).collect())
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
    fn the_document_has_each_operation_and_each_reference_leads_somewhere() {
        let tables: [Vec<&'static Operation>; 2] =
            [Questions::routes().operations().collect(), ReadOnly::routes().operations().collect()];
        for table in tables {
            let document = document("test", table.iter().copied());
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
