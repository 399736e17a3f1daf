//! The handler stage: what the bytes of an answer are, before anybody reads them.
//!
//! A body arrives as bytes with a label that may be missing or false. [`sniff`] says what kind of thing it is,
//! [`charset`] in which encoding its text is, [`refresh`] whether it sends its readers elsewhere. None of them changes
//! what is stored.

pub mod charset;
pub mod refresh;
pub mod sniff;
