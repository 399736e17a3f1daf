//! Servers that lose acknowledged entries: detected, and healed if any node still knows the entries.

use super::*;
use crate::heal;

/// Positions of the log's messages in the stream.
async fn log_messages(world: &World) -> Vec<u64> {
    let stream = world.past().await.get_stream(STREAM).await.unwrap();
    let mut found = Vec::new();
    let mut from = 1;
    let subject = "neph.nephila.0.log.0";
    while let Ok(message) = stream.raw_message_builder().sequence(from).next_by_subject(subject).send().await
    {
        found.push(message.sequence);
        from = message.sequence + 1;
    }
    found
}

async fn lose(world: &World, messages: &[u64]) {
    let stream = world.past().await.get_stream(STREAM).await.unwrap();
    for message in messages {
        assert!(stream.delete_message(*message).await.unwrap());
    }
}

/// Deletes the stream and creates an empty one.
async fn recreate(world: &World) {
    let past = world.past().await;
    let config = past.get_stream(STREAM).await.unwrap().cached_info().config.clone();
    past.delete_stream(STREAM).await.unwrap();
    past.create_stream(config).await.unwrap();
}

async fn purge(world: &World) {
    world.past().await.get_stream(STREAM).await.unwrap().purge().await.unwrap();
}

/// An owner with a hundred URLs, all of them in a snapshot.
async fn with_a_snapshot(node: &Arc<Node>) -> Owner {
    let owner = Owner::open(node, 1).await.unwrap();
    owner.learn(0..100).await;
    owner.stored().await;
    owner
}

