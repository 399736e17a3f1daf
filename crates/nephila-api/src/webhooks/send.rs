//! The task of one webhook: carries out what the sender of the core decides.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use nephila_core::spider::answer::retry_after;
use nephila_core::time::Timestamp;
use nephila_core::webhook::{Answer, Delivery, Limits, Sender, Task, deliveries, millis};
use nephila_engine::clock::Clock;
use nephila_engine::folder::Folder;
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::event_pages::local::Local;
use super::super::event_pages::{Bounds, From, Page, Wanted};
use super::post::Receiver;
use super::secret::{Secrets, id_of};
use super::view::Seen;

/// A webhook, ready to run.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) wanted: Wanted,
    pub(super) limits: Limits,
    pub(super) timeout: Duration,
    pub(super) receiver: Receiver,
    pub(super) secrets: Secrets,
    pub(super) folder: Folder,
    /// None after a failed reading, which is repeated from the position.
    pub(super) reader: Option<Local>,
    /// The position behind the last page.
    pub(super) position: String,
    pub(super) seen: Arc<Seen>,
}

/// A delivery with its id.
struct Message {
    id: String,
    body: Bytes,
    events: usize,
    begins: Option<Timestamp>,
}

impl Message {
    fn of(delivery: Delivery) -> Message {
        let Delivery { body, events, begins } = delivery;
        Message { id: id_of(&body), body: Bytes::from(body), events, begins }
    }
}

/// The deliveries of a page, and what its reader said of it.
struct Read {
    messages: Vec<Message>,
    moved: bool,
    is_full: bool,
}

impl Hook {
    /// Runs until the receiver is gone, or until the process finishes: then at most until that moment.
    pub(super) async fn run(self, finish: watch::Receiver<Option<Instant>>) {
        let name = self.name.clone();
        let is_done = tokio::select! {
            is_done = self.deliver(finish.clone()) => is_done,
            () = over(finish) => false,
        };
        if !is_done {
            tracing::warn!(webhook = %name, "webhook {name}: not all events are delivered; the next run goes on");
        }
    }

    /// Delivers until nothing is left to do. Returns whether everything was delivered, or can never be.
    async fn deliver(mut self, mut finish: watch::Receiver<Option<Instant>>) -> bool {
        let clock = Clock::new();
        let mut sender = Sender::new(clock.now().mono);
        let mut messages: Vec<Message> = Vec::new();
        // Number of messages that were accepted.
        let mut accepted = 0;
        let (mut is_failing, mut is_told) = (false, false);
        loop {
            let finish_by = *finish.borrow();
            if let Some(by) = finish_by.filter(|_| !is_told) {
                is_told = true;
                let now = clock.now().mono;
                sender.finish(now, now + millis(by.saturating_duration_since(Instant::now())));
            }
            let failure = match sender.next(clock.now().mono) {
                Task::Read => {
                    let read = self.read().await;
                    let now = clock.now().mono;
                    match &read {
                        Ok(read) => sender.was_read(now, read.messages.len(), read.moved, read.is_full),
                        Err(_) => sender.could_not_read(now, chance()),
                    }
                    read.map(|read| (messages, accepted) = (read.messages, 0)).err().map(in_words)
                }
                Task::Send(number) => {
                    let (answer, failure) = self.send(&messages[number], &clock).await;
                    sender.answered(clock.now().mono, answer, chance());
                    accepted = if failure.is_none() { number + 1 } else { number };
                    failure
                }
                Task::Save => {
                    let saved = self.save().await;
                    sender.saved(clock.now().mono, saved.is_ok(), chance());
                    saved.err().map(in_words)
                }
                Task::Wait(time) => {
                    tokio::select! {
                        () = tokio::time::sleep(time) => {}
                        _ = finish.changed(), if !is_told => {}
                    }
                    continue;
                }
                Task::End => return sender.is_caught_up() || sender.is_gone(),
            };
            if let Some(failure) = &failure {
                self.seen.set_error(failure);
            }
            self.seen.note(&sender, clock.now());
            let oldest = messages[accepted..].iter().find_map(|message| message.begins);
            self.seen.oldest.store(oldest.map_or(0, |at| at.0), Relaxed);
            is_failing = self.report(failure, is_failing, &sender);
        }
    }

