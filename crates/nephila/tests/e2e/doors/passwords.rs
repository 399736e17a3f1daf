//! Names and passwords: Basic and Digest, to the origin they were given for and to no other.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use super::{Asked, Site, complaints, crawl, page, run, status};

/// `nephila fetch` of these arguments, with the loopback addresses and ports of the sites open.
fn fetch(dir: &Path, sites: &[&Site], args: &[&str]) -> Output {
    let ports: Vec<u16> = sites.iter().map(|site| site.port).collect();
    let ports = format!("spider.ports={ports:?}");
    let open = ["--set", "spider.allow_addresses=[\"127.0.0.1/32\"]", "--set", &ports];
    run(
        dir,
        &[&["fetch", "--json", "--delay", "0s", "--set", "frontier.slot_delay=0s"], &open[..], args].concat(),
    )
}

fn settings(dir: &Path, site: &Site, rest: &str) {
    let text = format!("[[credentials]]\norigin = \"http://127.0.0.1:{}\"\nuser = \"me\"\n{rest}", site.port);
    fs::write(dir.join("nephila.toml"), text).unwrap();
}

#[test]
fn sec_08_a_redirect_chooses_no_credentials() {
    let dir = tempfile::tempdir().unwrap();
    let other = Site::plain("other");
    let (target, host) = (other.port, "127.0.0.1");
    let site = Site::start(move |asked| match asked.path.as_str() {
        "/robots.txt" => status("404 Not Found"),
        "/away" => {
            (format!("302 Found\r\nLocation: http://chosen:secret@{host}:{target}/in\r\n"), String::new())
        }
        _ => ("302 Found\r\nLocation: http://chosen:secret@127.0.0.1:0/\r\n".into(), String::new()),
    });
    let ran =
        fetch(dir.path(), &[&site, &other], &["-L", &format!("http://me:mine@127.0.0.1:{}/away", site.port)]);
    assert_eq!(other.count("/in"), 1, "{}", complaints(&ran));
    assert!(other.asked().iter().all(|asked| asked.authorization().is_none()), "{:?}", other.asked());
    // The credentials for the first origin went there and nowhere else.
    let away = site.asked().into_iter().find(|asked| asked.path == "/away").unwrap();
    assert_eq!(away.authorization(), Some("Basic bWU6bWluZQ=="));
}

/// Whether a request has the right credentials: a Digest of `me` and `pw`, in the realm `r`, for this nonce.
fn is_right(asked: &Asked, nonce: &str) -> bool {
    let Some(value) = asked.authorization().and_then(|value| value.strip_prefix("Digest ")) else {
        return false;
    };
    let get = |name: &str| {
        let at = value.find(&format!("{name}="))? + name.len() + 1;
        Some(value[at..].trim_start_matches('"').split(['"', ',']).next().unwrap_or_default().to_owned())
    };
    let (Some(nc), Some(cnonce), Some(response)) = (get("nc"), get("cnonce"), get("response")) else {
        return false;
    };
    let sha = |text: String| {
        data_encoding::HEXLOWER
            .encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes()).as_ref())
    };
    let secret = sha("me:r:pw".into());
    let request = sha(format!("GET:{}", asked.path));
    get("nonce").as_deref() == Some(nonce)
        && value.contains("algorithm=SHA-256")
        && response == sha(format!("{secret}:{nonce}:{nc}:{cnonce}:auth:{request}"))
}

/// A site behind a digest: pages `/`, `/a` and `/b`.
fn behind_digest() -> Site {
    Site::start(|asked| {
        match asked.path.as_str() {
        "/robots.txt" => status("404 Not Found"),
        _ if is_right(asked, "n/1") => page("<a href=/a>a</a> <a href=/b>b</a>"),
        _ => (
            "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"r\", Digest realm=\"r\", nonce=\"n/1\", qop=\"auth\", \
             algorithm=SHA-256\r\n"
                .into(),
            "who?".into(),
        ),
    }
    })
}

