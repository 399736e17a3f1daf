//! A tiny crawler against ground truth, and the judges on this crawler and its rude cousins.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::Read;
use std::time::Duration;

use nephila_testweb::check::{Fault, Politeness, Repeats, Report, Robots, check_complete};
use nephila_testweb::journal::Log;
use nephila_testweb::model::{Place, Reach, TruthOptions, What};
use nephila_testweb::rules::Rules;
use nephila_testweb::{RunningWeb, Settings, Web};

use crate::client::Client;

/// A web of about 300 pages with some of everything, and short times where a crawl would wait.
fn small_and_mixed(seed: u64) -> Settings {
    Settings {
        seed,
        hosts: 24,
        pages: 300,
        page_bytes: 3000,
        tarpit_pace: Duration::from_millis(20),
        crawl_delay: Duration::from_millis(20),
        ..Settings::mixed()
    }
}

/// Crawls all links of a web, one request at a time, and obeys robots.txt. The crawler sees URLs and bytes only.
async fn crawl(client: &Client, seeds: Vec<String>) -> HashMap<String, u16> {
    let mut seen: HashSet<String> = seeds.iter().cloned().collect();
    let mut queue: VecDeque<String> = seeds.into();
    let mut robots: HashMap<String, Option<Rules>> = HashMap::new();
    let mut done = HashMap::new();
    while let Some(url) = queue.pop_front() {
        let base = url::Url::parse(&url).unwrap();
        let host = base.join("/").unwrap().to_string();
        if !robots.contains_key(&host) {
            let (rules, sitemaps) = read_robots(client, &base).await;
            robots.insert(host.clone(), rules);
            queue.extend(sitemaps.into_iter().filter(|url| seen.insert(url.clone())));
        }
        let Some(rules) = &robots[&host] else { continue };
        if !rules.allows(base.path()) {
            continue;
        }
        let Ok(answer) = client.get(&url).await else {
            // The host connects but does not end: give the host up, or a tarpit would cost the whole test.
            robots.insert(host, None);
            continue;
        };
        done.insert(url.clone(), answer.status.as_u16());
        let mut found: Vec<String> = answer.header("location").map(str::to_owned).into_iter().collect();
        if answer.status == 200 {
            let mut text = answer.decoded();
            if answer.header("content-type") == Some("application/gzip") {
                let mut plain = Vec::new();
                flate2::read::GzDecoder::new(&text[..]).read_to_end(&mut plain).unwrap();
                text = plain;
            }
            found.extend(links(&String::from_utf8(text).unwrap()));
        }
        for link in found {
            let mut link = base.join(&link).unwrap();
            link.set_fragment(None);
            if seen.insert(link.to_string()) {
                queue.push_back(link.to_string());
            }
        }
    }
    done
}

/// The rules of a host (`None` if the host cannot be connected to) and its sitemaps.
async fn read_robots(client: &Client, base: &url::Url) -> (Option<Rules>, Vec<String>) {
    let mut url = base.join("/robots.txt").unwrap();
    for _ in 0..5 {
        let Ok(answer) = client.get(url.as_str()).await else { return (None, Vec::new()) };
        match answer.status.as_u16() {
            300..400 => url = url.join(answer.header("location").unwrap()).unwrap(),
            400..500 => return (Some(Rules::allow_all()), Vec::new()),
            200 => {
                let text = String::from_utf8(answer.decoded()).unwrap();
                let sitemaps = text.lines().filter_map(|line| line.strip_prefix("Sitemap: "));
                let sitemaps = sitemaps.map(str::to_owned).collect();
                return (Some(Rules::parse(&text, "nephila")), sitemaps);
            }
            _ => break,
        }
    }
    (Some(Rules::deny_all()), Vec::new())
}

/// Everything between `href="`, `<loc>` or `<link>` and the closing delimiter.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (begin, end) in [("href=\"", '"'), ("<loc>", '<'), ("<link>", '<')] {
        let parts = text.split(begin).skip(1);
        found.extend(parts.map(|part| part.split(end).next().unwrap_or_default().to_owned()));
    }
    found
}

fn judge(web: &RunningWeb, log: &Log) -> [Report; 4] {
    let options = TruthOptions { reads_sitemaps: true, reads_feeds: true, ..TruthOptions::default() };
    let truth = web.world().truth(&options);
    [
        Politeness::default().check(log),
        Robots::of_world(web.world(), "nephila").check(log),
        Repeats::default().check(log),
        check_complete(web.world(), &truth, log),
    ]
}

async fn start(settings: Settings) -> (RunningWeb, Client) {
    let web = Web::builder().settings(settings).start().await.unwrap();
    let mut client = Client::new(&web);
    client.answer_max = Duration::from_secs(3);
    (web, client)
}

/// Home pages of all hosts.
fn homes(web: &RunningWeb) -> Vec<String> {
    let world = web.world();
    (0..world.settings().hosts).map(|host| world.url(Place { host, what: What::Page(0) })).collect()
}

