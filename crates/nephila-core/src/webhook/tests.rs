//! Senders in virtual time, at the shipped waits: back-off, `Retry-After`, 410, and crashes at every step.

use super::sender::{
    ALARM_AFTER, Answer, FIRST_WAIT, LOCAL_WAIT_MAX, LOOK_EVERY, RETRY_AFTER_MIN, SAVE_EVERY, Sender, Task,
    WAIT_MAX, backoff, millis,
};
use super::{Delivery, Limits, deliveries};
use crate::chance::Chance;
use crate::event::{Event, Kind};
use std::time::Duration;

const OK: Answer = Answer::Status { status: 204, retry_after: None };

fn status(status: u16) -> Answer {
    Answer::Status { status, retry_after: None }
}

/// A sender with one delivery under way.
fn sending(now: u64) -> Sender {
    let mut sender = Sender::new(now);
    assert_eq!(sender.next(now), Task::Read);
    sender.was_read(now, 1, true, false);
    assert_eq!(sender.next(now), Task::Send(0));
    sender
}

#[test]
fn deliveries_go_one_after_the_other_and_the_position_is_recorded_after_the_last() {
    let mut sender = Sender::new(5);
    sender.was_read(5, 2, true, true);
    assert_eq!(sender.next(5), Task::Send(0));
    sender.answered(6, OK, 0);
    assert_eq!(sender.next(6), Task::Send(1));
    sender.answered(7, status(200), 0);
    assert_eq!(sender.next(7), Task::Save);
    sender.saved(8, true, 0);
    assert_eq!(sender.next(8), Task::Read);
    assert!(!sender.is_caught_up());
    sender.was_read(9, 0, false, false);
    assert_eq!(sender.next(9), Task::Wait(LOOK_EVERY));
    assert!(sender.is_caught_up());
    assert_eq!(sender.next(9 + millis(LOOK_EVERY)), Task::Read);
}

#[test]
fn waits_double_from_two_seconds_to_an_hour_with_jitter_and_end_with_the_first_success() {
    let (mut sender, mut now, mut waits) = (sending(0), 0, Vec::new());
    for _ in 0..14 {
        // The longest jitter: `chance` modulo one more than a half of the wait.
        let whole = backoff(waits.len() as u32 + 1, WAIT_MAX, 0) * 2;
        sender.answered(now, status(500), millis(whole) / 2);
        let Task::Wait(wait) = sender.next(now) else { panic!("{:?}", sender.next(now)) };
        waits.push(wait.as_secs());
        assert_eq!(sender.next(now + millis(wait) - 1), Task::Wait(Duration::from_millis(1)));
        now += millis(wait);
        assert_eq!(sender.next(now), Task::Send(0), "the same delivery");
    }
    assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 3_600, 3_600, 3_600]);
    assert_eq!(sender.failing_since(), Some(0));
    assert!(now > millis(ALARM_AFTER));
    sender.answered(now, OK, 0);
    assert_eq!((sender.failing_since(), sender.next(now)), (None, Task::Save));
    sender.saved(now, true, 0);
    sender.was_read(now, 1, true, false);
    sender.answered(now, Answer::Nothing, 0);
    assert_eq!(sender.next(now), Task::Wait(FIRST_WAIT / 2), "the count begins anew");
}

#[test]
fn jitter_lies_between_a_half_and_the_whole() {
    let mut chance = Chance(7);
    for failures in 1..80 {
        for wait_max in [WAIT_MAX, LOCAL_WAIT_MAX] {
            let half = backoff(failures, wait_max, 0);
            let waits: Vec<Duration> = (0..50).map(|_| backoff(failures, wait_max, chance.next())).collect();
            assert!(waits.iter().all(|wait| *wait >= half && *wait <= half * 2 && *wait <= wait_max));
            assert!(waits.iter().any(|wait| *wait != waits[0]), "they differ");
        }
    }
    assert_eq!(backoff(u32::MAX, WAIT_MAX, 0), WAIT_MAX / 2);
}

#[test]
fn the_receiver_names_the_wait_within_bounds() {
    for (said, wait) in [(30, 30), (0, RETRY_AFTER_MIN.as_secs()), (86_400, WAIT_MAX.as_secs())] {
        let mut sender = sending(0);
        let retry_after = Some(Duration::from_secs(said));
        sender.answered(0, Answer::Status { status: 503, retry_after }, 9);
        assert_eq!(sender.next(0), Task::Wait(Duration::from_secs(wait)), "{said}");
    }
    let mut accepted = sending(0);
    let retry_after = Some(Duration::from_secs(30));
    accepted.answered(0, Answer::Status { status: 200, retry_after }, 9);
    assert_eq!(accepted.next(0), Task::Save, "an accepted delivery needs no wait");
}

