//! Settings of the archive. Section `[store]` of the settings file.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::warc::Format;

/// Contents and format of the archive.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// First part of every WARC file's name.
    pub prefix: String,
    /// Last part of every WARC file's name: the machine that wrote the file. A node of a cluster uses its own name,
    /// unless another name is set here.
    pub node: String,
    /// Compression of the records. `gzip`, `zstd` or `none`, with an optional level: `gzip:6`. gzip at level 1 is made
    /// for speed: 8 to 16 % more bytes than zlib's level 6 for most pages, a quarter more for long ones that repeat
    /// themselves. Level 2 costs twice the CPU for 5 % fewer bytes. Every tool can read gzip; few tools can read
    /// `.warc.zst`.
    pub compression: Compression,
    /// Maximum size of a WARC file before the next one begins. A number of bytes, or text such as `1GB` or `512MiB`.
    #[serde(deserialize_with = "bytes")]
    pub bytes_max: u64,
    /// Maximum age of an open WARC file. At this age the file is closed, so that its index appears in time.
    #[serde(with = "humantime_serde")]
    pub age_max: Duration,
    /// Group commit interval. Responses that arrive within this time share one sync of the disk. A longer interval
    /// means fewer syncs and later acknowledgements, and adds to the time of every fetch.
    #[serde(with = "humantime_serde")]
    pub commit_interval: Duration,
    /// Deduplication. `payload`: a payload that is already in the archive becomes a revisit record. `off`: store
    /// everything.
    pub dedup: Dedup,
    /// Minimum payload size for deduplication. Shorter payloads are always stored: a revisit record would be larger.
    #[serde(deserialize_with = "bytes")]
    pub dedup_bytes_min: u64,
    /// Also store the requests, not only the responses.
    pub request_records: bool,
    /// Also store metadata about the fetch and its links: `via`, `hopsFromSeed`, `outlink`, `fetchTimeMs` and so on.
    pub metadata_records: bool,
    /// Names of request header fields whose values may be archived, in addition to the standard fields. The archive
    /// keeps the name of a field added with `-H` and removes its value, unless the field is listed here. The values of
    /// `Authorization`, `Cookie`, `Proxy-*`, `Signature*`, `X-Api-Key` and the like are always removed.
    pub open_headers: Vec<String>,
    /// Names of request header fields that hold secrets, also among the standard fields. Overrides `open_headers`.
    pub secret_headers: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            prefix: "NEPHILA".into(),
            node: "node0".into(),
            compression: Compression::Gzip { level: 1 },
            bytes_max: 1_000_000_000,
            age_max: Duration::from_secs(3600),
            commit_interval: Duration::from_millis(10),
            dedup: Dedup::Payload,
            dedup_bytes_min: 1024,
            request_records: true,
            metadata_records: true,
            open_headers: Vec::new(),
            secret_headers: Vec::new(),
        }
    }
}

/// When a response becomes a revisit record.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dedup {
    /// When its payload is already in the archive.
    Payload,
    /// Only when the server answers 304.
    Off,
}

/// How records are compressed.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Compression {
    /// A gzip member per record.
    Gzip {
        /// 1, our own compressor, or 2 to 12, a libdeflate level.
        level: u8,
    },
    /// A Zstandard frame per record, with checksum.
    Zstd {
        /// 1 to 19.
        level: u8,
    },
    /// No compression.
    None,
}

impl Compression {
    /// The ending of file names.
    pub const fn ending(self) -> &'static str {
        match self {
            Compression::Gzip { .. } => ".warc.gz",
            Compression::Zstd { .. } => ".warc.zst",
            Compression::None => ".warc",
        }
    }
}

impl Compression {
    /// The corresponding format of the reader.
    pub const fn format(self) -> Format {
        match self {
            Compression::Gzip { .. } => Format::Gzip,
            Compression::Zstd { .. } => Format::Zstd,
            Compression::None => Format::Plain,
        }
    }
}

/// All endings; the longest first, so that the right one is cut off.
pub const ENDINGS: [&str; 3] = [".warc.gz", ".warc.zst", ".warc"];

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::Gzip { level } => write!(f, "gzip:{level}"),
            Compression::Zstd { level } => write!(f, "zstd:{level}"),
            Compression::None => f.write_str("none"),
        }
    }
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => {
                (name, Some(level.parse::<u8>().map_err(|_| format!("{level:?} is not a level"))?))
            }
            None => (text, None),
        };
        let compression = match name {
            "gzip" => Compression::Gzip { level: level.unwrap_or(1) },
            "zstd" => Compression::Zstd { level: level.unwrap_or(3) },
            "none" if level.is_none() => Compression::None,
            _ => return Err(format!("{text:?} is not gzip, zstd or none")),
        };
        match compression {
            Compression::Gzip { level: 1..=12 } | Compression::Zstd { level: 1..=19 } | Compression::None => {
                Ok(compression)
            }
            _ => Err(format!("{text:?}: gzip has the levels 1 to 12, zstd 1 to 19")),
        }
    }
}

impl TryFrom<String> for Compression {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Compression> for String {
    fn from(compression: Compression) -> String {
        compression.to_string()
    }
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Said {
        Number(u64),
        Text(String),
    }
    match Said::deserialize(deserializer)? {
        Said::Number(bytes) => Ok(bytes),
        Said::Text(text) => {
            parse_bytes(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a size")))
        }
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit = match text[digits..].trim_start() {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_may_write_sizes_times_and_levels() {
        let said =
            "compression = 'zstd:9'\nbytes_max = '64MiB'\nage_max = '2h'\ndedup = 'off'\ndedup_bytes_min = 7";
        let settings: Settings = toml::from_str(said).unwrap();
        assert_eq!(settings.compression, Compression::Zstd { level: 9 });
        assert_eq!(settings.bytes_max, 64 << 20);
        assert_eq!(settings.age_max, Duration::from_secs(7200));
        assert_eq!((settings.dedup, settings.dedup_bytes_min), (Dedup::Off, 7));
        let again: Settings = toml::from_str(&toml::to_string(&settings).unwrap()).unwrap();
        assert_eq!(again, settings);
    }

    #[test]
    fn nonsense_is_refused() {
        for said in ["compression = 'gzip:0'", "compression = 'lz4'", "bytes_max = '1 parsec'", "colour = 1"]
        {
            assert!(toml::from_str::<Settings>(said).is_err(), "{said}");
        }
    }
}
