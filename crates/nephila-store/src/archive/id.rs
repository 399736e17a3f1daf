//! Ids of records: random UUIDs (version 4), whose bits are drawn from the system for many ids at a time.
//!
//! An exchange has up to four records; a system call for each of their ids would cost more than the ids.
//!
//! Invariant: no two records have the same id, in whatever process. Each id has 122 bits of its own of the system's
//! generator. The bits that were drawn belong to one thread and are used once; a child process starts another program
//! and so draws its own.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};

use uuid::{Builder, Uuid};

const ID_BYTES: usize = 16;
/// Bytes drawn at once, for 256 ids.
const POOL_BYTES: usize = 256 * ID_BYTES;

thread_local! {
    /// Random bytes, used from the end.
    static POOL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A new id of a record, as a URN.
pub fn new_id() -> String {
    // Without the device, each id is a system call.
    let id = POOL
        .with_borrow_mut(next)
        .map_or_else(|_| Uuid::new_v4(), |id| Builder::from_random_bytes(id).into_uuid());
    id.urn().to_string()
}

fn next(pool: &mut Vec<u8>) -> io::Result<[u8; ID_BYTES]> {
    if pool.is_empty() {
        let mut bytes = vec![0; POOL_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        *pool = bytes;
    }
    let id = *pool.last_chunk().expect("a multiple of the length of an id");
    pool.truncate(pool.len() - ID_BYTES);
    Ok(id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_id_is_a_random_uuid_of_its_own_also_over_threads_and_refills() {
        let some = || (0..1_000).map(|_| new_id()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(some)).collect();
        let ids = threads.into_iter().flat_map(|thread| thread.join().unwrap()).chain(some());
        let ids: BTreeSet<String> = ids.collect();
        assert_eq!(ids.len(), 5_000);
        for id in &ids {
            let uuid = Uuid::parse_str(id.strip_prefix("urn:uuid:").unwrap()).unwrap();
            assert_eq!((uuid.get_version_num(), uuid.get_variant()), (4, uuid::Variant::RFC4122));
        }
    }
}
