"""The fetch of one URL from one address, for spider_push.py and spider_pull.py, which import it. Not run by itself."""
import contextlib
import http.client
import socket
import ssl
import threading
import time
import zlib
from urllib.parse import quote, urljoin, urlsplit

from spider_tables import outcome_of_error, outcome_of_status, record

BODY_LIMIT, STEP_SECONDS, TOTAL_SECONDS = 10 * 1024 * 1024, 30, 120
TLS = ssl.create_default_context()


class Fetch:
    """One request. run() returns its record, whatever happens."""

    def __init__(self, ip, url, agent):
        self.ip, self.url, self.agent, self.sock, self.late = ip, url, agent, None, False
        self.stage, self.status, self.new_url, self.data = "connect", None, "", b""

    def run(self, doc):
        start, timer = time.monotonic(), threading.Timer(TOTAL_SECONDS, self.give_up)
        timer.daemon = True
        timer.start()
        try:
            outcome = self.ask(urlsplit(self.url))
        except Exception as error:
            outcome = "total-timeout" if self.late else outcome_of_error(error, self.stage)
        timer.cancel()
        ms = int((time.monotonic() - start) * 1000)
        return record(doc, outcome, self.status, ms, self.url, self.new_url, self.data)

    def give_up(self):
        self.late = True
        with contextlib.suppress(OSError, TypeError):  # TypeError: no socket yet
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # wakes the reader, below TLS as well

    def ask(self, parts):
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return "url-bad-host" if parts.scheme in ("http", "https") else "url-scheme"
        default = 443 if parts.scheme == "https" else 80
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        host += f":{parts.port}" if parts.port not in (None, default) else ""
        target = self.url[len(parts.scheme) + 3 + len(parts.netloc):].partition("#")[0]
        self.sock = socket.create_connection((self.ip, parts.port or default), STEP_SECONDS)
        if parts.scheme == "https":
            self.stage = "tls"
            self.sock = TLS.wrap_socket(self.sock, server_hostname=parts.hostname, do_handshake_on_connect=False)
            self.sock.do_handshake()
        with self.sock:
            self.stage, connection = "write", http.client.HTTPConnection(self.ip)
            connection.sock = self.sock
            connection.request("GET", target if target.startswith("/") else "/" + target, headers={
                "Host": host, "User-Agent": self.agent, "Accept-Encoding": "identity", "Connection": "close"})
            self.stage = "head"
            response = connection.getresponse()
            self.stage, self.status = "read", response.status
            body_outcome = self.read(response)
        outcome = outcome_of_status(self.status)
        if outcome == "redirect":
            return self.redirect(response.getheader("Location", "").strip())
        return body_outcome if outcome == "ok" else outcome

    def read(self, response):
        """Read the body, undo its coding, and name the outcome that this means for a status of 2xx."""
        outcome, raw, coding = "ok", bytearray(), response.getheader("Content-Encoding", "identity").strip().lower()
        try:
            while len(raw) <= BODY_LIMIT and (part := response.read(65536)):
                raw += part
            if response.length and len(raw) <= BODY_LIMIT:  # the end came too early
                outcome = "cut-disconnect"
        except http.client.IncompleteRead as error:
            outcome, raw = "cut-disconnect", raw + error.partial
        except OSError as error:
            outcome = "read-timeout" if isinstance(error, TimeoutError) else "cut-disconnect"
        plain = raw if coding in ("", "identity") else None
        for bits in (47, -15) if coding in ("gzip", "x-gzip", "deflate") else ():  # with a head, or bare deflate
            with contextlib.suppress(zlib.error):
                plain = plain or zlib.decompressobj(bits).decompress(raw, BODY_LIMIT + 1)
        self.data = bytes((plain or b"")[:BODY_LIMIT])
        if self.late or plain is None:
            return "total-timeout" if self.late else "decode-chain"
        return "cut-length" if max(len(raw), len(plain)) > BODY_LIMIT else outcome

    def redirect(self, location):
        """Name the outcome of a redirect, and keep its target if it is a URL that can be asked for."""
        try:
            target = urljoin(self.url, quote(location.encode("latin-1"), "!#$%&'()*+,/:;=?@[]~"))
            parts = urlsplit(target)
        except ValueError:
            return "redirect-bad-location"
        if location and parts.scheme not in ("http", "https"):
            return "redirect-scheme"
        if not location or not parts.hostname or len(target) > 8192:
            return "redirect-bad-location"
        self.new_url = target
        return "redirect"
