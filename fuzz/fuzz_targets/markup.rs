//! The scanner of pages: tags, attributes, texts and open elements as `lol_html` has them, except on purpose.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::handler::{outline, outline_names};

#[path = "../../crates/nephila-core/src/handler/scan/tests/oracle.rs"]
mod oracle;

fuzz_target!(|page: &[u8]| {
    let ours = outline(page);
    if oracle::may_differ(page, &ours).is_none() {
        let (elements, attributes) = outline_names();
        assert_eq!(ours, oracle::outline(page, &elements, &attributes), "{}", String::from_utf8_lossy(page));
    }
    nephila_fuzz::linear(page, |page| _ = outline(page));
});
