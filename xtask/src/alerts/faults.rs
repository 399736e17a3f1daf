//! The fault of each alert, made for real, and mended.
//!
//! [`prove`] makes a fault, waits until its alert fires, mends the fault, and waits until the alert has ended. The waits are the
//! times that rule and program need by themselves, divided as the rules are where the rule sets them, and half a minute more
//! for a busy machine.

use std::cell::RefCell;
use std::io::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::newer::Newer;
use super::receiver::Receiver;
use super::stage::{ALONE, CLUSTER, STREAMS, Stage, until};
use super::watch::Expected;

/// Partition whose inbox gets the message of a newer node.
const PARTITION: u32 = 5;
/// The other program that fills the disk writes so many bytes at once, in this interval.
const FILL_BYTES: usize = 2 << 20;
const FILL_EVERY: Duration = Duration::from_millis(250);
/// Time until the volume is nearly full, and until the crawl and the forecast have noticed.
const FULL_LIMIT: Duration = Duration::from_secs(180);
/// Time until a delivery is accepted.
const DELIVERY_LIMIT: Duration = Duration::from_secs(60);

/// A fault and its limits.
pub(super) struct Fault {
    pub(super) alert: &'static str,
    /// The node that the alert names.
    node: Option<&'static str>,
    /// What may fire beside it, as the runbook of the alert says.
    beside: &'static [Expected],
    fires_within: Duration,
    ends_within: Duration,
    /// What is done, in words.
    pub(super) what: &'static str,
    pub(super) prove: fn(&Fault, &Stage) -> Result<Proved>,
}

/// How long an alert took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proved {
    pub(super) alert: &'static str,
    pub(super) fired: Duration,
    pub(super) ended: Duration,
}

/// All faults. Those of one row are made at the same time, since each is the work of a different part.
pub(super) const ROWS: [&[Fault]; 4] = [
    &[
        Fault {
            alert: "NephilaUploadLag",
            node: None,
            beside: &[],
            fires_within: Duration::from_secs(120),
            ends_within: Duration::from_secs(120),
            what: "the network to the object store is cut",
            prove: upload_lag,
        },
        Fault {
            alert: "NephilaFeedsQuiet",
            node: None,
            beside: &[],
            fires_within: Duration::from_secs(180),
            ends_within: Duration::from_secs(120),
            what: "all feeds answer with a page that asks for consent",
            prove: feeds_quiet,
        },
        Fault {
            alert: "NephilaIntakeLag",
            node: None,
            beside: &[],
            fires_within: Duration::from_secs(60),
            ends_within: Duration::from_secs(75),
            what: "a newer node has sent a message that this one cannot read",
            prove: intake_lag,
        },
        Fault {
            alert: "NephilaStalled",
            node: Some("three"),
            beside: &[],
            fires_within: Duration::from_secs(60),
            ends_within: Duration::from_secs(60),
            what: "the only remote spider of a node is killed",
            prove: stalled,
        },
        Fault {
            alert: "NephilaWebhookFails",
            node: Some(ALONE),
            beside: &[],
            fires_within: Duration::from_secs(60),
            ends_within: Duration::from_secs(45),
            what: "the receiver of a webhook answers 500",
            prove: webhook_fails,
        },
    ],
    &[Fault {
        alert: "NephilaBlocked",
        node: None,
        beside: &[],
        fires_within: Duration::from_secs(90),
        ends_within: Duration::from_secs(120),
        what: "all sites answer 429",
        prove: blocked,
    }],
    &[Fault {
        alert: "NephilaDiskFills",
        node: Some("one"),
        // A crawl that waits for room fetches nothing.
        beside: &[Expected { alert: "NephilaStalled", node: Some("one") }],
        fires_within: Duration::from_secs(60),
        ends_within: Duration::from_secs(90),
        what: "another program fills the volume of a node: first the forecast, then the crawl waits for room",
        prove: disk_fills,
    }],
    &[Fault {
        alert: "NephilaImpolite",
        node: Some("two"),
        beside: &[],
        fires_within: Duration::from_secs(120),
        ends_within: Duration::from_secs(90),
        what: "a node is killed, taken over, and comes back with a planted bug: errands count for no rest",
        prove: impolite,
    }],
];

