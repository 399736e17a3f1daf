//! Media in a folder and in a bucket, with a store that goes away and comes back.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Mutex;

use nephila_core::time::Timestamp;
use nephila_store::archive::Receipt;

use super::*;
use crate::objects::tests::moto::Moto;

/// An archive that finds every named object durable at the moment of the record.
struct Witness {
    store: MediaStore,
    kept: Mutex<Vec<(String, Option<Media>)>>,
}

impl Keep for Witness {
    fn keep(&self, exchange: Exchange) -> BoxFuture<'_, Result<Receipt, NotKept>> {
        Box::pin(async move {
            if let Some(media) = &exchange.media {
                self.store.verify(media).await.expect("the object is there before its record");
            }
            self.kept.lock().unwrap().push((exchange.url.clone(), exchange.media));
            Ok(Receipt::elsewhere("a test", exchange.body.in_memory().unwrap_or_default()))
        })
    }
}

/// The rule of the shipped settings.
fn rule() -> Rule {
    nephila_engine::settings::Media::default().rule()
}

fn both(store: MediaStore) -> (KeepMedia, Arc<Witness>) {
    let witness = Arc::new(Witness { store: store.clone(), kept: Mutex::default() });
    (KeepMedia::new(store, rule(), witness.clone()), witness)
}

fn folder(dir: &Path) -> MediaStore {
    let objects = format!("file://{}", dir.display());
    let objects = Objects::open(&Cluster { objects, ..Default::default() }).unwrap().unwrap();
    MediaStore::new(objects, "")
}

/// A body that no other call makes.
fn body(bytes: usize, seed: u8) -> Bytes {
    (0..bytes).map(|n| (n as u8).wrapping_mul(31) ^ (n >> 8) as u8 ^ seed).collect()
}

fn picture(url: &str, kind: &str, body: &Bytes) -> Exchange {
    Exchange {
        url: url.into(),
        started: Timestamp(0),
        elapsed_ms: 0,
        address: None,
        protocols: Vec::new(),
        request_head: Bytes::new(),
        response_head: format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n").into(),
        body: Box::new(body.clone()),
        truncated: None,
        notes: Default::default(),
        text: "".into(),
        media: None,
    }
}

#[tokio::test]
async fn e_11_type_and_size_decide_which_bodies_become_objects() {
    let dir = tempfile::tempdir().unwrap();
    let (keep, witness) = both(folder(dir.path()));
    let cases = [
        ("image/png", 255_999, false),
        ("image/png", 256_000, true),
        ("text/html", 300_000, false),
        ("video/mp4; codecs=x", 3_000_000, true),
    ];
    for (n, (kind, bytes, _)) in cases.iter().enumerate() {
        keep.keep(picture(&format!("http://a.test/{n}"), kind, &body(*bytes, n as u8))).await.unwrap();
    }
    let kept = std::mem::take(&mut *witness.kept.lock().unwrap());
    for (n, ((_, media), (kind, bytes, is_object))) in kept.iter().zip(cases).enumerate() {
        assert_eq!(media.is_some(), is_object, "{kind} of {bytes} bytes");
        let Some(media) = media else { continue };
        let whole = body(bytes, n as u8);
        assert_eq!(media.hex(), Content::of(&whole).sha256);
        assert_eq!(std::fs::read(dir.path().join(media.key())).unwrap(), whole);
        assert_eq!(keep.store.read(media).await.unwrap(), whole);
        assert_eq!(keep.store.url(media).await.unwrap(), None, "a folder has no address for others");
    }
    assert_eq!(std::fs::read_dir(dir.path().join("media")).unwrap().count(), 2);
}

#[tokio::test]
async fn e_11_an_object_that_is_there_is_not_sent_again_and_one_of_another_length_is() {
    use std::os::unix::fs::MetadataExt as _;
    let dir = tempfile::tempdir().unwrap();
    let (keep, witness) = both(folder(dir.path()));
    let whole = body(300_000, 1);
    let send = || keep.keep(picture("http://a.test/", "image/png", &whole));
    send().await.unwrap();
    let media = witness.kept.lock().unwrap()[0].1.unwrap();
    let path = dir.path().join(media.key());
    let inode = || std::fs::metadata(&path).unwrap().ino();
    let first = inode();
    send().await.unwrap();
    assert_eq!(inode(), first, "it was written again");
    std::fs::write(&path, b"torn").unwrap();
    send().await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), whole);
}

