//! What a served crawl says about itself, compared with what the site saw.

use serde_json::{Value, json};

use super::alone::{Served, run, text};
use super::site::{PAGES, Site};

/// Another name for more pages than the site has links to.
const NEW: [&str; 2] = ["pnew1", "pnew2"];

fn get(served: &Served, target: &str) -> Value {
    let (status, body) = served.ask("GET", &format!("/api/v1/{target}"), "");
    assert_eq!(status, 200, "{target}: {body}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{target}: {error}: {body}"))
}

fn post(served: &Served, target: &str, body: &str) -> Value {
    let (status, said) = served.ask("POST", &format!("/api/v1/{target}"), body);
    assert_eq!(status, 200, "{target}: {said}");
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{target}: {error}: {said}"))
}

fn asked(site: &Site) -> u64 {
    site.asked().values().sum::<usize>() as u64
}

/// A crawl of all pages but one, which is served and gets two more pages.
fn crawled() -> (Site, tempfile::TempDir, Served) {
    let (site, dir) = (Site::start(), tempfile::tempdir().unwrap());
    let home = format!("http://127.0.0.1:{}/p0", site.port);
    let args = ["crawl", &home, "-o", "data", "--delay", "50ms", "--exclude", "/p7$", "-q"];
    let crawled = run(dir.path(), &args);
    assert_eq!(crawled.status.code(), Some(0), "{}", text(&crawled));
    let served = Served::start(dir.path());
    served.wait("it is ready", |served| get(served, "status")["state"] == "ready");
    let urls = NEW.map(|name| format!("http://127.0.0.1:{}/{name}\n", site.port)).concat();
    assert_eq!(post(&served, "urls", &urls)["taken"], 2);
    let pages = (PAGES - 1 + NEW.len()) as u64;
    served.wait("all pages are done", |served| get(served, "status")["done"]["pages"] == pages);
    served.wait("it is ready again", |served| get(served, "status")["state"] == "ready");
    (site, dir, served)
}

#[test]
fn what_a_crawl_says_about_itself_is_what_the_site_saw() {
    let (site, _dir, served) = crawled();
    let pages = (PAGES - 1 + NEW.len()) as u64;

    let (status, stats) = (get(&served, "status"), get(&served, "stats"));
    assert_eq!(status["frontier"]["queued"], stats["urls_waiting"], "{status} {stats}");
    assert_eq!(status["limited_by"]["reason"], "nothing", "{status}");
    assert_eq!((&status["mode"], &status["done"]["ok"]), (&"single".into(), &pages.into()), "{status}");
    assert_eq!(status["jobs"][0]["progress"]["pages"], pages, "{status}");
    let history = get(&served, "history?seconds=3600");
    let points = history["points"].as_array().unwrap();
    let ok: u64 = points.iter().map(|point| point["pages"]["ok"].as_u64().unwrap()).sum();
    assert!(ok <= NEW.len() as u64, "no page of an earlier process: {history}");

    // The log, page by page, has each request that the site saw.
    let (mut lines, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let from = cursor.as_ref().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let log = get(&served, &format!("log?limit=3{from}"));
        lines.extend(log["lines"].as_array().unwrap().iter().cloned());
        let Some(next) = log["cursor"].as_str() else { break };
        cursor = Some(next.to_owned());
    }
    assert_eq!(lines.len() as u64, asked(&site));
    // A line is written when its page is stored, and two pages of a site may be stored in another order.
    let at = |line: &Value| line["at_ms"].as_u64().unwrap();
    assert!(lines.windows(2).all(|pair| at(&pair[0]) + 10_000 >= at(&pair[1])));
    for (url, times) in site.asked() {
        let logged = lines.iter().filter(|line| line["url"] == url.as_str()).count();
        assert_eq!(logged, times, "{url}");
    }

    let origin = format!("http://127.0.0.1:{}", site.port);
    let hosts = get(&served, "hosts?sort=done");
    assert_eq!(hosts["hosts"].as_array().unwrap().len(), 1, "{hosts}");
    let host = &hosts["hosts"][0];
    assert_eq!((&host["origin"], &host["done"]), (&origin.as_str().into(), &pages.into()), "{host}");
    assert_eq!((&host["state"], &host["last_outcome"]), (&"idle".into(), &"ok".into()), "{host}");
    assert_eq!(get(&served, "hosts?match=elsewhere")["hosts"], json!([]));

    let politeness = get(&served, "politeness");
    assert_eq!(politeness["requests"], asked(&site), "{politeness}");
    assert_eq!((&politeness["violations"], &politeness["complete"]), (&0.into(), &true.into()));
    assert_eq!(politeness["histogram"][0]["count"], 0, "nothing below the promise: {politeness}");

    let timeline = get(&served, &format!("host/timeline?url={origin}"));
    let requests = timeline["requests"].as_array().unwrap();
    assert_eq!(requests.len() as u64, asked(&site));
    for request in &requests[..requests.len() - 1] {
        let (gap, promised) = (request["gap_ms"].as_u64(), request["promised_ms"].as_u64());
        assert!(gap.map(|gap| gap + 1) >= promised, "{request}");
    }

    let archive = get(&served, "archive");
    let counted = archive["captures"].as_u64().unwrap();
    assert!(counted >= (PAGES - 1) as u64 && archive["complete"] == true, "{archive}");
    let settings = get(&served, "settings");
    let delay = settings["settings"].as_array().unwrap().iter();
    let delay = delay.into_iter().find(|setting| setting["key"] == "frontier.host_delay").unwrap();
    assert_eq!(delay["value"], "50ms", "{delay}");
    assert!(delay["origin"].as_str().unwrap().starts_with("file "), "{delay}");
}

