//! JSON schemas of types of the core, which knows no schemas: jobs, stops, schedules.
//!
//! Only the schemas of these types are used: `#[schemars(with = "…")]`.
//!
//! Invariant: a value of the core has exactly the fields of its shape.

use std::borrow::Cow;

use nephila_core::job::{NAME_BYTES_MAX, PATTERN_BYTES_MAX};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A type that is its schema alone.
macro_rules! text {
    ($(#[doc = $help:literal] $name:ident $schema:tt;)+) => {
        $(
            #[doc = $help]
            #[derive(Debug, Default)]
            pub struct $name;

            impl JsonSchema for $name {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!($schema)
                }
            }
        )+
    };
}

text! {
    #[doc = "A URL."]
    Url {"type": "string", "format": "uri"};
    #[doc = "A time such as `90s` or `1h 30m`."]
    Span {
        "type": "string",
        "pattern": "^[0-9]{1,6}(ms|s|m|h|days?|months?|years?)( [0-9]{1,6}(ns|us|ms|s|m|h|days?|months?))*$",
    };
    #[doc = "A time that is not zero."]
    Interval {
        "type": "string",
        "pattern": "^[1-9][0-9]{0,5}(ms|s|m|h|days?|months?|years?)( [0-9]{1,6}(ns|us|ms|s|m|h|days?|months?))*$",
    };
    #[doc = "A pattern of a scope: it has more than the signs for the ends."]
    Pattern {"type": "string", "maxLength": PATTERN_BYTES_MAX, "not": {"enum": ["", "^", "$", "^$"]}};
    #[doc = "The name of a job."]
    JobName {"type": "string", "maxLength": NAME_BYTES_MAX, "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]*$"};
    #[doc = "A host, a domain, or a range of addresses."]
    StopTarget {"type": "string", "format": "stop-target"};
    #[doc = "A priority: 0 before 9."]
    Priority {"type": "integer", "minimum": 0, "maximum": 9};
}

/// A job.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Number of the job, given by the server.
    #[serde(default)]
    pub id: u32,
    /// Unique name: letters, digits, `-`, `_` and `.`.
    #[schemars(with = "JobName")]
    pub name: String,
    /// The URLs of the job.
    #[serde(default)]
    pub scope: Scope,
    /// The limits of the job.
    #[serde(default)]
    pub limits: Limits,
    /// Priority among jobs: 0 before 9.
    #[serde(default)]
    #[schemars(range(max = 9))]
    pub priority: u8,
    /// When a page is fetched again.
    #[serde(default)]
    pub schedule: Schedule,
    /// Whether the job runs.
    #[serde(default)]
    pub state: State,
}

/// The URLs of a job.
#[derive(Default, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scope {
    /// Wanted URLs around each seed.
    pub kind: Kind,
    /// The URLs at which the job begins.
    #[schemars(with = "Vec<Url>")]
    pub seeds: Vec<String>,
    /// Patterns that bring a URL into scope: text that stands in the URL, `*` for anything, `^` and `$` for the ends.
    #[schemars(with = "Vec<Pattern>")]
    pub include: Vec<String>,
    /// Patterns that keep a URL out of scope, before all other rules.
    #[schemars(with = "Vec<Pattern>")]
    pub exclude: Vec<String>,
    /// Maximum number of links in a row that are followed out of scope.
    pub extra_hops: u8,
    /// Maximum link depth from a seed. 0: the seeds alone; 255: no limit.
    pub depth_max: u8,
}

/// Limits of a job; 0 is no limit.
#[derive(Default, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Pages fetched by the whole job.
    pub pages_max: u64,
    /// Bytes received by the whole job.
    pub bytes_max: u64,
    /// Running time of the job, without pauses, such as `2h`.
    pub time_max: Span,
    /// Pages fetched from one host.
    pub pages_per_host_max: u64,
    /// Pages fetched from one registrable domain.
    pub pages_per_domain_max: u64,
}

/// Wanted URLs around a seed.
#[derive(Default, JsonSchema)]
#[schemars(rename = "ScopeKind")]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The seed alone.
    Page,
    /// The seed's folder.
    #[default]
    Prefix,
    /// The seed's host and port.
    Host,
    /// The seed's registrable domain.
    Domain,
    /// Everything.
    Any,
}

