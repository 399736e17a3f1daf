//! Answers that no connection brought, in the form of a fetch.

use bytes::Bytes;
use http::Response;
use nephila_core::spider::answer::{judge, retry_after};
use nephila_core::store::Exchange;
use sha1::{Digest, Sha1};

use super::receive::h2_response_head;
use super::{Request, now};
use crate::body::Body;
use crate::fetched::Fetched;

impl Fetched {
    /// An answer that no connection brought: from an archive, a cache, a browser or a test. Status and header fields
    /// have the same meaning as for the spider. The body has no content coding; size limits are left to the caller.
    pub fn answered(request: &Request, response: Response<Bytes>) -> Self {
        let (parts, body) = response.into_parts();
        let answer = judge(request.asked(), &request.url, parts.status.as_u16(), &parts.headers);
        let mut fetched = Fetched::not_sent(answer.outcome, String::new());
        (fetched.status, fetched.redirect) = (Some(parts.status.as_u16()), answer.redirect);
        (fetched.body_bytes, fetched.decoded_bytes) = (body.len() as u64, body.len() as u64);
        let response_head = h2_response_head(parts.status, &parts.headers);
        (fetched.fields, fetched.head_bytes) = (parts.headers, response_head.len() as u64);
        fetched.retry_after = retry_after(&fetched.fields, now());
        fetched.sha1 = request.keep.sha1.then(|| Sha1::digest(&body).into());
        let body = Body::from(body);
        if request.keep.exchange && answer.keep {
            let request_head = format!(
                "GET {} HTTP/1.1\r\nhost: {}\r\n\r\n",
                request.url.path_and_query(),
                request.url.host_str()
            );
            fetched.exchange = Some(Exchange {
                url: request.url.as_str().to_owned(),
                started: now(),
                elapsed_ms: 0,
                address: None,
                protocols: vec!["http/1.1"],
                request_head: request_head.into(),
                response_head: response_head.into(),
                body: Box::new(body.clone()),
                truncated: None,
                notes: [("outcome", answer.outcome.name())].into(),
                text: "".into(),
                media: None,
            });
        }
        fetched.decoded = (request.keep.decoded && answer.keep).then_some(body);
        fetched
    }
}

#[cfg(test)]
mod tests {
    use nephila_core::spider::Outcome;
    use nephila_core::url::CrawlUrl;

    use super::*;

    #[test]
    fn an_answer_from_elsewhere_means_the_same_as_one_from_a_connection() {
        let mut request = Request::get(CrawlUrl::parse("http://a.test/x?y").unwrap());
        request.keep = crate::Keep { exchange: true, decoded: true, sha1: true };
        let answer = |status: u16, location: &str| {
            let response = Response::builder().status(status).header("location", location);
            Fetched::answered(&request, response.body(Bytes::from_static(b"abc")).unwrap())
        };
        let page = answer(200, "");
        assert_eq!((page.outcome, page.status, page.body_bytes), (Outcome::Fetched, Some(200), 3));
        assert_eq!(&page.decoded.unwrap().start(9).unwrap()[..], b"abc");
        let exchange = page.exchange.unwrap();
        assert!(exchange.request_head.starts_with(b"GET /x?y HTTP/1.1\r\nhost: a.test\r\n"));
        assert!(exchange.response_head.starts_with(b"HTTP/1.1 200 OK\r\n"));
        let moved = answer(302, "/z");
        assert_eq!((moved.outcome, moved.redirect.unwrap().as_str()), (Outcome::Redirect, "http://a.test/z"));
        assert_eq!(answer(404, "").outcome, Outcome::of_status(404));
        assert_eq!(answer(304, "").outcome, Outcome::UnexpectedNotModified);
    }
}