    /// Reports the first failure of several, and the end of failures.
    fn report(&self, failure: Option<String>, was_failing: bool, sender: &Sender) -> bool {
        let name = &self.name;
        match failure {
            Some(error) if sender.is_gone() => {
                tracing::error!(webhook = %name, %error, "webhook {name}: {error}: nothing is sent until the next start");
                true
            }
            Some(error) if !was_failing => {
                tracing::warn!(webhook = %name, %error, "webhook {name}: {error}; it is tried again until it works");
                true
            }
            Some(_) => true,
            None if was_failing => {
                tracing::info!(webhook = %name, "webhook {name} works again");
                false
            }
            None => false,
        }
    }

    /// Reads the next page, on a blocking thread.
    async fn read(&mut self) -> anyhow::Result<Read> {
        let (reader, folder, position) = (self.reader.take(), self.folder.clone(), self.position.clone());
        let (wanted, limits) = (self.wanted.clone(), self.limits);
        let bounds = Bounds { events: limits.events_max, bytes: limits.bytes_max, ..Bounds::default() };
        let read = move || -> anyhow::Result<(Local, Page)> {
            let mut reader = match reader {
                Some(reader) => reader,
                None => Local::open(&folder, From::parse(&position))?,
            };
            let page = reader.read_within(&wanted, bounds)?;
            Ok((reader, page))
        };
        let (reader, page) = tokio::task::spawn_blocking(read).await.context("reading events")??;
        let messages = deliveries(&self.name, &page.lines, &page.position, self.limits);
        (self.reader, self.position) = (Some(reader), page.position);
        let messages = messages.into_iter().map(Message::of).collect();
        Ok(Read { messages, moved: page.moved, is_full: page.is_full })
    }

    /// Records the position, on a blocking thread.
    async fn save(&self) -> anyhow::Result<()> {
        let (folder, name, position) = (self.folder.clone(), self.name.clone(), self.position.clone());
        let save = move || folder.set_webhook_position(&name, &position);
        tokio::task::spawn_blocking(save).await.context("recording the position")?
    }

    /// Sends a delivery. Returns the answer, and the failure in words.
    async fn send(&self, message: &Message, clock: &Clock) -> (Answer, Option<String>) {
        let seconds = clock.now().wall.0 / 1_000;
        let fields = [
            ("webhook-id", message.id.clone()),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", self.secrets.signatures(&message.id, seconds, &message.body)),
        ];
        match self.receiver.post(fields, message.body.clone(), self.timeout).await {
            Ok((status, fields)) => {
                let retry_after = retry_after(&fields, clock.now().wall);
                let answer = Answer::Status { status: status.as_u16(), retry_after };
                if status.is_success() {
                    self.seen.accepted.fetch_add(1, Relaxed);
                    self.seen.events.fetch_add(message.events as u64, Relaxed);
                    return (answer, None);
                }
                self.seen.refused.fetch_add(1, Relaxed);
                let more = if status.is_redirection() { ", and redirects are not followed" } else { "" };
                (answer, Some(format!("status {}{more}", status.as_u16())))
            }
            Err(error) => {
                self.seen.unanswered.fetch_add(1, Relaxed);
                (Answer::Nothing, Some(error))
            }
        }
    }
}

/// Waits for the end of the process.
async fn over(mut finish: watch::Receiver<Option<Instant>>) {
    let by = finish.wait_for(Option::is_some).await.ok().and_then(|by| *by);
    match by {
        Some(by) => tokio::time::sleep_until(by).await,
        // Nobody can say so any more: the task is about to be aborted.
        None => std::future::pending().await,
    }
}

fn in_words(error: anyhow::Error) -> String {
    format!("{error:#}")
}

/// A random number, for the jitter of waits.
fn chance() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().1
}
