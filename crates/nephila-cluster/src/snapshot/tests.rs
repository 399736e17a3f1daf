//! Partitions of real nodes on a real NATS server: snapshots, restores, and servers that lose acknowledged entries.

mod lies;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nephila_core::cluster::Incarnation;
use nephila_core::job::JobId;
use nephila_core::key::{Prefixes, Secret};
use nephila_core::state::{Position, State as _};
use nephila_core::url::CrawlUrl;
use nephila_core::want::Want;
use nephila_testnats::Nats;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::super::parts::{self, Opening, States, find};
use super::super::session::{Notice, Session};
use super::super::{Cluster, Node, alarm, tails};
use super::*;
use crate::objects::tests::moto::Moto;
use nephila_engine::clock::Gate;
use nephila_engine::folder::Folder;
use nephila_engine::log;
use nephila_engine::settings::Settings;
use nephila_engine::wire;
use nephila_engine::worker::Link;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const STREAM: &str = "NEPH_nephila_0";
const ALL: Prefixes = Prefixes::ALL;

/// A server and a folder that all nodes see.
struct World {
    nats: Nats,
    dir: TempDir,
    has_objects: bool,
    /// Replaces the folder.
    moto: Option<Moto>,
}

impl World {
    async fn new() -> World {
        let nats = tokio::task::spawn_blocking(Nats::one).await.unwrap().unwrap();
        World { nats, dir: tempfile::tempdir().unwrap(), has_objects: true, moto: None }
    }

    fn objects(&self) -> PathBuf {
        self.dir.path().join("objects")
    }

    async fn node(&self, name: &str) -> Arc<Node> {
        let mut settings = Settings::default();
        settings.cluster.servers = self.nats.urls();
        settings.cluster.replicas = 1;
        settings.cluster.streams = 1;
        settings.cluster.partitions = 1;
        if self.has_objects {
            settings.cluster.objects = format!("file://{}", self.objects().display());
        }
        settings.cluster.snapshot_every = Duration::from_millis(1);
        settings.worker.group_delay = Duration::from_millis(5);
        let folder = Folder::new(self.dir.path().join(name));
        std::fs::create_dir_all(folder.dir()).unwrap();
        let cluster = Cluster::connect(&settings.cluster).await.unwrap();
        let archive = wire::archive(folder.dir(), &settings).unwrap();
        let (log, _) = log::Writer::open(&folder.logs()).unwrap();
        let spider = wire::spider(&settings).unwrap();
        let leases = cluster.leases.clone();
        let snapshots = match &self.moto {
            Some(moto) => Some(Snapshots::new(moto.objects().within("snapshots"), leases.clone(), 1)),
            None => cluster.snapshots(&settings.cluster).unwrap(),
        };
        Arc::new(Node {
            name: name.into(),
            snapshots,
            settings,
            folder,
            cluster,
            archive,
            fetch: Arc::new(spider.clone()),
            spider,
            log,
            stop_list: Arc::default(),
            jobs: Arc::default(),
            gate: Gate::default(),
            address: String::new(),
            known: Default::default(),
            snapshot_permits: Arc::new(tokio::sync::Semaphore::new(AT_ONCE)),
            trouble: Arc::new(alarm::Trouble::new(leases, "snapshots", name)),
            tails: tails::Tails::new(name),
            events: None,
        })
    }

    /// A direct connection past the engine, to simulate a broken server.
    async fn past(&self) -> async_nats::jetstream::Context {
        async_nats::jetstream::new(async_nats::connect(self.nats.urls()).await.unwrap())
    }
}

/// A node that owns the only partition.
struct Owner {
    node: Arc<Node>,
    session: Session,
    notices: mpsc::Receiver<Notice>,
}

impl Owner {
    async fn open(node: &Arc<Node>, epoch: u64) -> anyhow::Result<Owner> {
        let (send, notices) = mpsc::channel(4);
        let mut session = Session::begin(node, Incarnation(epoch), send).await?;
        let states = States::new()?;
        let opened = parts::open(node.clone(), states, Opening::of(&session), 0, epoch).await;
        match opened {
            Ok(task) => {
                session.inboxes.insert(0, task);
                Ok(Owner { node: node.clone(), session, notices })
            }
            Err(error) => {
                session.end_now().await;
                Err(error)
            }
        }
    }

    /// Offers URLs; they are in the log on return.
    async fn learn(&self, numbers: std::ops::Range<u32>) {
        let links: Vec<Link> = numbers
            .map(|number| Link {
                url: CrawlUrl::parse(&format!("http://h{}.test/{number}", number % 7)).unwrap(),
                want: Want::of(JobId(1)).at(1),
            })
            .collect();
        assert!(self.session.shared.handle.offer_durably(&links).await.unwrap().is_empty());
    }