#[test]
fn the_job_of_a_folder_is_shown_tested_paused_and_resumed() {
    let (site, _dir, served) = crawled();
    let url = |name: &str| format!("http://127.0.0.1:{}/{name}", site.port);
    let job = get(&served, "jobs/crawl");
    assert_eq!(
        job["seeds"],
        json!([{ "url": url("p0"), "state": "fetched", "outcome": "ok", "status": 200,
        "at": job["seeds"][0]["at"] }])
    );
    let rules = job["rules"].as_array().unwrap();
    let excluded = rules.iter().find(|rule| rule["origin"] == "exclude #1").unwrap();
    assert_eq!(excluded["hits"], NEW.len(), "once in each page of this process: {job}");
    assert_eq!(excluded["examples"], json!([url("p7")]), "each example once");
    assert_eq!(served.ask("GET", "/api/v1/jobs/other", "").0, 404);

    let seen = asked(&site);
    let urls = [url("p1"), url("p7"), "http://other.test/".into(), "nonsense".into()];
    let tested = post(&served, "scope/test", &json!({ "urls": urls }).to_string());
    let verdicts: Vec<&str> =
        tested.as_array().unwrap().iter().filter_map(|row| row["verdict"].as_str()).collect();
    assert_eq!(verdicts, ["in", "out", "out", "bad"], "{tested}");
    assert_eq!((&tested[0]["robots_known"], &tested[1]["rule"]), (&true.into(), &"exclude /p7$".into()));
    let edited = json!({ "urls": urls, "scope": { "kind": "any", "exclude": ["/p1"] } });
    let tested = post(&served, "scope/test", &edited.to_string());
    assert_eq!((&tested[0]["verdict"], &tested[1]["verdict"]), (&"out".into(), &"in".into()), "{tested}");
    assert_eq!(asked(&site), seen, "nothing is requested for a test");
    assert_eq!(served.ask("POST", "/api/v1/scope/test", "{\"urls\": 7}").0, 400);

    assert_eq!(post(&served, "jobs/crawl/pause", "")["job"]["state"], "paused");
    assert_eq!(post(&served, "urls", &url("plater"))["taken"], 1);
    // The frontier has tried it, and puts it back for ten minutes.
    served.wait("it waits", |served| get(served, "status")["frontier"]["later"] == 1);
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(asked(&site), seen, "a paused job requests nothing");
    assert_eq!(get(&served, "status")["limited_by"]["reason"], "paused");
    assert_eq!(post(&served, "jobs/crawl/resume", "")["job"]["state"], "running");
    served.wait("it goes on", |served| get(served, "status")["limited_by"]["reason"] != "paused");
    assert_eq!(post(&served, "urls", &url("pmore"))["taken"], 1);
    served.wait("new pages are fetched", |_| site.asked().contains_key(&url("pmore")));
}

#[test]
fn an_archive_that_is_only_read_answers_from_its_files() {
    let (site, dir, mut served) = crawled();
    assert_eq!(served.end(), Some(11));
    drop(served);
    let args = ["serve", "--read-only", "-o", "data", "--set", "api.listen=127.0.0.1:0"];
    let served = Served::spawn_with(dir.path(), &args, "is at http://");
    let status = get(&served, "status");
    assert_eq!((&status["mode"], &status["state"]), (&"archive".into(), &"archive".into()), "{status}");
    assert_eq!(get(&served, "politeness")["requests"], asked(&site));
    assert_eq!(get(&served, "log")["lines"].as_array().unwrap().len() as u64, asked(&site));
    let archive = get(&served, "archive");
    assert_eq!((&archive["captures"], &archive["unindexed"]), (&asked(&site).into(), &0.into()), "{archive}");
    assert_eq!(served.ask("GET", "/api/v1/hosts", "").0, 404, "there is no frontier");
}
