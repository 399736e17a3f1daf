"""The few sites that the README names, behind a proxy on loopback: `small_web.py FOLDER`.

The README's commands stand as they are, with names on port 443 that nobody serves here; so the crawler is told of a proxy
in its environment, which answers for these names with certificates of its own authority. It ends with its standard input.
"""

import asyncio
import datetime
import json
import pathlib
import sys

from authority import Authority

ROBOTS = "User-agent: *\nCrawl-delay: 1\nDisallow: /private/\n"


def fixed():
    """Each name with an address of its own, as `spider.dns_fixed` takes them."""
    return [f"{name}=127.36.0.{number}" for number, name in enumerate(SITES, 1)]


def page(title, *links, text=""):
    """A page with links."""
    items = "".join(f'<li><a href="{link}">{link}</a>' for link in links)
    return 200, "text/html", f"<!doctype html><title>{title}</title><main><h1>{title}</h1><p>{text or title * 9}</p></main>" \
        f"<ul>{items}</ul>"


def feed(stories):
    """An RSS feed."""
    items = "".join(f"<item><title>{title}</title><link>https://a.example/{path}</link><guid>{path}</guid></item>"
                    for path, title in stories)
    return 200, "application/rss+xml", f'<rss version="2.0"><channel><title>A</title><link>https://a.example/</link>{items}' \
        "</channel></rss>"


GUIDE = [f"/guide/{number}" for number in range(1, 6)]
STORY = "The spider has put up its web between the fence and the apple tree, and the dew of the morning shows every thread. "
SITES = {
    "docs.example.org": {
        "/robots.txt": (200, "text/plain", ROBOTS.replace("Crawl-delay: 1\n", "")),
        "/": page("Docs", *GUIDE, "/old", "/gone", "/members", "/broken", "/print/5", "/private/17", "https://elsewhere.example/"),
        # The same bytes twice, and enough of them to be worth a revisit record.
        "/guide/5": page("Guide 5", "/", text="In autumn the web is larger. " * 60),
        "/print/5": page("Guide 5", "/", text="In autumn the web is larger. " * 60),
        "/old": (301, "/guide/1", ""), "/members": (403, "text/plain", "members only"),
        "/broken": (500, "text/plain", "broken"), "/new": page("New"), "/more": page("More"),
        **{path: page(f"Guide {path[-1]}", "/", GUIDE[int(path[-1])], "https://elsewhere.example/" + path[-1]) for path in GUIDE[:4]},
    },
    "a.example": {
        "/robots.txt": (404, "text/plain", "none"),
        "/feed.xml": feed([("first", "The first story"), ("second", "The second story")]),
        "/first": page("The first story", "/", text=STORY * 9), "/second": page("The second story", "/", text=STORY * 8),
        "/": page("A"),
    },
    "b.example": {
        "/robots.txt": (404, "text/plain", "none"), "/": page("B"), "/one": page("One"), "/two": page("Two"),
    },
    "shop.example": {
        "/robots.txt": (200, "text/plain", ROBOTS),
        "/": page("Shop", "/tea", "/coffee", "/private/till"), "/tea": page("Tea", "/", "/sold-out"), "/coffee": page("Coffee", "/"),
    },
}


class Site:
    """Answers for one name, and keeps the site's own access log."""

    def __init__(self, folder):
        self.folder = folder

    def answer(self, name, method, target, agent):
        """The bytes of an answer."""
        status, kind, body = SITES.get(name, {}).get(target, (404, "text/html", "<h1>Not found</h1>"))
        data = body.encode()
        fields = [f"Location: {kind}"] if status == 301 else [f"Content-Type: {kind}"]
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%d/%b/%Y:%H:%M:%S +0000")
        with open(self.folder / f"{name}.log", "a", encoding="utf-8") as log:
            log.write(f'192.0.2.7 - - [{now}] "{method} {target} HTTP/1.1" {status} {len(data)} "-" "{agent}"\n')
        lines = [f"HTTP/1.1 {status} Status", *fields, f"Content-Length: {len(data)}", "", ""]
        return "\r\n".join(lines).encode() + data


async def head(reader):
    """The next head: request line and fields, or None at the end."""
    try:
        data = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None, {}
    lines = data.decode("latin-1").split("\r\n")
    fields = dict(line.lower().split(": ", 1) if not line.lower().startswith("user-agent") else ("user-agent", line[12:])
                  for line in lines[1:] if ": " in line)
    return lines[0].split(" "), fields


async def converse(site, secure, reader, writer):
    """One connection to the proxy: CONNECT, TLS, and what is asked then."""
    try:
        first, _ = await head(reader)
        if first is None or first[0] != "CONNECT":
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            return
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await writer.drain()
        await writer.start_tls(secure)
        while True:
            request, fields = await head(reader)
            if request is None:
                return
            # The proxy is asked for an address; the name stands in the request.
            writer.write(site.answer(fields.get("host", ""), request[0], request[1], fields.get("user-agent", "-")))
            await writer.drain()
    except (ConnectionError, OSError):
        pass
    finally:
        writer.close()


async def serve(folder):
    """Until standard input ends."""
    authority = Authority(folder)
    site, secure = Site(folder), authority.listening()
    server = await asyncio.start_server(lambda reader, writer: converse(site, secure, reader, writer), "127.0.0.1", 0)
    print(json.dumps({"port": server.sockets[0].getsockname()[1], "ca": str(authority.ca_file)}), flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), lambda: ended.set() if not sys.stdin.buffer.read1(1) else None)
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(serve(pathlib.Path(sys.argv[1])))
