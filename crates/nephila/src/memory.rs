//! What the allocator does with memory that was freed.
//!
//! A crawl makes and drops millions of small strings, in whatever order its pages come. An allocator that serves them from
//! pages which it can only give back whole keeps more and more of them half empty: with mimalloc a crawl at full speed
//! needed 346 MB and held 584. jemalloc puts what is new into the fullest place at the lowest address, and held 430.
//!
//! By itself it keeps what was freed for ten seconds before the system gets it back, and has four arenas for each
//! processor. A crawler with thousands of connections frees and takes hundreds of megabytes in that time. Hence
//! [`SETTINGS`].
//!
//! And the system makes huge pages of what the allocator holds, in the background: 512 small ones become one, also where
//! most of them were given back, and all are taken again. A crawl at full speed grew from 500 to 640 MB within half an hour
//! so, 380 of them in huge pages. Hence pages stay small.

use std::ffi::{CStr, c_char};

/// Freed memory goes back to the system over half a second, also when nothing else happens (`background_thread`), and
/// there are two arenas for each processor.
const SETTINGS: &CStr = c"narenas_ratio:2,dirty_decay_ms:500,muzzy_decay_ms:0,background_thread:true";

/// The allocator looks for its settings under this name before `main` begins.
#[allow(unsafe_code, reason = "the allocator wants its settings under a name of its own")]
// SAFETY: the name is the allocator's, and this is what it expects there: a pointer to a string that ends with a zero.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: Option<&'static c_char> = {
    // SAFETY: a C string has at least its end.
    Some(unsafe { &*SETTINGS.as_ptr() })
};

/// Keeps the system from making huge pages of ours. Call it first, while there is one thread.
pub fn keep_pages_small() {
    // A system without this switch goes on as it does.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn pro_07_what_was_freed_does_not_come_back_in_huge_pages() {
        keep_pages_small();
        assert!(rustix::thread::transparent_huge_pages_are_disabled().unwrap());
    }
}
