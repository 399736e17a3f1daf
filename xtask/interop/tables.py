"""Reads the tables of crawl folders with pyarrow and DuckDB, and runs queries as Common Crawl publishes them. Then makes a
WACZ file of each folder: py-wacz judges it, and the index inside is compared with the folder's.

Usage: tables.py NEPHILA WACZ FOLDER...  Prints a line per check; exits 1 if one begins with FAIL. WACZ is py-wacz.
"""

import gzip
import json
import pathlib
import subprocess
import sys
import zipfile

import duckdb
import pyarrow.dataset
import pyarrow.parquet

# From the examples of the repository commoncrawl/cc-index-table, unchanged. The crawl that they name is the folder that
# the caller made.
CRAWL = "CC-MAIN-2018-05"
QUERIES = {
    "count-by-partition": """
SELECT COUNT(*) as n_captures,
       crawl,
       subset
FROM "ccindex"."ccindex"
GROUP BY crawl, subset;""",
    "count-by-tld-page-host-domain": """
SELECT COUNT(*) AS n_pages,
       url_host_tld AS tld,
       COUNT(DISTINCT url_host_name) AS n_hosts,
       COUNT(DISTINCT url_host_registered_domain) AS n_domains
FROM "ccindex"."ccindex"
WHERE crawl = 'CC-MAIN-2018-05'
  AND subset = 'warc'
GROUP BY  url_host_tld
ORDER BY  n_pages DESC;""",
    "count-fetch-status": """
SELECT COUNT(*) as count,
       fetch_status
FROM "ccindex"."ccindex"
WHERE crawl = 'CC-MAIN-2018-05'
  AND subset = 'crawldiagnostics'
GROUP BY  fetch_status
ORDER BY  count DESC;""",
    "compare-mime-type-http-vs-detected": """
SELECT COUNT(*) as n_pages,
       content_mime_type,
       content_mime_detected
FROM "ccindex"."ccindex"
WHERE crawl = 'CC-MAIN-2018-05'
  AND subset = 'warc'
GROUP BY content_mime_type,
         content_mime_detected
ORDER BY n_pages DESC;""",
}

failed = 0


def say(is_right, text):
    global failed
    failed += not is_right
    print(("ok   " if is_right else "FAIL ") + text)


def indexed(folder):
    """The captures of a folder by its CDXJ index: URL, offset, file."""
    found = []
    for line in (folder / "indexes/index.cdxj").read_text().splitlines():
        fields = json.loads(line.split(" ", 2)[2])
        if fields["url"].startswith("http"):
            found.append((fields["url"], int(fields["offset"]), int(fields["length"]), fields["filename"]))
    return sorted(found)


def check(nephila, folder):
    subprocess.run([nephila, "export", "parquet", "--quiet", "-o", folder], check=True)
    tables = folder / "table"
    captures = pyarrow.dataset.dataset(tables / "captures", partitioning="hive").to_table()
    columns = ["url", "warc_record_offset", "warc_record_length", "warc_filename"]
    rows = sorted(zip(*(captures[name].to_pylist() for name in columns)))
    say(rows == indexed(folder), f"{folder.name}: pyarrow reads {len(rows)} captures, those of the index")
    url, offset, length, name = next(row for row in rows if row[3].endswith(".gz"))
    with open(folder / "archive" / name, "rb") as file:
        file.seek(offset)
        record = gzip.decompress(file.read(length))
    say(f"WARC-Target-URI: {url}\r\n".encode() in record, f"{folder.name}: a row leads to its record")
    links = pyarrow.dataset.dataset(tables / "links", partitioning="hive").to_table()

    said = subprocess.run(
        [nephila, "sql", "--print", "SELECT count(*) FROM links", "-o", folder], check=True, capture_output=True, text=True
    ).stdout
    script = said.removeprefix("duckdb -c '").removesuffix("'\n").replace("'\\''", "'")
    base = duckdb.connect()
    count = run(base, script)
    say(count == [(links.num_rows,)], f"{folder.name}: DuckDB reads {links.num_rows} links")
    for name, query in QUERIES.items():
        result = run(base, query)
        is_ours = folder.name == CRAWL
        is_right = bool(result) or not is_ours
        say(is_right, f"{folder.name}: {name}: {len(result)} rows")


def check_wacz(nephila, wacz, folder):
    path = folder.with_suffix(".wacz")
    subprocess.run([nephila, "export", "wacz", "--quiet", "-o", folder, "--to", path], check=True)
    judged = subprocess.run([wacz, "validate", "-f", path], capture_output=True, text=True)
    text = judged.stdout + judged.stderr
    say(judged.returncode == 0 and "Invalid" not in text, f"{folder.name}: py-wacz validates {path.name} {text.strip()!r}")
    with zipfile.ZipFile(path) as package:
        say(package.testzip() is None, f"{folder.name}: every entry has its checksum")
        blocks = package.read("indexes/index.cdx.gz")
        lines = []
        for block in package.read("indexes/index.idx").decode().splitlines()[1:]:
            key, _, place = block.partition(" {")
            place = json.loads("{" + place)
            some = gzip.decompress(blocks[place["offset"] : place["offset"] + place["length"]]).decode().splitlines()
            say(some[0].startswith(key + " {"), f"{folder.name}: a block of the index begins with its key")
            lines += some
        say(
            lines == (folder / "indexes/index.cdxj").read_text().splitlines(),
            f"{folder.name}: {len(lines)} lines of the index are those of the folder",
        )
        pages = [json.loads(line) for line in package.read("pages/pages.jsonl").decode().splitlines()]
        is_titled = any(page.get("title") for page in pages[1:])
        say(len(pages) > 1 and is_titled, f"{folder.name}: {len(pages) - 1} pages, with titles")


def run(base, script):
    return base.execute(script).fetchall()


def main():
    nephila, wacz, *folders = sys.argv[1:]
    for folder in folders:
        check(nephila, pathlib.Path(folder))
        check_wacz(nephila, wacz, pathlib.Path(folder))
    sys.exit(failed > 0)


main()
