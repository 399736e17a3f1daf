//! Files of a state's folder: records, runs and manifests. Any bytes are read or refused, a value that is read is
//! written again as the same, and the work is linear.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nephila_core::state::Meta;
use nephila_core::state::record::{DomainRecord, HostRecord, UrlRecord};
use nephila_store::runs::Run;
use xxhash_rust::xxh3::xxh3_64;

/// A file of this process, in memory if the system has such a folder.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let shared = PathBuf::from("/dev/shm");
    let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
    folder.join(format!("nephila-fuzz-state-{}", std::process::id()))
});

fuzz_target!(|data: &[u8]| {
    records(data);
    nephila_fuzz::linear(data, records);

    // Unchanged, and with a right checksum at the end, so that more than the checksum is tested.
    for bytes in [data.to_vec(), [data, &xxh3_64(data).to_be_bytes()].concat()] {
        std::fs::write(&*FILE, bytes).expect("there is room for a small file");
        if let Ok(run) = Run::open(&FILE) {
            _ = run.verify();
            let mut scan = run.scan(b"");
            while let Ok(Some(_)) = scan.next() {}
        }
    }
});

fn records(data: &[u8]) {
    _ = UrlRecord::decode(data);
    _ = HostRecord::decode(data);
    _ = DomainRecord::decode(data);
    _ = Meta::decode(data);
}
