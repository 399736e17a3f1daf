//! Orders of a served folder over its API: kept in the folder, in force, taken back, refused.

use http::{HeaderMap, Method};
use nephila_core::job::Job;
use nephila_core::stop_list::STOPS_MAX;
use nephila_engine::crawl::shared::JOB;
use nephila_engine::folder::Plan;
use serde_json::{Value, json};

use super::*;
use crate::answers::tests::running;
use crate::{Answers, Reply};

async fn ask(questions: &Questions, method: Method, target: &str, body: &Value) -> (u16, Value) {
    let mut asked = HttpQuestion::new(method, &format!("/api/v1/{target}"), HeaderMap::new(), false);
    asked.body = body.to_string().into();
    let reply = Reply::of(questions.answer(asked).await).await;
    (reply.status.as_u16(), reply.json().unwrap())
}

#[tokio::test]
async fn a_stop_is_kept_in_the_folder_in_force_and_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let (questions, shared, _running) = running(dir.path(), Plan::of(Job::new(JOB, "crawl")));
    let folder = Folder::new(dir.path());
    let stops = json!({"stops": [{"target": "*.b.example", "reason": "mail", "author": "me"},
                                 {"target": "192.0.2.0/24"}]});
    assert_eq!(ask(&questions, Method::POST, "stops", &stops).await, (200, json!({"changed": 2})));
    assert!(shared.stop_list().stop_of_host("x.b.example").is_some(), "in force at once");
    let kept = stop_list::read(&folder).unwrap();
    assert_eq!(kept.stop_of_host("b.example").unwrap().reason, "mail");
    assert!(kept.stop_of_host("b.example").unwrap().at > 0, "the time of the order");
    let (status, said) = ask(&questions, Method::GET, "stops", &Value::Null).await;
    assert_eq!((status, &said["stops"][0]["target"]), (200, &json!("*.b.example")), "{said}");

    let gone = ask(&questions, Method::DELETE, "stops/%2A.b.example", &Value::Null).await;
    assert_eq!(gone, (200, json!({"changed": 1})));
    assert!(shared.stop_list().stop_of_host("x.b.example").is_none());
    for none in ["stops/a.example", "stops/%2A.com", "stops/0"] {
        assert_eq!(ask(&questions, Method::DELETE, none, &Value::Null).await.0, 404, "{none}");
    }
    assert_eq!(ask(&questions, Method::DELETE, "stops/192.0.2.0%2F24", &Value::Null).await.0, 200);
    assert!(stop_list::read(&folder).unwrap().is_empty());
}

#[tokio::test]
async fn a_delay_is_kept_and_what_cannot_be_kept_is_refused_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (questions, shared, _running) = running(dir.path(), Plan::of(Job::new(JOB, "crawl")));
    let folder = Folder::new(dir.path());
    let set = async |query: &str| ask(&questions, Method::POST, &format!("host?{query}"), &Value::Null).await;
    assert_eq!(set("url=http%3A%2F%2Fa.example%2F&delay_ms=9000").await.0, 200);
    assert_eq!(stop_list::read_all(&folder).unwrap().delays["http://a.example"], 9_000);
    for query in ["url=a&delay_ms=1", "url=http%3A%2F%2Fa.example%2F&delay_ms=86400001", "delay_ms=1"] {
        assert_eq!(set(query).await.0, 400, "{query}");
    }

    for wrong in [json!({"stops": [{"target": "*.com"}]}), json!({"stops": [], "delays": {}}), json!([])] {
        assert_eq!(ask(&questions, Method::POST, "stops", &wrong).await.0, 400, "{wrong}");
    }
    let many = (0..=STOPS_MAX).map(|number| json!({"target": format!("h{number}.example")}));
    let many = json!({"stops": many.collect::<Vec<_>>()});
    let (status, why) = ask(&questions, Method::POST, "stops", &many).await;
    assert_eq!((status, &why["title"]), (400, &json!("too many orders")), "{why}");
    assert!(shared.stop_list().is_empty() && stop_list::read(&folder).unwrap().is_empty(), "all or nothing");

    std::fs::write(stop_list::path(&folder), "{").unwrap();
    assert_eq!(ask(&questions, Method::GET, "stops", &Value::Null).await.0, 503, "not an empty list");
}
