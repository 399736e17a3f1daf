//! Further jobs of a folder that requests nothing: made, listed, filled, paused and stopped, and found again.

use http::{HeaderMap, Method};
use nephila_engine::crawl::shared::Tools;
use nephila_engine::folder::{Folder, Plan};
use nephila_engine::settings::Settings;
use nephila_engine::{log, wire};
use serde_json::{Value, json};

use super::*;
use crate::{Answers, Reply};

struct World {
    questions: Questions,
    shared: Arc<Shared>,
    _running: Box<dyn std::any::Any>,
}

/// A served folder, whose crawl has no seeds.
fn world(dir: &std::path::Path) -> World {
    let folder = Folder::new(dir);
    std::fs::create_dir_all(folder.state()).unwrap();
    let plan = Plan::of(Job::new(JOB, "crawl"));
    folder.set_plan(&plan).unwrap();
    let settings = Settings::default();
    let running = wire::worker(&folder, &settings, false).unwrap();
    let (log, log_thread) = log::Writer::open(&folder.logs()).unwrap();
    let spider = wire::spider(&settings).unwrap();
    let tools = Tools { handle: running.handle.clone(), fetch: Arc::new(spider), keep: None, log };
    let shared = Arc::new(Shared::new(settings.clone(), folder.clone(), plan, tools).unwrap());
    let questions = Questions::new(running.handle.clone(), folder, settings).with_crawl(&shared);
    World { questions, shared, _running: Box::new((running, log_thread)) }
}

async fn ask(world: &World, method: Method, target: &str, body: &str) -> (u16, Value) {
    let target = format!("/api/v1/{target}");
    let mut asked = HttpQuestion::new(method, &target, HeaderMap::new(), false);
    asked.body = body.to_owned().into();
    let reply = Reply::of(world.questions.answer(asked).await).await;
    (reply.status.as_u16(), reply.json().unwrap())
}

fn job(name: &str, scope: &Value) -> String {
    json!({"name": name, "scope": scope, "limits": {"pages_max": 5}}).to_string()
}

#[tokio::test]
async fn a_further_job_has_its_own_rules_and_state_and_survives() {
    let dir = tempfile::tempdir().unwrap();
    let first = world(dir.path());
    let docs = job("docs", &json!({"kind": "host", "seeds": ["http://a.test/docs/"]}));
    let (status, made) = ask(&first, Method::POST, "jobs", &docs).await;
    assert_eq!((status, &made["id"], &made["seeds"]), (201, &json!(2), &json!(1)), "{made}");
    assert_eq!(ask(&first, Method::POST, "jobs", &docs).await.0, 409, "a name is used once");
    let (_, listed) = ask(&first, Method::GET, "jobs", "").await;
    assert_eq!(listed[1]["name"], "docs", "{listed}");
    assert_eq!((&listed[0]["progress"]["left"], &listed[1]["progress"]["left"]), (&json!(0), &json!(1)));
    let (_, one) = ask(&first, Method::GET, "jobs/docs", "").await;
    assert_eq!(
        (&one["seeds"][0]["state"], &one["job"]["limits"]["pages_max"]),
        (&json!("queued"), &json!(5))
    );

    // The crawl of the folder has no scope; the job has its host.
    let add = async |job: &str, url: &str| ask(&first, Method::POST, &format!("urls?job={job}"), url).await.1;
    assert_eq!(add("docs", "http://a.test/x").await["taken"], 1);
    assert_eq!(add("docs", "http://b.test/x").await["refused"], 1);
    assert_eq!(add("docs", "http://127.0.0.1/x").await["refused"], 1, "no private address is opened");
    assert_eq!(add("crawl", "http://a.test/y").await["refused"], 1);
    let (_, why) = ask(&first, Method::GET, "explain?url=http%3A%2F%2Fa.test%2Fx", "").await;
    assert_eq!((&why["summary"], &why["scope"]["job"]), (&json!("queued"), &json!("docs")), "{why}");

    let (status, stopped) = ask(&first, Method::POST, "jobs/docs/stop", "").await;
    assert_eq!((status, &stopped["job"]["state"]), (200, &json!("stopped")), "{stopped}");
    assert!(add("docs", "http://a.test/z").await["refusals"][0]["why"].as_str().unwrap().contains("stopped"));
    assert_eq!(ask(&first, Method::POST, "jobs/none/stop", "").await.0, 404);
    let kept = Folder::new(dir.path()).more_jobs().unwrap();
    assert_eq!((kept.last, kept.jobs.len(), kept.jobs[0].job.state), (2, 1, State::Stopped));
    drop(first);

    let again = world(dir.path());
    assert_eq!(again.shared.jobs.get(JobId(2)).unwrap().state, State::Stopped, "after a restart");
    let other = job("other", &json!({"kind": "any", "depth_max": 0, "seeds": ["http://c.test/"]}));
    assert_eq!(ask(&again, Method::POST, "jobs", &other).await.1["id"], 3, "numbers are used once");
}

