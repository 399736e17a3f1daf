//! An S3 server on loopback (moto, from PyPI) behind a network that can fail: what is stored stays while nobody reaches it.
//!
//! Invariant: the server ends with its value.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nephila_testnats::Proxy;

use crate::watched::Answering;

/// Time until the server answers.
const START_LIMIT: Duration = Duration::from_secs(90);
/// Timeout of the request for the bucket.
const ASK_LIMIT: Duration = Duration::from_secs(10);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(100);
const BUCKET: &str = "nephila";

/// A running server with an empty bucket.
pub(super) struct Moto {
    child: Child,
    /// The network between the nodes and the server.
    pub(super) network: Proxy,
}

/// The program that `.ci/run` installed, or the one in `NEPHILA_MOTO_SERVER`.
fn program(cache: &Path) -> PathBuf {
    let named = std::env::var_os("NEPHILA_MOTO_SERVER").filter(|value| !value.is_empty());
    named.map_or_else(|| cache.join("moto/bin/moto_server"), PathBuf::from)
}

impl Moto {
    /// Starts the server and makes the bucket.
    pub(super) fn start(cache: &Path) -> Result<Moto> {
        let (program, address) = (program(cache), Answering::free_address()?);
        let network = Proxy::to(address)?;
        let mut command = Command::new(&program);
        command.args(["-H", "127.0.0.1", "-p", &address.port().to_string()]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| {
            format!("start {}: `.ci/run` installs it, or name one in NEPHILA_MOTO_SERVER", program.display())
        })?;
        let moto = Moto { child, network };
        let end = Instant::now() + START_LIMIT;
        while make_bucket(address.port()).is_err() {
            ensure!(Instant::now() < end, "moto_server does not answer");
            std::thread::sleep(LOOK);
        }
        Ok(moto)
    }

    /// Settings that lead to the bucket.
    pub(super) fn settings(&self) -> Vec<String> {
        vec![
            format!("cluster.objects=s3://{BUCKET}/alerts"),
            format!("cluster.objects_endpoint=http://{}", self.network.address()),
            "cluster.objects_http=true".to_owned(),
            "cluster.archive_upload=closed".to_owned(),
        ]
    }
}

fn make_bucket(port: u16) -> Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(ASK_LIMIT))?;
    write!(stream, "PUT /{BUCKET} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.lines().next().is_some_and(|line| line.contains(" 200 ")), "{answer}");
    Ok(())
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
