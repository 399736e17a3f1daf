//! Records that programs of several versions read and write: fields unknown to this version are preserved.
//!
//! Our types refuse unknown fields, so that a person's typing errors are noticed. A record is written by a program, and
//! a newer program may have more fields: unknown fields are removed before parsing, and restored when the record is
//! written.

use serde_json::Value;

/// Unknown fields: the path and the value of each.
pub(super) type Unknown = Vec<(Vec<String>, Value)>;

/// Removes fields from a record that are not in a template with every field.
pub(super) fn take_unknown(record: &mut Value, template: &Value) -> Unknown {
    let mut unknown = Unknown::new();
    take(record, template, &mut Vec::new(), &mut unknown);
    unknown
}

fn take(record: &mut Value, template: &Value, path: &mut Vec<String>, unknown: &mut Unknown) {
    let (Value::Object(record), Value::Object(template)) = (record, template) else { return };
    record.retain(|name, value| {
        path.push(name.clone());
        let known = template.get(name);
        match known {
            Some(known) => take(value, known, path, unknown),
            None => unknown.push((path.clone(), value.take())),
        }
        path.pop();
        known.is_some()
    });
}

/// Restores the fields. A field whose parent is gone is dropped.
pub(super) fn put_unknown(record: &mut Value, unknown: &Unknown) {
    for (path, value) in unknown {
        let Some((name, parents)) = path.split_last() else { continue };
        let parent = parents.iter().try_fold(&mut *record, |place, name| place.get_mut(name));
        if let Some(Value::Object(fields)) = parent {
            fields.entry(name.as_str()).or_insert_with(|| value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_known_is_taken_out_and_put_back_where_it_was() {
        let template =
            json!({"job": {"name": "", "limits": {"pages": 0}}, "ended": {"limit": ""}, "moved": []});
        let whole = json!({
            "job": {"name": "press", "limits": {"pages": 5, "links": 7}, "colour": {"of": "sea"}},
            "ended": {"limit": "pages", "why": null},
            "moved": [{"a": 1}],
            "later": [1, 2],
        });
        let mut record = whole.clone();
        let unknown = take_unknown(&mut record, &template);
        let known = json!({
            "job": {"name": "press", "limits": {"pages": 5}}, "ended": {"limit": "pages"}, "moved": [{"a": 1}],
        });
        assert_eq!(record, known);
        put_unknown(&mut record, &unknown);
        assert_eq!(record, whole);
        // What belonged to something that is gone does not come back without it.
        let mut without = json!({"job": {"name": "press", "limits": {"pages": 6}}, "moved": []});
        put_unknown(&mut without, &unknown);
        let wanted = json!({
            "job": {"name": "press", "limits": {"pages": 6, "links": 7}, "colour": {"of": "sea"}},
            "moved": [],
            "later": [1, 2],
        });
        assert_eq!(without, wanted);
        assert!(take_unknown(&mut json!("no object"), &template).is_empty());
    }
}
