"""`docs/python.md`, typed as shown: every block is run, with a site of this machine for the one on the page."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import world
from conftest import BUCKET, Made

import nephila

PYTHON = Path(__file__).parents[1]
PAGE = PYTHON.parent / "docs/python.md"


def blocks(text: str) -> list[str]:
    """The indented blocks of a page."""
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("    "):
            found[-1].append(line[4:])
        elif line:
            found.append([])
        elif found[-1]:
            found[-1].append("")
    return ["\n".join(lines).strip() for lines in found if lines]


def test_every_block_runs(small: Made, bucket: str, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(PYTHON / "examples")
    api = world.free_port()
    port = int(small.site.rpartition(":")[2])
    local = world.settings(
        spider__allow_addresses=["127.0.0.0/8"], spider__ports=[port], crawl__own_sites=True,
        frontier__host_delay="0s", frontier__slot_delay="0s", api__listen=f"127.0.0.1:{api}",
    )  # fmt: skip
    places = {
        "https://docs.example.org": small.site,
        "http://127.0.0.1:6374": f"http://127.0.0.1:{api}",
        "http://127.0.0.1:9000": s3,
        "s3://BUCKET/PREFIX": f"s3://{BUCKET}/some/where",
    }
    text = PAGE.read_text()
    for shown, real in places.items():
        assert shown in text
        text = text.replace(shown, real)
    names: dict[str, object] = {}
    printed = io.StringIO()
    shells = pythons = 0
    with contextlib.ExitStack() as stack:
        for block in blocks(text):
            commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
            code = "\n".join(line for line in block.splitlines() if not line.startswith("$ ")).strip()
            for command in commands:
                shells += 1
                words = shlex.split(command)
                if words[0] == "nephila" and words[1] == "serve":
                    started = [world.program("NEPHILA_BINARY"), *words[1:], *local]
                    stack.enter_context(world.running(started, tmp_path / "serve.log"))
                    world.wait_for("the node answers", nephila.Client(f"http://127.0.0.1:{api}").is_alive)
                elif words[0] == "nephila":
                    world.nephila(*words[1:], *(local if words[1] == "crawl" else []))
                elif words[0] == "python":
                    done = subprocess.run(f"{shlex.quote(sys.executable)} {command.removeprefix('python ')}", shell=True)
                    assert done.returncode == 0, command
                else:
                    assert command == "pip install nephila pandas duckdb"  # check.py installs the wheel
            if code:
                pythons += 1
                with contextlib.redirect_stdout(printed):
                    exec(compile(code, f"{PAGE.name}: {code.splitlines()[0]}", "exec"), names)
    assert shells == 8 and pythons >= 11, (shells, pythons)
    said = printed.getvalue()
    assert f"{small.site}/gone is linked from ['{small.site}/']" in said
    assert "urn:nephila:problem:not-found None" in said
    assert "go on from" in said and "'taken': 1" in said
    assert os.path.getsize("titles.jsonl") > 100 and os.path.getsize("texts.jsonl") > 1_000
