//! Further jobs of a folder that requests nothing: made, listed, filled, paused and stopped, and found again.

use http::{HeaderMap, Method};
use nephila_engine::folder::{Folder, Plan};
use serde_json::{Value, json};

use super::*;
use crate::answers::tests::running;
use crate::{Answers, Reply};

struct World {
    questions: Questions,
    shared: Arc<Shared>,
    _running: Box<dyn std::any::Any>,
}

/// A served folder, whose crawl has no seeds.
fn world(dir: &std::path::Path) -> World {
    let (questions, shared, running) = running(dir, Plan::of(Job::new(JOB, "crawl")));
    World { questions, shared, _running: running }
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
    let exclude = world.shared.more_jobs().jobs[0].job.scope.exclude.clone();
    assert_eq!(exclude, ["^http://a.test/no/", "^https://a.test/no/"]);
    let (status, ended) = ask(Method::DELETE, &format!("/v2/crawl/{id}"), json!(null)).await;
    assert_eq!((status, &ended["status"]), (200, &json!("cancelled")), "{ended}");
    assert_eq!(ask(Method::DELETE, &format!("/v2/crawl/{id}"), json!(null)).await.0, 409);
    let (status, refused) =
        ask(Method::POST, "/v2/crawl", json!({"url": "http://a.test/", "webhook": "x"})).await;
    assert!(status == 400 && refused["error"].as_str().unwrap().contains("webhook"), "{refused}");
    let (status, refused) = ask(Method::POST, "/v2/crawl", json!({"url": "http://10.0.0.1/"})).await;
    assert!(status == 400 && refused["error"].as_str().unwrap().contains("10.0.0.1"), "{refused}");

    let places = crate::agent::LISTS.available_permits();
    let all = crate::agent::LISTS.try_acquire_many(u32::try_from(places).unwrap()).unwrap();
    for (method, target) in [
        (Method::GET, format!("/v2/crawl/{id}")),
        (Method::GET, format!("/v2/crawl/{id}/errors")),
        (Method::POST, "/v2/map".to_owned()),
    ] {
        let (status, busy) = ask(method, &target, json!({"url": "http://a.test/"})).await;
        assert!(status == 429 && busy["error"].as_str().unwrap().contains("clients"), "{target}: {busy}");
    }
    drop(all);
    assert_eq!(ask(Method::GET, &format!("/v2/crawl/{id}"), json!(null)).await.0, 200);
}

/// A job that was made before, with these seeds.
fn kept(id: u32, name: &str, seeds: Vec<String>) -> MoreJob {
    let mut job = Job::new(JobId(id), name);
    job.scope.seeds = seeds;
    MoreJob::of(job)
}

#[tokio::test]
async fn the_oldest_job_that_is_over_makes_room_and_that_of_single_pages_never() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path());
    let home = json!({"seeds": ["http://a.test/"]});
    assert_eq!(ask(&world, Method::POST, "jobs", &job("busy", &home)).await.0, 201);
    {
        // The seed of the first one is known, and nothing is left of it; the others have not begun.
        let mut more = world.shared.more_jobs();
        more.jobs.push(kept(3, more_jobs::PAGES_JOB, vec!["http://a.test/".to_owned()]));
        for id in 4..=u32::try_from(more_jobs::MAX).unwrap() + 1 {
            more.jobs.push(kept(id, &format!("job-{id}"), vec![format!("http://b.test/{id}")]));
        }
        more.last = u32::try_from(more_jobs::MAX).unwrap() + 1;
        assert_eq!(more.jobs.len(), more_jobs::MAX);
    }
    let (status, full) = ask(&world, Method::POST, "jobs", &job("next", &home)).await;
    assert!(status == 400 && full["detail"].as_str().unwrap().contains("stop some"), "{status} {full}");
    for (number, other) in [(7, "next"), (9, "after")] {
        let gone = {
            let mut more = world.shared.more_jobs();
            let job = &mut more.jobs[number].job;
            job.scope.seeds = vec!["http://a.test/".to_owned()];
            job.name.clone()
        };
        assert_eq!(ask(&world, Method::POST, "jobs", &job(other, &home)).await.0, 201, "{other}");
        let more = world.shared.more_jobs();
        let has = |name: &str| more.jobs.iter().any(|more| more.job.name == name);
        assert!(!has(&gone) && has("busy") && has(more_jobs::PAGES_JOB) && has(other), "{gone}");
        assert_eq!(more.jobs.len(), more_jobs::MAX);
    }
}

#[tokio::test]
async fn the_seeds_of_all_jobs_together_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path());
    let seeds =
        |id: u32| (0..more_jobs::SEEDS_MAX).map(|number| format!("http://b.test/{id}/{number}")).collect();
    let count = u32::try_from(more_jobs::SEEDS_ALL_MAX / more_jobs::SEEDS_MAX).unwrap();
    {
        let mut more = world.shared.more_jobs();
        more.jobs.extend((2..count + 2).map(|id| kept(id, &format!("job-{id}"), seeds(id))));
        more.last = count + 1;
    }
    let one = job("one", &json!({"seeds": ["http://a.test/"]}));
    let (status, full) = ask(&world, Method::POST, "jobs", &one).await;
    assert!(status == 400 && full["detail"].as_str().unwrap().contains("seeds together"), "{status} {full}");
    world.shared.more_jobs().jobs[3].job.state = State::Stopped;
    assert_eq!(ask(&world, Method::POST, "jobs", &one).await.0, 201, "a stopped one makes room");
    assert_eq!(world.shared.more_jobs().jobs.len(), count as usize);
}

/// As after a reading of the archive: no crawl runs that would read it.
fn archive_is_read(world: &World, name: &str) {
    let job = more_jobs::find(&world.shared, name).unwrap();
    more_jobs::archive_is_read(&world.shared, &job).unwrap();
}

#[tokio::test]
async fn a_job_that_is_stopped_when_nothing_is_left_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path());
    for name in ["first", "second"] {
        let one = job(name, &json!({"seeds": ["http://a.test/"]}));
        assert_eq!(ask(&world, Method::POST, "jobs", &one).await.0, 201);
        archive_is_read(&world, name);
    }
    // The seed is left for the first of them, and was known for the second.
    let (_, first) = ask(&world, Method::POST, "jobs/first/stop", "").await;
    assert_eq!((&first["progress"]["left"], &first["progress"]["complete"]), (&json!(1), &json!(null)));
    let (_, second) = ask(&world, Method::GET, "jobs/second", "").await;
    assert_eq!(second["progress"]["left"], 1, "it has the same site, and looks for what the first has left");
    archive_is_read(&world, "second");
    for _ in 0..2 {
        let (_, second) = ask(&world, Method::POST, "jobs/second/stop", "").await;
        assert!(second["progress"]["complete"].is_string(), "{second}");
    }
    let (_, again) = ask(&world, Method::POST, "jobs/second/resume", "").await;
    assert_eq!((&again["job"]["state"], &again["progress"]["complete"]), (&json!("running"), &json!(null)));
}
