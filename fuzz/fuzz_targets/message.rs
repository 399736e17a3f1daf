//! Messages between nodes, through inboxes, in records and as errands: any bytes are a message or an error, links never
//! unpack to more than their limit, and a message that is read is written again as the same message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::cluster::errand::Said;
use nephila_core::cluster::message::{Message, UNPACKED_MAX};
use nephila_core::frontier::offers::OfferedUrl;
use nephila_core::frontier::feedback::PartitionFeedback;
use nephila_core::codec::put_u64;
use nephila_core::key::Secret;
use xxhash_rust::xxh3::xxh3_64;

const SECRET: Secret = Secret([7; 16]);
/// Mark, version and kind of a message with links, and the sender.
const LINKS: &[u8] = b"NM\x01\x01\0\0\0\0\0\0\0\x05";

fuzz_target!(|data: &[u8]| {
    // As they are: the hash at the end refuses nearly all of them.
    let _ = (Message::decode(data, &SECRET), Message::newer(data), PartitionFeedback::decode(data));

    // With a right mark, version and hash: the input begins with the kind.
    check(&sealed(&[b"NM\x01", data].concat()));
    // As links before they are packed, so that every reader behind the packing is reached.
    if let Some(packed) = stored(data) {
        let mut bytes = LINKS.to_vec();
        put_u64(&mut bytes, data.len() as u64);
        bytes.extend(packed);
        check(&sealed(&bytes));
    }

    if let Ok(said) = Said::decode(&[b"NE\x01", data].concat()) {
        assert_eq!(Said::decode(&said.encode()), Ok(said), "an errand changes when it is written again");
    }

    if let Ok(feedback) = PartitionFeedback::decode(&sealed(data)) {
        let again = PartitionFeedback::decode(&feedback.encode());
        assert_eq!(again.as_ref(), Ok(&feedback), "feedback changes when it is written again");
    }
});

fn check(bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes, &SECRET) else { return };
    if let Message::Offers { offers, .. } = &message {
        let text = |url: &OfferedUrl| url.origin.len() + url.text.len();
        assert!(offers.iter().map(text).sum::<usize>() <= UNPACKED_MAX, "links without end");
    }
    // Links are put in order when they are written, so the second writing is the one that changes nothing.
    let again = Message::decode(&message.encode(&SECRET), &SECRET).expect("what we write we can read");
    let third = Message::decode(&again.encode(&SECRET), &SECRET).expect("what we write we can read");
    assert_eq!(third, again, "a message changes when it is written again");
    match (&message, &again) {
        (Message::Offers { from, offers }, Message::Offers { from: sender, offers: read }) => {
            assert_eq!((from, offers.len()), (sender, read.len()), "links are lost");
        }
        _ => assert_eq!(message, again, "a command changes when it is written again"),
    }
}

fn sealed(body: &[u8]) -> Vec<u8> {
    [body, &xxh3_64(body).to_be_bytes()].concat()
}

/// Bytes as Deflate stores them without packing: one last block (RFC 1951, 3.2.4).
fn stored(data: &[u8]) -> Option<Vec<u8>> {
    let len = u16::try_from(data.len()).ok()?;
    Some([&[1u8][..], &len.to_le_bytes(), &(!len).to_le_bytes(), data].concat())
}
