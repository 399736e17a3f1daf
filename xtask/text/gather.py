#!/usr/bin/env python3
"""Gathers the pages that `train.py` learns from, with the text that each is labelled with.

    gather.py SOURCES OUT

SOURCES is a folder with checked-out public repositories, named as in `docs/text.md`. OUT gets `html/ID.html.gz` and
`truth.json`: for each page its address, its source, and one of

    text              the main text, by the makers of the source
    with, without     passages that the main text has, and passages that it does not have
    marked            the text that the marks of the page itself say is its content (`main`, `role`, ids), if it has such marks

Pages with the same `group` are of one site. Of every second page that is labelled by its own marks these marks are taken
away after reading them, so that the trees learn what else such a page has in common.

No page and no label of WCXB or of scrapinghub's benchmark is read. Needs lxml and cssselect.
"""
import csv
import gzip
import json
import re
import sys
from pathlib import Path

import lxml.html

TOKEN = re.compile(r"\w+")


def decoded(data):
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        said = re.search(rb"charset=[\"']?([\w-]+)", data[:4096])
        try:
            return data.decode(said[1].decode() if said else "latin-1", "replace")
        except LookupError:
            return data.decode("latin-1")


def parsed(html):
    try:
        # The declaration of an encoding is wrong for a text that is decoded.
        return lxml.html.fromstring(re.sub(r"^\s*<\?xml[^>]*>", "", html))
    except Exception:
        return None


def text_of(element):
    parts = []

    def walk(node):
        if not isinstance(node.tag, str) or node.tag in ("script", "style", "noscript", "template", "svg", "iframe"):
            return
        parts.append(node.text or "")
        for child in node:
            walk(child)
            parts.append(" " if child.tag not in ("a", "b", "i", "em", "strong", "span", "sup", "sub", "code") else "")
            parts.append(child.tail or "")

    walk(element)
    return "".join(parts)


PLACES = ["main", "[role=main]", "[itemprop=articleBody]", "[itemprop=mainEntity]", "#main-content", "#maincontent", "#content",
          "#main", "#primary", "#bodyContent", ".main-content", ".entry-content", ".post-content", "#center_column", ".content"]
UNWANTED = ("nav, footer, aside, form, select, button, header, [role=navigation], [role=banner], [role=contentinfo], "
            "[role=complementary], [role=search], [role=dialog], [hidden], [aria-hidden=true]")
UNWANTED_NAME = re.compile(
    r"(^|[^a-z])(nav|navbar|navigation|menu|breadcrumbs?|sidebar|footer|cookies?|share|sharing|social|related|newsletter|"
    r"subscribe|pagination|pager|paging|filters?|facets?|sort(ing)?|login|modal|popup|overlay|advert|ads?|banner|"
    r"recommend\w*|recent\w*|cart|basket|toolbar|tags|skip|upsell|crosssell|signature|postprofile|userinfo|toc)($|[^a-z])")


def marked(html, needs_place=True):
    """The text at the place that the page itself marks as its content, without the parts that it marks as something else."""
    page = parsed(html)
    if page is None:
        return None
    whole = len(TOKEN.findall(text_of(page)))
    place = None if needs_place else page
    for selector in PLACES:
        try:
            found = page.cssselect(selector)
        except Exception:
            return None
        sizes = [len(TOKEN.findall(text_of(element))) for element in found]
        if sizes and max(sizes) > max(0.15 * whole, 30):
            place = found[sizes.index(max(sizes))]
            break
    if place is None:
        return None
    for element in place.cssselect(UNWANTED):
        if element is not place and element.getparent() is not None:
            # A header is part of a text if it has the title, and a form may be all of an old page.
            if element.tag == "header" and element.cssselect("h1"):
                continue
            if element.tag == "form" and len(TOKEN.findall(text_of(element))) > 0.5 * whole:
                continue
            element.drop_tree()
    for element in list(place.iterdescendants()):
        if isinstance(element.tag, str) and element.getparent() is not None and element.tag not in ("body", "html"):
            names = f"{element.get('class') or ''} {element.get('id') or ''}"
            names = re.sub(r"([a-z])([A-Z])", r"\1-\2", names).lower()
            if UNWANTED_NAME.search(names) and len(TOKEN.findall(text_of(element))) < 0.4 * whole:
                element.drop_tree()
    text = text_of(place)
    return text if len(TOKEN.findall(text)) >= 20 else None


