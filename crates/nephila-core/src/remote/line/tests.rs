//! Lines: the seeds' examples byte for byte, every named error, and any split into chunks.

use proptest::prelude::*;

use super::*;

#[test]
fn the_lines_of_the_seeds_are_written_byte_for_byte() {
    let ip = "192.0.2.7".parse().unwrap();
    let mut line = UrlLine { trans: 65_536, doc: 7, ip, hostname: None, url: "http://a.test/x?y=1" };
    assert_eq!(line.to_line().unwrap(), "65536 7 192.0.2.7 http://a.test/x?y=1\n");
    assert_eq!(line.dialect(), Dialect::Push);
    line.hostname = Some("a.test");
    assert_eq!(line.to_line().unwrap(), "65536 7 192.0.2.7 a.test http://a.test/x?y=1\n");
    assert_eq!(line.dialect(), Dialect::Pull);
    assert_eq!(Reply::Done(9).to_line(Dialect::Push), "9 DONE\n");
    assert_eq!(Reply::Working(9).to_line(Dialect::Push), "9 WORKING\n");
    assert_eq!(Reply::Done(9).to_line(Dialect::Pull), "DONE 9\n");
    assert_eq!(Reply::Working(9).to_line(Dialect::Pull), "WORKING 9\n");
    assert_eq!(Reply::Get(20).to_line(Dialect::Pull), "GET 20\n");
}

#[test]
fn both_orders_of_a_reply_are_taken() {
    for line in ["18446744073709551615 DONE", "DONE 18446744073709551615"] {
        assert_eq!(Reply::read(line.as_bytes()), Ok(Reply::Done(u64::MAX)));
    }
    for line in ["0 WORKING", "WORKING 0"] {
        assert_eq!(Reply::read(line.as_bytes()), Ok(Reply::Working(0)));
    }
    assert_eq!(Reply::read(b"GET 1"), Ok(Reply::Get(1)));
    assert_eq!(Reply::read(b"GET 10000"), Ok(Reply::Get(10_000)));
}

#[test]
fn an_unreadable_reply_has_a_named_error() {
    let cases: &[(&str, LineError)] = &[
        ("", LineError::Empty),
        ("DONE", LineError::Fields),
        ("DONE  7", LineError::Fields),
        (" DONE 7", LineError::Fields),
        ("DONE 7 ", LineError::Fields),
        ("7 DONE 8", LineError::Fields),
        ("done 7", LineError::Word),
        ("7 8", LineError::Word),
        ("7x DONE", LineError::Trans),
        ("07 DONE", LineError::Trans),
        ("DONE -7", LineError::Trans),
        ("DONE +7", LineError::Trans),
        ("DONE 18446744073709551616", LineError::Trans),
        ("GET 0", LineError::Count),
        ("GET 10001", LineError::Count),
        ("GET x", LineError::Count),
        ("GET 4294967297", LineError::Count),
    ];
    for (line, error) in cases {
        assert_eq!(Reply::read(line.as_bytes()), Err(*error), "{line:?}");
    }
}

#[test]
fn an_unreadable_line_of_a_node_has_a_named_error() {
    let cases: &[(&str, LineError)] = &[
        ("", LineError::Empty),
        ("1 2 192.0.2.7", LineError::Fields),
        ("1 2 192.0.2.7 a http://a/ x", LineError::Fields),
        ("x 2 192.0.2.7 http://a/", LineError::Trans),
        ("1 4294967296 192.0.2.7 http://a/", LineError::Doc),
        ("1 2 192.0.2 http://a/", LineError::Ip),
        ("1 2 0::1 http://a/", LineError::Ip),
        ("1 2 192.0.2.7 \u{e4} http://a/", LineError::Host),
        ("1 2 192.0.2.7 http://a/\u{e4}", LineError::Url),
        ("1 2 192.0.2.7 http://a/\t", LineError::Url),
    ];
    for (line, error) in cases {
        assert_eq!(UrlLine::read(line.as_bytes()), Err(*error), "{line:?}");
    }
}

