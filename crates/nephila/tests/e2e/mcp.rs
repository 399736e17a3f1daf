//! Tools for language models: `nephila mcp` over a folder, by messages that are written by hand.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::alone::{run, text};
use super::site::{PROGRAM, Site};

/// A server that speaks on its standard input and output.
struct Tools {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    number: u64,
}

impl Tools {
    fn start(dir: &Path) -> Tools {
        let mut command = Command::new(PROGRAM);
        command.args(["mcp", "-o", "data"]).current_dir(dir).env("HOME", dir).env_remove("NEPHILA_CONFIG");
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = piped.spawn().expect("it starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        let mut tools = Tools { child, input, output: BufReader::new(output), number: 0 };
        let client = json!({"name": "by hand", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let said = tools.ask("initialize", hello);
        assert_eq!(said["result"]["serverInfo"]["name"], "nephila", "{said}");
        tools.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        tools
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{message}").and_then(|()| input.flush()).expect("it reads");
    }

    /// Sends a request. Every line until the answer has to be a message.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let number = self.number;
        self.send(&json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).expect("it answers") > 0, "it has ended");
            let message: Value = serde_json::from_str(&line).expect(&line);
            if message["id"] == number {
                return message;
            }
        }
    }

    /// The result of a tool.
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let said = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        said["result"].clone()
    }

    /// The name of the error of a tool.
    fn error(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["structuredContent"]["error"].as_str().expect("it has a name").to_owned()
    }
}

#[test]
fn a_folder_without_a_crawl_is_searched_read_and_explained_and_nothing_else() {
    let (site, dir) = (Site::start(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", site.port);
    let crawled = run(dir, &["crawl", &url("/p0"), "-o", "data", "--delay", "0s", "--scope", "host", "-q"]);
    assert_eq!(crawled.status.code(), Some(0), "{}", text(&crawled));
    let asked = site.asked();

    let mut tools = Tools::start(dir);
    let listed = tools.ask("tools/list", json!({}));
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(
        names,
        ["scrape", "read", "map", "crawl", "crawl_status", "search", "explain", "status"],
        "{listed}"
    );

    // The title of each page is its own address.
    let found = tools.call("search", json!({"query": "/p3"}));
    let said = &found["structuredContent"];
    assert_eq!(said["hits"].as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!(said["hits"][0]["url"], url("/p3"));
    assert!(said["note"].as_str().is_some_and(|note| note.contains("third parties")), "{found}");
    let page = tools.call("read", json!({"url": url("/p3")}));
    assert_eq!(page["structuredContent"]["title"], format!("127.0.0.1:{}/p3", site.port), "{page}");
    let why = tools.call("explain", json!({"url": url("/p3")}));
    assert_eq!(why["structuredContent"]["summary"], "fetched", "{why}");
    assert_eq!(tools.call("status", json!({}))["structuredContent"]["state"], "archive");

    assert_eq!(tools.error("search", json!({"words": "x"})), "invalid-arguments");
    assert_eq!(tools.error("search", json!({"query": ""})), "invalid-request");
    assert_eq!(tools.error("read", json!({"url": url("/never")})), "not-found");
    assert_eq!(tools.error("scrape", json!({"url": url("/never")})), "unavailable");
    assert_eq!(site.asked(), asked, "no request to the site");
    // The folder is free while the tools are open.
    let again = run(dir, &["crawl", &url("/p0"), "-o", "data", "--delay", "0s", "--scope", "host", "-q"]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again));

    drop(tools.input.take());
    assert_eq!(tools.child.wait().unwrap().code(), Some(0), "the end of the input is the end");
}
