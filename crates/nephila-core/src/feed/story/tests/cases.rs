//! The story rule, case by case: the first entry, the second entry, and the verdict on the second.

use super::StoryVerdict::{KnownGuid, KnownTitle, KnownUrl, New};
use super::*;
use crate::feed::{Limits, read_feed};
use crate::handler::{Page, ReadAs};

/// One entry of a case, and when it is seen.
struct Seen {
    url: &'static str,
    guid: &'static str,
    title: &'static str,
    /// The date as written in the feed; empty for none.
    date: &'static str,
    /// When the feed is read.
    now: &'static str,
}

const fn seen(
    url: &'static str,
    guid: &'static str,
    title: &'static str,
    date: &'static str,
    now: &'static str,
) -> Seen {
    Seen { url, guid, title, date, now }
}

fn moment(text: &str) -> Timestamp {
    Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond() as u64)
}

/// Reads both from feeds, so that links are resolved and dates are parsed as in production.
fn check(name: &str, feed: &str, first: &Seen, then: &Seen, want: StoryVerdict) {
    let mut memory = Memory::default();
    let mut verdict = None;
    for (number, part) in [first, then].into_iter().enumerate() {
        // A case may move the feed: `a -> b`.
        let at = feed.split(" -> ").nth(number).unwrap_or(feed);
        let field = |tag: &str, text: &str| {
            let text = text.replace('&', "&amp;");
            if text.is_empty() { String::new() } else { format!("<{tag}>{text}</{tag}>") }
        };
        let body = format!(
            "<rss><channel><item>{}{}{}{}</item></channel></rss>",
            field("link", part.url),
            field("guid", part.guid),
            field("title", part.title),
            field("pubDate", part.date)
        );
        let url = CrawlUrl::parse(at).unwrap();
        let (fields, keys) = (http::HeaderMap::new(), KeyRules::default());
        let page = Page {
            url: &url,
            fields: &fields,
            body: body.as_bytes(),
            read_as: ReadAs::Feed,
            agent: "",
            keys: &keys,
        };
        let feed = read_feed(&page, &Limits::default());
        assert_eq!(feed.entries.len(), 1, "{name}: {feed:?}");
        let judged = memory.judge(&feed.entries, &Settings::default(), moment(part.now));
        memory.fold(&judged.sighting);
        verdict = judged.verdicts.first().copied();
    }
    assert_eq!(verdict, Some(want), "{name}");
}

const FEED: &str = "http://s.test/feeds/all.xml";
const TUE: &str = "2026-11-17T12:00:00Z";
const WED: &str = "2026-11-18T12:00:00Z";
const NEXT: &str = "2026-11-24T12:00:00Z";
const TUE_MAIL: &str = "Tue, 17 Nov 2026 10:00:00 GMT";
const NEXT_MAIL: &str = "Tue, 24 Nov 2026 10:00:00 GMT";

/// An ordinary first entry.
const A: Seen = seen("http://s.test/a", "g1", "A title", TUE_MAIL, TUE);
/// The same, a day later; its fields are replaced one by one.
const fn then(url: &'static str, guid: &'static str, title: &'static str) -> Seen {
    seen(url, guid, title, TUE_MAIL, WED)
}
/// An entry of another title, so that only its URL can be known.
const fn at(url: &'static str) -> Seen {
    then(url, "g2", "B title")
}
/// An entry with the title of the first, and this date.
const fn again(date: &'static str, now: &'static str) -> Seen {
    seen("http://s.test/b", "g2", "A title", date, now)
}
/// An entry with another title only.
const fn titled(title: &'static str) -> Seen {
    then("http://s.test/b", "g2", title)
}
/// A first entry with this URL and guid.
const fn first(url: &'static str, guid: &'static str) -> Seen {
    seen(url, guid, "A title", TUE_MAIL, TUE)
}

macro_rules! cases {
    ($($name:ident: $first:expr, $then:expr => $want:expr;)+) => {
        $(#[test]
        fn $name() {
            check(stringify!($name), FEED, &$first, &$then, $want);
        })+
    };
}

