//! How fast logs are written on three real servers, against bare publishing of the same bytes with the same number of
//! messages on their way. `log_speed [PARTITIONS] [GROUPS] [BYTES]`; one line of JSON.

use std::time::{Duration, Instant};

use async_nats::jetstream;
use nephila_log::conformance::{group, write};
use nephila_log::jetstream::{Engine, Settings};
use nephila_log::{Fence, GroupLog};
use nephila_testnats::Nats;

/// The runs of each, taken in turn; the best counts, since the machine does other things as well.
const ROUNDS: usize = 3;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let partitions = u32::try_from(args.next().unwrap_or(16)).expect("a few partitions");
    let groups = args.next().unwrap_or(200);
    let bytes = usize::try_from(args.next().unwrap_or(16_384)).expect("a length");
    let nats = Nats::three().expect("three servers");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let settings = Settings { servers: nats.urls(), cluster: "speed".to_owned(), ..Settings::default() };
    let engine = runtime.block_on(Engine::connect(settings)).expect("a connection");
    let bare = runtime
        .block_on(async { async_nats::connect(nats.urls()).await.map(jetstream::new) })
        .expect("a connection");

    let (mut ours, mut theirs) = (f64::MAX, f64::MAX);
    for round in 0..ROUNDS {
        let mut logs: Vec<_> = (0..partitions)
            .map(|partition| {
                let opened = engine.log(partition, 1 + round as u64, Fence::new());
                runtime.block_on(opened).expect("a log")
            })
            .collect();
        let began = Instant::now();
        std::thread::scope(|scope| {
            for log in &mut logs {
                scope.spawn(move || {
                    let first = log.synced() + 1;
                    for sequence in first..first + groups {
                        write(log, sequence..=sequence, bytes).expect("it is written");
                    }
                });
            }
        });
        ours = ours.min(began.elapsed().as_secs_f64());

        let began = Instant::now();
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for partition in 0..partitions {
                let bare = bare.clone();
                tasks.spawn(async move {
                    let subject = format!("neph.speed.{}.bare.{partition}", partition % 8);
                    for sequence in 0..groups {
                        let sent = bare.publish(subject.clone(), group(sequence, bytes).into()).await;
                        sent.expect("it is sent").await.expect("it is stored");
                    }
                });
            }
            tasks.join_all().await;
        });
        theirs = theirs.min(began.elapsed().as_secs_f64());
    }

    let mut reading = runtime.block_on(engine.log(0, 100, Fence::new())).expect("a log");
    let began = Instant::now();
    let read = reading.replay(1).map(|group| group.expect("it is read").1.len() as u64).sum::<u64>();
    let replay = began.elapsed().max(Duration::from_millis(1)).as_secs_f64();

    let messages = f64::from(partitions) * groups as f64;
    println!(
        "{}",
        serde_json::json!({
            "partitions": partitions,
            "group_bytes": bytes,
            "log_groups_per_second": (messages / ours).round(),
            "bare_messages_per_second": (messages / theirs).round(),
            "log_against_bare": (theirs / ours * 100.0).round() / 100.0,
            "replay_mb_per_second": (read as f64 / replay / 1e4).round() / 100.0,
        })
    );
}
