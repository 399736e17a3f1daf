"""Pages in a headless Chromium: live ones, and the same ones replayed by ReplayWeb.page.

The browser that replays knows no names and has no network: everything that is not on this machine goes to a proxy that
writes it down and refuses.
"""

import http.server
import io
import os
import re
import time
from urllib.parse import quote, urlsplit

from PIL import Image, ImageChops
from playwright.sync_api import Error, sync_playwright

from replay_site import GROUPS, MEDIA, WWW, Server

VIEWPORT = {"width": 800, "height": 600}
# ReplayWeb.page reads the list of all pages before it shows the first one.
OPEN_SECONDS = 180
PIECE = 1 << 20
# A pixel differs if one of its colours does by more than this: no difference is allowed for.
COLOUR_STEPS = 0
# Share of pixels that may differ between the live page and its replay.
DIFFERENCE_MAX = 0.001
QUIET = ["--disable-domain-reliability", "--no-pings"]
# ReplayWeb.page gives a page as /w/ARCHIVE/:HASH/TIMEmp_/URL.
REPLAYED = re.compile(r"/w/[^/]+/(?::[0-9a-f]+/)?\d*(?:[a-z]{2}_)?/(https?://.*)")
# What Chromium asks for by itself, whatever it shows: updates, time and accounts. The proxy refuses that too.
OWN = re.compile(r"^\w+ (https?://)?[\w.-]+\.(google|googleapis|gstatic)\.com[:/]")

# What is wrong with a page or a frame that has loaded, one line each.
FAULTS = """([number, count]) => {
  const faults = [], say = text => faults.push(text);
  if (document.images.length !== count) say(document.images.length + " images of " + count);
  for (const image of document.images) if (!image.complete || !image.naturalWidth) say("no image " + image.currentSrc);
  if (number === null) return faults;
  const sheets = [...document.styleSheets].filter(sheet => sheet.ownerNode.matches("link"));
  if (sheets.length !== 1) say(sheets.length + " style sheets of 1");
  for (const sheet of sheets) {
    const imported = sheet.cssRules.length ? sheet.cssRules[0].styleSheet : null;
    if (!imported || !imported.cssRules.length) say("no imported style sheet");
  }
  const fonts = [...document.fonts];
  if (fonts.length !== 1 || fonts.some(font => font.status !== "loaded")) say("no font");
  if (getComputedStyle(document.body).backgroundImage === "none") say("no background");
  const drawn = document.getElementById("drawn");
  if (!drawn || drawn.textContent !== "script " + number % GROUPS + " on page " + number) say("no script");
  return faults;
}""".replace("GROUPS", str(GROUPS))

LOADED = """() => document.readyState === "complete" && document.fonts.status === "loaded"
  && [...document.images].every(image => image.complete)"""


class Look:
    """A page as it was seen."""

    def __init__(self):
        # The URLs that the page asked for, as they are on the live site, and the status of each.
        self.answers = {}
        # What failed, and what was asked of others than the archive.
        self.faults, self.elsewhere = [], []
        self.picture = b""

    def missing(self, needs):
        """Requisites that did not come as they should, in words."""
        wrong = [(url, self.answers.get(url)) for url, status in needs.items() if self.answers.get(url) != status]
        failed = [(url, status) for url, status in self.answers.items() if status >= 400 and url not in needs]
        return ["%s: %s" % (url, status or "not asked for") for url, status in wrong + failed] + self.faults


def difference(one, other):
    """Share of pixels that differ between two pictures."""
    one, other = (Image.open(io.BytesIO(bytes)).convert("RGB") for bytes in (one, other))
    if one.size != other.size:
        return 1.0
    steps = ImageChops.difference(one, other)
    red, green, blue = steps.split()
    most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return sum(most.histogram()[COLOUR_STEPS + 1:]) / (one.width * one.height)


class Proxy:
    """Refuses everything, and remembers what it was."""

    def __init__(self):
        self.asked = asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def refuse(self):
                asked.append("%s %s" % (self.command, self.path))
                self.send_error(502)

            do_GET = do_HEAD = do_POST = do_PUT = do_OPTIONS = do_CONNECT = refuse

            def log_message(self, *_):
                pass

        self.server = Server(Handler)


