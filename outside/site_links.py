"""Judges the built documentation: `site_links.py FOLDER`.

Reads every page and style sheet of the folder as a browser that has nothing but the folder would, with the standard library alone:

- a link inside of the site leads to a file, and its fragment to an element of that page;
- no link is absolute and none leads to a folder, so that the site works below any address and from file://;
- nothing that a page loads (scripts, styles, fonts, pictures, frames) comes from elsewhere;
- every page can be reached from index.html by links;
- the index of the search is there, also for pages that are opened from a folder.

404.html is shown at any address, so its links are absolute: of this page only what it loads from elsewhere is judged. Ends with one
line of figures; a complaint is a line that begins with FAIL.
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse

# Attributes by which an element loads something at once. The `href` of a `link` counts for the words of `rel` below.
LOADS = {"script": ["src"], "img": ["src", "srcset"], "source": ["src", "srcset"], "iframe": ["src"], "video": ["src", "poster"],
         "audio": ["src"], "track": ["src"], "embed": ["src"], "object": ["data"], "input": ["src"], "use": ["href", "xlink:href"],
         "image": ["href", "xlink:href"]}
RELS = {"stylesheet", "icon", "shortcut", "apple-touch-icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}
# A class for which the scripts of the theme load another script from elsewhere.
FETCHING = "mermaid"
CSS_URL = re.compile(r"""url\(\s*["']?([^"')]+)["']?\s*\)|@import\s+["']([^"']+)["']""")
SEARCH = ["search/search_index.json", "search/search_index.js"]


class Page(html.parser.HTMLParser):
    """The ids, links and loaded things of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded, self.wrong, self.in_style = set(), [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = {name: value or "" for name, value in attributes}
        self.ids.update(named[name] for name in ("id", "name") if named.get(name) and (name == "id" or tag == "a"))
        self.in_style = tag == "style"
        if tag in ("a", "area") and "href" in named:
            self.links.append(named["href"])
        if tag == "link" and RELS & set(named.get("rel", "").lower().split()):
            self.loaded.append(named.get("href", ""))
        for name in LOADS.get(tag, ()):
            if name in named:
                self.loaded += sources(named[name]) if name == "srcset" else [named[name]]
        self.loaded += css_urls(named.get("style", ""))
        if FETCHING in named.get("class", "").split():
            self.wrong.append(f"an element of the class {FETCHING}, for which a script comes from elsewhere")
        if tag == "base":
            self.wrong.append("a base element, which turns links away from the folder")

    def handle_endtag(self, tag):
        self.in_style = False

    def handle_data(self, data):
        if self.in_style:
            self.loaded += css_urls(data)


def sources(srcset):
    return [part.split()[0] for part in srcset.split(",") if part.split()]


def css_urls(text):
    return [first or second for first, second in CSS_URL.findall(text)]


def is_elsewhere(address):
    """Whether an address leads out of the site; `data:` and `#fragment` do not."""
    parts = urllib.parse.urlsplit(address)
    return parts.scheme not in ("", "data") or bool(parts.netloc)


class Site:
    """All files of the site, and what is wrong with them."""

    def __init__(self, folder):
        self.folder = folder.resolve()
        self.files = {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()}
        self.pages = {name: Page(self.read(name)) for name in sorted(self.files) if name.endswith(".html")}
        self.counts = {"links": 0, "fragments": 0, "loaded": 0}
        self.failed = 0

    def read(self, name):
        return (self.folder / name).read_text(encoding="utf-8")

    def fail(self, name, words):
        self.failed += 1
        print(f"FAIL {name}: {words}", flush=True)

    def target(self, name, link):
        """The file and the fragment of a link inside of the site; None and a complaint if there is no such file."""
        parts = urllib.parse.urlsplit(link)
        if parts.path.startswith("/"):
            return None, f"an absolute link: {link}"
        path = urllib.parse.unquote(parts.path)
        parent = (self.folder / name).parent
        found = (parent / path).resolve() if path else self.folder / name
        if self.folder not in found.parents and found != self.folder:
            return None, f"a link out of the site: {link}"
        if found.is_dir():
            return None, f"a link to a folder: {link}"
        inside = found.relative_to(self.folder).as_posix()
        if inside not in self.files:
            return None, f"a link to nothing: {link}"
        return inside, urllib.parse.unquote(parts.fragment)

    def judge(self):
        reached = {name: set() for name in self.pages}
        for name, page in self.pages.items():
            for words in page.wrong:
                self.fail(name, words)
            self.judge_loaded(name, page.loaded, name != "404.html")
            if name == "404.html":
                continue
            for link in page.links:
                if is_elsewhere(link):
                    continue
                self.counts["links"] += 1
                target, more = self.target(name, link)
                if target is None:
                    self.fail(name, more)
                    continue
                reached[name].add(target)
                if more and target in self.pages:
                    self.counts["fragments"] += 1
                    if more not in self.pages[target].ids:
                        self.fail(name, f"{target} has no element {more!r}: {link}")
        for name in self.files:
            if name.endswith(".css"):
                self.judge_loaded(name, css_urls(self.read(name)), True)
        self.judge_ways(reached)
        for name in SEARCH:
            if name not in self.files:
                self.fail(name, "is missing: the search would find nothing")

    def judge_loaded(self, name, loaded, is_in_place):
        for address in loaded:
            self.counts["loaded"] += 1
            if is_elsewhere(address):
                self.fail(name, f"loads something from elsewhere: {address}")
            elif is_in_place and not address.startswith(("data:", "#")):
                target, more = self.target(name, address)
                if target is None:
                    self.fail(name, f"loads {more}")

    def judge_ways(self, reached):
        """Complains about pages to which no way leads."""
        seen, waiting = set(), ["index.html"]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += reached.get(name, ())
        for name in sorted(set(self.pages) - seen - {"404.html"}):
            self.fail(name, "no way leads here from index.html")


def main():
    site = Site(pathlib.Path(sys.argv[1]))
    site.judge()
    counted = ", ".join(f"{number} {name}" for name, number in site.counts.items())
    print(f"site links: {len(site.pages)} pages, {len(site.files)} files, {counted}, {site.failed} complaints")
    return 1 if site.failed or not site.pages else 0


if __name__ == "__main__":
    sys.exit(main())
