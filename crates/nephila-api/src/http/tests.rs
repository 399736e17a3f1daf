//! Guards of the API: pages of browsers, tokens and their rights; and escaped paths.

use super::*;

#[test]
fn a_page_in_a_browser_is_kept_out_where_no_token_is_needed() {
    let refuses = |fields: &[(&'static str, &'static str)]| {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        Guard::Local.refuses("/api/v1/jobs", &headers).is_some()
    };
    for host in ["127.0.0.1:6374", "127.0.0.1", "[::1]:6374", "localhost:6374", "LOCALHOST"] {
        assert!(!refuses(&[("host", host)]), "{host}");
        assert!(refuses(&[("host", host), ("origin", "https://evil.test")]), "{host}");
    }
    for host in ["evil.test:6374", "", "127.0.0.1.evil.test"] {
        assert!(refuses(&[("host", host)]), "{host:?}");
    }
}

#[test]
fn sec_04_a_token_that_reads_changes_nothing() {
    let (token, nodes, node) = ("all".into(), "nodes".into(), "one".into());
    let guard = Guard::Token { token, nodes, reads: Some("read".into()), node, once: Arc::default() };
    let status = |method: Method, token: &str| {
        let request = Request::builder().method(method).uri("/api/v1/jobs");
        let request = request.header("authorization", format!("Bearer {token}")).body(()).unwrap();
        guard.lets_in(&request.into_parts().0).err().map(|refused| refused.status().as_u16())
    };
    for method in [Method::GET, Method::HEAD] {
        assert_eq!(status(method, "read"), None);
    }
    for method in [Method::POST, Method::PATCH, Method::DELETE, Method::PUT] {
        assert_eq!(status(method.clone(), "read"), Some(403), "{method}");
        assert_eq!(status(method, "all"), None);
    }
    assert_eq!(status(Method::GET, ""), Some(401));
    assert_eq!(status(Method::GET, "rea"), Some(401));
}

#[test]
fn sec_04_who_operates_is_no_node_and_a_node_does_not_operate() {
    let (token, nodes, node) = ("operate".into(), "node".into(), "one".into());
    let guard = Guard::Token { token, nodes, reads: Some("read".into()), node, once: Arc::default() };
    let ask = |method: Method, credentials: &str| {
        let request = Request::builder().method(method).uri("/api/v1/jobs");
        let (head, ()) = request.header(header::AUTHORIZATION, credentials).body(()).unwrap().into_parts();
        guard.lets_in(&head).map_err(|refused| refused.status().as_u16())
    };
    let proof = |token: &str| {
        let nonce = Nonce::new();
        (proof::of_request(token, "one", "/api/v1/jobs", seconds(), &nonce), nonce)
    };
    let (said, nonce) = proof("node");
    assert_eq!(ask(Method::GET, &said), Ok(Asker::Node(nonce)));
    assert_eq!(ask(Method::GET, &said), Err(401), "recorded, and sent again");
    let (said, _) = proof("node");
    assert_eq!(ask(Method::POST, &said), Err(401), "a node only asks");
    assert_eq!(ask(Method::GET, "Bearer node"), Err(401), "what nodes share is never said");
    for token in ["operate", "read"] {
        assert_eq!(ask(Method::GET, &proof(token).0), Err(401), "whoever has {token} is no node");
        assert_eq!(ask(Method::GET, &format!("Bearer {token}")), Ok(Asker::Any));
    }
    assert_eq!(ask(Method::POST, "Bearer operate"), Ok(Asker::Any));
    assert_eq!(ask(Method::POST, "Bearer read"), Err(403));
}

#[test]
fn sec_09_a_page_of_another_site_is_kept_out_though_it_hides_its_origin() {
    let refuses = |site: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:6374"));
        headers.insert("sec-fetch-site", HeaderValue::from_static(site));
        Guard::Local.refuses("/api/v1/jobs", &headers).map(|answer| answer.status().as_u16())
    };
    for site in ["cross-site", "same-site", "", "Cross-Site"] {
        assert_eq!(refuses(site), Some(403), "{site:?}");
    }
    for site in ["none", "same-origin"] {
        assert_eq!(refuses(site), None, "{site:?}");
    }
}

#[test]
fn only_the_first_page_may_be_in_a_frame_of_another_origin() {
    let refuses = |guard: &Guard, path: &str, site: &'static str, dest: &'static str, host: &'static str| {
        let fields = [("host", host), ("sec-fetch-site", site), ("sec-fetch-dest", dest)];
        let fields = fields
            .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)));
        guard.refuses(path, &HeaderMap::from_iter(fields)).is_some()
    };
    let here = "127.0.0.1:6375";
    assert!(!refuses(&Guard::Framed, "/", "same-site", "iframe", here));
    assert!(!refuses(&Guard::Framed, "/web/x", "same-origin", "empty", here));
    assert!(refuses(&Guard::Framed, "/web/x", "same-site", "iframe", here), "a capture");
    assert!(refuses(&Guard::Framed, "/", "cross-site", "image", here), "no frame");
    assert!(refuses(&Guard::Framed, "/", "same-site", "iframe", "evil.test:6375"), "DNS rebinding");
    assert!(refuses(&Guard::Local, "/", "same-site", "iframe", here));
}

#[test]
fn sec_09_nothing_that_is_answered_is_taken_for_something_else() {
    for answer in [ok(&"<script>"), problem(StatusCode::NOT_FOUND, "no", "<script>")] {
        assert_eq!(answer.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    }
}

#[tokio::test]
async fn a_problem_has_a_stable_type_beside_title_status_and_detail() {
    let kinds = [
        (400, "invalid-request"),
        (401, "unauthorized"),
        (403, "forbidden"),
        (404, "not-found"),
        (405, "method-not-allowed"),
        (408, "request-timeout"),
        (409, "conflict"),
        (413, "content-too-large"),
        (500, "internal-error"),
        (503, "unavailable"),
    ];
    for (status, kind) in kinds {
        let answer = problem(StatusCode::from_u16(status).unwrap(), "title", "detail");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let expected = serde_json::json!({
            "type": format!("urn:nephila:problem:{kind}"), "title": "title", "status": status, "detail": "detail",
        });
        assert_eq!(body, expected);
    }
}

#[test]
fn a_text_with_slashes_is_one_part_of_a_path() {
    for text in ["192.0.2.0/24", "http://a.test/?q=1&b=%2F", "caf\u{e9} + 1"] {
        assert!(!escaped(text).contains('/'));
        assert_eq!(unescaped(&escaped(text)), text);
    }
}

#[test]
fn only_the_whole_token_is_the_token() {
    let (token, nodes) = ("secret".into(), "among nodes".into());
    let guard = Guard::Token { token, nodes, reads: None, node: "one".into(), once: Arc::default() };
    let status = |value: Option<&'static str>| {
        let mut headers = HeaderMap::new();
        if let Some(value) = value {
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
        }
        guard.refuses("/api/v1/jobs", &headers).map(|answer| answer.status().as_u16())
    };
    assert_eq!(status(Some("Bearer secret")), None);
    for wrong in ["Bearer secre", "Bearer secretx", "Bearer ", "secret", "Bearer Secret"] {
        assert_eq!(status(Some(wrong)), Some(401), "{wrong}");
    }
    assert_eq!(status(None), Some(401));
    // Probes have none, and learn no more than that.
    let refuses = |path: &str| guard.refuses(path, &HeaderMap::new()).is_some();
    assert!(!refuses("/livez") && !refuses("/readyz"));
    assert!(refuses("/livez/") && refuses("/api/v1/node") && refuses("/"));
}
