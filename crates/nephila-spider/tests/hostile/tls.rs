//! Invalid certificates, handshakes and protocols.
//!
//! Invariant: a failed fetch keeps nothing, and causes no request over plain http instead.

use std::time::Duration;

use nephila_core::spider::{HttpVersion, Outcome, TlsPolicy};
use nephila_core::store::Truncation;
use nephila_spider::Fetched;

use crate::measure::{cpu_time, locked_version};
use crate::support::{World, body, request, text};

/// Far more than a handshake costs, far less than a loop that only ends at a deadline.
const CPU_MAX: Duration = Duration::from_secs(1);

/// Checks for a refusal for this reason, with nothing kept and no request sent.
fn assert_refused(world: &World, id: &str, fetched: &Fetched, reason: Outcome) {
    assert_eq!(fetched.outcome, reason, "{id}: {}", fetched.detail);
    assert!(!fetched.detail.is_empty(), "{id}: people want to know more");
    assert!(fetched.exchange.is_none() && fetched.decoded.is_none() && fetched.status.is_none(), "{id}");
    let case = id.rsplit('.').next().unwrap();
    assert!(world.web.requests(case).is_empty(), "{id}: a request went out, over TLS or without");
    assert_eq!(fetched.requests, 0, "{id}");
}

#[tokio::test]
async fn tls_01_an_expired_certificate_is_refused() {
    let world = World::start().await;
    for id in ["tls-01", "notyet.tls-01"] {
        let fetched = world.get_tls(id, "/page").await;
        assert_refused(&world, id, &fetched, Outcome::TlsExpired);
    }
}

#[tokio::test]
async fn tls_01_an_operator_may_allow_it_and_the_record_says_so() {
    let world = World::start_with(|settings| settings.tls = TlsPolicy::AcceptAny).await;
    for (id, wrong) in [
        ("tls-01", Outcome::TlsExpired),
        ("notyet.tls-01", Outcome::TlsExpired),
        ("tls-02", Outcome::TlsUntrusted),
        ("tls-03", Outcome::TlsName),
    ] {
        let fetched = world.get_tls(id, "/page").await;
        assert_eq!(fetched.outcome, Outcome::Fetched, "{id}: {}", fetched.detail);
        assert_eq!(fetched.tls.as_ref().unwrap().certificate, Some(wrong), "{id}");
        let notes = &fetched.exchange.as_ref().unwrap().notes;
        assert_eq!(notes.get("certificate"), Some(wrong.name()), "{id}: {notes:?}");
    }
    let fetched = world.get_tls("tls-08", "/page").await;
    assert_eq!(fetched.tls.as_ref().unwrap().certificate, None, "a good one has no note");
    assert_eq!(fetched.exchange.unwrap().notes.get("certificate"), None);
}

#[tokio::test]
async fn tls_02_an_unknown_issuer_is_refused_and_http_is_not_tried() {
    let world = World::start().await;
    for id in ["tls-02", "unknown.tls-02", "nointermediate.tls-02"] {
        let before = world.web.connections("tls-02");
        let fetched = world.get_tls(id, "/page").await;
        assert_refused(&world, id, &fetched, Outcome::TlsUntrusted);
        assert_eq!(world.web.connections("tls-02"), before + 1, "{id}: one try, on the port of the URL");
        assert_eq!(fetched.address.unwrap().port(), world.web.tls_port());
    }
}

#[tokio::test]
async fn tls_03_a_certificate_for_another_name_keeps_nothing() {
    let world = World::start().await;
    let fetched = world.get_tls("tls-03", "/page").await;
    assert_refused(&world, "tls-03", &fetched, Outcome::TlsName);
}

#[tokio::test]
async fn tls_04_old_versions_and_ciphers_have_a_reason_of_their_own() {
    let world = World::start().await;
    for id in ["tls-04", "hello10.tls-04", "hello11.tls-04", "rc4.tls-04"] {
        let fetched = world.get_tls(id, "/page").await;
        assert_refused(&world, id, &fetched, Outcome::TlsVersion);
    }
}