/// Whether a job runs.
#[derive(Default, JsonSchema)]
#[schemars(rename = "JobState")]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// URLs of the job are fetched.
    #[default]
    Running,
    /// URLs of the job wait; discoveries are accepted.
    Paused,
    /// URLs of the job stay queued; discoveries are refused.
    Stopped,
}

/// When a page is fetched again.
#[derive(Default, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Never.
    #[default]
    Once,
    /// This long after the last fetch, such as `12h`.
    Every(Interval),
    /// By how often the page changes.
    Adaptive(Adaptive),
}

/// How pages that change are visited.
#[derive(Default, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Adaptive {
    /// Revisit policy.
    pub policy: Policy,
    /// Starting interval, such as `24h`.
    pub interval: Interval,
    /// Minimum interval.
    pub interval_min: Interval,
    /// Maximum interval.
    pub interval_max: Interval,
    /// Planned revisits per host and day; 0 is no limit.
    pub host_visits_per_day: u32,
}

/// Revisit policy.
#[derive(Default, JsonSchema)]
#[schemars(rename = "RevisitPolicy")]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Never.
    #[default]
    Once,
    /// At a fixed interval.
    Fixed,
    /// By how often the page changes.
    Adaptive,
}

/// The stop list.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stops {
    /// Stopped hosts, domains and addresses.
    #[schemars(length(max = 3000))]
    pub stops: Vec<Stop>,
}

/// An order of the stop list.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// A host (`a.example`), a domain (`*.a.example`) or a range of addresses (`192.0.2.0/24`).
    #[schemars(with = "StopTarget")]
    pub target: String,
    /// The reason.
    #[serde(default)]
    pub reason: String,
    /// The author.
    #[serde(default)]
    pub author: String,
    /// Time of the order in milliseconds since 1970, set by the server.
    #[serde(default)]
    pub at: u64,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nephila_core::job::{self, JobId};
    use nephila_core::recrawl;
    use nephila_core::stop_list::StopOrder;
    use nephila_core::time::Timestamp;
    use schemars::generate::SchemaSettings;
    use serde_json::{Value, json};

    use super::*;

    /// Whether a value has the fields of a schema and no others, at any depth.
    fn fits(value: &Value, schema: &Value, all: &Value) -> Result<(), String> {
        if let Some(name) = schema["$ref"].as_str() {
            return fits(value, &all["$defs"][name.rsplit('/').next().unwrap()], all);
        }
        if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
            let fitting = choices.iter().filter(|choice| fits(value, choice, all).is_ok()).count();
            return if fitting > 0 { Ok(()) } else { Err(format!("{value} is none of {schema}")) };
        }
        if let Some(word) = schema.get("const").or_else(|| value.is_string().then_some(value)) {
            let words = schema["enum"].as_array().cloned().unwrap_or_else(|| vec![word.clone()]);
            return if words.contains(value) { Ok(()) } else { Err(format!("{value} in {schema}")) };
        }
        match value {
            Value::Object(fields) => {
                let known = schema["properties"].as_object().ok_or(format!("{value} in {schema}"))?;
                let (mut given, mut wanted): (Vec<_>, Vec<_>) =
                    (fields.keys().collect(), known.keys().collect());
                given.sort();
                wanted.sort();
                if given != wanted {
                    return Err(format!("{given:?} is not {wanted:?}"));
                }
                fields.iter().try_for_each(|(name, value)| fits(value, &known[name], all))
            }
            Value::Array(values) => values.iter().try_for_each(|value| fits(value, &schema["items"], all)),
            _ => Ok(()),
        }
    }

    fn check<T: JsonSchema>(value: &Value) {
        let schema =
            SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
        let schema = schema.to_value();
        fits(value, &schema, &schema).unwrap();
    }

    #[test]
    fn a_value_of_the_core_has_the_fields_of_its_shape() {
        let schedules = [
            job::Schedule::Once,
            job::Schedule::Every(Duration::from_secs(60)),
            job::Schedule::Adaptive(recrawl::Settings::default()),
        ];
        for schedule in schedules {
            let mut job = job::Job::new(JobId(1), "press");
            job.schedule = schedule;
            job.scope.seeds = vec!["http://a.test/".into()];
            check::<Job>(&json!(job));
        }
        let stop = StopOrder::new("*.a.test".parse().unwrap(), "why", "me", Timestamp(1));
        check::<Stops>(&json!({"stops": [stop]}));
    }
}
