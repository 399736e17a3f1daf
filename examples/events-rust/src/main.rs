//! Follows the events of a crawl, and goes on where it was when it is started again.
//!
//! `events-rust FOLDER` runs `nephila log -f` on the crawl in that folder (`NEPHILA` names another program); further
//! arguments go to it, such as `--kind story` or `--node http://127.0.0.1:6374`. It prints a line for each event: id, time,
//! kind, URL or host. How far it came stands in `./position` (or `STATE`): the last position, and the ids of what came behind
//! it, so that what comes again after it was killed is known again.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde::Deserialize;

/// A line, as far as this program cares.
#[derive(Deserialize)]
struct Line {
    kind: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    at: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    host: String,
    #[serde(default)]
    position: String,
}

/// A new position, as a whole or not at all; ids are added to the file that this gives.
fn begin(state: &str, position: &str) -> io::Result<File> {
    let new = format!("{state}.new");
    std::fs::write(&new, format!("{position}\n"))?;
    std::fs::rename(&new, state)?;
    OpenOptions::new().append(true).open(state)
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or_else(|| io::Error::other("which folder?"))?;
    let path = std::env::var("STATE").unwrap_or_else(|_| "position".to_owned());
    if !std::fs::exists(&path)? {
        begin(&path, "beginning")?;
    }
    let kept = std::fs::read_to_string(&path)?;
    let mut kept = kept.lines().map(str::to_owned);
    let position = kept.next().unwrap_or_default();
    let mut seen: BTreeSet<String> = kept.collect();
    let mut state = OpenOptions::new().append(true).open(&path)?;

    let program = std::env::var("NEPHILA").unwrap_or_else(|_| "nephila".to_owned());
    let mut child = Command::new(program)
        .args(["log", "-f", "-o", &folder, "--from", &position])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()?;
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line: Line = serde_json::from_str(&line?)?;
        if line.kind == "position" {
            // Everything before it is done, and does not come again.
            seen.clear();
            state = begin(&path, &line.position)?;
        } else if seen.insert(line.id.clone()) {
            // Do what you have to do here. Killed between this and the next line, you do it twice: if that matters, write the
            // id down in the same transaction.
            let what = if line.url.is_empty() { &line.host } else { &line.url };
            writeln!(io::stdout(), "{} {} {} {what}", line.id, line.at, line.kind)?;
            // In one piece: half an id would spoil the one that is written behind it.
            state.write_all(format!("{}\n", line.id).as_bytes())?;
        }
    }
    child.wait().map(|_| ())
}