#[tokio::test]
async fn a_job_that_cannot_be_kept_as_it_is_said_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path());
    for (wrong, part) in [
        (json!({"name": "a", "scope": {"seeds": []}}), "seeds"),
        (json!({"name": "a/b", "scope": {"seeds": ["http://a.test/"]}}), "name"),
        (
            json!({"name": "a", "scope": {"seeds": ["http://a.test/"]}, "limits": {"time_max": "1h"}}),
            "pages_max",
        ),
        (json!({"name": "a", "scope": {"seeds": ["http://10.0.0.1/"]}}), "10.0.0.1"),
        (json!({"name": "a", "scope": {"seeds": ["mailto:a@b"]}}), "mailto"),
        (json!({"name": "a", "unknown": 1}), "unknown"),
    ] {
        let (status, said) = ask(&world, Method::POST, "jobs", &wrong.to_string()).await;
        assert!(status == 400 && said["detail"].as_str().unwrap().contains(part), "{status} {said}");
    }
    let (status, _) =
        ask(&world, Method::POST, "jobs", &job("crawl", &json!({"seeds": ["http://a.test/"]}))).await;
    assert_eq!(status, 409, "the crawl of the folder has this name");
    assert_eq!(world.shared.more_jobs().jobs.len(), 0);
}

#[tokio::test]
async fn a_crawl_of_firecrawl_is_a_further_job() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path());
    let ask = async |method: Method, target: &str, body: Value| {
        let mut asked = HttpQuestion::new(method, target, HeaderMap::new(), false);
        asked.body = body.to_string().into();
        let reply = Reply::of(world.questions.answer(asked).await).await;
        (reply.status.as_u16(), reply.json::<Value>().unwrap())
    };
    let body = json!({"url": "http://a.test/", "limit": 3, "excludePaths": ["^/no/"]});
    let (status, begun) = ask(Method::POST, "/v2/crawl", body).await;
    assert_eq!((status, &begun["success"]), (200, &json!(true)), "{begun}");
    let id = begun["id"].as_str().unwrap();
    let (_, said) = ask(Method::GET, &format!("/v2/crawl/{id}"), json!(null)).await;
    assert_eq!(
        (&said["status"], &said["total"], &said["data"]),
        (&json!("scraping"), &json!(1), &json!([])),
        "{said}"
    );
    assert_eq!(world.shared.more_jobs().jobs[0].job.scope.exclude, ["^http*://a.test/no/"]);
    let (status, ended) = ask(Method::DELETE, &format!("/v2/crawl/{id}"), json!(null)).await;
    assert_eq!((status, &ended["status"]), (200, &json!("cancelled")), "{ended}");
    assert_eq!(ask(Method::DELETE, &format!("/v2/crawl/{id}"), json!(null)).await.0, 409);
    let (status, refused) =
        ask(Method::POST, "/v2/crawl", json!({"url": "http://a.test/", "webhook": "x"})).await;
    assert!(status == 400 && refused["error"].as_str().unwrap().contains("webhook"), "{refused}");
    let (status, refused) = ask(Method::POST, "/v2/crawl", json!({"url": "http://10.0.0.1/"})).await;
    assert!(status == 400 && refused["error"].as_str().unwrap().contains("10.0.0.1"), "{refused}");
}
