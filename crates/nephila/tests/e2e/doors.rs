//! Access control by the real command: how a private address is opened, the permissions of a crawl's folder, and the
//! destinations of secrets.

// Only a typed URL opens an address.
mod typed;
// Permissions of written files, and no secrets among them.
mod written;
// Names and passwords, and to whom they are sent.
mod passwords;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
/// Maximum size of a head in bytes.
const HEAD_BYTES_MAX: u64 = 64 * 1024;
/// Read timeout of a client that sends nothing.
const READ_MAX: Duration = Duration::from_secs(5);

/// One request as seen by the site.
#[derive(Clone, Debug)]
struct Asked {
    path: String,
    /// In lower case.
    fields: BTreeMap<String, String>,
    at: Instant,
}

impl Asked {
    fn authorization(&self) -> Option<&str> {
        self.fields.get("authorization").map(String::as_str)
    }
}

/// A site on loopback that records its requests.
struct Site {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Site {
    /// Answers each request with the status line, fields and body that are given; no field ends a body.
    fn start(answer: impl Fn(&Asked) -> (String, String) + Send + Sync + 'static) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, seen) = (Arc::new(answer), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, seen) = (answer.clone(), seen.clone());
                // A client that goes away is no trouble of ours.
                std::thread::spawn(move || serve(stream, &*answer, &seen));
            }
        });
        Site { port, asked }
    }

    /// A site of one page, without rules.
    fn plain(body: &'static str) -> Site {
        Site::start(move |asked| match asked.path.as_str() {
            "/robots.txt" => status("404 Not Found"),
            _ => page(body),
        })
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The number of requests for a path.
    fn count(&self, path: &str) -> usize {
        self.asked().iter().filter(|asked| asked.path == path).count()
    }
}

/// An answer without a body.
fn status(line: &str) -> (String, String) {
    (format!("{line}\r\nContent-Type: text/plain\r\n"), "no".into())
}

/// A page.
fn page(body: &str) -> (String, String) {
    ("200 OK\r\nContent-Type: text/html\r\n".into(), body.into())
}

fn serve(
    stream: TcpStream,
    answer: &(dyn Fn(&Asked) -> (String, String) + Send + Sync),
    seen: &Mutex<Vec<Asked>>,
) -> Option<()> {
    stream.set_read_timeout(Some(READ_MAX)).ok()?;
    let mut lines = BufReader::new(stream.try_clone().ok()?.take(HEAD_BYTES_MAX)).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut fields = BTreeMap::new();
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        fields.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let asked = Asked { path, fields, at: Instant::now() };
    seen.lock().unwrap().push(asked.clone());
    let (head, body) = answer(&asked);
    let text = format!("HTTP/1.1 {head}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    (&stream).write_all(text.as_bytes()).ok()
}

/// The command in this folder, with no settings of the machine.
fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).current_dir(dir).env("HOME", dir).env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NEPHILA_CONFIG"] {
        command.env_remove(name);
    }
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().expect("the command runs")
}

/// `nephila crawl` with no rests: the site is the test's own.
fn crawl(dir: &Path, args: &[&str]) -> Output {
    run(dir, &[&["crawl", "-q", "--delay", "0s", "--set", "frontier.slot_delay=0s"], args].concat())
}

fn complaints(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
