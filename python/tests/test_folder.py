"""The folder of a crawl, compared with warcio and DuckDB, which read the same files, and with the site itself."""

from __future__ import annotations

import collections
import json
import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import pytest
import world
from conftest import Made
from warcio.archiveiterator import ArchiveIterator

import nephila

Judged = list[tuple[str, int, str, str, bytes]]


def judge(folder: Path) -> Judged:
    """All records by warcio: file, offset, type, URL, block."""
    found: Judged = []
    for path in sorted((folder / "archive").glob("*.warc*")):
        with path.open("rb") as file:
            records = ArchiveIterator(file, no_record_parse=True)
            for record in records:
                fields = record.rec_headers
                url = fields.get_header("WARC-Target-URI") or ""
                block = record.raw_stream.read()
                # Asked for its place, warcio reads the record to its end.
                found.append((path.name, records.get_record_offset(), record.rec_type, url, block))
    return found


def test_records_are_those_that_warcio_reads(big: Path) -> None:
    crawl = nephila.open(big)
    ours = [(r.filename, r.offset, r.type, r.url or "", r.read(1 << 30)) for r in crawl.records()]
    assert len(crawl.warc_files()) > 2
    assert len(ours) > 200
    assert ours == judge(big)


def test_records_of_plain_and_gzip_files_are_those_that_warcio_reads(fetched: Made) -> None:
    ours = [(r.filename, r.offset, r.type, r.url or "", r.read(1 << 30)) for r in nephila.open(fetched.folder).records()]
    counts = collections.Counter(kind for _, _, kind, _, _ in ours)
    assert counts["response"] > 20 and counts["revisit"] > 5, counts
    if not fetched.folder.name.endswith("zstd"):  # warcio reads no Zstandard
        assert ours == judge(fetched.folder)


def test_records_that_nobody_reads_are_passed_over(big: Path) -> None:
    types = [record.type for record in nephila.open(big).records()]
    assert types == [kind for _, _, kind, _, _ in judge(big)]
    only = [record.type for record in nephila.open(big).records({"conversion"})]
    assert only == [kind for kind in types if kind == "conversion"] and only


def test_a_block_is_gone_when_the_next_record_was_taken(big: Path) -> None:
    records = nephila.open(big).records()
    first = next(records)
    next(records)
    with pytest.raises(ValueError, match="gone on"):
        first.read(100)


def test_every_row_leads_to_its_record(big: Path) -> None:
    blocks = {(name, offset): block for name, offset, _, _, block in judge(big)}
    crawl = nephila.open(big)
    count = 0
    for row in crawl.rows():
        capture = crawl.read(row)
        assert capture.url == row["url"]
        assert capture.time.replace(tzinfo=None) == row["fetch_time"].replace(microsecond=0)
        if row["warc_type"] == "response":
            assert capture.http + capture.raw_body == blocks[row["warc_filename"], row["warc_record_offset"]]
            assert capture.status == row["fetch_status"]
        else:
            assert capture.origin is not None and capture.raw_body
        count += 1
    assert count == len([1 for _, _, kind, _, _ in judge(big) if kind in ("response", "revisit")]) > 50


def test_every_url_of_the_index_is_found(big: Path) -> None:
    crawl = nephila.open(big)
    lines = (big / "indexes/index.cdxj").read_text().splitlines()
    for line in lines:
        fields = json.loads(line.split(" ", 2)[2])
        places = crawl.find(fields["url"])
        assert (fields["filename"], int(fields["offset"])) in [(place.filename, place.offset) for place in places]
        assert len(places) == len(set(places)), "the merged index and that of the file are one"
    assert crawl.find("http://h0.d0.test/never") == []
    with pytest.raises(nephila.NotFound, match="never"):
        crawl.read("http://h0.d0.test/never")


def test_tables_have_the_rows_that_duckdb_reads(big: Path) -> None:
    crawl = nephila.open(big)
    base = duckdb.connect()

    def asked(query: str) -> list[tuple[Any, ...]]:
        captures = f"read_parquet('{big}/table/captures/*/*/*.parquet', hive_partitioning = true)"
        links = f"read_parquet('{big}/table/links/*/*.parquet', hive_partitioning = true)"
        return base.execute(query.format(captures=captures, links=links)).fetchall()

    columns = ["url", "fetch_status", "warc_record_offset", "crawl", "subset"]
    ours = crawl.captures(columns=columns).to_pylist()
    theirs = asked(f"SELECT {', '.join(columns)} FROM {{captures}}")
    assert sorted(tuple(row.values()) for row in ours) == sorted(theirs) and len(theirs) > 50
    host = ours[0]["url"].split("/")[2].split(":")[0]
    ((count,),) = asked(f"SELECT count(*) FROM {{captures}} WHERE url_host_name = '{host}' AND fetch_status = 200")
    assert crawl.captures(host=host, status=200).num_rows == count > 0
    ((count,),) = asked("SELECT count(*) FROM {captures} WHERE fetch_status IN (301, 302, 404) AND subset <> 'robotstxt'")
    assert crawl.captures(status=[301, 302, 404], subset="crawldiagnostics").num_rows == count > 0
    ((count,),) = asked("SELECT count(*) FROM {links}")
    assert crawl.links().num_rows == count > 100
    ((source, count),) = asked("SELECT source, count(*) n FROM {links} GROUP BY 1 ORDER BY n DESC, 1 LIMIT 1")
    assert crawl.links(source=source, columns=["target"]).num_rows == count
    ((count,),) = asked("SELECT count(*) FROM {links} WHERE kind = 'redirect'")
    assert crawl.links(kind="redirect").num_rows == count > 0
    assert [row["url"] for row in crawl.rows(columns=["url"])] == crawl.captures(columns=["url"])["url"].to_pylist()


