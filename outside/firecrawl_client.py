"""Judges /v2 with the public client of Firecrawl, unmodified: `firecrawl_client.py NEPHILA TESTWEB`.

Written from the client and from docs/api.md. The test web is on loopback; a node that was begun with `nephila serve --new`
scrapes, maps and crawls it through the client. What the client gets is compared with the pages as this script reads them
itself, and with the journal of the web: which pages were asked for, and how soon after each other. Ends with one line of
figures; a complaint is a line that begins with FAIL.
"""

import asyncio
import collections
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

import requests
from firecrawl import AsyncFirecrawl, Firecrawl
from firecrawl.v2.types import PaginationConfig
from firecrawl.v2.utils.error_handler import (BadRequestError, FirecrawlError, RequestTimeoutError, UnauthorizedError,
                                              WebsiteNotSupportedError)

# Any address of the web's block serves every host.
ADDRESS = "127.77.0.1"
JUDGE = "judge"
DELAY_MS = 50
WAIT_S = 60
# By docs/api.md, a longer answer comes in pages of this many.
PAGES_OF_ANSWER = 25
TOKENS = {"read": "read-token-of-the-judge-0123456789", "operate": "operate-token-of-the-judge-0123456789"}


class Verdict:
    def __init__(self):
        self.checks, self.failed = 0, 0

    def __call__(self, is_so, what):
        self.checks += 1
        if not is_so:
            self.failed += 1
            print("FAIL  " + what, flush=True)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Web:
    """The test web, and what it has by its own word."""

    def __init__(self, testweb, work):
        self.testweb, self.settings, self.journal = testweb, work / "web.json", work / "journal"
        settings = json.loads(subprocess.run([testweb, "settings"], capture_output=True, check=True).stdout)
        settings.update(hosts=6, pages=110, hosts_per_domain=2, private_share=0.2, redirect_share=0.1, error_share=0.05,
                        sitemap_share=1.0, page_bytes=6000, addresses=2, http_port=free_port())
        settings["robots"].update(private=0.6)
        self.settings.write_text(json.dumps(settings))
        command = [testweb, "serve", "--settings", self.settings, "--journal", self.journal]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = json.loads(self.process.stdout.readline())
        self.port = self.ready["http_port"]
        listed = subprocess.run([testweb, "list", "--settings", self.settings], capture_output=True, text=True, check=True)
        self.hosts = collections.defaultdict(list)
        for url in listed.stdout.split():
            host, path = re.fullmatch(r"https?://([^/:]+)(?::\d+)?(/.*)", url).groups()
            self.hosts[host].append(path)

    def url(self, host, path="/"):
        return f"http://{host}:{self.port}{path}"

    def get(self, host, path):
        connection = http.client.HTTPConnection(ADDRESS, self.port, timeout=20)
        connection.request("GET", path, headers={"Host": f"{host}:{self.port}", "User-Agent": JUDGE})
        answer = connection.getresponse()
        body = answer.read().decode("utf-8", "replace")
        connection.close()
        return answer.status, answer.headers, body

    def truth(self, host, seed="/"):
        """Paths of a crawl of a host by how they end."""
        command = [self.testweb, "truth", "--settings", self.settings, "--start", self.url(host, seed), "--scope", host,
                   "--sitemaps"]
        ends = collections.defaultdict(set)
        for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
            end, _, url = line.partition("\t")
            found = re.fullmatch(r"https?://([^/:]+)(?::\d+)?(/.*)", url.strip())
            if found and found[1] == host:
                ends[re.sub(r"\W.*", "", end)].add(found[2])
        return ends

    def end(self):
        """The requests of others than the judge."""
        self.process.stdin.close()
        self.process.wait(30)
        lines = map(json.loads, self.journal.read_text().splitlines())
        return [line for line in lines if line["event"] == "request" and line["user_agent"] != JUDGE]


class Node:
    """`nephila serve --new`, until the end of the block."""

    def __init__(self, nephila, web, work, name, *settings):
        self.port, self.log = free_port(), work / f"{name}.log"
        self.url = f"http://127.0.0.1:{self.port}"
        command = [nephila, "serve", "--new", "-o", work / name, "--set", f'api.listen="127.0.0.1:{self.port}"']
        for setting in (f'spider.dns_servers=["{web.ready["dns"]}"]', 'spider.allow_addresses=["127.0.0.0/8"]',
                        f"spider.ports=[{web.port}]", f'frontier.host_delay="{DELAY_MS}ms"', "frontier.host_delay_factor=0",
                        f'frontier.slot_delay="{DELAY_MS}ms"', *settings):
            command += ["--set", setting]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log.open("wb"), stderr=subprocess.STDOUT)
        end = time.monotonic() + WAIT_S
        while True:
            try:
                requests.get(self.url + "/livez", timeout=5)
                return
            except requests.RequestException:
                if self.process.poll() is not None or time.monotonic() > end:
                    sys.exit("FAIL  the node does not begin: " + self.log.read_text()[-2000:])
                time.sleep(0.1)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def raised(call):
    """The error of a call; None if there is none."""
    try:
        call()
    except Exception as error:
        return error
    return None


