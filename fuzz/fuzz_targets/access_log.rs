//! Access logs of others: any line is a request or is none, and the work is linear.
#![no_main]
// The reader is part of the program, which is not linked here.
#![allow(dead_code)]

use cli::ask::AccessFormat;
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/nephila/src/ask/politeness/access.rs"]
mod access;

/// The module in which the reader looks for the formats.
mod cli {
    pub(crate) mod ask {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum AccessFormat {
            Auto,
            Common,
            Combined,
            JsonNginx,
        }
    }
}

const FORMATS: [AccessFormat; 4] =
    [AccessFormat::Auto, AccessFormat::Common, AccessFormat::Combined, AccessFormat::JsonNginx];

fuzz_target!(|data: &[u8]| {
    let read = |data: &[u8]| {
        let text = String::from_utf8_lossy(data);
        for line in text.lines() {
            for format in FORMATS {
                _ = access::parse(line, format);
            }
        }
    };
    read(data);
    nephila_fuzz::linear(data, read);
});
