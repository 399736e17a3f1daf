//! Signed requests, as a site sees them, judged by an implementation of RFC 9421 that is not ours: `http-message-signatures`
//! from PyPI, which `.ci/run` installs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nephila_testweb::hostile::Seen;
use serde_json::{Value, json};

use crate::support::{Run, World};

/// Where our keys would be published.
const AGENT: &str = "https://crawler.example";

fn nephila(args: &[&str]) -> std::process::Output {
    let program = env!("CARGO_BIN_EXE_nephila");
    Command::new(program).args(args).env_remove("NEPHILA_CONFIG").output().expect("the command runs")
}

/// A key, made by the command.
struct Key {
    folder: tempfile::TempDir,
    id: String,
}

impl Key {
    fn new() -> Key {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        let made = nephila(&["identity", "key", file.to_str().unwrap(), "--config", "/dev/null"]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Key { folder, id: String::from_utf8(made.stdout).unwrap().trim().to_owned() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    fn sets(&self) -> [String; 2] {
        [format!("identity.key_file={}", self.file().display()), format!("identity.agent_url={AGENT}")]
    }

    fn on(&self, run: Run) -> Run {
        let [file, agent] = self.sets();
        run.set(file).set(agent)
    }

    fn directory(&self) -> Value {
        let [file, agent] = self.sets();
        let out =
            nephila(&["identity", "directory", "--config", "/dev/null", "--set", &file, "--set", &agent]);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).expect("it is JSON")
    }
}

/// The Python that has the second implementation.
fn python() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("NEPHILA_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("nephila")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/nephila")));
    cache.map(|cache| cache.join("signatures/bin/python")).filter(|python| python.is_file()).expect(
        "http-message-signatures is missing. `.ci/run` installs it; by hand: python3 -m venv \
         ~/.cache/nephila/signatures && ~/.cache/nephila/signatures/bin/pip install http-message-signatures",
    )
}

/// The verdict of the second implementation on these requests.
fn verify(directory: &Value, requests: &[Value]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/verify_signatures.py");
    let mut child = Command::new(python())
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let input = json!({"directory": directory, "requests": requests}).to_string();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "the script ends well");
    String::from_utf8(out.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A request as seen by the server, for the second implementation.
fn written(seen: &Seen) -> Value {
    let head = std::str::from_utf8(&seen.head).expect("our requests are text");
    let fields: Vec<(String, String)> = head
        .lines()
        .skip(1)
        .filter_map(|line| {
            line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        })
        .collect();
    let named = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let authority = named(":authority").or_else(|| named("host")).expect("whom it was sent to");
    let scheme = if seen.tls { "https" } else { "http" };
    let fields: Vec<&(String, String)> = fields.iter().filter(|(name, _)| !name.starts_with(':')).collect();
    json!({"method": seen.method, "url": format!("{scheme}://{authority}{}", seen.path), "fields": fields})
}

fn field<'a>(request: &'a Value, name: &str) -> Option<&'a str> {
    let fields = request["fields"].as_array()?;
    fields.iter().find(|pair| pair[0] == name).and_then(|pair| pair[1].as_str())
}

fn pages(world: &World, id: &str) -> Vec<Value> {
    world.web.requests(id).iter().filter(|seen| seen.path != "/robots.txt").map(written).collect()
}

#[tokio::test]
async fn pol_16_every_request_and_every_hop_is_signed_for_whom_it_goes_to() {
    let world = World::start().await;
    let key = Key::new();
    let urls = [
        world.web.url("good", "/page?a=1"),
        world.web.https_url("good", "/h2"),
        world.web.https_url("h2-09", "/page"),
        world.web.url("red-05", "/host"),
        world.web.https_url("red-05", "/host"),
        world.web.url("red-05", "/scheme"),
    ];
    let run = key.on(world.fetch().args(["-L", "-c", "1"])).set("identity.sign=always").urls(urls);
    let ran = run.run().await;
    assert!(ran.lines.len() >= 8, "{} {:?}", ran.complaints, ran.lines);
    let mut requests = Vec::new();
    for id in ["good", "h2-09", "red-05"] {
        let seen = world.web.requests(id);
        assert!(seen.iter().any(|seen| seen.path == "/robots.txt"), "robots.txt is signed too");
        requests.extend(seen.iter().map(written));
    }
    let over = |start: &str| {
        let is = |seen: &Seen| String::from_utf8_lossy(&seen.head).contains(start);
        ["good", "h2-09"].iter().any(|id| world.web.requests(id).iter().any(is))
    };
    assert!(over("HTTP/1.1\r\n") && over("HTTP/2\r\n"), "both protocols were spoken");
    let verdicts = verify(&key.directory(), &requests);
    assert_eq!(verdicts.len(), requests.len());
    for (verdict, request) in verdicts.iter().zip(&requests) {
        assert_eq!(verdict["ok"], true, "{verdict} {request}");
        assert_eq!(verdict["keyid"], key.id.as_str());
        assert_eq!(verdict["seconds"], 300);
        assert_eq!(field(request, "signature-agent"), Some("sig1=\"https://crawler.example\""));
    }
    let authorities: std::collections::BTreeSet<&str> =
        requests.iter().filter_map(|request| request["url"].as_str()?.split('/').nth(2)).collect();
    assert!(authorities.len() >= 4, "redirects lead elsewhere: {authorities:?}");
    let signatures: std::collections::BTreeSet<Option<&str>> =
        requests.iter().map(|request| field(request, "signature")).collect();
    assert_eq!(signatures.len(), requests.len(), "no signature is sent twice");

    // A judge that accepts everything is none: a signature for one site is worth nothing at another.
    let mut moved = requests.clone();
    for request in &mut moved {
        let elsewhere = request["url"].as_str().unwrap().replace(".hostile.test", ".other.test");
        request["url"] = elsewhere.into();
    }
    assert!(verify(&key.directory(), &moved).iter().all(|verdict| verdict["ok"] == false));
    assert!(verify(&Key::new().directory(), &requests).iter().all(|verdict| verdict["ok"] == false));
}

