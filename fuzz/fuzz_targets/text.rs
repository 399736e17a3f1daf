//! The main text of a page: any page has one within the limits or none, and the work is linear.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let read = |data: &[u8]| _ = nephila_text::extract_with_markdown(&String::from_utf8_lossy(data), "");
    read(data);
    nephila_fuzz::linear(data, read);
});
