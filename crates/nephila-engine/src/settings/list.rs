//! The effective settings as a list for users: value, default, origin and meaning of each, without secrets.

use anyhow::Context;
use toml::{Table, Value};

use super::{Settings, print, secrets};

/// What stands instead of a secret.
pub const SECRET_SET: &str = "(set)";
/// The settings that are secrets as a whole. URLs lose their passwords alone.
const SECRETS: [&str; 2] = ["api.token", "cluster.password"];

/// A setting.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedSetting {
    /// Section and name: `frontier.host_delay`.
    pub key: String,
    /// The effective value; none if it is not set.
    pub value: Option<Value>,
    /// The default; none if there is none.
    pub default: Option<Value>,
    /// Where the value comes from: `default`, `file PATH`, `environment NAME`, `--set`, `command line`.
    pub origin: String,
    /// Whether the value is a secret, and therefore not shown.
    pub secret: bool,
    /// The meaning, in words.
    pub help: String,
}

/// All settings, in the order of the settings file.
pub fn list(settings: &Settings) -> anyhow::Result<Vec<ListedSetting>> {
    let table = |settings: &Settings| Table::try_from(settings).context("settings as TOML");
    let (real, shown) = (table(settings)?, table(&secrets::kept(settings))?);
    let defaults = table(&Settings::default())?;
    let mut all = Vec::new();
    for (key, docs) in print::documented()? {
        let is_secret = SECRETS.contains(&&*key);
        let value = match (is_secret, get(&real, &key)) {
            (true, Some(Value::String(text))) if !text.is_empty() => Some(Value::String(SECRET_SET.into())),
            _ => get(&shown, &key).cloned(),
        };
        let default = get(&defaults, &key);
        let origin = settings.origins.of(&key, get(&real, &key), default);
        let (default, help) = (default.cloned(), docs.join(" "));
        all.push(ListedSetting { key, value, default, origin, secret: is_secret, help });
    }
    for (number, credential) in settings.credentials.iter().enumerate() {
        all.push(ListedSetting {
            key: format!("credentials.{number}"),
            value: Some(Value::String(format!("{} at {}", credential.user, credential.origin))),
            default: None,
            origin: settings.origins.of("credentials", get(&real, "credentials"), None),
            secret: true,
            help: "User name for a site; the password is not shown.".into(),
        });
    }
    for webhook in &settings.webhooks {
        // The path of a URL may be a secret to whoever made it.
        let to = webhook.parsed().map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        let kinds = if webhook.kinds.is_empty() { "all kinds".to_owned() } else { webhook.kinds.join(", ") };
        all.push(ListedSetting {
            key: format!("webhooks.{}", webhook.name),
            value: Some(Value::String(format!("{kinds} to {to}"))),
            default: None,
            origin: settings.origins.of("webhooks", get(&real, "webhooks"), None),
            secret: false,
            help: "Program to which events are sent; the path of the URL and the secret are not shown."
                .into(),
        });
    }
    Ok(all)
}

fn get<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let (sections, name) = key.rsplit_once('.').unwrap_or(("", key));
    let sections = sections.split('.').filter(|section| !section.is_empty());
    sections.into_iter().try_fold(table, |table, section| table.get(section)?.as_table())?.get(name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::super::{Credential, load};
    use super::*;

    fn of<'a>(all: &'a [ListedSetting], key: &str) -> &'a ListedSetting {
        all.iter().find(|setting| setting.key == key).unwrap_or_else(|| panic!("no {key}"))
    }

    fn loaded(file: &str, pairs: &[&str]) -> Settings {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n.toml");
        std::fs::write(&path, file).unwrap();
        let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
        load(Some(Path::new(&path)), &pairs, None).unwrap()
    }

    #[test]
    fn each_setting_says_where_it_comes_from() {
        let mut settings = loaded("[crawl]\nconcurrency = 7\n", &["identity.agent=Me"]);
        settings.frontier.host_delay = Duration::from_secs(9);
        let all = list(&settings).unwrap();
        let concurrency = of(&all, "crawl.concurrency");
        assert!(concurrency.origin.starts_with("file ") && concurrency.origin.ends_with("n.toml"));
        assert_eq!(
            (&concurrency.value, &concurrency.default),
            (&Some(Value::Integer(7)), &Some(Value::Integer(256)))
        );
        assert!(concurrency.help.contains("concurrent fetches"));
        assert_eq!(of(&all, "identity.agent").origin, "--set");
        assert_eq!(of(&all, "frontier.host_delay").origin, "command line");
        assert_eq!(of(&all, "frontier.slot_delay").origin, "default");
        assert!(all.len() > 100, "{}", all.len());
    }

    #[test]
    fn sec_06_no_secret_is_listed() {
        let file = "[api]\ntoken = \"SECRET\"\n[cluster]\nservers = [\"nats://me:SECRET@n.test\"]\nuser = \"me\"\npassword = \"SECRET\"\n\
                    [spider]\nproxy = \"http://me:SECRET@p.test:1\"\n";
        let mut settings = loaded(file, &[]);
        settings.credentials = vec![Credential {
            origin: "http://a.test".into(),
            user: "me".into(),
            password: Some("SECRET".into()),
            ..Credential::default()
        }];
        let all = list(&settings).unwrap();
        let text = format!("{all:?}");
        assert!(!text.contains("SECRET"), "{text}");
        let token = of(&all, "api.token");
        assert_eq!((&token.value, token.secret), (&Some(Value::String(SECRET_SET.into())), true));
        assert!(of(&all, "spider.proxy").value.as_ref().unwrap().to_string().contains("me:***@p.test"));
        assert_eq!(
            of(&list(&Settings::default()).unwrap(), "api.token").value,
            Some(Value::String(String::new()))
        );
    }
}
