//! Webhooks: the events of a crawl on one machine, sent to programs of the operator as signed requests.
//!
//! The decisions are in `nephila_core::webhook`; here are the sockets and files. Each webhook has a task and a reader of
//! the journals of its own, and a position in the crawl's folder. Signatures are those of Standard Webhooks.
//!
//! Invariants: one delivery of a webhook is under way at a time; a position is durable before the next page is read,
//! and never ahead of an event that was not accepted; the crawl waits for no webhook.

mod post;
mod secret;
mod send;
mod view;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nephila_core::webhook::Limits;
use nephila_engine::folder::Folder;
use nephila_engine::settings::{Settings, Webhook, WebhookFrom, usage};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::event_pages::local::Local;
use super::event_pages::{Bounds, From, Wanted};
use post::Receiver;
use secret::Secrets;
use send::Hook;

pub use view::{Seen, WebhookSaid};

/// Maximum time at the end of a process for events that are not delivered yet.
pub const FINISH_MAX: Duration = Duration::from_secs(10);

/// The webhooks of a folder.
#[derive(Debug)]
pub struct Webhooks(Vec<Hook>);

impl Webhooks {
    /// Reads secrets, certificates and positions. The caller holds the folder's lock, and nothing is crawled yet.
    pub fn open(settings: &Settings, folder: &Folder) -> anyhow::Result<Webhooks> {
        let open = |webhook: &Webhook| {
            let hook = open(webhook, folder).with_context(|| format!("webhook {}", webhook.name));
            hook.map_err(usage)
        };
        Ok(Webhooks(settings.webhooks.iter().map(open).collect::<anyhow::Result<_>>()?))
    }

    /// What is known about each webhook.
    pub fn seen(&self) -> Arc<[Arc<Seen>]> {
        self.0.iter().map(|hook| hook.seen.clone()).collect()
    }

    /// Starts a task for each webhook.
    pub fn start(self) -> Sending {
        let (finish, finishing) = watch::channel(None);
        let mut tasks = JoinSet::new();
        for hook in self.0 {
            tasks.spawn(hook.run(finishing.clone()));
        }
        Sending { tasks, finish }
    }
}

fn open(webhook: &Webhook, folder: &Folder) -> anyhow::Result<Hook> {
    let url = webhook.parsed().map_err(anyhow::Error::msg)?;
    let receiver = Receiver::new(&url, &webhook.ca_file)?;
    let secrets = Secrets::read(&webhook.secret_file)
        .with_context(|| format!("secret_file {}", webhook.secret_file.display()))?;
    let position = match folder.webhook_position(&webhook.name)? {
        Some(position) => position,
        None => {
            let position = match webhook.from {
                WebhookFrom::Beginning => "beginning".to_owned(),
                WebhookFrom::End => end_of(folder)?,
            };
            // Before the first event of this run: a crash must not move the begin.
            folder.set_webhook_position(&webhook.name, &position)?;
            position
        }
    };
    // A position of another kind is found now and not when the crawl runs.
    let reader = Local::open(folder, From::parse(&position))?;
    Ok(Hook {
        name: webhook.name.clone(),
        wanted: Wanted::parse(webhook.kinds.iter().map(String::as_str))?,
        limits: Limits { events_max: webhook.events_max, bytes_max: webhook.bytes_max },
        timeout: webhook.timeout,
        receiver,
        secrets,
        folder: folder.clone(),
        reader: Some(reader),
        position,
        seen: Arc::new(Seen::new(&webhook.name)),
    })
}

/// The position behind all events that there are.
fn end_of(folder: &Folder) -> anyhow::Result<String> {
    let mut reader = Local::open(folder, From::End)?;
    loop {
        let page = reader.read_within(&Wanted::default(), Bounds::default())?;
        if !page.moved {
            return Ok(page.position);
        }
    }
}

/// Running webhooks. They end when this is dropped.
#[derive(Debug)]
pub struct Sending {
    tasks: JoinSet<()>,
    finish: watch::Sender<Option<Instant>>,
}

impl Sending {
    /// Delivers events that are there, for at most this time, and ends. The next run of the crawl goes on with the rest.
    pub async fn finish(mut self, time: Duration) {
        let by = Instant::now() + time;
        self.finish.send_replace(Some(by));
        while self.tasks.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests;
