"""Crawls that the tests read: each is made once, with the real program."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
import world

import nephila


@dataclass
class Made:
    """A crawl, and the site that was crawled."""

    folder: Path
    site: str


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crawls")


@pytest.fixture(scope="session")
def big(work: Path) -> Path:
    """A crawl of the test web: 6 hosts with duplicates, redirects and errors, in several archive files, with tables."""
    folder = work / "big"
    with world.testweb("--mixed", "--hosts", "6", "--pages", "160", "--encodings", "br") as web:
        port = web["http_port"]
        values = world.settings(
            spider__dns_servers=[web["dns"]],
            spider__ports=[port],
            spider__allow_addresses=["127.0.0.0/8"],
            store__bytes_max=200_000,
            tables__write=True,
            handler__text="all",
            crawl__own_sites=True,
        )
        seed = f"http://h0.d0.test:{port}/"
        limits = ["--scope", "any", "--delay", "0s", "--host-concurrency", "4", "--wait-max", "1s", "--time-limit", "30s"]
        # 23, 24: URLs of hosts that are away are left.
        world.nephila("crawl", seed, "-o", str(folder), "-q", *limits, *values, ok=(0, 23, 24))
    return folder


def _site_settings(site: str) -> list[str]:
    port = int(site.rpartition(":")[2])
    return world.settings(spider__allow_addresses=["127.0.0.0/8"], spider__ports=[port], crawl__own_sites=True)


@pytest.fixture(scope="session")
def small(work: Path) -> Iterator[Made]:
    """A crawl of the small site, whose content is known, with main texts. The site stays up."""
    folder = work / "small"
    with world.small_site() as site:
        values = [*_site_settings(site), *world.settings(tables__write=True, handler__text="all")]
        world.nephila("crawl", f"{site}/", "-o", str(folder), "-q", "--delay", "0s", *values)
        yield Made(folder, site)


@pytest.fixture(scope="session", params=["gzip", "zstd", "none"])
def fetched(work: Path, small: Made, request: pytest.FixtureRequest) -> Made:
    """The small site, fetched twice by `nephila fetch`: revisits by payload and by 304, in each compression."""
    folder = work / f"fetched-{request.param}"
    urls = work / "urls.txt"
    urls.write_text("".join(f"{small.site}{path}\n" for path in world.SITE))
    for options in ([], ["--conditional"]):
        values = [*_site_settings(small.site), *world.settings(store__compression=request.param)]
        args = ["--quiet", "--delay", "0s", "-i", str(urls), "--warc", str(folder), *options, *values]
        # 1: some URLs failed, as they are meant to.
        world.nephila("fetch", *args, ok=(0, 1))
        # Captures have whole seconds: those of the second run are later.
        time.sleep(1.1)
    world.nephila("export", "parquet", "--quiet", "-o", str(folder))
    return Made(folder, small.site)


@dataclass
class Node:
    """A running `nephila serve`."""

    url: str
    site: str
    folder: Path
    token: Path
    read_token: Path


@pytest.fixture(scope="session")
def node(work: Path, small: Made) -> Iterator[Node]:
    """A node over a copy of the small crawl, which needs a token."""
    folder = work / "node"
    shutil.copytree(small.folder, folder)
    token, read_token = work / "operate.token", work / "read.token"
    for file, text in ((token, "operate-" + "0" * 24), (read_token, "read-" + "1" * 24)):
        file.write_text(text + "\n")
        file.chmod(0o600)
    port = world.free_port()
    values = world.settings(
        api__listen=f"127.0.0.1:{port}", api__token_file=str(token), api__read_token_file=str(read_token)
    )
    command = [world.program("NEPHILA_BINARY"), "serve", "-o", str(folder), *values, *_site_settings(small.site)]
    with world.running(command, work / "node.log") as child:
        url = f"http://127.0.0.1:{port}"
        client = nephila.Client(url, timeout=5)
        world.wait_for("the node answers", lambda: client.is_alive() or child.poll() is not None)
        assert child.poll() is None, (work / "node.log").read_text()
        yield Node(url, small.site, folder, token, read_token)


BUCKET = "crawls"


@pytest.fixture(scope="session")
def s3(work: Path) -> Iterator[str]:
    """moto's S3 on loopback with an empty bucket; yields its endpoint."""
    port = world.free_port()
    endpoint = f"http://127.0.0.1:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    os.environ.update(keys)
    server = shutil.which("moto_server", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    assert server, "moto_server is missing: pip install 'moto[server]'"
    with world.running([server, "-H", "127.0.0.1", "-p", str(port)], work / "moto.log"):
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")

        def is_there() -> bool:
            try:
                client.create_bucket(Bucket=BUCKET)
            except Exception:
                return False
            return True

        world.wait_for("moto answers", is_there)
        yield endpoint


@pytest.fixture(scope="session")
def bucket(work: Path, small: Made, s3: str) -> str:
    """The small site, crawled by a node of a cluster that stores its archive and its tables in the bucket.

    Without `NEPHILA_NATS_SERVER` the files of a crawl are put there in the same layout.
    """
    if not os.environ.get("NEPHILA_NATS_SERVER"):
        return _uploaded(small, s3)
    with ExitStack() as stack:
        port, monitor, api = (world.free_port() for _ in range(3))
        config = work / "nats.conf"
        config.write_text(
            f"listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{monitor}\n"
            f'jetstream {{ store_dir: "{work / "nats"}", sync_interval: always }}\n'
        )
        server = [world.program("NEPHILA_NATS_SERVER"), "-c", str(config)]
        stack.enter_context(world.running(server, work / "nats.log"))
        values = [
            *_site_settings(small.site),
            *world.settings(
                cluster__name="test",
                cluster__servers=[f"nats://127.0.0.1:{port}"],
                cluster__replicas=1,
                cluster__partitions=2,
                cluster__streams=1,
                cluster__objects=f"s3://{BUCKET}/some/where",
                cluster__objects_endpoint=s3,
                cluster__objects_region="us-east-1",
                cluster__objects_http=True,
                cluster__archive_upload="closed",
                store__bytes_max=20_000,
                store__age_max="2s",
                tables__write=True,
                handler__text="all",
                frontier__host_delay="20ms",
                frontier__slot_delay="20ms",
                api__listen=f"127.0.0.1:{api}",
            ),
        ]
        folder = work / "cluster-node"
        command = [world.program("NEPHILA_BINARY"), "serve", "-o", str(folder), "--node", "one", *values]
        stack.enter_context(world.running(command, work / "cluster-node.log"))
        client = nephila.Client(f"http://127.0.0.1:{api}", timeout=5)
        world.wait_for("the node of the cluster answers", client.is_alive)
        world.wait_for("a job is made", lambda: _is_job_made(small.site, values))
        world.nephila("job", "wait", "news", "--timeout", "80s", *values)
        world.wait_for("everything is stored", lambda: _is_stored(small, s3))
    return f"s3://{BUCKET}/some/where"


def _is_job_made(site: str, values: list[str]) -> bool:
    world.nephila("job", "create", "news", f"{site}/", "--scope", "host", *values)
    return True


def _is_stored(small: Made, s3: str) -> bool:
    try:
        crawl = nephila.open(f"s3://{BUCKET}/some/where", endpoint=s3)
        urls = set(crawl.captures(columns=["url"])["url"].to_pylist())
    except nephila.Error:
        return False
    return urls >= {f"{small.site}{path}" for path in world.SITE}


def _uploaded(small: Made, s3: str) -> str:
    client = boto3.client("s3", endpoint_url=s3, region_name="us-east-1")
    root = "some/where/test-1"
    for path in sorted(small.folder.glob("archive/*.*")):
        client.upload_file(str(path), BUCKET, f"{root}/archive/one/{path.name}")
    for path in sorted(small.folder.glob("table/**/*.parquet")):
        client.upload_file(str(path), BUCKET, f"{root}/{path.relative_to(small.folder)}")
    return f"s3://{BUCKET}/some/where"