#[test]
fn everything_but_success_and_410_is_tried_again() {
    for answer in [100, 199, 300, 301, 308, 400, 401, 404, 409, 411, 413, 429, 500, 599].map(status) {
        let mut sender = sending(0);
        sender.answered(0, answer, 0);
        assert_eq!(sender.next(0), Task::Wait(FIRST_WAIT / 2), "{answer:?}");
        assert!(!sender.is_gone());
    }
}

#[test]
fn a_url_that_is_gone_is_never_asked_again() {
    let mut sender = sending(0);
    sender.answered(3, status(410), 0);
    assert!(sender.is_gone() && sender.failing_since() == Some(3));
    for now in [3, millis(WAIT_MAX), u64::MAX / 2] {
        assert_eq!(sender.next(now), Task::End);
    }
}

#[test]
fn a_position_that_cannot_be_recorded_is_tried_again_before_anything_else() {
    let mut sender = sending(0);
    sender.answered(0, OK, 0);
    sender.saved(0, false, 0);
    assert_eq!(sender.next(0), Task::Wait(FIRST_WAIT / 2));
    assert_eq!(sender.next(millis(FIRST_WAIT)), Task::Save, "nothing is sent twice for that");
    let mut reading = Sender::new(0);
    reading.could_not_read(0, 0);
    assert_eq!(reading.next(0), Task::Wait(FIRST_WAIT / 2));
    assert_eq!(reading.next(millis(FIRST_WAIT)), Task::Read);
}

#[test]
fn what_fails_on_this_machine_is_tried_again_within_half_a_minute() {
    let mut reading = Sender::new(0);
    (0..20).for_each(|_| reading.could_not_read(0, 0));
    assert_eq!(reading.next(0), Task::Wait(LOCAL_WAIT_MAX / 2));
    let mut saving = sending(0);
    saving.answered(0, OK, 0);
    (0..20).for_each(|_| saving.saved(0, false, millis(LOCAL_WAIT_MAX) / 2));
    assert_eq!(saving.next(0), Task::Wait(LOCAL_WAIT_MAX));
    assert_eq!(saving.next(millis(LOCAL_WAIT_MAX)), Task::Save);
}

#[test]
fn a_page_with_all_events_that_there_are_is_followed_by_a_pause_except_at_the_end_of_the_process() {
    let (mut sender, pause) = (Sender::new(0), millis(LOOK_EVERY));
    sender.was_read(0, 1, true, false);
    assert_eq!(sender.next(0), Task::Send(0), "a delivery does not wait for it");
    sender.answered(10, OK, 0);
    assert_eq!(sender.next(10), Task::Save);
    sender.saved(20, true, 0);
    assert_eq!(sender.next(20), Task::Wait(LOOK_EVERY - Duration::from_millis(20)));
    assert!(!sender.is_caught_up(), "something may have come since");
    assert_eq!(sender.next(pause), Task::Read);
    sender.was_read(pause, 0, true, false);
    assert_eq!(sender.next(pause), Task::Wait(LOOK_EVERY), "nothing in it was wanted");
    sender.was_read(2 * pause, 0, true, true);
    assert_eq!(sender.next(2 * pause), Task::Read, "a limit cut the page");
    sender.was_read(2 * pause, 1, true, false);
    sender.answered(2 * pause, OK, 0);
    sender.saved(2 * pause, true, 0);
    sender.finish(2 * pause + 1, 10 * pause);
    assert_eq!(sender.next(2 * pause + 1), Task::Read, "the process waits for it");
    sender.was_read(2 * pause + 1, 0, true, false);
    assert_eq!(sender.next(2 * pause + 1), Task::Read);
}

#[test]
fn events_that_nobody_wants_are_passed_and_the_position_follows_now_and_then() {
    let mut sender = Sender::new(0);
    sender.was_read(10, 0, true, true);
    assert_eq!(sender.next(10), Task::Read, "there is more to read");
    sender.was_read(millis(SAVE_EVERY), 0, true, false);
    assert_eq!(sender.next(millis(SAVE_EVERY)), Task::Save);
    sender.saved(millis(SAVE_EVERY), true, 0);
    sender.was_read(millis(SAVE_EVERY) + 1, 0, true, true);
    assert_eq!(sender.next(millis(SAVE_EVERY) + 1), Task::Read);
}

