//! URLs that are traps, and URLs that are not.

use proptest::prelude::*;

use super::*;

fn url(text: &str) -> CrawlUrl {
    let text = if text.starts_with('/') { format!("http://a.test{text}") } else { text.to_owned() };
    CrawlUrl::parse(&text).unwrap()
}

fn check(text: &str, want: Option<Trap>) {
    assert_eq!(judge(&url(text), &Settings::default()), want, "{text:.100}");
}

#[test]
fn trp_04_segments_that_repeat_are_a_trap() {
    for path in [
        "/a/a/a/a",
        "/x/a/a/a/a/y",
        "/a/b/a/b/a/b/a/b",
        "/x/a/b/a/b/a/b/a/b/",
        "/a/b/c/a/b/c/a/b/c/a/b/c",
        "/1/1/1/1",
        "/a//////b",
        "/css/x/css/y/css/z/css/u/css/v/css/w",
    ] {
        check(path, Some(Trap::Repeat));
    }
}

#[test]
fn trp_04_paths_of_good_sites_are_no_trap() {
    for path in [
        "/",
        "/a/a/a",
        "/a/a/a/",
        "/a/b/a/b/a/b",
        "/tiles/0/1/0/2/0/3/0/4/0/5/0/6/0",
        "/en/docs/en/guide/en/",
        "/blog/2026/11/15/on-traps",
        "//a//b",
        "/?a=1&a=2&a=3",
    ] {
        check(path, None);
    }
}

#[test]
fn trp_05_a_path_that_grows_is_stopped_by_its_depth() {
    let path = |n: usize| (0..n).map(|i| format!("/s{i}x")).collect::<String>();
    check(&path(24), None);
    check(&(path(24) + "/"), None);
    check(&path(25), Some(Trap::Deep));
}

#[test]
fn trp_07_a_query_of_all_facets_is_a_trap() {
    let query = |n: usize| format!("/s?{}", (0..n).map(|i| format!("&f{i}=1")).collect::<String>());
    check(&query(32), None);
    check(&query(33), Some(Trap::Params));
    check(&format!("/s?{}", "tag=1&".repeat(16)), None);
    check(&format!("/s?{}", "tag=1&".repeat(17)), Some(Trap::Params));
    check(&format!("/s?{}", "tag[]=1;".repeat(17)), Some(Trap::Params));
}

#[test]
fn trp_06_a_session_id_alone_is_no_trap() {
    check("/shop;jsessionid=0123456789ABCDEF0123456789ABCDEF", None);
    check("/shop?PHPSESSID=0123456789abcdef0123456789abcdef", None);
}

#[test]
fn a_long_url_is_a_trap() {
    check(&format!("/{}", "a".repeat(4096 - 14)), None);
    check(&format!("/{}", "a".repeat(4096 - 13)), Some(Trap::Long));
}

#[test]
fn trp_01_a_calendar_ends_a_few_years_ahead() {
    let now = Timestamp::from_secs(1_794_700_000);
    let far = |text| judge_at(&url(text), &Settings::default(), now);
    for text in [
        "/calendar/2037/01/",
        "/calendar/2037/1",
        "/events/2037-01",
        "/events/2037-01-31-party",
        "/cal?year=2037&month=1",
        "/cal?Date=2037-01-31",
        "/cal/1775-01-01",
        "/cal/0001/12",
    ] {
        assert_eq!(far(text), Some(Trap::Dates), "{text}");
    }
    for text in [
        "/calendar/2036/12/",
        "/archive/1890/05/01",
        "/plan/2050",
        "/item/9999/77",
        "/item/9999/0",
        "/part/9999-13",
        "/part/99999-01",
        "/cal?id=2099",
        "/cal?year",
        "/cal?year=",
        "/20\u{e4}1-01",
    ] {
        assert_eq!(far(text), None, "{text}");
    }
    assert_eq!(
        judge(&url("/calendar/2037/01/"), &Settings::default()),
        None,
        "without a day there is no far"
    );
}

#[test]
fn dns_15_trp_09_a_domain_takes_only_so_many_hosts() {
    let settings = Settings::default();
    assert_eq!(host_verdict(9_999, &settings), None);
    assert_eq!(host_verdict(10_000, &settings), Some(Trap::HostFlood));
    assert_eq!(host_verdict(u32::MAX, &Settings { hosts_per_domain_max: 0, ..settings }), None);
}

