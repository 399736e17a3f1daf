"""The examples, run as a user runs them, and judged by the site."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import world
from conftest import Made

import nephila

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, str(EXAMPLES / name), *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_tables_answers_its_questions(small: Made) -> None:
    said = run("tables.py", str(small.folder)).stdout
    assert "1 links lead to pages that are not there" in said
    assert f"{small.site}/gone" in said
    assert "status=200) text/html" in said and "orb weaver" in said
    cells = (EXAMPLES / "tables.py").read_text().count("# %%")
    assert cells > 5


def test_a_spider_reads_the_archive_and_asks_no_site(small: Made, tmp_path: Path) -> None:
    output = tmp_path / "titles.jsonl"
    asked = len(world.ASKED)
    run("scrapy_archive.py", str(small.folder), f"{small.site}/", str(output))
    assert len(world.ASKED) == asked, "the site was asked"
    titles = {item["url"]: item["title"] for item in map(json.loads, output.read_text().splitlines())}
    crawl = nephila.open(small.folder)
    pages = crawl.captures(subset="warc", mime="text/html", columns=["url", "title"]).to_pylist()
    wanted = {row["url"]: row["title"] for row in pages}
    assert titles == {**wanted, f"{small.site}/empty": None} and len(titles) > 15


def test_training_data_leaves_out_what_sites_reserve(small: Made) -> None:
    done = run("training_data.py", str(small.folder))
    texts = {item["url"].removeprefix(small.site): item["text"] for item in map(json.loads, done.stdout.splitlines())}
    assert not texts.keys() & {"/train-no", "/noai", "/tdm-no"}
    assert texts.keys() >= {"/train-yes", "/search-no", "/said-nothing", "/br", "/zstd"}
    assert all("orb weaver" in text for path, text in texts.items() if path != "/")
    assert len(set(texts.values())) == len(texts), "each text once"
    assert "3 pages are reserved" in done.stderr
    assert len((EXAMPLES / "training_data.py").read_text().splitlines()) <= 40


def test_training_data_comes_from_a_bucket_too(bucket: str, s3: str, small: Made) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "training_data.py"), bucket],
        capture_output=True,
        text=True,
        env={**os.environ, "AWS_ENDPOINT_URL": s3},
    )
    assert done.returncode == 0, done.stderr
    urls = {json.loads(line)["url"].removeprefix(small.site) for line in done.stdout.splitlines()}
    assert "/train-yes" in urls and not urls & {"/train-no", "/noai", "/tdm-no"}
