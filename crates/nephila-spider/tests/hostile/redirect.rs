//! The spider's result for a redirect. The spider never follows: following is tested with the whole command, in
//! `crates/nephila/tests/e2e/redirects.rs`.

use std::time::Duration;

use nephila_core::handler::refresh::{self, Meaning};
use nephila_core::spider::{Action, Outcome};

use crate::support::{World, body, text};

#[tokio::test]
async fn red_01_the_spider_reports_a_redirect_and_asks_nobody_else() {
    let world = World::start().await;
    for (path, target) in [("/self", "/self"), ("/a", "/b"), ("/chain/40", "/chain/39")] {
        let fetched = world.get("red-01", path).await;
        assert_eq!(
            (fetched.outcome, fetched.status, fetched.requests),
            (Outcome::Redirect, Some(302), 1),
            "{path}"
        );
        assert_eq!(fetched.redirect.as_ref().unwrap().as_str(), world.web.url("red-01", target));
        assert_eq!(body(&fetched), b"moved", "the hop itself is kept");
    }
    assert_eq!(world.web.requests("red-01").len(), 3);
}

#[tokio::test]
async fn red_02_only_http_and_https_can_be_a_target() {
    let world = World::start().await;
    for path in ["/file", "/ftp", "/gopher", "/data", "/javascript"] {
        let fetched = world.get("red-02", path).await;
        assert_eq!(fetched.outcome, Outcome::RedirectScheme, "{path}");
        assert!(fetched.redirect.is_none(), "{path}");
        assert!(fetched.exchange.unwrap().response_head.starts_with(b"HTTP/1.1 302"), "{path} is recorded");
    }
    assert!(world.web.requests("good").is_empty());
}

#[tokio::test]
async fn red_07_a_location_that_says_nothing_clear_is_not_guessed() {
    let world = World::start().await;
    for path in ["/missing", "/empty", "/twice", "/long"] {
        let fetched = world.get("red-07", path).await;
        assert_eq!(
            (fetched.outcome, fetched.status),
            (Outcome::RedirectBadLocation, Some(302)),
            "{path}: {}",
            fetched.detail
        );
        assert_eq!(fetched.outcome.action(), Action::KeepUnread);
        assert!(fetched.redirect.is_none(), "{path}");
        assert_eq!(body(&fetched), b"<p>nowhere to go</p>", "{path}");
    }
}

#[tokio::test]
async fn red_08_odd_bytes_in_a_location_are_encoded_as_browsers_do() {
    let world = World::start().await;
    for (path, target) in [
        ("/utf8", "/arrived/gr%C3%B6%C3%9Fe/%E2%9C%93?q=%C3%BC"),
        ("/latin1", "/arrived/gr%F6%DFe?q=%FC"),
        ("/spaces", "/arrived/a%20b%20%20c"),
        ("/backslashes", "/arrived/a/b"),
        ("/control", "/arrived/a%01%0B%7Fb"),
    ] {
        let fetched = world.get("red-08", path).await;
        assert_eq!(fetched.outcome, Outcome::Redirect, "{path}: {}", fetched.detail);
        let to = fetched.redirect.unwrap();
        assert_eq!(to.as_str(), world.web.url("red-08", target), "{path}");
        let arrived = world.fetch(to.as_str()).await;
        assert_eq!(text(&arrived), "<p>arrived</p>", "{path}");
        assert_eq!(world.web.requests("red-08").last().unwrap().path, target, "sent as it was encoded");
    }
}

#[tokio::test]
async fn red_09_every_kind_of_redirect_has_a_target_and_300_is_a_page() {
    let world = World::start().await;
    for status in [301, 302, 303, 307, 308] {
        let fetched = world.get("red-09", &format!("/{status}")).await;
        assert_eq!((fetched.outcome, fetched.status), (Outcome::Redirect, Some(status)));
        assert_eq!(fetched.outcome.action(), Action::Offer);
        assert_eq!(fetched.redirect.unwrap().as_str(), world.web.url("red-09", "/page"), "{status}");
    }
    let choices = world.get("red-09", "/300").await;
    assert_eq!((choices.outcome, choices.outcome.action()), (Outcome::MultipleChoices, Action::Keep));
    assert!(choices.redirect.is_none());
    assert_eq!(text(&choices), "<p>choose</p>");
}

#[tokio::test]
async fn red_10_a_refresh_is_a_page_first_and_means_what_browsers_think() {
    let world = World::start().await;
    for path in ["/zero", "/five", "/quotes", "/self", "/noscript"] {
        let fetched = world.get("red-10", path).await;
        assert_eq!((fetched.outcome, fetched.status), (Outcome::Fetched, Some(200)), "{path}");
        assert!(fetched.redirect.is_none(), "{path} is no redirect of HTTP");
        let page = text(&fetched);
        let content = page.split_once("content=\"").unwrap().1.split_once('"').unwrap().0;
        let base = nephila_core::url::CrawlUrl::parse(&world.web.url("red-10", path)).unwrap();
        let meaning = refresh::parse(content).unwrap().meaning(&base, Duration::from_secs(1));
        let target = base.join("/target").unwrap();
        let wanted = match path {
            "/five" => Meaning::Link(target),
            "/self" => Meaning::Nothing,
            _ => Meaning::Redirect(target),
        };
        assert_eq!(meaning, wanted, "{path}");
    }
    let header = world.get("red-10", "/header").await;
    assert_eq!((header.outcome, header.redirect.is_none()), (Outcome::Fetched, true));
    let value = header.fields.get("refresh").unwrap().to_str().unwrap();
    assert_eq!(refresh::parse(value).unwrap().url.as_deref(), Some("/target"));
    assert!(world.web.requests("red-10").iter().all(|seen| seen.path != "/target"), "nobody followed");
}