#[test]
fn url_15_the_largest_urls_are_judged_quickly() {
    let texts = [
        format!("/{}", "a/".repeat(4_000)),
        format!("/?{}", "a&".repeat(4_000)),
        format!("/{}", "ab/ab/ac/".repeat(800)),
    ];
    let started = std::time::Instant::now();
    for text in texts.iter().cycle().take(300) {
        assert!(judge(&url(text), &Settings::default()).is_some());
        shape(&url(text));
    }
    // 300 URLs of 8 KiB, unoptimised; quadratic work would take minutes.
    assert!(started.elapsed().as_secs() < 20);
}

#[test]
fn zero_turns_a_rule_off() {
    let off: Settings = serde_json::from_str(
        r#"{"url_bytes_max": 0, "path_segments_max": 0, "path_repeats_max": 0, "segment_repeats_max": 0,
            "params_max": 0, "param_repeats_max": 0, "years_ahead_max": 0, "years_back_max": 0}"#,
    )
    .unwrap();
    let long = format!("/{}2099/01/?{}", "a/".repeat(1_000), "a&".repeat(1_000));
    assert_eq!(judge_at(&url(&long), &off, Timestamp::from_secs(0)), None);
    assert!(serde_json::from_str::<Settings>(r#"{"url_max": 0}"#).is_err());
}

#[test]
fn names_are_unique_and_every_trap_has_a_sentence() {
    for (i, trap) in Trap::ALL.iter().enumerate() {
        assert!(trap.name().starts_with("trap-") && trap.meaning().ends_with('.'));
        assert!(Trap::ALL[i + 1..].iter().all(|other| other.name() != trap.name()));
    }
}

#[test]
fn urls_that_count_pages_have_one_shape() {
    for same in [
        &["/a/1?x=2", "/a/77?x=9", "http://b.test/a/0?x"][..],
        &["/p?b=1&a=2", "/p?a=&b=", "/p?a=1&b=2&a=3", "/p?b;a"],
        &["/item-12.html", "/item-9000.html"],
        &["/v/550e8400-e29b-41d4-a716-446655440000/x", "/v/6ba7b810-9dad-11d1-80b4-00c04fd430c8/x"],
        &["/c/da39a3ee5e6b4b0d", "/c/0cc175b9c0f1b6a831c399e269772661"],
        &["/s;jsessionid=1A2B3C4D5E6F7A8B", "/s;jsessionid=FFFF000011112222"],
        &["/t/xK3jf92LmQp0aZ7v", "/t/Qq81hhGs7200plmN"],
        &["/%e4x/3", "/%E4x/4"],
    ] {
        let shapes: Vec<_> = same.iter().map(|text| shape(&url(text))).collect();
        assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{same:?}");
    }
    for (a, b) in [
        ("/a/1", "/b/1"),
        ("/a/1", "/a/1/"),
        ("/a?x=1", "/a?y=1"),
        ("/a?x=1", "/a"),
        ("/feedface", "/decade"),
        ("/internationalisation", "/compartmentalization"),
        ("/a1b", "/a1"),
    ] {
        assert_ne!(shape(&url(a)), shape(&url(b)), "{a} {b}");
    }
}

// Shapes are stored with their host: another value would reopen closed shapes.
#[test]
fn golden_shapes() {
    assert_eq!(format!("{:016x}", shape(&url("/a/1?x=2"))), GOLDEN_SHAPE);
    assert_eq!(format!("{:016x}", folder(&url("/a/1?x=2"))), GOLDEN_FOLDER);
}

const GOLDEN_SHAPE: &str = "8f60c88a6bd168ab";
const GOLDEN_FOLDER: &str = "14f1ec51356e7e9e";

proptest! {
    #[test]
    fn any_url_is_judged_and_has_a_shape(path in "[a-c0-3/%.;=&?-]{0,80}") {
        let Ok(url) = CrawlUrl::parse(&format!("http://a.test/{path}")) else { return Ok(()) };
        let settings = Settings { path_repeats_max: 2, path_segments_max: 6, ..Settings::default() };
        judge_at(&url, &settings, Timestamp::from_secs(1_794_700_000));
        prop_assert_eq!(shape(&url), shape(&url.clone()));
        folder(&url);
    }

    #[test]
    fn a_run_of_any_segments_is_found_wherever_it_stands(
        before in "(/[p-z]{1,3}){0,4}", cycle in "(/[a-c]{1,2}){1,3}", after in "(/[p-z]{1,3}){0,4}",
    ) {
        let path = format!("{before}{}{after}", cycle.repeat(4));
        prop_assert_eq!(judge(&url(&path), &Settings::default()), Some(Trap::Repeat));
    }
}
