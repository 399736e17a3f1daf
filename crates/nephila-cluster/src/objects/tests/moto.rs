//! An S3 server on loopback: moto, from PyPI. For tests only; all objects are in memory.
//!
//! Invariants: no server outlives its value, and each is ended by its own process id.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use object_store::aws::AmazonS3Builder;

use crate::objects::Objects;
use nephila_engine::settings::Cluster;

/// Maximum time until the server answers, on a busy machine.
const READY_WAIT: Duration = Duration::from_secs(90);
const BUCKET: &str = "nephila";

/// A running server with one bucket.
#[derive(Debug)]
pub(crate) struct Moto {
    port: u16,
    child: Option<Child>,
}

/// The program that `.ci/run` installed, or the one in `NEPHILA_MOTO_SERVER`.
fn program() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("NEPHILA_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("nephila")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/nephila")));
    let installed = cache.map(|cache| cache.join("moto/bin/moto_server"));
    let program = variable("NEPHILA_MOTO_SERVER").or(installed).filter(|program| program.is_file());
    program.expect(
        "moto_server is missing. `.ci/run` installs it; by hand: python3 -m venv ~/.cache/nephila/moto && \
         ~/.cache/nephila/moto/bin/pip install 'moto[server]', or name one with NEPHILA_MOTO_SERVER",
    )
}

impl Moto {
    /// Starts a server with an empty bucket.
    pub(crate) fn start() -> Moto {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut moto = Moto { port, child: None };
        moto.restart();
        moto
    }

    /// Ends the server; all objects are lost.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Starts a new server with an empty bucket.
    pub(crate) fn restart(&mut self) {
        let port = self.port.to_string();
        let mut command = Command::new(program());
        command.args(["-H", "127.0.0.1", "-p", &port]).stdin(Stdio::null()).stdout(Stdio::null());
        self.child = Some(command.stderr(Stdio::null()).spawn().unwrap());
        let end = Instant::now() + READY_WAIT;
        while !self.make_bucket() {
            assert!(Instant::now() < end, "moto_server does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn make_bucket(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) else { return false };
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let request = format!("PUT /{BUCKET} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
        let mut answer = String::new();
        stream.write_all(request.as_bytes()).is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.lines().next().is_some_and(|line| line.contains(" 200 "))
    }

    /// Settings that lead to the bucket.
    pub(crate) fn settings(&self) -> Cluster {
        Cluster {
            objects: format!("s3://{BUCKET}/some/where"),
            objects_endpoint: format!("http://127.0.0.1:{}", self.port),
            objects_region: "us-east-1".into(),
            objects_http: true,
            ..Cluster::default()
        }
    }

    /// The bucket.
    pub(crate) fn objects(&self) -> Objects {
        let who = AmazonS3Builder::new().with_access_key_id("test").with_secret_access_key("test");
        Objects::open_as(&self.settings(), who).unwrap().unwrap()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.kill();
    }
}
