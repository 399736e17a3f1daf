"""A capture: the stored response of a URL."""

from __future__ import annotations

import functools
import re
from datetime import datetime, timezone

from ._decode import BODY_BYTES_MAX, codings_of, decoded, text_of
from ._error import Damaged
from ._headers import Headers
from ._index import Place
from ._warc import Record

#: Limit of the head of a response in bytes.
HTTP_HEAD_BYTES_MAX = 1 << 20

_STATUS = re.compile(rb"HTTP/[0-9.]{1,8} +([0-9]{3})(?: |$)")


class Capture:
    """The stored response of a URL at a time."""

    def __init__(
        self,
        url: str,
        time: datetime,
        http: bytes,
        raw_body: bytes,
        record: Headers | None = None,
        place: Place | None = None,
        origin: Place | None = None,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        self.url = url
        #: Time of the capture, UTC.
        self.time = time
        #: Status line and header fields as stored; empty if the record is no HTTP response.
        self.http = http
        #: The body as stored, with its content codings.
        self.raw_body = raw_body
        #: Fields of the WARC record; empty if a node gave the capture.
        self.record = record or Headers()
        #: Where the record is, if the capture was read from an archive.
        self.place = place
        #: Where the body is, if the capture is a revisit: another record has the same payload.
        self.origin = origin
        self._body_bytes_max = body_bytes_max
        status_line, _, fields = http.partition(b"\n")
        found = _STATUS.match(status_line.rstrip(b"\r"))
        #: HTTP status; None if the record is no HTTP response.
        self.status: int | None = int(found[1]) if found else None
        #: Header fields of the response.
        self.headers = Headers.parse(fields, "latin-1")

    @property
    def mime(self) -> str | None:
        """Media type by the `Content-Type` of the response, without parameters."""
        value = self.headers.get("Content-Type")
        return None if value is None else value.partition(";")[0].strip().lower()

    @functools.cached_property
    def body(self) -> bytes:
        """The body without content codings (gzip, deflate, br, zstd).

        More than `body_bytes_max` bytes are a `TooLarge` error. If the fetch was cut off (`WARC-Truncated`), this is
        the part that can be decoded.
        """
        codings = codings_of(self.headers.get_all("Content-Encoding"))
        is_cut = "WARC-Truncated" in self.record
        return decoded(self.raw_body, codings, self._body_bytes_max, is_cut)

    @property
    def text(self) -> str:
        """The characters of `body`. For the main text of a page see `Crawl.main_text`."""
        return text_of(self.headers.get("Content-Type"), self.body)

    def __repr__(self) -> str:
        return f"Capture({self.url!r}, {self.time:%Y-%m-%dT%H:%M:%SZ}, status={self.status})"


def split(record_type: str, block: bytes, where: str) -> tuple[bytes, bytes]:
    """Split a block into the head of a response and its body; any other block is all body."""
    if record_type not in ("response", "revisit") or not block.startswith(b"HTTP/"):
        return b"", block
    end = block.find(b"\r\n\r\n", 0, HTTP_HEAD_BYTES_MAX)
    if end < 0:
        raise Damaged(f"{where}: the head of the response does not end")
    return block[: end + 4], block[end + 4 :]


def warc_time(record: Headers) -> datetime:
    """Return `WARC-Date`."""
    text = record.get("WARC-Date") or ""
    try:
        return datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError as error:
        raise Damaged(f"no valid WARC-Date: {text[:40]!r}") from error


def capture_of(record: Record, body_bytes_max: int = BODY_BYTES_MAX) -> Capture:
    """Return the capture of a record of an iteration. The body of a revisit is empty."""
    where = f"{record.filename} at {record.offset}"
    http, body = split(record.type, record.read(body_bytes_max + HTTP_HEAD_BYTES_MAX), where)
    return Capture(
        record.url or "", warc_time(record.headers), http, body, record.headers, body_bytes_max=body_bytes_max
    )