#[test]
fn at_the_end_of_the_process_the_rest_is_delivered_and_no_long_wait_is_waited() {
    let mut idle = Sender::new(0);
    idle.was_read(0, 0, false, false);
    idle.finish(1, 10_000);
    assert_eq!(idle.next(1), Task::Read, "something may have come since");
    idle.was_read(1, 1, true, false);
    idle.answered(2, OK, 0);
    idle.saved(2, true, 0);
    idle.was_read(3, 0, false, false);
    assert_eq!(idle.next(3), Task::End);
    assert!(idle.is_caught_up());

    let mut failing = sending(0);
    failing.answered(0, Answer::Nothing, 0);
    failing.finish(1, 10_000);
    assert_eq!(
        failing.next(1),
        Task::Wait(FIRST_WAIT / 2 - Duration::from_millis(1)),
        "a short wait is kept"
    );
    failing.answered(1_000, Answer::Status { status: 429, retry_after: Some(Duration::from_secs(60)) }, 0);
    assert_eq!(failing.next(1_000), Task::End, "a long one is left to the next run");
    assert!(!failing.is_caught_up());
    let mut late = sending(0);
    late.finish(0, 10_000);
    assert_eq!((late.next(9_999), late.next(10_000)), (Task::Send(0), Task::End));
}

/// Maximum number of events of a page.
const PAGE_EVENTS: usize = 7;

/// A world with one log, one receiver, and a sender that may lose everything but the recorded position.
struct World {
    chance: Chance,
    now: u64,
    /// Events in the log, and the number of those before the recorded position.
    log: u64,
    recorded: usize,
    /// Events as the receiver accepted them.
    accepted: Vec<u64>,
    requests: Vec<Vec<u8>>,
}

impl World {
    fn page(&self) -> (Vec<Delivery>, usize) {
        let ids: Vec<u64> = (self.recorded as u64..self.log).take(PAGE_EVENTS).collect();
        let event = |id: &u64| Event { id: id.to_string(), kind: Kind::Story, ..Event::default() }.line();
        let lines: Vec<u8> = ids.iter().flat_map(event).collect();
        let behind = self.recorded + ids.len();
        (deliveries("m", &lines, &behind.to_string(), Limits { events_max: 3, bytes_max: 1 << 20 }), behind)
    }

    /// Runs a sender until it waits for events, or until this step, at which the process dies.
    fn run(&mut self, die_at: u64) -> bool {
        let (mut sender, mut page, mut behind) = (Sender::new(self.now), Vec::new(), self.recorded);
        for step in 0.. {
            if step == die_at {
                return false;
            }
            self.now += 1;
            match sender.next(self.now) {
                Task::Read => {
                    (page, behind) = self.page();
                    let read = behind - self.recorded;
                    sender.was_read(self.now, page.len(), read > 0, read == PAGE_EVENTS);
                }
                Task::Send(number) => {
                    self.requests.push(page[number].body.clone());
                    let chance = self.chance.next();
                    // An answer may be lost after the receiver has accepted.
                    let (accepts, answers) = [(true, true), (true, false), (false, true), (false, false)]
                        [self.chance.below(4) as usize];
                    if accepts {
                        let body: serde_json::Value = serde_json::from_slice(&page[number].body).unwrap();
                        let events = body["data"]["events"].as_array().unwrap();
                        let ids = events.iter().map(|event| event["id"].as_str().unwrap().parse::<u64>());
                        self.accepted.extend(ids.map(Result::unwrap));
                    }
                    let answer = match (answers, accepts) {
                        (false, _) => Answer::Nothing,
                        (true, true) => OK,
                        (true, false) => status(500),
                    };
                    sender.answered(self.now, answer, chance);
                }
                Task::Save if self.chance.below(4) == 0 => sender.saved(self.now, false, 1),
                Task::Save => {
                    assert!((0..behind as u64).all(|id| self.accepted.contains(&id)), "recorded too early");
                    self.recorded = behind;
                    sender.saved(self.now, true, 1);
                }
                Task::Wait(_) if sender.is_caught_up() => return true,
                Task::Wait(wait) => self.now += millis(wait),
                Task::End => panic!("it never gives up"),
            }
        }
        true
    }
}

#[test]
fn every_event_is_accepted_at_least_once_and_in_order_whatever_dies_at_which_step() {
    let mut repeats = 0;
    for seed in 0..200 {
        let mut world = World {
            chance: Chance(seed),
            now: 0,
            log: 0,
            recorded: 0,
            accepted: Vec::new(),
            requests: Vec::new(),
        };
        for round in 0..12 {
            world.log += world.chance.below(9);
            // Every step of the first pages is a place to die in some round.
            world.run((seed + round) % 23);
        }
        assert!(world.run(u64::MAX));
        assert_eq!(world.recorded as u64, world.log);
        let mut firsts = Vec::new();
        for id in &world.accepted {
            if !firsts.contains(id) {
                firsts.push(*id);
            }
        }
        assert_eq!(firsts, (0..world.log).collect::<Vec<_>>(), "seed {seed}: in order, each at least once");
        repeats += world.accepted.len() - firsts.len();
    }
    assert!(repeats > 100, "{repeats}: crashes and lost answers repeat some");
}
