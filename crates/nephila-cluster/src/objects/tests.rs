//! The object store as a folder, and on a server that speaks S3.

pub(crate) mod moto;

use moto::Moto;
use object_store::multipart::MultipartStore as _;

use super::*;

fn folder() -> (tempfile::TempDir, Objects) {
    let dir = tempfile::tempdir().unwrap();
    let objects = format!("file://{}/store", dir.path().display());
    let settings = settings::Cluster { objects, ..Default::default() };
    (dir, Objects::open(&settings).unwrap().unwrap())
}

/// Checks that apply to every store.
async fn check(dir: &FilePath, objects: &Objects) {
    let inside = objects.within("a/b");
    inside.put("small", Bytes::from_static(b"hello")).await.unwrap();
    assert_eq!(inside.get("small").await.unwrap(), "hello");
    assert_eq!(objects.size("a/b/small").await.unwrap(), Some(5));
    let large = dir.join("large");
    let bytes: Vec<u8> = (0..PART_BYTES * 2 + 7).map(|n| (n * 31 % 251) as u8).collect();
    std::fs::write(&large, &bytes).unwrap();
    let content = Content::of_file(&large).unwrap();
    assert_eq!(content, Content::of(&bytes));
    inside.put_file("deep/large", &large, Sent::default(), |_| {}).await.unwrap();
    let names = inside.list("").await.unwrap();
    assert_eq!(names, [("deep/large".to_owned(), content.bytes), ("small".to_owned(), 5)]);
    assert_eq!(inside.list("deep").await.unwrap().len(), 1);
    let back = dir.join("back");
    inside.get_file("deep/large", &back, &content).await.unwrap();
    assert!(std::fs::read(&back).unwrap() == bytes, "it came back as it was");
    inside.verify("deep/large", &content).await.unwrap();
    inside.delete("deep/large").await.unwrap();
    inside.delete("deep/large").await.unwrap();
    assert_eq!(inside.list("").await.unwrap().len(), 1);
    assert_eq!(inside.list("nothing").await.unwrap(), []);
    let error = inside.get("nothing").await.unwrap_err();
    assert!(error.is_lost(), "{error}");
}

#[tokio::test]
async fn what_was_stored_in_a_folder_comes_back_and_is_listed_and_goes() {
    let (dir, objects) = folder();
    check(dir.path(), &objects).await;
}

#[tokio::test]
async fn what_was_stored_in_a_bucket_comes_back_and_is_listed_and_goes() {
    let (dir, moto) = (tempfile::tempdir().unwrap(), Moto::start());
    check(dir.path(), &moto.objects()).await;
}

#[tokio::test]
async fn a_file_whose_sending_was_cut_off_goes_on_with_the_part_that_is_missing() {
    let (dir, moto) = (tempfile::tempdir().unwrap(), Moto::start());
    let objects = moto.objects();
    let large = dir.path().join("large");
    let bytes: Vec<u8> = (0..PART_BYTES * 3 + 1).map(|n| (n * 17 % 249) as u8).collect();
    std::fs::write(&large, &bytes).unwrap();
    let path = objects.path("again");
    let Store::S3(store) = &objects.store else { panic!("no bucket") };
    let id = store.create_multipart(&path).await.unwrap();
    let part = bytes[..PART_BYTES as usize].to_vec();
    let first = store.put_part(&path, &id, 0, part.into()).await.unwrap();
    let sent = Sent { id: id.clone(), parts: vec![first.content_id] };
    let mut noted = Vec::new();
    // As a process would go on that finds in its note what one before it had sent.
    objects
        .put_file("again", &large, sent, |sent| noted.push((sent.id.clone(), sent.parts.len())))
        .await
        .unwrap();
    assert_eq!(noted, [(id.clone(), 2), (id.clone(), 3), (id, 4)]);
    objects.verify("again", &Content::of(&bytes)).await.unwrap();
    // An upload that the service has forgotten begins anew, with the next try.
    let sent = Sent { id: "forgotten".into(), parts: vec!["x".into()] };
    let mut left = sent.clone();
    let error = objects.put_file("third", &large, sent, |sent| left = sent.clone()).await.unwrap_err();
    assert_eq!(left, Sent::default(), "{error}");
    objects.put_file("third", &large, left, |_| {}).await.unwrap();
    objects.verify("third", &Content::of(&bytes)).await.unwrap();
}

#[tokio::test]
async fn a_bucket_that_is_away_says_so_and_works_again_when_it_is_back() {
    let mut moto = Moto::start();
    let objects = moto.objects();
    objects.put("one", Bytes::from_static(b"1")).await.unwrap();
    moto.kill();
    let error = objects.put("two", Bytes::from_static(b"2")).await.unwrap_err();
    assert!(matches!(error, Error::Away { .. }) && error.to_string().contains("AWS_*"), "{error}");
    // What it kept is gone with it: it keeps everything in memory.
    moto.restart();
    objects.put("two", Bytes::from_static(b"2")).await.unwrap();
    assert_eq!(objects.get("two").await.unwrap(), "2");
}

#[tokio::test]
async fn an_object_that_is_not_what_was_stored_is_damaged_and_one_that_is_gone_is_missing() {
    let (dir, objects) = folder();
    objects.put("one", Bytes::from_static(b"hello")).await.unwrap();
    let to = dir.path().join("to");
    let error = objects.get_file("one", &to, &Content::of(b"hallo")).await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("digest"), "{error}");
    let error = objects.get_file("one", &to, &Content::of(b"hell")).await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("5 bytes instead of 4"), "{error}");
    let error = objects.get("two").await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("two is not in file:///"), "{error}");
    assert_eq!(objects.size("two").await.unwrap(), None);
}

#[tokio::test]
async fn a_store_that_is_away_says_so_and_works_again_when_it_is_back() {
    let (dir, objects) = folder();
    let (store, aside) = (dir.path().join("store"), dir.path().join("aside"));
    std::fs::rename(&store, &aside).unwrap();
    // A file in its place: nothing can be made in it.
    std::fs::write(&store, b"").unwrap();
    let error = objects.put("one", Bytes::from_static(b"1")).await.unwrap_err();
    assert!(matches!(error, Error::Away { .. }), "{error}");
    assert!(error.to_string().contains("storing one in file:///") && !error.is_lost(), "{error}");
    std::fs::remove_file(&store).unwrap();
    std::fs::rename(&aside, &store).unwrap();
    objects.put("one", Bytes::from_static(b"1")).await.unwrap();
    assert_eq!(objects.get("one").await.unwrap(), "1");
}

#[test]
fn settings_that_lead_nowhere_are_told() {
    let open = |objects: &str, endpoint: &str, http| {
        Objects::open(&settings::Cluster {
            objects: objects.into(),
            objects_endpoint: endpoint.into(),
            objects_http: http,
            ..Default::default()
        })
    };
    assert!(open("", "", false).unwrap().is_none());
    for (objects, endpoint, says) in [
        ("bucket", "", "cluster.objects"),
        ("ftp://bucket/x", "", "neither"),
        ("s3://bucket/x", "http://127.0.0.1:1", "not encrypted"),
    ] {
        let error = open(objects, endpoint, false).unwrap_err();
        assert!(format!("{error:#}").contains(says), "{objects}: {error:#}");
    }
    assert_eq!(open("s3://bucket/x/", "http://127.0.0.1:1", true).unwrap().unwrap().place(), "s3://bucket/x");
}
