"""SURT: the sort key of a URL in archive indexes, `com,example)/path?query`.

The keys equal the keys that Nephila writes, which are the keys of the PyPI package `surt` and of `cdxj-indexer`. Every
step is linear in the length of the URL.
"""

from __future__ import annotations

import re
from collections.abc import Callable

#: Names with non-ASCII letters that are longer than this are escaped instead of folded: the codec of Python is slow.
HOST_CHARS_MAX = 255

_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*:")
_HEX = b"0123456789abcdefABCDEF"
_SPACE = b" \t\n\r\x0b\x0c"
_ALNUM = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ALPHA = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

_Parts = tuple[bytes, bytes, "int | None", "bytes | None", "bytes | None"]
_Session = Callable[[str, int], "int | None"]


def surt(url: str) -> str:
    """Return the key of a URL. A text that is no URL is its own key."""
    if not url:
        return "-"
    if url.startswith("filedesc"):
        return url
    parts = _split(url.encode("utf-8", "surrogateescape"))
    return url if parts is None else _key(*parts)



def _split(url: bytes) -> _Parts | None:
    """Split a URL into scheme, host, port, path and query (RFC 2396, appendix B)."""
    text = bytes(byte for byte in url.strip(_SPACE) if byte not in b"\n\r\t")
    if not text:
        return None
    if not _SCHEME.match(text):
        text = b"http://" + text
    text = _last_of_repeated_schemes(text)
    scheme, colon, rest = text.partition(b":")
    if not colon:
        return None
    rest = rest.partition(b"#")[0]
    rest, _, asked = rest.partition(b"?")
    authority, path_text = b"", rest
    if rest.startswith(b"//"):
        end = rest.find(b"/", 2)
        end = len(rest) if end < 0 else end
        authority, path_text = rest[2:end], rest[end:]
    found = _host_and_port(authority)
    if found is None:
        return None
    host, port = found
    path: bytes | None = path_text or None
    # `http:////example.com/x`: the first part that looks like a name is the host.
    if not host and scheme.startswith(b"http") and path is not None:
        joined = path.lstrip(b"/")
        host, _, below = joined.partition(b"/")
        path = b"/" + below
    return scheme, host, port, path, asked or None


def _key(scheme: bytes, raw_host: bytes, port: int | None, raw_path: bytes | None, raw_query: bytes | None) -> str:
    host = _canonical_host(raw_host) if raw_host else ""
    decoded = None if raw_path is None else _decode_all(raw_path)
    # Only a path below a host is a list of directories.
    if host:
        decoded = _without_dots(decoded or b"")
    path: str | None = None
    if decoded is not None:
        path = _without_path_session(_escape(decoded).lower())
        if len(path) > 1 and path.endswith("/"):
            path = path[:-1]
    query: str | None = None
    if raw_query is not None:
        query = _sorted(_without_query_sessions(_escape(_decode_all(raw_query))).lower()) or None
    name = _without_www(host)
    if not name:
        out = scheme.decode("utf-8", "replace") + ":"
    else:
        out = ",".join(reversed(name.split(".")))
        default = {b"http": 80, b"https": 443}.get(scheme.lower(), 0)
        if port is not None and port != default:
            out += f":{port}"
        out += ")"
    if path:
        out += path
    elif query is not None:
        out += "/"
    return out if query is None else f"{out}?{query}"


def _last_of_repeated_schemes(text: bytes) -> bytes:
    """`http://https://example.com` is a typing error: the last part counts."""

    def length(at: int) -> int:
        if text.startswith(b"http://", at):
            return 7
        return 8 if text.startswith(b"https://", at) else 0

    start = 0
    while (first := length(start)) and length(start + first):
        start += first
    return text[start:]


def _host_and_port(authority: bytes) -> tuple[bytes, int | None] | None:
    """Return host and port; the user is dropped. None if the port is invalid."""
    info = authority.rstrip(b":").rsplit(b"@", 1)[-1]
    open_at = info.find(b"[")
    if open_at >= 0:
        host, _, rest = info[open_at + 1 :].partition(b"]")
        digits = rest.partition(b":")[2]
    else:
        host, _, digits = info.partition(b":")
    port: int | None = None
    if digits:
        if not digits.isdigit():
            return None
        significant = digits.lstrip(b"0") or b"0"
        if len(significant) > 5 or int(significant) > 0xFFFF:
            return None
        port = int(significant) or None
    name, percent, zone = host.partition(b"%")
    return name.lower() + percent + zone, port


def _canonical_host(raw: bytes) -> str:
    host = _decode_all(raw)
    if not host.isascii():
        host = _to_ascii(host)
    # Two dots become one, once, like in the package; so four become two.
    host = host.replace(b"..", b".").strip(b".")
    address = _address(host)
    if address is not None:
        return ".".join(str(address >> shift & 0xFF) for shift in (24, 16, 8, 0))
    return _escape(host.lower()).lower()


def _to_ascii(host: bytes) -> bytes:
    name = host.decode("utf-8", "ignore")
    if name.isascii() or len(name) > HOST_CHARS_MAX:
        return name.encode() if name.isascii() else host
    try:
        return name.encode("idna")
    except UnicodeError:
        return host


