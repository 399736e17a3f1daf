//! A crawl of a folder that requests nothing, asked about itself.

use std::path::Path;

use http::{HeaderMap, Method};
use nephila_core::job::{Job, JobId};
use nephila_core::url::CrawlUrl;
use nephila_core::want::Want;
use nephila_engine::crawl::shared::Tools;
use nephila_engine::folder::{Folder, Plan};
use nephila_engine::log::Line;
use nephila_engine::worker::Link;
use nephila_engine::{log, wire};
use serde_json::{Value, json};

use super::*;
use crate::{Answers, Reply};

/// A crawl whose actions nobody takes.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) questions: Questions,
    shared: Arc<Shared>,
    _running: Box<dyn std::any::Any>,
}

impl World {
    /// The crawl, and what it needs while it answers.
    pub(crate) fn split(self) -> (Questions, Box<dyn std::any::Any>) {
        let World { dir, questions, shared, _running } = self;
        (questions, Box::new((dir, shared, _running)))
    }
}

pub(crate) fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let mut job = Job::new(JobId(1), "press");
    job.scope.seeds = vec!["http://a.test/docs/".into(), "nonsense".into()];
    job.scope.exclude = vec!["/docs/no".into()];
    let plan = Plan::of(job);
    let (questions, shared, running) = running(dir.path(), plan);
    World { dir, questions, shared, _running: running }
}

/// A crawl of a plan in a folder that is empty or was used before, without requests.
pub(crate) fn running(dir: &Path, plan: Plan) -> (Questions, Arc<Shared>, Box<dyn std::any::Any>) {
    let folder = Folder::new(dir);
    std::fs::create_dir_all(folder.state()).unwrap();
    folder.set_plan(&plan).unwrap();
    let settings = Settings::default();
    let running = wire::worker(&folder, &settings, false).unwrap();
    let (log, log_thread) = log::Writer::open(&folder.logs()).unwrap();
    let spider = wire::spider(&settings).unwrap();
    let tools = Tools { handle: running.handle.clone(), fetch: Arc::new(spider), keep: None, log };
    let shared = Arc::new(Shared::new(settings.clone(), folder.clone(), plan, tools).unwrap());
    let questions = Questions::new(running.handle.clone(), folder, settings).with_crawl(&shared);
    (questions, shared, Box::new((running, log_thread)))
}

async fn ask(world: &World, method: Method, target: &str, body: &str) -> (u16, Value) {
    let mut asked = HttpQuestion::new(method, target, HeaderMap::new(), false);
    asked.body = body.to_owned().into();
    let reply = Reply::of(world.questions.answer(asked).await).await;
    (reply.status.as_u16(), reply.json().unwrap())
}

async fn get(world: &World, target: &str) -> Value {
    let (status, said) = ask(world, Method::GET, &format!("/api/v1/{target}"), "").await;
    assert_eq!(status, 200, "{target}: {said}");
    said
}

pub(crate) async fn offer(world: &World, urls: &[&str]) {
    let link = |url: &&str| Link { url: CrawlUrl::parse(url).unwrap(), want: Want::of(JobId(1)).at(1) };
    let links: Vec<Link> = urls.iter().map(link).collect();
    world.shared.handle.offer_durably(&links).await.unwrap();
}

pub(crate) fn log_lines(world: &World, lines: &[(u64, &str)]) {
    let lines = lines.iter().map(|(at, url)| {
        let origin = CrawlUrl::parse(url).unwrap().origin().to_owned();
        Line {
            at: *at,
            took_ms: 10,
            url: (*url).into(),
            origin,
            outcome: "ok".into(),
            class: "ok".into(),
            status: Some(200),
            address: Some("127.0.0.1".parse().unwrap()),
            host_rest_ms: 1_000,
            requests: 1,
            robots_obeyed: true,
            title: "<script>alert(1)</script>".into(),
            ..Line::default()
        }
        .json()
    });
    std::fs::write(world.dir.path().join("logs/outcomes-00000009.jsonl"), lines.collect::<Vec<_>>().concat())
        .unwrap();
}

#[tokio::test]
async fn a_crawl_says_what_waits_and_why() {
    let world = world();
    offer(&world, &["http://a.test/docs/1", "http://a.test/docs/2", "http://b.test/"]).await;
    let status = get(&world, "status").await;
    assert_eq!(status["frontier"]["queued"], 3, "{status}");
    assert_eq!((&status["mode"], &status["state"]), (&json!("single"), &json!("crawling")), "{status}");
    assert_eq!(status["jobs"][0]["name"], "press");
    assert_eq!(status["jobs"][0]["progress"]["left"], 3);
    assert!(status["sentence"].as_str().is_some_and(|text| text.ends_with('.')), "{status}");
    assert!(status["disk"]["free_bytes"].as_u64().unwrap() > 0);
    let hosts = get(&world, "hosts?sort=queued").await;
    let origins: Vec<&str> =
        hosts["hosts"].as_array().unwrap().iter().filter_map(|host| host["origin"].as_str()).collect();
    assert_eq!(origins, ["http://a.test", "http://b.test"]);
    assert_eq!((&hosts["looked_at"], &hosts["complete"]), (&json!(2), &json!(true)));
    assert_eq!(get(&world, "history").await["step_s"], 5);
}

