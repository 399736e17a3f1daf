//! Formats the settings file; its comments are the doc comments of the fields.

use std::fmt::Write;

use anyhow::Context;
use nephila_core::sources;

use super::Settings;

/// Section, source and struct: the place of the doc comments of each section.
const SECTIONS: &[(&str, &str, &str)] = &[
    ("identity", include_str!("../settings.rs"), "Identity"),
    ("frontier", sources::FRONTIER, "Settings"),
    ("retry", sources::RETRY, "Settings"),
    ("budget", sources::BUDGET, "Settings"),
    ("trap", sources::TRAP, "Settings"),
    ("robots", include_str!("../settings.rs"), "Robots"),
    ("spider", sources::SPIDER, "Settings"),
    ("spiders", include_str!("spiders.rs"), "Spiders"),
    ("store", nephila_store::archive::SETTINGS_SOURCE, "Settings"),
    ("media", include_str!("media.rs"), "Media"),
    ("handler", include_str!("../settings.rs"), "Handler"),
    ("tables", include_str!("tables.rs"), "Tables"),
    ("recrawl", sources::RECRAWL, "Settings"),
    ("feed", sources::FEED, "Settings"),
    ("feed.schedule", sources::FEED_SCHEDULE, "Settings"),
    ("feed.story", sources::FEED_STORY, "Settings"),
    ("worker", include_str!("../worker.rs"), "Settings"),
    ("crawl", include_str!("../settings.rs"), "Crawl"),
    ("cluster", include_str!("cluster.rs"), "Cluster"),
    ("api", include_str!("api.rs"), "Api"),
    ("log", include_str!("../settings.rs"), "Log"),
    ("traces", include_str!("traces.rs"), "Traces"),
];

/// Formats the whole file.
pub fn page(settings: &Settings) -> anyhow::Result<String> {
    let table = toml::Table::try_from(settings).context("settings as TOML")?;
    let mut page = String::from(
        "# nephila.toml: every setting with its meaning. An environment variable such as\n\
         # NEPHILA_SPIDER__TOTAL_TIMEOUT=30s or a flag such as --set spider.total_timeout=30s wins over this file.\n\
         # Times: \"250ms\", \"2s\", \"15m\", \"24h\". Unknown keys are an error.\n",
    );
    for (section, source, name) in SECTIONS {
        writeln!(page, "\n[{section}]")?;
        let values = section.split('.').try_fold(&table, |table, name| {
            table.get(name).and_then(toml::Value::as_table).context("a section is a table")
        })?;
        for (field, docs) in
            fields(source, name).with_context(|| format!("{name} in the sources of [{section}]"))?
        {
            // A section within this one follows it.
            if SECTIONS.iter().any(|(inner, ..)| *inner == format!("{section}.{field}")) {
                continue;
            }
            for line in docs {
                writeln!(page, "# {line}")?;
            }
            match values.get(&field) {
                Some(value) => writeln!(page, "{field} = {value}\n")?,
                None => writeln!(page, "# {field} = \"\"\n")?,
            }
        }
    }
    for array in [&CREDENTIALS, &WEBHOOKS] {
        array.write(&mut page, &table)?;
    }
    Ok(page)
}

/// All settings in order, each with the lines of its doc comment. Sections within sections have their own fields.
pub(super) fn documented() -> anyhow::Result<Vec<(String, Vec<String>)>> {
    let mut all = Vec::new();
    for (section, source, name) in SECTIONS {
        let fields = fields(source, name).with_context(|| format!("{name} in the sources of [{section}]"))?;
        for (field, docs) in fields {
            let key = format!("{section}.{field}");
            if SECTIONS.iter().all(|(inner, ..)| *inner != key) {
                all.push((key, docs));
            }
        }
    }
    Ok(all)
}

/// Tables of which a file has any number.
struct Array {
    key: &'static str,
    about: &'static str,
    source: &'static str,
    name: &'static str,
    /// Lines of an example, for a file that has none.
    example: &'static str,
}

const CREDENTIALS: Array = Array {
    key: "credentials",
    about: "Names and passwords for sites, as many [[credentials]] as there are origins that want them.",
    source: include_str!("credential.rs"),
    name: "Credential",
    example: "# origin = \"https://intranet.example.org\"\n# user = \"me\"\n\
              # password_file = \"/run/secrets/intranet\"\n# scheme = \"basic\"",
};

const WEBHOOKS: Array = Array {
    key: "webhooks",
    about: "Programs of yours to which the events of a crawl on one machine are sent, each with a [[webhooks]] \
            (docs/webhooks.md).",
    source: include_str!("webhook.rs"),
    name: "Webhook",
    example: "# name = \"mine\"\n# url = \"https://hooks.example.org/crawl\"\n\
              # kinds = [\"story\", \"changed\", \"failed\", \"job\"]\n\
              # secret_file = \"/run/secrets/webhook\"\n# from = \"beginning\"\n# events_max = 100\n\
              # bytes_max = 262144\n# timeout = \"15s\"\n# allow_http = false\n# ca_file = \"\"",
};

impl Array {
    /// Formats the tables, or one as an example.
    fn write(&self, page: &mut String, table: &toml::Table) -> anyhow::Result<()> {
        let Array { key, about, source, name, example } = self;
        let docs = fields(source, name).with_context(|| format!("{name} in the sources"))?;
        writeln!(page, "\n# {about}")?;
        for (field, docs) in &docs {
            writeln!(page, "# {field}: {}", docs.join("\n#     "))?;
        }
        let all = table.get(*key).and_then(toml::Value::as_array);
        let Some(all) = all.filter(|all| !all.is_empty()) else {
            return Ok(writeln!(page, "# [[{key}]]\n{example}")?);
        };
        for one in all.iter().filter_map(toml::Value::as_table) {
            writeln!(page, "[[{key}]]")?;
            for (field, value) in docs.iter().filter_map(|(field, _)| Some((field, one.get(field)?))) {
                writeln!(page, "{field} = {value}")?;
            }
            writeln!(page)?;
        }
        Ok(())
    }
}

/// The fields of a struct in order, each with the lines of its doc comment.
fn fields(source: &str, name: &str) -> Option<Vec<(String, Vec<String>)>> {
    let body = source.split_once(&format!("pub struct {name} {{"))?.1;
    let mut fields = Vec::new();
    let mut docs = Vec::new();
    for line in body.lines().map(str::trim) {
        if line == "}" {
            return Some(fields);
        } else if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.trim().to_owned());
        } else if let Some((field, _)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(':')) {
            fields.push((field.to_owned(), std::mem::take(&mut docs)));
        }
    }
    None
}
