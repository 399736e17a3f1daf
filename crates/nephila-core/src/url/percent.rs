//! Percent-encoding: decoding, and conversion to a uniform form.
//!
//! Invariants: a `%` that is not followed by two hex digits is data and stays; conversion to the uniform form is
//! idempotent; two texts become the same only if they differ in the encoding of unreserved characters or in the case of
//! hex digits.

/// Appends `text` to `out` with uniform percent-encoding: hex in upper case, unreserved characters decoded (RFC 3986,
/// 6.2.2), everything else unchanged.
pub(super) fn push_uniform(out: &mut String, text: &str) {
    let bytes = text.as_bytes();
    // The number of hex digits written right behind a lone `%`. A decoded one in addition could form a new escape
    // (`%%34%31` is not `%41`), so such a digit stays encoded.
    let mut behind_lone: Option<u8> = None;
    let mut at = 0;
    while at < bytes.len() {
        if let Some(byte) = triplet(bytes, at) {
            at += 3;
            if is_unreserved(byte) && !(behind_lone.is_some() && byte.is_ascii_hexdigit()) {
                out.push(byte as char);
            } else {
                out.extend(encoded(byte).map(char::from));
            }
            behind_lone = None;
        } else if let Some(plain) =
            (behind_lone.is_none()).then(|| plain_bytes(&bytes[at..])).filter(|n| *n > 0)
        {
            out.push_str(&text[at..at + plain]);
            at += plain;
        } else {
            let char = text[at..].chars().next().expect("at a character, before the end");
            at += char.len_utf8();
            out.push(char);
            behind_lone = match (char, behind_lone) {
                ('%', _) => Some(0),
                (c, Some(0)) if c.is_ascii_hexdigit() => Some(1),
                _ => None,
            };
        }
    }
}

/// Number of bytes before the next `%`.
fn plain_bytes(bytes: &[u8]) -> usize {
    memchr::memchr(b'%', bytes).unwrap_or(bytes.len())
}

/// Decodes every escape once. Other text stays.
pub fn decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match triplet(text, at) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    out
}

/// Decodes until no escape is left, in one pass: escapes never overlap, so the order of decoding does not matter, and
/// each escape is decoded when its last digit is known.
pub fn decode_all(text: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    for &byte in text {
        out.push(byte);
        while out.len() >= 3 {
            let Some(byte) = triplet(&out, out.len() - 3) else { break };
            out.truncate(out.len() - 3);
            out.push(byte);
        }
    }
    out
}

/// Decodes once, into text. Bytes that are not UTF-8 become replacement characters.
pub(super) fn decode_lossy(text: &str) -> String {
    String::from_utf8_lossy(&decode(text.as_bytes())).into_owned()
}

/// The byte of the escape at this position.
pub(crate) fn triplet(bytes: &[u8], at: usize) -> Option<u8> {
    match *bytes.get(at..at + 3)? {
        [b'%', high, low] => Some(hex_value(high)? << 4 | hex_value(low)?),
        _ => None,
    }
}

/// RFC 3986, 2.3.
pub(crate) const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// The escape of a byte, hex in upper case.
pub(crate) fn encoded(byte: u8) -> [u8; 3] {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    [b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: &str) {
        let mut once = String::new();
        push_uniform(&mut once, text);
        assert_eq!(once, want);
        let mut twice = String::new();
        push_uniform(&mut twice, &once);
        assert_eq!(twice, once, "making uniform twice");
    }

    #[test]
    fn decoding_never_makes_an_escape_that_was_not_there() {
        check("%%34%31", "%%341");
        check("%4%31", "%4%31");
        check("%%34x", "%%34x");
        check("%z%41", "%zA");
        check("%zz%41", "%zzA");
        check("%7e%2f%c3%a9", "~%2F%C3%A9");
        check("%", "%");
        check("%2", "%2");
        check("é%", "é%");
    }

    #[test]
    fn all_layers_of_encoding_come_off_in_one_pass() {
        assert_eq!(decode_all(b"%25252541"), b"A");
        assert_eq!(decode_all(b"%2%35%34%31"), b"A");
        assert_eq!(decode(b"%2541%zz%"), b"%41%zz%");
        let deep = format!("%{}41", "25".repeat(1_000_000));
        assert_eq!(decode_all(deep.as_bytes()), b"A");
    }
}