impl Fault {
    fn expected(&self) -> Expected {
        Expected { alert: self.alert, node: self.node }
    }
}

/// Makes the fault, waits for the alert, lets more happen while it fires, mends the fault, and waits for the end of the alert.
/// The fault is mended even if the alert did not fire.
fn prove<T>(
    fault: &Fault,
    stage: &Stage,
    make: impl FnOnce() -> Result<T>,
    meanwhile: impl FnOnce(&T) -> Result<()>,
    mend: impl FnOnce(T) -> Result<()>,
) -> Result<Proved> {
    let (alert, expected) = (fault.alert, fault.expected());
    let all: Vec<Expected> = fault.beside.iter().copied().chain([expected]).collect();
    ensure!(!stage.watch.fires(expected), "{alert} fires before its fault");
    stage.watch.expect(&all);
    let made = make().with_context(|| format!("{alert}: {}", fault.what))?;
    let began = Instant::now();
    let fired = until(&format!("{alert} fires: {}", fault.what), fault.fires_within, || {
        Ok(stage.watch.fires(expected))
    })
    .map(|()| began.elapsed());
    let went_on = if fired.is_ok() { meanwhile(&made) } else { Ok(()) };
    mend(made).with_context(|| format!("{alert}: mending"))?;
    let began = Instant::now();
    let fired = fired?;
    went_on.with_context(|| format!("while {alert} fires"))?;
    let ends = || Ok(all.iter().all(|one| !stage.watch.fires(*one)));
    until(&format!("{alert} ends after its fault"), fault.ends_within, ends)?;
    stage.watch.expect_no_more(&all);
    let ended = began.elapsed();
    println!(
        "  {alert}: {}; fires after {} s (at most {}), ends {} s after the fault (at most {})",
        fault.what,
        fired.as_secs(),
        fault.fires_within.as_secs(),
        ended.as_secs(),
        fault.ends_within.as_secs()
    );
    Ok(Proved { alert, fired, ended })
}

fn upload_lag(fault: &Fault, stage: &Stage) -> Result<Proved> {
    let make = || {
        stage.moto.network.cut();
        Ok(())
    };
    prove(
        fault,
        stage,
        make,
        |()| Ok(()),
        |()| {
            stage.moto.network.heal();
            Ok(())
        },
    )
}

fn feeds_quiet(fault: &Fault, stage: &Stage) -> Result<Proved> {
    let set = |on: bool| {
        stage.town.switches.asks_consent.store(on, Relaxed);
        Ok(())
    };
    prove(fault, stage, || set(true), |()| Ok(()), |()| set(false))
}

fn intake_lag(fault: &Fault, stage: &Stage) -> Result<Proved> {
    let make = || Newer::send(stage.nats.address(0), CLUSTER, STREAMS, PARTITION);
    prove(fault, stage, make, |_| Ok(()), Newer::remove)
}

fn stalled(fault: &Fault, stage: &Stage) -> Result<Proved> {
    let make = || {
        let pages = r#"sum(rate(nephila_spider_fetches_total{instance="three",outcome="2xx"}[10s]))"#;
        ensure!(stage.prometheus.sum(pages)? > 0.0, "the spider fetches nothing");
        stage.kill_spider()
    };
    prove(fault, stage, make, |()| Ok(()), |()| stage.start_spider())
}