def pages_of(ends):
    """The paths of pages: a sitemap is none."""
    return {path for path in ends["Page"] if not path.startswith("/sitemap")}


def scrape(check, web, client, open_host, private_host):
    host, path = open_host, sorted(pages_of(web.truth(open_host)) - {"/"})[0]
    _, _, body = web.get(host, path)
    words = set(re.findall(r"\b\d{6,}\b", re.sub(r"<[^>]+>", " ", body)))
    title = re.search(r"<title>(.*?)</title>", body)[1]
    began = time.monotonic()
    page = client.scrape(web.url(host, path), formats=["markdown", "html", "rawHtml", "links"], only_main_content=False)
    took = time.monotonic() - began
    check(page.metadata.status_code == 200 and page.metadata.title == title, f"title and status: {page.metadata}")
    check(page.metadata.source_url == web.url(host, path) and page.metadata.cache_state == "miss", "where it is from")
    check(page.metadata.language == "en", f"the language {page.metadata.language}")
    check(page.raw_html == body, "the raw page is the page")
    check(words <= set(re.findall(r"\b\d{6,}\b", page.markdown)), "the whole text is in the Markdown")
    check("<script" not in page.html and "<h1>" in page.html, "the HTML is plain")
    hrefs = {urllib.parse.urljoin(web.url(host, path), href).split("#")[0] for href in re.findall(r'<a href="([^"]+)"', body)}
    # A page is no link of itself.
    links = {link.split("#")[0] for link in page.links} | {web.url(host, path)}
    check(links == hrefs | {web.url(host, path)}, f"the links: {hrefs ^ links}")
    main = client.scrape(web.url(host, path))
    check(main.markdown and main.raw_html is None and main.links is None, "Markdown is the usual format")
    check(main.metadata.cache_state == "hit", "a young capture is given again")
    # Captures have whole seconds.
    time.sleep(2)
    fresh = client.scrape(web.url(host, path), max_age=0)
    check(fresh.metadata.cache_state == "miss", "max_age=0 fetches")
    moved = sorted(web.truth(host)["Redirect"])[0]
    page = client.scrape(web.url(host, moved), formats=["rawHtml"])
    check(page.metadata.url != page.metadata.source_url, f"a redirect is followed: {page.metadata.url}")
    gone = sorted(web.truth(host)["Error"])
    if gone:
        page = client.scrape(web.url(host, gone[0]))
        check(page.metadata.status_code >= 400, f"a page with an error has its status: {page.metadata.status_code}")
    private = next(path for path in web.hosts[private_host] if path.startswith("/private/"))
    error = raised(lambda: client.scrape(web.url(private_host, private)))
    check(isinstance(error, WebsiteNotSupportedError) and "robots.txt" in str(error), f"robots.txt forbids: {error!r}")
    error = raised(lambda: client.scrape("http://nobody.test/", timeout=20_000))
    check(isinstance(error, FirecrawlError) and "nobody.test" in str(error), f"a name that does not exist: {error!r}")
    error = raised(lambda: client.scrape("http://127.0.0.1:9/"))
    check(error is not None, f"a closed port: {error!r}")
    for wrong in ({"formats": ["screenshot"]}, {"actions": [{"type": "wait", "milliseconds": 9}]}, {"mobile": True},
                  {"wait_for": 500}, {"headers": {"X": "y"}}, {"store_in_cache": False}):
        error = raised(lambda: client.scrape(web.url(host), **wrong))
        name = "screenshot" if "formats" in wrong else re.sub(r"_(.)", lambda found: found[1].upper(), next(iter(wrong)))
        check(isinstance(error, BadRequestError) and name in str(error), f"{wrong} is refused by name: {error!r}")
    error = raised(lambda: client.scrape("mailto:a@b.test"))
    check(isinstance(error, BadRequestError), f"no URL: {error!r}")
    return took


