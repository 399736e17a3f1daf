"""Mutated inputs from a seed: whatever the bytes are, the result is a value or a `nephila.Error`, and nothing else."""

from __future__ import annotations

import gzip
import io
import random
import zlib

import brotli
import pytest
from backports import zstd
from test_hostile import record

import nephila
from nephila import _decode, _index, _warc

ROUNDS = 1_500
BODY = b"<html><meta charset=latin1>" + bytes(range(256)) * 8


def mutated(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(out) + 1)
        match chance.randrange(4):
            case 0:
                out[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del out[at : at + chance.randint(1, 40)]
            case 2:
                out[at:at] = out[: chance.randint(1, 40)]
            case _:
                out[at : at + 1] = chance.choice([b"\r\n\r\n", b"\0", b"-1", b"99999999999", b":", b"WARC/1.1", b"\x1f\x8b\x08"])
    return bytes(out)


def read_all(data: bytes) -> int:
    reader = _warc.Reader(io.BytesIO(data).read)
    count = 0
    while (one := reader.next()) is not None:
        capture = nephila.capture_of(one, 1 << 20)
        assert len(capture.body) <= 1 << 20
        assert isinstance(capture.text, str)
        count += 1
    return count


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress, bytes], ids=["gzip", "zstd", "plain"])
def test_records(pack: object) -> None:
    assert callable(pack)
    chance = random.Random(1)
    one = record(gzip.compress(BODY), "Content-Encoding: gzip\r\n")
    assert read_all(pack(one) + pack(one)) == 2
    whole = errors = 0
    for _ in range(ROUNDS):
        # The damage is below the compression or above.
        data = pack(mutated(one, chance)) + pack(one) if chance.random() < 0.5 else mutated(pack(one) + pack(one), chance)
        try:
            read_all(data)
            whole += 1
        except nephila.Error as error:
            assert str(error)
            errors += 1
    assert whole > 10 and errors > ROUNDS // 2, (whole, errors)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_bodies(coding: str) -> None:
    chance = random.Random(2)
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress}[coding]
    good = pack(BODY)
    errors = 0
    for _ in range(ROUNDS):
        data = mutated(good, chance)
        try:
            assert len(_decode.decoded(data, [coding], 100_000, False)) <= 100_000
        except nephila.Error:
            errors += 1
        # A body that was cut off gives a part, or exceeds the limit.
        try:
            assert len(_decode.decoded(data, [coding], 100_000, True)) <= 100_000
        except nephila.TooLarge:
            pass
    assert errors > ROUNDS // 3, errors


def test_lines() -> None:
    chance = random.Random(3)
    line = b'test,a)/x 20260101000000 {"url": "http://a.test/x", "status": "200", "length": "1", "offset": "2", "filename": "f"}'
    assert _index.parse(line, "").offset == 2
    errors = 0
    for _ in range(ROUNDS):
        try:
            place = _index.parse(mutated(line, chance), "x.cdxj")
            assert place.offset >= 0 and place.length >= 0
        except nephila.Damaged as error:
            assert "x.cdxj" in str(error)
            errors += 1
    assert errors > ROUNDS // 2, errors


def test_keys() -> None:
    chance = random.Random(4)
    url = "http://www.exämple.com:8080/a/../b;c/(S(abcdefghijklmnopqrstuvwx))/p.aspx?b=2&a=%41&sid=0123456789abcdef0123456789ABCDEF#f"
    for _ in range(ROUNDS):
        text = mutated(url.encode(), chance).decode("utf-8", "surrogateescape")
        key = nephila.surt(text)
        assert isinstance(key, str) and len(key) < 10 * len(text) + 100
