"""Do public tools read what we wrote?

    interop.py ARCHIVE_TOOLS OTHER_TOOLS DIR...

The first two are folders of virtual environments, made by `cargo xtask interop`; each DIR has `archive` and `indexes`
in it. Prints a line per check and one of figures; exits with 1 if anything failed.

Known quirks of the tools, allowed for here:
- warcat complains about every revisit that has a payload digest, so as many complaints as revisits are expected;
- fastwarc with payload digests calls every revisit wrong, so only blocks are checked with it;
- a replayed 503 is a failure of pywb only if the capture was not a 503;
- pywb sends bodies as they are stored, so they are compared with the stored bytes, whatever their coding; only a coding
  whose name is not in lower case it undoes itself;
- Python's own client reads 100 fields of a head unless told otherwise.
"""

import glob
import gzip
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from urllib.parse import quote

from warcio.archiveiterator import ArchiveIterator

http.client._MAXHEADERS = 1000
TOOL_SECONDS = 300
START_SECONDS = 60
REPLAY_SECONDS = 60


class Check:
    """Counts and prints."""

    def __init__(self):
        self.checks = self.failed = self.captures = 0

    def say(self, good, what, detail=""):
        self.checks += 1
        self.failed += not good
        print(("ok    " if good else "FAIL  ") + what)
        if not good and detail:
            for line in detail.strip().splitlines()[-12:]:
                print("      " + line)


def run(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TOOL_SECONDS)
        return done.returncode, done.stdout + done.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)


def check_files(check, arch, misc, files):
    for path in files:
        name = os.path.basename(path)
        code, out = run(arch + "/warcio", "check", path)
        check.say(code == 0, "warcio check    " + name, out)
        code, out = run(arch + "/fastwarc", "check", "-q", path)
        check.say(code == 0, "fastwarc check  " + name, out)
        if path.endswith(".gz"):
            code, out = run("gzip", "-t", path)
            check.say(code == 0, "gzip -t         " + name, out)
        revisits = sum(record.rec_type == "revisit" for record in ArchiveIterator(open(path, "rb")))
        code, out = run(misc + "/python", "-m", "warcat", "verify", path)
        complaints = len(re.findall("VerifyProblem:", out))
        broken = re.search(r"KeyError|OSError|No module named", out)
        check.say(not broken and complaints <= revisits,
                  "warcat verify   %s (%d complaints, %d revisits)" % (name, complaints, revisits), out)


def load_index(lines):
    found = set()
    for line in lines:
        key, when, rest = line.split(" ", 2)
        d = json.loads(rest)
        found.add((key, when, d["url"], d["offset"], d["length"], d["filename"], d.get("status"),
                   d.get("digest", ""), d.get("mime")))
    return found


def check_index(check, arch, files, folder):
    code, out = run(arch + "/cdxj-indexer", "-s", *files)
    theirs = [line for line in out.splitlines() if re.match(r"\S+ \d{14} \{", line)]
    check.say(code == 0, "cdxj-indexer reads the archive", out)
    ours = []
    for path in sorted(glob.glob(folder + "/indexes/*.cdxj")):
        ours += open(path, "rb").read().splitlines()
    check.say(bool(ours) and ours == sorted(ours), "our index is sorted by bytes (%d lines)" % len(ours))
    a, b = load_index(line.decode() for line in ours), load_index(theirs)
    check.say(a == b, "our index is cdxj-indexer's (key, time, url, place, status, digest, type)",
              "\n".join(["only ours: %s" % (x,) for x in list(a - b)[:5]] + ["only theirs: %s" % (x,) for x in list(b - a)[:5]]))
    return theirs


def stored(files):
    """What each capture must replay as: bodies by payload digest, and status by place."""
    bodies, places = {}, {}
    for path in files:
        reader = ArchiveIterator(open(path, "rb"), no_record_parse=False)
        for record in reader:
            if record.rec_type not in ("response", "revisit"):
                continue
            digest = record.rec_headers["WARC-Payload-Digest"]
            status = record.http_headers.get_statuscode() if record.http_headers else None
            raw = record.raw_stream.read()
            if record.rec_type == "response":
                bodies.setdefault(digest, raw)
            offset = reader.get_record_offset()
            places[(os.path.basename(path), offset)] = (record.rec_type, status, digest)
    return bodies, places


def replay(check, arch, files, lines):
    bodies, places = stored(files)
    with tempfile.TemporaryDirectory() as home:
        for command in ([arch + "/wb-manager", "init", "c"], [arch + "/wb-manager", "add", "c"] + files):
            done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=TOOL_SECONDS)
            if done.returncode != 0:
                check.say(False, "pywb takes the archive", done.stdout + done.stderr)
                return
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        log = open(home + "/wayback.log", "wb")
        server = subprocess.Popen([arch + "/wayback", "-p", str(port), "-b", "127.0.0.1"], cwd=home,
                                  stdout=log, stderr=log)
        try:
            for _ in range(START_SECONDS * 4):
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.25)
            wrong = []
            for line in lines:
                _, when, rest = line.split(" ", 2)
                d = json.loads(rest)
                if not d["url"].startswith("http"):
                    continue
                check.captures += 1
                problem = replay_one(port, when, d, bodies, places)
                if problem:
                    wrong.append("%s %s: %s" % (when, d["url"], problem))
            check.say(not wrong, "pywb replays %d captures byte for byte" % check.captures, "\n".join(wrong))
        finally:
            server.terminate()
            server.wait()


def replay_one(port, when, d, bodies, places):
    kind, status, digest = places[(d["filename"], int(d["offset"]))]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REPLAY_SECONDS)
    try:
        connection.request("GET", "/c/%sid_/%s" % (when, quote(d["url"], safe="%/:?&=#[]@!$'()*+,;~")),
                           headers={"Accept-Encoding": "gzip, deflate, br, zstd"})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        return "no answer: %r" % error
    finally:
        connection.close()
    if status is not None and str(answer.status) != status:
        return "status %d, stored %s" % (answer.status, status)
    if kind == "revisit" and answer.status == 304:
        return "a revisit replays as 304"
    if not answer.getheader("Memento-Datetime"):
        return "status %d without Memento-Datetime" % answer.status
    if digest not in bodies:
        return "its payload %s is nowhere" % digest
    if body != bodies[digest] and body != unzipped(bodies[digest]):
        return "%d bytes, stored %d" % (len(body), len(bodies[digest]))
    return None


def unzipped(body):
    try:
        return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else None
    except (OSError, EOFError):
        return None


def main():
    arch, misc, folders = sys.argv[1] + "/bin", sys.argv[2] + "/bin", sys.argv[3:]
    check = Check()
    for folder in folders:
        folder = os.path.realpath(folder)
        files = sorted(glob.glob(folder + "/archive/*.warc.gz") + glob.glob(folder + "/archive/*.warc"))
        check.say(bool(files), "%s has %d WARC files" % (folder, len(files)))
        if not files:
            continue
        left = glob.glob(folder + "/archive/*.open")
        check.say(not left, "no file is still open", "\n".join(left))
        check_files(check, arch, misc, files)
        lines = check_index(check, arch, files, folder)
        replay(check, arch, files, lines)
    print("interop: %d checks, %d captures replayed, %d failed" % (check.checks, check.captures, check.failed))
    sys.exit(check.failed > 0)


main()