def without_marks(html):
    html = re.sub(r"<(/?)(main|article|section|nav|aside|footer|header)\b", r"<\1div", html, flags=re.I)
    return re.sub(r"\s(role|itemprop|itemscope|itemtype)=(\"[^\"]*\"|'[^']*'|[^\s>]*)", " ", html, flags=re.I)


def own_address(html):
    found = re.search(r"<link[^>]*rel=[\"']?canonical[\"']?[^>]*>", html[:200_000], re.I)
    found = found and re.search(r"href=[\"']?([^\"'\s>]+)", found[0])
    if not found:
        found = re.search(r"property=[\"']og:url[\"'][^>]*content=[\"']([^\"']+)", html[:200_000], re.I)
    return found[1] if found and found[1].startswith("http") else ""


def share_found(text, html):
    """The share of the words of a text that its page has, by runs of four."""
    page = parsed(html)
    if page is None:
        return 0.0
    words, own = TOKEN.findall(text.lower()), TOKEN.findall(text_of(page).lower())
    runs = {tuple(own[at:at + 4]) for at in range(len(own) - 3)}
    wanted = [tuple(words[at:at + 4]) for at in range(len(words) - 3)]
    return sum(run in runs for run in wanted) / max(len(wanted), 1)


def fundus(folder):
    for place in sorted((folder / "tests/resources/parser/test_data").iterdir()):
        if not (place / "meta.info").exists():
            continue
        notes = json.loads((place / "meta.info").read_text())
        for name, note in notes.items():
            file = place / name
            said = place / (name.split("_")[0] + ".json")
            if not file.exists() or not said.exists():
                continue
            html = decoded(file.read_bytes())
            best = (0.0, "")
            for version in json.loads(said.read_text()).values():
                body = version.get("body") or {}
                parts = list(body.get("summary") or [])
                for section in body.get("sections") or []:
                    parts += (section.get("headline") or []) + (section.get("paragraphs") or [])
                text = "\n".join(parts)
                best = max(best, (share_found(text, html), text))
            if best[0] > 0.9:
                yield f"{place.name}-{name}", html, dict(url=note["url"], text=best[1])


def readability(folder):
    for place in sorted((folder / "test/test-pages").iterdir()):
        html = decoded((place / "source.html").read_bytes())
        expected = parsed(decoded((place / "expected.html").read_bytes()))
        if expected is not None:
            yield place.name, html, dict(url=own_address(html), text=text_of(expected))


def defuddle(folder):
    for file in sorted((folder / "tests/fixtures").glob("*.html")):
        said = folder / "tests/expected" / (file.stem + ".md")
        if not said.exists():
            continue
        html = decoded(file.read_bytes())
        text = re.sub(r"^```json.*?```", "", said.read_text(), count=1, flags=re.S)
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
        text = re.sub(r"\[\^[^\]]*\]:?|<[^>]*>", " ", text)
        address = re.search(r'"url":\s*"([^"]+)"', html[:400])
        if share_found(text, html) > 0.8:
            yield file.stem, html, dict(url=address[1] if address else own_address(html), text=text)


def parser(folder):
    """Pages of known sites; the selectors that were written for each site say where the text is."""
    for file in sorted((folder / "src/extractors/custom").glob("*/index.js")):
        code = re.sub(r"^\s*//.*$", "", file.read_text(), flags=re.M)
        domain = re.search(r"domain:\s*'([^']+)'", code)
        content = re.search(r"\n  content: \{.*?\n  \}", code, re.S)
        if not domain or not content:
            continue
        chosen = re.search(r"selectors:\s*\[(.*?)\n?\s*\],\n", content[0], re.S) or re.search(r"selectors:\s*\[(.*?)\]", content[0], re.S)
        groups = re.findall(r"\[([^\[\]]*'[^\[\]]*(?:\[[^\]]*\][^\[\]]*)*)\]|'([^']+)'", chosen[1] if chosen else "")
        cleaned = re.search(r"clean:\s*\[(.*?)\n?\s*\],?\n", content[0], re.S)
        cleaned = re.findall(r"'([^']+)'", cleaned[1]) if cleaned else []
        pages = list((folder / "fixtures").glob(f"{domain[1]}*.html")) + list((folder / "fixtures" / domain[1]).glob("*.html"))
        for page in pages:
            html = decoded(page.read_bytes())
            tree = parsed(html)
            if tree is None:
                continue
            for several, one in groups:
                selectors = re.findall(r"'([^']+)'", several) if several else [one]
                try:
                    found = [tree.cssselect(selector) for selector in selectors]
                    if not all(found):
                        continue
                    for element in found[0]:
                        for selector in cleaned:
                            for unwanted in element.cssselect(selector):
                                unwanted.drop_tree()
                except Exception:
                    continue
                text = "\n".join(text_of(element) for some in found for element in (some if several else some[:1]))
                if len(TOKEN.findall(text)) > 50:
                    yield page.stem, html, dict(url=own_address(html) or f"https://{domain[1]}/", text=text)
                    break