#[tokio::test]
async fn a_crawl_finds_exactly_the_ground_truth_and_every_judge_agrees() {
    let (web, client) = start(small_and_mixed(7)).await;
    let done = crawl(&client, homes(&web)).await;
    let world = web.world().clone();
    let options = TruthOptions { reads_sitemaps: true, reads_feeds: true, ..TruthOptions::default() };
    let truth = world.truth(&options);
    let counts = truth.counts();
    assert!(counts[&Reach::Page] > 150 && counts[&Reach::Redirect] > 3, "{counts:?}");
    assert!(counts.contains_key(&Reach::Disallowed), "{counts:?}");
    let expected: HashSet<String> = truth.expected().map(|place| world.url(place)).collect();
    let found: HashSet<String> = done.keys().cloned().collect();
    assert_eq!(expected.difference(&found).collect::<Vec<_>>(), Vec::<&String>::new(), "missed");
    assert_eq!(found.difference(&expected).collect::<Vec<_>>(), Vec::<&String>::new(), "too much");
    for (url, status) in &done {
        let reach = truth.reach(world.place_of_url(url).unwrap()).unwrap();
        let fits = match reach {
            Reach::Page => *status == 200,
            Reach::Redirect => (300..400).contains(status),
            Reach::Error(expected) => *status == expected,
            _ => false,
        };
        assert!(fits, "{url} answered {status}, but truth says {reach:?}");
    }
    let reports = judge(&web, &web.journal().log());
    for report in &reports {
        assert!(report.is_clean(), "{report}");
    }
}

#[tokio::test]
async fn judges_see_through_real_rude_crawlers() {
    // One host whose robots.txt closes /private/, so that every fault is planted by hand below.
    let robots = nephila_testweb::settings::RobotsShares { private: 1.0, ..Default::default() };
    let settings = Settings { hosts: 2, pages: 60, private_share: 0.3, robots, ..Settings::default() };
    let (web, client) = start(settings).await;
    let world = web.world().clone();
    let private = world.pages().find(|place| place.host == 1 && world.path(*place).starts_with("/private/"));
    let private = world.url(private.unwrap());
    let open: Vec<_> = world.pages().filter(|place| !world.path(*place).starts_with("/private/")).collect();
    let url_of = |n: usize| world.url(*open.iter().filter(|place| place.host == 1).nth(n).unwrap());
    let faults = |report: &Report| -> Vec<Fault> {
        report.violations.iter().map(|violation| violation.fault.clone()).collect()
    };

    // Does not ask for robots.txt, then asks and does not care.
    client.get(&url_of(0)).await.unwrap();
    client.get(&world.url(Place { host: 1, what: What::Robots })).await.unwrap();
    client.get(&private).await.unwrap();
    let log = web.journal().take();
    let found = faults(&Robots::of_world(&world, "nephila").check(&log));
    assert_eq!(found, [Fault::RobotsUnread, Fault::Disallowed]);

    // Comes back at once.
    client.get(&url_of(1)).await.unwrap();
    client.get(&url_of(1)).await.unwrap();
    let log = web.journal().take();
    assert_eq!(faults(&Repeats::default().check(&log)), [Fault::Repeat(2)]);
    let strict = Politeness { host_rest: Duration::from_secs(5), ..Politeness::default() };
    assert!(matches!(faults(&strict.check(&log))[..], [Fault::HostRest { needed_us: 5_000_000, .. }]));

    // Opens two connections to one host and keeps them.
    let address = world.addresses(1)[0];
    let mut streams = Vec::new();
    for n in 0..2 {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect((address, web.http_port())).await.unwrap();
        let path = format!("GET /p/9999{n} HTTP/1.1\r\nHost: {}\r\n\r\n", world.name(1));
        stream.write_all(path.as_bytes()).await.unwrap();
        let mut first = [0u8; 512];
        assert!(stream.read(&mut first).await.unwrap() > 0);
        streams.push(stream);
    }
    let log = web.journal().take();
    assert!(faults(&Politeness::default().check(&log)).contains(&Fault::HostConnections(2)));

    // Leaves pages out, and invents some.
    let truth = world.truth(&TruthOptions::default());
    let report = check_complete(&world, &truth, &log);
    assert_eq!(report.total, truth.expected().count() as u64 + 2);
}

#[tokio::test]
async fn a_changed_robots_txt_binds_from_its_next_answer_on() {
    let robots = nephila_testweb::settings::RobotsShares { changing: 1.0, ..Default::default() };
    let settings = Settings { hosts: 2, pages: 60, private_share: 0.3, robots, ..Settings::default() };
    let (web, client) = start(settings).await;
    let world = web.world().clone();
    let private: Vec<_> = world
        .pages()
        .filter(|place| place.host == 1 && world.path(*place).starts_with("/private/"))
        .map(|place| world.url(place))
        .collect();
    let robots = world.url(Place { host: 1, what: What::Robots });
    client.get(&robots).await.unwrap();
    client.get(&private[0]).await.unwrap();
    web.advance(Duration::from_secs(86_400));
    client.get(&private[1]).await.unwrap();
    let report = Robots::of_world(&world, "nephila").check(&web.journal().log());
    assert!(report.is_clean(), "{report}");
    client.get(&robots).await.unwrap();
    client.get(&private[2]).await.unwrap();
    let report = Robots::of_world(&world, "nephila").check(&web.journal().log());
    assert_eq!(report.violations.iter().map(|v| v.subject.clone()).collect::<Vec<_>>(), [private[2].clone()]);
}
