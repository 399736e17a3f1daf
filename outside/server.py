"""Serves the web on loopback: `server.py FOLDER JSON` makes the web of these arguments, prints its ports, and ends with
its standard input.

Every live address is bound by itself; an address of a name where nobody listens refuses, one with a full backlog is
silent, and one that a crawler must not dial notes whoever does. The journal goes by the monotonic clock. An end is noted
before the last write and a start after the head was read, so a gap in it is never shorter than the one the client kept.
"""

import asyncio
import collections
import gc
import json
import pathlib
import random
import socket
import sys
import time

import pages
from authority import Authority
from graph import PASSING, Web
from names import Resolver

REASONS = {200: "OK", 204: "No Content", 404: "Not Found", 410: "Gone", 403: "Forbidden", 500: "Internal Server Error",
           503: "Service Unavailable", 429: "Too Many Requests"}
# What a busy site asks for, in seconds.
RETRY_AFTER = 3
SLOW_S = 0.8
FLUSH_S = 0.2
HEAD_MAX = 65536
BODIES_KEPT_MAX = 4000
now = time.monotonic


class Journal:
    """Lines of JSON, written a few times a second."""

    def __init__(self, path):
        self.file, self.lines = open(path, "a", encoding="utf-8"), []

    def note(self, **fields):
        self.lines.append(json.dumps(fields))

    def flush(self):
        if self.lines:
            self.file.write("\n".join(self.lines) + "\n")
            self.file.flush()
            self.lines.clear()


class Site:
    """What all connections share."""

    def __init__(self, web, journal):
        self.web, self.journal = web, journal
        self.asked = collections.Counter()
        self.bodies, self.dropped = {}, set()
        self.connections = 0

    def body(self, page):
        """A coded body, kept if it is small."""
        key = (page.origin, page.path)
        if key not in self.bodies:
            data = pages.coded(page, pages.body(self.web, page))
            if len(data) > 100_000 or len(self.bodies) >= BODIES_KEPT_MAX:
                return data
            self.bodies[key] = data
        return self.bodies[key]


