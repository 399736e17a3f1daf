//! The files of the public pages, and the header fields of every public answer.
//!
//! The files are those of the dashboard ([`crate::dashboard`]); a proxy that passes `/public/` alone passes
//! all that the pages need.

use http::StatusCode;
use http::header::{self, HeaderName, HeaderValue};

use crate::dashboard;
use crate::problem::{HttpAnswer, problem};
use crate::question::HttpQuestion;

/// The page of every subject.
const SHELL: &str = "public.html";
/// The page instead, for a link that opens nothing.
const CLOSED: &str = "public-closed.html";
/// The files that both pages load.
pub(super) const FILES: [&str; 7] =
    ["public.js", "gaps.js", "dom.js", "format.js", "parts.js", "table.js", "style.css"];

/// Sets the header fields of a public answer: no search engine lists it, no other site learns its address, no cache
/// keeps it.
pub(super) fn guarded(mut answer: HttpAnswer) -> HttpAnswer {
    let fields = answer.headers_mut();
    fields.insert(HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex, nofollow"));
    fields.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// The page.
pub(super) fn shell(asked: &HttpQuestion) -> HttpAnswer {
    guarded(dashboard::file(SHELL, asked))
}

/// The answer to a link that opens nothing. Why, it does not say. People get a page.
pub(super) fn closed(asked: &HttpQuestion, is_page: bool) -> HttpAnswer {
    let is_person = asked.field(header::ACCEPT.as_str()).is_some_and(|types| types.contains("text/html"));
    if is_page && is_person {
        let mut answer = dashboard::file(CLOSED, asked);
        *answer.status_mut() = StatusCode::NOT_FOUND;
        return guarded(answer);
    }
    let detail = "this link opens nothing, or nothing any more: ask for a new one";
    guarded(problem(StatusCode::NOT_FOUND, "not found", detail))
}

/// A file of the pages.
pub(super) fn file(name: &str, asked: &HttpQuestion) -> HttpAnswer {
    match FILES.contains(&name) {
        true => dashboard::file(name, asked),
        false => closed(asked, false),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::{HeaderMap, Method};
    use http_body_util::BodyExt as _;

    use super::*;

    async fn text_of(name: &str) -> String {
        let asked = HttpQuestion::new(Method::GET, "/", HeaderMap::new(), false);
        let body = dashboard::file(name, &asked).into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn the_pages_need_no_file_that_is_not_theirs() {
        let mut named: BTreeSet<String> = BTreeSet::new();
        for page in [SHELL, CLOSED] {
            let text = text_of(page).await;
            for part in text.split("=\"").skip(1).filter_map(|part| part.split('"').next()) {
                assert!(!part.starts_with("http") && !part.starts_with("//"), "{page}: {part}");
                named.extend(part.strip_prefix("../ui/").map(str::to_owned));
            }
        }
        for file in FILES.iter().filter(|file| file.ends_with(".js")) {
            let text = text_of(file).await;
            for part in text.split(" from '").skip(1).filter_map(|part| part.split('\'').next()) {
                named.extend(part.strip_prefix("./").map(str::to_owned));
            }
            assert!(!text.contains("import("), "{file}");
        }
        assert_eq!(named, FILES.iter().map(|file| (*file).to_owned()).collect());
    }
}