// URL and guid.
cases! {
    everything_else_is_new: A, then("http://s.test/b", "g2", "B title") => New;
    the_same_entry_is_known: A, then("http://s.test/a", "g1", "A title") => KnownUrl;
    the_same_url_with_another_guid_is_known: A, then("http://s.test/a", "g2", "B title") => KnownUrl;
    the_same_guid_with_another_url_is_known: A, then("http://s.test/b", "g1", "B title") => KnownGuid;
    a_guid_is_compared_with_its_case: A, then("http://s.test/b", "G1", "B title") => New;
    white_space_around_a_guid_is_nothing: A, then("http://s.test/b", " g1\n", "B title") => KnownGuid;
    without_guids_the_url_decides: first("http://s.test/a", ""), then("http://s.test/a", "", "B title") => KnownUrl;
    without_guids_another_url_is_new: first("http://s.test/a", ""), then("http://s.test/b", "", "B title") => New;
    an_empty_guid_is_no_guid: first("http://s.test/a", "  "), then("http://s.test/b", "  ", "B title") => New;
    a_guid_that_goes_away_leaves_the_url: A, then("http://s.test/a", "", "B title") => KnownUrl;
    a_guid_that_is_the_url_of_another_is_known: A, then("http://s.test/b", "http://s.test/a", "B title") => KnownGuid;
    a_url_that_is_the_guid_of_another_is_known:
        first("http://s.test/a", "http://s.test/p1"), at("http://s.test/p1") => KnownUrl;
    an_entry_of_a_guid_alone_is_known_by_it:
        first("", "http://s.test/a"), then("", "http://s.test/a", "B title") => KnownUrl;
    a_link_that_joins_its_guid_is_known:
        first("", "http://s.test/a"), then("http://s.test/a", "http://s.test/a", "B title") => KnownUrl;
    a_guid_with_tracking_is_the_same_guid:
        first("http://s.test/a", "http://s.test/?p=1&utm_source=rss"),
        then("http://s.test/b", "http://s.test/?p=1&utm_source=mail", "B title") => KnownGuid;
}

// Spellings of a URL.
cases! {
    a_relative_link_is_the_url_it_means: A, at("/a") => KnownUrl;
    a_link_relative_to_the_feed_is_the_url_it_means: first("http://s.test/feeds/a", ""), at("a") => KnownUrl;
    a_link_without_its_scheme_is_the_url_it_means: A, at("//s.test/a") => KnownUrl;
    https_is_the_same_story: A, at("https://s.test/a") => KnownUrl;
    a_port_is_another_server: A, at("http://s.test:8080/a") => New;
    the_port_of_the_scheme_is_none: A, at("http://s.test:80/a") => KnownUrl;
    a_dot_behind_the_host_is_nothing: A, at("http://s.test./a") => KnownUrl;
    a_dot_behind_the_path_is_another_page: A, at("http://s.test/a.") => New;
    the_case_of_the_host_is_nothing: A, at("HTTP://S.Test/a") => KnownUrl;
    the_case_of_the_path_is_another_page: A, at("http://s.test/A") => New;
    tracking_parameters_are_nothing: A, at("http://s.test/a?utm_source=rss&fbclid=x") => KnownUrl;
    other_parameters_are_another_page: A, at("http://s.test/a?id=2") => New;
    the_order_of_parameters_is_nothing:
        first("http://s.test/a?x=1&y=2", "g1"), at("http://s.test/a?y=2&x=1") => KnownUrl;
    a_fragment_is_nothing: A, at("http://s.test/a#comments") => KnownUrl;
    escapes_are_spellings: first("http://s.test/%7ea", "g1"), at("http://s.test/~a") => KnownUrl;
    a_slash_at_the_end_is_another_page: A, at("http://s.test/a/") => New;
    two_slashes_are_one: first("http://s.test/x/a", "g1"), at("http://s.test/x//a") => KnownUrl;
    white_space_around_a_link_is_nothing: A, at("\n http://s.test/a \t") => KnownUrl;
}

