//! Fetches from the web: one URL in, one outcome out.
//!
//! A fetch goes through the files of this crate in this order: `fetch` (phases and deadlines) asks `resolver` for
//! addresses, `dial` for a connection (where every address is checked), `proxy` for a tunnel, `tls` for a handshake;
//! `connection` speaks HTTP while `tee` keeps the bytes; `receive` reads the body into `body` and has `decode` decode
//! its codings when `decoders` grants a turn; `pool` keeps the connection for the next page. `error` names failures.
//! `nephila_core::spider` decides the meaning of a response and the possible outcomes of a fetch. `sign` signs
//! requests.
//!
//! The spider never queues and never follows redirects: the frontier decides when to fetch which URL.

mod body;
mod closing;
mod connection;
pub mod decode;
mod decoders;
mod dial;
mod error;
mod fetch;
mod fetched;
mod live;
mod own;
mod pool;
mod proxy;
pub mod resolver;
pub mod sign;
mod tee;
mod tls;

pub use body::{Body, Spool};
pub use fetch::{Error, Keep, Request, Spider};
pub use fetched::{Ack, Fetched, Starts, Timings};
pub use pool::Connections;
pub use tls::TlsInfo;