def _address(host: bytes) -> int | None:
    """Read an address as C's `inet_aton` does: one to four parts, octal after a zero, the last part fills the rest."""
    if host.isdigit():
        value = 0
        for digit in host:
            value = (value * 10 + digit - 48) & 0xFFFFFFFF
        return value
    parts = host.split(b".")
    if len(parts) > 4:
        return None
    value = 0
    for index, part in enumerate(parts):
        base = 8 if len(part) > 1 and part.startswith(b"0") else 10
        if not part.isdigit() or (base == 8 and not part.translate(None, b"01234567") == b""):
            return None
        significant = part.lstrip(b"0") or b"0"
        if len(significant) > 11:
            return None
        number = int(significant, base)
        size = 4 - index if index + 1 == len(parts) else 1
        if number >> (8 * size):
            return None
        value = value << (8 * size) | number
    return value


def _decode_all(text: bytes) -> bytes:
    """Decode percent escapes until none is left, in one pass."""
    if b"%" not in text:
        return text
    out = bytearray()
    for byte in text:
        out.append(byte)
        while len(out) >= 3 and out[-3] == 0x25 and out[-2] in _HEX and out[-1] in _HEX:
            decoded = int(out[-2:], 16)
            del out[-3:]
            out.append(decoded)
    return bytes(out)


def _without_dots(path: bytes) -> bytes:
    """Remove `.`, `..` and repeated slashes. A `..` with nothing before stays."""
    kept: list[bytes] = []
    for part in path.split(b"/")[1:]:
        if part == b".":
            continue
        if part == b".." and kept:
            kept.pop()
        else:
            kept.append(part)
    if not kept:
        return b"/"
    directories = b"".join(part + b"/" for part in kept[:-1] if part)
    return b"/" + directories + kept[-1]


def _escape(text: bytes) -> str:
    """Escape spaces, controls, `#`, `%` and everything outside ASCII."""
    return "".join(chr(byte) if 0x21 <= byte <= 0x7E and byte not in b"#%" else f"%{byte:02X}" for byte in text)


def _without_www(host: str) -> str:
    if not host.startswith("www"):
        return host
    rest = host[3:].lstrip("0123456789")
    return rest[1:] if rest.startswith(".") else host


_PAREN = re.compile(r"\([0-9A-Za-z]{24}\)")
_TAGGED = re.compile(r"\((?:[A-Za-z]\([0-9A-Za-z]{24}\))+\)")


def _without_path_session(path: str) -> str:
    """Remove an ASP.NET session: `/(24 characters)/x.aspx` and `/(a(24 characters)b(…))/x.aspx`."""
    for pattern in (_TAGGED, _PAREN):
        path = _cut_path_session(path, pattern)
    return path


def _cut_path_session(path: str, pattern: re.Pattern[str]) -> str:
    slash = path.rfind("/")
    # The page with `.aspx` follows the session, so the last `.aspx` decides for all slashes before it.
    while slash >= 0:
        found = pattern.match(path, slash + 1)
        if found and path.startswith("/", found.end()):
            page = path[found.end() + 1 :].partition("?")[0]
            if page.lower().find(".aspx", 1) >= 0:
                return path[: slash + 1] + path[found.end() + 1 :]
        slash = path.rfind("/", 0, slash)
    return path


def _without_query_sessions(query: str) -> str:
    """Remove the session ids of well-known servers, the last of each kind."""
    for name in ("jsessionid=", "phpsessid=", "sid="):
        query = _cut(query, name, lambda text, at: _run(text, at, 32, _ALNUM))
    query = _cut(query, "aspsessionid", _aspsession)
    return _cut(query, "cfid=", _coldfusion)


def _run(text: str, at: int, count: int, allowed: frozenset[int]) -> int | None:
    part = text[at : at + count]
    return at + count if len(part) == count and all(ord(char) in allowed for char in part) else None


def _aspsession(text: str, at: int) -> int | None:
    name = _run(text, at, 8, _ALPHA)
    if name is None or text[name : name + 1] != "=":
        return None
    return _run(text, name + 1, 24, _ALPHA)


def _coldfusion(text: str, at: int) -> int | None:
    end = text.find("&", at)
    if end <= at or text[end + 1 : end + 9].lower() != "cftoken=":
        return None
    value = end + 9
    stop = text.find("&", value)
    stop = len(text) if stop < 0 else stop
    return stop if stop > value else None


def _cut(query: str, name: str, session: _Session) -> str:
    """Cut the last id that ends the query or is followed by `&`. The text before stays, with its `&`."""
    lower = query.lower()
    at = lower.rfind(name)
    while at >= 0:
        end = session(query, at + len(name))
        if end is not None and query[end : end + 1] in ("", "&"):
            return query[:at] + query[end + 1 :]
        at = lower.rfind(name, 0, at + len(name) - 1) if at else -1
    return query


def _sorted(query: str) -> str:
    def order(parameter: str) -> tuple[str, bool, str]:
        name, equals, value = parameter.partition("=")
        return name, bool(equals), value

    return "&".join(sorted(query.split("&"), key=order))
