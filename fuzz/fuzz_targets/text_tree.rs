//! The tree of a page that is looked through for its text: any page gives one within the limits or none, and the work is linear.
#![no_main]
// The builder is part of the program, which is not linked here.
#![allow(dead_code)]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/nephila-engine/src/crawl/text/tree.rs"]
mod tree;

/// The same function as in the builder's parent module.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fuzz_target!(|data: &[u8]| {
    let read = |data: &[u8]| _ = tree::build(&String::from_utf8_lossy(data));
    read(data);
    nephila_fuzz::linear(data, read);
});
