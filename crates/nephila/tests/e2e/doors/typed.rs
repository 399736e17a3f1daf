//! Only a typed URL opens a private address, and only at its port.

use std::io::Write;
use std::process::Stdio;

use super::{Site, command, complaints, crawl, page, run, status};

#[test]
fn sec_03_a_list_opens_no_private_address() {
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::plain("private"));
    let list = format!(
        "{}\nhttp://169.254.169.254/latest/meta-data/\nhttp://localhost:{}/\n",
        site.url("/"),
        site.port
    );
    std::fs::write(dir.path().join("list"), &list).unwrap();
    let ran = crawl(dir.path(), &["-i", "list", "-o", "listed", "--time-limit", "20s"]);
    let said = complaints(&ran);
    assert!(said.contains("3 of the listed URLs") && said.contains("spider.allow_addresses"), "{said}");
    // Standard input is a list as well.
    let mut child = command(dir.path(), &["crawl", "-q", "-", "-o", "piped", "--time-limit", "20s"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
    let said = complaints(&child.wait_with_output().unwrap());
    assert!(said.contains("3 of the listed URLs"), "{said}");
    assert!(site.asked().is_empty(), "{:?}", site.asked());
    // A typed URL is the user's intention; also for a list that names the same server afterwards.
    crawl(dir.path(), &[&site.url("/"), "-o", "typed"]);
    assert_eq!(site.count("/"), 1);
    let before = std::fs::read_to_string(dir.path().join("typed/settings.toml")).unwrap();
    assert!(before.contains("allow_addresses = []"), "{before}");
    // The same command without a URL goes on, and the door is still open.
    std::fs::write(dir.path().join("more"), site.url("/more")).unwrap();
    let ran = crawl(dir.path(), &["-i", "more", "-o", "typed"]);
    assert_eq!(site.count("/more"), 1, "{}", complaints(&ran));
}

#[test]
fn sec_03_fin_10_lists_open_nothing_and_typed_urls_are_all_urls() {
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::plain("private"));
    let opml = format!(
        "<opml><body><outline xmlUrl='{}'/><outline xmlUrl='http://100.100.100.200/feed'/></body></opml>",
        site.url("/feed")
    );
    std::fs::write(dir.path().join("list.opml"), opml).unwrap();
    let ran = run(dir.path(), &["feed", "import", "list.opml", "-o", "news"]);
    let said = complaints(&ran);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("127.0.0.1 is in") && said.contains("spider.allow_addresses"), "{said}");
    assert!(!dir.path().join("news/feeds.opml").exists());
    // A feed at a cloud's metadata address is not opened by typing the URL either.
    let ran = run(dir.path(), &["feed", "add", "http://169.254.169.254/feed", "-o", "news"]);
    assert_eq!(ran.status.code(), Some(1), "{}", complaints(&ran));
    assert!(complaints(&ran).contains("spider.allow_addresses"), "{}", complaints(&ran));

    let public = Site::plain("open");
    crawl(dir.path(), &[&public.url("/"), "-o", "crawl", "--scope", "any", "--depth", "0"]);
    std::fs::write(dir.path().join("list"), site.url("/listed")).unwrap();
    let ran = run(dir.path(), &["add", "crawl", "-i", "list", "-o", "crawl"]);
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), complaints(&ran));
    assert!(said.contains("0 taken, 1 refused") && said.contains("spider.allow_addresses"), "{said}");
    let ran = run(dir.path(), &["add", &site.url("/typed"), &site.url("/second"), "-o", "crawl"]);
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(said.contains("2 taken, 0 refused"), "{said}{}", complaints(&ran));
    crawl(dir.path(), &["-o", "crawl"]);
    assert_eq!((site.count("/listed"), site.count("/typed"), site.count("/second")), (0, 1, 1));
}

#[test]
fn sec_03_a_typed_url_opens_its_own_port_alone() {
    let dir = tempfile::tempdir().unwrap();
    let other = Site::plain("another service of this machine");
    let links = format!("<a href='{}'>x</a> <a href='/in'>y</a>", other.url("/secret"));
    let site = Site::start(move |asked| match asked.path.as_str() {
        "/robots.txt" => status("404 Not Found"),
        _ => page(&links),
    });
    let ran = crawl(dir.path(), &[&site.url("/"), "-o", "crawl", "--scope", "any", "--time-limit", "20s"]);
    assert_eq!(site.count("/in"), 1, "{}", complaints(&ran));
    assert!(other.asked().is_empty(), "{:?}", other.asked());
    // Metadata of a cloud is not typed by accident.
    let ran = crawl(dir.path(), &["http://169.254.169.254/latest/", "-o", "cloud"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(complaints(&ran).contains("spider.allow_addresses"), "{}", complaints(&ran));
}
