//! Cursors of lists: opaque to clients, bound to one list and its order.
//!
//! Invariant: a text that [`seal`] did not make for the same list is no cursor; a cursor holds no secret.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;

/// Maximum length of a cursor in letters.
pub const CURSOR_BYTES_MAX: usize = 2_048;
/// Bytes of the check sum.
const SUM_BYTES: usize = 4;

/// The cursor behind a position in a list. `list` names the list and all parameters that change its order.
pub fn seal(list: &str, position: &[u8]) -> String {
    BASE64URL_NOPAD.encode(&[&sum(list, position)[..], position].concat())
}

/// The position of a cursor of this list.
pub fn open(list: &str, cursor: &str) -> Option<Vec<u8>> {
    let bytes =
        BASE64URL_NOPAD.decode(cursor.as_bytes()).ok().filter(|_| cursor.len() <= CURSOR_BYTES_MAX)?;
    let (given, position) = bytes.split_at_checked(SUM_BYTES)?;
    (given == sum(list, position)).then(|| position.to_vec())
}

fn sum(list: &str, position: &[u8]) -> [u8; SUM_BYTES] {
    let mut text = list.as_bytes().to_vec();
    text.push(0);
    text.extend_from_slice(position);
    let sum = digest(&SHA256, &text);
    let sum = sum.as_ref();
    [sum[0], sum[1], sum[2], sum[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_belongs_to_its_list_and_nothing_else_is_one() {
        let cursor = seal("hosts done", b"http://a.test");
        assert_eq!(open("hosts done", &cursor).as_deref(), Some(&b"http://a.test"[..]));
        assert_eq!(open("hosts next", &cursor), None, "another order");
        let longer = format!("{cursor}A");
        for wrong in ["", "AAAA", "AAAAAA", "\u{fc}", &longer, &cursor[1..], &"A".repeat(10_000)] {
            assert_eq!(open("hosts done", wrong), None, "{wrong}");
        }
        assert_eq!(open("x", &seal("x", b"")).as_deref(), Some(&b""[..]));
    }
}