#[test]
fn a_url_that_cannot_stand_in_a_line_is_not_written() {
    let ip = "::1".parse().unwrap();
    let line = |url| UrlLine { trans: 1, doc: 1, ip, hostname: None, url }.to_line();
    let long = format!("http://a/{}", "x".repeat(URL_BYTES_MAX));
    for url in ["", "http://a/ b", "http://a/\n2 DONE", long.as_str()] {
        assert_eq!(line(url), Err(LineError::Url));
    }
    assert_eq!(line("http://a/").unwrap(), "1 1 ::1 http://a/\n");
    let hostname = Some("a b");
    assert_eq!(UrlLine { trans: 1, doc: 1, ip, hostname, url: "http://a/" }.to_line(), Err(LineError::Host));
}

#[test]
fn the_name_of_the_host_is_found_in_a_url() {
    for (url, host) in [
        ("http://a.test/", "a.test"),
        ("https://a.test:8443?x=http://b/", "a.test"),
        ("http://user:pass@a.test:80/@c", "a.test"),
        ("http://[2001:db8::1]:80/", "[2001:db8::1]"),
        ("http://[2001:db8::1]#x", "[2001:db8::1]"),
    ] {
        assert_eq!(hostname(url), host, "{url}");
    }
}

fn cut(chunks: &[&[u8]]) -> (Vec<Result<Vec<u8>, LineError>>, usize) {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    for chunk in chunks {
        lines.push(chunk, |line| found.push(line.map(<[u8]>::to_vec)));
        assert!(lines.unfinished() <= LINE_BYTES_MAX);
    }
    (found, lines.unfinished())
}

#[test]
fn lf_and_cr_lf_end_a_line() {
    let (lines, unfinished) = cut(&[b"1 DONE\r", b"\n\nGET 3\nDO", b"NE"]);
    assert_eq!(lines, [Ok(b"1 DONE".to_vec()), Ok(Vec::new()), Ok(b"GET 3".to_vec())]);
    assert_eq!(unfinished, 4);
}

#[test]
fn a_line_of_the_limit_is_taken_and_one_byte_more_is_an_error_once() {
    let fits = vec![b'x'; LINE_BYTES_MAX];
    assert_eq!(cut(&[&fits, b"\n"]).0, [Ok(fits.clone())]);
    let (lines, unfinished) = cut(&[&fits, b"x", &fits, b"\n1 DONE\n"]);
    assert_eq!(lines, [Err(LineError::TooLong), Ok(b"1 DONE".to_vec())]);
    assert_eq!(unfinished, 0);
}

proptest! {
    #[test]
    fn any_split_gives_the_same_lines(
        bytes in prop::collection::vec(prop::sample::select(b"1 DONEGT\r\n\n".to_vec()), 0..200),
        sizes in prop::collection::vec(1usize..20, 1..20),
    ) {
        let (mut rest, mut chunks) = (bytes.as_slice(), Vec::new());
        for size in sizes.iter().cycle() {
            if rest.is_empty() { break }
            let (chunk, after) = rest.split_at(rest.len().min(*size));
            chunks.push(chunk);
            rest = after;
        }
        prop_assert_eq!(cut(&chunks), cut(&[&bytes]));
    }

    #[test]
    fn what_is_read_is_what_was_written(trans: u64, doc: u32, ip: std::net::IpAddr, path in "[!-~]{0,40}", pull: bool) {
        let url = format!("http://a.test/{path}");
        let line = UrlLine { trans, doc, ip, hostname: pull.then_some("a.test"), url: &url };
        let written = line.to_line().unwrap();
        prop_assert_eq!(UrlLine::read(written.trim_end().as_bytes()), Ok(line));
    }

    #[test]
    fn a_reply_that_is_read_can_be_written_again(line in "(DONE|WORKING|GET|[0-9]{1,5}|x| ){1,4}") {
        if let Ok(reply) = Reply::read(line.as_bytes()) {
            let orders = [Dialect::Push, Dialect::Pull].map(|dialect| reply.to_line(dialect));
            let whole = line + "\n";
            prop_assert!(orders.contains(&whole));
        }
    }
}
