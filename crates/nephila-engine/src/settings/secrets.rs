//! Secrets among the settings: never stored with a crawl, and read again from the operator's settings file.
//!
//! A crawl folder keeps the settings of its last run, so that the same command continues the crawl, without the values
//! of passwords and tokens. [`kept`] removes the secrets, and [`fill`] takes them from the settings file that would be
//! read without a folder. Paths of files with passwords are no secrets, and are kept. `[[webhooks]]` of that file replace
//! the kept ones of the same name.
//!
//! Invariant: no value that [`kept`] returns contains a password or a token.

use toml::{Table, Value};

use super::Settings;

/// Replacement for the password in a URL.
const LEFT_OUT: &str = ":***@";
/// Comment above settings without secrets.
pub(super) const NOTE: &str = "# The settings of the last run. Passwords and tokens are left out: keep them in nephila.toml, in files that it names, or in\n\
     # the environment, where they are looked for when the crawl goes on.\n";

/// Returns the settings without secrets, for storage.
pub(crate) fn kept(settings: &Settings) -> Settings {
    let mut kept = settings.clone();
    kept.cluster.password.clear();
    kept.api.token.clear();
    kept.spider.proxy = without_password(&kept.spider.proxy);
    kept.cluster.objects_endpoint = without_password(&kept.cluster.objects_endpoint);
    for server in kept.cluster.servers.iter_mut().chain(&mut kept.cluster.monitors) {
        *server = without_password(server);
    }
    for credential in &mut kept.credentials {
        credential.password = None;
    }
    kept
}

/// Copies the secrets of another settings file into the places from which [`kept`] removed them.
pub(super) fn fill(table: &mut Table, other: &Table) {
    for (section, key) in [
        ("api", "token"),
        ("cluster", "password"),
        ("cluster", "servers"),
        ("cluster", "monitors"),
        ("cluster", "objects_endpoint"),
        ("spider", "proxy"),
    ] {
        let value = |table: &Table| table.get(section)?.get(key).cloned();
        let Some(secret) = value(other) else { continue };
        let is_left_out = match value(table) {
            None => true,
            Some(Value::String(text)) => text.is_empty() || text.contains(LEFT_OUT),
            Some(list) => list.to_string().contains(LEFT_OUT),
        };
        if is_left_out && let Some(section) = table.get_mut(section).and_then(Value::as_table_mut) {
            section.insert(key.to_owned(), secret);
        }
    }
    // A webhook that the operator adds or changes holds for crawls that began before.
    for (array, key) in [("credentials", "origin"), ("webhooks", "name")] {
        let Some(Value::Array(others)) = other.get(array) else { continue };
        if let Value::Array(kept) = table.entry(array).or_insert_with(|| Value::Array(Vec::new())) {
            kept.retain(|kept| !others.iter().any(|other| other.get(key) == kept.get(key)));
            kept.extend(others.iter().cloned());
        }
    }
}

/// Returns a message if a removed secret is needed for requests.
pub(crate) fn missing(settings: &Settings) -> Option<String> {
    settings.spider.proxy.contains(LEFT_OUT).then(|| {
        format!(
            "spider.proxy: the password of {} is not kept with the crawl: put the proxy into nephila.toml, or say it again with \
             NEPHILA_SPIDER__PROXY or --set",
            settings.spider.proxy
        )
    })
}

/// Removes the password from a URL.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rsplit_once('@').map(|(user, host)| (user.split_once(':'), host)) {
        Some((Some((user, _)), host)) => format!("{scheme}://{user}{LEFT_OUT}{host}{}", &rest[end..]),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Credential;

    #[test]
    fn sec_06_no_secret_is_kept_and_each_is_found_again() {
        let mut settings = Settings::default();
        settings.api.token = "SECRET".into();
        settings.cluster.password = "SECRET".into();
        settings.cluster.servers = vec!["nats://me:SECRET@n.test:4222".into(), "nats://n.test".into()];
        settings.spider.proxy = "http://me:SECRET@p.test:3128".into();
        settings.credentials = vec![Credential {
            origin: "http://a.test".into(),
            user: "me".into(),
            password: Some("SECRET".into()),
            ..Credential::default()
        }];
        let page = super::super::print::page(&kept(&settings)).unwrap();
        assert!(!page.contains("SECRET"), "{page}");
        assert!(page.contains("http://me:***@p.test:3128"), "{page}");
        let mut table: Table = page.parse().unwrap();
        let without: Settings = table.clone().try_into().unwrap();
        assert_eq!(without, kept(&settings));
        assert!(missing(&without).is_some() && missing(&settings).is_none());
        fill(&mut table, &Table::try_from(&settings).unwrap());
        let filled: Settings = table.try_into().unwrap();
        assert_eq!(filled, settings);
    }

    #[test]
    fn a_webhook_of_the_settings_file_replaces_the_kept_one_of_its_name() {
        let webhooks = |list: &[(&str, &str)]| {
            let table =
                |(name, url): &(&str, &str)| format!("[[webhooks]]\nname = \"{name}\"\nurl = \"{url}\"\n");
            list.iter().map(table).collect::<String>().parse::<Table>().unwrap()
        };
        let mut kept = webhooks(&[("a", "https://old.test/"), ("b", "https://b.test/")]);
        fill(&mut kept, &webhooks(&[("a", "https://new.test/"), ("c", "https://c.test/")]));
        assert_eq!(
            kept,
            webhooks(&[("b", "https://b.test/"), ("a", "https://new.test/"), ("c", "https://c.test/")])
        );
        fill(&mut kept, &Table::new());
        assert_eq!(kept["webhooks"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn urls_lose_their_passwords_alone() {
        for (url, want) in [
            ("http://u:p@h:1", "http://u:***@h:1"),
            ("http://u:p@q@h/x@y:z", "http://u:***@h/x@y:z"),
            ("http://u@h", "http://u@h"),
            ("http://h:1/a:b@c", "http://h:1/a:b@c"),
            ("", ""),
        ] {
            assert_eq!(without_password(url), want);
        }
    }
}