/// Ten minutes of the clock, in virtual time.
#[tokio::test(start_paused = true)]
async fn e_11_while_the_store_is_away_pages_wait_and_nothing_is_kept_before_its_object() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("objects");
    let (keep, witness) = both(folder(&place));
    // A file instead of the folder: no call can succeed.
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::write(&place, b"").unwrap();
    let began = tokio::time::Instant::now();
    let whole = body(300_000, 2);
    let mut tries = 0;
    while began.elapsed() < Duration::from_secs(600) {
        let kept = keep.keep(picture("http://a.test/", "image/png", &whole)).await;
        assert!(matches!(kept, Err(NotKept::Away)), "{kept:?}");
        // Other pages go on.
        keep.keep(picture("http://a.test/page", "text/html", &whole)).await.unwrap();
        tokio::time::sleep(nephila_engine::crawl::shared::FULL_PAUSE).await;
        tries += 1;
    }
    assert!(tries > 100, "{tries} tries");
    assert!(witness.kept.lock().unwrap().iter().all(|(url, _)| url == "http://a.test/page"));
    std::fs::remove_file(&place).unwrap();
    std::fs::create_dir(&place).unwrap();
    keep.keep(picture("http://a.test/", "image/png", &whole)).await.unwrap();
    let last = witness.kept.lock().unwrap().pop().unwrap();
    assert_eq!(std::fs::read(place.join(last.1.unwrap().key())).unwrap(), whole);
}

/// The head and the body of an answer to a plain GET.
fn get(url: &str) -> (String, Vec<u8>) {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, target) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{target} HTTP/1.0\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = head::end(&answer).unwrap();
    let body = answer.split_off(end);
    (String::from_utf8(answer).unwrap(), body)
}

#[tokio::test]
async fn e_11_a_bucket_takes_bodies_of_all_sizes_and_gives_them_to_holders_of_a_url() {
    let mut moto = Moto::start();
    let store = MediaStore::new(moto.objects(), "");
    let (keep, witness) = both(store.clone());
    // The last is sent in parts.
    let cases =
        [("image/png", 300_000), ("image/svg+xml", 300_000), ("video/mp4", PART_BYTES as usize * 2 + 7)];
    for (n, (kind, bytes)) in cases.iter().enumerate() {
        let picture = picture(&format!("http://a.test/{n}"), kind, &body(*bytes, n as u8));
        keep.keep(picture).await.unwrap();
    }
    let kept = witness.kept.lock().unwrap().clone();
    for (n, ((_, media), (kind, bytes))) in kept.iter().zip(cases).enumerate() {
        let media = media.unwrap();
        store.verify(&media).await.unwrap();
        let url = store.url(&media).await.unwrap().unwrap();
        assert!(url.contains("X-Amz-Expires=300&") && url.contains("X-Amz-Signature="), "{url}");
        let (head, got) = tokio::task::spawn_blocking(move || get(&url)).await.unwrap();
        assert!(head.contains(" 200 "), "{head}");
        assert!(got == body(bytes, n as u8), "{kind}: other bytes");
        // A browser would run a drawing.
        let said = head.to_ascii_lowercase().contains(&format!("content-type: {kind}"));
        assert_eq!(said, kind != "image/svg+xml", "{head}");
    }
    // A store that lost everything takes the body again.
    let again = || keep.keep(picture("http://a.test/0", "image/png", &body(300_000, 0)));
    moto.kill();
    assert!(matches!(again().await, Err(NotKept::Away)));
    moto.restart();
    assert!(matches!(store.verify(&kept[0].1.unwrap()).await, Err(Error::Missing { .. })));
    again().await.unwrap();
    store.verify(&kept[0].1.unwrap()).await.unwrap();
    let public = MediaStore::new(moto.objects(), "https://cdn.example.org/x/");
    let url = public.url(&kept[0].1.unwrap()).await.unwrap();
    assert_eq!(url, Some(format!("https://cdn.example.org/x/{}", kept[0].1.unwrap().key())));
}
