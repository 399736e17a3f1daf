"""The objects of a cluster in moto's S3, compared with the site and with what boto3 reads."""

from __future__ import annotations

import gzip
import os

import boto3
import pyarrow.fs
import pytest
import world
from conftest import BUCKET, Made

import nephila


def test_every_page_of_the_site_is_read_by_row_and_by_url(bucket: str, s3: str, small: Made) -> None:
    crawl = nephila.open(bucket, endpoint=s3)
    rows = {row["url"].removeprefix(small.site): row for row in crawl.rows()}
    assert rows.keys() >= world.SITE.keys()
    for path, (status, _, _, plain) in world.SITE.items():
        for capture in (crawl.read(rows[path]), crawl.read(small.site + path)):
            assert (capture.status, capture.body) == (status, plain), path


def test_a_record_is_the_bytes_of_the_object(bucket: str, s3: str) -> None:
    client = boto3.client("s3", endpoint_url=s3, region_name="us-east-1")
    listed = client.list_objects_v2(Bucket=BUCKET)["Contents"]
    keys = {it["Key"].rsplit("/", 1)[1]: it["Key"] for it in listed if it["Key"].endswith(".warc.gz")}
    crawl = nephila.open(bucket, endpoint=s3)
    assert sorted(path.rsplit("/", 1)[1] for path in crawl.warc_files()) == sorted(keys)
    for row in crawl.rows(subset="warc"):
        offset, length = row["warc_record_offset"], row["warc_record_length"]
        bytes_range = f"bytes={offset}-{offset + length - 1}"
        key = keys[row["warc_filename"]]
        record = gzip.decompress(client.get_object(Bucket=BUCKET, Key=key, Range=bytes_range)["Body"].read())
        if row["warc_type"] == "response":
            capture = crawl.read(row)
            assert record.endswith(capture.http + capture.raw_body + b"\r\n\r\n")


def test_records_and_texts_are_streamed(bucket: str, s3: str, small: Made) -> None:
    crawl = nephila.open(bucket, endpoint=s3)
    responses = [record.url for record in crawl.records({"response", "revisit"})]
    assert set(responses) == set(crawl.captures(columns=["url"])["url"].to_pylist())
    assert "orb weaver" in (crawl.main_text(small.site + "/br") or "")
    assert crawl.main_text(small.site + "/gone") is None


def test_links_and_usage_come_from_the_bucket(bucket: str, s3: str, small: Made) -> None:
    crawl = nephila.open(bucket, endpoint=s3)
    targets = set(crawl.links(source=f"{small.site}/", columns=["target"])["target"].to_pylist())
    assert targets >= {f"{small.site}/gzip", f"{small.site}/gone"}
    allowed = crawl.captures(subset="warc", allowed="train-ai", columns=["url"])["url"].to_pylist()
    assert f"{small.site}/train-yes" in allowed and f"{small.site}/train-no" not in allowed


def test_the_endpoint_may_stand_in_the_environment(
    bucket: str, s3: str, small: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    assert nephila.open(bucket).read(small.site + "/br").status == 200


def test_any_filesystem_of_pyarrow_will_do(bucket: str, s3: str, small: Made) -> None:
    filesystem = pyarrow.fs.S3FileSystem(endpoint_override=s3, scheme="http", region="us-east-1")
    crawl = nephila.open(bucket.removeprefix("s3://"), filesystem=filesystem)
    assert crawl.read(small.site + "/br").status == 200


def test_what_is_not_there_is_an_error(bucket: str, s3: str, small: Made) -> None:
    crawl = nephila.open(bucket, endpoint=s3)
    with pytest.raises(nephila.NotFound, match="never"):
        crawl.read(small.site + "/never")
    with pytest.raises(nephila.NotFound, match="lost.warc.gz"):
        crawl.read({"warc_filename": "lost.warc.gz", "warc_record_offset": 0, "warc_record_length": 9})
    with pytest.raises(nephila.Error):
        nephila.open(f"s3://{BUCKET}/nowhere", endpoint=s3)
    with pytest.raises(nephila.Error):
        nephila.open("s3://no-such-bucket/x", endpoint=s3)


def test_the_bucket_was_written_by_a_node_if_there_is_a_server(bucket: str, s3: str) -> None:
    client = boto3.client("s3", endpoint_url=s3, region_name="us-east-1")
    keys = [it["Key"] for it in client.list_objects_v2(Bucket=BUCKET)["Contents"]]
    is_node = any(key.endswith("/paths/one/warc.paths.gz") for key in keys)
    assert is_node == bool(os.environ.get("NEPHILA_NATS_SERVER"))
