//! Random events for the desk and its model, and the comparison after each.

use super::*;
use crate::chance::Chance;

/// Steps of the short run.
const STEPS: u64 = 100_000;

fn settings() -> Settings {
    let ms = Duration::from_millis;
    Settings {
        status_timeout: ms(STATUS),
        update_every: ms(STATUS / 2),
        store_wait: ms(STORE),
        total_timeout: ms(TOTAL),
        dialect_wait: ms(DECIDE),
        tickets_max: TICKETS,
        resends_max: RESENDS,
        asks_max: ASKS,
        connections_max: SPIDERS,
        unreadable_max: UNREADABLE,
        unreadable_window: ms(WINDOW),
        wrong_urls_alarm: ALARM,
    }
}

struct Run {
    desk: Desk<u64>,
    model: Model,
    chance: Chance,
    now: u64,
    next_id: u64,
    /// What was sent lately: connection, TRANS, DOC, URL.
    lately: VecDeque<(u64, u64, u32, String)>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let desk = Desk::with_docs(settings(), DOCS);
        let (model, lately) = (Model::default(), VecDeque::new());
        Run { desk, model, chance: Chance(seed), now: 0, next_id: 0, lately }
    }

    /// Compares everything that came out.
    fn compare(&mut self) {
        let mut found = Vec::new();
        while let Some(action) = self.desk.poll() {
            match action {
                Action::Send { connection, bytes } => {
                    self.model.sent(connection, &bytes);
                    let line = UrlLine::read(bytes.strip_suffix(b"\n").unwrap()).unwrap();
                    self.lately.push_back((connection, line.trans, line.doc, line.url.to_owned()));
                }
                Action::End { ask, end: End::Lost { why, sent } } => {
                    found.push(Expected::Lost { ask, why, sent });
                }
                Action::End { ask, end: End::Recorded { received, took, done, spider, sent } } => {
                    assert_eq!(received.body, ask, "the record of another ask");
                    let (took, spider) = (took.as_millis() as u64, spider.to_string());
                    found.push(Expected::Recorded { ask, took, done, spider, sent });
                }
                Action::Close { connection, why: CloseWhy::Unreadable } => {
                    found.push(Expected::Unreadable(connection));
                }
                Action::Close { connection, why: CloseWhy::Replaced } => {
                    found.push(Expected::Replaced(connection));
                }
                Action::Alarm => found.push(Expected::Alarm),
            }
        }
        while self.lately.len() > 40 {
            self.lately.pop_front();
        }
        found.sort();
        self.model.expected.sort();
        assert_eq!(found, self.model.expected, "at {}", self.now);
        self.model.expected.clear();
        self.model.check_all_sent();
        assert_eq!(self.desk.counters(), self.model.counters, "at {}", self.now);
        assert_eq!((self.desk.open(), self.desk.waiting()), (self.model.asks.len(), self.model.waiting()));
        assert_eq!(self.desk.next(), self.model.next(), "at {}", self.now);
    }

    fn step(&mut self) {
        self.now += match self.chance.below(40) {
            0 => self.chance.below(150),
            1..=4 => self.model.next().map_or(1, |at| at.saturating_sub(self.now)),
            _ => self.chance.below(4),
        };
        self.desk.tick(self.now);
        self.model.tick(self.now);
        self.compare();
        match self.chance.below(100) {
            0..=24 => self.ask(),
            25..=26 => self.cancel(),
            27..=32 => self.connect(),
            33..=34 => self.close(),
            35..=64 => self.reply(),
            65..=70 => self.get(),
            71..=72 => self.unreadable(),
            73..=96 => self.record(),
            _ => {}
        }
        self.compare();
    }

    fn ask(&mut self) {
        let id = self.next_id - self.chance.below(20).saturating_sub(17).min(self.next_id);
        self.next_id = self.next_id.max(id) + 1;
        let rest = [0, 1, 5, 20, 20, 50, TOTAL + 30][self.chance.below(7) as usize];
        let url = format!("http://h{}.test/{id}", id % 5);
        let ask = Ask { id, url, ip: "192.0.2.1".parse().unwrap(), rest: Duration::from_millis(rest) };
        assert_eq!(self.model.ask(&ask), self.desk.ask(self.now, ask));
    }

    fn cancel(&mut self) {
        let id = self.next_id.saturating_sub(self.chance.below(12));
        assert_eq!(self.model.cancel(id), self.desk.cancel(self.now, id));
    }

    fn connect(&mut self) {
        // Numbers of connections come again, as those of files do.
        let connection = self.chance.below(9);
        let name = format!("s{}", self.chance.below(6));
        let speaks = [Speaks::Push, Speaks::Pull, Speaks::Auto][self.chance.below(3) as usize];
        let expected = self.model.connected(connection, &name, speaks);
        assert_eq!(self.desk.connected(self.now, connection, &name, speaks), expected);
    }

    fn close(&mut self) {
        let connection = self.chance.below(9);
        self.model.closed(connection);
        self.desk.closed(self.now, connection);
    }

    fn line(&mut self, connection: u64, line: Result<Reply, LineError>) {
        self.model.line(connection, line);
        self.desk.line(self.now, connection, line);
    }

    /// One of the last lines, the newest more often.
    fn pick(&mut self) -> Option<(u64, u64, u32, String)> {
        let last = 1 + self.chance.below(40);
        let back = 1 + self.chance.below(last) as usize;
        self.lately.iter().nth_back(back.min(self.lately.len()).checked_sub(1)?).cloned()
    }

    fn reply(&mut self) {
        let Some((mut connection, mut trans, ..)) = self.pick() else { return };
        match self.chance.below(12) {
            0 => connection = self.chance.below(9),
            1 => trans ^= 1 << self.chance.below(64),
            _ => {}
        }
        let reply = if self.chance.below(3) == 0 { Reply::Working(trans) } else { Reply::Done(trans) };
        self.line(connection, Ok(reply));
    }

    fn get(&mut self) {
        let (connection, count) = (self.chance.below(9), 1 + self.chance.below(4) as u32);
        self.line(connection, Ok(Reply::Get(count)));
    }

    fn unreadable(&mut self) {
        let connection = self.chance.below(9);
        for _ in 0..1 + self.chance.below(2) {
            self.line(connection, Err(LineError::Word));
        }
    }

    fn record(&mut self) {
        let Some((_, _, mut doc, mut url)) = self.pick() else { return };
        match self.chance.below(30) {
            0 => doc = 1 + self.chance.below(u64::from(DOCS)) as u32,
            1 => url.push('x'),
            _ => {}
        }
        self.model.record(doc, &url);
        let id = url.rsplit('/').next().and_then(|id| id.parse().ok()).unwrap_or(u64::MAX);
        let Received { record, .. } = record_of(doc, url);
        self.desk.record(self.now, Received { record, body: id });
    }
}

