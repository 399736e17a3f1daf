"""Compares `nephila report links --broken` with lychee: the same links, the same verdicts.

Usage: links.py NEPHILA LYCHEE PAGES  Prints a line per check; exits 1 if one begins with FAIL.

A site of PAGES pages is served, with good links, with links that are broken in every way in which a visitor finds nothing,
and with links to another site. The truth is known from the list from which the pages are made. Nephila begins at the
first page and finds the rest itself; lychee, which does not follow links, gets the list. Both must call the same links
broken. Nephila must also name the pages that have the link, and its words.

One verdict differs on purpose: 401 and 403 say that we may not look, and a visitor may; lychee calls them broken.
"""

import collections
import html
import http.server
import json
import pathlib
import random
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree

FAILED = 0
SEED = 20261118
SECONDS_MAX = 300
# Nephila names at most this number of pages for a link.
PAGES_NAMED_MAX = 20

# What a link leads to, and whether a visitor finds nothing there.
KINDS = {
    "fine": False,
    "moved-fine": False,
    "moved-twice": False,
    "picture": False,
    "missing": True,
    "gone": True,
    "error": True,
    "moved-missing": True,
    "moved-gone-twice": True,
    "round": True,
    "no-location": True,
    "picture-missing": True,
}
REFUSED = ("forbidden", "login")


def say(is_right, text, lines=()):
    global FAILED
    FAILED += not is_right
    print(("ok    " if is_right else "FAIL  ") + text, flush=True)
    if not is_right:
        for line in list(lines)[:10]:
            print("      " + line)


