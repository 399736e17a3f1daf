"""Reads WARC records: gzip with a member per record, Zstandard with a frame per record, or plain.

Invariants: memory is bounded by the limits below, whatever the bytes are; the work is linear in the bytes read and
unpacked.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from ._decode import new_zstd
from ._error import Damaged, TooLarge
from ._headers import Headers
from ._packages import zstd

#: Limit of the head of a record in bytes.
HEAD_BYTES_MAX = 64 << 10
#: Limit of a record in bytes, unpacked. A record with a larger `Content-Length` is not read, and not passed over.
RECORD_BYTES_MAX = 16 << 30

_CHUNK = 64 << 10
_ZSTD = b"\x28\xb5\x2f\xfd"
_END = b"\r\n\r\n"

Read = Callable[[int], bytes]


class _Input:
    """Unpacked bytes of one member after the other."""

    def __init__(self, read: Read, offset: int, name: str) -> None:
        self._read = read
        self._raw = b""
        #: Offset of the first byte of `_raw`.
        self.offset = offset
        self.name = name
        self._inflater: Any = None
        self._format = ""

    def damaged(self, what: str, offset: int | None = None) -> Damaged:
        return Damaged(f"{self.name}: {what} at offset {self.offset if offset is None else offset}")

    def begin(self) -> bool:
        """Go to the next member. Returns False at the end."""
        while len(self._raw) < 8:
            more = self._read(_CHUNK)
            if not more:
                break
            self._raw += more
        if not self._raw:
            return False
        if self._raw.startswith(b"\x1f\x8b"):
            self._format, self._inflater = "gzip", zlib.decompressobj(31)
        elif self._raw.startswith(_ZSTD):
            self._format, self._inflater = "zstd", new_zstd(zstd())
        elif self._raw.startswith(b"WARC/"):
            self._format, self._inflater = "plain", None
        else:
            raise self.damaged("no record begins")
        return True

    @property
    def is_packed(self) -> bool:
        return self._inflater is not None

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes of the member, nothing at its end."""
        if self._inflater is None:
            if not self._raw:
                self._raw = self._read(_CHUNK)
            plain, self._raw = self._raw[:size], self._raw[size:]
            self.offset += len(plain)
            return plain
        inflater = self._inflater
        try:
            while not inflater.eof:
                fed = self._raw
                piece: bytes = inflater.decompress(fed, size)
                if inflater.eof:
                    self._raw = inflater.unused_data
                else:
                    self._raw = b"" if self._format == "zstd" else inflater.unconsumed_tail
                self.offset += len(fed) - len(self._raw)
                if piece:
                    return piece
                if not inflater.eof and not self._raw:
                    self._raw = self._read(_CHUNK)
                    if not self._raw:
                        raise self.damaged("the file or the given length ends within a record")
        except (zlib.error, OSError, ValueError) as error:
            raise self.damaged(f"damaged {self._format} data ({error})") from error
        except Exception as error:
            if type(error).__name__ == "ZstdError":
                raise self.damaged(f"damaged zstd data ({error})") from error
            raise
        return b""


