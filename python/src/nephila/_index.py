"""CDXJ indexes: lines of `key time {json}`, sorted by their bytes.

Invariant: an index is bisected. A search reads some blocks of the file, whatever its size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

from ._error import Damaged, TooLarge
from ._storage import File

#: Limit of a line in bytes. A URL has at most 8 KiB.
LINE_BYTES_MAX = 256 << 10

_BLOCK = 64 << 10


@dataclass(frozen=True)
class Place:
    """A capture in an index: what was captured, and where its record is."""

    url: str
    #: Time of the capture, UTC.
    time: datetime
    filename: str
    offset: int
    length: int
    #: HTTP status; None for a revisit without a head.
    status: int | None = None
    #: Media type, or `warc/revisit`.
    mime: str | None = None
    digest: str | None = None
    #: Why the stored body is incomplete.
    truncated: str | None = None


def time_of(digits: str) -> datetime:
    """Return the time of 4 to 14 digits, `YYYYMMDDhhmmss`; a missing part is the earliest."""
    if not (digits.isascii() and digits.isdigit() and 4 <= len(digits) <= 14):
        raise ValueError(f"a time has 4 to 14 digits, such as 20261115: {digits[:40]!r}")
    whole = digits + "00000101000000"[len(digits) :]
    return datetime.strptime(whole, "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)


def digits_of(at: str | datetime) -> str:
    """Return a time as digits. A time without a zone is UTC."""
    if isinstance(at, datetime):
        at = at.astimezone(timezone.utc) if at.tzinfo else at
        return at.strftime("%Y%m%d%H%M%S")
    time_of(at)
    return at


def parse(line: bytes, where: str) -> Place:
    """Parse a line."""
    try:
        _, digits, text = line.decode("utf-8").split(" ", 2)
        fields = json.loads(text)
        status = fields.get("status")
        if len(digits) != 14:
            raise ValueError("no time of 14 digits")
        place = Place(
            url=_text(fields["url"]),
            time=time_of(digits),
            filename=_text(fields["filename"]),
            offset=_number(fields["offset"]),
            length=_number(fields["length"]),
            status=int(status) if isinstance(status, str) and status.isascii() and status.isdigit() else None,
            mime=_optional(fields.get("mime")),
            digest=_optional(fields.get("digest")),
            truncated=_optional(fields.get("truncated")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"{where}: no line of a CDXJ index: {line[:80]!r}") from error
    return place


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _optional(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int:
    if isinstance(value, int) and value >= 0:
        return value
    text = _text(value)
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise ValueError("no number")
    return int(text)


def search(file: File, prefix: bytes) -> Iterator[bytes]:
    """Return the lines that begin with a prefix."""
    for _, line in _lines(file, _first_not_before(file, prefix)):
        if line.startswith(prefix):
            yield line
        elif line > prefix:
            return


def _first_not_before(file: File, wanted: bytes) -> int:
    """Return the offset of a line before or at the first line that does not sort before `wanted`."""
    # Lines that begin before `low` sort before it; lines that begin at `high` or later do not.
    low, high = 0, file.size()
    while high - low > _block_of(file):
        middle = low + (high - low) // 2
        lines = _lines(file, middle)
        first = next(lines, None)
        second = next(lines, None) if first else None
        # The first is a part of a line, or a whole one: the next begins for certain.
        if first is None or second is None or second[0] >= high:
            high = middle
        elif second[1] < wanted:
            low = second[0]
        else:
            high = middle
    return low


def _block_of(file: File) -> int:
    return max(_BLOCK, file.chunk // 4)


def _lines(file: File, at: int) -> Iterator[tuple[int, bytes]]:
    """Return lines with their offsets, from an offset on. An incomplete last line is left out."""
    held = b""
    while True:
        block = file.read_at(at + len(held), _block_of(file))
        if not block:
            return
        parts = (held + block).split(b"\n")
        held = parts.pop()
        for line in parts:
            yield at, line
            at += len(line) + 1
        if len(held) > LINE_BYTES_MAX:
            raise TooLarge(f"{file.name}: a line at offset {at} exceeds LINE_BYTES_MAX ({LINE_BYTES_MAX})")
