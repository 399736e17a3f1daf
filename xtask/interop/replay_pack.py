"""What is in a WACZ file, and WACZ files with faults, to see that each check can fail."""

import gzip
import hashlib
import io
import json
import os
import shutil
import zipfile

PIECE = 1 << 20
INDEX_LINES = 3000


def sha256(file):
    found = hashlib.sha256()
    while piece := file.read(PIECE):
        found.update(piece)
    return "sha256:" + found.hexdigest()


def judge(package, folder, site):
    """What is wrong with a package of a crawl of the whole site, in words; and the number of captures."""
    wrong = []
    with zipfile.ZipFile(package) as pack:
        for info in pack.infolist():
            if info.compress_type != zipfile.ZIP_STORED:
                wrong.append("%s is compressed" % info.filename)
        described = {it["path"]: it for it in json.loads(pack.read("datapackage.json"))["resources"]}
        archive = os.path.join(folder, "archive")
        files = sorted(name for name in os.listdir(archive) if name.endswith(".warc.gz"))
        packed = sorted(name[len("archive/"):] for name in pack.namelist() if name.startswith("archive/"))
        if files != packed:
            wrong.append("archive files %s, packed %s" % (files, packed))
        for name in set(files) & set(packed):
            with open(os.path.join(archive, name), "rb") as file, pack.open("archive/" + name) as entry:
                hashes = {sha256(file), sha256(entry), described["archive/" + name]["hash"]}
            if len(hashes) != 1:
                wrong.append("%s is not as the crawl wrote it" % name)

        pages = [json.loads(line) for line in pack.read("pages/pages.jsonl").splitlines()[1:]]
        found = {page["url"]: page["title"] for page in pages}
        wanted = site.html_pages()
        wrong += ["pages.jsonl lacks %s" % url for url in wanted.keys() - found.keys()]
        wrong += ["pages.jsonl has %s" % url for url in found.keys() - wanted.keys()]
        wrong += ["title of %s: %r" % (url, title) for url, title in found.items() if wanted.get(url, title) != title]
        if len(pages) != len(found):
            wrong.append("%d lines of pages for %d URLs" % (len(pages), len(found)))
        if [page["url"] for page in pages if page.get("seed")] != [site.page(0)]:
            wrong.append("the seed is not marked")

        lines = index(pack)
        if lines != sorted(lines):
            wrong.append("the index is not sorted")
        wrong += blocks(pack)
        captured = {fields["url"]: int(fields["status"]) for line in lines for fields in [fields_of(line)]
                    if fields["mime"] != "warc/revisit" or "status" in fields}
        wrong += ["the index lacks %s" % url for url, status in site.all().items() if captured.get(url) != status]
    return wrong, len(lines)


def index(pack):
    return gzip.decompress(pack.read("indexes/index.cdx.gz")).splitlines()


def fields_of(line):
    return json.loads(line.split(b" ", 2)[2])


def blocks(pack):
    """What is wrong with the index of the index."""
    whole, wrong, at = pack.read("indexes/index.cdx.gz"), [], 0
    for line in pack.read("indexes/index.idx").splitlines()[1:]:
        key, place = line.split(b" {", 1)
        place = json.loads(b"{" + place)
        block = whole[place["offset"]:place["offset"] + place["length"]]
        if place["offset"] != at or place["digest"] != "sha256:" + hashlib.sha256(block).hexdigest():
            wrong.append("the index has another block at %d" % place["offset"])
        elif not gzip.decompress(block).startswith(key + b" {"):
            wrong.append("the block at %d begins with another key" % at)
        at += place["length"]
    return wrong + ([] if at == len(whole) else ["the index of the index ends at %d of %d" % (at, len(whole))])


def edited(package, to, edits, more=()):
    """Writes the package again, with entries changed by functions, and with more entries. The description fits."""
    with zipfile.ZipFile(package) as pack, zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as out:
        description = json.loads(pack.read("datapackage.json"))
        for resource in description["resources"]:
            path = resource["path"]
            if path not in edits:
                info = zipfile.ZipInfo(path)
                # Told in advance, or there are fields for long entries that ReplayWeb.page does not expect.
                info.file_size = pack.getinfo(path).file_size
                with pack.open(path) as entry, out.open(info, "w") as copy:
                    shutil.copyfileobj(entry, copy, PIECE)
                continue
            body = edits[path](pack.read(path))
            resource["bytes"] = len(body)
            resource["hash"] = sha256(io.BytesIO(body))
            out.writestr(path, body)
        for path, body in dict(more).items():
            resource = {"name": path.split("/")[-1], "path": path, "hash": sha256(io.BytesIO(body)), "bytes": len(body)}
            description["resources"].append(resource)
            out.writestr(path, body)
        description = json.dumps(description).encode()
        out.writestr("datapackage.json", description)
        digest = {"path": "datapackage.json", "hash": sha256(io.BytesIO(description))}
        out.writestr("datapackage-digest.json", json.dumps(digest))


def with_lines(package, to, change, more=()):
    """Writes the package again with other index lines, and everything else right."""
    with zipfile.ZipFile(package) as pack:
        lines = sorted(change(index(pack)))
    whole, places = b"", [b'!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n']
    for first in range(0, len(lines), INDEX_LINES):
        part = lines[first:first + INDEX_LINES]
        block = gzip.compress(b"".join(line + b"\n" for line in part), mtime=0)
        place = {"offset": len(whole), "length": len(block), "digest": sha256(io.BytesIO(block))}
        places.append(part[0].split(b" {")[0] + b" " + json.dumps(place).encode() + b"\n")
        whole += block
    edits = {"indexes/index.cdx.gz": lambda _: whole, "indexes/index.idx": lambda _: b"".join(places)}
    edited(package, to, edits, more=more)


def without_url(package, to, url):
    """A package that has lost the index line of a URL: nobody finds the record."""
    with_lines(package, to, lambda lines: [line for line in lines if fields_of(line)["url"] != url])


def with_other_body(package, to, url, other):
    """A package in which a URL has the answer of another one, and everything fits: only what it looks like is wrong."""
    with zipfile.ZipFile(package) as pack:
        found = next(it for it in map(fields_of, index(pack)) if it["url"] == other)
        with pack.open("archive/" + found["filename"]) as entry:
            entry.seek(int(found["offset"]))
            record = entry.read(int(found["length"]))
    forged = gzip.compress(gzip.decompress(record).replace(other.encode(), url.encode(), 1), mtime=0)
    place = {"url": url, "offset": "0", "length": str(len(forged)), "filename": "forged.warc.gz"}

    def change(lines):
        for line in lines:
            if fields_of(line)["url"] == url:
                line = line.split(b" {")[0] + b" " + json.dumps({**found, **place}).encode()
            yield line

    with_lines(package, to, change, {"archive/forged.warc.gz": forged})


def cut(package, to):
    """A package whose index ends too early, with a description that fits."""
    edited(package, to, {"indexes/index.cdx.gz": lambda body: body[:len(body) // 2]})


def with_flipped_bit(package, to):
    """A package with one wrong bit in the middle of an archive file."""
    shutil.copyfile(package, to)
    with zipfile.ZipFile(to) as pack:
        info = next(info for info in pack.infolist() if info.filename.startswith("archive/"))
    with open(to, "r+b") as file:
        file.seek(info.header_offset + info.file_size // 2)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def without_page(package, to, url):
    """A package whose list of pages lacks one."""
    keep = lambda line: b'"%s"' % url.encode() not in line
    change = lambda body: b"".join(line for line in body.splitlines(True) if keep(line))
    edited(package, to, {"pages/pages.jsonl": change})