class Web(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers by the path, which says what is found there: `/missing/7`."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        kind = self.path.split("/")[1]
        number = self.path.rsplit("/", 1)[-1]
        to = {
            "moved-fine": "/fine/",
            "moved-twice": "/moved-fine/",
            "moved-missing": "/missing/of-",
            "moved-gone-twice": "/moved-gone/",
            "moved-gone": "/gone/of-",
            "round": "/and-round/",
            "and-round": "/round/",
        }.get(kind)
        status = {"missing": 404, "gone": 410, "error": 500, "forbidden": 403, "login": 401, "picture-missing": 404,
                  "no-location": 302}.get(kind, 404)
        if kind == "silent":
            self.close_connection = True
        elif to:
            self.answer(302, b"", [("Location", to + number)])
        elif self.path in self.server.pages:
            self.answer(200, self.server.pages[self.path], [("Content-Type", "text/html; charset=utf-8")])
        elif kind == "fine":
            self.answer(200, b"<title>Fine</title>fine", [("Content-Type", "text/html; charset=utf-8")])
        elif kind == "picture":
            self.answer(200, b"GIF89a", [("Content-Type", "image/gif")])
        elif self.path == "/robots.txt":
            self.answer(404, b"", [])
        else:
            self.answer(status, b"<title>Sorry</title>", [("Content-Type", "text/html; charset=utf-8")])

    def answer(self, status, body, fields):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(address):
    web = Web((address, 0), Answers)
    web.pages = {}
    threading.Thread(target=web.serve_forever, daemon=True).start()
    return web, "http://%s:%d" % web.server_address


def closed_port():
    """A port of this machine where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Link(collections.namedtuple("Link", "target is_broken is_refused")):
    pass


def make(count, site, other, dead, pages):
    """Fills a site with pages. Returns the links by their target, and where each one stands with which words."""
    random.seed(SEED)
    links, places = {}, collections.defaultdict(dict)

    def link(page, target, is_broken, is_refused=False):
        words = "Words %d & more" % random.randrange(1000)
        links[target] = Link(target, is_broken, is_refused)
        places[target].setdefault(page, words)
        return '<a href="%s">%s</a>' % (html.escape(target), html.escape(words))

    for number in range(count):
        path = "/" if number == 0 else "/page/%d" % number
        page, body = site + path, []
        # A tree, so that a page is found only by the pages above it.
        for child in range(3 * number + 1, min(3 * number + 4, count)):
            body.append(link(page, site + "/page/%d" % child, False))
        for _ in range(4):
            base = random.choice((site, site, other))
            kind = random.choice(list(KINDS))
            target = "%s/%s/%d" % (base, kind, random.randrange(count // 4))
            if kind.startswith("picture"):
                links[target] = Link(target, KINDS[kind], False)
                places[target].setdefault(page, None)
                body.append('<img src="%s" alt="">' % target)
            else:
                body.append(link(page, target, KINDS[kind]))
        if number % 40 == 1:
            body.append(link(page, "%s/%s/%d" % (site, random.choice(REFUSED), number), False, True))
        if number % 60 == 2:
            body.append(link(page, "http://127.0.0.1:%d/%d" % (dead, number), True))
            body.append(link(page, site + "/silent/%d" % (number % 3), True))
        # These have no verdict.
        body.append('<a href="mailto:a@site.example">mail</a> <a href="javascript:void(0)">x</a> <a href="#top">top</a>')
        pages[path] = ("<!doctype html><title>Page %d</title>%s" % (number, "\n".join(body))).encode()
    return links, places


def crawl(nephila, site, ports, folder):
    command = [nephila, "crawl", site + "/", "--scope", "host", "--extra-hops", "1", "--page-requisites", "-q", "-o", folder,
               "--config", "/dev/null", "--contact", "a@b.example", "--delay", "0s", "--host-concurrency", "8", "--wait-max", "20s",
               "--set", 'spider.allow_addresses=["127.0.0.0/8"]', "--set", "spider.ports=[%s]" % ", ".join(map(str, ports))]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX)
    return done.returncode, (done.stdout + done.stderr).splitlines()


def broken_by_nephila(nephila, folder):
    """The broken links: their pages and the words of the links, by the report in JUnit's format."""
    command = [nephila, "report", "links", "--broken", "--format", "junit", "-o", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    cases = xml.etree.ElementTree.fromstring(done.stdout).iter("testcase")
    return done.returncode, {case.get("name"): case.find("failure").text or "" for case in cases}


def judged_by_lychee(lychee, links, folder):
    """The verdict of lychee on each link of the list."""
    listed = pathlib.Path(folder) / "links.txt"
    listed.write_text("\n".join(sorted(links)) + "\n")
    command = [lychee, "--no-progress", "--format", "json", "-vv", "--max-retries", "0", "--host-concurrency", "8",
               "--host-request-interval", "0ms", str(listed)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=SECONDS_MAX)
    said = json.loads(done.stdout)
    verdicts = {}
    for name, is_broken in (("success_map", False), ("error_map", True), ("timeout_map", True)):
        for found in said.get(name, {}).values():
            for one in found:
                verdicts.setdefault(one["url"], is_broken)
    return done.returncode, verdicts


def main():
    nephila, lychee, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    folder = tempfile.mkdtemp(prefix="links-")
    try:
        check(nephila, lychee, count, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if FAILED else 0)


def check(nephila, lychee, count, folder):
    (web, site), (outside, other), dead = serve("127.0.0.1"), serve("127.0.0.2"), closed_port()
    links, places = make(count, site, other, dead, web.pages)
    code, said = crawl(nephila, site, (web.server_port, outside.server_port, dead), folder + "/site")
    say(code == 24, "nephila crawls %d pages and finds %d links" % (count, len(links)), said)
    code, ours = broken_by_nephila(nephila, folder + "/site")
    say(code == 1, "nephila's report on broken links ends with 1, as there are some")
    code, theirs = judged_by_lychee(lychee, links, folder)
    say(set(theirs) == set(links), "lychee judges %d of %d links" % (len(theirs), len(links)), sorted(set(links) - set(theirs)))
    true = {link.target for link in links.values() if link.is_broken}
    refused = {link.target for link in links.values() if link.is_refused}
    listed = {url for url in ours if url in links}
    say(listed == true, "nephila calls %d of %d broken links broken, and %d others"
        % (len(listed & true), len(true), len(listed - true)), sorted(listed ^ true))
    differ = {url for url in links if (url in listed) != theirs.get(url)} - refused
    say(not differ, "lychee's verdict is another on %d links" % len(differ), sorted(differ))
    say(all(theirs.get(url) for url in refused), "lychee alone calls %d refused links broken" % len(refused))
    # Pages at which redirects end are no links of the site, and are named as well.
    ends = set(ours) - set(links)
    say(all("/of-" in url or "/and-round/" in url or "/moved-gone/" in url for url in ends),
        "%d more URLs are ends of redirects" % len(ends), sorted(ends))
    unnamed = []
    for url in sorted(true & listed):
        named = sum(page in ours[url] for page in places[url])
        spoken = sum(words is None or words in ours[url] for words in places[url].values())
        if min(named, spoken) < min(len(places[url]), PAGES_NAMED_MAX):
            unnamed.append("%s: %d pages, %d words of %d: %s" % (url, named, spoken, len(places[url]), ours[url][:300]))
    say(not unnamed, "nephila names the pages and words of %d broken links" % len(true), unnamed)
    print("links: %d pages, %d links, %d broken, %d verdicts differ from lychee's" % (count, len(links), len(true), len(differ)))


main()
