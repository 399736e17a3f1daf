"""A running node with a token: `nephila serve` over a crawl of the small site."""

from __future__ import annotations

import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import world
from conftest import Made, Node

import nephila


@pytest.fixture
def client(node: Node) -> nephila.Client:
    return nephila.Client(node.url, token_file=node.token)


def test_pages_are_those_of_the_site(client: nephila.Client, node: Node) -> None:
    crawl = nephila.open(node.folder)
    for path, (status, _, _, plain) in world.SITE.items():
        capture = client.read(node.site + path)
        assert (capture.url, capture.status, capture.body) == (node.site + path, status, plain)
        stored = crawl.read(node.site + path)
        assert (capture.http, capture.raw_body, capture.time) == (stored.http, stored.raw_body, stored.time)
    assert client.read(node.site + "/gzip", at="2001").status == 200
    assert client.record(node.site + "/gzip").startswith(b"WARC/1.1\r\n")
    assert client.about(node.site + "/gzip")["status"] == "200"


def test_a_token_is_needed_and_read_tokens_only_read(node: Node) -> None:
    with pytest.raises(nephila.ApiError) as refused:
        nephila.Client(node.url).stats()
    assert (refused.value.status, refused.value.type) == (401, "urn:nephila:problem:unauthorized")
    assert refused.value.title and "Bearer" in refused.value.detail
    with pytest.raises(nephila.ApiError) as wrong:
        nephila.Client(node.url, token="wrong").stats()
    assert wrong.value.status == 401
    reader = nephila.Client(node.url, token_file=node.read_token)
    assert reader.stats()["commits"] > 0
    with pytest.raises(nephila.ApiError) as forbidden:
        reader.add([f"{node.site}/x"])
    assert forbidden.value.type == "urn:nephila:problem:forbidden"


def test_a_url_is_explained(client: nephila.Client, node: Node) -> None:
    fetched = client.explain(node.site + "/gzip")
    assert fetched["summary"] == "fetched" and fetched["last"]["status"] == 200
    assert client.explain("http://elsewhere.test/")["summary"] == "out-of-scope"
    assert client.explain(node.site + "/a+b c?x=1&y=%2B")["url"] == node.site + "/a+b c?x=1&y=%2B"
    host = client.host(node.site + "/")
    assert host is not None and host["origin"] == node.site and host["ended"] > 0
    assert client.host("http://elsewhere.test/") is None
    states = {it["url"]: it["state"] for it in client.downloads()}
    assert states[node.site + "/gzip"] == "success"
    assert {it["url"] for it in client.downloads(state="error")} == {
        url for url, state in states.items() if state == "error"
    }


def test_a_missing_page_is_a_problem_with_a_type(client: nephila.Client) -> None:
    with pytest.raises(nephila.ApiError) as missing:
        client.read("http://elsewhere.test/")
    assert (missing.value.status, missing.value.type) == (404, "urn:nephila:problem:not-found")
    with pytest.raises(nephila.ApiError) as wrong:
        client.read("no url at all")
    assert wrong.value.type == "urn:nephila:problem:invalid-request"


def test_added_urls_are_fetched_and_reported_by_events(client: nephila.Client, node: Node) -> None:
    events = client.events("end")
    assert list(events) == []
    position = events.position
    world.SITE["/later"] = world.plain("later")
    added = client.add([node.site + "/later", {"url": node.site + "/later?2", "priority": 0}, "http://elsewhere.test/"])
    assert (added["taken"], added["refused"]) == (2, 1)
    assert added["refusals"][0]["url"] == "http://elsewhere.test/" and added["refusals"][0]["why"]

    def fetched() -> nephila.Capture | None:
        try:
            return client.read(node.site + "/later")
        except nephila.ApiError as problem:
            assert problem.status == 503, problem
            assert problem.retry_after is not None and problem.retry_after > 0
            return None

    capture = world.wait_for("the page is fetched", fetched)
    assert capture.body == world.SITE["/later"][3]

    # The event follows the capture.
    def seen() -> bool:
        return node.site + "/later" in [event.get("url") for event in client.events(position, ["fetched"])]

    world.wait_for("the event is there", seen)
    following = client.events(position, ["fetched"], follow=True, wait=1)
    assert next(following)["kind"] == "fetched"


def test_events_go_on_from_a_position(client: nephila.Client, node: Node) -> None:
    everything = client.events()
    ids = [event["id"] for event in everything]
    assert len(ids) == len(set(ids)) > len(world.SITE)
    assert {event["kind"] for event in client.events()} >= {"fetched", "robots", "host-found"}
    half = client.events()
    assert half.position == "beginning"
    first = next(half)
    # Killed here, the program sees the first event again: its work may not be done.
    assert half.position == "beginning"
    assert next(client.events(half.position))["id"] == first["id"]
    list(half)
    assert list(client.events(half.position)) == []
    assert {event["kind"] for event in client.events(kinds=["robots"])} == {"robots"}
    with pytest.raises(nephila.ApiError, match="kind is"):
        list(client.events(kinds=["nonsense"]))  # type: ignore[list-item]
    log = world.nephila("log", "--events", "-o", str(node.folder))
    assert {line.split('"')[3] for line in log.splitlines() if line.startswith('{"id"')} >= set(ids)


def test_a_folder_is_asked_through_its_socket(client: nephila.Client, node: Node, tmp_path: Path) -> None:
    local = nephila.Client(node.folder)
    assert local.state() in ("crawling", "ready")
    assert local.explain(node.site + "/gzip")["summary"] == "fetched"
    long = tmp_path / ("x" * 100)
    long.symlink_to(node.folder)
    assert nephila.Client(long).stats()["commits"] > 0
    with pytest.raises(nephila.Unreachable, match="no crawl runs there"):
        nephila.Client(tmp_path).stats()


