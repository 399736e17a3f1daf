//! Tells remote spiders that their pages are stored: after the outcome of the page is durable.

use std::sync::OnceLock;

use nephila_spider::Ack;
use tokio::sync::mpsc;

use crate::worker::Handle;

/// Pages whose outcome was reported, and is not known to be durable. There are at most as many as pages under way and
/// reports that the worker takes at once.
#[derive(Debug, Default)]
pub(crate) struct Acks(OnceLock<mpsc::UnboundedSender<Ack>>);

impl Acks {
    /// The outcome of a page was reported.
    pub(crate) fn reported(&self, handle: &Handle, ack: Ack) {
        let waiting = self.0.get_or_init(|| {
            let (send, receive) = mpsc::unbounded_channel();
            tokio::spawn(settle(handle.clone(), receive));
            send
        });
        _ = waiting.send(ack);
    }
}

/// Waits until reports are durable, all that there are at a time.
async fn settle(handle: Handle, mut reported: mpsc::UnboundedReceiver<Ack>) {
    while let Some(first) = reported.recv().await {
        let mut batch = vec![first];
        while let Ok(more) = reported.try_recv() {
            batch.push(more);
        }
        if handle.settled().await.is_err() {
            // What was reported is asked for again.
            return;
        }
        batch.into_iter().for_each(Ack::stored);
    }
}
