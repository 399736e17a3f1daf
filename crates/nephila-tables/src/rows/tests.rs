//! Rows of captures as a crawl stores them, and as other programs do.

use nephila_store::warc::Header;

use super::*;

const HTML: &str = "<html lang=de><title>A &amp; B</title><meta name=description content=d>\
                    <link rel=canonical href=/c><a href=/x rel=nofollow>to x</a><img src=i.png>";

fn plain(_: &[u8], body: &[u8], _: u64) -> Option<Vec<u8>> {
    Some(body.to_vec())
}

fn header(kind: &str, url: &str, more: &[(&str, &str)]) -> Header {
    let fields = [
        ("WARC-Type", kind),
        ("WARC-Target-URI", url),
        ("WARC-Date", "2026-11-14T22:58:09.12Z"),
        ("WARC-Record-ID", "<r>"),
        ("WARC-IP-Address", "127.0.0.1"),
        ("WARC-Protocol", "h2"),
        ("WARC-Protocol", "tls/1.3"),
        ("WARC-Payload-Digest", "sha1:ABC"),
        ("Content-Type", "application/http;msgtype=response"),
    ];
    let fields = fields.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Header { fields: fields.collect(), ..Header::default() }
}

fn response(url: &str, head: &str, body: &str, metadata: Option<&str>) -> Gathered {
    Gathered {
        header: header("response", url, &[]),
        offset: 7,
        length: 9,
        http: head.as_bytes().to_vec(),
        body: body.as_bytes().to_vec(),
        lacks_body: false,
        metadata: metadata.map(|lines| lines.as_bytes().to_vec()),
        text: None,
    }
}

fn of(gathered: &Gathered) -> Rows {
    let file = FileInfo { name: "f.warc.gz".into(), crawl: "c".into(), segment: "20261114000000".into() };
    rows(gathered, &file, &plain).unwrap()
}

fn targets(rows: &Rows) -> Vec<String> {
    let line = |link: &LinkRow| {
        let text = |value: &Option<String>| value.clone().unwrap_or("-".into());
        format!("{} {} {} {}", link.target, link.kind, text(&link.anchor), text(&link.rel))
    };
    rows.links.iter().map(line).collect()
}

#[test]
fn a_page_fills_its_row() {
    let metadata = "fetchTimeMs: 12\r\ndepth: 2\r\nvia: http://a.test/\r\noutcome: ok\r\njob: main\r\n\
                    usage: page content-usage: train-ai=n\r\noutlink: http://a.test:81/x L a/@href\r\n\
                    outlink: http://a.test:81/i.png E img/@src\r\n";
    let mut gathered = response(
        "http://a.test:81/p?q=1",
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n",
        HTML,
        Some(metadata),
    );
    gathered.text = Some("Größe".into());
    let rows = of(&gathered);
    let row = &rows.capture;
    assert_eq!(rows.subset, Subset::Warc);
    assert_eq!(
        (row.url_port, row.url_path.as_str(), row.url_query.as_deref()),
        (Some(81), "/p", Some("q=1"))
    );
    assert_eq!((row.fetch_time, row.fetch_status), (Millis(1_794_697_089_120), 200));
    assert_eq!(
        (row.content_digest.as_deref(), row.content_mime_type.as_deref()),
        (Some("ABC"), Some("text/html"))
    );
    assert_eq!(
        (row.content_mime_detected.as_deref(), row.content_charset.as_deref()),
        (Some("text/html"), Some("UTF-8"))
    );
    assert_eq!((row.title.as_deref(), row.description.as_deref()), (Some("A & B"), Some("d")));
    assert_eq!((row.canonical.as_deref(), row.language.as_deref()), (Some("http://a.test:81/c"), Some("de")));
    assert_eq!((row.text_length, row.simhash.is_some()), (Some(5), true));
    assert_eq!(
        (row.via.as_deref(), row.depth, row.job.as_deref()),
        (Some("http://a.test/"), Some(2), Some("main"))
    );
    assert_eq!((row.ip.as_deref(), row.protocol.as_deref()), (Some("127.0.0.1"), Some("h2 tls/1.3")));
    assert_eq!((row.fetch_duration_ms, row.usage_train_ai, row.usage_search), (Some(12), Some(false), None));
    assert_eq!(
        targets(&rows),
        ["http://a.test:81/x link to x nofollow", "http://a.test:81/i.png requisite - -"],
        "the lines of the crawler, without the canonical URL that it did not list"
    );
}

#[test]
fn a_redirect_has_a_target_and_a_link() {
    let head = "HTTP/1.1 301 Moved\r\nLocation: ../y\r\n\r\n";
    let rows = of(&response("http://a.test/d/x", head, "", None));
    assert_eq!(rows.subset, Subset::CrawlDiagnostics);
    assert_eq!(rows.capture.fetch_redirect.as_deref(), Some("http://a.test/y"));
    assert_eq!(targets(&rows), ["http://a.test/y redirect - -"]);
}

#[test]
fn a_file_of_another_program_has_the_links_of_the_reader() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Language: fr\r\n\r\n";
    let rows = of(&response("http://a.test/", head, "<a href=/x>x</a>", Some("ip: 1.2.3.4\r\n")));
    assert_eq!(targets(&rows), ["http://a.test/x link x -"]);
    assert_eq!(rows.capture.language.as_deref(), Some("fr"));
}

