//! Which operation a request asks for, and the handler that answers: one table for each kind of server.
//!
//! A server lists its operations once ([`Answers::routes`]). From this list come the routing with its problems (404, and
//! 405 with `Allow`), the check of roles and parameters, lists as JSON lines, and the OpenAPI document.
//!
//! Invariants: each operation of a table has a handler, and no two have the same method and path; a handler runs only
//! for a request whose parameters are as the operation describes them.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};
use nephila_engine::settings::Role;

use super::document::{self, Access};
use super::hub::Live;
use super::lines;
use super::metrics::Family;
use super::operation::{Operation, Verb};
use super::problem::{HttpAnswer, problem, reply};
use super::question::HttpQuestion;
use super::times::{RouteId, Times};

/// An answer that comes later.
pub type Later<'a> = Pin<Box<dyn Future<Output = HttpAnswer> + Send + 'a>>;

/// A handler of an operation.
pub type Handler<H> = for<'a> fn(&'a H, HttpQuestion) -> Later<'a>;

/// An operation and its handler.
pub struct Route<H> {
    /// The operation.
    pub operation: &'static Operation,
    /// Answers a request for the operation.
    pub handler: Handler<H>,
}

/// An operation of a server, with its handler: `|server, asked| Box::pin(async move { … })`.
pub fn route<H>(operation: &'static Operation, handler: Handler<H>) -> Route<H> {
    Route { operation, handler }
}

/// All operations of a kind of server.
pub struct Routes<H> {
    /// What the server does, for the document.
    title: &'static str,
    routes: Vec<Route<H>>,
    /// The documents, by [`Access`].
    documents: [OnceLock<Bytes>; Access::ALL.len()],
    times: Times,
}

impl<H> fmt::Debug for Routes<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Routes({}, {} operations)", self.title, self.routes.len())
    }
}

/// Result of a search.
pub enum Found<'a, H> {
    /// The operation, and the parts of the path.
    Route(&'a Route<H>, Vec<(&'static str, String)>),
    /// The path has other methods.
    OtherMethods(Vec<&'static Operation>),
    /// No operation has this path.
    Nothing,
}

impl<H: Send + Sync> Routes<H> {
    /// A table. The most specific path comes first where two templates match the same path.
    pub fn new(title: &'static str, routes: impl IntoIterator<Item = Route<H>>) -> Routes<H> {
        let routes: Vec<Route<H>> = routes.into_iter().collect();
        let times = Times::new(routes.iter().map(|route| route.operation.path));
        Routes { title, routes, documents: Default::default(), times }
    }

    /// All operations.
    pub fn operations(&self) -> impl Iterator<Item = &'static Operation> {
        self.routes.iter().map(|route| route.operation)
    }

    /// Finds the operation of a request.
    pub fn find(&self, method: &Method, path: &str) -> Found<'_, H> {
        let (verb, mut others) = (Verb::of(method), Vec::new());
        let mut template = None;
        for route in &self.routes {
            // Only operations of one template share a path: `{*rest}` does not widen another operation's methods.
            if template.is_some_and(|template| template != route.operation.path) {
                continue;
            }
            let Some(parts) = route.operation.matches(path) else { continue };
            if Some(route.operation.verb) == verb {
                return Found::Route(route, parts);
            }
            template = Some(route.operation.path);
            others.push(route.operation);
        }
        if others.is_empty() { Found::Nothing } else { Found::OtherMethods(others) }
    }

    /// The role that a request needs; none if it needs no token. An unknown path needs the least role.
    pub fn role(&self, method: &Method, path: &str) -> Option<Role> {
        self.place(method, path).0
    }

    /// The role that a request needs, and the route under which its answer is counted.
    pub(super) fn place(&self, method: &Method, path: &str) -> (Option<Role>, RouteId) {
        let (role, template) = match self.find(method, path) {
            Found::Route(route, _) => (route.operation.role, Some(route.operation.path)),
            Found::OtherMethods(others) => (Some(Role::Read), others.first().map(|other| other.path)),
            Found::Nothing => (Some(Role::Read), None),
        };
        (role, self.times.route(template))
    }

    /// Counts an answer.
    pub(super) fn took(&self, route: RouteId, status: StatusCode, took: Duration) {
        self.times.add(route, status, took);
    }

    /// How long requests took, for `GET /metrics`.
    pub fn times(&self) -> Family {
        self.times.family()
    }

    /// Answers a request by the handler of its operation.
    pub async fn answer(&self, server: &H, mut asked: HttpQuestion) -> HttpAnswer {
        let route = match self.find(&asked.method, &asked.path) {
            Found::Route(route, parts) => {
                asked.parts = parts;
                route
            }
            Found::OtherMethods(others) => return other_methods(&asked, &others),
            Found::Nothing => {
                let detail = format!("{}: see /api/v1/openapi.json", asked.path);
                return problem(StatusCode::NOT_FOUND, "not found", detail);
            }
        };
        if let Err((title, detail)) = route.operation.check(&asked) {
            return problem(StatusCode::BAD_REQUEST, &title, detail);
        }
        let rows = route.operation.rows.filter(|_| lines::is_wanted(&asked));
        let answer = (route.handler)(server, asked).await;
        match rows {
            Some(field) if answer.status() == StatusCode::OK => lines::of(answer, field).await,
            _ => answer,
        }
    }

    /// The OpenAPI document of the table, for the server that was asked.
    pub fn document_for(&self, asked: &HttpQuestion) -> HttpAnswer {
        self.document(match &asked.asker {
            Some(asker) if asker.keys.is_none() => Access::Open,
            Some(_) if asked.is_tls => Access::TokensTls,
            Some(_) => Access::Tokens,
            None => Access::Either,
        })
    }

    /// The OpenAPI document of the table, for a server that needs this.
    pub fn document(&self, access: Access) -> HttpAnswer {
        let make = || document::document(self.title, access, self.operations()).to_string().into();
        let document = self.documents[access as usize].get_or_init(make).clone();
        reply(StatusCode::OK, "application/json", document)
    }
}

