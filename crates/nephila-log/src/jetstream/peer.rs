//! Direct messages between nodes: small and not stored.
//!
//! A message may be lost, above all while no server is connected. The sender retries until an answer arrives.
//!
//! Invariant: a message is handed to the client only while a server is connected, so no queue builds up.

use async_nats::Subscriber;
use bytes::Bytes;
use futures_util::StreamExt;

use super::Engine;
use crate::Error;

/// Subscription to the messages for one name.
#[derive(Debug)]
pub struct PeerMessages(Subscriber);

impl PeerMessages {
    /// The next message. None once the connection is closed for good.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.0.next().await.map(|message| message.payload)
    }
}

impl Engine {
    fn peer_subject(&self, name: &str) -> String {
        format!("neph.{}.talk.{name}", self.0.settings.cluster)
    }

    /// Subscribes to the messages for this name (letters, digits, `-` and `_`). The subscription survives a lost
    /// connection, but messages sent meanwhile are lost.
    pub async fn subscribe(&self, name: &str) -> Result<PeerMessages, Error> {
        let subscribed = self.0.link.client.subscribe(self.peer_subject(name)).await;
        subscribed.map(PeerMessages).map_err(|error| Error::Refused(error.to_string()))
    }

    /// Sends a message to the subscribers of this name. The message may be lost.
    pub async fn send(&self, name: &str, message: Bytes) {
        if self.is_connected() {
            // An error here equals a loss in the network.
            _ = self.0.link.client.publish(self.peer_subject(name), message).await;
        }
    }
}