    async fn state(&self) -> (Position, u64) {
        let seen = self.session.port.visit(ALL, |state, _| (state.position(), state.hash(ALL).unwrap()));
        seen.await.unwrap()
    }

    async fn pointer(&self) -> Option<Pointer> {
        pointed(&*self.node.cluster.leases, 0).await.unwrap().pointer
    }

    /// Waits until the latest snapshot contains everything known.
    async fn stored(&self) -> Pointer {
        let began = Instant::now();
        loop {
            let at = self.state().await.0.sequence;
            if let Some(pointer) = self.pointer().await
                && pointer.latest.sequence >= at
            {
                return pointer;
            }
            assert!(began.elapsed() < PATIENCE, "no snapshot of group {at} was made");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Ends the owner as if its process had been killed. Returns its last state.
    async fn kill(self) -> (Position, u64) {
        let state = self.state().await;
        self.session.end_now().await;
        state
    }
}

async fn alarms(node: &Node) -> Vec<String> {
    let alarms = alarm::all(&*node.cluster.leases).await.unwrap();
    alarms.into_iter().map(|alarm| format!("{}: {}", alarm.about, alarm.text)).collect()
}

async fn wait_for_alarm(node: &Node, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
    let began = Instant::now();
    loop {
        let alarms = alarms(node).await;
        if wanted(&alarms) {
            return alarms;
        }
        assert!(began.elapsed() < PATIENCE, "the alarms are {alarms:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The state that a node finds when opening the partition, before any write.
async fn find_state(node: &Arc<Node>, epoch: u64) -> anyhow::Result<(Position, u64)> {
    let states = States::new()?;
    let mut found = find::find(node, &states, &nephila_log::Fence::new(), 0, epoch).await?;
    Ok((found.part.state.position(), found.part.state.hash(ALL)?))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_node_opens_from_a_snapshot_and_the_tail_of_the_log() {
    let world = World::new().await;
    let one = world.node("one").await;
    let owner = Owner::open(&one, 1).await.unwrap();
    owner.learn(0..500).await;
    let first = owner.stored().await;
    owner.learn(500..900).await;
    let second = owner.stored().await;
    owner.learn(900..1_000).await;
    let third = owner.stored().await;
    assert!(first.latest.sequence < second.latest.sequence);
    assert_eq!(third.before.as_ref().unwrap().sequence, second.latest.sequence);
    // What came behind it is in the log alone.
    let keeper_off = owner.node.snapshot_permits.clone().acquire_many_owned(AT_ONCE as u32).await.unwrap();
    owner.learn(1_000..1_200).await;
    let live = owner.kill().await;
    drop(keeper_off);
    assert!(live.0.sequence > third.latest.sequence);

    // The log is kept from the older of the two on, and files that neither lists are gone.
    let engine = &one.cluster.engine;
    let began = Instant::now();
    loop {
        let kept = engine.log(0, 1, nephila_log::Fence::new()).await.unwrap().first().await.unwrap();
        assert!(kept <= second.latest.sequence + 1, "group {kept} is the first");
        if kept > first.latest.sequence {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "the log begins with group {kept}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let names: Vec<String> = files(&world.objects()).iter().map(|path| path.display().to_string()).collect();
    assert_eq!(names.iter().filter(|name| name.ends_with(".json")).count(), 2, "{names:?}");

    std::fs::remove_dir_all(one.folder.state()).unwrap();
    assert_eq!(find_state(&one, 2).await.unwrap(), live, "on the same node, with an empty disk");
    let two = world.node("two").await;
    assert_eq!(find_state(&two, 3).await.unwrap(), live, "on a node that never had it");
    // A node whose state is older than the log reaches.
    let owner = Owner::open(&two, 4).await.unwrap();
    for round in 0..3 {
        owner.learn(2_000 + round * 100..2_100 + round * 100).await;
        owner.stored().await;
    }
    let live = owner.kill().await;
    assert_eq!(find_state(&one, 5).await.unwrap(), live, "on the first, whose state is old by now");
    assert!(alarms(&one).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_is_passed_over_for_the_one_before_and_two_are_an_alarm() {
    let world = World::new().await;
    let one = world.node("one").await;
    let owner = Owner::open(&one, 1).await.unwrap();
    owner.learn(0..300).await;
    owner.stored().await;
    owner.learn(300..600).await;
    let pointer = owner.stored().await;
    let live = owner.kill().await;
    let two = world.node("two").await;
    let all = files(&world.objects());
    let object = |name: &str| all.iter().find(|path| path.ends_with(name)).unwrap().clone();
    // A file that only the latest lists loses its last byte.
    let snapshots = one.snapshots.as_ref().unwrap();
    let latest = snapshots.manifest(0, &pointer.latest).await.unwrap();
    let before = snapshots.manifest(0, pointer.before.as_ref().unwrap()).await.unwrap();
    let new = latest.files.iter().find(|file| !before.files.contains(file)).unwrap();
    let path = object(&new.object);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(find_state(&two, 2).await.unwrap(), live, "from the one before, and more of the log");
    // And one of the other is another.
    std::fs::remove_dir_all(two.folder.state()).unwrap();
    let path = object(&before.files[0].object);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let Err(error) = Owner::open(&two, 3).await else { panic!("opened from nothing") };
    assert!(format!("{error:#}").contains("none of the snapshots"), "{error:#}");
    let alarms = alarms(&two).await;
    assert!(alarms.len() == 1 && alarms[0].contains("nephila cluster heal 0 --accept-loss"), "{alarms:?}");
    // The first node has its own state: it needs none of them, and makes new ones.
    let owner = Owner::open(&one, 4).await.unwrap();
    wait_for_alarm(&one, <[String]>::is_empty).await;
    owner.learn(600..700).await;
    owner.stored().await;
    owner.learn(700..800).await;
    owner.stored().await;
    let live = owner.kill().await;
    assert_eq!(find_state(&two, 5).await.unwrap(), live);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_object_store_is_away_nothing_is_lost_and_it_goes_on_by_itself() {
    let world = World::new().await;
    let one = world.node("one").await;
    let owner = Owner::open(&one, 1).await.unwrap();
    owner.learn(0..100).await;
    let pointer = owner.stored().await;
    let aside = world.dir.path().join("aside");
    std::fs::rename(world.objects(), &aside).unwrap();
    std::fs::write(world.objects(), b"").unwrap();
    owner.learn(100..300).await;
    let alarms = wait_for_alarm(&one, |alarms| !alarms.is_empty()).await;
    assert!(alarms[0].contains("snapshots-one") && alarms[0].contains("Nothing is lost"), "{alarms:?}");
    assert_eq!(owner.pointer().await.unwrap(), pointer);
    owner.learn(300..400).await;
    std::fs::remove_file(world.objects()).unwrap();
    std::fs::rename(&aside, world.objects()).unwrap();
    owner.stored().await;
    wait_for_alarm(&one, <[String]>::is_empty).await;
    let live = owner.kill().await;
    assert_eq!(find_state(&world.node("two").await, 2).await.unwrap(), live);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_was_replaced_moves_no_pointer_and_removes_nothing() {
    let world = World::new().await;
    let (one, two) = (world.node("one").await, world.node("two").await);
    let old = Owner::open(&one, 1).await.unwrap();
    old.learn(0..200).await;
    old.stored().await;
    let held = one.snapshot_permits.clone().acquire_many_owned(AT_ONCE as u32).await.unwrap();
    old.learn(200..300).await;
    let new = Owner::open(&two, 2).await.unwrap();
    new.learn(300..500).await;
    new.stored().await;
    let pointer = new.stored().await;
    // The old one comes to its turn late, with a snapshot of what it knew.
    drop(held);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let live = new.kill().await;
    assert_eq!(pointed(&*one.cluster.leases, 0).await.unwrap().pointer.unwrap(), pointer);
    old.session.end_now().await;
    std::fs::remove_dir_all(two.folder.state()).unwrap();
    assert_eq!(find_state(&two, 3).await.unwrap(), live);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_node_opens_from_a_snapshot_in_a_bucket() {
    let mut world = World::new().await;
    world.moto = Some(tokio::task::spawn_blocking(Moto::start).await.unwrap());
    let one = world.node("one").await;
    let owner = Owner::open(&one, 1).await.unwrap();
    for round in 0..3 {
        owner.learn(round * 200..round * 200 + 200).await;
        owner.stored().await;
    }
    let held = one.snapshot_permits.clone().acquire_many_owned(AT_ONCE as u32).await.unwrap();
    owner.learn(600..700).await;
    let live = owner.kill().await;
    drop(held);
    std::fs::remove_dir_all(one.folder.state()).unwrap();
    assert_eq!(find_state(&one, 2).await.unwrap(), live);
    let objects = world.moto.as_ref().unwrap().objects();
    let names = objects.list("snapshots/00000").await.unwrap();
    assert_eq!(names.iter().filter(|(name, _)| name.ends_with(".json")).count(), 2, "{names:?}");
}

#[test]
fn another_cluster_of_the_same_name_has_objects_of_its_own() {
    let id = |secret: u8| Content::of(&Secret([secret; 16]).0).sha256;
    assert_ne!(id(1)[..super::super::ID_CHARS], id(2)[..super::super::ID_CHARS]);
}

#[test]
fn names_carry_epoch_and_content() {
    let content = Content::of(b"x");
    let name = object_name(7, 0x1f, &content, "run");
    assert!(name.starts_with("00007/000000000000001f-") && name.ends_with(".run"), "{name}");
    assert_eq!(epoch_of(&name), Some(0x1f));
    assert_eq!(epoch_of("00007/strange"), None);
}