/// Offers a hundred URLs in each round, which gives several groups in the log.
async fn learn_in_rounds(owner: &Owner, rounds: std::ops::Range<u32>) {
    for round in rounds {
        owner.learn(round * 100..round * 100 + 100).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_behind_the_snapshot_closes_the_partition_until_the_loss_is_accepted() {
    let world = World::new().await;
    let one = world.node("one").await;
    let owner = with_a_snapshot(&one).await;
    let _held = one.snapshot_permits.clone().acquire_many_owned(AT_ONCE as u32).await.unwrap();
    learn_in_rounds(&owner, 1..6).await;
    let (live, _) = owner.kill().await;
    let messages = log_messages(&world).await;
    lose(&world, &messages[messages.len() - 3..messages.len() - 1]).await;
    let two = world.node("two").await;
    let Err(error) = Owner::open(&two, 2).await else { panic!("a hole was not noticed") };
    assert!(format!("{error:#}").contains("is missing"), "{error:#}");
    let alarms = alarms(&two).await;
    assert!(alarms[0].contains("partition-00000") && alarms[0].contains(STREAM), "{alarms:?}");
    heal::ask(&*two.cluster.leases, 0).await.unwrap();
    let owner = Owner::open(&two, 3).await.unwrap();
    wait_for_alarm(&two, <[String]>::is_empty).await;
    let (position, _) = owner.state().await;
    assert!(position.sequence < live.sequence + 2, "{position:?} of {live:?}");
    owner.learn(0..700).await;
    owner.stored().await;
    let healed = owner.kill().await;
    // Whoever opens it then finds nothing strange, not even the first, which knew another history.
    assert_eq!(find_state(&world.node("three").await, 4).await.unwrap(), healed);
    assert_eq!(find_state(&one, 5).await.unwrap(), healed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_emptied_or_made_anew_is_noticed_by_a_node_that_never_had_the_partition() {
    for (n, how) in ["emptied", "made anew"].into_iter().enumerate() {
        let world = World::new().await;
        let one = world.node("one").await;
        let owner = with_a_snapshot(&one).await;
        let held = one.snapshot_permits.clone().acquire_many_owned(AT_ONCE as u32).await.unwrap();
        owner.learn(100..200).await;
        one.tails.write(&*one.cluster.leases).await.unwrap();
        owner.kill().await;
        drop(held);
        match n {
            0 => purge(&world).await,
            _ => recreate(&world).await,
        }
        let two = world.node("two").await;
        let Err(error) = Owner::open(&two, 2).await else { panic!("{how}: not noticed") };
        let text = format!("{error:#}");
        assert!(
            text.contains("the log ends with group 0") && text.contains("--accept-loss"),
            "{how}: {text}"
        );
        heal::ask(&*two.cluster.leases, 0).await.unwrap();
        let owner = Owner::open(&two, 3).await.unwrap();
        owner.learn(100..300).await;
        owner.stored().await;
        let live = owner.kill().await;
        assert_eq!(find_state(&world.node("three").await, 4).await.unwrap(), live, "{how}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_gone_begins_anew_when_a_snapshot_has_all_of_it() {
    let world = World::new().await;
    let one = world.node("one").await;
    let owner = with_a_snapshot(&one).await;
    one.tails.write(&*one.cluster.leases).await.unwrap();
    let live = owner.kill().await;
    recreate(&world).await;
    let two = world.node("two").await;
    assert_eq!(find_state(&two, 2).await.unwrap(), live, "nobody has to be asked: nothing is lost");
    let owner = Owner::open(&two, 3).await.unwrap();
    owner.learn(100..200).await;
    owner.stored().await;
    // The inbox is read from its new beginning: what comes in arrives.
    let before = owner.state().await.0.sequence;
    let job = nephila_core::job::Job::new(JobId(3), "later");
    let said = nephila_core::entry::Entry::Job(Box::new(job));
    let message =
        nephila_core::cluster::message::Message::Command(Box::new(said)).encode(&two.cluster.secret);
    two.cluster.inbox.publish(0, 77, message.into()).await.unwrap();
    let began = Instant::now();
    while owner.state().await.0.sequence == before {
        assert!(began.elapsed() < PATIENCE, "the message never came");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let live = owner.kill().await;
    assert_eq!(find_state(&world.node("three").await, 4).await.unwrap(), live);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_notices_a_hole_in_its_log_and_makes_snapshots_that_lead_past_it() {
    let world = World::new().await;
    let one = world.node("one").await;
    let owner = with_a_snapshot(&one).await;
    let held = one.snapshot_permits.clone().acquire_many_owned(AT_ONCE as u32).await.unwrap();
    learn_in_rounds(&owner, 1..6).await;
    // It has to have looked once since.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let messages = log_messages(&world).await;
    lose(&world, &messages[messages.len() - 3..messages.len() - 2]).await;
    let alarms = wait_for_alarm(&one, |alarms| !alarms.is_empty()).await;
    assert!(alarms[0].contains("messages of the log are gone"), "{alarms:?}");
    drop(held);
    wait_for_alarm(&one, <[String]>::is_empty).await;
    owner.learn(600..700).await;
    let live = owner.kill().await;
    assert_eq!(find_state(&world.node("two").await, 2).await.unwrap(), live);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_whose_log_loses_its_end_goes_on_with_what_it_knows() {
    for (n, how) in
        ["rolled back", "made anew", "rolled back without an object store"].into_iter().enumerate()
    {
        let mut world = World::new().await;
        world.has_objects = n != 2;
        let one = world.node("one").await;
        let mut owner = Owner::open(&one, 1).await.unwrap();
        learn_in_rounds(&owner, 0..6).await;
        match n {
            1 => recreate(&world).await,
            _ => {
                let messages = log_messages(&world).await;
                lose(&world, &messages[messages.len() - 3..]).await;
            }
        }
        let notice = tokio::time::timeout(PATIENCE, owner.notices.recv()).await.unwrap();
        assert!(matches!(notice, Some(Notice::Failed(_))), "{how}: {notice:?}");
        let live = owner.kill().await;
        one.tails.write(&*one.cluster.leases).await.unwrap();
        let owner = Owner::open(&one, 2).await.unwrap();
        owner.learn(600..700).await;
        assert!(owner.state().await.0.sequence > live.0.sequence, "{how}: it goes on behind all it knew");
        if n != 2 {
            owner.stored().await;
            let live = owner.kill().await;
            assert_eq!(find_state(&world.node("two").await, 3).await.unwrap(), live, "{how}");
        }
    }
}