#[test]
fn links_for_which_the_metadata_had_no_room_are_read_from_the_page() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
    let lines = "fetchTimeMs: 1\r\noutlink: http://a.test/1 L a/@href\r\noutlinksOmitted: 1\r\n";
    let rows = of(&response("http://a.test/", head, "<a href=/1>one</a><a href=/2>two</a>", Some(lines)));
    assert_eq!(targets(&rows), ["http://a.test/1 link one -", "http://a.test/2 link two -"]);
}

#[test]
fn a_revisit_of_the_same_url_repeats_no_links() {
    let lines = "fetchTimeMs: 1\r\noutlink: http://a.test/x L a/@href\r\n";
    let revisit = |of: &str| Gathered {
        header: header("revisit", "http://a.test/", &[("WARC-Refers-To-Target-URI", of)]),
        http: b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n".to_vec(),
        metadata: Some(lines.as_bytes().to_vec()),
        ..Gathered::default()
    };
    let same = of(&revisit("http://a.test/"));
    assert_eq!(
        (same.subset, same.links.len(), same.capture.warc_type.as_str()),
        (Subset::Warc, 0, "revisit")
    );
    assert_eq!(targets(&of(&revisit("http://b.test/"))), ["http://a.test/x link - -"]);
    let not_modified = Gathered { http: Vec::new(), ..revisit("http://a.test/") };
    assert_eq!(
        (of(&not_modified).capture.fetch_status, of(&not_modified).subset),
        (304, Subset::CrawlDiagnostics)
    );
}

#[test]
fn records_that_are_no_answers_of_the_web_have_no_row() {
    let file = FileInfo::default();
    let dns = Gathered { header: header("response", "dns:a.test", &[]), ..Gathered::default() };
    assert!(rows(&dns, &file, &plain).is_none());
    assert!(rows(&Gathered::default(), &file, &plain).is_none());
}

#[test]
fn broken_heads_and_strange_urls_still_have_a_row() {
    let rows = of(&response("http://a b/%%?x", "nonsense", "", None));
    assert_eq!((rows.capture.fetch_status, rows.subset), (0, Subset::CrawlDiagnostics));
    assert_eq!(rows.capture.url_host_name, "a b");
}

#[test]
fn dates_become_milliseconds() {
    assert_eq!(time("1970-01-01T00:00:00Z"), Millis(0));
    assert_eq!(time("2024-02-29T23:59:59.9999999Z"), Millis(1_709_251_199_999));
    assert_eq!(time("2000-03-01T00:00:00Z"), Millis(951_868_800_000));
    assert_eq!((time(""), time("2026")), (Millis(0), Millis(0)));
}

#[test]
fn the_type_of_a_body_is_named() {
    let check = |label: &str, body: &str, wanted: &str| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {label}\r\n\r\n");
        let rows = of(&response("http://a.test/", &head, body, None));
        assert_eq!(rows.capture.content_mime_detected.as_deref(), Some(wanted), "{label}");
    };
    check("text/html", "<!doctype html><p>x", "text/html");
    check("text/xml", "<?xml version='1.0'?><rss version='2.0'><channel/></rss>", "application/rss+xml");
    check("application/json", "{\"a\":1}", "application/json");
    check("image/png", "%PDF-1.7", "application/pdf");
    check("text/csv", "a,b", "text/csv");
}

#[test]
fn rows_are_the_same_whether_the_crawl_left_notes_or_not() {
    let pages = [
        HTML,
        "",
        "no markup",
        "<title> a \n b </title><link rel=alternate hreflang=de href=/de><a href=//b.test/>\t ä &lt; b</a>\
         <area href=/area><iframe src=/frame></iframe><link rel=stylesheet href=s.css><a href=/1></a>\
         <meta http-equiv=refresh content='9; url=/later'><link rel='next me' href=/next><a href=/de>again</a>",
        "<rss><channel><item><link>http://a.test/story</link></item></channel></rss>",
        "<urlset><url><loc>http://a.test/one</loc></url></urlset>",
    ];
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nLink: </l>; rel=next\r\n\r\n";
    let url = CrawlUrl::parse("http://a.test/d/").unwrap();
    let mut noted = 0;
    for page in pages {
        let findings = read(&url, &fields(head.as_bytes()), page.as_bytes());
        let outlinks = outlinks::Outlinks::of(Some(&findings), None);
        let line = |(name, value): &(&str, String)| format!("{name}: {value}\r\n");
        let notes: String = table_notes::of(Some(&findings), None, &outlinks).iter().map(line).collect();
        let lines: String = outlinks.lines.iter().map(|(name, line)| format!("{name}: {line}\r\n")).collect();
        let by_reading = response(url.as_str(), head, page, Some(&format!("fetchTimeMs: 1\r\n{lines}")));
        let mut by_notes =
            response(url.as_str(), head, "", Some(&format!("fetchTimeMs: 1\r\n{notes}{lines}")));
        assert_eq!(of(&by_notes), of(&by_reading), "{page}");
        noted += of(&by_notes).links.len();
        // The notes are not of a page that answered otherwise.
        by_notes.http = b"HTTP/1.1 404 Not Found\r\n\r\n".to_vec();
        assert_eq!(of(&by_notes).capture.title, None);
    }
    assert!(noted > 12, "{noted}");
}
