//! Single rows of the catalogue, by name. Beside them: the table of cases, the comparison with a second reader, the
//! policy in force after each answer, and the work of a verdict.

mod cases;
mod policy;
mod random;
mod second;
mod work;

use proptest::prelude::*;

use super::*;
use crate::url::CrawlUrl;

fn robots(file: &str) -> Robots {
    Robots::parse(file.as_bytes(), "nephila")
}

/// Rules in a group for us, and for each path whether it is allowed.
fn check(rules: &str, paths: &[(&str, bool)]) {
    check_file(&format!("User-agent: nephila\n{rules}"), paths);
}

fn check_file(file: &str, paths: &[(&str, bool)]) {
    let robots = robots(file);
    for (path, allowed) in paths {
        assert_eq!(robots.verdict(path).allowed, *allowed, "{path} under\n{file}");
    }
}

#[test]
fn the_rules_for_us_are_told_in_the_order_of_the_file() {
    let robots = robots(
        "User-agent: *\nDisallow: /all\n\nUser-agent: nephila\n# ours\nDisallow: /b # why\nAllow: /longer/path\nDisallow: /c\n",
    );
    let all = vec![(6, "Disallow: /b"), (7, "Allow: /longer/path"), (8, "Disallow: /c")];
    assert_eq!(robots.rules(10), all);
    assert_eq!(robots.rules(2), all[..2]);
    assert_eq!(Robots::default().rules(2), []);
}

#[test]
fn rob_12_the_longest_rule_wins_and_allow_wins_a_tie() {
    // RFC 9309, 5.2.
    check(
        "Allow: /example/page/\nDisallow: /example/page/disallowed.gif",
        &[
            ("/example/page/disallowed.gif", false),
            ("/example/page/disallowed.gi", true),
            ("/example/page/", true),
            ("/", true),
        ],
    );
    // Google's table of precedence.
    check("allow: /p\ndisallow: /", &[("/page", true), ("/q", false)]);
    check("disallow: /folder\nallow: /folder", &[("/folder/page", true)]);
    check("allow: /folder\ndisallow: /folder", &[("/folder/page", true)]);
    check("allow: /page\ndisallow: /*.htm", &[("/page.htm", false), ("/page.php5", true)]);
    check("allow: /page\ndisallow: /*.ph", &[("/page.php5", true)]);
    check("allow: /$\ndisallow: /", &[("/", true), ("/page.htm", false), ("/?", false)]);
    // Google's table of paths.
    check(
        "disallow: /fish",
        &[
            ("/fish", false),
            ("/fish.html", false),
            ("/fish/salmon.html", false),
            ("/fishheads/yummy.html", false),
            ("/fish.php?id=anything", false),
            ("/Fish.asp", true),
            ("/catfish", true),
            ("/?id=fish", true),
            ("/desert/fish", true),
        ],
    );
    check(
        "disallow: /fish*",
        &[("/fish", false), ("/fishheads/y", false), ("/Fish.asp", true), ("/desert/fish", true)],
    );
    check(
        "disallow: /fish/",
        &[("/fish/", false), ("/fish/?id=a", false), ("/fish", true), ("/fish.html", true)],
    );
    check(
        "disallow: /*.php",
        &[
            ("/index.php", false),
            ("/folder/filename.php?parameters", false),
            ("/folder/any.php.file.html", false),
            ("/filename.php/", false),
            ("/windows.PHP", true),
            ("/php", true),
        ],
    );
    check(
        "disallow: /*.php$",
        &[
            ("/filename.php", false),
            ("/folder/filename.php", false),
            ("/filename.php?p", true),
            ("/filename.php/", true),
            ("/filename.php5", true),
            ("/windows.PHP", true),
        ],
    );
    check(
        "disallow: /fish*.php",
        &[("/fish.php", false), ("/fishheads/catfish.php?p", false), ("/Fish.PHP", true)],
    );
    check("disallow: *private", &[("/a/private/b", false), ("/privat", true)]);
    check(
        "disallow: /a*b*c$",
        &[("/abc", false), ("/axbxc", false), ("/abcbc", false), ("/abcd", true), ("/acb", true)],
    );
    check("disallow: /**a", &[("/a", false), ("/xa", false), ("/b", true)]);
    check("disallow: /a$b", &[("/a$b", false), ("/a", true), ("/a$bc", false)]);
    check("disallow: /$", &[("/", false), ("/a", true), ("", false)]);
    check("disallow: *$", &[("/", false), ("/x", false)]);
    check("disallow: /*/x$", &[("/x", true), ("//x", false), ("/a/x", false)]);
    check("disallow: /?\nallow: /?ok", &[("/?q", false), ("/?ok=1", true), ("/", true)]);
    check("disallow: fish\ndisallow: ?q", &[("/fish", true), ("/?q", true)]);
}

