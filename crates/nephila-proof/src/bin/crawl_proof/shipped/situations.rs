//! The situations of a crawl, and how each must end: the table of this proof.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use nephila_testweb::tls::Ca;
use tokio_rustls::rustls::{ServerConnection, StreamOwned};

use super::run::Stop;
use super::stage::Stage;
use super::web::{Ask, Reply, Said};

/// One line of the table.
pub struct Situation {
    /// Its name.
    pub name: &'static str,
    /// Whether the situation is part of the short form.
    pub short: bool,
    /// Sets the situation up.
    pub set: fn(&mut Stage) -> anyhow::Result<()>,
    /// When the crawl is interrupted; then the same folder is crawled on.
    pub stop: Stop,
    /// Pages that the sites have given out in the end, each counted once.
    pub pages: usize,
    /// Pages that may come besides. The clock is set forward by hours in one step: a request that is due by then may begin
    /// before the crawl looks whether its time is over.
    pub pages_more: usize,
    /// The exit code of the last run.
    pub exit: i32,
    /// Texts that the closing words must contain.
    pub words: &'static [&'static str],
}

const HOUR: Duration = Duration::from_secs(3_600);

/// A situation that is not interrupted, and is part of the long form alone.
const LONG: Situation = Situation {
    name: "",
    short: false,
    set: |_| Ok(()),
    stop: Stop::Never,
    pages: 0,
    pages_more: 0,
    exit: 0,
    words: &["done: "],
};

/// The same in both forms.
const SHORT: Situation = Situation { short: true, ..LONG };

/// A site with odd answers.
macro_rules! site {
    ($pages:expr, $odd:expr) => {
        |stage| {
            stage.site($pages, $odd)?;
            Ok(())
        }
    };
    ($pages:expr, $odd:expr, $($arg:expr),+) => {
        |stage| {
            stage.site($pages, $odd)?;
            stage.say(&[$($arg),+]);
            Ok(())
        }
    };
}

/// A site under a name.
macro_rules! named {
    ($pages:expr, $odd:expr, $lookup:expr) => {
        |stage| Ok(stage.named_site($pages, $odd, $lookup)?)
    };
}

fn robots_fails(ask: &Ask, status: u16, until: Duration) -> Option<Reply> {
    (ask.path == "/robots.txt" && ask.at < until).then(|| Reply::status(status))
}

/// 429 with two hours, once: after robots.txt, the home page and two others.
fn busy_once(ask: &Ask) -> Option<Reply> {
    (ask.total == 5).then(|| Reply::status(429).field("Retry-After", "7200"))
}

/// 503 with this `Retry-After` in seconds, once: after robots.txt, the home page and another. The page differs from run
/// to run: their order is random, and after the last one nothing would be left to wait for.
fn busy_early(ask: &Ask, seconds: &str) -> Option<Reply> {
    (ask.total == 4).then(|| Reply::status(503).field("Retry-After", seconds))
}

fn on(path: &str, ask: &Ask, reply: Reply) -> Option<Reply> {
    (ask.path == path).then_some(reply)
}

fn closed_port(stage: &mut Stage) -> anyhow::Result<()> {
    let address = stage.closed_port()?;
    stage.seeds.push(format!("http://{address}/"));
    Ok(())
}

fn at(address: IpAddr) -> Said {
    Said::Addresses(vec![address])
}

