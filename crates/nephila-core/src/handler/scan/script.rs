//! The end of a script (HTML standard, 13.2.5.15 to 13.2.5.31).
//!
//! In `<!-- … -->` within a script, a `<script>` hides the next `</script>`, because pages of the nineties were written so
//! for browsers without scripts.

use super::{Element, has_name};

/// What stands around a place in a script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    /// In `<!--`.
    Escaped,
    /// In `<!-- <script>`.
    DoubleEscaped,
}

/// The end tag of the script, from this byte on; the end of the page if there is none.
pub(super) fn end_tag(bytes: &[u8], mut at: usize) -> usize {
    let mut state = State::Plain;
    while at < bytes.len() {
        let found = match state {
            State::Plain => memchr::memchr(b'<', &bytes[at..]),
            _ => memchr::memchr2(b'<', b'-', &bytes[at..]),
        };
        let Some(found) = found else { break };
        at += found;
        if bytes[at] == b'-' {
            let dashes = bytes[at..].iter().take_while(|byte| **byte == b'-').count();
            at += dashes;
            if dashes >= 2 && bytes.get(at) == Some(&b'>') {
                state = State::Plain;
            }
            continue;
        }
        let closes = bytes.get(at + 1) == Some(&b'/');
        let is_script = has_name(bytes, (at + 1 + usize::from(closes)).min(bytes.len()), Element::Script);
        match state {
            State::Plain | State::Escaped if closes && is_script => return at,
            State::Plain if bytes[at + 1..].starts_with(b"!--") => {
                state = State::Escaped;
                // The dashes may be those of the end too: `<!-->`.
                at += 1;
            }
            State::Escaped if is_script => state = State::DoubleEscaped,
            State::DoubleEscaped if closes && is_script => state = State::Escaped,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}