def test_a_filter_of_pyarrow_is_added(big: Path) -> None:
    import pyarrow.dataset

    crawl = nephila.open(big)
    long = crawl.captures(subset="warc", filter=pyarrow.dataset.field("text_length") > 100)
    everything = crawl.captures(subset="warc")
    assert 0 < long.num_rows < everything.num_rows
    assert all(length > 100 for length in long["text_length"].to_pylist())


def test_tables_under_way_are_left_out(small: Made, tmp_path: Path) -> None:
    for path in small.folder.glob("table/**/*.parquet"):
        copy = tmp_path / path.relative_to(small.folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
        (copy.parent / "part-next.parquet.part").write_bytes(b"PAR1 half")
    assert nephila.open(tmp_path).captures().num_rows == nephila.open(small.folder).captures().num_rows


def test_bodies_are_those_of_the_site(fetched: Made) -> None:
    crawl = nephila.open(fetched.folder)
    for path, (status, _, sent, plain) in world.SITE.items():
        capture = crawl.read(fetched.site + path)
        assert (capture.status, capture.body) == (status, plain), path
        assert capture.raw_body == sent, path
    latest = crawl.read(fetched.site + "/gzip")
    assert latest.headers["content-encoding"] == "gzip" and latest.headers.get("CONTENT-TYPE") == "text/html; charset=utf-8"
    assert latest.mime == "text/html"


def test_revisits_have_the_body_of_their_origin(fetched: Made) -> None:
    crawl = nephila.open(fetched.folder)
    revisits = [row for row in crawl.rows() if row["warc_type"] == "revisit"]
    assert {row["fetch_status"] for row in revisits} == {200, 304}
    for row in revisits:
        capture = crawl.read(row)
        path = row["url"].removeprefix(fetched.site)
        assert capture.body == world.SITE[path][3]
        assert capture.origin is not None and capture.record["WARC-Type"] == "revisit"
        assert capture.status == 200, "the head of a 304 does not describe the page"
        assert crawl.read(capture.origin).raw_body == capture.raw_body


def test_text_has_the_characters_of_the_page(small: Made) -> None:
    crawl = nephila.open(small.folder)
    assert "Größe €" in crawl.read(small.site + "/latin").text
    assert "蜘蛛の巣" in crawl.read(small.site + "/japanese").text
    assert crawl.read(small.site + "/empty").text == ""


def test_the_nearest_capture_is_read(fetched: Made) -> None:
    crawl = nephila.open(fetched.folder)
    url = fetched.site + "/tagged"
    first, second = crawl.find(url)
    assert first.time < second.time or first.mime != second.mime
    assert crawl.read(url, "2001").place == first
    assert crawl.read(url, datetime(2001, 1, 1)).place == first
    assert crawl.read(url, datetime(2040, 1, 1, tzinfo=timezone.utc)).place == crawl.read(url).place == second
    for wrong in ("1", "202613", "yesterday", "20269999", "202611150000001"):
        with pytest.raises(ValueError):
            crawl.read(url, wrong)


def test_main_text_is_what_the_archive_holds(small: Made) -> None:
    crawl = nephila.open(small.folder)
    texts = {
        record.url: record.read(1 << 20).decode() for record in crawl.records({"conversion"}) if record.url is not None
    }
    assert len(texts) > 5
    for url, text in texts.items():
        assert crawl.main_text(url) == text
        assert crawl.main_text(crawl.read(url)) == text
    assert crawl.main_text(small.site + "/gone") is None
    revisit = next(row for row in crawl.rows() if row["warc_type"] == "revisit")
    said = crawl.main_text(revisit)
    assert said is not None and "orb weaver" in said
    assert "orb weaver" in (crawl.main_text(crawl.read(revisit)) or "")


def test_texts_that_were_extracted_later_are_found(fetched: Made, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(fetched.folder, folder)
    url = fetched.site + "/gzip"
    assert nephila.open(folder).main_text(url) is None
    world.nephila("extract", "--quiet", "-o", str(folder))
    text = nephila.open(folder).main_text(url)
    assert text is not None and "A page in gzip." in text and "orb weaver" in text
    said = world.nephila("read", url, "-o", str(folder), "--text")
    assert said.strip() == text.strip()
    for path in (folder / "archive").glob("*extract*"):
        path.unlink()
    with pytest.raises(nephila.NotFound, match="extract"):
        nephila.open(folder).main_text(url)


def test_a_folder_that_is_no_crawl_is_named(tmp_path: Path, small: Made) -> None:
    with pytest.raises(nephila.NotFound, match="neither archive nor table"):
        nephila.open(tmp_path)
    (tmp_path / "archive").mkdir()
    with pytest.raises(nephila.NotFound, match="export parquet"):
        nephila.open(tmp_path).captures()
    with pytest.raises(nephila.Error, match="warc_filename"):
        nephila.open(small.folder).read({"url": "http://a.test/"})
    with pytest.raises(nephila.Error, match="gs://"):
        nephila.open("gs://bucket")


def test_several_clusters_below_a_prefix_are_named(tmp_path: Path, small: Made) -> None:
    (tmp_path / "one-1").symlink_to(small.folder)
    crawl = nephila.open(f"file://{tmp_path}")
    assert crawl.read(small.site + "/gzip").status == 200
    (tmp_path / "two-2").symlink_to(small.folder)
    with pytest.raises(nephila.Error, match="one-1, two-2"):
        nephila.open(tmp_path)
