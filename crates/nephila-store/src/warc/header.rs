//! The head of a WARC record: a version line and named fields.

/// A record's head, as read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The first line, `WARC/1.1` for ours.
    pub version: String,
    /// Names and values, in order. Values that are not UTF-8 are read as Latin-1.
    pub fields: Vec<(String, String)>,
    /// Lines that are no fields, and lines without CRLF: zero in a correct head.
    pub broken_lines: u32,
}

impl Header {
    /// The value of the first field of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The values of all fields of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The length of the block, if stated and a number.
    pub fn content_length(&self) -> Option<u64> {
        let value = self.get("Content-Length")?;
        // `parse` accepts a plus sign, the format does not.
        value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok())?
    }

    /// Reads a head that ends with its blank line.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut header = Header::default();
        for (number, raw) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let Some(line) = raw.strip_suffix(b"\r\n") else {
                header.broken_lines += 1;
                header.line(number, raw.strip_suffix(b"\n").unwrap_or(raw))?;
                continue;
            };
            header.line(number, line)?;
        }
        Ok(header)
    }

    fn line(&mut self, number: usize, line: &[u8]) -> Result<(), &'static str> {
        let line = text(line);
        if number == 0 {
            if !line.starts_with("WARC/") {
                return Err("it does not begin with a version");
            }
            self.version = line;
        } else if line.starts_with([' ', '\t']) && !self.fields.is_empty() {
            let (_, value) = self.fields.last_mut().expect("there is a field");
            value.push(' ');
            value.push_str(line.trim());
        } else if let Some((name, value)) = line.split_once(':') {
            self.fields.push((name.trim().to_owned(), value.trim().to_owned()));
        } else if !line.is_empty() {
            self.broken_lines += 1;
        }
        Ok(())
    }
}

/// Finds the end of a head, searching from `from` on (which may be a few bytes before the new bytes).
pub(super) fn end(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'\n', &bytes[from..])
        .map(|at| from + at + 1)
        .find(|end| bytes[..*end].ends_with(b"\n\r\n") || bytes[..*end].ends_with(b"\n\n"))
}

fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}
