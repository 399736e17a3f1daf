"""What the pages of the web say: their bodies in every charset and coding, and ten and more spellings of a link."""

import gzip
import html
import hashlib
import os.path
import urllib.parse
import zlib

import brotli
import zstandard

WORDS = ("silk orb dew frame hub radius spiral anchor thread knot moult prey vibration hedge morning wind leaf bridge line "
         "capture sheet funnel retreat spinneret gland").split()


def body(web, page):
    """The bytes of a page before any coding."""
    if page.kind in ("binary", "text", "empty"):
        return plain(page)
    name = page.origin + page.path
    if page.kind == "twin":
        # Equal on every host: what a crawler stores once.
        return b"<!doctype html><title>twin</title>" + b"<p>The same page everywhere." * 90
    said = page.charset if page.charset != "utf-8" else "utf-8"
    head = [f"<!doctype html><html><head><meta charset={said}><title>{html.escape(name)}</title>"]
    base = None
    if "base" in page.flags and page.kind == "html":
        base = page.origin + "/some/base/"
        head.append(f'<base href="{base}">')
    if page.kind == "nofollow-page":
        head.append('<meta name="robots" content="nofollow">')
    if page.kind == "refresh":
        head.append(f'<meta http-equiv="refresh" content="0; url={html.escape(page.target[0] + page.target[1])}">')
    parts = head + ["</head><body>"]
    for number, (spelling, key) in enumerate(page.links):
        parts.append(link(spelling, key, base or page.origin + page.path, page, number))
    for spelling, (origin, path) in page.unread:
        mark = ' rel="nofollow noopener"' if spelling == "nofollow" else ""
        parts.append(f'<a href="{html.escape(origin + path)}"{mark}>unread</a>')
    parts.append("<!-- <a href='/never/in-a-comment'>no</a> --><script>var x = \"<a href='/never/in-a-script'>\";</script>")
    parts.append(words(name, page.size))
    parts.append("</body></html>")
    return "\n".join(parts).encode(page.charset, "xmlcharrefreplace")


def plain(page):
    """Bodies that are no HTML."""
    if page.kind == "empty":
        return b""
    if page.kind == "text":
        return (page.origin + page.path + " http://never.example/in-a-text " + words(page.path, page.size)).encode()
    seed = hashlib.sha256((page.origin + page.path).encode()).digest()
    return b"\x89PNG\r\n\x1a\n" + (seed * (page.size // 32 + 1))[:page.size]


def words(name, size):
    """Text that no other page has."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    out, length = [], 0
    while length < size:
        number = (number * 6364136223846793005 + 1442695040888963407) % 2**64
        word = WORDS[(number >> 33) % len(WORDS)]
        out.append(word)
        length += len(word) + 1
    return "<p>" + " ".join(out)


def link(spelling, key, base, page, number):
    """An element that leads to a page, spelled in one of many ways that mean the same."""
    origin, path = key
    scheme, rest = origin.split("://")
    is_here = base.startswith(origin + "/")
    href = origin + path
    if spelling == "root" and is_here:
        href = path
    elif spelling == "relative" and is_here:
        href = relative(base[len(origin):], path)
    elif spelling == "protocol" and origin.split(":")[0] == base.split(":")[0]:
        href = f"//{rest}{path}"
    elif spelling == "entities":
        return f'<a href="{origin}{html.escape(path).replace("/", "&#x2F;")}">e</a>'
    elif spelling == "fragment":
        href += f"#part-{number}"
    elif spelling == "capitals":
        href = f"{scheme.upper()}://{rest.upper()}{path}"
    elif spelling == "blanks":
        return f'<A HREF="\n\t {html.escape(href[:9])}\n{html.escape(href[9:])} \t">b</A>'
    elif spelling == "dots":
        href = f"{origin}/x/./y/../..{path}"
    elif spelling == "bare":
        return f"<a href={html.escape(href)} class=x>u</a>"
    elif spelling == "backslash" and "?" not in path:
        href = href.replace("/", "\\")
    elif spelling == "single":
        return f"<area shape=rect href='{html.escape(href)}'>"
    elif spelling == "raw":
        # The character itself, in the charset of the page.
        return f'<a href="{html.escape(urllib.parse.unquote(path))}">r</a>' if is_here and base.count("/") >= 3 \
            and path.startswith("/raw/") else f'<a href="{html.escape(origin + urllib.parse.unquote(path))}">r</a>'
    return f'<a href="{html.escape(href)}">{number}</a>'


def relative(base_path, path):
    """The shortest way from one path to another."""
    folder = base_path.split("?")[0].rpartition("/")[0] + "/"
    target, mark, query = path.partition("?")
    way = os.path.relpath(target, folder)
    if target.endswith("/"):
        way = "./" if way == "." else way + "/"
    return way + mark + query


def coded(page, data):
    """A body as it travels."""
    for coding in (page.coding or "").split(", "):
        if coding == "gzip":
            data = gzip.compress(data, mtime=0)
        elif coding == "deflate":
            data = zlib.compress(data)
        elif coding == "br":
            data = brotli.compress(data, quality=4)
        elif coding == "zstd":
            data = zstandard.compress(data)
    return data


def sitemap(web, host, path):
    """A sitemap, or an index of them."""
    space = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    if path == "/sitemaps.xml":
        text = f"<sitemapindex {space}><sitemap><loc>{host.origin}/sitemap-1.xml</loc></sitemap></sitemapindex>"
    else:
        urls = "".join(f"<url><loc>{html.escape(host.origin + listed)}</loc></url>" for listed in host.sitemap)
        text = f"<urlset {space}>{urls}</urlset>"
    data = ('<?xml version="1.0" encoding="UTF-8"?>' + text).encode()
    return gzip.compress(data, mtime=0) if path.endswith(".gz") else data
