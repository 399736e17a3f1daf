//! Remote spiders, version 2: `nephila spider` fetches for a node over one connection. `docs/remote.md` describes it for
//! operators, `docs/decisions/0021-spiders-of-version-2.md` says why it is as it is.
//!
//! [`frame`] is what travels, [`message`] what a URL to fetch and the result of a fetch say, [`found`] what the spider
//! read on the page. [`pool`] is the node's side: which spider gets which URL, and when a spider counts as gone.
//! [`agent`] is the spider's side: what it may do without its node. Both are state machines without sockets and without a clock.
//!
//! The two promises, and what they rest on:
//!
//! - **No site is asked by two.** A spider asks sites only while it has a lease. It asks for the lease (`BEAT`) and counts
//!   it from the moment of asking; the node counts it from the moment of answering, which is later. So the lease ends at
//!   the spider first, however long a frame travels, and no clocks are compared. When it ends, the spider closes every
//!   connection to every site; then the node gives the URLs away.
//! - **Nothing is lost.** A URL is at a spider, or at the node, and ends with one result. A result is believed for its own
//!   URL, once, when all its bytes have come.

pub mod agent;
pub mod found;
pub mod frame;
pub mod message;
pub mod pool;
#[cfg(test)]
mod tests;

/// The number of what travels, in the first frame: 2 was without [`found`].
pub const VERSION: u32 = 3;