def crawl(check, web, client, host, is_new=False):
    """A crawl of a host; `is_new` says that none of its errors is known from before."""
    truth = web.truth(host)
    pages = {web.url(host, path) for path in pages_of(truth)}
    began = time.monotonic()
    job = client.crawl(web.url(host), limit=500, crawl_entire_domain=True, poll_interval=1, timeout=WAIT_S * 3,
                       scrape_options={"formats": ["markdown", "links"]})
    took = time.monotonic() - began
    found = {page.metadata.source_url for page in job.data}
    check(job.status == "completed", f"the crawl is {job.status}")
    check(found == pages, f"pages of the crawl: missing {sorted(pages - found)[:5]}, too many {sorted(found - pages)[:5]}")
    check(len(job.data) == len(found) == job.completed, f"each page once: {len(job.data)}, {len(found)}, {job.completed}")
    check(all(page.markdown and page.links is not None for page in job.data), "each page has what was wanted")
    errors = client.get_crawl_errors(job.id)
    denied = {web.url(host, path) for path in truth["Disallowed"]}
    check(set(errors.robots_blocked) <= denied, f"robots.txt forbids {errors.robots_blocked}, not {denied}")
    failed = {web.url(host, path) for path in truth["Error"]}
    check({error.url for error in errors.errors} <= failed, f"errors {[error.url for error in errors.errors]}, not {failed}")
    if is_new:
        check(denied, "the host has pages that robots.txt forbids")
        missing = denied - set(errors.robots_blocked)
        check(not missing, f"robots.txt forbids {missing} too")
        check(errors.errors or not failed, f"no errors, and not {failed}")
    one = client.get_crawl_status(job.id, pagination_config=PaginationConfig(auto_paginate=False))
    if len(pages) > PAGES_OF_ANSWER:
        check(one.next is not None and len(one.data) < len(pages), "a long answer comes in pages")
    error = client.cancel_crawl(job.id)
    check(error is False, f"a crawl that has ended is not cancelled: {error}")
    status = client.get_crawl_status(job.id, pagination_config=PaginationConfig(auto_paginate=False)).status
    check(status == "completed", f"a crawl that has ended stays so: {status}")
    return took, len(pages), job.id


def limited(check, web, client, host):
    seed = "/"
    job = client.crawl(web.url(host, seed), limit=3, crawl_entire_domain=True, poll_interval=1, timeout=WAIT_S)
    check(job.status == "completed" and len(job.data) == 3, f"the limit: {job.status}, {len(job.data)} pages")
    begun = client.start_crawl(web.url(host, seed), crawl_entire_domain=True, exclude_paths=["^/p/.*"])
    check(begun.id and begun.url.endswith(begun.id), f"begun: {begun}")
    for wrong in ({"ignore_robots_txt": True}, {"allow_external_links": True}, {"include_paths": ["[a-z]+"]},
                  {"include_paths": ["/p/"], "allow_subdomains": True},
                  {"webhook": "http://b.test/"}, {"sitemap": "only"}):
        error = raised(lambda: client.start_crawl(web.url(host), **wrong))
        name = re.sub(r"_(.)", lambda found: found[1].upper(), next(iter(wrong)))
        check(isinstance(error, BadRequestError) and name in str(error), f"{wrong} is refused by name: {error!r}")
    error = raised(lambda: client.get_crawl_status("agent-1-1.m"))
    check(error is not None and "404" in str(error), f"an unknown crawl: {error!r}")


def mapped(check, web, client, host, known):
    links = {link.url for link in client.map(web.url(host)).links}
    check(known <= links, f"the map misses {sorted(known - links)[:5]}")
    check(all(f"//{host.split('.', 1)[1]}" in link or f".{host.split('.', 1)[1]}:" in link for link in links),
          "only URLs of the site")
    some = client.map(web.url(host), search="p/1", limit=4, include_subdomains=False).links
    check(0 < len(some) <= 4 and all("p/1" in link.url and f"//{host}:" in link.url for link in some), f"searched: {some}")
    only = {link.url for link in client.map(web.url(host), sitemap="only").links}
    check(only and only <= links, "the sitemaps alone are a part")
    unknown = client.map(web.url("h99.d9.test")).links
    check(unknown == [] or all(link.url == web.url("h99.d9.test") for link in unknown), f"nothing is known: {unknown}")


async def several(check, web, node, host, paths):
    """Many at once, with the asynchronous client."""
    client = AsyncFirecrawl(api_key="none", api_url=node.url)
    pages = await asyncio.gather(*(client.scrape(web.url(host, path)) for path in paths), return_exceptions=True)
    good = [page for page in pages if not isinstance(page, Exception)]
    check(len(good) == len(paths), f"{len(paths)} scrapes at once: {[repr(page) for page in pages if page not in good][:2]}")


