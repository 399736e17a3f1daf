//! Receivers that misbehave in their answers, TLS, and the alarm.

use std::path::Path;

use nephila_core::time::{Now, Timestamp};
use nephila_core::webhook::sender::ALARM_AFTER;
use nephila_core::webhook::{Answer, Sender};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

use super::*;
use crate::tls;

/// Longer than any of these exchanges takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn fields() -> [(&'static str, String); 3] {
    [("webhook-id", "msg_1".into()), ("webhook-timestamp", "1".into()), ("webhook-signature", "v1,x".into())]
}

async fn post(url: &str, ca_file: &Path) -> Result<u16, String> {
    let receiver = Receiver::new(&Url::parse(url).unwrap(), ca_file).unwrap();
    let posted = receiver.post(fields(), bytes::Bytes::from_static(b"{}"), 2 * PATIENCE);
    let posted = tokio::time::timeout(PATIENCE, posted).await.expect("it ends");
    posted.map(|(status, _)| status.as_u16())
}

/// A receiver that reads a request and sends this, again and again if `is_endless`. Returns its port.
async fn receiver(answer: &'static str, piece: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            _ = stream.read(&mut request).await;
            _ = stream.write_all(answer.as_bytes()).await;
            while !piece.is_empty() && stream.write_all(piece.as_bytes()).await.is_ok() {}
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_its_status_and_never_more_than_a_bounded_part_is_read() {
    for (answer, piece, want) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", "", Some(204)),
        // The body never ends, or is cut off.
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "5\r\nhello\r\n", Some(200)),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", "", Some(200)),
        ("HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n", "", Some(302)),
        ("HTTP/1.1 200 OK\r\n", "x-field: 0123456789012345678901234567890123456789\r\n", None),
        ("hello\r\n\r\n", "", None),
        ("", "", None),
    ] {
        let port = receiver(answer, piece).await;
        let got = post(&format!("http://127.0.0.1:{port}/"), Path::new("")).await;
        assert_eq!(got.as_ref().ok().copied(), want, "{answer:?}: {got:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_whose_head_came_in_time_counts_though_its_body_never_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            _ = stream.read(&mut request).await;
            _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await;
            // Slow enough that no limit on bytes ends it.
            while stream.write_all(b"x").await.is_ok() {
                _ = tell.send(());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    let receiver = Receiver::new(&Url::parse(&url).unwrap(), Path::new("")).unwrap();
    // Less than the time for the body.
    let timeout = Duration::from_millis(1_500);
    let posted = receiver.post(fields(), bytes::Bytes::from_static(b"{}"), timeout).await;
    assert_eq!(posted.map(|(status, _)| status.as_u16()), Ok(200));
    assert!(told.recv().await.is_some(), "a part of the body came");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_come_in_time_is_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let receiver = Receiver::new(&Url::parse(&url).unwrap(), Path::new("")).unwrap();
    let posted = receiver.post(fields(), bytes::Bytes::new(), Duration::from_millis(50)).await;
    assert_eq!(posted.map(|(status, _)| status.as_u16()), Err("no answer within 50ms".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_with_tls_proves_its_name_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (ca, wrong_ca) = (write("ca.pem", own.cert.pem()), write("other.pem", other.cert.pem()));
    let key = write("key.pem", own.signing_key.serialize_pem());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key, mode).unwrap();
    let acceptor = tls::acceptor(&ca, &key, None).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap_or(0);
            request.truncate(read);
            _ = tell.send(String::from_utf8_lossy(&request).into_owned());
            _ = stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    let named = format!("https://localhost:{port}/a/b?c=d");
    for (url, ca) in [(&*named, &wrong_ca), (&format!("https://127.0.0.1:{port}/"), &ca)] {
        let error = post(url, ca).await.unwrap_err();
        assert!(error.starts_with("no TLS"), "{error}");
    }
    assert_eq!(post(&named, &ca).await, Ok(202));
    let request = told.recv().await.unwrap();
    assert!(request.starts_with("POST /a/b?c=d HTTP/1.1\r\n"), "the first that came: {request}");
    assert!(request.contains(&format!("host: localhost:{port}\r\n")), "{request}");
    assert!(request.contains("webhook-id: msg_1\r\n"), "{request}");
}

#[test]
fn a_webhook_that_failed_for_ten_minutes_or_is_gone_is_a_trouble() {
    let at = |mono: u64| Now { mono, wall: Timestamp(1_700_000_000_000 + mono) };
    let seen = Seen::new("mine");
    let mut sender = Sender::new(0);
    sender.was_read(0, 1, true, false);
    sender.answered(5_000, Answer::Nothing, 0);
    seen.set_error("no connection");
    seen.oldest.store(at(0).wall.0, std::sync::atomic::Ordering::Relaxed);
    seen.note(&sender, at(9_000));
    let alarm_at = 5_000 + ALARM_AFTER.as_secs() * 1_000;
    assert_eq!(seen.trouble(at(alarm_at - 1).wall), None);
    let trouble = seen.trouble(at(alarm_at).wall).unwrap();
    assert!(trouble.contains("mine has failed for 10 min (no connection); it is 10 min behind"), "{trouble}");
    let said = seen.said(at(alarm_at).wall);
    assert_eq!((&*said.state, said.lag_s), ("failing", 605));
    assert_eq!(said.failing_since.as_deref(), Some("2023-11-14T22:13:25Z"));
    sender.answered(alarm_at, Answer::Status { status: 200, retry_after: None }, 0);
    seen.note(&sender, at(alarm_at));
    assert_eq!((seen.trouble(at(alarm_at).wall), &*seen.said(at(0).wall).state), (None, "delivering"));

    let mut gone = Sender::new(0);
    gone.was_read(0, 1, true, false);
    gone.answered(0, Answer::Status { status: 410, retry_after: None }, 0);
    seen.note(&gone, at(0));
    assert!(seen.trouble(at(0).wall).unwrap().contains("410"));
    assert_eq!((&*seen.said(at(0).wall).state, seen.is_gone()), ("gone", true));
}
