//! What the main text of a page is used for, and the text of PDF files.

use super::*;

/// A calendar that links to the next day; only the number of the day differs.
fn calendar(days: usize) -> Site {
    let words: Vec<String> =
        (0..120).map(|n| format!("The garden number {n} opens its gate at noon.")).collect();
    let pages: Vec<(&'static str, String)> = (0..days)
        .map(|day| {
            let next = day + 1;
            let text = format!(
                "<title>Events</title><article><h1>Events</h1><p>{}</p><p>This is day {day} of the calendar.</p></article>\
                 <a href=/day/{next}>next</a>",
                words.join(" ")
            );
            (&*format!("/day/{day}").leak(), text)
        })
        .collect();
    let files: Vec<_> = pages.iter().map(|(path, text)| (*path, "text/html", text.as_str())).collect();
    Site::start("127.0.0.1", &files)
}

#[test]
fn trp_01_near_duplicates_close_their_shape_where_the_text_is_extracted() {
    const DAYS: usize = 80;
    for (sets, closes) in [
        (&["--set", "handler.text=all"][..], true),
        (&["--set", "handler.text=all", "--set", "trap.near_duplicates=false"], false),
        (&[], false),
    ] {
        let (site, dir) = (calendar(DAYS), tempfile::tempdir().unwrap());
        let mut args = vec![site.url("/day/0"), "--depth".into(), "200".into()];
        args.extend(sets.iter().map(|set| (*set).to_owned()));
        crawl(dir.path(), &[&site], &args.iter().map(String::as_str).collect::<Vec<_>>());
        let asked = site.asked().iter().filter(|path| path.starts_with("/day/")).count();
        if closes {
            // One new page, 20 like it, and the links that were admitted before these were committed: on a busy machine a
            // few more, and never all.
            assert!((21..=DAYS / 2).contains(&asked), "{asked}");
            let next = site.url(&format!("/day/{asked}"));
            let said = run(dir.path(), &["explain", "-o", "crawl", &next]);
            assert!(String::from_utf8_lossy(&said.stdout).contains("trap-alike"), "{said:?}");
        } else {
            assert_eq!(asked, DAYS + 1, "{sets:?}");
        }
    }
}

/// A PDF of one page with this content stream.
fn pdf(content: &str) -> String {
    let objects = [
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>"
            .to_owned(),
        format!("<</Length {}>>stream\n{content}\nendstream", content.len()),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned(),
    ];
    let (mut file, mut offsets) = (String::from("%PDF-1.4\n"), String::new());
    for (number, object) in (1..).zip(objects) {
        offsets.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.push_str(&format!("{number} 0 obj{object}endobj\n"));
    }
    let at = file.len();
    let trailer = format!("trailer<</Size 6/Root 1 0 R>>\nstartxref\n{at}\n%%EOF\n");
    format!("{file}xref\n0 6\n0000000000 65535 f \n{offsets}{trailer}")
}

#[test]
fn the_text_of_a_pdf_is_read_while_crawling_and_later() {
    let lines: Vec<String> =
        (1..9).map(|n| format!("(The bridge was closed for {n} months in all.) Tj 0 -20 Td")).collect();
    let paper = pdf(&format!("BT /F 12 Tf 50 700 Td {} ET", lines.join(" ")));
    let scan = pdf("0 0 600 800 re f");
    let files = [
        ("/", "text/html", "<a href=/paper.pdf>paper</a><a href=/scan.pdf>scan</a>"),
        ("/paper.pdf", "application/pdf", &paper),
        ("/scan.pdf", "application/pdf", &scan),
    ];
    for sets in [&["--set", "handler.text=all"][..], &[]] {
        let (site, dir) = (Site::start("127.0.0.1", &files), tempfile::tempdir().unwrap());
        crawl(dir.path(), &[&site], &[&[&*site.url("/")], sets].concat());
        let text = |path: &str| run(dir.path(), &["read", "--text", "-o", "crawl", &site.url(path)]);
        let paper = text("/paper.pdf");
        let said = String::from_utf8_lossy(&paper.stdout);
        assert!(said.contains("The bridge was closed for 8 months in all."), "{paper:?}");
        let kept = Captures::new(&dir.path().join("crawl"));
        let line = kept.nearest(&site.url("/paper.pdf"), None).unwrap().unwrap();
        assert_eq!(kept.beside(&line, "conversion").unwrap().is_some(), !sets.is_empty());
        let scan = text("/scan.pdf");
        assert!(String::from_utf8_lossy(&scan.stderr).contains("perhaps since it is a scan"), "{scan:?}");
        // Later, over the stored bytes.
        let extracted = run(dir.path(), &["extract", "-o", "crawl", "--text"]);
        assert!(extracted.status.success(), "{extracted:?}");
        let text = kept.beside(&line, "conversion").unwrap().expect("extracted now");
        assert!(String::from_utf8_lossy(&text).contains("for 1 months"), "{text:?}");
    }
}