def archive_server(player, package, extra=""):
    """Serves ReplayWeb.page, a page with it, and the WACZ file by ranges. `server.unknown` gets all other paths.
    `extra` is put into the page."""
    unknown, ranges = [], []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_GET(self):
            path = urlsplit(self.path).path
            if path == "/view":
                return self.send(view(extra).encode(), "text/html; charset=utf-8")
            if path in ("/ui.js", "/replay/ui.js", "/replay/sw.js"):
                with open(os.path.join(player, os.path.basename(path)), "rb") as file:
                    return self.send(file.read(), "text/javascript")
            if path == "/site.wacz":
                return self.send_part()
            if path != "/replay/":
                # ReplayWeb.page makes this page itself, after it has asked for it.
                unknown.append(path)
            self.send(b"not found", "text/plain", 404)

        do_HEAD = do_GET

        def send_part(self):
            size = os.path.getsize(package)
            wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
            first, last = 0, size - 1
            if wanted and wanted[1]:
                first, last = int(wanted[1]), min(int(wanted[2] or size), size - 1)
            elif wanted:
                first = max(size - int(wanted[2]), 0)
            ranges.append(last - first + 1 if wanted else size)
            head = {"Content-Range": "bytes %d-%d/%d" % (first, last, size)} if wanted else {}
            head |= {"Accept-Ranges": "bytes", "Content-Length": last - first + 1}
            self.send(b"", "application/wacz", 206 if wanted else 200, head)
            with open(package, "rb") as file:
                file.seek(first)
                while self.command != "HEAD" and (piece := file.read(min(last + 1 - file.tell(), PIECE))):
                    self.wfile.write(piece)

        def send(self, body, kind, status=200, head=()):
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": len(body), **dict(head)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = Server(Handler)
    server.unknown, server.ranges = unknown, ranges
    return server


def view(extra):
    return """<!DOCTYPE html><html><head><title>Replay</title><link rel="icon" href="data:,">
<style>body{margin:0}replay-web-page{display:block;width:100vw;height:100vh}</style><script src="/ui.js"></script></head>
<body><script>
const element = document.createElement("replay-web-page");
for (const [name, value] of Object.entries({source: "/site.wacz", replaybase: "/replay/", embed: "replayonly",
    url: new URLSearchParams(location.search).get("url")})) element.setAttribute(name, value);
document.body.append(element);
</script>%s</body></html>""" % extra


class Browser:
    """A headless Chromium. `live`: it finds the hosts of the site on this machine; else it has no network."""

    def __init__(self, chromium, live):
        self.proxy = None if live else Proxy()
        names = "MAP %s 127.0.0.1, MAP %s 127.0.0.1, MAP * ~NOTFOUND" % (WWW, MEDIA) if live else "MAP * ~NOTFOUND"
        args = [*QUIET, "--host-resolver-rules=%s, EXCLUDE 127.0.0.1" % names]
        if not live:
            args.append("--proxy-server=http://127.0.0.1:%d" % self.proxy.server.port)
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=chromium, args=args)
        self.version = self.browser.version

    def close(self):
        self.browser.close()
        self.playwright.stop()
        if self.proxy:
            self.proxy.server.stop()

    def tab(self):
        """A window that remembers nothing of other windows."""
        return self.browser.new_context(viewport=VIEWPORT, device_scale_factor=1)

    def look_live(self, context, site, number):
        return self.look(context, site, number, site.page(number), lambda url: url, "")

    def look_replayed(self, context, server, site, number):
        origin = "http://127.0.0.1:%d" % server.port
        original = lambda url: (REPLAYED.search(url) or [None, None])[1]
        address = "%s/view?url=%s" % (origin, quote(site.page(number), safe=""))
        return self.look(context, site, number, address, original, origin)

    def look(self, context, site, number, address, original, origin):
        """Opens a page. `original` gives the live URL of a request."""
        look, page = Look(), context.new_page()
        asked_before = len(self.proxy.asked) if self.proxy else 0

        def answered(response):
            # ReplayWeb.page asks itself for things that are not there yet: only what the page asks for counts.
            url = original(response.url)
            if url:
                look.answers[url] = response.status

        def asked(request):
            if not request.url.startswith((origin, "data:", "blob:", "about:")):
                look.elsewhere.append(request.url)

        def failed(request):
            if original(request.url):
                look.faults.append("%s: %s" % (request.url, request.failure))

        page.on("request", asked)
        page.on("response", answered)
        page.on("requestfailed", failed)
        try:
            page.goto(address, timeout=OPEN_SECONDS * 1000)
            for url, what in ((site.page(number), [number, 4]), (site.frame(number % GROUPS), [None, 1])):
                frame = self.find(page, url, original, look.answers)
                if frame is None:
                    look.faults.append("nothing shows " + url)
                    break
                frame.wait_for_function(LOADED, timeout=OPEN_SECONDS * 1000)
                look.faults += frame.evaluate(FAULTS, what)
        except Error as error:
            look.faults.append(str(error).splitlines()[0])
        look.picture = page.screenshot()
        page.close()
        if self.proxy:
            look.elsewhere += [what for what in self.proxy.asked[asked_before:] if not OWN.match(what)]
        return look

    def find(self, page, url, original, answers):
        """The frame that shows this URL; none if the answer is that there is no such page."""
        until = time.monotonic() + OPEN_SECONDS
        while time.monotonic() < until and answers.get(url, 0) < 400:
            for frame in page.frames:
                if original(frame.url) == url and answers.get(url) == 200:
                    return frame
            page.wait_for_timeout(50)
        return None