#[test]
fn row_01_a_crawl_answers_a_digest_rests_before_and_asks_for_the_rest_at_once() {
    let (dir, site) = (tempfile::tempdir().unwrap(), behind_digest());
    fs::write(dir.path().join("password"), "pw\n").unwrap();
    settings(dir.path(), &site, "password_file = \"password\"\nscheme = \"digest\"\n");
    // Longer than anything here takes, shorter than the shipped value, so that the test is short.
    let rest = Duration::from_millis(700);
    let ran = run(
        dir.path(),
        &[
            "crawl",
            &site.url("/"),
            "-o",
            "crawl",
            "-q",
            "--delay",
            "700ms",
            "--set",
            "frontier.host_delay_factor=0",
        ],
    );
    assert!(ran.status.success(), "{}", complaints(&ran));
    let asked = site.asked();
    let paths: Vec<&str> = asked.iter().map(|asked| asked.path.as_str()).collect();
    assert_eq!(paths.iter().filter(|path| **path == "/").count(), 2, "{paths:?}");
    assert_eq!((site.count("/a"), site.count("/b")), (1, 1), "the challenge is kept: {paths:?}");
    assert!(asked.iter().all(|asked| !asked.authorization().unwrap_or_default().starts_with("Basic")));
    for pair in asked.windows(2) {
        assert!(pair[1].at - pair[0].at >= rest - Duration::from_millis(50), "{paths:?}");
    }
    let log = fs::read_to_string(dir.path().join("crawl/logs/outcomes-00000001.jsonl")).unwrap();
    assert_eq!(log.lines().count(), asked.len(), "a line for every request: {log}");
    assert_eq!(log.lines().filter(|line| line.contains("\"unauthorized\"")).count(), 1, "{log}");

    // A wrong password is tried once: two requests for the page, and the outcome stays `unauthorized`.
    settings(dir.path(), &site, "password = \"wrong\"\nscheme = \"digest\"\n");
    let before = site.asked().len();
    crawl(dir.path(), &[&site.url("/a"), "-o", "wrong"]);
    let log = fs::read_to_string(dir.path().join("wrong/logs/outcomes-00000001.jsonl")).unwrap();
    assert_eq!(site.asked().len() - before, 3, "robots.txt, and twice the page: {log}");
    assert!(log.lines().last().unwrap_or_default().contains("\"unauthorized\""), "{log}");
}

#[test]
fn row_01_fetch_answers_a_digest_and_sends_basic_to_its_origin_alone() {
    let (dir, site, plain) = (tempfile::tempdir().unwrap(), behind_digest(), Site::plain("open"));
    let given = format!("http://me:pw@127.0.0.1:{}/a", site.port);
    let ran = fetch(dir.path(), &[&site, &plain], &[&given, &plain.url("/")]);
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}{}", complaints(&ran));
    assert_eq!(said.matches("\"status\":200").count(), 2, "{said}");
    assert!(!said.contains("pw@"), "{said}");
    assert!(plain.asked().iter().all(|asked| asked.authorization().is_none()), "{:?}", plain.asked());
    // Basic goes along at once: no page is asked for twice.
    settings(dir.path(), &plain, "password = \"pw\"\n");
    fetch(dir.path(), &[&plain], &[&plain.url("/basic")]);
    let asked = plain.asked().into_iter().find(|asked| asked.path == "/basic").unwrap();
    assert_eq!((plain.count("/basic"), asked.authorization()), (1, Some("Basic bWU6cHc=")));
}

#[test]
fn row_01_a_crawl_of_a_url_with_a_password_sends_it_and_says_that_it_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::start(|asked| match (asked.path.as_str(), asked.authorization()) {
        ("/robots.txt", _) => status("404 Not Found"),
        (_, Some("Basic bWU6cHc=")) => page("<a href=/a>a</a>"),
        _ => ("401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\n".into(), "who?".into()),
    });
    let typed = format!("http://me:pw@127.0.0.1:{}/", site.port);
    let go = ["--delay", "0s", "--set", "frontier.slot_delay=0s", "-o", "crawl", "--progress", "none"];
    let ran = run(dir.path(), &[&["crawl", &typed], &go[..]].concat());
    assert!(complaints(&ran).contains("[[credentials]]"), "{}", complaints(&ran));
    assert_eq!((site.count("/"), site.count("/a")), (1, 1), "{}", complaints(&ran));
    let plan = fs::read_to_string(dir.path().join("crawl/job.json")).unwrap();
    assert!(!plan.contains("pw@") && plan.contains(&site.url("/")), "{plan}");
    // Without the password the crawl goes on and names the missing setting.
    fs::write(dir.path().join("more"), site.url("/b")).unwrap();
    let ran = run(dir.path(), &[&["crawl", "-i", "more"], &go[..]].concat());
    assert!(complaints(&ran).contains("the password of me at"), "{}", complaints(&ran));
    assert!(
        site.asked().iter().filter(|asked| asked.path == "/b").all(|asked| asked.authorization().is_none())
    );
    // With the password in the settings file the credentials are sent again.
    settings(dir.path(), &site, "password = \"pw\"\n");
    fs::write(dir.path().join("more"), site.url("/c")).unwrap();
    run(dir.path(), &[&["crawl", "-i", "more"], &go[..]].concat());
    let asked = site.asked().into_iter().find(|asked| asked.path == "/c");
    assert_eq!(asked.unwrap().authorization(), Some("Basic bWU6cHc="));
}
