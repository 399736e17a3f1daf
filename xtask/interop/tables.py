"""Reads the tables of crawl folders with pyarrow and DuckDB, and runs queries as Common Crawl publishes them.

Usage: tables.py NEPHILA FOLDER...  Prints a line per check; exits 1 if one begins with FAIL.
"""

import gzip
import json
import pathlib
import subprocess
import sys

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


def run(base, script):
    return base.execute(script).fetchall()


def main():
    nephila, *folders = sys.argv[1:]
    for folder in folders:
        check(nephila, pathlib.Path(folder))
    sys.exit(failed > 0)


main()