def newspaper(folder):
    for said in sorted((folder / "tests/data/txt").glob("*.txt")):
        file = folder / "tests/data/html" / (said.stem + ".html")
        # One page is in scrapinghub's benchmark too.
        if not file.exists() or said.stem == "article_with_divs":
            continue
        html, text = decoded(file.read_bytes()), said.read_text()
        if share_found(text, html) > 0.8:
            yield said.stem, html, dict(url=own_address(html), text=text)


def trafilatura(folder):
    for url, note in json.loads((folder / "tests/evaldata.json").read_text()).items():
        file = folder / "tests/eval" / note["file"]
        if not file.exists():
            file = folder / "tests/cache" / note["file"]
        if file.exists():
            yield note["file"], decoded(file.read_bytes()), dict(url=url, **{"with": note["with"], "without": note["without"]})


def recipes(folder):
    for place in sorted((folder / "tests/test_data").iterdir()):
        for file in sorted(place.glob("*.testhtml"))[:1] if place.is_dir() else ():
            html = decoded(file.read_bytes())
            said = file.with_suffix(".json")
            note = json.loads(said.read_text()) if said.exists() else {}
            passages = note.get("instructions_list") or []
            if len(html) < 1_500_000:
                yield file.stem, html, {"url": own_address(html) or note.get("canonical_url", ""), "with": passages, "without": [],
                                        "marked": marked(html)}


def plain(*patterns):
    """Pages that are labelled by their own marks only."""
    def pages(folder):
        files = [file for pattern in patterns for file in sorted(folder.glob(pattern)) if 10_000 < file.stat().st_size < 1_500_000]
        groups = [re.sub(r"-\d+$", "", file.stem) if not file.stem.isdigit() else "" for file in files]
        index = folder / "formasaurus/data/index.json"
        known = json.loads(index.read_text()) if index.exists() else {}
        table = folder / "autopager/data/data.csv"
        if table.exists():
            with table.open(newline="") as lines:
                known = {f"html/{row['File Name']}.html": {"url": row["Page URL"]} for row in csv.DictReader(lines)}
        for at, (file, group) in enumerate(zip(files, groups)):
            html = decoded(file.read_bytes())
            has_others = bool(group) and groups.count(group) > 1
            text = marked(html, needs_place=not has_others)
            if text is None:
                continue
            url = (known.get(f"html/{file.name}") or {}).get("url") or own_address(html)
            if at % 2:
                html = without_marks(html)
            about = dict(url=url, marked=text)
            yield "-".join(file.relative_to(folder).parts[-3:]), html, dict(about, group=group) if has_others else about
    return pages


SOURCES = {
    "fundus": fundus, "readability": readability, "defuddle": defuddle, "parser": parser, "newspaper4k": newspaper,
    "trafilatura": trafilatura, "recipe-scrapers": recipes,
    "metascraper": plain("packages/**/*.html"), "formasaurus": plain("formasaurus/data/html/**/*.html"),
    "autopager": plain("autopager/data/html/**/*.html"),
    "webstruct": plain(*(f"webstruct_data/corpus/{name}/source/*.html"
                         for name in ("business_pages", "random_pages", "us_contact_pages"))),
}


def main():
    sources, out = (Path(argument) for argument in sys.argv[1:])
    (out / "html").mkdir(parents=True, exist_ok=True)
    truth = {}
    for name, read in SOURCES.items():
        if not (sources / name).exists():
            print(name, "is missing")
            continue
        count = 0
        for page, html, about in read(sources / name):
            page = f"{name}--" + re.sub(r"[^\w.-]", "_", page).removesuffix(".gz").removesuffix(".html")[:120]
            truth[page] = dict(about, source=name)
            (out / "html" / f"{page}.html.gz").write_bytes(gzip.compress(html.encode("utf-8", "replace"), 1))
            count += 1
        print(name, count, flush=True)
    (out / "truth.json").write_text(json.dumps(truth))


if __name__ == "__main__":
    main()
