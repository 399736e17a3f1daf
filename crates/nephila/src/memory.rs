//! Settings of the memory allocator.
//!
//! A crawl allocates and frees millions of small strings, in the arbitrary order of its pages. An allocator that
//! returns memory to the system only in whole pages keeps more and more pages half empty: with mimalloc a crawl at full
//! speed needed 346 MB and held 584. jemalloc puts new allocations into the fullest place at the lowest address, and
//! held 430.
//!
//! By default jemalloc keeps freed memory for ten seconds before returning memory to the system, and has four arenas
//! for each processor. A crawler with thousands of connections frees and allocates hundreds of megabytes in that time.
//! Hence [`SETTINGS`].
//!
//! In addition, the kernel merges the allocator's memory into huge pages in the background: 512 small pages become one,
//! even where most of them were given back, and all are taken again. In this way a crawl at full speed grew from 500 to
//! 640 MB within half an hour, 380 of them in huge pages. Hence pages stay small.

use std::ffi::{CStr, c_char};

/// Freed memory goes back to the system over half a second, even in an idle process (`background_thread`), and there
/// are two arenas for each processor.
const SETTINGS: &CStr = c"narenas_ratio:2,dirty_decay_ms:500,muzzy_decay_ms:0,background_thread:true";

/// The allocator reads its settings from this symbol before `main` starts.
#[allow(unsafe_code, reason = "the allocator wants its settings under a name of its own")]
// SAFETY: the symbol belongs to the allocator, and has the expected type: a pointer to a zero-terminated string.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: Option<&'static c_char> = {
    // SAFETY: a C string has at least its end.
    Some(unsafe { &*SETTINGS.as_ptr() })
};

/// Disables transparent huge pages for this process. Must be called first, while there is one thread.
pub fn keep_pages_small() {
    // A failure is ignored: a system without this switch keeps its huge pages.
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
