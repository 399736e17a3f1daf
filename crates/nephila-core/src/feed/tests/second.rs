//! A second opinion: a strict reader of feeds that others wrote agrees with ours on feeds in good order.

use proptest::prelude::*;

use super::*;

/// One entry, as both readers have to return it.
#[derive(Clone, Debug)]
struct Case {
    title: String,
    path: String,
    guid: Option<String>,
    seconds: Option<u32>,
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn case() -> impl Strategy<Value = Case> {
    let title = "[a-zA-Zа-я0-9 .,:!?'-]{1,30}".prop_map(|t| format!("T{}", t.trim_end()));
    (
        title,
        "[a-z0-9/]{1,12}(\\?[a-z]=[0-9]&[b-z]=[0-9])?",
        prop::option::of("[a-z0-9:]{1,12}"),
        prop::option::of(any::<u32>()),
    )
        .prop_map(|(title, path, guid, seconds)| Case { title, path, guid, seconds })
}

fn as_rss(cases: &[Case]) -> String {
    let items: String = cases
        .iter()
        .map(|c| {
            let guid = c
                .guid
                .as_ref()
                .map(|g| format!("<guid isPermaLink=\"false\">{g}</guid>"))
                .unwrap_or_default();
            let date = c.seconds.map(|s| Timestamp::from_secs(u64::from(s)));
            let date = date.map(|d| format!("<pubDate>{}</pubDate>", mail_date(d))).unwrap_or_default();
            let link = escaped(&format!("http://s.test/{}", c.path));
            format!("<item><title>{}</title><link>{link}</link>{guid}{date}</item>", escaped(&c.title))
        })
        .collect();
    rss(&items)
}

fn as_atom(cases: &[Case]) -> String {
    let entries: String = cases
        .iter()
        .enumerate()
        .map(|(n, c)| {
            let id = c.guid.clone().unwrap_or_else(|| format!("urn:{n}"));
            let date = c.seconds.map(|s| Timestamp::from_secs(u64::from(s)));
            let date = date.map(|d| format!("<published>{d}</published>")).unwrap_or_default();
            let link = escaped(&format!("http://s.test/{}", c.path));
            format!(
                "<entry><title>{}</title><link href=\"{link}\"/><id>{id}</id>{date}</entry>",
                escaped(&c.title)
            )
        })
        .collect();
    format!(
        "<?xml version=\"1.0\"?><feed xmlns=\"http://www.w3.org/2005/Atom\"><title>S</title><id>s</id>{entries}</feed>"
    )
}

fn mail_date(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(time.0 as i64).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

proptest! {
    #[test]
    fn both_readers_agree_on_feeds_in_good_order(cases in prop::collection::vec(case(), 1..8)) {
        for body in [as_rss(&cases), as_atom(&cases)] {
            let ours = read(body.as_bytes());
            let theirs = feed_rs::parser::parse(body.as_bytes()).unwrap();
            prop_assert_eq!(&ours.notes, &[]);
            prop_assert_eq!(ours.entries.len(), theirs.entries.len());
            for ((ours, theirs), case) in ours.entries.iter().zip(&theirs.entries).zip(&cases) {
                let link = CrawlUrl::parse(&theirs.links[0].href).unwrap();
                prop_assert_eq!(&ours.url, &link);
                prop_assert_eq!(&ours.title, &text::line(&theirs.title.as_ref().unwrap().content, false));
                let date = theirs.published.map(|d| Timestamp(d.timestamp_millis() as u64));
                prop_assert_eq!(ours.published, date);
                // Without a guid, the other reader invents one.
                if case.guid.is_some() {
                    prop_assert_eq!(ours.guid.as_deref(), Some(theirs.id.as_str()));
                }
            }
        }
    }
}

#[test]
fn where_the_strict_reader_loses_the_feed_ours_does_not() {
    let good = rss(&items(10));
    for broken in [
        good.replace("Title 3", "R&D"),
        good[..good.len() - 40].to_owned(),
        good.replace("</item>", "</itme>"),
    ] {
        assert!(feed_rs::parser::parse(broken.as_bytes()).is_err());
        assert!(read(broken.as_bytes()).entries.len() >= 9);
    }
}
