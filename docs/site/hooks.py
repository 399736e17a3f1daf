"""What MkDocs needs besides the pages under docs/: pages and files that lie elsewhere in the repository, and links to them.

A page of the repository links as it should on a code host: relative to its own place. In the site the same page may have another
place, and files outside of docs/ have none. So the pages of `BROUGHT` get a place, a README.md and any other file outside of docs/
that a page links gets one below `source/`, and links are rewritten. A link to a file that does not exist is left as it is: the
strict build complains about it.

Invariant: what the hooks change is where a link leads, never where it should lead.
"""

import os
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"

# Pages of the repository, and their places in the site.
BROUGHT = {
    "README.md": "readme.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "THREAT_MODEL.md": "threat-model.md",
    "crates/nephila-engine/README.md": "library.md",
    "outside/README.md": "outside-judge.md",
}

# A link or a picture with a relative target: the text's end, the target, the place in the page.
LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
# How much a page counts in the search; a usual page counts 1. Reasons and histories come behind manuals.
BOOSTS = {"guide-": 2, "first-crawl": 2, "recipes": 2, "decisions/": 0.4, "source/": 0.2, "changelog": 0.4, "seeds": 0.4, "readme": 0.6}
FENCE = re.compile(r"^ *(`{3,}|~{3,})", re.MULTILINE)


def on_files(files, config):
    """Adds the pages of the repository, and every file that a page links and that has no place yet."""
    for path, place in BROUGHT.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    waiting = [DOCS / file.src_uri for file in files.documentation_pages()] + [ROOT / path for path in BROUGHT]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        if not page.is_file():
            continue
        for match in LINK.finditer(page.read_text(encoding="utf-8")):
            target = target_of(page, match.group(2))
            if target is None or target in seen or DOCS in target.parents or relative(target) in BROUGHT:
                continue
            seen.add(target)
            files.append(File.generated(config, place_of(target), abs_src_path=str(target)))
            if target.suffix == ".md":
                waiting.append(target)
    return files


def on_page_markdown(markdown, page, config, files):
    """Links as they have to be in the site. Text in fences is left as it is."""
    for start, boost in BOOSTS.items():
        if page.file.src_uri.startswith(start):
            page.meta["search"] = {"boost": boost}
    source = pathlib.Path(page.file.abs_src_path)
    folder = os.path.dirname(page.file.src_uri)

    def placed(match):
        target = target_of(source, match.group(2))
        if target is None:
            return match.group()
        return match.group(1) + os.path.relpath(place_of(target), folder or ".") + (match.group(3) or "")

    parts, in_fence = [], False
    for part in re.split(r"(?m)^(?= *(?:`{3,}|~{3,}))", markdown):
        opens = FENCE.match(part) is not None
        in_fence = in_fence != opens
        # A part that closes a fence begins with it: what follows is text again.
        parts.append(part if in_fence else LINK.sub(placed, part))
    return "".join(parts)


def on_page_content(html, page, config, files):
    """Code in tables: a bar is written `\\|` there, and read so by code hosts, while Python-Markdown keeps the backslash. Names break
    behind their points and underscores, and options do not break, so that narrow columns can be read."""
    return re.sub(r"<td[ >].*?</td>", lambda cell: re.sub(r"(?<=<code>)[^<]*(?=</code>)", table_code, cell.group()), html, flags=re.DOTALL)


def table_code(match):
    code = match.group().replace("\\|", "|")
    code = re.sub(r"(?<=[A-Za-z])[._/:=](?=\w)", r"\g<0><wbr>", code)
    return re.sub(r"(?<!\S)--?[a-z][a-z0-9-]*", r'<span class="whole">\g<0></span>', code)


def target_of(source, link):
    """The file that a link of this page leads to; of a folder its README.md. None if there is none."""
    target = pathlib.Path(os.path.normpath(source.parent / link))
    if target.is_dir():
        target /= "README.md"
    is_ours = target.is_file() and ROOT in target.parents
    return target if is_ours else None


def place_of(target):
    """The place of a file in the site."""
    path = relative(target)
    if path in BROUGHT:
        return BROUGHT[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}"


def relative(target):
    return target.relative_to(ROOT).as_posix()
