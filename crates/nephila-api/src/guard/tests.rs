//! Who is let in: pages of browsers, tokens, sessions and nodes.

use http::Request;

use super::*;

const HERE: &str = "127.0.0.1:6374";

fn head(method: Method, target: &str, fields: &[(&'static str, &str)]) -> request::Parts {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn status(let_in: Result<Asker, Instead>) -> u16 {
    let_in.err().map_or(200, |refused| refused.status().as_u16())
}

fn local(fields: &[(&'static str, &str)]) -> u16 {
    status(Guard::Local.lets_in(&head(Method::GET, "/api/v1/jobs", fields), Some(Role::Admin), false))
}

fn keys() -> Guard {
    let token = |name: &str, role, per_second| Token {
        name: name.into(),
        secret: format!("{name}-secret").into(),
        role,
        per_second,
    };
    let tokens = [
        token("read", Role::Read, 1_000),
        token("operate", Role::Operate, 1_000),
        token("admin", Role::Admin, 1_000),
        token("slow", Role::Read, 1),
    ];
    Guard::Token(Arc::new(Keys::new(tokens, "node".into(), "one")))
}

#[test]
fn sec_09_a_page_of_another_site_is_kept_out_where_no_token_is_needed() {
    for host in [HERE, "127.0.0.1", "[::1]:6374", "localhost:6374", "LOCALHOST"] {
        assert_eq!(local(&[("host", host)]), 200, "{host}");
        for origin in
            ["https://evil.test", "null", "http://127.0.0.1:6375", "http://127.0.0.1.evil.test:6374", ""]
        {
            assert_eq!(local(&[("host", host), ("origin", origin)]), 403, "{host} {origin:?}");
        }
    }
    for host in ["evil.test:6374", "", "127.0.0.1.evil.test"] {
        assert_eq!(local(&[("host", host)]), 403, "{host:?}");
        let origin = format!("http://{host}");
        assert_eq!(local(&[("host", host), ("origin", &origin)]), 403, "DNS rebinding: {host:?}");
    }
    for site in ["cross-site", "same-site", "", "Cross-Site"] {
        assert_eq!(local(&[("host", HERE), ("sec-fetch-site", site)]), 403, "{site:?}");
    }
    for site in ["none", "same-origin"] {
        assert_eq!(local(&[("host", HERE), ("sec-fetch-site", site)]), 200, "{site:?}");
    }
}

#[test]
fn a_link_is_opened_by_whoever_holds_it_and_says_nothing_about_other_paths() {
    let from_mail = [("host", "crawl.example.org"), ("sec-fetch-site", "cross-site")];
    let ask = |guard: &Guard, path: &str, needed| {
        guard.lets_in(&head(Method::GET, path, &from_mail), needed, false).map(|asker| asker.role).ok()
    };
    for guard in [Guard::Local, keys()] {
        assert_eq!(ask(&guard, "/public/host/a.test?key=x", None), Some(None), "{guard:?}");
        assert_eq!(ask(&guard, "/public/x", Some(Role::Read)), None, "an unknown path is none of them");
        assert_eq!(ask(&guard, "/api/v1/status?x=/public/", Some(Role::Read)), None);
    }
    assert_eq!(ask(&Guard::Local, "/ui/app.js", None), None);
    assert_eq!(ask(&Guard::Framed, "/public/host/a.test", None), None, "there is no link to captures");
}

#[test]
fn a_page_of_our_own_origin_may_ask_on_this_machine() {
    for host in [HERE, "[::1]:6374", "localhost:6374", "127.0.0.1"] {
        for scheme in ["http", "https"] {
            let origin = format!("{scheme}://{host}");
            let own = [("host", host), ("origin", &*origin), ("sec-fetch-site", "same-origin")];
            assert_eq!(local(&own), 200, "{origin}");
        }
    }
    let elsewhere = "192.0.2.1:6374";
    assert_eq!(local(&[("host", elsewhere), ("origin", "http://192.0.2.1:6374")]), 403, "not this machine");
    let two = [("host", HERE), ("origin", "http://127.0.0.1:6374"), ("origin", "http://evil.test")];
    assert_eq!(local(&two), 403);
    let cross = [("host", HERE), ("origin", "http://127.0.0.1:6374"), ("sec-fetch-site", "cross-site")];
    assert_eq!(local(&cross), 403);
}

#[test]
fn only_the_first_page_may_be_in_a_frame_of_another_origin() {
    let refuses = |guard: &Guard, path: &str, site: &str, dest: &str, host: &str| {
        let fields = [("host", host), ("sec-fetch-site", site), ("sec-fetch-dest", dest)];
        guard.lets_in(&head(Method::GET, path, &fields), Some(Role::Read), false).is_err()
    };
    let here = "127.0.0.1:6375";
    assert!(!refuses(&Guard::Framed, "/", "same-site", "iframe", here));
    assert!(!refuses(&Guard::Framed, "/web/x", "same-origin", "empty", here));
    assert!(refuses(&Guard::Framed, "/web/x", "same-site", "iframe", here), "a capture");
    assert!(refuses(&Guard::Framed, "/", "cross-site", "image", here), "no frame");
    assert!(refuses(&Guard::Framed, "/", "same-site", "iframe", "evil.test:6375"), "DNS rebinding");
    assert!(refuses(&Guard::Local, "/", "same-site", "iframe", here));
    let own = [("host", here), ("origin", "http://127.0.0.1:6375")];
    assert_eq!(status(Guard::Framed.lets_in(&head(Method::GET, "/", &own), Some(Role::Read), false)), 403);
}

#[test]
fn sec_04_a_token_permits_what_its_role_permits() {
    let guard = keys();
    let ask = |credentials: &str, needed| {
        let head = head(Method::GET, "/api/v1/jobs", &[("authorization", credentials)]);
        status(guard.lets_in(&head, needed, false))
    };
    for (place, token) in ["read", "operate", "admin"].into_iter().enumerate() {
        for (needed, role) in Role::ALL.into_iter().enumerate() {
            let expected = if place >= needed { 200 } else { 403 };
            assert_eq!(ask(&format!("Bearer {token}-secret"), Some(role)), expected, "{token} {role:?}");
        }
    }
    for wrong in ["Bearer read-secre", "Bearer ", "read-secret", "Bearer node", "Basic cmVhZA==", ""] {
        assert_eq!(ask(wrong, Some(Role::Read)), 401, "{wrong}");
        assert_eq!(ask(wrong, None), 200, "probes have none");
    }
}

#[test]
fn sec_04_who_operates_is_no_node_and_a_node_does_not_operate() {
    let guard = keys();
    let ask = |method: Method, needed, credentials: &str| {
        let head = head(method, "/api/v1/jobs", &[("authorization", credentials)]);
        guard.lets_in(&head, Some(needed), false).map(|asker| asker.who).map_err(|no| no.status().as_u16())
    };
    let proof = |secret: &str| {
        let nonce = Nonce::new();
        (proof::of_request(secret, "one", "/api/v1/jobs", seconds(), &nonce), nonce)
    };
    let (said, nonce) = proof("node");
    assert_eq!(ask(Method::GET, Role::Read, &said), Ok(Who::Node(nonce)));
    assert_eq!(ask(Method::GET, Role::Read, &said), Err(401), "recorded, and sent again");
    assert_eq!(ask(Method::POST, Role::Operate, &proof("node").0), Err(401), "a node only asks");
    assert_eq!(ask(Method::GET, Role::Admin, &proof("node").0), Err(403));
    for secret in ["operate-secret", "read-secret"] {
        assert_eq!(
            ask(Method::GET, Role::Read, &proof(secret).0),
            Err(401),
            "{secret} is no secret of nodes"
        );
    }
}

#[test]
fn a_token_that_asks_too_often_waits() {
    let guard = keys();
    let ask = |token: &str| {
        let credentials = format!("Bearer {token}-secret");
        guard.lets_in(&head(Method::GET, "/", &[("authorization", &*credentials)]), Some(Role::Read), false)
    };
    assert!(ask("slow").is_ok() && ask("slow").is_ok());
    let refused = ask("slow").unwrap_err();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    assert!(ask("read").is_ok(), "another token");
}

#[test]
fn sec_09_a_session_changes_something_from_our_own_pages_alone() {
    let guard = keys();
    let Guard::Token(keys) = &guard else { unreachable!() };
    let (cookie, _) = keys.tokens.begin(2, false, seconds());
    let cookie = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
    let ask = |method: Method, fields: &[(&'static str, &str)]| {
        let fields = [&[("host", "crawl.test:6374"), ("cookie", &*cookie)], fields].concat();
        status(guard.lets_in(&head(method, "/api/v1/stops", &fields), Some(Role::Admin), false))
    };
    let (site, origin) = (("sec-fetch-site", "same-origin"), ("origin", "http://crawl.test:6374"));
    assert_eq!(ask(Method::GET, &[]), 200);
    assert_eq!(ask(Method::POST, &[site, origin]), 200);
    for fields in [
        &[][..],
        &[site],
        &[origin],
        &[("sec-fetch-site", "same-site"), origin],
        &[("sec-fetch-site", "none"), origin],
        &[site, ("origin", "http://evil.test")],
        &[site, ("origin", "null")],
        &[site, ("origin", "http://crawl.test:6375")],
        &[site, ("origin", "crawl.test:6374")],
    ] {
        assert_eq!(ask(Method::POST, fields), 403, "{fields:?}");
    }
    assert_eq!(ask(Method::GET, &[("sec-fetch-site", "cross-site")]), 403);
    // A token that is wrong is not replaced by a cookie.
    assert_eq!(ask(Method::GET, &[("authorization", "Bearer wrong")]), 401);
    assert_eq!(
        status(guard.lets_in(
            &head(Method::GET, "/", &[("cookie", "nephila_session=x")]),
            Some(Role::Read),
            false
        )),
        401
    );
}
