//! Sessions of browsers: `POST`, `GET` and `DELETE /api/v1/session`.
//!
//! A page sends the token once and gets a cookie that scripts cannot read. Its other requests carry the cookie; requests
//! that change something also need the marks of our own origin (`guard`).

use http::StatusCode;
use http::header;
use nephila_core::time::Timestamp;
use nephila_engine::settings::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::guard::{Asker, Who, seconds};
use super::operation::{Operation, Verb, change, get};
use super::problem::{HttpAnswer, ok, problem, reply};
use super::question::HttpQuestion;
use super::routes::{Route, route};

/// `POST /api/v1/session`.
pub static BEGIN: Operation = change(
    Verb::Post,
    Role::Read,
    "beginSession",
    "/api/v1/session",
    "Begins the session of a browser with the token in `Authorization`: a cookie with the role of the token, for 12 hours.",
)
.tag("access")
.gives::<SessionView>();
/// `GET /api/v1/session`.
pub static SHOW: Operation =
    get("getSession", "/api/v1/session", "Says how the client is known, and what its role permits.")
        .tag("access")
        .gives::<SessionView>();
/// `DELETE /api/v1/session`.
pub static END: Operation = change(
    Verb::Delete,
    Role::Read,
    "endSession",
    "/api/v1/session",
    "Ends the session of the cookie at this node, and removes the cookie.",
)
.tag("access")
.status(204);

/// How a client is known.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct SessionView {
    /// Name of the token; empty where no token is needed.
    pub name: String,
    /// `read`, `operate` or `admin`.
    pub role: String,
    /// `token`, `session`, or `machine` where no token is needed.
    pub by: String,
    /// End of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl SessionView {
    fn of(asker: &Asker, until: Option<u64>) -> SessionView {
        let by = match asker.who {
            Who::Anyone => "machine",
            Who::Token(_) | Who::Node(_) => "token",
            Who::Session(_) => "session",
        };
        let role = asker.role.unwrap_or(Role::Read).name().to_owned();
        let date = |until| Timestamp::from_secs(until).warc_date();
        SessionView { name: asker.name().to_owned(), role, by: by.to_owned(), until: until.map(date) }
    }
}

/// The operations of a server of any kind.
pub fn routes<H: Sync>() -> [Route<H>; 3] {
    [
        route(&BEGIN, |_, asked| Box::pin(async move { begin(&asked) })),
        route(&SHOW, |_, asked| Box::pin(async move { show(&asked) })),
        route(&END, |_, asked| Box::pin(async move { end(&asked) })),
    ]
}

fn begin(asked: &HttpQuestion) -> HttpAnswer {
    let asker = asked.asker.as_deref();
    let Some((asker, keys)) = asker.and_then(|asker| Some((asker, asker.keys.as_ref()?))) else {
        let detail = "no token is set here: every request of this machine is answered";
        return problem(StatusCode::NOT_FOUND, "sessions are not needed", detail);
    };
    let Who::Token(index) = asker.who else {
        let detail = "send `Authorization: Bearer TOKEN`: a session begins with a token";
        return problem(StatusCode::FORBIDDEN, "a session needs a token", detail);
    };
    let (cookie, until) = keys.tokens.begin(index, asked.is_tls, seconds());
    let mut answer = ok(&SessionView { by: "session".to_owned(), ..SessionView::of(asker, Some(until)) });
    answer.headers_mut().insert(header::SET_COOKIE, cookie);
    without_store(answer)
}

fn show(asked: &HttpQuestion) -> HttpAnswer {
    let Some(asker) = &asked.asker else {
        return problem(
            StatusCode::NOT_FOUND,
            "there is no client",
            "the request came from the server itself",
        );
    };
    let until = match &asker.who {
        Who::Session(session) => Some(session.until),
        _ => None,
    };
    without_store(ok(&SessionView::of(asker, until)))
}

fn end(asked: &HttpQuestion) -> HttpAnswer {
    let mut answer = reply(StatusCode::NO_CONTENT, "application/json", Vec::new());
    answer.headers_mut().remove(header::CONTENT_TYPE);
    let asker = asked.asker.as_deref();
    if let Some(Asker { who: Who::Session(session), keys: Some(keys), .. }) = asker {
        let cookie = keys.tokens.end(session, asked.is_tls, seconds());
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    without_store(answer)
}

/// The answer, which no cache keeps.
fn without_store(mut answer: HttpAnswer) -> HttpAnswer {
    answer.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    answer
}
