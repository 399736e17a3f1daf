//! The table of captures: Common Crawl's columns in Common Crawl's order, then ours.
//!
//! Common Crawl has 30 columns in a file and two in its path, the partitions `crawl` and `subset`. So have we.

use crate::table::{Millis, table};

/// The part of a crawl that a capture belongs to, in Common Crawl's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subset {
    /// Pages and files that were there: status 200.
    Warc,
    /// Answers for `/robots.txt`, whatever their status.
    RobotsTxt,
    /// Everything else: redirects, errors, 304.
    CrawlDiagnostics,
}

impl Subset {
    /// All subsets, in the order of their files.
    pub const ALL: [Subset; 3] = [Subset::Warc, Subset::RobotsTxt, Subset::CrawlDiagnostics];

    /// The name in paths.
    pub const fn name(self) -> &'static str {
        match self {
            Subset::Warc => "warc",
            Subset::RobotsTxt => "robotstxt",
            Subset::CrawlDiagnostics => "crawldiagnostics",
        }
    }

    /// The subset of a capture.
    pub fn of(path: &str, status: i16) -> Subset {
        match status {
            _ if path == "/robots.txt" => Subset::RobotsTxt,
            200 => Subset::Warc,
            _ => Subset::CrawlDiagnostics,
        }
    }
}

table! {
    /// A capture.
    "captures" CaptureRow {
        /// SURT URL key.
        url_surtkey: String,
        /// URL.
        url: String,
        /// Host name, or address.
        url_host_name: String,
        /// Last part of the host name.
        url_host_tld: Option<String>,
        /// Second last part of the host name.
        url_host_2nd_last_part: Option<String>,
        /// Third last part of the host name.
        url_host_3rd_last_part: Option<String>,
        /// Fourth last part of the host name.
        url_host_4th_last_part: Option<String>,
        /// Fifth last part of the host name.
        url_host_5th_last_part: Option<String>,
        /// Suffix of the domain registry.
        url_host_registry_suffix: Option<String>,
        /// Domain below the suffix of the registry.
        url_host_registered_domain: Option<String>,
        /// Suffix, those of private registrars included.
        url_host_private_suffix: Option<String>,
        /// Domain below the private suffix.
        url_host_private_domain: Option<String>,
        /// Host name in reverse order, unless an address.
        url_host_name_reversed: Option<String>,
        /// Scheme.
        url_protocol: String,
        /// Port, if the URL has one.
        url_port: Option<i32>,
        /// Path.
        url_path: String,
        /// Query, without the question mark.
        url_query: Option<String>,
        /// Time of the request, UTC.
        fetch_time: Millis,
        /// HTTP status. Zero if the answer has no status line.
        fetch_status: i16,
        /// Target of a redirect.
        fetch_redirect: Option<String>,
        /// SHA-1 of the payload, base 32.
        content_digest: Option<String>,
        /// `Content-Type` of the answer, without parameters.
        content_mime_type: Option<String>,
        /// Media type by the bytes.
        content_mime_detected: Option<String>,
        /// Character encoding of a text.
        content_charset: Option<String>,
        /// Language of the main text, ISO 639-3, if the archive holds a text.
        content_languages: Option<String>,
        /// Why the stored payload is incomplete.
        content_truncated: Option<String>,
        /// File name of the WARC file.
        warc_filename: String,
        /// Offset of the record.
        warc_record_offset: i64,
        /// Compressed length of the record.
        warc_record_length: i64,
        /// Time at which the WARC file was begun, fourteen digits.
        warc_segment: String,
        /// Type of the record: `response` or `revisit`.
        warc_type: String,
        /// Title.
        title: Option<String>,
        /// `meta name=description`.
        description: Option<String>,
        /// Canonical URL by the page's own statement.
        canonical: Option<String>,
        /// Versions in other languages: `de=URL` and a blank between two.
        hreflang: Option<String>,
        /// Language by the page's own statement: `html lang`, or `Content-Language`.
        language: Option<String>,
        /// Characters of the main text, if the archive holds a text.
        text_length: Option<i32>,
        /// 64-bit simhash of the main text, if the archive holds a text.
        simhash: Option<i64>,
        /// The page that named the URL first.
        via: Option<String>,
        /// Number of links from a seed.
        depth: Option<i32>,
        /// Job.
        job: Option<String>,
        /// Result of the fetch in our words: `ok`, `not-found`.
        outcome: Option<String>,
        /// Address of the server.
        ip: Option<String>,
        /// Protocols: `h2 tls/1.3`.
        protocol: Option<String>,
        /// Time from the start of the fetch to its last byte, in milliseconds.
        fetch_duration_ms: Option<i64>,
        /// May be used to train AI. Empty: nothing was said.
        usage_train_ai: Option<bool>,
        /// May be used for search. Empty: nothing was said.
        usage_search: Option<bool>,
        /// May be mined (TDMRep). Empty: nothing was said.
        usage_tdm: Option<bool>,
        /// Policy for text and data mining (TDMRep).
        tdm_policy: Option<String>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Kind, Row as _};

    /// The flat schema of cc-index-table; an exclamation mark says that there is always a value.
    const COMMON_CRAWL: &str = "url_surtkey! url! url_host_name! url_host_tld url_host_2nd_last_part \
        url_host_3rd_last_part url_host_4th_last_part url_host_5th_last_part url_host_registry_suffix \
        url_host_registered_domain url_host_private_suffix url_host_private_domain url_host_name_reversed url_protocol! \
        url_port url_path! url_query fetch_time! fetch_status! fetch_redirect content_digest content_mime_type \
        content_mime_detected content_charset content_languages content_truncated warc_filename! \
        warc_record_offset! warc_record_length! warc_segment!";

    #[test]
    fn the_first_columns_are_common_crawls() {
        let names: Vec<_> = CaptureRow::COLUMNS
            .iter()
            .map(|column| format!("{}{}", column.name, if column.is_nullable { "" } else { "!" }))
            .collect();
        let wanted: Vec<_> = COMMON_CRAWL.split_whitespace().collect();
        assert_eq!(names[..wanted.len()], wanted);
        assert_eq!(wanted.len(), 30);
        let kind = |name| CaptureRow::COLUMNS.iter().find(|column| column.name == name).unwrap().kind;
        assert_eq!((kind("fetch_status"), kind("fetch_time")), (Kind::Short, Kind::Time));
    }

    #[test]
    fn a_capture_has_one_subset() {
        assert_eq!(Subset::of("/robots.txt", 404), Subset::RobotsTxt);
        assert_eq!(Subset::of("/a/robots.txt", 200), Subset::Warc);
        assert_eq!(Subset::of("/", 301), Subset::CrawlDiagnostics);
    }
}