class Connection(asyncio.Protocol):
    """One connection: reads heads, one at a time, and answers as its page is meant to."""

    def __init__(self, site, scheme):
        self.site, self.scheme = site, scheme
        self.data, self.request, self.served, self.is_lost = b"", None, 0, False

    def connection_made(self, transport):
        self.transport = transport
        self.ip = transport.get_extra_info("sockname")[0]
        self.site.connections += 1
        self.number = self.site.connections
        self.opened = now()
        self.site.journal.note(open=self.number, at=self.opened, ip=self.ip)

    def connection_lost(self, _):
        self.is_lost = True
        if self.request:
            self.end(is_whole=False)
        self.site.journal.note(close=self.number, at=now())

    def data_received(self, data):
        self.data += data
        if len(self.data) > HEAD_MAX:
            self.transport.abort()
        elif self.request is None:
            self.next()

    def next(self):
        """Takes the next request, if it is there."""
        head, mark, rest = self.data.partition(b"\r\n\r\n")
        if not mark or self.is_lost:
            return
        self.data = rest
        started = now() if self.served else self.opened
        self.served += 1
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = (lines[0].split(" ", 2) + ["", ""])[:3]
        fields = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            fields[name.strip().lower()] = value.strip()
        origin = f"{self.scheme}://{fields.get('host', '')}"
        self.request = {
            "request": self.number, "first": self.served == 1, "start": started, "read": now(), "end": None, "ip": self.ip,
            "origin": origin, "method": method, "path": path, "status": None, "whole": False, "kind": None,
            "from": fields.get("from"), "agent": fields.get("user-agent"),
        }
        try:
            self.answer(origin, path)
        except Exception as error:  # A fault of the judge must not look like one of the crawler.
            self.site.journal.note(fault=repr(error), url=origin + path)
            self.transport.abort()

    def answer(self, origin, path):
        web, request = self.site.web, self.request
        count = self.site.asked[(origin, path)]
        self.site.asked[(origin, path)] += 1
        host = web.hosts.get(origin)
        if host is None or self.ip not in web.live[origin]:
            request["kind"] = "misdirected"
            return self.send(421, [], b"not here")
        if path == "/robots.txt":
            return self.robots(host, count)
        if path.startswith("/robots-of/"):
            other = next((other for other in web.hosts.values() if other.name == path[11:]), None)
            request.update(kind="robots-of", version=0)
            return self.send(200, [("Content-Type", "text/plain")], web.robots_text(other, 0).encode())
        if path.startswith("/sitemap") and host.sitemap:
            request["kind"] = "sitemap"
            kind = "application/gzip" if path.endswith(".gz") else "application/xml"
            return self.send(200, [("Content-Type", kind)], pages.sitemap(web, host, path))
        page = host.pages.get(path)
        if page is None:
            request["kind"] = "unknown"
            return self.send(404, [("Content-Type", "text/html")], b"<h1>?</h1>")
        self.page(page, count)

    def robots(self, host, count):
        request, kind = self.request, host.robots
        request.update(kind="robots", version=count)
        text = [("Content-Type", "text/plain"), ("Cache-Control", "max-age=0")]
        if kind in ("404", "403"):
            return self.send(int(kind), text, b"nothing")
        if kind == "500-twice" and count < 2:
            return self.send(500, text, b"broken")
        if kind == "moved" and host.robots_from:
            return self.send(301, [("Location", f"{host.robots_from}/robots-of/{host.name}")], b"")
        if kind == "html":
            text[0] = ("Content-Type", "text/html")
        data = self.site.web.robots_text(host, count).encode()
        if kind == "slow":
            return self.later(SLOW_S, lambda: self.send(200, text, data))
        self.send(200, text, data)

    def page(self, page, count):
        """Answers as the kind of the page says."""
        request, kind = self.request, page.kind
        request["kind"] = kind
        html = [("Content-Type", "text/html")]
        if kind in ("404", "410", "403", "500"):
            return self.send(int(kind), html, f"<p>{kind} {page.path}".encode())
        if kind == "drop" and self.drops(page):
            # Read, and dropped without a word, by an end or by a reset: what a server does that cannot bear more.
            self.end(is_whole=False)
            return self.transport.abort() if page.status % 3 == 0 else self.transport.close()
        if kind in PASSING and count == 0:
            if kind in ("503", "429"):
                return self.send(int(kind), [("Retry-After", str(RETRY_AFTER))], b"later")
            if kind == "503-bare":
                return self.send(503, [], b"later")
        if page.target and kind.startswith("r-"):
            origin, path = page.target
            location = path if origin == page.origin and page.status % 2 else origin + path
            return self.send(page.status, [("Location", location)], b"moved")
        data = self.site.body(page)
        kinds = {"binary": "image/png", "text": "text/plain; charset=utf-8"}
        type_of = kinds.get(kind, "text/html" + ("; charset=utf-16" if page.charset == "utf-16" else ""))
        fields = [("Content-Type", type_of)]
        if page.coding:
            fields.append(("Content-Encoding", page.coding))
        if kind == "nofollow-field":
            fields.append(("X-Robots-Tag", "nofollow"))
        if "link-field" in page.flags:
            fields.append(("Link", f'<{page.target[0]}{page.target[1]}>; rel="next"'))
        if kind == "cut" and count == 0:
            request["status"] = 200
            self.transport.write(self.head(200, fields, len(data)) + data[:len(data) // 2])
            self.end(is_whole=False)
            return self.transport.close()
        if kind == "broken":
            request["status"] = 200
            self.end(is_whole=False)
            self.transport.write(self.head(200, fields + [("Transfer-Encoding", "chunked")], None) + b"zz\r\nno length\r\n")
            return self.transport.close()
        if kind == "closed":
            return self.send(200, fields, data, is_measured=False)
        if kind == "empty":
            return self.send(204, [], b"")
        if kind == "early":
            self.transport.write(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")
        if kind == "slow":
            return self.later(SLOW_S, lambda: self.send(200, fields, data))
        if kind == "dribble":
            return self.dribble(fields, data, 0)
        self.send(200, fields, data, is_chunked="chunked" in page.flags, is_last="close" in page.flags)

    def drops(self, page):
        """Once for each page; most of them on a connection that was kept, where a client may think that it just closed."""
        is_due = (page.origin, page.path) not in self.site.dropped and (self.served > 1 or page.status % 3 == 0)
        if is_due:
            self.site.dropped.add((page.origin, page.path))
        return is_due

    def head(self, status, fields, length, is_last=False):
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Moved')}"] + [f"{name}: {value}" for name, value in fields]
        if length is not None and status != 204:
            lines.append(f"Content-Length: {length}")
        if is_last:
            lines.append("Connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def send(self, status, fields, data, is_measured=True, is_chunked=False, is_last=False):
        """A whole answer at once."""
        if self.is_lost:
            return
        self.request["status"] = status
        if not is_measured:
            is_last, out = True, self.head(status, fields, None, True) + data
        elif is_chunked and status == 200:
            cuts = [data[at:at + 1000] for at in range(0, len(data), 1000)]
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(cut), cut) for cut in cuts)
            out = self.head(status, fields + [("Transfer-Encoding", "chunked")], None, is_last) + chunks + b"0\r\n\r\n"
        else:
            out = self.head(status, fields, len(data), is_last) + data
        self.end(is_whole=True)
        self.transport.write(out)
        self.after(is_last)

    def dribble(self, fields, data, step):
        """A body in four parts."""
        if self.is_lost:
            return
        if step == 0:
            self.request["status"] = 200
            self.transport.write(self.head(200, fields, len(data)))
        size = len(data) // 4 + 1
        if step == 3:
            self.end(is_whole=True)
        self.transport.write(data[step * size:(step + 1) * size])
        if step < 3:
            self.later(0.2, lambda: self.dribble(fields, data, step + 1))
        else:
            self.after(False)

    def later(self, seconds, act):
        asyncio.get_running_loop().call_later(seconds, lambda: None if self.is_lost else act())

    def end(self, is_whole):
        self.request["end"] = now()
        self.request["whole"] = is_whole
        self.site.journal.note(**self.request)
        self.request = None

    def after(self, is_last):
        if is_last:
            self.transport.close()
        elif self.data:
            asyncio.get_running_loop().call_soon(self.next)


class Forbidden(asyncio.Protocol):
    """An address that a crawler must not dial."""

    def __init__(self, site):
        self.site = site

    def connection_made(self, transport):
        self.site.journal.note(forbidden=transport.get_extra_info("sockname")[0], at=now())
        transport.abort()


def listen(address, port):
    """A bound socket that listens."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((address, port))
    bound.listen(512)
    bound.setblocking(False)
    return bound


def silence(address, port):
    """An address that takes no connection and refuses none: its backlog is full, so the kernel drops what comes."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((address, port))
    bound.listen(0)
    held = [bound]
    for _ in range(4):
        fill = socket.socket()
        fill.setblocking(False)
        fill.connect_ex((address, port))
        held.append(fill)
    return held


def make(arguments):
    """The web of these arguments, on ports that are free at all its addresses, with sockets bound there."""
    choose = random.SystemRandom()
    for _ in range(50):
        ports = choose.sample(range(20000, 32000), 3)
        web = Web(ports=ports, **arguments)
        sockets = []
        try:
            sockets = [(port, listen(address, port)) for address, port in web.addresses()]
            return web, sockets
        except OSError:
            for _, bound in sockets:
                bound.close()
    raise SystemExit("no free ports")


async def serve(folder, arguments):
    web, sockets = make(arguments)
    journal = Journal(folder / "journal.jsonl")
    site = Site(web, journal)
    authority = Authority(folder)
    loop = asyncio.get_running_loop()
    secure = authority.listening()
    for port, bound in sockets:
        is_tls = port == web.ports_tls
        scheme = "https" if is_tls else "http"
        await loop.create_server(lambda scheme=scheme: Connection(site, scheme), sock=bound, ssl=secure if is_tls else None)
    for address, port in sorted(web.private):
        await loop.create_server(lambda: Forbidden(site), sock=listen(address, port))
    held = [silence(address, port) for address, port in sorted(web.silent)]
    turning = [host.name for host in web.hosts.values() if host.place == "two"]
    transport, resolver = await loop.create_datagram_endpoint(
        lambda: Resolver(web.names, web.aliases, turning), local_addr=("127.0.0.1", 0))
    ready = {"ports": [web.port, web.port4, web.ports_tls], "dns": transport.get_extra_info("sockname")[1],
             "ca": str(authority.ca_file)}
    journal.note(began=now(), wall=time.time())
    print(json.dumps(ready), flush=True)
    gc.freeze()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), lambda: ended.set() if not sys.stdin.buffer.read1(1) else None)
    last = now()
    while not ended.is_set():
        try:
            await asyncio.wait_for(ended.wait(), FLUSH_S)
        except asyncio.TimeoutError:
            pass
        if now() - last > FLUSH_S + 0.3:
            journal.note(lag=now() - last - FLUSH_S, at=now())
        last = now()
        journal.flush()
    journal.note(asked=resolver.asked, held=len(held))
    journal.flush()


if __name__ == "__main__":
    asyncio.run(serve(pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])))
