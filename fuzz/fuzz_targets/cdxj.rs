//! Indexes: any line is one or is none, a written line is read back, and the work is linear.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::store::cdxj::{Line, Place, finish};
use nephila_core::store::record::target_uri;
use nephila_store::index::read_line;

fuzz_target!(|data: &[u8]| {
    let mut input = data;
    while let Ok(Some(bytes)) = read_line(&mut input) {
        let Some(line) = std::str::from_utf8(&bytes).ok().and_then(Line::parse) else { continue };
        let place = Place { length: line.length, offset: line.offset, filename: &line.filename };
        let written = finish(line.capture.begin(), &place, line.capture.truncated.as_deref());
        let again = Line::parse(&written).expect("what we write we can read");
        assert_eq!((again.length, again.offset, &again.filename), (line.length, line.offset, &line.filename));
        // A foreign line may have a URL that no record of ours would carry.
        assert_eq!(again.capture.url, target_uri(&line.capture.url));
    }

    nephila_fuzz::linear(data, |data| {
        let mut input = data;
        while let Ok(Some(bytes)) = read_line(&mut input) {
            _ = std::str::from_utf8(&bytes).ok().and_then(Line::parse);
        }
    });
});
