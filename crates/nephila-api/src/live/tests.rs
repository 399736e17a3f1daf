//! Followers of a source that counts how often it is asked.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, Method};
use http_body_util::BodyExt as _;

use super::*;
use crate::hub::{LaterStatus, Lines, Live};

struct Counting {
    asked: AtomicU64,
    waiting: Arc<Mutex<VecDeque<u64>>>,
    opened: AtomicU64,
}

/// Lines that wait to be read.
struct Waiting(Arc<Mutex<VecDeque<u64>>>);

impl Lines for Waiting {
    fn look(&mut self, max: usize) -> std::io::Result<(Vec<serde_json::Value>, u64)> {
        let mut waiting = self.0.lock().unwrap();
        let dropped = waiting.len().saturating_sub(max);
        Ok((waiting.drain(..).skip(dropped).map(Into::into).collect(), dropped as u64))
    }
}

impl Live for Counting {
    fn status(&self) -> LaterStatus<'_> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { if number == 3 { Err("gone".to_owned()) } else { Ok(number.into()) } })
    }

    fn log(&self) -> Option<Box<dyn Lines>> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        Some(Box::new(Waiting(self.waiting.clone())))
    }
}

fn hub() -> (Arc<Counting>, Arc<Hub>) {
    let (asked, waiting, opened) = Default::default();
    let source = Arc::new(Counting { asked, waiting, opened });
    (source.clone(), Arc::new(Hub::new(source)))
}

fn follow(hub: &Arc<Hub>, target: &str) -> HttpAnswer {
    let mut asked = HttpQuestion::new(Method::GET, target, HeaderMap::new(), false);
    asked.hub = Some(hub.clone());
    answer(&asked)
}

async fn next(answer: &mut HttpAnswer) -> String {
    let frame = answer.body_mut().frame().await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn followers_share_one_status_a_second() {
    let (source, hub) = hub();
    let mut all: Vec<HttpAnswer> = (0..50).map(|_| follow(&hub, "/api/v1/live")).collect();
    for answer in &mut all {
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(next(answer).await, "retry: 2000\n\n");
    }
    for number in 0..3 {
        for answer in &mut all {
            assert_eq!(next(answer).await, format!("event: status\ndata: {number}\n\n"));
        }
        assert_eq!(source.asked.load(Ordering::SeqCst), number + 1);
    }
    assert_eq!(next(&mut all[0]).await, "event: problem\ndata: {\"detail\":\"gone\"}\n\n");
    drop(all);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(source.asked.load(Ordering::SeqCst), 4, "nobody follows");
}

#[tokio::test]
async fn lines_of_the_log_come_as_they_are_and_lost_ones_are_counted() {
    let (source, hub) = hub();
    let mut all: Vec<HttpAnswer> = (0..3).map(|_| follow(&hub, "/api/v1/live?topics=log")).collect();
    source.waiting.lock().unwrap().extend(0..600);
    for answer in &mut all {
        next(answer).await;
        let mut text = String::new();
        while text.matches("event: log\n").count() < 500 {
            text.push_str(&next(answer).await);
        }
        assert!(
            text.starts_with("event: dropped\ndata: {\"lines\":100}\n\nevent: log\ndata: 100\n\n"),
            "{text}"
        );
        assert!(text.ends_with("event: log\ndata: 599\n\n"), "{text}");
    }
    assert_eq!(source.opened.load(Ordering::SeqCst), 1, "all followers share one reader");
    assert_eq!(source.asked.load(Ordering::SeqCst), 0, "nobody wants the status");
    drop(all);
    while *hub.is_reading.lock().unwrap() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut late = follow(&hub, "/api/v1/live?topics=log");
    next(&mut late).await;
    source.waiting.lock().unwrap().push_back(7);
    assert_eq!(next(&mut late).await, "event: log\ndata: 7\n\n");
    assert_eq!(source.opened.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_unknown_topic_is_refused() {
    let (_, hub) = hub();
    for topics in ["status,", "logs", "status,all"] {
        assert_eq!(follow(&hub, &format!("/api/v1/live?topics={topics}")).status(), 400, "{topics}");
    }
    let alone = HttpQuestion::new(Method::GET, "/api/v1/live", HeaderMap::new(), false);
    assert_eq!(answer(&alone).status(), 404);
}
