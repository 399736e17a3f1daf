//! A hostile web, a spider with short deadlines, and helpers for requests.

use std::time::Duration;

use nephila_core::spider::Settings;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Fetched, Keep, Request, Spider};
use nephila_testweb::hostile::{self, Hostile};

/// User agent of the spider in all tests.
pub(crate) const AGENT: &str = "NephilaTest/1.0";

/// A hostile web and a spider that may reach it.
pub(crate) struct World {
    pub(crate) web: Hostile,
    pub(crate) spider: Spider,
    pub(crate) settings: Settings,
    _ca: tempfile::NamedTempFile,
}

/// Deadlines short enough for a test, in the same order of length as the defaults.
pub(crate) fn short_deadlines() -> Settings {
    Settings {
        dns_timeout: Duration::from_millis(700),
        dns_total_timeout: Duration::from_secs(3),
        connect_timeout: Duration::from_secs(2),
        tls_timeout: Duration::from_secs(2),
        write_timeout: Duration::from_millis(1_200),
        head_timeout: Duration::from_secs(2),
        body_idle_timeout: Duration::from_secs(2),
        total_timeout: Duration::from_secs(6),
        speed_min: 1024,
        speed_window: Duration::from_secs(2),
        ..Settings::default()
    }
}

/// Deadlines that no busy machine reaches: for cases that bytes, frames or counts decide, and never the time.
fn patient(settings: &mut Settings) {
    for timeout in [
        &mut settings.dns_timeout,
        &mut settings.dns_total_timeout,
        &mut settings.connect_timeout,
        &mut settings.tls_timeout,
        &mut settings.write_timeout,
        &mut settings.head_timeout,
        &mut settings.body_idle_timeout,
        &mut settings.total_timeout,
        &mut settings.speed_window,
    ] {
        *timeout *= PATIENCE;
    }
}

/// How much longer the deadlines of a patient world are.
const PATIENCE: u32 = 10;
/// A fetch that exceeds its whole deadline by this much hangs; a busy machine is late by less.
const LATE_MAX: Duration = Duration::from_secs(10);

impl World {
    /// Starts a world whose deadlines no test reaches.
    pub(crate) async fn patient() -> World {
        World::start_with(patient).await
    }

    /// Starts a world with short deadlines.
    pub(crate) async fn start() -> World {
        World::start_with(|_| {}).await
    }

    /// Starts a world with short deadlines and `change` on top.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Settings)) -> World {
        World::start_on(hostile::Settings::default(), change).await
    }

    /// Like [`World::start_with`], on a hostile web with its own pace.
    pub(crate) async fn start_on(web: hostile::Settings, change: impl FnOnce(&mut Settings)) -> World {
        let web = Hostile::start(web).await.expect("the hostile web starts");
        let ca = tempfile::NamedTempFile::new().expect("a file for the CA");
        std::fs::write(ca.path(), web.ca_pem()).expect("the CA is written");
        let mut settings = short_deadlines();
        settings.dns_servers = vec![web.dns_addr()];
        settings.ports.extend([web.port(), web.tls_port(), web.other_port()]);
        settings.allow_addresses = vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        settings.ca_file = Some(ca.path().to_owned());
        change(&mut settings);
        let spider = Spider::new(settings.clone(), AGENT).expect("these settings can be used");
        World { web, spider, settings, _ca: ca }
    }

    /// GET over http.
    pub(crate) async fn get(&self, id: &str, path: &str) -> Fetched {
        self.fetch(&self.web.url(id, path)).await
    }

    /// GET over https.
    pub(crate) async fn get_tls(&self, id: &str, path: &str) -> Fetched {
        self.fetch(&self.web.https_url(id, path)).await
    }

    /// GET of any URL, everything kept.
    pub(crate) async fn fetch(&self, url: &str) -> Fetched {
        self.ask(request(url)).await
    }

    /// Sends any request and checks the deadline: a fetch that takes much longer than its total hangs. A worthwhile
    /// retry follows at once, as it would after the crawl delay; both count as requests.
    pub(crate) async fn ask(&self, request: Request) -> Fetched {
        let first = self.ask_once(request.clone()).await;
        if !first.again {
            return first;
        }
        let mut second = self.ask_once(Request { second: true, ..request }).await;
        second.requests += first.requests;
        second.timings.total += first.timings.total;
        second
    }

    async fn ask_once(&self, request: Request) -> Fetched {
        let until = self.settings.total_timeout + LATE_MAX;
        let url = request.url.as_str().to_owned();
        tokio::time::timeout(until, self.spider.fetch(request))
            .await
            .unwrap_or_else(|_| panic!("{url} hangs"))
    }
}

/// A GET that keeps everything.
pub(crate) fn request(url: &str) -> Request {
    let url = CrawlUrl::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    Request { keep: Keep { exchange: true, decoded: true, sha1: true }, ..Request::get(url) }
}

/// The body as received.
pub(crate) fn body(fetched: &Fetched) -> Vec<u8> {
    let exchange = fetched
        .exchange
        .as_ref()
        .unwrap_or_else(|| panic!("nothing was kept: {} {}", fetched.outcome, fetched.detail));
    let mut all = Vec::new();
    std::io::Read::read_to_end(&mut exchange.body.reader().unwrap(), &mut all).unwrap();
    assert_eq!(all.len() as u64, exchange.body.len());
    all
}

/// The body after decoding, as text.
pub(crate) fn text(fetched: &Fetched) -> String {
    String::from_utf8_lossy(&decoded(fetched)).into_owned()
}

/// The body after decoding.
pub(crate) fn decoded(fetched: &Fetched) -> Vec<u8> {
    let body = fetched
        .decoded
        .as_ref()
        .unwrap_or_else(|| panic!("nothing decoded: {} {}", fetched.outcome, fetched.detail));
    body.start(usize::MAX).unwrap().to_vec()
}