/// All of them.
pub fn all() -> Vec<Situation> {
    vec![
        Situation {
            name: "nothing happens",
            set: site!(10, |_| None),
            pages: 11,
            words: &["done: 11 pages"],
            ..SHORT
        },
        Situation {
            name: "one 503",
            set: site!(20, |ask| on("/5", ask, Reply::status(503))),
            pages: 20,
            exit: 23,
            words: &["done: 20 pages", "1 URLs that failed are to be tried again, the next at "],
            ..SHORT
        },
        Situation {
            name: "a 503 on every tenth page",
            set: site!(50, |ask| ask.path.ends_with('0').then(|| Reply::status(503))),
            pages: 46,
            exit: 23,
            words: &["5 URLs that failed are to be tried again"],
            ..LONG
        },
        Situation {
            name: "429 with two hours, once",
            set: site!(10, busy_once),
            pages: 11,
            words: &["done: 11 pages"],
            ..SHORT
        },
        Situation { name: "503 with a day", set: site!(5, |ask| busy_early(ask, "86400")), pages: 6, ..LONG },
        Situation {
            name: "503 with ten years is a day",
            set: site!(5, |ask| busy_early(ask, "315360000")),
            pages: 6,
            ..LONG
        },
        Situation {
            name: "the whole site is busy for ten minutes",
            set: site!(8, |ask| (ask.path != "/" && ask.path != "/robots.txt" && ask.at < HOUR / 6)
                .then(|| Reply::status(503))),
            pages: 5,
            exit: 23,
            words: &["4 URLs that failed are to be tried again"],
            ..LONG
        },
        Situation {
            name: "429 for the seed",
            set: site!(3, |ask| on("/", ask, Reply::status(429).field("Retry-After", "7200"))),
            exit: 9,
            words: &["done: 0 pages", "1 of 1 could not be fetched", "rate-limited: it answered 429"],
            ..SHORT
        },
        Situation {
            name: "robots.txt 500 for a day",
            set: site!(5, |ask| robots_fails(ask, 500, 24 * HOUR)),
            pages: 6,
            words: &["done: 6 pages"],
            ..SHORT
        },
        Situation {
            name: "robots.txt 503 for an hour",
            set: site!(5, |ask| robots_fails(ask, 503, HOUR)),
            pages: 6,
            ..LONG
        },
        Situation {
            name: "robots.txt 429 for an hour",
            set: site!(5, |ask| robots_fails(ask, 429, HOUR)),
            pages: 6,
            ..LONG
        },
        Situation {
            name: "robots.txt hangs up for an hour",
            set: site!(5, |ask| (ask.path == "/robots.txt" && ask.at < HOUR).then(Reply::closed)),
            pages: 6,
            ..LONG
        },
        Situation {
            name: "robots.txt forbids the seed",
            set: site!(5, |ask| on(
                "/robots.txt",
                ask,
                Reply::body("text/plain", "User-agent: *\nDisallow: /\n")
            )),
            exit: 9,
            words: &["done: 0 pages", "1 closed by robots.txt", "robots-denied: robots.txt forbids it"],
            ..SHORT
        },
        Situation {
            name: "robots.txt forbids a part",
            set: site!(5, |ask| on(
                "/robots.txt",
                ask,
                Reply::body("text/plain", "User-agent: *\nDisallow: /2\n")
            )),
            pages: 5,
            words: &["done: 5 pages", "1 closed by robots.txt"],
            ..LONG
        },
        Situation {
            name: "robots.txt redirects without end",
            set: site!(3, |ask| ask
                .path
                .starts_with("/robots.txt")
                .then(|| Reply::redirect(&format!("{}x", ask.path)))),
            pages: 4,
            ..LONG
        },
        Situation {
            name: "robots.txt asks for two minutes",
            set: site!(2, |ask| on(
                "/robots.txt",
                ask,
                Reply::body("text/plain", "User-agent: *\nCrawl-delay: 120\n")
            )),
            pages: 3,
            ..LONG
        },
        Situation {
            name: "a name is gone for an hour",
            set: named!(8, busy_once, |now, address| match now {
                now if now > 2 * HOUR && now < 3 * HOUR => Said::NoName,
                _ => at(address),
            }),
            pages: 9,
            ..LONG
        },
        Situation {
            name: "a name cannot be looked up for an hour",
            set: named!(5, |_| None, |now, address| if now < HOUR { Said::Failure } else { at(address) }),
            pages: 6,
            ..SHORT
        },
        Situation {
            name: "the resolver is silent for three minutes",
            set: named!(3, |_| None, |now, address| match now {
                now if now < HOUR / 20 => Said::Nothing,
                _ => at(address),
            }),
            pages: 4,
            ..LONG
        },
        Situation {
            name: "a name that does not exist",
            set: named!(3, |_| None, |_, _| Said::NoName),
            exit: 9,
            words: &["done: 0 pages", "dns-nxdomain: the name does not exist", "it is tried again at "],
            ..SHORT
        },
        Situation {
            name: "a name that can never be looked up",
            set: named!(3, |_| None, |_, _| Said::Failure),
            exit: 9,
            words: &["done: 0 pages", "dns-servfail"],
            ..LONG
        },
        Situation {
            name: "two addresses, the first is dead",
            set: named!(5, |_| None, |_, address| Said::Addresses(vec![
                IpAddr::from([127, 77, 255, 253]),
                address
            ])),
            pages: 6,
            words: &["done: 6 pages"],
            ..LONG
        },
        Situation {
            name: "two addresses, the second is dead",
            set: named!(5, |_| None, |_, address| Said::Addresses(vec![
                address,
                IpAddr::from([127, 77, 255, 253])
            ])),
            pages: 6,
            words: &["done: 6 pages"],
            ..LONG
        },
        Situation {
            name: "two addresses, one is private",
            set: named!(5, |_| None, |_, address| Said::Addresses(vec![
                IpAddr::from([10, 77, 0, 1]),
                address
            ])),
            pages: 6,
            words: &["done: 6 pages"],
            ..LONG
        },
        Situation {
            name: "two addresses, IPv6 leads nowhere",
            set: named!(5, |_| None, |_, address| {
                Said::Addresses(vec![IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1u16]), address])
            }),
            pages: 6,
            words: &["done: 6 pages"],
            ..LONG
        },
        Situation {
            name: "a closed port",
            set: closed_port,
            exit: 9,
            words: &["done: 0 pages", "connect-refused: the connection was refused"],
            ..LONG
        },
        Situation {
            name: "a closed port beside a good site",
            set: |stage| {
                stage.site(4, |_| None)?;
                let closed = stage.closed_port()?;
                stage.seeds.push(format!("http://{closed}/"));
                Ok(())
            },
            pages: 5,
            exit: 9,
            words: &["done: 5 pages", "1 of 2 could not be fetched", "connect-refused"],
            ..LONG
        },
        Situation {
            name: "a closed port, and no patience",
            set: |stage| {
                closed_port(stage)?;
                stage.say(&["--wait-max", "1m"]);
                Ok(())
            },
            exit: 9,
            words: &["stopped waiting after 1m (crawl.wait_max): 0 pages", "connect-refused"],
            ..SHORT
        },
        Situation {
            name: "a closed port, and a seed must be there",
            set: |stage| {
                closed_port(stage)?;
                stage.say(&["--fail-on-seed-error"]);
                Ok(())
            },
            exit: 9,
            words: &["stopped: a seed could not be fetched: 0 pages", "connect-refused"],
            ..SHORT
        },
        Situation {
            name: "a certificate of nobody",
            set: |stage| {
                let config = Ca::new().server_config(&[]);
                let dress =
                    move |stream: std::net::TcpStream| -> std::io::Result<Box<dyn super::web::ReadWrite>> {
                        let connection =
                            ServerConnection::new(config.clone()).map_err(std::io::Error::other)?;
                        Ok(Box::new(StreamOwned::new(connection, stream)))
                    };
                stage.site_over_tls(3, Arc::new(dress))?;
                Ok(())
            },
            exit: 9,
            words: &["done: 0 pages", "tls-untrusted"],
            ..LONG
        },
        Situation {
            name: "two hours, and no patience",
            set: site!(10, busy_once, "--wait-max", "10m"),
            pages: 3,
            exit: 24,
            words: &["stopped waiting after 10m (crawl.wait_max): 3 pages", "were never tried"],
            ..SHORT
        },
        Situation {
            name: "one host rests while another does not",
            set: |stage| {
                stage.site(6, busy_once)?;
                stage.site(6, |_| None)?;
                Ok(())
            },
            pages: 7 + 7,
            ..LONG
        },
        Situation {
            name: "a slow page",
            set: site!(3, |ask| on(
                "/2",
                ask,
                Reply::body("text/html", vec![b'x'; 60_000]).slow(Duration::from_secs(2))
            )),
            pages: 4,
            ..LONG
        },
        Situation {
            name: "a page that drips",
            set: site!(3, |ask| on("/2", ask, Reply::page("slow", &[]).slow(Duration::from_secs(2)))),
            // The site has given the page out in the end; the crawler was gone by then.
            pages: 4,
            exit: 23,
            words: &["done: 3 pages", "1 URLs that failed are to be tried again"],
            ..LONG
        },
        Situation {
            name: "a page that never comes",
            set: site!(3, |ask| on("/2", ask, Reply::silent())),
            pages: 3,
            exit: 23,
            words: &["done: 3 pages", "1 URLs that failed are to be tried again"],
            ..LONG
        },
        Situation {
            name: "a server that hangs up",
            set: site!(3, |ask| on("/2", ask, Reply::closed())),
            pages: 3,
            exit: 23,
            words: &["done: 3 pages", "1 URLs that failed are to be tried again"],
            ..LONG
        },
        Situation {
            name: "half a page",
            set: site!(3, |ask| on("/2", ask, Reply::body("text/html", vec![b'x'; 9_000]).half())),
            pages: 4,
            exit: 23,
            words: &["done: 3 pages", "1 URLs that failed are to be tried again"],
            ..LONG
        },
        Situation {
            name: "a huge document",
            set: site!(3, |ask| on("/2", ask, Reply::body("application/pdf", vec![b'x'; 12 << 20]))),
            pages: 4,
            words: &["done: 4 pages", "1 bodies cut at 10 MiB: spider.body_bytes_max"],
            ..SHORT
        },
        Situation {
            name: "a page that redirects to itself",
            set: site!(3, |ask| on("/2", ask, Reply::redirect("/2"))),
            pages: 3,
            exit: 23,
            ..LONG
        },
        Situation {
            name: "two pages that redirect to each other",
            set: site!(3, |ask| on("/2", ask, Reply::redirect("/a")).or_else(|| on(
                "/a",
                ask,
                Reply::redirect("/2")
            ))),
            pages: 3,
            words: &["done: 3 pages", "redirects"],
            ..LONG
        },
        Situation {
            name: "redirects without end",
            set: site!(2, |ask| ask
                .path
                .starts_with("/2")
                .then(|| Reply::redirect(&format!("{}2", ask.path)))),
            pages: 2,
            exit: 23,
            ..LONG
        },
        Situation {
            name: "a host that is stopped while a crawl is interrupted",
            set: |stage| {
                let address = stage.site(3, |_| None)?;
                let target = address.ip().to_string();
                let stop = ["stop", "add", &target, "--reason", "asked to", "--author", "me"];
                stage.between.push(stop.map(str::to_owned).to_vec());
                Ok(())
            },
            // After robots.txt and the home page.
            stop: Stop::Asked(2),
            pages: 1,
            words: &["done: 0 pages", "3 URLs of hosts that are stopped"],
            ..SHORT
        },
        Situation {
            name: "a limit of pages",
            set: site!(20, |_| None, "--limit", "5"),
            pages: 5,
            exit: 20,
            words: &["stopped at the limit of 5 pages: 5 pages", "URLs queued"],
            ..LONG
        },
        Situation {
            name: "a limit of bytes",
            set: site!(
                20,
                |ask| (ask.path != "/" && ask.path != "/robots.txt")
                    .then(|| Reply::body("text/html", vec![b'x'; 30_000])),
                "--size-limit",
                "100kB"
            ),
            pages: 5,
            exit: 14,
            words: &["stopped at the limit of 100000 bytes"],
            ..LONG
        },
        Situation {
            name: "a limit of time, while a host rests",
            set: site!(10, busy_once, "--time-limit", "1h"),
            pages: 3,
            pages_more: 1,
            exit: 15,
            words: &["stopped at the limit of 1h", "URLs queued"],
            ..LONG
        },
        Situation {
            name: "too many failures",
            set: site!(10, |ask| (ask.total > 2).then(|| Reply::status(500)), "--errors-max", "3"),
            pages: 1,
            exit: 12,
            words: &["stopped: too many failures"],
            ..LONG
        },
        Situation {
            name: "a seed that is not there",
            set: site!(3, |ask| on("/", ask, Reply::status(404))),
            words: &["done: 0 pages", "1 not found"],
            ..LONG
        },
        Situation {
            name: "a seed that is refused",
            set: site!(3, |ask| on("/", ask, Reply::status(403))),
            words: &["done: 0 pages", "1 refused by the site"],
            ..LONG
        },
        Situation {
            name: "a seed that fails",
            set: site!(3, |ask| on("/", ask, Reply::status(500))),
            exit: 9,
            words: &["done: 0 pages", "server-error: it answered 500", "it is tried again at "],
            ..LONG
        },
        Situation {
            name: "a page that fails",
            set: site!(3, |ask| on("/2", ask, Reply::status(500))),
            pages: 3,
            exit: 23,
            words: &["done: 3 pages", "1 failed"],
            ..LONG
        },
        Situation {
            name: "a sitemap and an image",
            set: site!(
                2,
                |ask| match &*ask.path {
                    "/robots.txt" => Some(Reply::body("text/plain", "Sitemap: /map.xml\n")),
                    "/map.xml" => Some(Reply::body(
                        "application/xml",
                        "<?xml version=\"1.0\"?><urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"></urlset>"
                    )),
                    "/1" => Some(Reply::body("text/html", "<title>1</title><img src=\"/a.png\">")),
                    "/a.png" => Some(Reply::body("image/png", "no image")),
                    _ => None,
                },
                "--page-requisites"
            ),
            pages: 5,
            words: &["done: 3 pages", "1 sitemaps and feeds", "1 images and other files"],
            ..SHORT
        },
        Situation {
            name: "Ctrl-C while nothing happens",
            set: site!(15, |_| None),
            stop: Stop::Asked(5),
            pages: 16,
            ..LONG
        },
        Situation {
            name: "Ctrl-C while pages fail",
            set: site!(10, |ask| (ask.path.ends_with('3') && ask.path != "/").then(|| Reply::status(503))),
            stop: Stop::Asked(6),
            pages: 10,
            exit: 23,
            words: &["1 URLs that failed are to be tried again"],
            ..LONG
        },
        Situation {
            name: "Ctrl-C while a host rests for two hours",
            set: site!(8, busy_once),
            stop: Stop::Waiting,
            pages: 9,
            ..LONG
        },
        Situation {
            name: "Ctrl-C while robots.txt fails",
            set: site!(4, |ask| robots_fails(ask, 500, HOUR)),
            stop: Stop::Waiting,
            pages: 5,
            ..LONG
        },
        Situation {
            name: "Ctrl-C while a name cannot be looked up",
            set: named!(4, |_| None, |now, address| if now < HOUR { Said::Failure } else { at(address) }),
            stop: Stop::Waiting,
            pages: 5,
            ..LONG
        },
        Situation {
            name: "Ctrl-C while a port is closed",
            set: closed_port,
            stop: Stop::Waiting,
            exit: 9,
            words: &["done: 0 pages", "connect-refused"],
            ..LONG
        },
    ]
}
