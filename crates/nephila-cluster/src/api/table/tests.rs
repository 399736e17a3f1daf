//! Roles of all operations of a node, asked for through a real server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use nephila_api::{Answers, Guard, Keys, Token, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Has the operations of a node, without a cluster.
struct Empty;

static EMPTY: LazyLock<Routes<Empty>> = LazyLock::new(|| {
    let operations = ROUTES.operations();
    Routes::new(
        "empty",
        operations.map(|operation| route(operation, |_, _| Box::pin(async { ok(&"answered") }))),
    )
});

impl Answers for Empty {
    fn routes() -> &'static Routes<Empty> {
        &EMPTY
    }
}

/// A request for an operation, with all required parameters.
fn target(operation: &Operation) -> String {
    let parts = operation.path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
    let path = parts.collect::<Vec<_>>().join("/");
    let required = operation.parameters.iter().filter(|parameter| parameter.is_required);
    let values = required.filter(|parameter| !operation.path.contains(&format!("{{{}}}", parameter.name)));
    let values: Vec<String> = values.map(|parameter| format!("{}=1", parameter.name)).collect();
    format!("{path}?{}", values.join("&"))
}

async fn ask(address: std::net::SocketAddr, operation: &Operation, token: &str) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{} {} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        operation.verb.name(),
        target(operation)
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(Duration::from_secs(20), read).await.unwrap().unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn sec_04_each_role_may_do_what_the_table_says_and_nothing_else() {
    let token = |role: Role| Token {
        name: role.name().into(),
        secret: role.name().into(),
        role,
        per_second: 100_000,
    };
    let keys = Keys::new(Role::ALL.map(token), "nodes".into(), "one");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(serve(listener, Arc::new(Empty), Guard::Token(Arc::new(keys)), None, 64));
    let mut permitted: BTreeMap<Role, usize> = BTreeMap::new();
    for operation in ROUTES.operations() {
        let expected = if operation.role.is_none() { 200 } else { 401 };
        assert_eq!(ask(address, operation, "nobody").await, expected, "{}", operation.id);
        for role in Role::ALL {
            let may = operation.role.is_none_or(|needed| role >= needed);
            let status = ask(address, operation, role.name()).await;
            assert_eq!(status, if may { 200 } else { 403 }, "{} {role:?}", operation.id);
            *permitted.entry(role).or_default() += usize::from(may);
        }
    }
    server.abort();
    let [read, operate, admin] = Role::ALL.map(|role| permitted[&role]);
    assert!(read < operate && operate < admin && admin == ROUTES.operations().count(), "{permitted:?}");
}

#[test]
fn names_are_unique_and_what_changes_something_is_not_for_readers() {
    let names: BTreeSet<&str> = ROUTES.operations().map(|operation| operation.id).collect();
    let places = ROUTES.operations().map(|operation| (operation.verb, operation.path));
    assert_eq!(names.len(), ROUTES.operations().count());
    assert_eq!(names.len(), places.collect::<BTreeSet<_>>().len());
    let changes = ROUTES.operations().filter(|it| it.verb != Verb::Get && it.tag != "access");
    // A test of rules and a map have a body and change nothing.
    for operation in changes.filter(|it| !["testScope", "mapSite"].contains(&it.id)) {
        assert!(operation.role > Some(Role::Read), "{}", operation.id);
    }
}