#[test]
fn rob_13_spellings_are_compared_in_one_form() {
    // RFC 9309, 2.2.2, its table and its examples for `*` and `$`.
    check("disallow: /foo/bar?baz=quz", &[("/foo/bar?baz=quz", false)]);
    check("disallow: /foo/bar?baz=https://foo.bar", &[("/foo/bar?baz=https://foo.bar", false)]);
    check("disallow: /foo/bar/ツ", &[("/foo/bar/%E3%83%84", false), ("/foo/bar/%e3%83%84", false)]);
    check("disallow: /foo/bar/%E3%83%84", &[("/foo/bar/%E3%83%84", false), ("/foo/bar/ツ", false)]);
    check("disallow: /foo/bar/%62%61%7A", &[("/foo/bar/baz", false)]);
    check("disallow: /foo/bar/baz", &[("/foo/bar/%62%61%7a", false)]);
    check(
        "disallow: /path/file-with-a-%2A.html",
        &[("/path/file-with-a-*.html", false), ("/path/file-with-a-x.html", true)],
    );
    check(
        "disallow: /path/foo-%24",
        &[("/path/foo-$", false), ("/path/foo-", true), ("/path/foo-%24", false)],
    );
    check("disallow: /a%2fb", &[("/a%2Fb", false), ("/a/b", true)]);
    check("disallow: /a/b", &[("/a%2Fb", true)]);
    check("disallow: /<x>", &[("/%3Cx%3e", false)]);
    check("disallow: /%3Cx%3E", &[("/<x>", false)]);
    check("disallow: /a b", &[("/a%20b", false)]);
    check("disallow: /~u", &[("/%7Eu", false)]);
    check("disallow: /%", &[("/%25", false), ("/%", false)]);
    check("disallow: /%zz", &[("/%zz", false), ("/%25zz", false)]);
    check("disallow: /a%3Fb", &[("/a?b", true), ("/a%3fb", false)]);
}

#[test]
fn rob_14_the_product_token_is_compared_without_case_and_version() {
    for agent in ["Nephila/1.0", "nephila*", "NEPHILA", "Nephila bot", "nephila/2 (+url)", "  nephila  "] {
        check_file(&format!("User-agent: {agent}\nDisallow: /x"), &[("/x", false), ("/y", true)]);
    }
    let robots = Robots::parse(b"user-agent: nephila\ndisallow: /x", "Nephila/0.1");
    assert!(!robots.verdict("/x").allowed);
}

#[test]
fn rob_15_groups_for_us_are_merged_and_blank_lines_end_none() {
    let file = "User-agent: nephila\nDisallow: /a\n\n\nDisallow: /b\n\nUser-agent: other\nDisallow: /c\n\n\
                User-agent: x\n\nUser-agent: NEPHILA\n\nUser-agent: y\nDisallow: /d\nUser-agent: *\nDisallow: /e";
    check_file(file, &[("/a", false), ("/b", false), ("/c", true), ("/d", false), ("/e", true)]);
    // RFC 9309, 5.1.
    let file = "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n\
                User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n\
                User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\nUser-Agent: quxbot\n";
    let allowed = |agent: &str, path: &str| Robots::parse(file.as_bytes(), agent).verdict(path).allowed;
    assert!(
        !allowed("nephila", "/x.gif")
            && !allowed("nephila", "/example/")
            && allowed("nephila", "/publications/")
    );
    assert!(!allowed("foobot", "/x") && allowed("foobot", "/example/page.html"));
    assert!(!allowed("barbot", "/example/page.html") && allowed("barbot", "/x.gif"));
    assert!(!allowed("bazbot", "/example/page.html"));
    assert!(allowed("quxbot", "/x.gif"), "a group without rules allows everything");
}

