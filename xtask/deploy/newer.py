"""Folders of a program that does not exist yet: what docs/compatibility.md says of going back, on real folders.

A small site on loopback is crawled. Then copies of the folder are changed as a newer program might have written them, with right
checksums, and the present program goes on with each: it refuses and changes nothing, or it makes the part again.
"""

import functools
import hashlib
import http.server
import json
import pathlib
import shutil
import subprocess
import threading

from live import HOST

CRAWL_S = 120
PAGES = {"/": b"<a href=/1.html>1</a> <a href=/2.html>2</a>", "/1.html": b"one", "/2.html": b"two", "/robots.txt": b""}


class Site(http.server.BaseHTTPRequestHandler):
    """Three pages."""

    def do_GET(self):
        body = PAGES.get(self.path)
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        """Nothing is printed."""


def xxh3(body):
    import xxhash

    return xxhash.xxh3_64(bytes(body)).intdigest()


def partition(folder):
    """The partition that has the site."""
    return next(path for path in sorted(folder.glob("state/partition-*")) if any(path.glob("tables/hosts-*.run")))


def raised(path, at, first, length, order):
    """Raises the byte `at` of a file, and writes the checksum again, which follows the `length` bytes from `first` on."""
    body = bytearray(path.read_bytes())
    body[at] += 1
    end = first + length
    body[end:end + 8] = xxh3(body[first:end]).to_bytes(8, order)
    path.write_bytes(body)


def journal(folder):
    raised(next(partition(folder).glob("log/*.journal")), 7, 0, 24, "big")


def manifest(folder):
    path = partition(folder) / "tables/manifest"
    raised(path, 4, 0, path.stat().st_size - 8, "big")


def run(folder):
    path = next(partition(folder).glob("tables/hosts-*.run"))
    footer = path.stat().st_size - 128
    raised(path, footer + 8, footer, 120, "little")


def contents(folder):
    path = folder / "contents"
    lines = path.read_text(encoding="utf-8").splitlines(True)[:-1]
    body = "".join(["nephila contents 2\n", *lines[1:]])
    path.write_text(f"{body}sum {xxh3(body.encode()):016x}\n", encoding="utf-8")


def settings(folder):
    with open(folder / "settings.toml", "a", encoding="utf-8") as file:
        file.write("\n[rendering]\nwith = true\n")
    (folder / "state/papers/settings.toml").unlink()


def job(folder):
    path = folder / "job.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"renders": True}), encoding="utf-8")
    (folder / "state/papers/job.json").unlink()


def nothing(_folder):
    pass


# What a newer program wrote; the exit code, words of the message, and whether all files stay as they are.
ROWS = [
    (nothing, 0, "done:", False),
    (journal, 17, "version of the segment is unknown", True),
    (manifest, 0, "it is made again from the journal", False),
    (run, 0, "format version 2 is not known; it is made again from the journal", False),
    (contents, 0, "it is made again from what is there", False),
    (settings, 2, "unknown field `rendering`", True),
    (job, 1, "unknown field `renders`", True),
]


def digests(folder):
    """All files but the locks."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.endswith("lock")]
    return {path.relative_to(folder): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def crawl(tools, cwd, *words):
    done = subprocess.run([tools.nephila, "crawl", *words], capture_output=True, text=True, timeout=CRAWL_S, cwd=cwd, check=False)
    return done.returncode, done.stdout + done.stderr


def judge(deployment, folder):
    """Complaints about folders of newer programs."""
    site = http.server.ThreadingHTTPServer((HOST, 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        go = functools.partial(crawl, deployment.tools, folder)
        code, told = go(f"http://{HOST}:{site.server_port}/", "-o", "first", "--set", "frontier.host_delay=50ms")
    finally:
        site.shutdown()
    if code:
        return [f"the crawl ended with {code}: {told}"]
    complaints = []
    for change, wanted, words, stays in ROWS:
        name = change.__name__
        copied = pathlib.Path(shutil.copytree(folder / "first", folder / name))
        change(copied)
        before = digests(copied)
        archived = {path: digest for path, digest in before.items() if path.parts[0] == "archive"}
        code, told = go("-o", name)
        after = digests(copied)
        if code != wanted or words not in told:
            complaints.append(f"{name} of a newer program: exit code {code}, {told[-400:]}")
        if stays and after != before or archived.items() - after.items():
            complaints.append(f"{name} of a newer program: files are changed")
    return complaints
