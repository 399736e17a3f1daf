//! How the core writes numbers and texts into durable bytes: varints, lengths first, nothing else.
//!
//! Invariants: a [`Reader`] never panics and never allocates more than its input holds; unreadable bytes are a
//! [`Damaged`] with the name of the missing part.

/// Damaged bytes: cut, or written by another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {0}")]
pub struct Damaged(pub &'static str);

/// Appends a number, seven bits at a time, the low ones first.
pub fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads the output of the functions above.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Begins at the start of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes }
    }

    /// Whether everything is read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes that are not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// One byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Damaged> {
        let (&first, rest) = self.bytes.split_first().ok_or(Damaged(what))?;
        self.bytes = rest;
        Ok(first)
    }

    /// A number.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, Damaged> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Damaged(what));
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damaged(what))
    }

    /// A number that must fit into 32 bits.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, Damaged> {
        u32::try_from(self.u64(what)?).map_err(|_| Damaged(what))
    }

    /// This many bytes.
    pub fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], Damaged> {
        if len > self.bytes.len() {
            return Err(Damaged(what));
        }
        let (taken, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        Ok(taken)
    }

    /// A length and as many bytes.
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], Damaged> {
        let len = usize::try_from(self.u64(what)?).map_err(|_| Damaged(what))?;
        self.take(len, what)
    }

    /// A length and as many bytes of text.
    pub fn text(&mut self, what: &'static str) -> Result<&'a str, Damaged> {
        std::str::from_utf8(self.bytes(what)?).map_err(|_| Damaged(what))
    }

    /// Eight bytes, the highest first.
    pub fn fixed_u64(&mut self, what: &'static str) -> Result<u64, Damaged> {
        let bytes = self.take(8, what)?;
        Ok(u64::from_be_bytes(bytes.try_into().expect("eight were taken")))
    }

    /// Four bytes, the highest first.
    pub fn fixed_u32(&mut self, what: &'static str) -> Result<u32, Damaged> {
        let bytes = self.take(4, what)?;
        Ok(u32::from_be_bytes(bytes.try_into().expect("four were taken")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers: Vec<u64>, text in "\\PC{0,40}") {
            let mut out = Vec::new();
            for &number in &numbers {
                put_u64(&mut out, number);
            }
            put_bytes(&mut out, text.as_bytes());
            let mut reader = Reader::new(&out);
            for &number in &numbers {
                prop_assert_eq!(reader.u64("number"), Ok(number));
            }
            prop_assert_eq!(reader.text("text"), Ok(text.as_str()));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn foreign_bytes_are_an_answer_too(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while reader.u64("number").is_ok() {}
            let mut reader = Reader::new(&bytes);
            while reader.bytes("bytes").is_ok() && !reader.is_empty() {}
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_damage() {
        let bytes = [0xff; 9].into_iter().chain([0x02]).collect::<Vec<_>>();
        assert_eq!(Reader::new(&bytes).u64("n"), Err(Damaged("n")));
    }
}
