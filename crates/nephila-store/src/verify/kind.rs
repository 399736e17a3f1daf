//! The kinds of findings and their names.

use std::fmt;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Kind of a defect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant,)+];

            /// The name for scripts, which never changes.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name,)+ }
            }

            /// The description of the kind.
            pub const fn meaning(self) -> &'static str {
                match self { $(Kind::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

kinds! {
    /// The file still has the ending `.open`: the file is being written, or was left by a crash.
    FileOpen = "file-open",
    /// The bytes here begin no record of the file's kind.
    NotWarc = "not-warc",
    /// The file ends inside this record.
    TornRecord = "torn-record",
    /// The record's compressed bytes or its head are invalid.
    DamagedRecord = "damaged-record",
    /// A gzip member or a Zstandard frame holds more than one record.
    SharedMember = "shared-member",
    /// The block does not end where `Content-Length` says, followed by two line ends.
    Separator = "separator",
    /// The version is not WARC/1.0 or WARC/1.1.
    Version = "version",
    /// A line of the record's head is no header field, or does not end with CRLF.
    HeaderLine = "header-line",
    /// `WARC-Type` is missing or unknown.
    Type = "type",
    /// There is no `WARC-Record-ID`.
    RecordIdMissing = "record-id-missing",
    /// `WARC-Record-ID` is not a URI in angle brackets.
    RecordIdForm = "record-id-form",
    /// Another record has the same `WARC-Record-ID`.
    RecordIdRepeated = "record-id-repeated",
    /// `WARC-Date` is missing, or not in the form `2026-11-14T22:58:09Z`.
    Date = "date",
    /// `WARC-Target-URI` is missing where required.
    TargetMissing = "target-missing",
    /// `WARC-Target-URI` is in brackets, has blanks, or is not a URI.
    TargetForm = "target-form",
    /// There is a block but no `Content-Type`, or one that does not fit the type.
    ContentType = "content-type",
    /// `WARC-Truncated` has a reason that the WARC standard does not define.
    Truncated = "truncated-reason",
    /// `Nephila-Media` is not the name and the length of an object, or stands in a record with a body.
    MediaForm = "media-form",
    /// The object that holds the body of a capture is missing.
    MediaGone = "media-gone",
    /// The object that holds the body of a capture has another length or digest.
    MediaDamaged = "media-damaged",
    /// A digest cannot be read.
    DigestForm = "digest-form",
    /// `WARC-Block-Digest` does not match the block.
    BlockDigest = "block-digest",
    /// `WARC-Payload-Digest` does not match the stored body.
    PayloadDigest = "payload-digest",
    /// The HTTP status line is not `HTTP/1.1 200 OK` in form; pywb answers 503 to others.
    StatusLine = "status-line",
    /// The HTTP head has no end, or lines that are no header fields.
    HttpHead = "http-head",
    /// `Transfer-Encoding` is kept over a body without that framing.
    TransferEncoding = "transfer-encoding",
    /// The body is stored with its chunk framing; readers disagree about the digest of such a body.
    ChunkFraming = "chunk-framing",
    /// `Content-Encoding` names a coding that the body does not have.
    ContentEncoding = "content-encoding",
    /// The HTTP `Content-Length` is not the length of the stored body.
    ContentLength = "content-length",
    /// A revisit has no `WARC-Profile`, or an unknown one.
    RevisitProfile = "revisit-profile",
    /// A revisit does not name its target (`WARC-Refers-To-Target-URI`, `WARC-Refers-To-Date`).
    RevisitTarget = "revisit-target",
    /// A revisit has no `WARC-Payload-Digest`.
    RevisitDigest = "revisit-digest",
    /// A revisit with status 304 has a block; pywb shows a blank page for such a record.
    RevisitBlock = "revisit-block",
    /// A revisit's block has more than a head.
    RevisitBody = "revisit-body",
    /// A request holds a secret that should have been redacted.
    Secret = "secret",
    /// A line of the index cannot be read.
    IndexForm = "index-form",
    /// The index is not sorted by bytes.
    IndexOrder = "index-order",
    /// A record is not in the index.
    IndexMissing = "index-missing",
    /// The index has a line without a record.
    IndexExtra = "index-extra",
    /// The list of the folder names the file, but the file is missing. Put the file back, or crawl with `--mend`.
    FileGone = "file-gone",
    /// The length or checksum of the file differs from the list of the folder. Put the file back, or crawl with
    /// `--mend`.
    FileChanged = "file-changed",
    /// The index of a file is missing or changed. The next crawl rebuilds the index.
    IndexChanged = "index-changed",
    /// The list of the folder, `contents`, has changed. The next crawl rebuilds the list.
    ListDamaged = "list-damaged",
    /// A part of the crawl's state is missing or damaged; the message names the remedy.
    State = "state",
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