fn run(seed: u64, steps: u64) -> Counters {
    let mut run = Run::new(seed);
    for _ in 0..steps {
        run.step();
    }
    run.desk.counters()
}

#[test]
fn the_desk_does_what_its_model_does() {
    let counters = run(1, STEPS);
    let Counters { asked, refused, sent, resent, recorded, without_done, lost, cancelled, silent, .. } =
        counters;
    let Counters { no_record, orphaned, unknown_trans, unknown_doc, second_record, .. } = counters;
    let Counters { wrong_url, unreadable, get_ignored, .. } = counters;
    let often = [asked, refused, sent, resent, recorded, without_done, lost, cancelled, silent, no_record];
    assert!(often.iter().all(|count| *count > 30), "{counters:?}");
    let often = [orphaned, unknown_trans, unknown_doc, second_record, wrong_url, unreadable, get_ignored];
    assert!(often.iter().all(|count| *count > 30), "{counters:?}");
}

/// `NEPHILA_DESK_STEPS=10000000 cargo test --release -p nephila-core desk_model_long -- --ignored --nocapture`
#[test]
#[ignore = "long: the number of steps is given in NEPHILA_DESK_STEPS"]
fn desk_model_long() {
    let steps =
        std::env::var("NEPHILA_DESK_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(1_000_000);
    let began = std::time::Instant::now();
    let (mut done, mut seed) = (0, 100);
    while done < steps {
        let counters = run(seed, STEPS);
        (done, seed) = (done + STEPS, seed + 1);
        if seed % 10 == 0 {
            println!("{done} steps in {:?}: {counters:?}", began.elapsed());
        }
    }
    println!("{done} steps in {:?}", began.elapsed());
}
