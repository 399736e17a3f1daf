"""Programs and a small web for the tests. Everything is on loopback; only own processes are ended, by their ids."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import signal
import socket
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import brotli
from backports import zstd

WAIT_S = 90


def program(variable: str) -> str:
    """Return the path of a program from the environment."""
    path = os.environ.get(variable, "")
    assert os.access(path, os.X_OK), f"{variable} must name a program: the tests run against the real one"
    return path


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def wait_for(what: str, is_so: Callable[[], Any], seconds: float = WAIT_S) -> Any:
    end = time.monotonic() + seconds
    while True:
        result = is_so()
        if result:
            return result
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.1)


@contextmanager
def running(command: list[str], log: Path, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block."""
    with log.open("wb") as out:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}
        )
        try:
            yield child
        finally:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(40)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def nephila(*args: str, ok: tuple[int, ...] = (0,)) -> str:
    """Run a command of nephila to its end; returns its output."""
    done = subprocess.run([program("NEPHILA_BINARY"), *args], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode in ok, f"nephila {' '.join(args)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def testweb(*options: str) -> Iterator[dict[str, Any]]:
    """Run the test web; yields its addresses."""
    command = [program("NEPHILA_TESTWEB"), "serve", "--no-journal", "--threads", "1", *options]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout and child.stdin
    try:
        yield json.loads(child.stdout.readline())
    finally:
        child.stdin.close()
        child.wait(20)
        child.stdout.close()


def settings(**values: Any) -> list[str]:
    """Return `--set` options. A name is written with two underscores for the dot."""
    pairs = ((name.replace("__", "."), value) for name, value in values.items())
    return [part for name, value in pairs for part in ("--set", f"{name}={json.dumps(value)}")]


LONG = "The loom of the orb weaver is described here at some length. " * 40


def page(title: str, text: str, head: str = "") -> bytes:
    body = f"<article><h1>{title}</h1><p>{text}</p><p>{LONG}</p></article>"
    return f"<!doctype html><html><head><title>{title}</title>{head}</head><body>{body}</body></html>".encode()


#: Path: status, header fields, body as sent, body without codings.
Answer = tuple[int, dict[str, str], bytes, bytes]


def _coded(title: str, coding: str, pack: Callable[[bytes], bytes]) -> Answer:
    body = page(title, f"A page in {title}.")
    return 200, {"Content-Type": "text/html; charset=utf-8", "Content-Encoding": coding}, pack(body), body


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def plain(title: str, head: str = "", **fields: str) -> Answer:
    body = page(title, f"This page is about {title}.", head)
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return 200, {"Content-Type": "text/html", **named}, body, body


_LATIN = "<html><head><meta charset=iso-8859-1><title>Grüße</title></head><body>Größe €</body></html>".encode("cp1252")
_JAPANESE = "<html><body>蜘蛛の巣</body></html>".encode("shift_jis")
_HOME = b"".join(
    f'<a href="{path}">{path}</a> '.encode()
    for path in (
        "/gzip /deflate /raw-deflate /br /zstd /twice /latin /japanese /same-1 /same-2 /tagged /train-no /train-yes "
        "/noai /tdm-no /search-no /said-nothing /gone /moved /empty"
    ).split()
)

SITE: dict[str, Answer] = {
    "/": (200, {"Content-Type": "text/html; charset=utf-8"}, b"<title>Home</title>" + _HOME, b"<title>Home</title>" + _HOME),
    "/robots.txt": (200, {"Content-Type": "text/plain"}, b"User-agent: *\nAllow: /\n", b"User-agent: *\nAllow: /\n"),
    "/gzip": _coded("gzip", "gzip", gzip.compress),
    "/deflate": _coded("deflate", "deflate", zlib.compress),
    "/raw-deflate": _coded("raw deflate", "deflate", _raw_deflate),
    "/br": _coded("br", "br", brotli.compress),
    "/zstd": _coded("zstd", "zstd", zstd.compress),
    "/twice": _coded("twice", "deflate, gzip", lambda body: gzip.compress(zlib.compress(body))),
    "/latin": (200, {"Content-Type": "text/html"}, _LATIN, _LATIN),
    "/japanese": (200, {"Content-Type": "text/html; charset=Shift_JIS"}, _JAPANESE, _JAPANESE),
    "/same-1": plain("same"),
    "/same-2": plain("same"),
    "/tagged": plain("tagged", ETag='"1"'),
    "/train-no": plain("train no", Content_Usage="train-ai=n"),
    "/train-yes": plain("train yes", Content_Usage="train-ai=y"),
    "/noai": plain("noai", head='<meta name="robots" content="noai">'),
    "/tdm-no": plain("tdm no", TDM_Reservation="1"),
    "/search-no": plain("search no", Content_Usage="search=n"),
    "/said-nothing": plain("said nothing"),
    "/gone": (404, {"Content-Type": "text/plain"}, b"gone", b"gone"),
    "/moved": (301, {"Location": "/gzip", "Content-Type": "text/plain"}, b"moved", b"moved"),
    "/empty": (200, {"Content-Type": "text/html"}, b"", b""),
}


#: Paths that were asked for.
ASKED: list[str] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        ASKED.append(self.path)
        status, fields, body, _ = SITE.get(self.path, (404, {"Content-Type": "text/plain"}, b"none", b"none"))
        tag = fields.get("ETag")
        if tag and self.headers.get("If-None-Match") == tag:
            status, body = 304, b""
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def small_site() -> Iterator[str]:
    """Serve `SITE`; yields its URL without the last slash."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