/// Only a crawl on one machine has webhooks. It runs until the alert has ended, so that the end comes from the deliveries.
fn webhook_fails(fault: &Fault, stage: &Stage) -> Result<Proved> {
    let receiver = Receiver::open()?;
    let crawl = stage.crawl_alone(receiver.address())?;
    let delivers = |what: &str| {
        let before = receiver.accepted();
        until(what, DELIVERY_LIMIT, || Ok(receiver.accepted() > before))
            .with_context(|| format!("the crawl said:\n{}", crawl.said()))
    };
    delivers("the webhook delivers")?;
    let set = |on: bool| {
        receiver.refuse(on);
        Ok(())
    };
    let proved = prove(fault, stage, || set(true), |()| Ok(()), |()| set(false))?;
    delivers("the webhook delivers again")?;
    Ok(proved)
}

fn blocked(fault: &Fault, stage: &Stage) -> Result<Proved> {
    let set = |on: bool| {
        stage.town.switches.refuses.store(on, Relaxed);
        Ok(())
    };
    prove(fault, stage, || set(true), |()| Ok(()), |()| set(false))
}

/// The other program: a thread that writes into the volume of a node until told to stop, or until the volume is full.
fn disk_fills(fault: &Fault, stage: &Stage) -> Result<Proved> {
    let file = stage.inside("one")?.join("of-another-program");
    let waits = r#"sum(nephila_store_waits_for_disk{instance="one"})"#;
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let filler = RefCell::new(None);
        let make = || {
            let mut out = std::fs::File::create(&file).context("write into the volume of the node")?;
            let stop = &stop;
            *filler.borrow_mut() = Some(scope.spawn(move || {
                let piece = vec![0; FILL_BYTES];
                // A full volume ends the writing, as `stop` does.
                while !stop.load(Relaxed) && out.write_all(&piece).is_ok() {
                    std::thread::sleep(FILL_EVERY);
                }
            }));
            Ok(())
        };
        let meanwhile = |(): &()| {
            ensure!(
                stage.prometheus.sum(waits)? == 0.0,
                "the crawl waited for room before the forecast fired"
            );
            let full = || Ok(stage.prometheus.sum(waits)? > 0.0);
            until("the crawl waits for room", FULL_LIMIT, full)?;
            stop.store(true, Relaxed);
            // Then nothing is predicted any more, and the alert goes on.
            let level =
                r#"min(predict_linear(nephila_store_disk_free_bytes{instance="one"}[30s], 240)) >= 0"#;
            until("the forecast is level", FULL_LIMIT, || Ok(!stage.prometheus.query(level)?.is_empty()))?;
            ensure!(stage.watch.fires(fault.expected()), "the alert has ended, although the crawl waits");
            Ok(())
        };
        let mend = |()| {
            stop.store(true, Relaxed);
            if let Some(thread) = filler.borrow_mut().take() {
                ensure!(thread.join().is_ok(), "the other program has panicked");
            }
            Ok(std::fs::remove_file(&file)?)
        };
        prove(fault, stage, make, meanwhile, mend)
    })
}

fn impolite(fault: &Fault, stage: &Stage) -> Result<Proved> {
    let guests = &stage.town.switches.has_guests;
    let make = || {
        stage.kill_node("two")?;
        stage.wait_shared(2)?;
        stage.start_node("two", true)?;
        stage.wait_shared(3)?;
        guests.store(true, Relaxed);
        Ok(())
    };
    prove(
        fault,
        stage,
        make,
        |()| Ok(()),
        |()| {
            guests.store(false, Relaxed);
            stage.stop_node("two")?;
            stage.start_node("two", false)?;
            stage.wait_shared(3)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alert_that_is_shipped_has_a_fault() {
        let rules =
            std::fs::read_to_string(crate::shell::root().join("deploy/prometheus/alerts.yml")).unwrap();
        let mut shipped: Vec<&str> =
            rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        let mut made: Vec<&str> = ROWS.iter().flat_map(|row| row.iter()).map(|fault| fault.alert).collect();
        shipped.sort_unstable();
        made.sort_unstable();
        assert_eq!(made, shipped);
    }
}