def test_health_needs_no_token(node: Node) -> None:
    client = nephila.Client(node.url)
    assert client.is_alive() and client.state() in ("crawling", "ready")
    away = nephila.Client(f"http://127.0.0.1:{world.free_port()}")
    assert not away.is_alive()
    with pytest.raises(nephila.Unreachable, match="127.0.0.1"):
        away.stats()


def test_the_next_node_is_asked_if_one_is_away(node: Node) -> None:
    where = f"http://127.0.0.1:{world.free_port()},{node.url}"
    assert nephila.Client(where, token_file=node.token).stats()["commits"] > 0


def test_a_node_with_tls_is_verified(small: Made, node: Node, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    world.nephila("cluster", "keys", str(keys), "--set", "cluster.name=news", "--server", "127.0.0.1", "--node", "one=127.0.0.1")
    folder = tmp_path / "crawl"
    shutil.copytree(small.folder, folder)
    port = world.free_port()
    values = world.settings(
        api__listen=f"127.0.0.1:{port}",
        api__tls_cert_file=str(keys / "node-one.pem"),
        api__tls_key_file=str(keys / "node-one.key"),
        api__token_file=str(keys / "operate.token"),
    )
    command = [world.program("NEPHILA_BINARY"), "serve", "-o", str(folder), *values]
    with world.running(command, tmp_path / "node.log"):
        where = f"https://127.0.0.1:{port}"
        client = nephila.Client(where, token_file=keys / "operate.token", ca_file=keys / "ca.pem")
        world.wait_for("the node answers", client.is_alive)
        assert client.read(small.site + "/gzip").body == world.SITE["/gzip"][3]
        with pytest.raises(nephila.Unreachable, match="(?i)certificate"):
            nephila.Client(where, token_file=keys / "operate.token").stats()
        with pytest.raises(nephila.Error, match="none"):
            nephila.Client(where, ca_file=tmp_path / "none")


def test_feeds_and_stories(small: Made, tmp_path: Path) -> None:
    """A crawl of its own that follows a feed."""
    items = "".join(f"<item><title>Story {n}</title><link>{small.site}/story-{n}</link></item>" for n in range(3))
    feed = f"<rss version='2.0'><channel><title>News</title><link>{small.site}/</link>{items}</channel></rss>".encode()
    world.SITE["/feed.xml"] = (200, {"Content-Type": "application/rss+xml"}, feed, feed)
    port = world.free_port()
    values = world.settings(
        api__listen=f"127.0.0.1:{port}", spider__allow_addresses=["127.0.0.0/8"], crawl__own_sites=True,
        spider__ports=[int(small.site.rpartition(":")[2])],
    )  # fmt: skip
    url = f"{small.site}/feed.xml"
    world.nephila("feed", "add", url, "-o", str(tmp_path / "feeds"))
    command = [world.program("NEPHILA_BINARY"), "serve", "-o", str(tmp_path / "feeds"), *values]
    with world.running(command, tmp_path / "feeds.log"):
        client = nephila.Client(f"http://127.0.0.1:{port}")
        world.wait_for("the node answers", client.is_alive)
        world.wait_for("the feed is polled", lambda: client.feed(url))
        feeds = client.feeds()
        assert [it["url"] for it in feeds] == [url]
        assert feeds[0]["title"] == "News" and feeds[0]["polls"][0]["new"] == 3
        stories = list(client.stories())
        assert sorted(it["title"] for it in stories) == ["Story 0", "Story 1", "Story 2"]
        assert {it["feed"] for it in stories} == {url}
        assert list(client.stories(stories[0]["source"])) == stories
        assert list(client.stories("no such source")) == []


@contextmanager
def strange_node(status: int, fields: dict[str, str], body: bytes) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in fields.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("status", "fields", "body", "error"),
    [
        (200, {}, b"<html>", nephila.Damaged),
        (200, {"Content-Length": "100"}, b"{", nephila.Unreachable),
        (200, {}, b"[" * 100_000, nephila.Damaged),
        (502, {"Content-Type": "text/html"}, b"bad gateway", nephila.ApiError),
        (503, {"Content-Type": "application/problem+json", "Retry-After": "soon"}, b"[]", nephila.ApiError),
        (302, {"Location": "http://127.0.0.1:1/"}, b"", nephila.ApiError),
    ],
)
def test_strange_answers_are_errors(status: int, fields: dict[str, str], body: bytes, error: type[Exception]) -> None:
    with strange_node(status, fields, body) as url, pytest.raises(error) as found:
        nephila.Client(url, timeout=5).stats()
    if isinstance(found.value, nephila.ApiError):
        assert found.value.status == status and found.value.retry_after is None


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    with strange_node(200, {"Content-Type": "application/http"}, b"HTTP/1.1 200 OK\r\n\r\n" + bytes(3 << 20)) as url:
        with pytest.raises(nephila.TooLarge):
            nephila.Client(url).read("http://a.test/", body_bytes_max=1 << 20)


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    for wrong in ("ftp://a.test", "http://", "http://a.test/path"):
        with pytest.raises(ValueError, match="a node is"):
            nephila.Client(wrong)
    with pytest.raises(ValueError, match="token"):
        nephila.Client(token="a", token_file="b")
    with pytest.raises(nephila.Error, match="none"):
        nephila.Client(token_file=os.fspath(tmp_path / "none"))
