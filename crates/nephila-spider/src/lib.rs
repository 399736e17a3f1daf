//! Talks to the web: one URL in, one outcome out.
//!
//! A fetch goes through the files of this crate in this order: `fetch` (phases and deadlines) asks `resolver` for
//! addresses, `dial` for a connection (where every address is checked), `proxy` for a tunnel, `tls` for a handshake;
//! `connection` speaks HTTP on it while `tee` keeps the bytes; `receive` reads the body into `body` and has `decode`
//! undo its codings when `decoders` says that it is its turn; `pool` keeps the connection for the next page. `error` names what went wrong. What an answer
//! means and how a fetch may end is decided in `nephila_core::spider`. `sign` proves who asks.
//!
//! The spider never queues and never follows: when to fetch what is the frontier's business.

mod body;
mod closing;
mod connection;
pub mod decode;
mod decoders;
mod dial;
mod error;
mod fetch;
mod fetched;
mod own;
mod pool;
mod proxy;
mod receive;
pub mod resolver;
pub mod sign;
mod tee;
mod tls;

pub use body::Body;
pub use fetch::{Error, Keep, Request, Spider};
pub use fetched::{Fetched, Timings};
pub use tls::TlsInfo;
