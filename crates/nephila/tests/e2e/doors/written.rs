//! Written files belong to their owner, and contain no secret.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{PROGRAM, Site, complaints, crawl, run};

/// Everything in a folder, links not followed.
fn all(dir: &Path) -> Vec<PathBuf> {
    let mut all = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match fs::symlink_metadata(&path).unwrap().is_dir() {
            true => all.extend(self::all(&path)),
            false => all.push(path),
        }
    }
    all
}

fn open_to_others(dir: &Path) -> Vec<(PathBuf, u32)> {
    let modes = all(dir).into_iter().map(|path| {
        let mode = fs::symlink_metadata(&path).unwrap().mode() & 0o777;
        (path, mode)
    });
    modes.filter(|(_, mode)| mode & 0o077 != 0).collect()
}

#[test]
fn sec_06_a_crawl_and_an_archive_are_their_owners_whatever_the_umask() {
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::plain("page"));
    for command in [
        format!("crawl {} -q --delay 0s -o crawl", site.url("/")),
        format!(
            "fetch {} --warc kept --delay 0s --set spider.ports=[{}] --set spider.allow_addresses='[\"127.0.0.1/32\"]'",
            site.url("/"),
            site.port
        ),
        format!("feed add {} -o news", site.url("/feed")),
    ] {
        let line = format!("umask 0; exec {PROGRAM} {command}");
        let ran = Command::new("sh").args(["-c", &line]).current_dir(dir.path()).output().unwrap();
        assert!(ran.status.success(), "{command}: {}", complaints(&ran));
    }
    for folder in ["crawl", "kept", "news"] {
        assert_eq!(open_to_others(&dir.path().join(folder)), [], "{folder}");
    }
    let secret = fs::metadata(dir.path().join("crawl/state/secret")).unwrap();
    assert_eq!(secret.mode() & 0o777, 0o600);

    // Permissions that an older version left open are closed, with a message.
    for (path, mode) in [("crawl", 0o755), ("crawl/state", 0o755), ("crawl/state/secret", 0o644)] {
        fs::set_permissions(dir.path().join(path), Permissions::from_mode(mode)).unwrap();
    }
    let ran = crawl(dir.path(), &["-o", "crawl"]);
    assert!(complaints(&ran).contains("3 files and folders"), "{}", complaints(&ran));
    assert_eq!(open_to_others(&dir.path().join("crawl")), []);
}

/// All bytes that a folder holds, unpacked.
fn bytes(dir: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in all(dir).into_iter().filter(|path| fs::symlink_metadata(path).unwrap().is_file()) {
        let raw = fs::read(&path).unwrap();
        if raw.starts_with(&[0x1f, 0x8b]) {
            flate2::read::MultiGzDecoder::new(&*raw).read_to_end(&mut bytes).unwrap();
        }
        bytes.extend(raw);
    }
    bytes
}

#[test]
fn sec_06_no_secret_is_written_by_a_crawl() {
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::plain("<a href=/b>b</a>"));
    let at = format!("127.0.0.1:{}", site.port);
    fs::write(
        dir.path().join("nephila.toml"),
        "[api]\ntoken = \"CANARY-token\"\n[cluster]\nuser = \"me\"\npassword = \"CANARY-nats\"\n\
             servers = [\"nats://me:CANARY-server@n.test:4222\"]\n\
             [[credentials]]\norigin = \"http://b.test\"\nuser = \"me\"\npassword = \"CANARY-settings\"\n",
    )
    .unwrap();
    let typed = format!("http://me:CANARY-typed@{at}/");
    let ran = crawl(dir.path(), &[&typed, "-o", "crawl", "--scope", "host", "-H", "X-Tenant: CANARY-field"]);
    assert!(ran.status.success(), "{}", complaints(&ran));
    let sent: Vec<_> =
        site.asked().iter().filter_map(|asked| asked.authorization().map(str::to_owned)).collect();
    // `me:CANARY-typed`
    let basic = "Basic bWU6Q0FOQVJZLXR5cGVk";
    assert!(!sent.is_empty() && sent.iter().all(|sent| sent == basic), "{sent:?}");
    assert!(site.asked().iter().all(|asked| asked.fields["x-tenant"] == "CANARY-field"), "it was sent");
    assert_eq!(site.count("/b"), 1);
    // Behind a proxy that needs a password, nothing is reached, and the settings are kept all the same.
    let proxy = "spider.proxy=http://me:CANARY-proxy@127.0.0.1:1";
    let proxied =
        ["http://p.test/", "-o", "crawl/proxied", "--contact", "me@example.org", "--time-limit", "1s"];
    crawl(dir.path(), &[&proxied[..], &["--set", proxy, "--set", "crawl.own_sites=true"]].concat());
    assert!(dir.path().join("crawl/proxied/settings.toml").exists());

    let written = bytes(&dir.path().join("crawl"));
    let found = |text: &str| written.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(found("X-Tenant: [redacted]") && found("Authorization: [redacted]"), "the names stay");
    assert!(found("GET /b HTTP/1.1"), "the archive was read");
    for secret in ["CANARY", "bWU6Q0FOQVJZ"] {
        let place = all(&dir.path().join("crawl")).into_iter().find(|path| {
            let file = fs::symlink_metadata(path).unwrap().is_file();
            file && String::from_utf8_lossy(&fs::read(path).unwrap()).contains(secret)
        });
        assert!(!found(secret), "{secret} in {place:?}");
    }
    // A field that is named as harmless keeps its value.
    let fetch = ["fetch", &site.url("/"), "--warc", "open", "-H", "X-Tenant: harmless", "-q"];
    let open =
        ["--set", "store.open_headers=[\"x-tenant\"]", "--set", "spider.allow_addresses=[\"127.0.0.1/32\"]"];
    let port = format!("spider.ports=[{}]", site.port);
    run(dir.path(), &[&fetch[..], &open, &["--set", &port]].concat());
    let kept = bytes(&dir.path().join("open"));
    assert!(String::from_utf8_lossy(&kept).contains("X-Tenant: harmless"));
}

#[test]
fn fin_05_a_crawl_on_disk_is_not_forgotten_by_one_in_memory() {
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::plain("page"));
    let memory = ["--set", "crawl.state=memory"];
    crawl(dir.path(), &[&site.url("/"), "-o", "crawl"]);
    let ran = crawl(dir.path(), &[&[&*site.url("/b"), "-o", "crawl"], &memory[..]].concat());
    assert_eq!(ran.status.code(), Some(2), "{}", complaints(&ran));
    assert!(complaints(&ran).contains("whose state is on disk"), "{}", complaints(&ran));
    let disk = ["--set", "crawl.state=disk"];
    crawl(dir.path(), &[&[&*site.url("/b"), "-o", "crawl"], &disk[..]].concat());
    assert_eq!((site.count("/"), site.count("/b")), (1, 1), "it knows what was fetched");
    // A run with a memory-only state may be repeated: the run begins anew.
    for _ in 0..2 {
        crawl(dir.path(), &[&[&*site.url("/m"), "-o", "fleeting"], &memory[..]].concat());
    }
    assert_eq!(site.count("/m"), 2);
}