#[test]
fn rob_16_other_lines_do_not_split_a_group() {
    for other in [
        "Crawl-delay: 5",
        "Sitemap: http://h/s.xml",
        "Host: h",
        "Unknown: x",
        "Request-rate: 1/5",
        "junk",
        "# c",
    ] {
        check_file(
            &format!("User-agent: nephila\n{other}\nDisallow: /x\n{other}\nDisallow: /y"),
            &[("/x", false), ("/y", false)],
        );
        check_file(&format!("User-agent: nephila\n{other}\nUser-agent: b\nDisallow: /x"), &[("/x", false)]);
    }
    // Values do not leak from the group for everybody.
    let robots = robots("User-agent: *\nCrawl-delay: 9\nDisallow: /x\n\nUser-agent: nephila\nDisallow: /y");
    assert_eq!((robots.crawl_delay(), robots.group()), (None, Group::Named));
}

#[test]
fn rob_17_a_name_that_contains_ours_is_not_ours() {
    let file = "User-agent: supernephila\nDisallow: /a\nUser-agent: nephila-news\nDisallow: /b\n\
                User-agent: neph\nDisallow: /c\nUser-agent: *\nDisallow: /d";
    check_file(file, &[("/a", true), ("/b", true), ("/c", true), ("/d", false)]);
}

#[test]
fn a_crawl_delay_slows_us_up_to_a_cap_and_never_hurries_us() {
    let ours = Duration::from_secs(1);
    for (value, want) in [
        ("0.1", Rest::Wait(ours)),
        ("2", Rest::Wait(Duration::from_secs(2))),
        ("2.5", Rest::Wait(Duration::from_millis(2_500))),
        ("300", Rest::Wait(Duration::from_secs(300))),
        ("3600", Rest::Park(Duration::from_secs(3_600))),
        ("-1", Rest::Wait(ours)),
        ("1e9", Rest::Park(Duration::from_secs(1_000_000_000))),
        ("1e400", Rest::Wait(ours)),
        ("inf", Rest::Wait(ours)),
        ("nan", Rest::Wait(ours)),
        ("ten", Rest::Wait(ours)),
        ("", Rest::Wait(ours)),
    ] {
        let robots = robots(&format!("User-agent: *\nCrawl-delay: {value}\nDisallow:"));
        assert_eq!(rest_in_force(ours, robots.crawl_delay()), want, "{value}");
    }
    assert_eq!(rest_in_force(ours, None), Rest::Wait(ours));
    // Several: the longest.
    let robots = robots("User-agent: nephila\nCrawl-delay: 7\nCrawl-delay: 3");
    assert_eq!(robots.crawl_delay(), Some(Duration::from_secs(7)));
}