#[tokio::test]
async fn tls_05_a_stalled_handshake_ends_at_its_deadline() {
    let world = World::start().await;
    let one = async |id: &str| {
        let fetched = world.get_tls(id, "/page").await;
        assert_refused(&world, id, &fetched, Outcome::TlsTimeout);
        assert!(fetched.timings.tls.unwrap() >= world.settings.tls_timeout, "{id}");
    };
    tokio::join!(one("tls-05"), one("drip.tls-05"), one("deaf.tls-05"));
    assert_eq!(nephila_core::spider::Settings::default().tls_timeout, Duration::from_secs(10));
}

#[tokio::test]
async fn tls_06_a_chain_built_to_explode_costs_little() {
    let world = World::start().await;
    let before = cpu_time();
    let fetched = world.get_tls("tls-06", "/page").await;
    let spent = cpu_time() - before;
    assert!(
        matches!(fetched.outcome, Outcome::TlsUntrusted | Outcome::TlsCertificate),
        "{} {}",
        fetched.outcome,
        fetched.detail
    );
    assert_refused(&world, "tls-06", &fetched, fetched.outcome);
    assert!(spent < CPU_MAX, "{spent:?}");
}

#[tokio::test]
async fn tls_07_a_huge_certificate_message_is_refused_before_it_is_read() {
    let world = World::start().await;
    for id in ["tls-07", "many.tls-07"] {
        let fetched = world.get_tls(id, "/page").await;
        assert_refused(&world, id, &fetched, Outcome::TlsProtocol);
        // Refused for the announced length, not after reading everything.
        assert!(fetched.detail.contains("TooLarge"), "{id}: {}", fetched.detail);
    }
}

#[tokio::test]
async fn tls_08_without_alpn_http_1_1_is_spoken() {
    let world = World::start().await;
    let fetched = world.get_tls("tls-08", "/page").await;
    assert_eq!(
        (fetched.outcome, fetched.protocol),
        (Outcome::Fetched, Some("http/1.1")),
        "{}",
        fetched.detail
    );
    assert_eq!(fetched.requests, 1);
}

#[tokio::test]
async fn tls_09_a_server_that_lies_about_http_2_is_asked_over_http_1_1_from_then_on() {
    let world = World::start().await;
    let fetched = world.get_tls("tls-09", "/page").await;
    assert_eq!(
        (fetched.outcome, fetched.protocol),
        (Outcome::Fetched, Some("http/1.1")),
        "{}",
        fetched.detail
    );
    assert_eq!(world.web.connections("tls-09"), 2, "once over h2, once over h1");
    let again = world.get_tls("tls-09", "/page").await;
    assert_eq!((again.outcome, again.requests), (Outcome::Fetched, 1), "{}", again.detail);
    let over_h2 = world.web.requests("tls-09").iter().filter(|seen| seen.method == "(h2)").count();
    assert_eq!(over_h2, 1, "remembered");
}

#[tokio::test]
async fn tls_10_a_warning_about_the_name_is_no_reason_to_stop() {
    let world = World::start().await;
    let fetched = world.get_tls("tls-10", "/page").await;
    assert_eq!(fetched.outcome, Outcome::Fetched, "{}", fetched.detail);
    assert_eq!(world.web.connections("tls-10"), 1);
    let fatal = world.get_tls("fatal.tls-10", "/page").await;
    assert_eq!(fatal.outcome, Outcome::TlsAlert, "{}", fatal.detail);
    assert!(
        fatal.detail.contains("UnrecognisedName") || fatal.detail.contains("UnrecognizedName"),
        "{}",
        fatal.detail
    );
    assert_eq!(world.web.connections("tls-10"), 2, "a fatal alert is not argued with");
}

#[tokio::test]
async fn tls_11_a_handshake_that_is_closed_in_the_middle_costs_no_busy_loop() {
    let world = World::start().await;
    for id in ["tls-11", "fin.tls-11", "reset.tls-11"] {
        let before = cpu_time();
        let fetched = world.get_tls(id, "/page").await;
        let spent = cpu_time() - before;
        assert_refused(&world, id, &fetched, Outcome::TlsClosed);
        assert!(spent < CPU_MAX, "{id}: {spent:?}");
        assert!(fetched.timings.total < world.settings.tls_timeout, "{id}: the close was not noticed");
    }
    assert_eq!(world.web.connections("tls-11"), 3);
}