#[tokio::test]
async fn the_log_is_a_list_a_timeline_and_a_verdict() {
    let world = world();
    log_lines(
        &world,
        &[(5_000, "http://a.test/1"), (6_010, "http://a.test/2"), (6_500, "http://b.test/\u{202e}")],
    );
    let log = get(&world, "log?limit=2").await;
    assert_eq!(log["lines"][0]["at_ms"], 6_500);
    let older = get(&world, &format!("log?limit=2&cursor={}", log["cursor"].as_str().unwrap())).await;
    assert_eq!(
        (older["lines"][0]["url"].as_str(), older["cursor"].as_str()),
        (Some("http://a.test/1"), None)
    );
    assert_eq!(get(&world, "log?host=b.test&outcome=200").await["lines"].as_array().unwrap().len(), 1);
    let timeline = get(&world, "host/timeline?url=http://a.test/any&limit=1").await;
    assert_eq!((&timeline["requests"][0]["gap_ms"], &timeline["delay_s"]), (&json!(1_000), &json!(1.0)));
    assert_eq!(timeline["requests"].as_array().unwrap().len(), 1, "the other one is context: {timeline}");
    let older = timeline["cursor"].as_str().unwrap();
    let older = get(&world, &format!("host/timeline?url=a.test&limit=5&cursor={older}")).await;
    assert_eq!(older["requests"][0]["at_ms"], 5_000, "{older}");
    let politeness = get(&world, "politeness?url=a.test").await;
    assert_eq!((&politeness["requests"], &politeness["violations"]), (&json!(2), &json!(0)), "{politeness}");
}

#[tokio::test]
async fn the_job_of_a_folder_can_be_paused_and_its_rules_tested() {
    let world = world();
    let job = get(&world, "jobs/press").await;
    assert_eq!((&job["seeds"][0]["state"], &job["seeds"][1]["state"]), (&json!("unknown"), &json!("bad")));
    let (status, paused) = ask(&world, Method::POST, "/api/v1/jobs/press/pause", "").await;
    assert_eq!((status, &paused["job"]["state"]), (200, &json!("paused")));
    assert_eq!(world.shared.folder.plan().unwrap().unwrap().job.state, State::Paused, "it stays so");
    assert_eq!(get(&world, "jobs").await[0]["state"], "paused");
    offer(&world, &["http://a.test/docs/x"]).await;
    let explained = get(&world, "explain?url=http://a.test/docs/x").await;
    assert!(explained["held_by"].to_string().contains("its job is paused"), "{explained}");
    let (status, _) = ask(&world, Method::POST, "/api/v1/jobs/press/resume", "").await;
    assert_eq!((status, halt::state(&world.shared)), (200, State::Running));

    let test = json!({"urls": ["http://a.test/docs/x", "http://a.test/docs/no", "x"], "job": "press"});
    let (status, said) = ask(&world, Method::POST, "/api/v1/scope/test", &test.to_string()).await;
    assert_eq!(status, 200, "{said}");
    assert_eq!((&said[0]["verdict"], &said[1]["origin"]), (&json!("in"), &json!("exclude #1")), "{said}");
    assert_eq!((&said[0]["robots_known"], &said[2]["verdict"]), (&json!(false), &json!("bad")));
    let edited = json!({"urls": ["http://a.test/docs/no"], "scope": {"kind": "prefix"}});
    let (_, said) = ask(&world, Method::POST, "/api/v1/scope/test", &edited.to_string()).await;
    assert_eq!(said[0]["verdict"], "in", "with the seeds of the job: {said}");
}

#[tokio::test]
async fn a_request_that_makes_no_sense_is_refused_with_what_is_wrong() {
    let world = world();
    for target in [
        "hosts?sort=size",
        "hosts?cursor=x",
        "log?limit=many",
        "log?cursor=x",
        "host/timeline",
        "host/timeline?url=http://",
        "politeness?url=http://",
        "archive?limit=-1",
        "history?seconds=x",
    ] {
        let (status, said) = ask(&world, Method::GET, &format!("/api/v1/{target}"), "").await;
        assert_eq!((status, &said["type"]), (400, &json!("urn:nephila:problem:invalid-request")), "{target}");
    }
    let many = json!({ "urls": vec!["http://a.test/"; URLS_MAX + 1] }).to_string();
    for (body, is) in [("", 400), ("{}", 200), ("{\"url\": []}", 400), (&*many, 400)] {
        assert_eq!(ask(&world, Method::POST, "/api/v1/scope/test", body).await.0, is, "{:.40}", body);
    }
    let other = json!({"urls": [], "job": "other"}).to_string();
    assert_eq!(ask(&world, Method::POST, "/api/v1/scope/test", &other).await.0, 404);
    for (method, target) in [(Method::GET, "jobs/other"), (Method::POST, "jobs/other/pause")] {
        assert_eq!(ask(&world, method, &format!("/api/v1/{target}"), "").await.0, 404, "{target}");
    }
    assert_eq!(ask(&world, Method::POST, "/api/v1/jobs/press/delete", "").await.0, 404);
    assert_eq!(ask(&world, Method::POST, "/api/v1/status", "").await.0, 405);
}

#[tokio::test]
async fn a_folder_without_a_running_crawl_says_so() {
    let World { dir: _dir, questions, shared, _running } = world();
    drop(shared);
    let asked = HttpQuestion::new(Method::GET, "/api/v1/status", HeaderMap::new(), false);
    let reply = Reply::of(questions.answer(asked).await).await;
    assert_eq!(reply.status.as_u16(), 503);
}