// Titles and weeks.
cases! {
    the_same_title_in_the_week_is_known: A, again("Thu, 19 Nov 2026 10:00:00 GMT", WED) => KnownTitle;
    the_same_title_in_the_next_week_is_new: A, again(NEXT_MAIL, NEXT) => New;
    the_same_title_in_the_week_before_is_new: A, again("Tue, 10 Nov 2026 10:00:00 GMT", WED) => New;
    a_late_entry_belongs_to_the_week_of_its_date: A, again(TUE_MAIL, NEXT) => KnownTitle;
    the_week_ends_on_sunday_night: A, again("Sun, 22 Nov 2026 23:59:59 GMT", NEXT) => KnownTitle;
    the_week_begins_on_monday: A, again("Mon, 23 Nov 2026 00:00:00 GMT", NEXT) => New;
    monday_morning_in_tokyo_is_still_sunday: A, again("Mon, 23 Nov 2026 08:00:00 +0900", NEXT) => KnownTitle;
    sunday_evening_in_new_york_is_monday_already: A, again("Sun, 22 Nov 2026 20:00:00 EST", NEXT) => New;
    the_case_of_a_title_is_nothing: A, titled("A TITLE") => KnownTitle;
    white_space_in_a_title_is_nothing: A, titled(" A \n\t title ") => KnownTitle;
    markup_in_a_title_is_nothing: A, titled("<![CDATA[<b>A</b> title]]>") => KnownTitle;
    another_sign_is_another_title: A, titled("A title!") => New;
    the_case_of_cyrillic_titles_is_nothing:
        seen("http://s.test/a", "g1", "Новости", TUE_MAIL, TUE), titled("НОВОСТИ") => KnownTitle;
    empty_titles_are_not_equal: seen("http://s.test/a", "g1", "", TUE_MAIL, TUE), titled("") => New;
    blank_titles_are_not_equal: seen("http://s.test/a", "g1", " \u{a0} ", TUE_MAIL, TUE), titled(" ") => New;
}

// Dates that are missing or wrong.
cases! {
    without_a_date_the_first_sighting_counts:
        seen("http://s.test/a", "g1", "A title", "", TUE), again("", WED) => KnownTitle;
    without_a_date_the_next_week_is_new: seen("http://s.test/a", "g1", "A title", "", TUE), again("", NEXT) => New;
    a_broken_date_is_none: A, again("yesterday", WED) => KnownTitle;
    a_date_of_year_zero_is_none: A, again("0000-00-00T00:00:00Z", WED) => KnownTitle;
    a_date_before_1970_is_none: A, again("Thu, 01 Jan 1960 00:00:00 GMT", WED) => KnownTitle;
    a_date_in_the_far_future_is_not_believed: A, again("Tue, 17 Nov 2099 10:00:00 GMT", WED) => KnownTitle;
    a_date_of_tomorrow_is_believed:
        seen("http://s.test/a", "g1", "A title", "", "2026-11-22T22:00:00Z"),
        again("Mon, 23 Nov 2026 01:00:00 GMT", "2026-11-22T22:30:00Z") => New;
    a_date_that_changes_changes_no_url:
        A, seen("http://s.test/a", "g1", "A title", NEXT_MAIL, NEXT) => KnownUrl;
    a_date_without_a_zone_is_utc: A, again("2026-11-22 23:59:59", NEXT) => KnownTitle;
}

#[test]
fn a_moved_feed_has_the_memory_of_its_source() {
    let then = then("http://s.test/a", "g1", "A title");
    check("moved", "http://s.test/f -> https://feeds.other.test/s", &A, &then, KnownUrl);
}

#[test]
fn a_moved_feed_with_relative_links_is_known_by_guid() {
    let then = then("/a", "g1", "B title");
    check("moved, relative", "http://s.test/f -> http://new.test/f", &first("/a", "g1"), &then, KnownGuid);
}

#[test]
fn a_moved_feed_without_guids_is_known_by_title() {
    let then = then("/a", "", "A title");
    check("moved, no guid", "http://s.test/f -> http://new.test/f", &first("/a", ""), &then, KnownTitle);
}

#[test]
fn a_feed_that_moves_to_https_has_no_new_stories() {
    let then = then("/a", "", "B title");
    check("to https", "http://s.test/f -> https://s.test/f", &first("/a", ""), &then, KnownUrl);
}

#[test]
fn twice_in_one_feed_is_one_story() {
    let (mut memory, at) = (Memory::default(), Some(MONDAY));
    let list = [
        entry("http://s.test/1", "g1", "One", at),
        entry("http://s.test/1", "g2", "Two", at),
        entry("http://s.test/3", "g1", "Three", at),
        entry("http://s.test/4", "g4", "ONE", at),
        entry("http://s.test/5", "g5", "Five", at),
    ];
    assert_eq!(poll(&mut memory, &list, MONDAY), [New, KnownUrl, KnownGuid, KnownTitle, New]);
}

#[test]
fn what_was_turned_away_for_its_title_is_no_story_next_week() {
    let mut memory = Memory::default();
    let list = [entry("http://s.test/1", "", "Weather", None), entry("http://s.test/2", "", "Weather", None)];
    assert_eq!(poll(&mut memory, &list, MONDAY), [New, KnownTitle]);
    assert_eq!(poll(&mut memory, &list, MONDAY + 8 * DAY), [KnownUrl, KnownUrl]);
}