def roles(check, nephila, web, work):
    files = {}
    for role, token in TOKENS.items():
        files[role] = work / f"{role}.token"
        files[role].write_text(token)
        files[role].chmod(0o600)
    node = Node(nephila, web, work, "roles", f'api.read_token_file="{files["read"]}"',
                f'api.tokens=[{{name="agents", file="{files["operate"]}", role="operate"}}]')
    try:
        host = sorted(web.hosts)[0]
        reader, operator, nobody = (Firecrawl(api_key=key, api_url=node.url) for key in (*TOKENS.values(), "nobody"))
        error = raised(lambda: nobody.scrape(web.url(host)))
        check(isinstance(error, UnauthorizedError), f"without a token: {error!r}")
        error = raised(lambda: reader.scrape(web.url(host)))
        check(isinstance(error, WebsiteNotSupportedError) and "operate" in str(error), f"a reader scrapes: {error!r}")
        check(raised(lambda: reader.map(web.url(host))) is None, "a reader maps")
        error = raised(lambda: reader.start_crawl(web.url(host)))
        check("operate" in str(error), f"a reader crawls: {error!r}")
        check(operator.scrape(web.url(host)).metadata.status_code == 200, "an operator scrapes")
    finally:
        node.end()


def polite(check, web, journal, private_hosts):
    """No request of robots.txt's forbidden pages, and no host asked too soon."""
    last, rude, denied = {}, 0, 0
    for line in sorted(journal, key=lambda line: line["start_us"]):
        host, path = line["host"].split(":")[0], line["path"]
        denied += host in private_hosts and path.startswith("/private/")
        if host in last and line["start_us"] - last[host] < DELAY_MS * 1_000 - 1_000:
            rude += 1
        last[host] = line["end_us"]
    check(denied == 0, f"{denied} requests that robots.txt forbids")
    check(rude == 0, f"{rude} requests came too soon")
    return len(journal)


def main():
    nephila, testweb = sys.argv[1:]
    check = Verdict()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        web = Web(testweb, work)
        private = {host for host in web.hosts if "/private/" in web.get(host, "/robots.txt")[2]}
        hosts = sorted(web.hosts, key=lambda host: -len(web.hosts[host]))
        open_host = next(host for host in hosts if host not in private and web.truth(host)["Redirect"])
        private_host = next(host for host in hosts if any(path.startswith("/private/") for path in web.hosts[host]) and host in private)
        node = Node(nephila, web, work, "node")
        try:
            client = Firecrawl(api_key="none", api_url=node.url)
            scraped = scrape(check, web, client, open_host, private_host)
            took, pages, _ = crawl(check, web, client, open_host)
            again, _, id = crawl(check, web, client, open_host)
            crawl(check, web, client, private_host, is_new=True)
            mapped(check, web, client, open_host, {web.url(open_host, path) for path in pages_of(web.truth(open_host))})
            others = [host for host in hosts if host not in (open_host, private_host)]
            limited(check, web, client, others[0])
            # What a crawl with a limit left, and what it forbade, is found by the next.
            crawl(check, web, client, others[0])
            paths = sorted(pages_of(web.truth(others[1])))[:8]
            asyncio.run(several(check, web, node, others[1], paths))
            # The links of pages that were scraped are followed by a crawl that begins later, those of its seed too.
            client.scrape(web.url(others[1]))
            crawl(check, web, client, others[1])
            # A crawl is known after a restart, and stops when it is told to.
            begun = client.start_crawl(web.url(others[2]), crawl_entire_domain=True)
            client.cancel_crawl(begun.id)
            check(client.get_crawl_status(begun.id).status in ("cancelled", "completed"), "a cancelled crawl")
            check(node.end() == 11, "the node ends at a signal")
            node = Node(nephila, web, work, "node")
            check(len(client_of(node).get_crawl_status(id).data) == pages, "a crawl is known after a restart")
        finally:
            node.end()
        roles(check, nephila, web, work)
        requests_made = polite(check, web, web.end(), private)
    figures = (f"firecrawl: {check.checks} checks, {check.failed} failed; a page in {scraped:.1f} s, a crawl of {pages} pages in "
               f"{took:.0f} s and again in {again:.0f} s; {requests_made} requests")
    print(figures)
    sys.exit(1 if check.failed else 0)


def client_of(node):
    return Firecrawl(api_key="none", api_url=node.url)


if __name__ == "__main__":
    os.environ.pop("FIRECRAWL_API_KEY", None)
    main()
