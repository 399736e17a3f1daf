//! Both rules again, written from the prose: a model that keeps every poll and computes its answer from the whole list
//! each time. Random feeds over 30 virtual days must be polled at exactly the same times.

// The figures are worth seeing.
#![allow(clippy::disallowed_macros)]

use super::*;
use crate::chance::Chance;

/// A poll as the model remembers it.
struct Past {
    at: u64,
    new: u64,
    entries: u64,
    failed: bool,
}

/// The seed's rule: count the polls since the last one that found a story.
fn doubling_model(past: &[Past]) -> u64 {
    let fruitless = past.iter().rev().take_while(|poll| poll.new == 0).count();
    let mut wait = 5 * MINUTE;
    for _ in 0..fruitless {
        wait = (wait * 2).min(7 * DAY);
    }
    wait
}

/// The adaptive rule, for a feed with validators, a time to live, and no dates.
fn adaptive_model(past: &[Past], ttl: u64) -> u64 {
    let finds: Vec<&Past> = past.iter().filter(|poll| poll.new > 0).collect();
    let mut gap: Option<u64> = None;
    for pair in finds.windows(2) {
        let new = (pair[1].at - pair[0].at) / pair[1].new;
        gap = Some(gap.map_or(new, |old| old - old / 4 + new / 4));
    }
    let gap = gap.filter(|gap| *gap > 0).unwrap_or(6 * HOUR);
    let last = past.last().unwrap();
    let since = finds.last().map_or(past[0].at, |find| find.at);
    let mut wait = gap.max(last.at - since) / 2;
    if past.len() > 1 && !last.failed && last.entries >= 4 && last.new >= last.entries / 2 {
        // The wait that led here was the plan made at the poll before, however late that poll was.
        wait = wait.min(planned(past, ttl) / 2);
    }
    // Validators are unknown before the first answer.
    let min = if past.iter().all(|poll| poll.failed) { 30 * MINUTE } else { 5 * MINUTE };
    let failures = past.iter().rev().take_while(|poll| poll.failed).count();
    if failures > 0 {
        wait = wait.max(min << failures.min(40));
    }
    wait.max(if last.failed { 0 } else { ttl }).clamp(min, 7 * DAY)
}

fn planned(past: &[Past], ttl: u64) -> u64 {
    adaptive_model(&past[..past.len() - 1], ttl)
}

/// The figures of one feed.
struct Figures {
    polls: u64,
    stories: u64,
    delays: Vec<u64>,
}

/// Runs a random feed for 30 days and compares every moment.
fn run(seed: u64, rule: Rule) -> Figures {
    let mut chance = Chance(seed);
    let settings = Settings { rule, spread_percent: 0, ..Settings::default() };
    // From several an hour to one in a month, some in bursts, some failing for days.
    let mean = [10 * MINUTE, HOUR, 6 * HOUR, DAY, 5 * DAY, 30 * DAY][(chance.next() % 6) as usize];
    let window = [5, 20, 100][(chance.next() % 3) as usize];
    let ttl = [0, 0, 15 * MINUTE, 2 * HOUR][(chance.next() % 4) as usize];
    let fails = chance.next().is_multiple_of(4);
    let mut published = Vec::new();
    let mut at = START;
    while at < START + 30 * DAY {
        published.push(at);
        at += if chance.next().is_multiple_of(5) { 1 } else { chance.wait(mean) };
    }
    let (mut history, mut past, mut seen) = (History::default(), Vec::new(), 0usize);
    let mut figures = Figures { polls: 0, stories: 0, delays: Vec::new() };
    let mut now = START + 1;
    while now < START + 30 * DAY {
        let failed = fails && chance.next().is_multiple_of(3);
        let there = published.partition_point(|at| *at <= now);
        let new = if failed { 0 } else { there - seen };
        if !failed {
            // Stories of the first poll are older than the first poll.
            figures.delays.extend(published[seen..there].iter().filter(|_| seen > 0).map(|at| now - at));
            seen = there;
        }
        let entries = there.min(window).max(new);
        let answer = if failed { PollAnswer::Failed } else { read(new as u32, entries as u32) };
        let hints =
            Hints { ttl: (ttl > 0 && !failed).then(|| Duration::from_millis(ttl)), update_period: None };
        let poll = Poll { validators: true, hints, ..Poll::new(Timestamp(now), answer) };
        let due = history.handle_poll(&poll, &settings, seed).due.unwrap().0;
        past.push(Past { at: now, new: new as u64, entries: entries as u64, failed });
        let wait = match rule {
            Rule::Doubling => doubling_model(&past),
            Rule::Adaptive => adaptive_model(&past, ttl),
        };
        assert_eq!(due - now, wait, "seed {seed}, poll {}", past.len());
        figures.polls += 1;
        figures.stories += new as u64;
        // Polls are now and then late.
        now = due + if chance.next().is_multiple_of(3) { chance.next() % (10 * MINUTE) } else { 0 };
    }
    figures
}

/// The median delay in minutes, and polls per story.
fn all(rule: Rule, feeds: u64) -> (u64, f64) {
    let mut delays = Vec::new();
    let (mut polls, mut stories) = (0, 0);
    for seed in 0..feeds {
        let figures = run(seed, rule);
        polls += figures.polls;
        stories += figures.stories;
        delays.extend(figures.delays);
    }
    delays.sort_unstable();
    (delays[delays.len() / 2] / MINUTE, polls as f64 / stories as f64)
}

#[test]
fn random_feeds_are_asked_when_the_model_of_the_seed_says() {
    let (median, per_story) = all(Rule::Doubling, 200);
    println!("doubling: median delay {median} min, {per_story:.2} polls a story");
    assert!(median <= 15 && per_story < 5.0, "{median} min, {per_story:.2}");
}

#[test]
fn random_feeds_are_asked_when_the_model_of_the_adaptive_rule_says() {
    let (median, per_story) = all(Rule::Adaptive, 60);
    println!("adaptive: median delay {median} min, {per_story:.2} polls a story");
    assert!(per_story < 5.0, "{median} min, {per_story:.2}");
}
