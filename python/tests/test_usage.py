"""Usage preferences, from the site to the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Made

import nephila

PATHS = ["train-no", "train-yes", "noai", "tdm-no", "search-no", "said-nothing"]


def answers(small: Made, use: nephila.Use, unsaid: bool) -> dict[str, bool]:
    crawl = nephila.open(small.folder)
    rows = {row["url"].removeprefix(small.site + "/"): row for row in crawl.rows(subset="warc")}
    said = {path: nephila.allows(rows[path], use, unsaid=unsaid) for path in PATHS}
    # A scan by pyarrow gives the same answers.
    scanned = crawl.captures(subset="warc", filter=nephila.usage_filter(use, unsaid=unsaid), columns=["url"])
    urls = set(scanned["url"].to_pylist())
    assert said == {path: f"{small.site}/{path}" in urls for path in PATHS}
    return said


def test_what_the_site_forbids_is_forbidden(small: Made) -> None:
    forbidden = {path for path, said in answers(small, "train-ai", True).items() if not said}
    assert forbidden == {"train-no", "noai", "tdm-no"}
    assert {path for path, said in answers(small, "search", True).items() if not said} == {"search-no"}
    assert {path for path, said in answers(small, "tdm", True).items() if not said} == {"tdm-no"}


def test_only_what_the_site_permits_is_allowed_on_request(small: Made) -> None:
    assert {path for path, said in answers(small, "train-ai", False).items() if said} == {"train-yes"}
    assert not any(answers(small, "search", False).values())


def test_captures_are_filtered_by_use(small: Made) -> None:
    crawl = nephila.open(small.folder)
    urls = crawl.captures(subset="warc", allowed="train-ai", columns=["url"])["url"].to_pylist()
    assert f"{small.site}/said-nothing" in urls and f"{small.site}/train-no" not in urls


def row(train: Any, tdm: Any) -> dict[str, Any]:
    return {"usage_train_ai": train, "usage_tdm": tdm}


@pytest.mark.parametrize(
    ("train", "tdm", "unsaid", "answer"),
    [
        (None, None, True, True),
        (None, None, False, False),
        (True, None, False, True),
        (True, True, False, True),
        (True, False, True, False),
        (False, True, True, False),
        (False, None, True, False),
        (None, False, True, False),
        (None, True, False, False),
        (float("nan"), None, True, True),
    ],
)
def test_of_contradicting_statements_the_most_restrictive_counts(train: Any, tdm: Any, unsaid: bool, answer: bool) -> None:
    assert nephila.allows(row(train, tdm), "train-ai", unsaid=unsaid) is answer


def test_a_missing_column_is_no_permission() -> None:
    with pytest.raises(nephila.Error, match="usage_tdm"):
        nephila.allows({"usage_train_ai": True}, "train-ai")
    with pytest.raises(nephila.Error, match="usage_train_ai"):
        nephila.allows(row("no", None), "train-ai")
    with pytest.raises(ValueError, match="train-ai"):
        nephila.allows(row(None, None), "training")  # type: ignore[arg-type]


def test_rows_of_pandas_are_rows(small: Made) -> None:
    frame = nephila.open(small.folder).captures(subset="warc").to_pandas()
    allowed = frame[frame.apply(lambda row: nephila.allows(row, "train-ai"), axis=1)]
    assert len(frame) - len(allowed) == 3
    nullable = frame.convert_dtypes()
    assert len(nullable[nullable.apply(lambda row: nephila.allows(row, "train-ai"), axis=1)]) == len(allowed)


def test_keys_are_those_of_the_crawler() -> None:
    """The golden file of the crawler, which was made by the package `surt`."""
    golden = Path(__file__).parents[2] / "crates/nephila-core/tests/golden/surt.tsv"

    def plain(text: str) -> str:
        return "\\".join(part.replace("\\t", "\t") for part in text.split("\\\\"))

    lines = golden.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    assert len(lines) > 300
    wrong = [line for line in lines if nephila.surt(plain(line.split("\t")[0])) != plain(line.split("\t")[1])]
    assert wrong == []
