"""The package without its dependencies: what the standard library can do is done, and the rest names what is missing."""

from __future__ import annotations

import os
import subprocess
import sys

from conftest import Made, Node

PROGRAM = """
import sys
{block}
import nephila
crawl = nephila.open({folder!r})
page = crawl.read({site!r} + "/gzip")
assert page.status == 200 and b"A page in gzip." in page.body, page
assert "orb weaver" in crawl.main_text(page)
assert len(list(crawl.records())) > 40
assert nephila.Client({node!r}, token_file={token!r}).read({site!r} + "/deflate").status == 200
for call, name in [
    (lambda: crawl.captures(), "pyarrow"),
    (lambda: nephila.open("s3://bucket/x"), "pyarrow"),
    (lambda: crawl.read({site!r} + "/br").body, "brotli"),
    (lambda: crawl.read({site!r} + "/zstd").body, "backports.zstd"),
]:
    try:
        call()
        sys.exit("no error without " + name)
    except nephila.MissingPackage as error:
        assert "pip install " + name in str(error), error
print("done")
"""

#: Where there is no environment without the packages, they are hidden.
BLOCK = "for name in ('pyarrow', 'brotli', 'backports', 'compression'): sys.modules[name] = None"


def test_captures_and_the_client_need_the_standard_library_alone(small: Made, node: Node) -> None:
    bare = os.environ.get("NEPHILA_BARE_PYTHON")
    values = {"folder": str(small.folder), "site": small.site, "node": node.url, "token": str(node.token)}
    program = PROGRAM.format(block="" if bare else BLOCK, **values)
    done = subprocess.run([bare or sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr
