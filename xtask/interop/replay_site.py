"""A small site whose pages need what real pages need, and which is the same in every run.

Page N has two images of its own (a large one, and one of another host or, on every seventh page, behind a redirect), an
image of a `srcset`, a style sheet that imports another one and names a background image and a font, a script that writes
and draws, a logo that has the same bytes under ten names (so that the archive has revisit records), and a frame with an
image. Text is sent with gzip to who takes it, every fifth page in ISO 8859-1. Page N links to pages 10N+1 to 10N+10.
"""

import functools
import gzip
import hashlib
import http.server
import io
import random
import struct
import threading
import zlib
from urllib.parse import urlsplit

WWW, MEDIA = "www.page.test", "media.parts.test"
GROUPS = 100
LOGOS = 10
FAN_OUT = 10
WORDS = "Netz Faden Knoten Spinne Warte Speiche Rahmen Nabe Fang Tau Ast Blatt Wind Licht Morgen".split()


def png(width, height, rows):
    """An RGB image of rows of bytes."""
    piece = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 1)
    return b"\x89PNG\r\n\x1a\n" + piece(b"IHDR", head) + piece(b"IDAT", data) + piece(b"IEND", b"")


def striped(name, width, height):
    """Stripes of two colours that the name decides: no two names look the same."""
    colours = hashlib.sha256(name.encode()).digest()
    stripes = (colours[:3] * 6 + colours[3:6] * 6) * ((width + height) // 12 + 1)
    return png(width, height, (stripes[3 * y:3 * (y + width)] for y in range(height)))


def photo(name, width, height):
    """Stripes above, noise below: 20 kB, as a photograph has."""
    noise = random.Random(name)
    colours = hashlib.sha256(name.encode()).digest()
    stripes = (colours[:3] * 6 + colours[3:6] * 6) * (width // 12 + 1)
    rows = [stripes[:3 * width]] * (height // 3)
    return png(width, height, rows + [noise.randbytes(3 * width) for _ in range(height - len(rows))])


@functools.lru_cache
def logo():
    noise = random.Random(7)
    return png(32, 32, (noise.randbytes(96) for _ in range(32)))


@functools.lru_cache
def font():
    """A font of which each letter is a box of its own height."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    letters = {code: "g%d" % code for code in range(32, 127)}
    names = [".notdef", *letters.values()]
    glyphs = {}
    for at, name in enumerate(names):
        pen = TTGlyphPen(None)
        if name != "g32":
            top = 200 + 6 * at
            for call, point in zip((pen.moveTo, pen.lineTo, pen.lineTo, pen.lineTo), ((50, 0), (50, top), (450, top), (450, 0))):
                call(point)
            pen.closePath()
        glyphs[name] = pen.glyph()
    made = FontBuilder(1000, isTTF=True)
    made.setupGlyphOrder(names)
    made.setupCharacterMap(letters)
    made.setupGlyf(glyphs)
    made.setupHorizontalMetrics({name: (500, 50) for name in names})
    made.setupHorizontalHeader(ascent=800, descent=-200)
    made.setupNameTable({"familyName": "Boxes", "styleName": "Regular"})
    made.setupOS2(sTypoAscender=800, usWinAscent=800, usWinDescent=200)
    made.setupPost()
    made.font["head"].created = made.font["head"].modified = 0
    out = io.BytesIO()
    made.font.recalcTimestamp = False
    made.font.save(out)
    return out.getvalue()


class Site:
    """All URLs and what they answer."""

    def __init__(self, pages, leaves=False):
        """`leaves`: frames, and images that have moved, are at the other host."""
        self.pages, self.leaves, self.port = pages, leaves, 0

    def www(self, path):
        return "http://%s:%d%s" % (WWW, self.port, path)

    def media(self, path):
        return "http://%s:%d%s" % (MEDIA, self.port, path)

    def page(self, number):
        return self.www("/p/%d.html" % number if number else "/")

    def title(self, number):
        return "Seite %d: Grüße & <Zeichen>" % number

    def frame_title(self, group):
        return "Rahmen %d" % group

    def image_a(self, number):
        return self.www("/img/%d.png?w=120&h=90" % number)

    def image_b(self, number):
        return self.www("/moved/%d.png" % number) if number % 7 == 0 else self.media("/b/%d.png" % number)

    def place_of_b(self, number):
        """Where that image really is."""
        stays = number % 7 == 0 and not self.leaves
        return self.www("/b/%d.png" % number) if stays else self.media("/b/%d.png" % number)

    def frame(self, group):
        return (self.media if self.leaves else self.www)("/frame/%d.html" % group)

    def needs(self, number):
        """Everything that a browser at one pixel per pixel asks for to show a page: URL and status."""
        group = number % GROUPS
        return {
            self.page(number): 200,
            self.image_a(number): 200,
            self.image_b(number): 302 if number % 7 == 0 else 200,
            self.place_of_b(number): 200,
            self.media("/set/%d-1x.png" % group): 200,
            self.www("/style/%d.css" % group): 200,
            self.www("/style/base.css"): 200,
            self.www("/bg/%d.png" % group): 200,
            self.media("/font/boxes.ttf"): 200,
            self.www("/script/%d.js" % group): 200,
            self.www("/logo/%d.png" % (group % LOGOS)): 200,
            self.frame(group): 200,
            self.media("/in/%d.png" % group): 200,
        }

    def all(self):
        """URLs that a crawl must have, with their status."""
        found = {}
        for number in range(self.pages):
            found.update(self.needs(number))
        for group in range(min(GROUPS, self.pages)):
            found[self.media("/set/%d-2x.png" % group)] = 200
        return found

    def html_pages(self):
        """URLs and titles of all pages and frames."""
        found = {self.page(number): self.title(number) for number in range(self.pages)}
        for group in range(min(GROUPS, self.pages)):
            found[self.frame(group)] = self.frame_title(group)
        return found

    def answer(self, host, target):
        """Status, type or place, and body."""
        path = urlsplit(target).path
        parts = path.strip("/").split("/")
        number = "".join(letter for letter in parts[-1].split("-")[0] if letter.isdigit())
        number = int(number) if number else 0
        if parts[0] == "frame" and host in (WWW, MEDIA):
            return 200, "text/html; charset=utf-8", self.write_frame(number)
        if host == WWW:
            if path == "/robots.txt":
                return 200, "text/plain", b"User-agent: *\nDisallow:\n"
            if path == "/" or parts[0] == "p" and number < self.pages:
                return self.write_page(number)
            if parts[0] == "img":
                return 200, "image/png", photo("a%d" % number, 120, 90)
            if parts[0] == "b":
                return 200, "image/png", striped("b%d" % number, 64, 48)
            if parts[0] == "moved":
                return 302, self.place_of_b(number), b""
            if path == "/style/base.css":
                return 200, "text/css", b"body{margin:16px;color:#123}h1{font:24px/1.2 sans-serif}a{margin-right:8px}"
            if parts[0] == "style":
                return 200, "text/css; charset=utf-8", self.write_style(number)
            if parts[0] == "bg":
                return 200, "image/png", striped("bg%d" % number, 40, 40)
            if parts[0] == "script":
                return 200, "text/javascript", self.write_script(number)
            if parts[0] == "logo":
                return 200, "image/png", logo()
        elif host == MEDIA:
            if path == "/robots.txt":
                return 404, "text/plain", b"none"
            if parts[0] in ("b", "in"):
                return 200, "image/png", striped("%s%d" % (parts[0], number), 64, 48)
            if parts[0] == "set":
                return 200, "image/png", striped(parts[1], 80, 30)
            if path == "/font/boxes.ttf":
                return 200, "font/ttf", font()
        return 404, "text/plain", b"not found"

    def write_page(self, number):
        group = number % GROUPS
        escape = lambda text: text.replace("&", "&amp;").replace("<", "&lt;")
        links = range(number * FAN_OUT + 1, min(number * FAN_OUT + FAN_OUT + 1, self.pages))
        links = " ".join('<a href="/p/%d.html">%d</a>' % (other, other) for other in links)
        text = """<!DOCTYPE html><html lang="de"><head><title>%s</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/style/%d.css"></head><body data-page="%d">
<h1>%s</h1><p class="boxes">Boxes %d of the font</p>
<p><img id="a" src="/img/%d.png?w=120&amp;h=90" width="120" height="90" alt="a">
<img id="b" src="%s" width="128" height="96" alt="b">
<img id="c" srcset="%s 1x, %s 2x" width="160" height="60" alt="c">
<img id="logo" src="../logo/%d.png" width="64" height="64" alt="logo"></p>
<p id="drawn"></p><canvas id="canvas" width="320" height="60"></canvas>
<iframe id="frame" src="%s" width="360" height="120"></iframe>
<p>%s</p><p>%s</p><script src="/script/%d.js"></script></body></html>
""" % (escape(self.title(number)), group, number, escape(self.title(number)), number, number,
            self.image_b(number), self.media("/set/%d-1x.png" % group), self.media("/set/%d-2x.png" % group),
            group % LOGOS, self.frame(group), links, self.filler(number), group)
        coding = "iso-8859-1" if number % 5 == 0 else "utf-8"
        return 200, "text/html; charset=" + coding, text.encode(coding)

    def filler(self, number):
        return " ".join(random.Random(number).choices(WORDS, k=90))

    def write_style(self, group):
        return ("""@import "base.css";
@font-face{font-family:Boxes;src:url("%s") format("truetype")}
body{background:#fff url(../bg/%d.png) repeat-x 0 100%%;font:13px/1.3 sans-serif}
.boxes{font:20px/1 Boxes,monospace}#drawn{border-left:%dpx solid #c30;padding-left:6px}
""" % (self.media("/font/boxes.ttf"), group, 2 + group % 20)).encode()

    def write_script(self, group):
        return ("""(function () {
  var number = +document.body.dataset.page;
  document.getElementById("drawn").textContent = "script %d on page " + number;
  var pen = document.getElementById("canvas").getContext("2d");
  for (var i = 0; i < 32; i++) {
    pen.fillStyle = "hsl(" + (number * 7 + i * 11) %% 360 + ",80%%,50%%)";
    pen.fillRect(i * 10, 0, 10, 10 + (number * 13 + i * 29) %% 50);
  }
})();
""" % group).encode()

    def write_frame(self, group):
        return ("""<!DOCTYPE html><html><head><title>%s</title></head><body style="margin:4px;background:#eee">
<p>Frame %d</p><img src="%s" width="64" height="48" alt="in"></body></html>
""" % (self.frame_title(group), group, self.media("/in/%d.png" % group))).encode()


class Server(http.server.ThreadingHTTPServer):
    """A server on a loopback port, in threads of its own, until it is stopped. Then nothing listens there."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.port = self.server_address[1]
        self.open, self.lock = set(), threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def process_request(self, request, address):
        with self.lock:
            self.open.add(request)
        super().process_request(request, address)

    def shutdown_request(self, request):
        with self.lock:
            self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, address):
        """Clients hang up when they like."""

    def stop(self):
        self.shutdown()
        self.server_close()
        with self.lock:
            for request in self.open:
                try:
                    request.shutdown(2)
                except OSError:
                    pass


def serve(site):
    """Serves a site on loopback."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_GET(self):
            host = self.headers.get("Host", "").split(":")[0]
            status, kind, body = site.answer(host, self.path)
            head = {"Content-Type": kind} if status != 302 else {"Location": kind, "Content-Type": "text/plain"}
            if kind.startswith("text/") and "gzip" in self.headers.get("Accept-Encoding", ""):
                body = gzip.compress(body, 1, mtime=0)
                head["Content-Encoding"] = "gzip"
            if kind == "font/ttf":
                # Fonts of another host are only used if the host allows it.
                head["Access-Control-Allow-Origin"] = "*"
            self.send_response(status)
            for name, value in head.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = Server(Handler)
    site.port = server.port
    return server
