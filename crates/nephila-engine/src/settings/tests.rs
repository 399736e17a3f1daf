//! Settings as people write them: pairs, wrong names and values, and the printed file.

use std::path::Path;

use super::*;

fn load_set(list: &[&str]) -> anyhow::Result<Settings> {
    let pairs: Vec<String> = list.iter().map(|pair| (*pair).to_owned()).collect();
    load(Some(Path::new("/dev/null")), &pairs, None)
}

#[test]
fn what_is_set_is_meant() {
    let settings = load_set(&[
        "spider.total_timeout=30s",
        "spider.ports=[80, 9000]",
        "spider.allow_addresses=[\"127.0.0.0/8\"]",
        "spider.http_versions=[\"http/1.1\"]",
        "store.compression=zstd:3",
    ])
    .unwrap();
    assert_eq!(settings.spider.total_timeout, Duration::from_secs(30));
    assert_eq!(settings.spider.ports, [80, 9000]);
    assert_eq!(settings.store.compression.to_string(), "zstd:3");
}

#[test]
fn what_is_unknown_or_wrong_is_refused_with_its_name() {
    for (said, named) in [
        ("spider.totl_timeout=30s", "totl_timeout"),
        ("spider.total_timeout=soon", "soon"),
        ("identity.agent=a b", "agent"),
        ("identity.from=nobody", "from"),
        ("identity.agent_url=http://a.test", "agent_url"),
        ("identity.agent_url=https://a.test/x", "agent_url"),
        ("identity.key_file=key.pem", "agent_url"),
        ("identity.signature_valid=2d", "signature_valid"),
        ("foo.bar=1", "foo"),
        ("frontier.host_per_second=-1", "host_per_second"),
        ("frontier.host_per_second=0.0000001", "host_per_second"),
    ] {
        let error = load_set(&[said]).unwrap_err();
        assert!(format!("{error:#}").contains(named), "{error:#}");
        assert_eq!(error.downcast_ref(), Some(&Exit::Usage));
    }
}

#[test]
fn traces_that_cannot_work_are_refused_at_the_start() {
    let to = "traces.to=http://127.0.0.1:4318/v1/traces";
    for (said, named) in [
        ("traces.to=collector", "traces.to"),
        ("traces.to=file:///v1/traces", "http://"),
        ("traces.to=http://127.0.0.1:4318", "/v1/traces"),
        ("traces.to=http://me:SECRET@127.0.0.1:4318/v1/traces", "traces.headers_file"),
        ("traces.to=http://127.0.0.1:4318/v1/traces?key=SECRET", "traces.headers_file"),
        ("traces.share=1.5", "traces.share"),
        ("traces.share=-0.1", "traces.share"),
        ("traces.share=nan", "traces.share"),
        ("traces.service_name=", "traces.service_name"),
    ] {
        let error = format!("{:#}", load_set(&[said]).unwrap_err());
        assert!(error.contains(named) && !error.contains("SECRET"), "{said}: {error}");
    }
    let on = |sets: &[&str]| load_set(sets).unwrap().traces.is_on();
    assert!(on(&[to]) && on(&[to, "traces.share=1"]) && on(&[to, "traces.share=0.5"]));
    assert!(!on(&[]) && !on(&[to, "traces.share=0"]));
}

#[test]
fn spiders_that_cannot_work_are_refused_at_the_start() {
    let error = |sets: &[&str]| {
        let all = [&["spiders.v1_listen=\"127.0.0.1:9\""], sets].concat();
        format!("{:#}", load_set(&all).unwrap_err())
    };
    let store = "spiders.store_listen=\"127.0.0.1:8\"";
    assert!(error(&[]).contains("spiders.store_listen is empty"));
    let slow = error(&[store, "spiders.status_timeout=\"40s\""]);
    assert!(slow.contains("status_timeout") && slow.contains("update_every"), "{slow}");
    let cluster = error(&[store, "cluster.servers=[\"nats://127.0.0.1:4222\"]"]);
    assert!(cluster.contains("version 1 of [spiders] is for one machine"), "{cluster}");
}

#[test]
fn row_04_a_rate_may_be_a_fraction_or_a_whole_number() {
    for (said, rest) in [("0.5", 2_000), ("4", 250), ("0", 0), ("3.0", 334)] {
        let settings = load_set(&[&format!("frontier.host_per_second={said}")]).unwrap();
        assert_eq!(settings.frontier.rate_rest_ms(), rest, "{said}");
    }
}

#[test]
fn fin_11_a_rest_of_addresses_that_somebody_chose_is_not_lowered() {
    let delay = Duration::from_millis(100);
    let mut chosen = load_set(&["frontier.slot_delay=700ms"]).unwrap();
    chosen.set_host_delay(delay);
    assert_eq!(chosen.frontier.slot_delay, Duration::from_millis(700));
    let mut usual = Settings::default();
    usual.set_host_delay(delay);
    assert_eq!((usual.frontier.host_delay, usual.frontier.slot_delay), (delay, delay));
}

#[test]
fn fin_12_times_that_nobody_can_mean_are_refused_by_name() {
    for said in ["spider.connect_timeout=1000h", "spider.idle_timeout=25h", "frontier.slot_delay=60d"] {
        let error = load_set(&[said]).unwrap_err();
        let name = said.split('=').next().unwrap();
        assert!(format!("{error:#}").contains(name), "{error:#}");
        assert_eq!(error.downcast_ref(), Some(&Exit::Usage));
    }
    // With room for it beside the ticket.
    load_set(&["spider.connect_timeout=24h"]).unwrap();
}

#[test]
fn the_printed_file_gives_the_same_settings_back() {
    let page = print::page(&Settings::default()).unwrap();
    let back: Settings = page.parse::<toml::Table>().unwrap().try_into().unwrap();
    assert_eq!(back, Settings::default());
    assert!(page.contains("# Rest of a host (crawl delay) after a fetch ended"), "{page}");
}

#[test]
fn webhooks_are_printed_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nephila.toml");
    let text = "[[webhooks]]\nname = \"mine\"\nurl = \"https://a.test/x?token=abc\"\nsecret_file = \"s\"\n\
                kinds = []\nfrom = \"end\"\ntimeout = \"5s\"\n";
    std::fs::write(&file, text).unwrap();
    let settings = load(Some(&file), &[], None).unwrap();
    let webhook = &settings.webhooks[0];
    assert_eq!((webhook.from, webhook.timeout), (WebhookFrom::End, Duration::from_secs(5)));
    assert_eq!((webhook.events_max, webhook.kinds.len()), (100, 0));
    let page = print::page(&settings).unwrap();
    let back: Settings = page.parse::<toml::Table>().unwrap().try_into().unwrap();
    assert_eq!(back, settings, "{page}");
    let listed = list(&settings).unwrap();
    let listed = listed.iter().find(|setting| setting.key == "webhooks.mine").unwrap();
    assert_eq!(listed.value, Some(toml::Value::String("all kinds to https://a.test".into())));
    let wrong = load_set(&["webhooks=[{name=\"a\", url=\"https://a.test/\", secret=\"x\"}]"]).unwrap_err();
    assert!(format!("{wrong:#}").contains("secret"), "{wrong:#}");
}
