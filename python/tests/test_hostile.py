"""Archives and bodies that were made to hurt: each is a clear error, in bounded memory and time."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest
from backports import zstd

import nephila
from nephila import _decode, _index, _warc
from nephila._headers import Headers
from nephila._storage import File, LocalStorage

URL = "http://a.test/x"
NAME = "NEPHILA-20260101000000000-00000-one.warc.gz"
LINE = '{key} {time} {{"url": "{url}", "status": "200", "length": "{length}", "offset": "{offset}", "filename": "{name}"}}\n'


def head(block: bytes, url: str = URL, type: str = "response", length: int | None = None, more: str = "") -> bytes:
    return (
        f"WARC/1.1\r\nWARC-Type: {type}\r\nWARC-Record-ID: <urn:uuid:1>\r\nWARC-Date: 2026-01-01T00:00:00Z\r\n"
        f"WARC-Target-URI: {url}\r\n{more}Content-Length: {len(block) if length is None else length}\r\n\r\n"
    ).encode()


def record(body: bytes = b"hello", fields: str = "", **options: object) -> bytes:
    block = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{fields}\r\n".encode() + body
    return head(block, **options) + block + b"\r\n\r\n"  # type: ignore[arg-type]


def archive(tmp_path: Path, packed: bytes, offset: int = 0, length: int | None = None) -> nephila.Crawl:
    """A crawl of one record, at a place that may be wrong."""
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / NAME).write_bytes(packed)
    size = len(packed) if length is None else length
    line = LINE.format(key="test,a)/x", time="20260101000000", url=URL, length=size, offset=offset, name=NAME)
    (tmp_path / "archive" / NAME.replace(".warc.gz", ".cdxj")).write_text(line)
    return nephila.open(tmp_path)


def test_a_whole_record_is_read(tmp_path: Path) -> None:
    """The other tests change one thing each."""
    crawl = archive(tmp_path, gzip.compress(record()))
    assert crawl.read(URL).body == b"hello"
    assert [r.type for r in crawl.records()] == ["response"]


def changed(packed: bytes, at: int) -> bytes:
    at %= len(packed)
    return packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :]


CHECKED: dict[int, int] = {zstd.CompressionParameter.checksum_flag: 1}
LONG = bytes(range(256)) * 40

CASES: dict[str, tuple[bytes, type[nephila.Error], str]] = {
    "a truncated member": (gzip.compress(record(LONG))[:-30], nephila.Damaged, "ends within a record"),
    "a member of half a header": (b"\x1f\x8b\x08", nephila.Damaged, "ends within a record"),
    "an empty file": (b"", nephila.Damaged, "no record"),
    "no gzip": (b"PK\x03\x04" + bytes(100), nephila.Damaged, "no record begins"),
    "no WARC in gzip": (gzip.compress(b"hello\r\n\r\n"), nephila.Damaged, "no WARC record"),
    "flipped bits": (changed(gzip.compress(record(LONG)), 60), nephila.Damaged, "offset"),
    "a head without an end": (gzip.compress(b"WARC/1.1\r\nWARC-Type: response\r\n"), nephila.Damaged, "does not end"),
    "a plain head without an end": (b"WARC/1.1\r\nWARC-Type: response\r\n", nephila.Damaged, "does not end"),
    "a head without limit": (gzip.compress(b"WARC/1.1\r\nX: " + b"y" * (1 << 20)), nephila.TooLarge, "HEAD_BYTES_MAX"),
    "no length": (gzip.compress(b"WARC/1.1\r\nWARC-Type: response\r\n\r\nx"), nephila.Damaged, "Content-Length"),
    "a negative length": (gzip.compress(record(length=-5)), nephila.Damaged, "Content-Length"),
    "a length in other digits": (gzip.compress(head(b"").replace(b": 0", ": ٣".encode())), nephila.Damaged, "Content-Length"),
    "a length beyond the member": (gzip.compress(record(length=1_000_000)), nephila.Damaged, "too early"),
    "a length beyond all": (gzip.compress(record(length=10**15)), nephila.TooLarge, "RECORD_BYTES_MAX"),
    "a length beyond the limit": (gzip.compress(record(length=10**9)), nephila.TooLarge, "1000000000 bytes"),
    "a response without an end of its head": (
        gzip.compress(head(b"HTTP/1.1 200 OK\r\nA: b") + b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"),
        nephila.Damaged,
        "head of the response",
    ),
    "another page": (gzip.compress(record(url="http://b.test/")), nephila.Damaged, "not of"),
    "a wrong date": (gzip.compress(record().replace(b"2026-01-01T", b"yesterday")), nephila.Damaged, "WARC-Date"),
    "damaged zstd": (changed(zstd.compress(record(LONG), options=CHECKED), 40), nephila.Damaged, "zstd"),
    "another checksum": (changed(gzip.compress(record(LONG)), -8), nephila.Damaged, "gzip"),
    "truncated zstd": (zstd.compress(record(LONG))[:-9], nephila.Damaged, "ends within a record"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_damaged_record_is_an_error(case: str, tmp_path: Path) -> None:
    packed, error, text = CASES[case]
    crawl = archive(tmp_path, packed)
    with pytest.raises(error, match=text):
        crawl.read(URL)


def test_a_wrong_offset_or_length_is_an_error(tmp_path: Path) -> None:
    packed = gzip.compress(record())
    place = {"url": URL, "warc_filename": NAME, "warc_record_offset": 0, "warc_record_length": len(packed)}
    crawl = archive(tmp_path, packed + gzip.compress(record(url="http://b.test/")))
    assert crawl.read(place).body == b"hello"
    for offset in (1, 7, len(packed) - 1, len(packed), 10**6, 2**62):
        with pytest.raises(nephila.Damaged):
            crawl.read({**place, "warc_record_offset": offset})
    with pytest.raises(nephila.Error):
        crawl.read({**place, "warc_record_offset": -1})
    with pytest.raises(nephila.Damaged, match="ends within"):
        crawl.read({**place, "warc_record_length": 20})


def test_records_after_damage_are_not_made_up(tmp_path: Path) -> None:
    packed = gzip.compress(record())
    crawl = archive(tmp_path, packed + b"garbage" + packed)
    records = crawl.records()
    assert next(records).offset == 0
    with pytest.raises(nephila.Damaged, match=f"offset {len(packed)}"):
        next(records)


@pytest.mark.parametrize("end", [b"", b"\r\n", b"\r\n\r\nmore"])
def test_a_record_ends_where_its_length_says(tmp_path: Path, end: bytes) -> None:
    crawl = archive(tmp_path, gzip.compress(record().removesuffix(b"\r\n\r\n") + end))
    with pytest.raises(nephila.Damaged, match="Content-Length"):
        list(crawl.records())
    with pytest.raises(nephila.Damaged, match="Content-Length"):
        crawl.read(URL)


def peak(call: Callable[[], object]) -> tuple[int, float]:
    """Peak of memory in bytes and seconds of CPU of a call."""
    tracemalloc.start()
    began = time.process_time()
    try:
        call()
    finally:
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return taken, time.process_time() - began


BOMB_BYTES = 256 << 20
LIMIT = 1 << 20


def pieces() -> list[bytes]:
    return [bytes(1 << 20)] * (BOMB_BYTES >> 20)


def bomb(coding: str) -> bytes:
    """A body of some hundred kilobytes that unfolds to 256 MiB of zeros."""
    if coding == "zstd":
        packer = zstd.ZstdCompressor()
        return b"".join(packer.compress(piece) for piece in pieces()) + packer.flush()
    if coding == "br":
        strong = brotli.Compressor(quality=1)
        packed: bytes = b"".join(strong.process(piece) for piece in pieces()) + strong.finish()
        return packed
    bits = {"gzip": 31, "deflate": 15}[coding]
    weak = zlib.compressobj(1, zlib.DEFLATED, bits)
    return b"".join(weak.compress(piece) for piece in pieces()) + weak.flush()


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_body_that_unfolds_without_end_stops_at_the_limit(tmp_path: Path, coding: str) -> None:
    body = bomb(coding)
    assert len(body) < 3 << 20
    crawl = archive(tmp_path, gzip.compress(record(body, f"Content-Encoding: {coding}\r\n"), 1))
    limit = max(LIMIT, len(body))

    def read() -> None:
        capture = crawl.read(URL, body_bytes_max=limit)
        with pytest.raises(nephila.TooLarge, match="body_bytes_max"):
            capture.body  # noqa: B018

    taken, seconds = peak(read)
    assert taken < 8 * limit + (8 << 20), taken
    assert seconds < 10


def test_a_record_that_unfolds_without_end_stops_at_the_limit(tmp_path: Path) -> None:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    packed = packer.compress(head(b"", length=BOMB_BYTES)) + b"".join(packer.compress(piece) for piece in pieces())
    crawl = archive(tmp_path, packed + packer.compress(b"\r\n\r\n") + packer.flush())

    def read() -> None:
        with pytest.raises(nephila.TooLarge):
            crawl.read(URL)

    assert peak(read)[0] < 1 << 20
    # Passed over, the bomb costs time and no memory.
    assert peak(lambda: [r.type for r in crawl.records()])[0] < 4 << 20


def test_a_head_of_zeros_does_not_fill_the_memory(tmp_path: Path) -> None:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    packed = packer.compress(b"WARC/1.1\r\n") + b"".join(packer.compress(piece) for piece in pieces()) + packer.flush()
    crawl = archive(tmp_path, packed)

    def read() -> None:
        with pytest.raises(nephila.TooLarge, match="HEAD_BYTES_MAX"):
            crawl.read(URL)

    assert peak(read)[0] < 2 << 20


@pytest.mark.parametrize(
    ("coding", "body", "error", "text"),
    [
        ("gzip", gzip.compress(LONG)[:-9], nephila.Damaged, "ends within"),
        ("gzip", b"hello", nephila.Damaged, "not gzip"),
        ("gzip", gzip.compress(b"") * 2_000, nephila.TooLarge, "GZIP_MEMBERS_MAX"),
        ("deflate", zlib.compress(LONG)[:-9], nephila.Damaged, "ends within"),
        ("br", brotli.compress(LONG)[:-9], nephila.Damaged, "ends within"),
        ("br", b"\xff\xff\xff", nephila.Damaged, "not br"),
        ("zstd", zstd.compress(LONG)[:-9], nephila.Damaged, "ends within"),
        ("zstd", b"hello", nephila.Damaged, "not zstd"),
        ("gzip, gzip, gzip, gzip, gzip", b"hello", nephila.TooLarge, "CODINGS_MAX"),
        ("rot13", b"hello", nephila.Error, "rot13"),
    ],
)
def test_a_damaged_body_is_an_error(coding: str, body: bytes, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        _decode.decoded(body, _decode.codings_of([coding]), 1 << 20, False)


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(LONG)[:-9]),
        ("deflate", zlib.compress(LONG)[:-9]),
        ("br", brotli.compress(LONG)[:-9]),
        ("zstd", zstd.compress(LONG)[:-9]),
    ],
)
def test_a_capture_that_was_cut_off_has_a_part(tmp_path: Path, coding: str, packed: bytes) -> None:
    fields = f"Content-Encoding: {coding}\r\n"
    crawl = archive(tmp_path, gzip.compress(record(packed, fields, more="WARC-Truncated: length\r\n")))
    assert LONG.startswith(crawl.read(URL).body)


def test_members_and_garbage_behind_a_body_are_as_in_browsers() -> None:
    two = gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0garbage"
    assert _decode.decoded(two, ["gzip"], 100, False) == b"one two"
    assert _decode.decoded(b"", ["gzip"], 100, False) == b""
    with pytest.raises(nephila.TooLarge):
        _decode.decoded(gzip.compress(bytes(101)), ["gzip"], 100, False)
    assert _decode.decoded(gzip.compress(bytes(100)), ["gzip"], 100, False) == bytes(100)


@pytest.mark.parametrize("label", ["zlib", "hex", "punycode", "idna", "unicode_escape", "rot13", "utf-7", "x" * 10_000, "\0"])
def test_a_server_cannot_select_a_codec_that_is_none_of_the_web(label: str) -> None:
    assert _decode.codec(label) is None
    assert _decode.text_of(f"text/html; charset={label}", b"caf\xc3\xa9") == "café"


def test_characters_are_found_as_browsers_do() -> None:
    assert _decode.text_of('text/html; charset="utf-8"', "é".encode()) == "é"
    assert _decode.text_of("text/html; charset=iso-8859-1", b"\x80") == "€"
    assert _decode.text_of("text/html; charset=latin1", "\ufeffé".encode()) == "é"
    assert _decode.text_of(None, '<meta http-equiv=x content="text/html; charset=koi8-r">'.encode() + b"\xc1")[-1] == "а"
    assert _decode.text_of(None, b"\xff\xfea\0") == "a"
    assert _decode.text_of(None, b"\xff") == "\ufffd"


GARBAGE = [
    b"",
    b"\xff\xfe\xfd",
    b"20260101000000 {}",
    b"20260101000000 {",
    b"20260101000000 []",
    b'20260101000000 {"url": 1, "filename": "a", "offset": "0", "length": "1"}',
    b'20260101000000 {"url": "u", "filename": "a", "offset": "-1", "length": "1"}',
    b'20260101000000 {"url": "u", "filename": "a", "offset": -1, "length": 1}',
    b'20260101000000 {"url": "u", "filename": "a", "offset": "1e9", "length": "1"}',
    b'20269901000000 {"url": "u", "filename": "a", "offset": "0", "length": "1"}',
    b'2026 {"url": "u", "filename": "a", "offset": "0", "length": "1"}',
    b"20260101000000 " + b"[" * 100_000,
]


@pytest.mark.parametrize("line", GARBAGE)
def test_a_line_of_garbage_is_an_error(tmp_path: Path, line: bytes) -> None:
    crawl = archive(tmp_path, gzip.compress(record()))
    index = next((tmp_path / "archive").glob("*.cdxj"))
    good = index.read_bytes()
    index.write_bytes(b"test,a)/x " + line + b"\n" + good)
    with pytest.raises(nephila.Damaged, match="no line of a CDXJ index"):
        crawl.read(URL)
    index.write_bytes(b"test,a)/w " + line + b"\n" + good)
    assert crawl.read(URL).body == b"hello", "a line about another URL does not matter"


def test_a_line_without_end_is_an_error(tmp_path: Path) -> None:
    crawl = archive(tmp_path, gzip.compress(record()))
    index = next((tmp_path / "archive").glob("*.cdxj"))
    index.write_bytes(b"test,a)/x " + b"x" * (40 << 20))

    def read() -> None:
        with pytest.raises(nephila.TooLarge, match="LINE_BYTES_MAX"):
            crawl.read(URL)

    assert peak(read)[0] < 4 << 20


def test_names_in_an_index_lead_nowhere_else(tmp_path: Path) -> None:
    crawl = archive(tmp_path, gzip.compress(record()))
    secret = tmp_path / "secret.warc.gz"
    secret.write_bytes(gzip.compress(record(b"secret")))
    place = {"warc_record_offset": 0, "warc_record_length": secret.stat().st_size}
    for name in ("../secret.warc.gz", str(secret), "archive/../../secret.warc.gz", "..\\secret.warc.gz", "", "..", "."):
        with pytest.raises(nephila.Error):
            crawl.read({**place, "warc_filename": name})
    place["warc_record_length"] = 10**6
    assert crawl.read({**place, "warc_filename": f"s3/of/others/{NAME}"}).body == b"hello"


def test_revisits_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    packed, lines = b"", []
    for n in range(2):
        more = f"WARC-Refers-To-Target-URI: http://a.test/{1 - n}\r\nWARC-Refers-To-Date: 2026-01-01T00:00:00Z\r\n"
        member = gzip.compress(head(b"", url=f"http://a.test/{n}", type="revisit", more=more) + b"\r\n\r\n")
        place = {"length": len(member), "offset": len(packed), "name": NAME}
        lines.append(LINE.format(key=f"test,a)/{n}", time="20260101000000", url=f"http://a.test/{n}", **place))
        packed += member
    (tmp_path / "archive" / NAME).write_bytes(packed)
    (tmp_path / "archive" / "x.cdxj").write_text("".join(lines))
    with pytest.raises(nephila.Damaged, match="REVISIT_HOPS_MAX"):
        nephila.open(tmp_path).read("http://a.test/0")


def test_a_revisit_without_its_origin_is_named(tmp_path: Path) -> None:
    more = "WARC-Refers-To-Target-URI: http://lost.test/\r\nWARC-Refers-To-Date: 2026-01-01T00:00:00Z\r\n"
    crawl = archive(tmp_path, gzip.compress(head(b"", type="revisit", more=more) + b"\r\n\r\n"))
    with pytest.raises(nephila.NotFound, match="http://lost.test/"):
        crawl.read(URL)


def test_long_heads_cost_linear_time() -> None:
    def cost(count: int) -> float:
        lines = b"a:b\r\n" * count + b" folded\r\n" * count
        began = time.process_time()
        assert Headers.parse(lines, "latin-1").get("A") == "b"
        return time.process_time() - began

    # Sixteen times the lines; a quadratic parser takes 256 times as long.
    assert cost(80_000) < 80 * max(cost(5_000), 0.005)


class Counted:
    """A file that counts its reads."""

    def __init__(self, file: File) -> None:
        self.file, self.name, self.chunk = file, file.name, file.chunk
        self.reads: list[int] = []

    def size(self) -> int:
        return self.file.size()

    def read_at(self, offset: int, length: int) -> bytes:
        self.reads.append(length)
        return self.file.read_at(offset, length)


def test_an_index_is_bisected(tmp_path: Path) -> None:
    """A search in an index of 25 MB reads some blocks, finds the first and the last line, and all lines of a key."""
    keys = [f"test,a)/{n:06}" for n in range(100_000)]
    path = tmp_path / "index.cdxj"
    fields = json.dumps({"url": "http://a.test/", "filename": "f", "offset": "0", "length": "1", "digest": "z" * 160})
    lines_of = (f"{key} 2026010{day}000000 {fields}\n" for n, key in enumerate(keys) for day in range(1, 2 + n % 2))
    path.write_text("".join(lines_of))
    file = Counted(LocalStorage(str(tmp_path)).open("index.cdxj"))
    assert file.size() > 25_000_000
    reads = file.reads
    for n in (0, 1, 2, *range(3, 99_998, 331), 99_998, 99_999):
        reads.clear()
        lines = list(_index.search(file, f"{keys[n]} ".encode()))
        assert [line.split(b" ")[1][:8] for line in lines] == [b"20260101", b"20260102"][: 1 + n % 2]
        assert sum(reads) < 2_000_000, n
    for missing in ("test,a)/ ", "test,a)/0000005 ", "zzz ", "aaa "):
        assert list(_index.search(file, missing.encode())) == []


def test_limits_have_the_documented_values() -> None:
    assert (nephila.BODY_BYTES_MAX, nephila.HEAD_BYTES_MAX) == (64 << 20, 64 << 10)
    assert (nephila.RECORD_BYTES_MAX, _warc.RECORD_BYTES_MAX) == (16 << 30, 16 << 30)
