//! What the allocator does with memory that was freed.
//!
//! By itself it keeps such memory for a second before the system gets it back. A crawler with thousands of
//! connections frees and takes hundreds of megabytes in that time: two thousand hostile fetches at once peak at
//! 620 MB so, and at 500 MB when freed memory goes back after [`PURGE_DELAY_MS`].
//!
//! And the system makes huge pages of what the allocator holds, in the background: 512 small ones become one, also where
//! most of them were given back, and all are taken again. A crawl at full speed grew from 500 to 640 MB within half an hour
//! so, 380 of them in huge pages. Hence pages stay small.

use libmimalloc_sys::{mi_option_set, mi_option_t};

/// Freed memory goes back to the system after so many milliseconds.
const PURGE_DELAY_MS: std::ffi::c_long = 10;
/// `mi_option_purge_delay`, which the binding does not name.
const PURGE_DELAY: mi_option_t = 15;

/// Tells the allocator. Call it first, while there is one thread.
#[allow(unsafe_code, reason = "the allocator is set up through its C interface")]
pub fn return_freed_soon() {
    // SAFETY: the option exists, and no other thread reads it yet.
    unsafe { mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) };
    // A system without this switch goes on as it does.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_the_one_we_mean() {
        #[allow(unsafe_code, reason = "the allocator is asked through its C interface")]
        // SAFETY: reads a number.
        let get = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        // A second is what this option alone starts with; another number means that the options were renumbered.
        assert_eq!(get(), 1_000);
        return_freed_soon();
        assert_eq!(get(), PURGE_DELAY_MS);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn pro_07_what_was_freed_does_not_come_back_in_huge_pages() {
        return_freed_soon();
        assert!(rustix::thread::transparent_huge_pages_are_disabled().unwrap());
    }
}
