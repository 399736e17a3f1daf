//! What nodes say to each other directly: small messages that nobody stores.
//!
//! They may be lost, above all while no server is connected; whoever speaks says it again until it is answered.
//!
//! What always holds: a message is handed to the client only while a server is connected, so nothing piles up.

use async_nats::Subscriber;
use bytes::Bytes;
use futures_util::StreamExt;

use super::Engine;
use crate::Error;

/// What is said to one name.
#[derive(Debug)]
pub struct Heard(Subscriber);

impl Heard {
    /// The next message. None once the connection is closed for good.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.0.next().await.map(|message| message.payload)
    }
}

impl Engine {
    fn talk_subject(&self, name: &str) -> String {
        format!("neph.{}.talk.{name}", self.0.settings.cluster)
    }

    /// Listens to what is said to this name, letters, digits, `-` and `_`. Connections that are lost and made again change
    /// nothing, but what was said meanwhile is lost.
    pub async fn hear(&self, name: &str) -> Result<Heard, Error> {
        let subscribed = self.0.link.client.subscribe(self.talk_subject(name)).await;
        subscribed.map(Heard).map_err(|error| Error::Refused(error.to_string()))
    }

    /// Says something to whoever listens to this name. It may be lost.
    pub async fn say(&self, name: &str, message: Bytes) {
        if self.is_connected() {
            // Lost like one that the network loses.
            _ = self.0.link.client.publish(self.talk_subject(name), message).await;
        }
    }
}