class Record:
    """A WARC record. `read` is valid until the next record of the same iteration is taken."""

    def __init__(self, reader: Reader, headers: Headers, offset: int, length: int) -> None:
        self._reader = reader
        #: Fields of the head.
        self.headers = headers
        #: Offset of the record in its file.
        self.offset = offset
        #: Bytes of the block, unpacked (`Content-Length`).
        self.content_length = length
        #: Name of the file.
        self.filename = reader.name

    @property
    def type(self) -> str:
        """`WARC-Type`: `response`, `revisit`, `request`, `metadata`, `conversion`, `warcinfo` or another."""
        return self.headers.get("WARC-Type", "") or ""

    @property
    def url(self) -> str | None:
        """`WARC-Target-URI`."""
        url = self.headers.get("WARC-Target-URI")
        return None if url is None else url.strip("<>")

    @property
    def id(self) -> str:
        """`WARC-Record-ID`, without the angle brackets."""
        return (self.headers.get("WARC-Record-ID", "") or "").strip("<>")

    def read(self, limit: int) -> bytes:
        """Return the unread rest of the block. A block of more than `limit` bytes is a `TooLarge` error."""
        if self._reader.current is not self:
            raise ValueError("the iteration has gone on; read a block before the next record")
        if self.content_length > limit:
            raise TooLarge(
                f"{self.filename}: the block at offset {self.offset} has {self.content_length} bytes, the limit is {limit}"
            )
        out = bytearray()
        while piece := self.read_some():
            out += piece
        return bytes(out)

    def read_some(self, size: int = _CHUNK) -> bytes:
        """Return the next bytes of the block, at most `size`; nothing at its end."""
        if self._reader.current is not self:
            raise ValueError("the iteration has gone on; read a block before the next record")
        return self._reader.read_block(size)

    def finish(self) -> None:
        """Pass over the rest of the record, and check its end and the checksum of its member."""
        if self._reader.current is self:
            self._reader.finish()

    def __repr__(self) -> str:
        return f"Record({self.type!r}, {self.url!r}, filename={self.filename!r}, offset={self.offset})"


class Reader:
    """Reads one record after the other from a function that returns the next bytes."""

    def __init__(self, read: Read, offset: int = 0, name: str = "WARC file") -> None:
        self.name = name
        self.current: Record | None = None
        self._input = _Input(read, offset, name)
        self._ahead = b""
        self._left = 0

    def next(self) -> Record | None:
        """Return the next record; None at the end of the file."""
        self.finish()
        # Bytes of a plain file that were read with the head before.
        offset = self._input.offset - len(self._ahead)
        if not self._ahead and not self._input.begin():
            return None
        head = self._head(offset)
        version, _, lines = head.partition(b"\r\n")
        if not version.startswith(b"WARC/"):
            raise self._input.damaged("no WARC record begins", offset)
        headers = Headers.parse(lines, "utf-8")
        digits = headers.get("Content-Length") or ""
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
            raise self._input.damaged("no valid Content-Length in the record", offset)
        length = int(digits)
        if length > RECORD_BYTES_MAX:
            raise TooLarge(f"{self.name}: the record at offset {offset} exceeds RECORD_BYTES_MAX ({RECORD_BYTES_MAX})")
        self._left = length
        self.current = Record(self, headers, offset, length)
        return self.current

    def _head(self, offset: int) -> bytes:
        text = bytearray(self._ahead)
        searched = 0
        while (end := text.find(_END, searched)) < 0:
            searched = max(0, len(text) - 3)
            if len(text) > HEAD_BYTES_MAX:
                raise TooLarge(f"{self.name}: the head at offset {offset} exceeds HEAD_BYTES_MAX ({HEAD_BYTES_MAX})")
            piece = self._input.read(4_096)
            if not piece:
                raise self._input.damaged("the head of a record does not end", offset)
            text += piece
        self._ahead = bytes(text[end + 4 :])
        return bytes(text[:end])

    def read_block(self, size: int) -> bytes:
        if self._left == 0:
            return b""
        if not self._ahead:
            self._ahead = self._input.read(_CHUNK)
            if not self._ahead:
                raise self._input.damaged(f"the block of a record ends {self._left} bytes too early")
        size = min(size, self._left)
        piece, self._ahead = self._ahead[:size], self._ahead[size:]
        self._left -= len(piece)
        return piece

    def finish(self) -> None:
        """Pass over the rest of the current record, and check its end."""
        if self.current is None:
            return
        while self.read_block(_CHUNK):
            pass
        self.current = None
        end = bytearray(self._ahead[:4])
        self._ahead = self._ahead[4:]
        while len(end) < 4 and (piece := self._input.read(4 - len(end))):
            end += piece
        # Indexes of plain files leave out the two line ends, so a given length may end before them.
        is_whole = end == _END or (not end and not self._input.is_packed)
        if not is_whole or (self._input.is_packed and (self._ahead or self._input.read(1))):
            raise self._input.damaged("a record does not end where its Content-Length says")
