//! Servers of the API for `api-fuzz` and `api-load`: a crawl, an archive alone, a node of a cluster; and their tokens.
//!
//! Invariant: servers and the web end with their values.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nephila_testnats::Nats;
use serde_json::json;

use crate::programs::Programs;
use crate::watched::{Answering, Site};

/// Roles, each with a token `ROLE-token`.
const ROLES: [&str; 3] = ["read", "operate", "admin"];
/// The token of administrators.
pub(crate) const ADMIN: &str = "admin-token";
/// The token of readers.
pub(crate) const READER: &str = "read-token";
/// Requests per second of a token: more than the commands send.
const PER_SECOND: u32 = 100_000;
/// Time until a server answers, and until a node holds its partitions.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Interval at which a node is asked whether it is ready.
const START_EVERY: Duration = Duration::from_millis(300);
/// Timeout of an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Folder of the servers, with the tokens.
pub(crate) struct Place<'a> {
    programs: &'a Programs,
    site: &'a Site,
    folder: &'a Path,
}

impl<'a> Place<'a> {
    /// Writes the tokens.
    pub(crate) fn new(programs: &'a Programs, site: &'a Site, folder: &'a Path) -> Result<Place<'a>> {
        for role in ROLES {
            std::fs::write(folder.join(role), format!("{role}-token\n"))?;
        }
        std::fs::write(folder.join("nodes"), "among-nodes\n")?;
        Ok(Place { programs, site, folder })
    }

    /// The folder of the crawl.
    fn dir(&self) -> PathBuf {
        self.folder.join("crawl")
    }

    /// Settings with a token for each role.
    fn tokens(&self) -> String {
        let one = |role: &&str| {
            let file = self.folder.join(role);
            format!("{{name=\"{role}\", file={file:?}, role=\"{role}\", per_second={PER_SECOND}}}")
        };
        format!("api.tokens=[{}]", ROLES.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    fn start(&self, name: &str, words: &[&str], settings: Vec<String>) -> Result<Answering> {
        let address = Answering::free_address()?;
        let mut args: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        args.extend(["--config".to_owned(), "/dev/null".to_owned()]);
        match words[0] {
            "crawl" => args.extend(["--listen".to_owned(), address.to_string()]),
            _ => args.extend(["--set".to_owned(), format!("api.listen={address}")]),
        }
        args.extend(settings.into_iter().flat_map(|set| ["--set".to_owned(), set]));
        let said = self.folder.join(format!("{name}.log"));
        let mut server = Answering::start(self.programs.path("nephila")?, &args, said, address)?;
        server.wait(START_LIMIT)?;
        Ok(server)
    }

    /// A crawl of the web on this machine, into a folder of this name, with this delay and these settings.
    pub(crate) fn crawl(&self, name: &str, delay: &str, more: &[String]) -> Result<Answering> {
        let dir = self.folder.join(name).display().to_string();
        let words = ["crawl", self.site.home()?, "--scope", "any", "-d", "255", "--delay", delay, "-o", &dir];
        let mut settings = self.site.settings(&[])?;
        settings.push(self.tokens());
        settings.extend(more.iter().cloned());
        self.start(name, &words, settings)
    }

    /// An archive alone: the folder of the crawl, without tokens.
    pub(crate) fn archive(&self) -> Result<Answering> {
        let dir = self.dir().display().to_string();
        self.start("archive", &["serve", "--read-only", "-o", &dir], Vec::new())
    }

    /// A node of a cluster that crawls the same web.
    pub(crate) fn node(&self, nats: &Nats) -> Result<Answering> {
        let dir = self.folder.join("node").display().to_string();
        let mut settings = self.site.settings(&[])?;
        settings.push(self.tokens());
        settings.push(format!("api.node_token_file={}", self.folder.join("nodes").display()));
        settings.push(format!("cluster.servers=[\"{}\"]", nats.urls()[0]));
        let of_cluster = ["replicas=1", "streams=2", "partitions=4", "events=true"];
        settings.extend(of_cluster.map(|set| format!("cluster.{set}")));
        settings.push("frontier.host_delay=1s".to_owned());
        let node = self.start("node", &["serve", "-o", &dir, "--node", "one"], settings)?;
        let end = Instant::now() + START_LIMIT;
        while ask(node.address(), "GET", "/readyz", "")?.0 != 200 {
            ensure!(Instant::now() < end, "the node does not become ready; it said:\n{}", node.said());
            std::thread::sleep(START_EVERY);
        }
        let job = json!({"name": "news", "scope": {"kind": "any", "seeds": [self.site.home()?]}});
        let (status, body) = ask(node.address(), "POST", "/api/v1/jobs", &job.to_string())?;
        ensure!(status == 201, "the job was answered with {status}: {body}");
        Ok(node)
    }
}

/// One request of an administrator.
pub(crate) fn ask(address: SocketAddr, method: &str, target: &str, body: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT).context("connect to the API")?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {ADMIN}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("read an answer of the API")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no end of the head")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
    Ok((status, body.to_owned()))
}