#[tokio::test]
async fn pol_15_a_site_that_wants_a_signature_gets_one_with_one_more_request() {
    let world = World::start().await;
    let key = Key::new();
    let dir = tempfile::tempdir().unwrap();
    let warc = ["--warc", dir.path().to_str().unwrap()];
    // By itself nothing is signed over plain http.
    let urls =
        [world.web.url("good", "/page"), world.web.url("good", "/signed"), world.web.url("good", "/text")];
    let run = key.on(world.fetch().args(["-c", "1"]).args(warc)).urls(urls);
    let ran = run.run().await;
    ran.check_all(3, "ok");
    let seen = pages(&world, "good");
    let signed: Vec<bool> = seen.iter().map(|request| field(request, "signature").is_some()).collect();
    assert_eq!(signed, [false, false, true, true], "once more, and from then on");
    assert!(
        field(&seen[2], "signature-input").unwrap().starts_with("proof=("),
        "under the label it asked for"
    );
    let verdicts = verify(&key.directory(), &seen[2..]);
    assert!(verdicts.iter().all(|verdict| verdict["ok"] == true), "{verdicts:?}");

    // Without a key the request is turned away, and the refusal is in the archive.
    let ran = world.fetch().args(["-c", "1"]).args(warc).url(world.web.url("good", "/signed")).run().await;
    ran.check_all(1, "forbidden");
    let archived = archive_text(dir.path());
    assert!(archived.contains("signature: wanted\r\n") && archived.contains("signature: sent\r\n"));
    // Signatures are not in the archive.
    assert!(archived.contains("Signature: [redacted]\r\n"), "its place is");
    assert!(!archived.contains("keyid="), "{archived}");
}

/// All records of an archive, unpacked.
fn archive_text(folder: &Path) -> String {
    let mut text = Vec::new();
    for entry in std::fs::read_dir(folder.join("archive")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "gz") {
            continue;
        }
        let bytes = std::fs::read(path).unwrap();
        std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(&bytes[..]), &mut text).unwrap();
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn pol_14_the_from_field_is_sent_when_it_is_set() {
    let world = World::start().await;
    let run = world.fetch().set("identity.from=bot@crawler.example");
    run.url(world.web.url("good", "/page")).run().await.check_all(1, "ok");
    let seen = pages(&world, "good");
    assert_eq!(field(&seen[0], "from"), Some("bot@crawler.example"));
    let agent = field(&seen[0], "user-agent").unwrap();
    assert!(agent.contains("Nephila/") && agent.contains("; +"), "{agent}");
    world.fetch().url(world.web.url("h1-37", "/")).run().await.check_all(1, "ok");
    assert_eq!(field(&pages(&world, "h1-37")[0], "from"), None);
}

#[test]
fn the_page_and_the_directory_are_printed() {
    let key = Key::new();
    let [file, agent] = key.sets();
    let sets = ["--config", "/dev/null", "--set", &file, "--set", &agent];
    let contact = ["--set", "identity.contact=https://crawler.example/bot"];
    let purpose = ["--purpose", "We study links."];
    let page = nephila(&[&["identity", "page"][..], &sets, &contact, &purpose].concat());
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains(&key.id), "{page}");
    assert!(page.contains("We study links.") && page.contains("User-agent: Nephila\nDisallow: /"), "{page}");
    let without = nephila(&[&["identity", "page"][..], &sets].concat());
    assert_eq!(without.status.code(), Some(2), "a page without a contact is none");
    let fields = nephila(&[&["identity", "directory", "--fields"][..], &sets].concat());
    let fields = String::from_utf8(fields.stdout).unwrap();
    assert!(
        fields.starts_with("Content-Type: application/http-message-signatures-directory+json\n"),
        "{fields}"
    );
    assert!(fields.contains("Signature-Input: sig1=(\"@authority\";req);created="), "{fields}");
    // Neither of them tells the secret.
    let secret = std::fs::read_to_string(key.file()).unwrap();
    let secret = secret.lines().nth(1).unwrap();
    assert!(!page.contains(secret) && !fields.contains(secret));
}
