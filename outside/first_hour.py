"""The first hour of four people: the README's commands, word for word, on a terminal, against the few sites it names.

The commands are read from the README's own code blocks, so a changed README changes what is run. What the screens show goes
to docs/first-hour.md (`--write-docs`) and is compared with it otherwise. A line that the README shows below a command has to
come with the same label.
"""

import concurrent.futures
import difflib
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys

import small_web
from terminal import Terminal

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/first-hour.md"
CHANGED = []
LIMIT_S = 150

# Who they are, and the sections of the README that they follow.
PEOPLE = [
    ("An archivist", "keeps a site as it is today.", ["A first crawl"], {}),
    ("A data engineer", "has lists of URLs and wants files.", ["Lists of URLs", "URLs from elsewhere"], {"docs": True}),
    ("A news monitor", "wants every new story once, and keeps out of where it is not wanted.",
     ["Crawls that go on", "Sites and their operators"], {}),
    ("A site's owner", "looks at the own site, and at who asks it.", ["Your own site"], {}),
]
# What a command may end with besides 0.
CODES = [
    (r"report links --broken", {1}),
    # Not everything on the list is there; what is asked about is not fetched.
    (r"nephila fetch", {1}),
    (r"nephila explain", {1}),
    (r"\^C", {11, 13}),
    # Second tries are left for later.
    (r"nephila crawl", {23}),
]
FILES = {
    "urls.txt": "https://b.example/one\nhttps://b.example/two\nhttps://b.example/missing\n",
    "more.txt": "https://docs.example.org/more\n",
    "map.xml": '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
               "<url><loc>https://docs.example.org/guide/1</loc></url></urlset>\n",
    "old.cdxj": 'org,example,docs)/guide/2 20250101000000 {"url":"https://docs.example.org/guide/2","status":"200"}\n',
    "sources.opml": '<opml version="2.0"><head><title>Sources</title></head><body><outline text="A" type="rss" '
                    'xmlUrl="https://a.example/feed.xml"/></body></opml>\n',
}


def blocks(readme, heading):
    """Commands of a section, in order: the command, whether it is interrupted, and the lines shown below it."""
    section = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##? |\Z)", readme, re.MULTILINE | re.DOTALL)
    if section is None:
        raise LookupError(f"the README has no section {heading!r}")
    commands = []
    for line in section.group(1).splitlines():
        if line.startswith("    $ "):
            commands.append([line[6:].strip(), False, []])
        elif line.startswith("    ") and commands:
            if line.strip() == "^C":
                commands[-1][1] = True
            elif line.strip() and "…" not in line:
                commands[-1][2].append(line.strip())
    return commands


class Person:
    """One script: a folder, the files that a person has, and the terminals."""

    def __init__(self, who, folder, environment):
        self.name, self.wish, self.sections, self.options = who
        self.folder, self.environment = folder, environment
        self.shown, self.running = [], []

    def prepare(self, web_folder):
        """The files that the README takes for given."""
        self.folder.mkdir(parents=True)
        for name, text in FILES.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        visits = "b1\t5\t20261115120000\thttps://page.example/\thttps://docs.example.org/guide/3\t2\tx\n"
        (self.folder / "visits.gz").write_bytes(gzip.compress(visits.encode(), mtime=0))
        (self.folder / "robots.txt").write_text(small_web.ROBOTS, encoding="utf-8")
        (self.folder / "access.log").symlink_to(web_folder / "shop.example.log")
        if self.options.get("docs"):
            made = "nephila crawl https://docs.example.org/ --contact https://you.example/bot -o docs --limit 1 -q; " \
                "cp docs/archive/*.warc.gz old.warc.gz"
            subprocess.run(["bash", "-c", made], cwd=self.folder, env=self.environment, check=False, capture_output=True)

    def follow(self, readme, verdict):
        """Types every command."""
        is_after_interrupt = False
        for heading in self.sections:
            for command, is_interrupted, lines in blocks(readme, heading):
                if command.startswith("cargo "):
                    continue
                verdict.count(steps=1)
                terminal = Terminal(command, self.folder, self.environment)
                if "--forever" in command:
                    # It goes on in a terminal of its own while the next commands are typed in another.
                    terminal.wait(LIMIT_S, until=r"[2-9] done")
                    self.running.append((terminal, command))
                    continue
                if is_interrupted or " -f " in command:
                    terminal.wait(LIMIT_S, until=r"[3-9] done" if is_interrupted else r"second")
                    terminal.interrupt()
                elif not terminal.wait(LIMIT_S):
                    verdict.fail("untrue", f"{self.name}: `{command}` does not end within {LIMIT_S} s")
                terminal.end()
                is_counted = is_interrupted or (is_after_interrupt and command.startswith("nephila crawl"))
                self.note(terminal, command, is_counted)
                self.check(terminal, command, is_interrupted or " -f " in command, lines, verdict)
                is_after_interrupt |= is_interrupted
        for terminal, command in self.running:
            terminal.interrupt()
            terminal.end()
            self.note(terminal, command, True)
            self.check(terminal, command, True, [], verdict)

    def note(self, terminal, command, is_counted):
        """Keeps a screen for the page."""
        screen = plain(terminal.screen(), is_counted)
        if " -f " in command:
            # How far it has come is said at moments of its own, also when it is interrupted.
            screen = screen.split("^C")[0] + "^C"
            screen = "\n".join(line for line in screen.splitlines() if '"kind":"position"' not in line)
        # A log that is followed ends with the interrupt.
        code = "" if terminal.code in (0, None) or " -f " in command else f"(exit code {terminal.code})"
        self.shown.append("\n".join(part for part in (f"$ {command}", screen, code) if part))

    def check(self, terminal, command, is_interrupted, lines, verdict):
        """The command ends well, and what the README shows below it is what comes."""
        allowed = {0}
        for pattern, codes in CODES:
            if re.search(pattern, command + (" ^C" if is_interrupted else "")):
                allowed |= codes
        is_followed = " -f " in command
        if terminal.code not in allowed and not is_followed:
            last = terminal.screen().splitlines()[-3:]
            verdict.fail("untrue", f"{self.name}: `{command}` ends with {terminal.code}: {' | '.join(last)}")
        for line in lines:
            # Numbers and dates are others each time; the label, or else the first words, are the same.
            label = re.match(r"[a-z][a-z ]*:", line)
            words = [label.group()] if label else line.split()[:3]
            pattern = r"\s+".join(re.sub(r"\d.*", r"\\S*", re.escape(word)) for word in words)
            if not re.search(pattern, terminal.text()):
                verdict.fail("untrue", f"{self.name}: below `{command}` the README shows `{line}`, the screen nothing like it")