#[tokio::test]
async fn tls_12_an_end_that_is_not_authenticated_is_marked() {
    let world = World::start().await;
    let fetched = world.get_tls("tls-12", "/page").await;
    assert_eq!(
        (fetched.outcome, fetched.truncated),
        (Outcome::CutDisconnect, Some(Truncation::Disconnect)),
        "{}",
        fetched.detail
    );
    assert_eq!(body(&fetched), b"<p>is this all?</p>");
    assert_eq!(fetched.exchange.unwrap().truncated, Some(Truncation::Disconnect), "the archive learns of it");
}

#[tokio::test]
async fn tls_12_a_length_authenticates_the_end_as_well() {
    let world = World::start().await;
    let fetched = world.get_tls("tls-12", "/length").await;
    assert_eq!((fetched.outcome, fetched.truncated), (Outcome::Fetched, None), "{}", fetched.detail);
    // The connection that was cut behind our back is not a trap for the next page.
    let again = world.get_tls("tls-12", "/length").await;
    assert_eq!((again.outcome, again.truncated), (Outcome::Fetched, None), "{}", again.detail);
}

#[tokio::test]
async fn tls_13_no_certificate_of_ours_is_ever_offered() {
    let world = World::start().await;
    let fetched = world.get_tls("tls-13", "/page").await;
    assert_eq!(fetched.outcome, Outcome::Fetched, "{}", fetched.detail);
    let refused = world.get_tls("required.tls-13", "/page").await;
    assert_eq!(refused.outcome, Outcome::TlsAlert, "{}", refused.detail);
    assert!(refused.exchange.is_none() && refused.requests <= 1, "asked {} times", refused.requests);
    assert_eq!(world.web.client_certificates("tls-13"), 0);
}

#[tokio::test]
async fn tls_14_the_scheme_of_the_url_is_the_scheme_that_is_spoken() {
    let world = World::start().await;
    let https = world.get_tls("tls-14", "/page").await;
    assert_refused(&world, "tls-14", &https, Outcome::TlsProtocol);
    let http = world.get("tls-14", "/page").await;
    assert_eq!(http.outcome, Outcome::BadStatusLine, "{}", http.detail);
    assert!(http.exchange.is_none() && http.tls.is_none());
    assert_eq!(world.web.connections("tls-14"), 2, "each was tried once and on its own port");
    assert!(world.web.requests("tls-14").is_empty());
}

#[tokio::test]
async fn tls_15_an_issuer_cannot_leave_its_name_constraints() {
    let world = World::start().await;
    for id in ["tls-15", "excluded.tls-15", "wild.tls-15"] {
        let fetched = world.get_tls(id, "/page").await;
        assert_refused(&world, id, &fetched, Outcome::TlsCertificate);
        assert!(fetched.detail.contains("NameConstraint"), "{id}: {}", fetched.detail);
    }
}

#[test]
fn tls_15_the_lock_file_holds_no_webpki_with_known_holes() {
    assert!(locked_version("rustls-webpki") >= [0, 103, 13], "RUSTSEC-2026-0098, -0099 and -0104");
}

#[tokio::test]
async fn tls_16_a_downgrade_is_a_redirect_that_the_spider_only_reports() {
    let world = World::start().await;
    let fetched = world.get_tls("tls-16", "/loop").await;
    assert_eq!(fetched.outcome, Outcome::Redirect);
    let target = fetched.redirect.unwrap();
    assert_eq!(target.as_str(), world.web.url("tls-16", "/loop"));
    let back = world.ask(request(target.as_str())).await;
    assert_eq!(back.redirect.unwrap().as_str(), world.web.https_url("tls-16", "/loop"));
    assert_eq!(world.web.requests("tls-16").len(), 2);
    assert!(back.tls.is_none());
}

#[tokio::test]
async fn tls_08_a_spider_without_http_2_offers_none() {
    let world = World::start_with(|settings| settings.http_versions = vec![HttpVersion::Http11]).await;
    let fetched = world.get_tls("good", "/h2").await;
    assert_eq!(fetched.protocol, Some("http/1.1"));
    assert_eq!(text(&fetched), "<p>asked over HTTP/1.1 with TLS</p>");
}
