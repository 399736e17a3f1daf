//! Who we are, so that others can check it: signed requests, the directory of keys, the contact page.
//!
//! A site that wants to know who asks looks at three fields of a request. `Signature-Agent` names where our keys are
//! published, `Signature-Input` says what was signed, when, and with which key, and `Signature` is the proof (RFC 9421,
//! with the profile that is known as Web Bot Auth). Everything here is text made from arguments: the key itself, the
//! clock and chance live in `nephila-spider`.
//!
//! What always holds: what is signed is exactly what [`signature::base`] returns, and it names the authority that was
//! asked, so that a signature for one site is worth nothing at another.

pub mod directory;
pub mod page;
pub mod signature;
