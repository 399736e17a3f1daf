//! Records of jobs: too many seeds, records of newer programs, and unreadable records.

use nephila_core::key::Secret;
use nephila_log::memory::Engine;
use serde_json::json;

use super::*;

fn store() -> (Arc<dyn Leases>, JobStore) {
    let engine = Engine::new(Duration::from_secs(15));
    let leases: Arc<dyn Leases> = Arc::new(engine.leases());
    let lists = SeedLists::new(Arc::new(engine.inbox()), Secret([7; 16]));
    (leases.clone(), JobStore::new(leases, Arc::new(lists)))
}

#[tokio::test]
async fn ops_01_seeds_that_move_are_never_too_many_for_the_record() {
    let (leases, store) = store();
    let founded = r#"{"partitions":16,"secret":"00","format":1,"later":7}"#;
    leases.put("cluster", None, founded.into()).await.unwrap().unwrap();
    let mut job = Job::new(JobId(0), "press");
    job.scope.kind = nephila_core::job::Kind::Host;
    let job = store.create(job, None).await.unwrap();
    let target = |n: usize| CrawlUrl::parse(&format!("https://www.site-{n}.test/")).unwrap();
    let count = MOVED_MAX + 500;
    for first in (0..count).step_by(100) {
        let moves = (first..first + 100).map(|n| {
            let (store, target) = (store.clone(), target(n));
            tokio::spawn(async move { store.widen(job.id, &target).await })
        });
        for moved in moves.collect::<Vec<_>>() {
            moved.await.unwrap().unwrap();
        }
    }
    let record = &store.all().await.unwrap()[0];
    assert!(record.moved.len() <= MOVED_MAX && record.list.is_some(), "{:?}", record.list);
    assert_eq!(record.seeds(), 0);
    let rules = store.in_force(record).await.unwrap().rules;
    let link = nephila_core::job::FoundBy::link(1, 0);
    assert!((0..count).all(|n| rules.verdict(&target(n), link).is_in()));
    assert!(!rules.verdict(&target(count), link).is_in());
    // Older programs stay out from now on; what a newer one wrote there is kept.
    let founded = leases.record("cluster").await.unwrap().unwrap();
    let founded: Value = serde_json::from_slice(&founded.value).unwrap();
    assert_eq!(founded, json!({"partitions": 16, "secret": "00", "format": LISTS_FORMAT, "later": 7}));
}

#[tokio::test]
async fn a_record_of_a_newer_program_is_read_and_keeps_its_fields_when_this_one_writes() {
    let (leases, store) = store();
    let job = store.create(Job::new(JobId(0), "press"), None).await.unwrap();
    // As a newer program would write it: fields of its own at every level.
    let key = key(job.id);
    let item = leases.record(&key).await.unwrap().unwrap();
    let mut newer: Value = serde_json::from_slice(&item.value).unwrap();
    newer["renders"] = json!({"with": "chromium"});
    newer["job"]["colour"] = json!("green");
    newer["job"]["scope"]["languages"] = json!(["fr"]);
    newer["job"]["limits"]["links_max"] = json!(7);
    let bytes = serde_json::to_vec(&newer).unwrap();
    leases.put(&key, Some(item.revision), bytes.into()).await.unwrap().unwrap();
    // This one reads it, and changes what it knows.
    assert_eq!(store.all().await.unwrap()[0].job, job);
    store.change(job.id, |record| record.job.limits.pages_max = 9).await.unwrap().unwrap();
    store.change(job.id, |record| record.ended = Some(Ended::default())).await.unwrap().unwrap();
    let written: Value = serde_json::from_slice(&leases.record(&key).await.unwrap().unwrap().value).unwrap();
    newer["job"]["limits"]["pages_max"] = json!(9);
    newer["ended"] = serde_json::to_value(Ended::default()).unwrap();
    assert_eq!(written, newer);
}

#[test]
fn inside_of_a_job_stands_what_the_oldest_program_reads() {
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let job = &TEMPLATE["job"];
    assert_eq!(names(job), "id limits name priority schedule scope state");
    assert_eq!(names(&job["scope"]), "depth_max exclude extra_hops include kind seeds");
    assert_eq!(names(&job["limits"]), "bytes_max pages_max pages_per_domain_max pages_per_host_max time_max");
}

#[tokio::test]
async fn sec_05_a_record_that_cannot_be_read_holds_up_its_own_job_and_is_named() {
    let (leases, store) = store();
    let press = store.create(Job::new(JobId(0), "press"), None).await.unwrap();
    let broken = store.create(Job::new(JobId(0), "broken"), None).await.unwrap();
    let whole = leases.record(&key(broken.id)).await.unwrap().unwrap();
    let torn = whole.value.slice(..whole.value.len() / 2);
    let revision = leases.put(&key(broken.id), Some(whole.revision), torn).await.unwrap().unwrap();
    let jobs = Jobs::default();
    let (all, unreadable) = store.refresh(&jobs).await.unwrap();
    assert_eq!(all.iter().map(|record| &*record.job.name).collect::<Vec<_>>(), ["press"]);
    assert!(jobs.get(press.id).is_some() && !jobs.is_unreadable(press.id));
    assert!(jobs.get(broken.id).is_none() && jobs.is_unreadable(broken.id), "its URLs wait");
    // The alarm names it, once; it is over when the record can be read again, also after a restart.
    let mut watch = Watch::new(leases.clone(), "one");
    watch.note(&unreadable).await.unwrap();
    let alarms = alarm::all(&*leases).await.unwrap();
    assert!(alarms.len() == 1 && alarms[0].text.contains("the record job.2 cannot be read"), "{alarms:?}");
    let next = store.create(Job::new(JobId(0), "next"), None).await.unwrap();
    assert_eq!(next.id, JobId(3), "no number is given twice");
    assert!(store.change(broken.id, |record| record.moved.clear()).await.is_err(), "it is not written");
    leases.put(&key(broken.id), Some(revision), whole.value.clone()).await.unwrap().unwrap();
    let (_, unreadable) = store.refresh(&jobs).await.unwrap();
    assert!(jobs.get(broken.id).is_some() && !jobs.is_unreadable(broken.id));
    Watch::new(leases.clone(), "two").note(&unreadable).await.unwrap();
    assert_eq!(alarm::all(&*leases).await.unwrap().len(), 1, "another node does not end it");
    Watch::new(leases.clone(), "one").note(&unreadable).await.unwrap();
    assert!(alarm::all(&*leases).await.unwrap().is_empty());
}
