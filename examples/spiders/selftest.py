"""Tests the spiders with a small web server and a small node, all on 127.0.0.1.

Run it as: python3 selftest.py [STORE_V1_MD] (the tables are compared with that page if it is given)
"""
import gzip
import http.server
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time

import spider
from spider_tables import OUTCOMES, STATUSES, record

HERE = os.path.dirname(os.path.abspath(__file__))
PAGES = {  # path: status, header fields, body
    "/": (200, {}, b"hello"), "/q?a=1&b": (200, {}, b"query"), "/none": (404, {}, b"no"), "/gone": (410, {}, b""),
    "/moved": (301, {"Location": "/new?x=\xe9 y"}, b""), "/lost": (302, {}, b""),
    "/mail": (302, {"Location": "mailto:a@b"}, b""), "/slow": (200, {}, b"slow"), "/later": (503, {}, b""),
    "/limit": (429, {}, b""), "/odd": (299, {}, b"odd"), "/teapot": (418, {}, b""), "/broken": (500, {}, b""),
    "/gzip": (200, {"Content-Encoding": "gzip"}, gzip.compress(b"packed")),
    "/short": (200, {"Content-Length": "100"}, b"short"), "/big": (200, {}, bytes(spider.BODY_LIMIT + 5)),
    "/same": (304, {}, b""), "/br": (200, {"Content-Encoding": "br"}, b"??"),
}
EXPECTED = {"/": ("ok", 200), "/q?a=1&b": ("ok", 200), "/none": ("not-found", 404), "/gone": ("gone", 410),
            "/moved": ("redirect", 301), "/lost": ("redirect-bad-location", 302), "/mail": ("redirect-scheme", 302),
            "/slow": ("ok", 200), "/later": ("unavailable", 503), "/limit": ("rate-limited", 429), "/odd": ("ok", 255),
            "/teapot": ("client-error", 418), "/broken": ("server-error", 500), "/gzip": ("ok", 200),
            "/short": ("cut-disconnect", 200), "/big": ("cut-length", 200), "/same": ("unexpected-not-modified", 304),
            "/br": ("decode-chain", 200)}
SEEN = []  # the header fields of every request


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        SEEN.append(self.headers)
        if self.path == "/slow":
            time.sleep(3.3)
        status, headers, body = PAGES[self.path]
        self.send_response(status)
        for name, value in ({} if status == 304 else {"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass  # the spider stops at its limit

    def log_message(self, *_):
        pass


def check(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"FAIL {what}: {got!r}, not {wanted!r}")
    print("ok  ", what)


def listener():
    return socket.create_server(("127.0.0.1", 0))


def free_port():
    with listener() as sock:
        return sock.getsockname()[1]


def read_record(stream):
    head = stream.read(20)
    doc, success, specific, http_number, zero, ms, *lengths = struct.unpack(">I4BIHHI", head)
    url, new_url, data = (stream.read(length) for length in lengths)
    assert zero == 0 and success == (specific < 5)
    status = 255 if http_number == 255 else STATUSES[http_number]
    return doc, (OUTCOMES[specific], status), ms, url.decode(), new_url.decode(), data


def raw_server(answer, hold=0.0):
    """A server that takes one connection, sends these bytes, waits and closes. Returns its port."""
    def run():
        with sock, sock.accept()[0] as peer:
            peer.recv(65536)
            peer.sendall(answer)
            time.sleep(hold)
    sock = listener()
    threading.Thread(target=run, daemon=True).start()
    return sock.getsockname()[1]


def outcome(url):
    return OUTCOMES[spider.Fetch("127.0.0.1", url, "test").run(1)[5]]


def test_tables(page):
    golden = "00000007 01 00 05 00 0000002A 0009 0000 00000002 687474703A2F2F612F 6869"
    check("golden record", record(7, "ok", 200, 42, "http://a/", "", b"hi"), bytes.fromhex(golden))
    check("other status", record(1, "ok", 299, 0, "http://a/")[6], 255)
    check("no status", record(1, "reset", None, 0, "http://a/")[4:7], bytes([0, OUTCOMES.index("reset"), 0]))
    if page:
        text = open(page, encoding="utf-8").read()
        rows = re.findall(r"^\| (\d+) \| `([a-z0-9-]+)` \| ([01]) \|$", text, re.M)
        check("outcomes of the page", rows, [(str(n), o, str(int(n < 5))) for n, o in enumerate(OUTCOMES)])
        rows = re.findall(r"^\| (\d+) \| (\d{3}) \|$", text, re.M)
        check("statuses of the page", rows, [(str(n), str(s)) for n, s in enumerate(STATUSES) if s])


def test_errors():
    cases = {"empty-reply": b"", "bad-status-line": b"SSH-2.0-x\r\n",
             "head-too-large": b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70000,
             "cut-disconnect": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
             "ok": b"HTTP/1.0 200 OK\r\n\r\nuntil the end"}
    for wanted, answer in cases.items():
        check("fetch " + wanted, outcome(f"http://a.test:{raw_server(answer)}/"), wanted)
    check("fetch tls-protocol", outcome(f"https://a.test:{raw_server(b'not TLS at all')}/"), "tls-protocol")
    check("fetch tls-closed", outcome(f"https://a.test:{raw_server(b'')}/") in ("tls-closed", "reset"), True)
    check("fetch url-scheme", outcome("ftp://a.test/"), "url-scheme")
    check("fetch url-bad", outcome("http://a.test:x/"), "url-bad")
    spider.STEP_SECONDS = 0.5
    check("fetch head-timeout", outcome(f"http://a.test:{raw_server(b'HTTP/1.1 200', 2)}/"), "head-timeout")
    check("fetch tls-timeout", outcome(f"https://a.test:{raw_server(b'', 2)}/"), "tls-timeout")
    slow_body = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"
    check("fetch read-timeout", outcome(f"http://a.test:{raw_server(slow_body, 2)}/"), "read-timeout")
    spider.STEP_SECONDS, spider.TOTAL_SECONDS = 30, 0.5
    check("fetch total-timeout, body", outcome(f"http://a.test:{raw_server(slow_body, 5)}/"), "total-timeout")
    check("fetch total-timeout, head", outcome(f"http://a.test:{raw_server(b'', 5)}/"), "total-timeout")
    check("fetch total-timeout, TLS", outcome(f"https://a.test:{raw_server(b'', 5)}/"), "total-timeout")
    spider.TOTAL_SECONDS = 120


class Node:
    """One spider process with its control and store connections, seen from the node."""

    def __init__(self, dialect):
        self.push, self.store_listener, self.node_listener = dialect == "push", listener(), listener()
        self.port = free_port() if self.push else self.node_listener.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, f"spider_{dialect}.py"), f"127.0.0.1:{self.port}",
             "127.0.0.1:%d" % self.store_listener.getsockname()[1], "self-test/1"],
            env=dict(os.environ, SPIDER_UPDATE_SECONDS="1"), stderr=subprocess.DEVNULL)

    def connect(self):
        for _ in range(50):
            try:
                self.control = (socket.create_connection(("127.0.0.1", self.port), 10) if self.push
                                else self.node_listener.accept()[0])
                break
            except OSError:
                time.sleep(0.1)
        self.lines = self.control.makefile("rb")
        if not self.push:
            check("first line", self.lines.readline(), b"GET 16\n")

    def send(self, trans, doc, url):
        host = "" if self.push else re.match("http://([^:/]+)", url)[1] + " "
        self.control.sendall(f"{trans} {doc} 127.0.0.1 {host}{url}\n".encode())

    def form(self, trans, word):
        return (f"{trans} {word}\n" if self.push else f"{word} {trans}\n").encode()

    def accept_store(self):
        self.store = self.store_listener.accept()[0]
        self.records = self.store.makefile("rb")


