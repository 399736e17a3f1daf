//! Content codings: the codings that the server declares for the body, and the order in which they are decoded.

/// A supported coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `gzip`, `x-gzip`.
    Gzip,
    /// `deflate`: zlib by the standard, raw deflate in practice.
    Deflate,
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
}

/// The codings to decode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Codings {
    /// In decoding order: the last one applied comes first.
    pub undo: Vec<Coding>,
    /// Number of unknown words (`none`, `utf-8`, anything): they are ignored.
    pub ignored: usize,
}

/// There are more codings than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl Codings {
    /// Parses all `Content-Encoding` fields of a head, in their order.
    pub fn parse<'a>(values: impl Iterator<Item = &'a [u8]>, max: usize) -> Result<Codings, TooMany> {
        let mut codings = Codings::default();
        for word in values.flat_map(|value| value.split(|b| *b == b',')).map(<[u8]>::trim_ascii) {
            let coding = match word.to_ascii_lowercase().as_slice() {
                b"" | b"identity" => continue,
                b"gzip" | b"x-gzip" => Coding::Gzip,
                b"deflate" | b"x-deflate" => Coding::Deflate,
                b"br" => Coding::Brotli,
                b"zstd" => Coding::Zstd,
                _ => {
                    codings.ignored += 1;
                    continue;
                }
            };
            if codings.undo.len() == max {
                return Err(TooMany);
            }
            codings.undo.push(coding);
        }
        codings.undo.reverse();
        Ok(codings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(values: &[&str]) -> Result<Codings, TooMany> {
        Codings::parse(values.iter().map(|value| value.as_bytes()), 2)
    }

    #[test]
    fn the_last_coding_is_undone_first() {
        assert_eq!(parse(&["gzip, br"]).unwrap().undo, [Coding::Brotli, Coding::Gzip]);
        assert_eq!(parse(&["X-GZIP", "zstd"]).unwrap().undo, [Coding::Zstd, Coding::Gzip]);
    }

    #[test]
    fn nonsense_is_ignored_and_counted() {
        assert_eq!(parse(&["UTF-8", "none", ""]).unwrap(), Codings { undo: vec![], ignored: 2 });
    }

    #[test]
    fn layers_are_counted_over_all_fields() {
        assert_eq!(parse(&["gzip", "gzip", "gzip"]), Err(TooMany));
        assert_eq!(parse(&["gzip, gzip, gzip"]), Err(TooMany));
    }
}
