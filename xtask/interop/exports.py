"""Judges `nephila export warc`, `wet` and `wat` of crawl folders with warcio.

Usage: exports.py NEPHILA FOLDER...  Prints a line per check; exits 1 if one begins with FAIL.
"""

import base64
import collections
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from warcio.archiveiterator import ArchiveIterator

FAILED = 0


def say(is_right, text):
    global FAILED
    FAILED += not is_right
    print(("ok    " if is_right else "FAIL  ") + text, flush=True)


def records(path):
    """The records of a file: id, type, header fields, HTTP fields, block."""
    with path.open("rb") as file:
        for record in ArchiveIterator(file):
            http = record.http_headers
            yield (
                record.rec_headers.get_header("WARC-Record-ID"),
                record.rec_type,
                record.rec_headers,
                http,
                record.raw_stream.read(),
            )


def archive(folder):
    """The records of all closed files that warcio reads and that hold captures."""
    for path in sorted((folder / "archive").iterdir()):
        if path.name.endswith((".warc.gz", ".warc")) and "-extract-" not in path.name:
            yield from records(path)


def export(nephila, folder, to, kind, *more):
    done = subprocess.run([nephila, "export", kind, "-q", "-o", folder, "--to", to, *more], check=False)
    return done.returncode


def has_words(page):
    """Whether a page shows words, by a rough look: without scripts, comments and tags."""
    text = page.decode("latin-1")
    for hidden in (r"<!--.*?(-->|$)", r"<(script|style|title|head|svg|template|noscript)\b.*?(</\1|$)", r"<[^>]*(>|$)"):
        text = re.sub(hidden, " ", text, flags=re.DOTALL | re.IGNORECASE)
    return re.search(r"[A-Za-z]{3}", re.sub(r"&\w+;", " ", text)) is not None


def sha1(block):
    return "sha1:" + base64.b32encode(hashlib.sha1(block).digest()).decode()


def check(nephila, folder, work):
    whole, kept = work / "whole.warc.gz", work / "kept.warc.gz"
    say(export(nephila, folder, whole, "warc") == 0, f"{folder.name}: export warc")
    say(export(nephila, folder, kept, "warc", "--keep-revisits") == 0, f"{folder.name}: export warc --keep-revisits")
    answers = {"response", "revisit"}
    captured = {name for name, kind, *_ in archive(folder) if kind in answers}
    named = ("WARC-Concurrent-To", "WARC-Refers-To")

    def wanted(name, head):
        return name in captured or any(head.get_header(field) in captured for field in named)

    before = {name: (kind, block) for name, kind, head, _, block in archive(folder) if wanted(name, head)}
    after = {name: (kind, block) for name, kind, head, _, block in records(kept) if wanted(name, head)}
    say(before == after and captured, f"{folder.name}: {len(after)} records of {len(captured)} captures, each as stored")
    kinds = collections.Counter(kind for _, kind, *_ in records(whole))
    resolved = {name: (head, block) for name, kind, head, _, block in records(whole) if before.get(name, ("",))[0] == "revisit"}
    digests = sum(sha1(block) == head.get_header("WARC-Payload-Digest") for head, block in resolved.values())
    revisits = sum(kind == "revisit" for kind, _ in before.values())
    say(
        kinds["revisit"] + digests == revisits and (digests > 0 or revisits == 0),
        f"{folder.name}: {digests} of {revisits} revisits have the body of their digest, {kinds['revisit']} are as stored",
    )
    checked = subprocess.run([sys.executable, "-m", "warcio.cli", "check", whole], capture_output=True, text=True)
    say(checked.returncode == 0, f"{folder.name}: warcio check {(checked.stdout + checked.stderr).strip()[:200]!r}")
    pages = {
        name
        for name, kind, _, http, block in archive(folder)
        if kind == "response" and http and http.get_statuscode() == "200" and b"<html" in block[:1000].lower()
    }
    wet, wat = work / "x.warc.wet.gz", work / "x.warc.wat.gz"
    export(nephila, folder, wet, "wet")
    export(nephila, folder, wat, "wat")
    texts = {head.get_header("WARC-Refers-To"): block for _, kind, head, _, block in records(wet) if kind == "conversion"}
    said = {head.get_header("WARC-Refers-To"): json.loads(block) for _, kind, head, _, block in records(wat) if kind == "metadata"}
    responses = {name for name, (kind, _) in before.items() if kind == "response"}
    say(len(texts) > 0 and set(texts) <= responses, f"{folder.name}: wet: {len(texts)} texts, {len(pages)} pages of plain HTML")
    blocks = {name: block for name, (_, block) in before.items()}
    missing = [name for name in pages - set(texts) if has_words(blocks[name])]
    say(not missing, f"{folder.name}: wet: {len(missing)} of {len(pages)} plain HTML pages with words have no text")
    say(set(said) == responses, f"{folder.name}: wat: {len(said)} of {len(responses)} responses")
    status = sum(
        it["Envelope"]["Payload-Metadata"]["HTTP-Response-Metadata"]["Response-Message"]["Status"] is not None
        for it in said.values()
    )
    say(status == len(said), f"{folder.name}: wat: {status} of {len(said)} have a status")


def main():
    nephila, *folders = sys.argv[1:]
    for folder in folders:
        with tempfile.TemporaryDirectory() as work:
            check(nephila, pathlib.Path(folder), pathlib.Path(work))
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
