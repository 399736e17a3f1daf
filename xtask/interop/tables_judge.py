"""Compares the tables of a crawl with its archive and with the web that was crawled.

Usage: tables_judge.py CRAWL TRUTH  Exits 1 with a line for each kind of fault; the last line has the figures.

warcio reads the archive, pyarrow the tables; nothing of the crawler is used. TRUTH has a JSON object on each line: `url`
of a page that is to be captured, and its `links` or null.
"""

import collections
import datetime
import gzip
import json
import pathlib
import sys

import pyarrow.dataset
from warcio.archiveiterator import ArchiveIterator

FAULTS = []
SHOWN = 5


def fault(what, examples):
    examples = list(examples)
    if examples:
        FAULTS.append(f"FAIL {len(examples)} {what}: {examples[:SHOWN]}")


def millis(date):
    when = datetime.datetime.fromisoformat(date.replace("Z", "+00:00"))
    return int((when - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) / datetime.timedelta(milliseconds=1))


def archived(folder):
    """Captures by file and offset, and the links that their metadata records name."""
    captures, links, short = {}, collections.Counter(), set()
    for path in sorted(folder.glob("*.warc.gz")):
        by_id = {}
        with open(path, "rb") as file:
            records = ArchiveIterator(file)
            for record in records:
                head = record.rec_headers
                kind, url = record.rec_type, head.get_header("WARC-Target-URI")
                if kind in ("response", "revisit") and url.startswith("http"):
                    time = millis(head.get_header("WARC-Date"))
                    captures[path.name, records.get_record_offset()] = (url, time)
                    of_itself = kind == "revisit" and head.get_header("WARC-Refers-To-Target-URI") == url
                    by_id[head.get_header("WARC-Record-ID")] = (url, time, of_itself)
                elif kind == "metadata" and head.get_header("WARC-Concurrent-To") in by_id:
                    url, time, of_itself = by_id[head.get_header("WARC-Concurrent-To")]
                    for line in record.content_stream().read().decode().splitlines():
                        name, _, value = line.partition(": ")
                        if name == "outlink" and not of_itself:
                            target, _, place = value.split(" ", 2)
                            links[url, time, target, place] += 1
                        elif name == "outlinksOmitted":
                            short.add((url, time))
    return captures, links, short


def table(folder, name, columns):
    rows = pyarrow.dataset.dataset(folder / "table" / name, partitioning="hive").to_table(columns=columns)
    taken = [rows[column].cast("int64") if column == "fetch_time" else rows[column] for column in columns]
    return list(zip(*(column.to_pylist() for column in taken)))


def check_paths(crawl):
    """The path lists of a cluster name every stored file once."""
    if not (crawl / "paths").exists():
        return
    for names, folder, pattern in [
        (["warc"], "archive", "*.warc.gz"),
        (["cc-index"], "archive", "*.cdxj"),
        (["cc-index-table", "links"], "table", "**/*.parquet"),
    ]:
        lists = [path for name in names for path in sorted((crawl / "paths").glob(f"*/{name}.paths.gz"))]
        listed = [line.rsplit("/", 1)[1] for path in lists for line in gzip.open(path, "rt").read().splitlines()]
        # A part of a table has the same name in each subset.
        stored = [path.name for path in (crawl / folder).glob(pattern)]
        if sorted(listed) != sorted(stored):
            fault(f"differences between path lists and {folder}", set(listed) ^ set(stored) or [(len(listed), len(stored))])


def main():
    crawl, truth = map(pathlib.Path, sys.argv[1:])
    captures, outlinks, short = archived(crawl / "archive")

    seen = collections.Counter()
    statuses = collections.defaultdict(list)
    rows = table(crawl, "captures", ["warc_filename", "warc_record_offset", "url", "fetch_time", "fetch_status", "warc_type"])
    for name, offset, url, time, status, kind in rows:
        seen[name, offset] += 1
        statuses[url].append((status, time, kind))
        if captures.get((name, offset)) != (url, time):
            fault("rows that are no capture of the archive", [(name, offset, url, time)])
    fault("captures twice in the table", (key for key, count in seen.items() if count > 1))
    fault("captures that the table lacks", (value for key, value in captures.items() if key not in seen))

    found, texts = collections.Counter(), collections.defaultdict(dict)
    for source, time, target, place, kind, anchor in table(
        crawl, "links", ["source", "fetch_time", "target", "place", "kind", "anchor"]
    ):
        if (source, time) not in short:
            found[source, time, target, place] += 1
        if kind == "link":
            texts[source].setdefault(time, {})[target] = anchor
    fault("links that the archive names and the table lacks", (outlinks - found).keys())
    fault("links that only the table has", (key for key in (found - outlinks) if key[:2] not in short))

    pages = links = 0
    for line in truth.read_text().splitlines():
        page = json.loads(line)
        pages += 1
        if not any(status == 200 for status, _, _ in statuses[page["url"]]):
            fault("pages of the web without a row", [page["url"]])
        if page["links"] is None:
            continue
        wanted = set(page["links"])
        links += len(wanted)
        if wanted and not texts[page["url"]]:
            fault("pages of the web without links in the table", [page["url"]])
        for named in texts[page["url"]].values():
            if set(named) != wanted:
                fault("pages whose links differ from the web's", [(page["url"], set(named) ^ wanted)])
            if set(named.values()) - {"link"}:
                fault("links with another text than the web's", [(page["url"], set(named.values()))])

    check_paths(crawl)
    for line in FAULTS[:50]:
        print(line)
    print(
        f"{len(rows)} captures and {sum(found.values())} links in the tables, each once as in the archive; "
        f"{pages} pages and {links} links of the web are among them; {len(FAULTS)} faults"
    )
    sys.exit(bool(FAULTS))


main()