def test_dialect(dialect, web):
    print("--", dialect)
    base, node = f"http://a.test:{web}", Node(dialect)
    try:
        node.connect()
        expected = dict(EXPECTED, **{"refused": ("connect-refused", None)})
        urls = [base + path if path[0] == "/" else f"http://r.test:{free_port()}/" for path in expected]
        for number, url in enumerate(urls):
            node.send(2 ** 63 + number, 2 ** 32 - 1 - number, url)
        node.accept_store()
        got = {}
        for _ in urls:
            doc, result, ms, *rest = read_record(node.records)
            got[doc] = result, ms, *rest
        for number, (path, wanted) in enumerate(expected.items()):
            result, ms, url, new_url, data = got[2 ** 32 - 1 - number]
            check(path, (result, url), (wanted, urls[number]))
            wanted_new_url = base + "/new?x=%E9%20y" if path == "/moved" else ""
            check(path + " new_url", new_url, wanted_new_url)
            body = {"/gzip": b"packed", "/br": b""}.get(path, PAGES.get(path, (0, 0, b""))[2])
            check(path + " data", data == body[:spider.BODY_LIMIT], True)
            check(path + " ms", (ms >= 3000) == (path == "/slow"), True)
        said, asked = [], 0 if node.push else len(urls)
        while sum(b"DONE" in line for line in said) < len(urls) or said.count(b"GET 1\n") < asked:
            said.append(node.lines.readline())
            if not said[-1]:
                break
        for number, path in enumerate(expected):
            # One each second: three for /slow, and none for the others unless the machine is busy.
            times, ms = said.count(node.form(2 ** 63 + number, "WORKING")), got[2 ** 32 - 1 - number][1]
            least = (ms - 300) // 1000 if path == "/slow" else 0
            check(f"{path} WORKING {times} times in {ms} ms", least <= times <= ms // 1000, True)
        check("DONE for each", sorted(line for line in said if b"DONE" in line),
              sorted(node.form(2 ** 63 + number, "DONE") for number in range(len(urls))))
        check("GET for each", said.count(b"GET 1\n"), 0 if node.push else len(urls))
        check("header fields", [(SEEN[0][name]) for name in ("Host", "User-Agent", "Accept-Encoding", "Connection")],
              [f"a.test:{web}", "self-test/1", "identity", "close"])
        check("number of header fields", len(SEEN[0]), 4)

        node.control.sendall(b"not a line\n")
        node.send(5, 5, base + "/slow")
        time.sleep(0.5)
        node.lines.close()
        node.control.close()
        node.connect()
        node.send(6, 6, base + "/")
        check("after the restart", node.lines.readline(), node.form(6, "DONE"))
        check("record after the restart", read_record(node.records)[0], 6)
        check("record of the fetch that was under way", read_record(node.records)[:2], (5, ("ok", 200)))

        node.records.close()
        node.store.close()
        node.send(7, 7, base + "/")
        node.accept_store()
        check("record on a new store connection", read_record(node.records)[:2], (7, ("ok", 200)))
    finally:
        node.process.terminate()
        node.process.wait()


def main(page=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    test_tables(page)
    test_errors()
    for dialect in ("push", "pull"):
        SEEN.clear()
        test_dialect(dialect, server.server_port)
    print("all well")


if __name__ == "__main__":
    main(*sys.argv[1:])
