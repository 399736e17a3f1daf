"""Content codings and character encodings of bodies.

Bodies come from other people's servers. Every function is linear in its input and its output, and stops at a limit.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator
from typing import Any

from ._error import Damaged, Error, TooLarge
from ._packages import load, zstd

#: Default limit of a body in bytes, as stored and as decoded.
BODY_BYTES_MAX = 64 << 20
#: Limit of the content codings of one body.
CODINGS_MAX = 4
#: Limit of the gzip members of one body.
GZIP_MEMBERS_MAX = 1_000
#: Limit of the memory for a Zstandard window: 2 to this power (RFC 9659 allows 8 MiB; some servers use more).
ZSTD_WINDOW_LOG_MAX = 27

_CHUNK = 64 << 10
_META_BYTES = 1_024


def codings_of(values: list[str]) -> list[str]:
    """Return the content codings of header fields, in the order of their application."""
    names = [name.strip().lower() for value in values for name in value.split(",")]
    return [name for name in names if name not in ("", "identity", "none")]


def decoded(body: bytes, codings: list[str], limit: int, is_cut: bool) -> bytes:
    """Undo content codings. `is_cut`: the stored body is incomplete, so a part is all that there is."""
    if len(codings) > CODINGS_MAX:
        raise TooLarge(f"the body has {len(codings)} content codings (CODINGS_MAX is {CODINGS_MAX})")
    for coding in reversed(codings):
        body = _collect(coding, body, limit, is_cut)
    return body


def _collect(coding: str, body: bytes, limit: int, is_cut: bool) -> bytes:
    out = bytearray()
    try:
        for piece in _pieces(coding, body, is_cut):
            out += piece
            if len(out) > limit:
                raise TooLarge(f"the decoded body exceeds {limit} bytes (body_bytes_max)")
    except Error:
        raise
    except Exception as error:  # each package has exceptions of its own
        if not is_cut:
            raise Damaged(f"the body is not {coding}: {error}") from error
    return bytes(out)


def _pieces(coding: str, body: bytes, is_cut: bool) -> Iterator[bytes]:
    if not body:
        return iter(())
    if coding in ("gzip", "x-gzip"):
        return _gunzip(body, is_cut)
    if coding == "deflate":
        is_zlib = len(body) > 1 and body[0] & 15 == 8 and (body[0] << 8 | body[1]) % 31 == 0
        return _inflate(body, 15 if is_zlib else -15, is_cut)
    if coding == "br":
        return _unbrotli(body, is_cut)
    if coding == "zstd":
        return _unzstd(body, is_cut)
    raise Error(f"the content coding {coding[:40]!r} is unknown; raw_body has the stored bytes")


def _chunks(body: bytes) -> Iterator[bytes]:
    return (body[at : at + _CHUNK] for at in range(0, len(body), _CHUNK))


def _gunzip(body: bytes, is_cut: bool) -> Iterator[bytes]:
    inflater = zlib.decompressobj(31)
    members = 1
    for chunk in _chunks(body):
        rest = chunk
        while rest:
            if inflater.eof:
                # Bytes behind the last member are ignored, as browsers do.
                if not rest.startswith(b"\x1f"):
                    return
                members += 1
                if members > GZIP_MEMBERS_MAX:
                    raise TooLarge(f"the body has more gzip members than GZIP_MEMBERS_MAX ({GZIP_MEMBERS_MAX})")
                inflater = zlib.decompressobj(31)
            yield inflater.decompress(rest, _CHUNK)
            rest = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
    yield from _flush(inflater, "gzip", is_cut)


def _inflate(body: bytes, bits: int, is_cut: bool) -> Iterator[bytes]:
    inflater = zlib.decompressobj(bits)
    for chunk in _chunks(body):
        rest = chunk
        while rest and not inflater.eof:
            yield inflater.decompress(rest, _CHUNK)
            rest = inflater.unconsumed_tail
    yield from _flush(inflater, "deflate", is_cut)


def _flush(inflater: Any, coding: str, is_cut: bool) -> Iterator[bytes]:
    while not inflater.eof:
        piece = inflater.decompress(b"", _CHUNK)
        if not piece:
            break
        yield piece
    if not inflater.eof and not is_cut:
        raise Damaged(f"the body ends within its {coding} data")


def _unbrotli(body: bytes, is_cut: bool) -> Iterator[bytes]:
    brotli = load("brotli", "brotli>=1.2", "a body in Brotli")
    inflater = brotli.Decompressor()
    if not hasattr(inflater, "can_accept_more_data"):
        raise Error("a body in Brotli needs brotli 1.2 or later: earlier versions cannot limit their output")
    for chunk in _chunks(body):
        yield inflater.process(chunk, output_buffer_limit=_CHUNK)
        while not inflater.can_accept_more_data():
            yield inflater.process(b"", output_buffer_limit=_CHUNK)
        if inflater.is_finished():
            return
    if not is_cut:
        raise Damaged("the body ends within its br data")


def _unzstd(body: bytes, is_cut: bool) -> Iterator[bytes]:
    module = zstd()
    inflater = new_zstd(module)
    for chunk in _chunks(body):
        yield inflater.decompress(chunk, _CHUNK)
        while not inflater.needs_input and not inflater.eof:
            yield inflater.decompress(b"", _CHUNK)
        if inflater.eof:
            return
    if not is_cut:
        raise Damaged("the body ends within its zstd data")


def new_zstd(module: Any) -> Any:
    """Return a decompressor of one frame, with a limited window."""
    return module.ZstdDecompressor(options={module.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG_MAX})


#: Codecs of Python for text from the web. Python has others (`zlib`, `punycode`), which a server must not select.
_CODECS = {
    "utf-8": "utf-8", "utf-8-sig": "utf-8", "utf-16": "utf-16", "utf-16-le": "utf-16-le", "utf-16-be": "utf-16-be",
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874", "iso8859-11": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "gb18030": "gb18030", "big5": "big5hkscs", "big5hkscs": "big5hkscs",
    "shift_jis": "cp932", "cp932": "cp932", "euc_jp": "euc_jp", "iso2022_jp": "iso2022_jp",
    "euc_kr": "cp949", "cp949": "cp949", "koi8-r": "koi8-r", "koi8-u": "koi8-u", "cp866": "cp866",
    "mac-roman": "mac-roman", "mac-cyrillic": "mac-cyrillic", "cp874": "cp874",
    **{f"cp125{n}": f"cp125{n}" for n in range(9)},
    **{f"iso8859-{n}": f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
}  # fmt: skip
_BOMS = [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")]
_META = re.compile(rb"<meta[^>]{0,300}?charset\s{0,8}=\s{0,8}[\"']?\s{0,8}([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)


def codec(label: str) -> str | None:
    """Return the codec of Python for a label such as `ISO-8859-1`; None if the label is unknown."""
    label = label.strip().strip("\"'").lower()
    if not label.isascii() or not 0 < len(label) <= 40:
        return None
    try:
        return _CODECS.get(codecs.lookup(label).name)
    except (LookupError, ValueError):
        return None


def charset_of(content_type: str | None, body: bytes) -> str:
    """Return the codec of a text: by its byte order mark, its `Content-Type`, its `meta` element, or UTF-8."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return name
    for parameter in (content_type or "").split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and (found := codec(value)):
            return found
    meta = _META.search(body, 0, _META_BYTES)
    named = codec(meta[1].decode("ascii")) if meta else None
    # The element was read as ASCII, so the text is not UTF-16.
    return named if named and not named.startswith("utf-16") else "utf-8"


def text_of(content_type: str | None, body: bytes) -> str:
    """Return the characters of a body. Invalid bytes become U+FFFD."""
    text = body.decode(charset_of(content_type, body), "replace")
    return text[1:] if text.startswith("\ufeff") else text
