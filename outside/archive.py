"""Reads the archive with warcio and fastwarc, and compares every capture with what the server sent.

Payload digests are computed here once more, from the bytes of the web and from those of the record; each line of an index
has to lead to its record, and each record to have its line.
"""

import base64
import collections
import hashlib
import json
import pathlib
import urllib.parse

import fastwarc.warc
from warcio.archiveiterator import ArchiveIterator

import pages
from graph import NEVER_WHOLE, PASSING

HASHES = {"sha1": hashlib.sha1, "sha256": hashlib.sha256, "md5": hashlib.md5}


def files(folder):
    """The archive's WARC files, open ones included."""
    found = pathlib.Path(folder, "archive").rglob("*.warc*")
    return sorted(path for path in found if ".cdxj" not in path.name)


def judge(web, folder, journal, verdict, is_whole=True):
    """All of it. `is_whole`: every wanted page has to have its capture."""
    captures, places = read(folder, verdict)
    records = sum(map(len, captures.values()))
    fast = count_fast(folder, verdict)
    verdict.count(captures=records, records_fastwarc=fast)
    for url, found in captures.items():
        for capture in found:
            compare(web, url, capture, verdict)
    index(folder, places, verdict)
    if is_whole:
        judge_whole(web, captures, journal, verdict)


def judge_whole(web, captures, journal, verdict):
    """Every wanted page has its capture, and none has more than it was asked for."""
    asked = collections.Counter(key[0] + key[1] for key, requests in journal.by_url.items() for _ in requests)
    for url, found in captures.items():
        if len(found) > asked[url]:
            verdict.fail("archive", f"{url} has {len(found)} captures and was asked for {asked[url]} times")
    for (origin, path), state in web.truth.items():
        page = web.hosts[origin].pages.get(path)
        if state != "wanted" or page.kind in NEVER_WHOLE:
            continue
        found = [one for one in captures.get(origin + path, ()) if not one["truncated"]]
        if page.kind in PASSING:
            found = [one for one in found if one["status"] == "200"]
        if not found:
            verdict.fail("archive", f"{origin}{path} ({page.kind}) has no whole capture")


def read(folder, verdict):
    """Captures by URL, and by file and offset."""
    captures, places, ids = collections.defaultdict(list), {}, set()
    for path in files(folder):
        try:
            with open(path, "rb") as stream:
                iterator = ArchiveIterator(stream, check_digests=True)
                for record in iterator:
                    fields = record.rec_headers
                    kind, url = record.rec_type, fields.get_header("WARC-Target-URI")
                    block = record.raw_stream.read() if kind in ("response", "revisit") else record.content_stream().read()
                    name = fields.get_header("WARC-Record-ID")
                    if name in ids:
                        verdict.fail("archive", f"{path.name}: record id {name} twice")
                    ids.add(name)
                    checker = getattr(record, "digest_checker", None)
                    if checker is not None and checker.passed is False:
                        verdict.fail("archive", f"{path.name}: warcio finds another digest for {kind} {url}")
                    if kind in ("response", "revisit"):
                        head = record.http_headers
                        captures[url].append({
                            "kind": kind, "body": block, "status": head.get_statuscode() if head else None,
                            "coding": (head.get_header("Transfer-Encoding") or "").lower() if head else "",
                            "digest": fields.get_header("WARC-Payload-Digest"),
                            "truncated": fields.get_header("WARC-Truncated"),
                        })
                        places[(path.name.removesuffix(".open"), iterator.get_record_offset())] = url
        except Exception as error:
            verdict.fail("archive", f"{path.name}: warcio cannot read it: {error!r}")
    return captures, places


def count_fast(folder, verdict):
    """The number of records that fastwarc finds."""
    count = 0
    for path in files(folder):
        try:
            with open(path, "rb") as stream:
                for record in fastwarc.warc.ArchiveIterator(stream, parse_http=False):
                    count += 1
                    if record.headers.get("WARC-Block-Digest") and not record.verify_block_digest():
                        verdict.fail("archive", f"{path.name}: fastwarc finds another block digest")
        except Exception as error:
            verdict.fail("archive", f"{path.name}: fastwarc cannot read it: {error!r}")
    return count


def compare(web, url, capture, verdict):
    """A capture is what the server sent, and its payload digest is the digest of just that."""
    parts = urllib.parse.urlsplit(url)
    host = web.hosts.get(f"{parts.scheme}://{parts.netloc}")
    if host is None:
        return verdict.fail("archive", f"{url} is of no host of this web")
    page = host.pages.get(url[len(host.origin):])
    if page is None or capture["status"] != "200" or page.kind.startswith("r-"):
        return None
    sent = pages.coded(page, pages.body(web, page))
    if capture["kind"] == "response":
        body = unchunked(capture["body"]) if "chunked" in capture["coding"] else capture["body"]
        if capture["truncated"]:
            if not sent.startswith(body):
                verdict.fail("archive", f"{url}: its truncated body is not how the page begins")
            return None
        if body != sent and page.kind != "broken":
            return verdict.fail("archive", f"{url} ({page.kind}): {len(body)} bytes, and {len(sent)} others were sent")
    if capture["truncated"] or page.kind == "broken":
        return None
    name, _, value = (capture["digest"] or "").partition(":")
    if name not in HASHES:
        return verdict.fail("archive", f"{url}: no payload digest that anybody knows: {capture['digest']}")
    digest = HASHES[name](sent).digest()
    if value.upper() not in (base64.b32encode(digest).decode().rstrip("="), digest.hex().upper()):
        verdict.fail("archive", f"{url}: payload digest {capture['digest']} is another one")
    verdict.count(digests=1)
    return None


def unchunked(data):
    """A body without its transfer coding."""
    out = []
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        if length == 0:
            break
        out.append(data[:length])
        data = data[length + 2:]
    return b"".join(out)


def index(folder, places, verdict):
    """Lines of the CDXJ files against the records."""
    lines = set()
    for path in pathlib.Path(folder, "archive").rglob("*.cdxj"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                lines.add(line)
    seen = set()
    for line in lines:
        try:
            entry = json.loads(line.split(" ", 2)[2])
            place = (pathlib.PurePath(entry["filename"]).name, int(entry["offset"]))
        except (IndexError, KeyError, ValueError) as error:
            verdict.fail("archive", f"an index has a line that cannot be read ({error!r}): {line[:100]}")
            continue
        seen.add(place)
        if places.get(place) != entry["url"]:
            verdict.fail("archive", f"an index leads to {places.get(place)} and says {entry['url']}")
    for place in places.keys() - seen:
        verdict.fail("archive", f"{places[place]} in {place[0]} at {place[1]} stands in no index")
    merged = pathlib.Path(folder, "indexes", "index.cdxj")
    if merged.exists():
        found = [line for line in merged.read_text(encoding="utf-8").splitlines() if line.strip()]
        if found != sorted(found):
            verdict.fail("archive", "the merged index is not sorted")
        if set(found) != lines:
            verdict.fail("archive", f"the merged index has {len(set(found))} lines, its parts have {len(lines)}")
    verdict.count(index_lines=len(lines))
