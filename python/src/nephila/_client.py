"""Client of the HTTP API of a node, of `nephila serve` or of a running crawl.

Answers are dictionaries as the node sends them; fields that are empty are left out, and new fields may come.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict, cast

from ._capture import HTTP_HEAD_BYTES_MAX, Capture, split
from ._decode import BODY_BYTES_MAX
from ._error import ApiError, Damaged, Error, TooLarge, Unreachable
from ._index import digits_of, time_of

#: Limit of an answer in bytes.
ANSWER_BYTES_MAX = 128 << 20
#: Limit of the body of a request in bytes. More URLs are sent in several requests.
REQUEST_BYTES_MAX = 4 << 20

#: A kind of event.
Kind = Literal[
    "fetched", "changed", "unchanged", "retry", "failed", "refused", "postponed", "story", "polled", "feed-silent",
    "robots", "host-found", "host-paused", "host-stopped", "host-resumed", "host-delay", "job", "job-removed",
    "streamed", "gap",
]  # fmt: skip


class Refused(TypedDict):
    """A URL that was not taken."""

    url: str
    why: str


class Added(TypedDict):
    """The result of `Client.add`."""

    taken: int
    refused: int
    #: The first hundred of each request.
    refusals: list[Refused]


class Robots(TypedDict, total=False):
    """The robots.txt of a host."""

    policy: str
    #: Number and text of the line that forbids the URL.
    rule: list[Any]
    unread: str
    unread_since: str
    fetched: str
    expires: str
    crawl_delay_ms: int


class _HostAlways(TypedDict):
    origin: str
    waiting: int
    parked: int
    later: int
    ended: int
    failures: int
    found: str
    robots: Robots


class Host(_HostAlways, total=False):
    """The state of a host."""

    rest_until: str
    delay_ms: int
    stopped: str
    held_by: list[str]


class _ExplainedAlways(TypedDict):
    url: str
    #: `fetched`, `redirected`, `fetching`, `queued`, `parked`, `failed`, `robots`, `out-of-scope`, `trap`, `unknown`,
    #: `bad-url`.
    summary: str
    #: The reason, in a sentence.
    because: str


class Explained(_ExplainedAlways, total=False):
    """Everything that is known about a URL."""

    canonical: str
    scope: dict[str, Any]
    trap: str
    standing: str
    held_by: list[str]
    robots: Robots
    found: str
    depth: int
    via: str
    hops: str
    retries: int
    last: dict[str, Any]
    next: str
    expected_s: int
    host: Host
    stream: dict[str, Any]


class Stats(TypedDict, total=False):
    """Counters and gauges of a node."""

    offered: int
    tickets: int
    robots: int
    ended: int
    turned_away: int
    expired: int
    tickets_open: int
    hosts_active: int
    offers_waiting: int
    urls_waiting: int
    urls_later: int
    urls_parked: int
    tasks: int
    journal_bytes: int
    commits: int
    commit_ms_max: int


class _PollAlways(TypedDict):
    at: str
    found: str
    entries: int
    new: int


class Poll(_PollAlways, total=False):
    """A poll of a feed."""

    status: int


class _FeedAlways(TypedDict):
    url: str
    health: str
    stories: int
    polls: list[Poll]


class Feed(_FeedAlways, total=False):
    """A feed that is followed."""

    title: str
    source: str
    wrong: str
    usual_gap_s: int
    silent_s: int
    next: str
    why: str


class _StoryAlways(TypedDict):
    source: str
    found: str
    url: str
    feed: str


class Story(_StoryAlways, total=False):
    """A story of a feed."""

    title: str
    published: str


class _DownloadAlways(TypedDict):
    url: str
    #: `pending`, `fetching`, `success` or `error`.
    state: str
    #: `content`, `feed` or `sitemap`.
    type: str
    depth: int
    retries: int
    found: str


class Download(_DownloadAlways, total=False):
    """A URL of the crawl and the state of its download."""

    outcome: str
    status: int
    at: str
    next: str


class _EventAlways(TypedDict):
    kind: str


class Event(_EventAlways, total=False):
    """An event. Every kind has fields of its own; `docs/events.md` lists them."""

    id: str
    at: str
    url: str
    host: str
    job: str
    outcome: str
    reason: str
    status: int
    bytes: int
    digest: str
    fetch: str
    next: str
    until: str
    state: str
    title: str
    feed: str
    retries: int
    entries: int
    new: int
    delay_ms: int
    silent_s: int
    usual_gap_s: int
    gone: Any


class Events(Iterator[Event]):
    """Iterator over events. `position` is where to go on after a restart.

    The position moves when all events before it were taken: an event whose work was interrupted comes again.
    """

    def __init__(self, client: Client, from_: str, kinds: Iterable[str], follow: bool, wait: int) -> None:
        self._client = client
        self._kinds = ",".join(kinds)
        self._follow = follow
        self._wait = wait if follow else 0
        #: Position behind the events that were taken and are done.
        self.position = from_
        self._next_position = from_
        self._page: Iterator[Event] = iter(())
        self._is_end = False

    def __next__(self) -> Event:
        while True:
            event = next(self._page, None)
            if event is not None:
                return event
            self.position = self._next_position
            if self._is_end:
                raise StopIteration
            self._ask()

    def _ask(self) -> None:
        asked = {"from": self.position, "kind": self._kinds, "wait": f"{self._wait}s" if self._wait else ""}
        body = self._client._get("/api/v1/events", asked, timeout=self._wait)
        events: list[Event] = []
        position = None
        for line in body.splitlines():
            event = _json(line)
            if not isinstance(event, dict):
                raise Damaged(f"a line of events is no object: {line[:80]!r}")
            if event.get("kind") == "position":
                position = event.get("position")
            else:
                events.append(cast(Event, event))
        if not isinstance(position, str):
            raise Damaged("a page of events has no position")
        # A page with the position of the request is the end, for now.
        self._is_end = position == self.position and not self._follow
        self._next_position = position
        self._page = iter(events)


class Client:
    """Client of a node, of `nephila serve`, or of a crawl that runs.

    `where` is the URL of a node; of several, with commas between them, the next is asked when one cannot be reached. A
    path is the folder of a crawl or a node that runs on this machine, which is asked through its socket without a token.
    The token is `token`, or the first line of `token_file`. `ca_file` has the certificate authority of a node with TLS.
    """

    def __init__(
        self,
        where: str | os.PathLike[str] = "http://127.0.0.1:6374",
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        timeout: float = 60,
    ) -> None:
        if token is not None and token_file is not None:
            raise ValueError("give a token or a token_file")
        if token_file is not None:
            try:
                with open(token_file, encoding="ascii") as file:
                    token = file.readline().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise Error(f"{os.fspath(token_file)}: {error}") from error
        self._token = token
        self._timeout = timeout
        text = os.fspath(where)
        self._nodes: list[urllib.parse.SplitResult] = []
        self._socket: str | None = None
        if "://" not in text:
            self._socket = os.path.join(text, "state", "control")
            return
        for node in text.split(","):
            parts = urllib.parse.urlsplit(node.strip())
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
                raise ValueError(f"a node is http://HOST:PORT or https://HOST:PORT: {node.strip()!r}")
            self._nodes.append(parts)
        self._tls: ssl.SSLContext | None = None
        if any(node.scheme == "https" for node in self._nodes):
            try:
                self._tls = ssl.create_default_context(cafile=None if ca_file is None else os.fspath(ca_file))
            except OSError as error:
                raise Error(f"{ca_file}: {error}") from error

    # Captures

    def read(self, url: str, at: str | datetime | None = None, *, body_bytes_max: int = BODY_BYTES_MAX) -> Capture:
        """Read the stored response of a URL: the latest, or the nearest to a time.

        A page that was not fetched yet is an `ApiError` of status 503, with `retry_after`; a page out of scope is 404.
        """
        limit = min(ANSWER_BYTES_MAX, body_bytes_max + HTTP_HEAD_BYTES_MAX)
        asked = {"url": url, "at": "" if at is None else digits_of(at), "as": "http"}
        answer, fields = self._ask("GET", "/api/v1/pages", asked, limit=limit)
        head, body = split("response", answer, url)
        try:
            time = time_of(fields.get("nephila-captured") or "")
        except ValueError as error:
            raise Damaged("the answer has no time of the capture") from error
        return Capture(fields.get("nephila-url") or url, time, head, body, body_bytes_max=body_bytes_max)

    def record(self, url: str, at: str | datetime | None = None) -> bytes:
        """Return the WARC record of a URL, unpacked: its head and its block."""
        return self._get("/api/v1/pages", {"url": url, "at": "" if at is None else digits_of(at), "as": "record"})

    def about(self, url: str, at: str | datetime | None = None) -> dict[str, Any]:
        """Return the capture of a URL without its body: its line of the index, its HTTP and its WARC fields."""
        asked = {"url": url, "at": "" if at is None else digits_of(at), "as": "json"}
        return cast("dict[str, Any]", self._get_json("/api/v1/pages", asked))

    # Questions

    def explain(self, url: str) -> Explained:
        """Explain why a URL was fetched or not, and when the next fetch is due."""
        return cast(Explained, self._get_json("/api/v1/explain", {"url": url}))

    def host(self, url: str) -> Host | None:
        """Return the state of the host of a URL; None for a host that the crawl does not know."""
        return cast("Host | None", self._get_json("/api/v1/host", {"url": url}))

    def stats(self) -> Stats:
        """Return the counters of the node."""
        return cast(Stats, self._get_json("/api/v1/stats"))

    def feeds(self) -> list[Feed]:
        """Return all feeds that are followed, each with its health."""
        answer = self._get_json("/api/v1/feeds")
        return cast("list[Feed]", answer["feeds"])

    def feed(self, url: str) -> Feed | None:
        """Return a feed with its last polls; None if the feed was never polled."""
        return cast("Feed | None", self._get_json("/api/v1/feed", {"url": url}))

    def stories(self, source: str | None = None) -> Iterator[Story]:
        """Return the stories of all sources or of one, the oldest of a source first."""
        return cast("Iterator[Story]", self._pages("/api/v1/stories", {"source": source or ""}))

    def downloads(self, state: str | None = None, type: str | None = None) -> Iterator[Download]:
        """Return the URLs of the crawl, of all states and types or of one."""
        asked = {"state": state or "", "type": type or ""}
        return cast("Iterator[Download]", self._pages("/api/v1/downloads", asked))

    def events(
        self, from_: str = "beginning", kinds: Iterable[Kind] = (), *, follow: bool = False, wait: int = 20
    ) -> Events:
        """Return events from a position on: `beginning`, `end`, or the `position` of an earlier iterator.

        Without `follow` the iterator ends with the last event; with it, each request waits up to `wait` seconds (at most 20)
        for the next event.
        """
        return Events(self, from_, kinds, follow, max(0, min(wait, 20)))

    def is_alive(self) -> bool:
        """Return whether the process answers (`/livez`)."""
        try:
            self._get("/livez")
        except (Unreachable, ApiError):
            return False
        return True

    def state(self) -> str:
        """Return `crawling`, or `ready` if nothing is left to crawl (`/readyz`)."""
        return str(self._get_json("/readyz"))

    # Changes

    def add(
        self, urls: Iterable[str | Mapping[str, Any]], *, job: str | None = None, seed: bool = False
    ) -> Added:
        """Add URLs to the crawl, or to a job of a cluster.

        An item is a URL, or a mapping with `url` and `priority`, `hits`, `feed` or `sitemap`. Each is taken or refused; the
        sum of all requests is returned.
        """
        asked = {"job": job or "", "seed": "true" if seed else ""}
        total: Added = {"taken": 0, "refused": 0, "refusals": []}
        lines: list[bytes] = []
        size = 0
        for item in urls:
            line = json.dumps({"url": item} if isinstance(item, str) else dict(item)).encode() + b"\n"
            if size + len(line) > REQUEST_BYTES_MAX and lines:
                self._send(asked, lines, total)
                lines, size = [], 0
            lines.append(line)
            size += len(line)
        if lines:
            self._send(asked, lines, total)
        return total

    def _send(self, asked: dict[str, str], lines: list[bytes], total: Added) -> None:
        answer, _ = self._ask("POST", "/api/v1/urls", asked, b"".join(lines))
        added = _json(answer)
        total["taken"] += added["taken"]
        total["refused"] += added["refused"]
        total["refusals"] += added.get("refusals", [])

    # Requests

    def _pages(self, path: str, asked: dict[str, str]) -> Iterator[Any]:
        cursor = ""
        while True:
            page = self._get_json(path, {**asked, "from": cursor})
            yield from page["rows"]
            cursor = page.get("next") or ""
            if not cursor:
                return

    def _get_json(self, path: str, asked: dict[str, str] | None = None) -> Any:
        return _json(self._get(path, asked))

    def _get(self, path: str, asked: dict[str, str] | None = None, timeout: float = 0) -> bytes:
        return self._ask("GET", path, asked, timeout=timeout)[0]

    def _ask(
        self,
        method: str,
        path: str,
        asked: dict[str, str] | None = None,
        body: bytes | None = None,
        *,
        limit: int = ANSWER_BYTES_MAX,
        timeout: float = 0,
    ) -> tuple[bytes, http.client.HTTPMessage]:
        # A plus sign is a plus sign for a node, so blanks are escaped.
        pairs = [f"{name}={urllib.parse.quote(value, safe='')}" for name, value in (asked or {}).items() if value]
        target = path + ("?" + "&".join(pairs) if pairs else "")
        connection = self._connected(self._timeout + timeout)
        try:
            headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            if body is not None:
                headers["Content-Type"] = "application/x-ndjson"
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            answer = _read(response, limit)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{self._shown(connection)}: {error or type(error).__name__}") from error
        finally:
            connection.close()
        if response.status >= 300:
            raise _problem(response, answer)
        return answer, response.headers

    def _connected(self, timeout: float) -> http.client.HTTPConnection:
        """Connect to the first node that can be reached. Nothing was sent to the others."""
        if self._socket is not None:
            candidates: list[http.client.HTTPConnection] = [_SocketConnection(self._socket, timeout)]
        else:
            candidates = [
                http.client.HTTPSConnection(node.hostname or "", node.port or 443, timeout=timeout, context=self._tls)
                if node.scheme == "https"
                else http.client.HTTPConnection(node.hostname or "", node.port or 80, timeout=timeout)
                for node in self._nodes
            ]
        failures: list[str] = []
        last: OSError | None = None
        for connection in candidates:
            try:
                connection.connect()
                return connection
            except OSError as error:
                failures.append(f"{self._shown(connection)}: {error}")
                last = error
        raise Unreachable("; ".join(failures)) from last

    def _shown(self, connection: http.client.HTTPConnection) -> str:
        return self._socket or f"{connection.host}:{connection.port}"


class _SocketConnection(http.client.HTTPConnection):
    """A connection to the socket of a running crawl."""

    #: The kernel takes at most 107 bytes.
    PATH_BYTES_MAX = 100

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = None
        try:
            stream.settimeout(self.timeout)
            path = self._path
            if len(os.fsencode(path)) > self.PATH_BYTES_MAX:
                # A long path is reached through a handle of its folder.
                folder = os.open(os.path.dirname(path), os.O_RDONLY)
                path = f"/proc/self/fd/{folder}/{os.path.basename(path)}"
            stream.connect(path)
        except OSError as error:
            stream.close()
            raise OSError(f"no crawl runs there ({error.strerror or error})") from error
        finally:
            if folder is not None:
                os.close(folder)
        self.sock = stream


def _read(response: http.client.HTTPResponse, limit: int) -> bytes:
    out = bytearray()
    while piece := response.read(min(1 << 20, limit + 1 - len(out))):
        out += piece
        if len(out) > limit:
            raise TooLarge(f"the answer exceeds {limit} bytes")
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return bytes(out)


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"the answer is no JSON: {text[:80]!r}") from error


def _problem(response: http.client.HTTPResponse, answer: bytes) -> ApiError:
    fields: Any = None
    if (response.getheader("Content-Type") or "").startswith("application/problem+json"):
        try:
            fields = json.loads(answer)
        except (ValueError, RecursionError):
            fields = None
    if not isinstance(fields, dict):
        fields = {"title": response.reason, "detail": answer[:200].decode("utf-8", "replace")}
    wait = response.getheader("Retry-After") or ""
    return ApiError(
        response.status,
        str(fields.get("type", "about:blank")),
        str(fields.get("title", "")),
        str(fields.get("detail", "")),
        int(wait) if wait.isascii() and wait.isdigit() else None,
    )
