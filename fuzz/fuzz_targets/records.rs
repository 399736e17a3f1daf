//! Records of a cluster: any bytes are one or are refused, a record that is read is written again as the same, and the
//! work is linear.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::cluster::member::{NodeRecord, OwnerRecord};

fuzz_target!(|data: &[u8]| {
    if let Ok(node) = NodeRecord::decode(data) {
        assert_eq!(NodeRecord::decode(&node.encode()).as_ref(), Ok(&node), "a lease changes");
    }
    if let Ok(owner) = OwnerRecord::decode(data) {
        assert_eq!(OwnerRecord::decode(&owner.encode()).as_ref(), Ok(&owner), "an owner changes");
    }
    nephila_fuzz::linear(data, |data| {
        _ = (NodeRecord::decode(data), OwnerRecord::decode(data));
    });
});
