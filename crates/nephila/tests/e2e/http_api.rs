//! The HTTP API of the program: the same operations by `crawl --listen` and by `serve`, tokens with roles, the document, and
//! the status that a page follows.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use super::alone::{Served, run, text};
use super::site::{PATIENCE, Site};

impl Served {
    /// The status of an answer to a request with this token, and its body.
    fn ask_as(&self, token: &str, method: &str, target: &str, body: &str) -> (u16, String) {
        let target = format!("{target} HTTP/1.1\r\nauthorization: Bearer {token}\r\nx-rest:");
        self.ask(method, &target, body)
    }

    /// The ids of the operations that the server describes.
    fn operations(&self) -> BTreeSet<String> {
        let (status, document) = self.ask("GET", "/api/v1/openapi.json", "");
        assert_eq!(status, 200, "{document}");
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        let paths = document["paths"].as_object().unwrap().values();
        let operations = paths.flat_map(|methods| methods.as_object().unwrap().values());
        operations.map(|operation| operation["operationId"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_running_crawl_answers_as_a_served_folder_does() {
    let (site, dir) = (Site::start(), tempfile::tempdir().unwrap());
    let home = format!("http://127.0.0.1:{}/p0", site.port);
    let listen = ["--listen", "127.0.0.1:0"];
    let args = [&["crawl", &*home, "-o", "data", "--delay", "0s", "--forever"], &listen[..]].concat();
    let mut crawl = Served::spawn(dir.path(), &args);
    let of_crawl = crawl.operations();
    let (status, page) = crawl.ask("GET", "/", "");
    assert!(status == 200 && page.starts_with("<!doctype html>"), "{page}");
    let (head, _) = crawl.reply("GET", "/", "");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");

    let mut stream = TcpStream::connect(crawl.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /api/v1/live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").unwrap();
    let (mut followed, mut bytes) = (String::new(), [0; 4_096]);
    while followed.matches("event: status").count() < 2 {
        let read = stream.read(&mut bytes).expect("the status comes each second");
        assert!(read > 0, "{followed}");
        followed.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    drop(stream);
    crawl.end();

    let served = Served::start(dir.path());
    assert_eq!(served.operations(), of_crawl);
}

#[test]
fn sec_04_a_served_folder_knows_its_tokens_and_their_roles() {
    let (site, dir) = (Site::start(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    let home = format!("http://127.0.0.1:{}/p0", site.port);
    let crawled = run(dir, &["crawl", &home, "-o", "data", "--delay", "0s", "--limit", "1", "-q"]);
    assert_eq!(crawled.status.code(), Some(20), "{}", text(&crawled));
    for name in ["desk", "wall"] {
        std::fs::write(dir.join(name), format!("{name}-secret\n")).unwrap();
    }
    let tokens = "api.tokens=[{name=\"desk\", file=\"desk\", role=\"operate\"}, {name=\"wall\", file=\"wall\", per_second=1}]";
    let listen = "api.listen=127.0.0.1:0";
    let served = Served::spawn(dir, &["serve", "-o", "data", "--set", listen, "--set", tokens]);
    assert_eq!(served.ask("GET", "/api/v1/stats", "").0, 401);
    assert_eq!(served.ask("GET", "/livez", "").0, 200);
    assert_eq!(served.ask("GET", "/", "").0, 200, "the pages hold no data");
    assert_eq!(served.ask_as("wall-secret", "GET", "/api/v1/stats", "").0, 200);
    let line = format!("{home}x\n");
    assert_eq!(served.ask_as("wall-secret", "POST", "/api/v1/urls", &line).0, 403);
    assert_eq!(served.ask_as("desk-secret", "POST", "/api/v1/urls", &line).0, 200);
    // One request a second; a slow machine may take a while to exceed that.
    let mut answers = (0..100).map(|_| served.ask_as("wall-secret", "GET", "/api/v1/stats", ""));
    let (_, problem) = answers.find(|(status, _)| *status == 429).expect("it asks too often");
    assert!(problem.contains("urn:nephila:problem:too-many-requests"), "{problem}");
}

#[test]
fn a_link_is_made_with_and_without_a_process_and_opens_after_a_restart() {
    let (site, dir) = (Site::start(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    let host = format!("127.0.0.1:{}", site.port);
    let home = format!("http://{host}/p0");
    let crawled = run(dir, &["crawl", &home, "-o", "data", "--delay", "0s", "--limit", "1", "-q"]);
    assert_eq!(crawled.status.code(), Some(20), "{}", text(&crawled));
    let link = |args: &[&str]| {
        let made = run(dir, &[&["link"], args, &["-o", "data"]].concat());
        (made.status.code(), String::from_utf8(made.stdout).unwrap().trim().to_owned())
    };
    let path_of = |url: &str| format!("/public/v1/{}", url.split_once("/public/").expect(url).1);
    let (code, of_host) = link(&["host", &home]);
    assert_eq!(code, Some(0));
    assert!(of_host.starts_with(&format!("http://127.0.0.1:6374/public/host/{host}?until=")), "{of_host}");
    assert_eq!(link(&["job", "none"]).0, Some(2), "there is no such job");
    assert_eq!(link(&["host", &home, "--for", "91d"]).0, Some(2), "too long");

    let served = Served::start(dir);
    let (status, body) = served.ask("GET", &path_of(&of_host), "");
    let said: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, &said["host"], &said["violations"]),
        (200, &host.as_str().into(), &0.into()),
        "{body}"
    );
    let paths = said["requests"].as_array().unwrap().iter().map(|request| request["path"].as_str().unwrap());
    let paths: BTreeSet<&str> = paths.collect();
    assert!(paths.contains("/p0") && paths.contains("/robots.txt"), "{body}");
    // The running process knows its address, and a page comes with its script.
    let (code, of_job) = link(&["job", "crawl", "--for", "30d"]);
    assert_eq!(code, Some(0));
    let page = of_job.strip_prefix(&format!("http://{}", served.address())).expect(&of_job);
    let (head, page) = served.reply("GET", page, "");
    assert!(head.starts_with("HTTP/1.1 200") && page.contains("../ui/public.js"), "{head}");
    assert_eq!(served.ask("GET", "/public/ui/public.js", "").0, 200);
    let (status, body) = served.ask("GET", &path_of(&of_job), "");
    let said: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &said["job"], &said["pages"]), (200, &"crawl".into(), &1.into()), "{body}");
    drop(served);

    let again = Served::start(dir);
    assert_eq!(again.ask("GET", &path_of(&of_job), "").0, 200, "links live longer than a process");
    drop(again);
    std::fs::remove_file(dir.join("data/links.key")).unwrap();
    let anew = Served::start(dir);
    assert_eq!(anew.ask("GET", &path_of(&of_job), "").0, 404, "without their secret, all of them end");
}