#[test]
fn rob_19_marks_line_ends_and_odd_bytes_are_understood() {
    let rules = "User-agent: nephila\nDisallow: /x\nDisallow: /y";
    let utf16: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(rules.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let big: Vec<u8> =
        [0xfe, 0xff].into_iter().chain(rules.encode_utf16().flat_map(u16::to_be_bytes)).collect();
    for file in [
        format!("\u{feff}{rules}").into_bytes(),
        utf16,
        big,
        rules.replace('\n', "\r").into_bytes(),
        rules.replace('\n', "\r\n").into_bytes(),
        rules.replace('\n', "\n\r").into_bytes(),
        rules.replace('\n', "\0\n\0").into_bytes(),
        [rules.as_bytes(), b"\nDisallow: /caf\xe9\n# \xff\xfe\nDisallow: /z"].concat(),
        rules.replace(": ", "  \t:\t ").into_bytes(),
        format!("  {}", rules.replace('\n', " # c\n\t")).into_bytes(),
        rules.to_uppercase().replace("/X", "/x").replace("/Y", "/y").into_bytes(),
    ] {
        let robots = Robots::parse(&file, "nephila");
        for path in ["/x", "/y"] {
            assert!(!robots.verdict(path).allowed, "{}", file.escape_ascii());
        }
        assert!(robots.verdict("/w").allowed);
    }
    let latin = Robots::parse(b"User-agent: *\nDisallow: /caf\xe9", "nephila");
    assert!(!latin.verdict("/caf%E9").allowed && latin.verdict("/caf%C3%A9").allowed);
    // Line numbers count each kind of line end once.
    let robots = robots("User-agent: *\r\n\r\nDisallow: /x # why\rDisallow: /y");
    assert_eq!(robots.verdict("/x"), RobotsVerdict { allowed: false, rule: Some((3, "Disallow: /x")) });
    assert_eq!(robots.verdict("/y").rule, Some((4, "Disallow: /y")));
    assert_eq!(robots.verdict("/z"), RobotsVerdict { allowed: true, rule: None });
}

#[test]
fn rob_20_typing_errors_are_read_towards_more_restriction() {
    for line in
        ["Dissallow: /x", "Disalow: /x", "Dissalow:/x", "disallow /x", "DISALLOW\t/x", "dis-allow: /x"]
    {
        check(line, &[("/x", false), ("/y", true)]);
    }
    for agent in ["User agent: nephila", "Useragent: nephila", "user-agent nephila", "USER-AGENT : nephila"] {
        check_file(&format!("{agent}\nDisallow: /x"), &[("/x", false)]);
    }
    check("Disallow: /\nAlow: /x\nAllowed: /x", &[("/x", false)]);
}

#[test]
fn no_rules_allow_everything() {
    for file in [
        "",
        " ",
        "\n\n\r\n",
        "<!doctype html><html>\n<p>Disallow: /\n</html>",
        "User-agent: *",
        "Disallow: /",
        "\0\0",
    ] {
        let robots = robots(file);
        assert_eq!(robots.rule_count(), 0, "{file:?}");
        assert!(robots.verdict("/x").allowed);
    }
}

#[test]
fn rob_22_an_empty_disallow_clears_nothing() {
    check("Disallow:\nDisallow: /x", &[("/x", false), ("/y", true)]);
    check("Disallow: /x\nDisallow:", &[("/x", false), ("/y", true)]);
    check("Disallow: /\nAllow:", &[("/x", false)]);
    check("Disallow: # all\n", &[("/x", true)]);
}

#[test]
fn rob_08_the_limit_is_500_kib_and_the_line_it_cuts_is_dropped() {
    let mut file = String::from("User-agent: nephila\nDisallow: /first\n");
    while file.len() < ROBOTS_BYTES_MAX - 100 {
        file.push_str("Disallow: /filler/path/that/is/long\n");
    }
    let pad = ROBOTS_BYTES_MAX - 10 - file.len();
    file.push_str(&format!("#{}\n", "x".repeat(pad - 2)));
    assert_eq!(file.len(), ROBOTS_BYTES_MAX - 10);
    // Cut behind "Disallow: " the line would forbid nothing, behind "/a" far too much: the line is dropped.
    file.push_str("Disallow:/about\nDisallow: /late\n");
    let robots = robots(&file);
    assert!(robots.is_cut());
    assert!(!robots.verdict("/first").allowed);
    assert!(
        robots.verdict("/about").allowed && robots.verdict("/a").allowed && robots.verdict("/late").allowed
    );
    // Ten megabytes without a line end are no rule.
    let endless = format!("User-agent: *\nDisallow: /x\nDisallow: /{}", "y".repeat(10 << 20));
    let robots = Robots::parse(endless.as_bytes(), "nephila");
    assert_eq!(robots.rule_count(), 1);
}

#[test]
fn robots_txt_itself_is_always_allowed() {
    check(
        "Disallow: /",
        &[
            ("/robots.txt", true),
            ("/robots.txt?x", true),
            ("/robots.txt.bak", false),
            ("/a/robots.txt", false),
        ],
    );
}

#[test]
fn the_path_that_is_sent_is_the_path_that_is_checked() {
    let robots = robots("User-agent: *\nDisallow: /secret");
    for text in [
        "http://h/x/../secret",
        "http://h/%2e/secret",
        "http://h/x/%2E%2e/secret?q",
        "http://h\\secret",
        "http://h/./%73ecret",
    ] {
        let url = CrawlUrl::parse(text).unwrap();
        assert!(!robots.verdict(url.path_and_query()).allowed, "{text}");
    }
    assert!(!robots.verdict("/secret#frag").allowed);
    assert!(robots.verdict("/#/secret").allowed);
}

#[test]
fn rob_27_the_group_for_everybody_is_silent_when_there_is_one_for_us() {
    let file = b"User-agent: *\nDisallow: /\n\nUser-agent: nephila\nDisallow: /x";
    let robots = Robots::parse(file, "nephila");
    assert_eq!(robots.group(), Group::Named);
    assert!(robots.verdict("/y").allowed && !robots.verdict("/x").allowed);
    // An empty group for us is a group for us.
    let robots = Robots::parse(
        b"User-agent: nephila\n\nUser-agent: x\nDisallow:\n\nUser-agent: *\nDisallow: /",
        "nephila",
    );
    assert!(robots.verdict("/y").allowed);
    // The token comes from the settings, never from the header field.
    assert_eq!(Robots::parse(b"User-agent: mozilla\nDisallow: /", "nephila").group(), Group::None);
    assert_eq!(Robots::parse(b"User-agent: \nDisallow: /", "").group(), Group::None);
}

#[test]
fn words_about_use_are_kept_and_change_nothing() {
    let file = "License: https://h/l.xml\nUser-agent: *\nContent-Signal: search=yes, ai-train=no\nAllow: /\n\
                Content-Usage: train-ai=n\nContent-Usage: /p train-ai=y\nLLM-Policy: x\ntdm-reservation: 1\nNew-Thing: y\n\
                Sitemap: https://h/s.xml\nUser-agent: other\nContent-Usage: train-ai=y\nDisallow: /\nSitemap: https://h/t.xml";
    let robots = robots(file);
    let notes: Vec<_> = robots.notes().iter().map(|n| (n.line, n.name.as_str(), n.value.as_str())).collect();
    let want = [
        (1, "license", "https://h/l.xml"),
        (3, "content-signal", "search=yes, ai-train=no"),
        (5, "content-usage", "train-ai=n"),
        (6, "content-usage", "/p train-ai=y"),
        (7, "llm-policy", "x"),
        (8, "tdm-reservation", "1"),
    ];
    assert_eq!(notes, want);
    assert_eq!(robots.sitemaps(), ["https://h/s.xml", "https://h/t.xml"]);
    assert!(robots.verdict("/p").allowed);
    let many = "Sitemap: http://h/\n".repeat(5_000) + &"License: x\n".repeat(5_000);
    let robots = Robots::parse(many.as_bytes(), "nephila");
    assert_eq!((robots.sitemaps().len(), robots.notes().len()), (SITEMAPS_MAX, NOTES_MAX));
}

proptest! {
    #[test]
    fn any_file_is_read_and_any_path_judged(
        pieces in prop::collection::vec(prop_oneof![
            Just(b"User-agent: ".to_vec()), Just(b"*".to_vec()), Just(b"nephila".to_vec()), Just(b"\n".to_vec()),
            Just(b"\r".to_vec()), Just(b"Disallow: /".to_vec()), Just(b"Allow: ".to_vec()), Just(b"%".to_vec()),
            Just(b"Crawl-delay: 1e".to_vec()), Just(b"$".to_vec()), prop::collection::vec(any::<u8>(), 0..20),
        ], 0..30),
        agent in any::<String>(),
        path in any::<String>(),
    ) {
        let robots = Robots::parse(&pieces.concat(), &agent);
        let _ = robots.verdict(&path);
        prop_assert!(robots.verdict("/robots.txt").allowed);
    }

    #[test]
    fn escaping_a_path_changes_no_verdict(path in "/[a-z~._-]{0,8}", rule in "/[a-z~._-]{0,4}") {
        let robots = Robots::parse(format!("User-agent: *\nDisallow: {rule}").as_bytes(), "nephila");
        let escaped: String = path.bytes().enumerate().map(|(n, b)| {
            if b != b'/' && n % 2 == 1 { format!("%{b:02x}") } else { char::from(b).to_string() }
        }).collect();
        prop_assert_eq!(robots.verdict(&path).allowed, robots.verdict(&escaped).allowed);
    }
}

#[test]
fn a_file_that_forbids_everything_is_known_by_its_rules() {
    let forbids_all = |text: &str| Robots::parse(text.as_bytes(), "nephila").forbids_all();
    for text in [
        "User-agent: *\nDisallow: /\n",
        "User-agent: *\nDisallow: /*\nDisallow: /x\n",
        "User-agent: nephila\nDisallow: *\nUser-agent: *\nAllow: /\n",
    ] {
        assert!(forbids_all(text), "{text}");
    }
    for text in [
        "",
        "User-agent: *\nDisallow: /a\n",
        "User-agent: *\nDisallow: /$\n",
        "User-agent: *\nDisallow: /\nAllow: /open\n",
        "User-agent: nephila\nDisallow:\nUser-agent: *\nDisallow: /\n",
    ] {
        assert!(!forbids_all(text), "{text}");
    }
}