def plain(screen, is_counted):
    """A screen without what changes from run to run."""
    replaced = [
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "DATE"), (r"\b\d{14,17}\b", "DATE"), (r"\d+\.\d+ pages/s", "N pages/s"),
        (r"\b1 page in\b", "N pages in"),
        (r"\b\d+(\.\d+)? (B|kB|MB|GB)\b", "SIZE"),
        (r"\b\d+(\.\d+)? ?(ms|s|m|h|min)\b( \d+(\.\d+)? ?(ms|s|m|h|min)\b)*", "TIME"),
        (r'"(id|fetch|position)":"[^"]*"', r'"\1":"…"'), (r"sha1:[A-Z2-7]{32}", "sha1:…"),
        # A log of whole seconds proves more rests on a slow machine.
        (r"^rests: \d+ long enough, \d+ cannot be told", "rests: N long enough, N cannot be told"),
        (r"\b\d+ bytes\b", "SIZE"), (r"^[A-Za-z0-9_-]{43}$", "KEY"), (r" {2,}(DATE|TIME|SIZE)", r"  \1"),
    ]
    if is_counted:
        # How far it came before it was interrupted is another thing each time.
        replaced += [(r"\b\d+\b", "N"), (r"^(\s+(also|not fetched):\s+).*", r"\1…"),
                     (r", SIZE of them known already.*", "")]
    for pattern, words in replaced:
        screen = re.sub(pattern, words, screen, flags=re.MULTILINE)
    # Lines of progress; and what an interrupted crawl has left, which may be nothing.
    gone = r"\s+(N|\d+) done |\s+(left|planned|later):" if is_counted else r"\s+(N|\d+) done "
    lines = [line for line in screen.splitlines() if not re.match(gone, line)]
    return "\n".join(re.sub(r"\s+$", "", line) for line in lines)


def page(people):
    """The page for readers."""
    out = ["# The first hour", "", (
        "What four people see who follow the README, each on a terminal of 118 columns. This page is generated by "
        "`cargo xtask outside --only first-hour --write-docs` and compared by `cargo xtask outside`; do not edit it. Times, sizes "
        "and counts that differ from run to run stand as words; the line of progress is left out. The sites are small ones on "
        "loopback that answer by the names of the README; the lists and files that it takes for given were there before.")]
    for person in people:
        out += ["", f"## {person.name}", "", f"{person.name} {person.wish}", "", "```text", "\n\n".join(person.shown), "```"]
    return "\n".join(out) + "\n"


def first_hour(nephila, folder, options, verdict):
    """Runs the four scripts at the same time."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    web_folder = folder / "web"
    web_folder.mkdir()
    server = subprocess.Popen([sys.executable, pathlib.Path(__file__).parent / "small_web.py", web_folder],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        ready = json.loads(server.stdout.readline())
        programs = folder / "bin"
        programs.mkdir()
        (programs / "nephila").symlink_to(os.path.abspath(nephila.path))
        environment = {
            "PATH": f"{programs}:{os.environ.get('PATH', '/usr/bin:/bin')}", "HOME": str(folder), "TERM": "xterm",
            "LANG": "C.UTF-8", "NEPHILA_CONFIG": "/dev/null",
            # Where the names of the README are: behind a proxy, on addresses that nobody dials.
            "NEPHILA_SPIDER__PROXY": f"http://127.0.0.1:{ready['port']}",
            "NEPHILA_SPIDER__CA_FILE": os.path.abspath(ready["ca"]),
            "NEPHILA_SPIDER__ALLOW_ADDRESSES": '["127.32.0.0/12"]',
            "NEPHILA_SPIDER__DNS_FIXED": json.dumps(small_web.fixed()),
        }
        people = [Person(who, folder / f"person-{number}", environment) for number, who in enumerate(PEOPLE)]
        for person in people:
            person.prepare(web_folder)
        with concurrent.futures.ThreadPoolExecutor(len(people)) as pool:
            for _ in pool.map(lambda person: person.follow(readme, verdict), people):
                pass
    finally:
        server.stdin.close()
        server.wait(30)
    made = page(people)
    if options.write_docs:
        PAGE.write_text(made, encoding="utf-8")
        verdict.note(f"wrote {PAGE.relative_to(ROOT)}")
        return
    kept = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    differences = difflib.unified_diff(kept.splitlines(), made.splitlines(), lineterm="", n=0)
    for line in list(differences)[2:]:
        if not line.startswith("@@"):
            verdict.fail("untrue", f"docs/first-hour.md: {line}")


