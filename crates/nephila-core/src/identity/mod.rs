//! The verifiable identity of the crawler: signed requests, the directory of keys, the contact page.
//!
//! A site that wants to identify the sender looks at three header fields of a request. `Signature-Agent` names where
//! our keys are published, `Signature-Input` lists the signed components, the time and the key, and `Signature` is the
//! proof (RFC 9421, with the profile that is known as Web Bot Auth). Everything here is text made from arguments: the
//! key itself, the clock and randomness are in `nephila-spider`.
//!
//! Invariants: the signed text is exactly the result of [`signature::base`]. The text names the authority of the
//! request, so a signature for one site is worthless at another.

pub mod directory;
pub mod page;
pub mod signature;
