"""Asks `nephila serve --read-only` as other programs do, and judges the answers.

Usage: web.py NEPHILA LINES TIMES [FOLDER...]  Prints a line per check; exits 1 if one begins with FAIL.

A folder with an index of LINES captures is made: cdx_toolkit reads all its pages, over two indexes that share lines, and
every capture must come exactly once. A URL with 500 captures at random times is asked for at TIMES random times, as a
Memento client does (RFC 7089); the right capture is known from the list of times. Of each FOLDER, a crawl, every
capture is read by its time and compared with the record that warcio reads.
"""

import datetime
import http.client
import json
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.parse

import cdx_toolkit
from cdx_toolkit import myrequests
from warcio.archiveiterator import ArchiveIterator

FAILED = 0
SEED = 20261118
CAPTURES_OF_ONE = 500


def say(is_right, text):
    global FAILED
    FAILED += not is_right
    print(("ok    " if is_right else "FAIL  ") + text, flush=True)


class Server:
    """A server over a folder, on a free port."""

    def __init__(self, nephila, folder):
        self.process = subprocess.Popen(
            [nephila, "serve", "--read-only", "-o", folder, "--set", "api.listen=127.0.0.1:0"],
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if not found:
            raise SystemExit(f"FAIL  the server said {line!r}")
        self.port = int(found[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.process.stderr.close()

    def get(self, path, **fields):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in fields.items()})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body


def line(key, time, url, number):
    about = {"url": url, "mime": "text/html", "status": "200", "digest": "sha1:" + "A" * 32}
    about |= {"length": "1000", "offset": str(number), "filename": "x-20261114225809123-00000-n.warc.gz"}
    return f"{key} {time} {json.dumps(about)}\n"


def check_pages(nephila, count, folder):
    """All pages of a long index, by cdx_toolkit."""
    archive = folder / "archive"
    archive.mkdir(parents=True)
    names = random.Random(SEED).sample(range(10 * count), count)
    lines = sorted(line(f"test,site)/{n:09}", "20261114225809", f"http://site.test/{n:09}", n) for n in names)
    # Two indexes, one of which has a third of the other's lines once more: they count once.
    (archive / "a.cdxj").write_text("".join(lines[: count * 2 // 3]))
    (archive / "b.cdxj").write_text("".join(lines[count // 3 :]))
    # A pause between requests is for servers of others.
    myrequests.retry_info["default"]["minimum_interval"] = 0
    with Server(nephila, folder) as server:
        fetcher = cdx_toolkit.CDXFetcher(source=f"{server.url}/web/cdx")
        found = [capture["url"] for capture in fetcher.iter("*.site.test", pageSize=1 if count < 100000 else 5)]
        pages = json.loads(server.get("/web/cdx?url=*.site.test&showNumPages=true&pageSize=1")[1])["pages"]
    wanted = {f"http://site.test/{n:09}" for n in names}
    say(
        len(found) == count and set(found) == wanted,
        f"cdx_toolkit: {len(found)} lines, {len(set(found))} different, of {count}, in {pages} blocks",
    )
    say(pages > 2, f"the index has {pages} blocks: more than one page was needed")


def check_times(nephila, count, folder):
    """The capture nearest to random times."""
    archive = folder / "archive"
    archive.mkdir(parents=True)
    dice = random.Random(SEED)
    first = datetime.datetime(2019, 1, 1)
    times = sorted({first + datetime.timedelta(seconds=dice.randrange(8 * 365 * 86400)) for _ in range(CAPTURES_OF_ONE)})
    url = "http://site.test/often?a=1"
    records, lines, offset = [], [], 0
    for number, time in enumerate(times):
        block = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{number}"
        records.append(
            f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:n:{number}>\r\nWARC-Date: {time:%Y-%m-%dT%H:%M:%SZ}\r\n"
            f"WARC-Target-URI: {url}\r\nContent-Type: application/http;msgtype=response\r\n"
            f"Content-Length: {len(block)}\r\n\r\n{block}\r\n\r\n"
        )
        about = {"url": url, "mime": "text/plain", "status": "200", "length": str(len(records[-1]) - 4)}
        about |= {"offset": str(offset), "filename": "x.warc"}
        lines.append(f"test,site)/often?a=1 {time:%Y%m%d%H%M%S} {json.dumps(about)}\n")
        offset += len(records[-1])
    (archive / "x.warc").write_bytes("".join(records).encode())
    (archive / "x.cdxj").write_text("".join(lines))
    right = 0
    with Server(nephila, folder) as server:
        for _ in range(count):
            time = first + datetime.timedelta(seconds=dice.randrange(-(10**7), 9 * 365 * 86400))
            date = f"{time:%a, %d %b %Y %H:%M:%S} GMT"
            answer, _ = server.get(f"/web/{url}", Accept_Datetime=date)
            target = urllib.parse.urlsplit(answer.getheader("Location", ""))
            capture, body = server.get(f"{target.path}?{target.query}")
            away = min(abs(other - time) for other in times)
            stamped = datetime.datetime.strptime(capture.getheader("Memento-Datetime", ""), "%a, %d %b %Y %H:%M:%S GMT")
            right += (
                answer.status == 302
                and capture.status == 200
                and abs(stamped - time) == away
                and times[int(body)] == stamped
            )
        answer, body = server.get(f"/web/timemap/link/{url}")
        listed = body.decode().count('memento"; datetime=')
        links = answer.status == 200 and listed == len(times)
    say(right == count, f"Memento: {right} of {count} random times lead to the nearest of {len(times)} captures")
    say(links, f"TimeMap: {listed} of {len(times)} captures")


def check_folder(nephila, folder):
    """Every capture of a crawl, against warcio."""
    same, all_of_them, wrong = 0, 0, []
    with Server(nephila, folder) as server:
        for path in sorted((folder / "archive").glob("*.warc*")):
            if path.suffix == ".zst":
                continue
            with path.open("rb") as file:
                for record in ArchiveIterator(file, no_record_parse=False):
                    if record.rec_type != "response":
                        continue
                    url = record.rec_headers.get_header("WARC-Target-URI")
                    time = re.sub(r"\D", "", record.rec_headers.get_header("WARC-Date"))[:14]
                    stored = record.raw_stream.read()
                    status = record.http_headers.get_statuscode()
                    all_of_them += 1
                    answer, body = server.get(f"/web/{time}id_/{url}")
                    if (str(answer.status), body) == (status, stored):
                        same += 1
                    else:
                        wrong.append((url, time, status, answer.status, len(stored), len(body)))
    # Two captures of one URL within a second have one address.
    say(same > 0 and len(wrong) <= all_of_them // 100, f"{folder.name}: {same} of {all_of_them} captures as warcio reads them")
    for case in wrong[:5]:
        print("      ", case)


def main():
    nephila, lines, times, *folders = sys.argv[1:]
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        check_pages(nephila, int(lines), work / "pages")
        check_times(nephila, int(times), work / "times")
        for folder in folders:
            check_folder(nephila, pathlib.Path(folder))
    finally:
        shutil.rmtree(work)
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