fn other_methods(asked: &HttpQuestion, others: &[&Operation]) -> HttpAnswer {
    let mut names: Vec<&str> = others.iter().map(|other| other.verb.name()).collect();
    if names.contains(&Verb::Get.name()) {
        names.push("HEAD");
    }
    let allow = names.join(", ");
    let detail = format!("{} {}: the path has {allow}", asked.method, asked.path);
    let mut answer = problem(StatusCode::METHOD_NOT_ALLOWED, "method not allowed", detail);
    let allow = HeaderValue::from_str(&allow).expect("names of methods are letters");
    answer.headers_mut().insert(header::ALLOW, allow);
    answer
}

/// A server of operations.
pub trait Answers: Send + Sync + Sized + 'static {
    /// The operations of this kind of server.
    fn routes() -> &'static Routes<Self>;

    /// What clients can follow; none if nothing changes here.
    fn live(self: &Arc<Self>) -> Option<Arc<dyn Live>> {
        None
    }

    /// Answers one request.
    fn answer(&self, asked: HttpQuestion) -> impl Future<Output = HttpAnswer> + Send {
        Self::routes().answer(self, asked)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http_body_util::BodyExt as _;

    use super::super::operation::{change, get, part};
    use super::super::problem::ok;
    use super::*;

    static LIST: Operation = get("listThings", "/things", "All.").rows("things");
    static ADD: Operation = change(Verb::Post, Role::Operate, "addThing", "/things", "Adds.");
    static ONE: Operation = get("getThing", "/things/{name}", "One.").with(&[part("name", "Its name.")]);
    static DROP: Operation = change(Verb::Delete, Role::Admin, "dropThing", "/things/{name}", "Drops.");
    static REST: Operation = get("rest", "/{*rest}", "Other paths.").open();

    fn routes() -> Routes<()> {
        Routes::new(
            "test",
            [
                route(&LIST, |(), _| {
                    Box::pin(async { ok(&serde_json::json!({"things": [1, 2], "next": "x"})) })
                }),
                route(&ADD, |(), _| Box::pin(async { ok(&"added") })),
                route(&ONE, |(), asked| Box::pin(async move { ok(&asked.part("name")) })),
                route(&DROP, |(), _| Box::pin(async { ok(&"dropped") })),
                route(&REST, |(), _| Box::pin(async { ok(&"rest") })),
            ],
        )
    }

    async fn ask(method: Method, target: &str, accept: &str) -> (u16, HeaderMap, String) {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(accept).unwrap())]);
        let answer = routes().answer(&(), HttpQuestion::new(method, target, headers, false)).await;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), head.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_request_goes_to_its_operation_and_another_method_is_named() {
        assert_eq!(ask(Method::GET, "/things/a%2Fb", "").await.2, "\"a/b\"");
        assert_eq!(ask(Method::HEAD, "/things/a", "").await.0, 200);
        assert_eq!(ask(Method::POST, "/things", "").await.2, "\"added\"");
        assert_eq!(ask(Method::GET, "/else/where", "").await.2, "\"rest\"");
        let (status, headers, _) = ask(Method::PATCH, "/things", "").await;
        assert_eq!((status, &headers[header::ALLOW]), (405, &HeaderValue::from_static("GET, POST, HEAD")));
        let (status, headers, _) = ask(Method::OPTIONS, "/things/x", "").await;
        assert_eq!((status, &headers[header::ALLOW]), (405, &HeaderValue::from_static("GET, DELETE, HEAD")));
        assert_eq!(ask(Method::GET, "/", "").await.0, 404);
    }

    #[tokio::test]
    async fn a_list_comes_as_lines_if_asked_for() {
        let (_, headers, body) = ask(Method::GET, "/things", "application/x-ndjson").await;
        assert_eq!(headers[header::CONTENT_TYPE], "application/x-ndjson");
        assert_eq!(body, "1\n2\n{\"next\":\"x\"}\n");
        assert_eq!(ask(Method::GET, "/things", "*/*").await.1[header::CONTENT_TYPE], "application/json");
    }

    #[test]
    fn the_role_comes_from_the_table() {
        let role = |method, path: &str| routes().role(&method, path);
        assert_eq!(role(Method::GET, "/things"), Some(Role::Read));
        assert_eq!(role(Method::POST, "/things"), Some(Role::Operate));
        assert_eq!(role(Method::DELETE, "/things/x"), Some(Role::Admin));
        assert_eq!(role(Method::GET, "/x/y"), None);
        assert_eq!(role(Method::PUT, "/things"), Some(Role::Read), "it is refused anyway");
    }
}
