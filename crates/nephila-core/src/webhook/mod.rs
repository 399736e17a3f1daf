//! Deliveries of events to a program of the operator (webhook): the requests ([`batch`]), and what is sent, repeated and
//! recorded at which time ([`sender`]).
//!
//! A sender reads events behind its position, sends them in requests, and records the position behind them once every
//! request was accepted. After a crash the sender reads from the recorded position again, so every event is delivered
//! at least once.

pub mod batch;
pub mod sender;
#[cfg(test)]
mod tests;

pub use batch::{Delivery, Limits, deliveries};
pub use sender::{Answer, Sender, Task, millis};
