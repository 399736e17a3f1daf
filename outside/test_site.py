"""The judges of the manual can fail: each fault that is put into a page gives one complaint, and a good page gives none."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import site_commands
import site_links

HELP = {
    (): "A crawler\n\nUsage: nephila <COMMAND>\n\nCommands:\n  crawl   Crawl sites. The same command goes\n          on\n  stop    Stop list\n"
        "  report  Reports\n\nOptions:\n  -h, --help     Print help\n  -V, --version  Print version\n",
    ("crawl",): "Crawl\n\nUsage: nephila crawl [OPTIONS] [URL]...\n\nArguments:\n  [URL]...\n          Seeds\n\nOptions:\n"
                "  -o, --output <DIR>\n          Folder\n\n      --scope <KIND>\n          Scope [default: prefix]\n\n"
                "          Possible values:\n          - host:   The host\n          - prefix: The folder, and everything\n"
                "            below\n\n  -q, --quiet\n          Errors only\n\n  -f, --force\n          Also so\n\n      --set <KEY=VALUE>\n"
                "          Set one setting\n\n  -i, --input <FILE>\n          File\n          \n          [alias: --seeds]\n\n"
                "  -h, --help\n          Print help (see a summary with '-h')\n",
    ("stop",): "Stops\n\nUsage: nephila stop <COMMAND>\n\nCommands:\n  add     Add\n  list    List\n  remove  Remove\n",
    ("stop", "add"): "Add\n\nUsage: nephila stop add [OPTIONS] --reason <TEXT> <TARGET>...\n\nArguments:\n  <TARGET>...\n          Target\n\n"
                     "Options:\n      --reason <TEXT>\n          Reason\n",
    ("stop", "remove"): "Remove\n\nUsage: nephila stop remove [OPTIONS] <TARGET>...\n\nArguments:\n  <TARGET>...\n          Target\n\n"
                        "Options:\n      --reason <TEXT>\n          Reason\n",
    ("stop", "list"): "List\n\nUsage: nephila stop list\n",
    ("report",): "Report\n\nUsage: nephila report [OPTIONS] [WHAT]\n\nArguments:\n  [WHAT]\n          Kind\n\n          Possible values:\n"
                 "          - summary: Totals\n          - hosts:   Hosts\n\nOptions:\n      --state <STATE>\n          State\n          \n"
                 "          [possible values: pending, success]\n",
}
SETTINGS = "# A file\n\n[store]\n# Prefix.\nprefix = \"N\"\n\n\n[spiders]\nallow = []\n\n# Logins.\n# [[credentials]]\n# user = \"me\"\n"
MADE = "```text\n$ nephila crawl\ndone: N pages\n```\n"
GOOD = """# A page

Say `nephila stop add` or `nephila crawl … --scope host`; `store.prefix` is a setting, `robots.txt` and `store.rs` are none.

```console
$ nephila crawl https://a.example/ -qf -o docs --scope=host \\
    --seeds list.txt --set store.prefix=A   # a remark with -x
done: N pages
$ zcat list.gz | nephila crawl - -o docs > out.log 2>&1 &
$ ENVIRONMENT=1 nephila report hosts --state pending
```

    nephila stop add|remove a.example --reason "a  b"           nothing --here counts
    $ nephila report summary | nephila-other --unknown

1.  In a list:

        nephila stop add 'it is' --reason 'x'

    and `store.prefix` again.

```toml
[store]
prefix = "A"
[[credentials]]
user = "me"
[[spiders.allow]]
name = "any"
[other]
prefixes = 1
```

```python
nephila = "--unknown"
```
"""
FAULTS = [
    ("$ nephila crawl https://a.example/", "$ nephila crwl https://a.example/", "no command `nephila crwl`"),
    (" -qf ", " -qx ", "no option -x"),
    ("--scope=host", "--scope=hosts", "knows no 'hosts'"),
    ("--seeds list.txt", "--seed list.txt", "no option --seed"),
    ("--set store.prefix=A", "--set store.prefixes=A", "no setting store.prefixes"),
    ("report hosts", "report host", "knows no 'host'"),
    ("--state pending", "--state done", "knows no 'done'"),
    ("zcat list.gz | nephila crawl -", "zcat list.gz | nephila crawl - --gzip", "no option --gzip"),
    ("stop add 'it is' --reason 'x'", "stop add 'it is'", "needs --reason"),
    ("stop add 'it is' --reason 'x'", "stop add --reason 'x'", "needs 1 arguments"),
    ("stop add 'it is' --reason 'x'", "stop", "needs one of: add, list, remove"),
    ("stop add 'it is' --reason 'x'", "stop list now", "takes no 'now'"),
    ("stop add|remove a.example", "stop add|put a.example", "no command `nephila stop put`"),
    ("`nephila stop add`", "`nephila stop put`", "no command `nephila stop put`"),
    ("… --scope host`", "… --scopes host`", "no option --scopes"),
    ("`store.prefix` is", "`store.suffix` is", "no setting store.suffix"),
    ("`store.prefix` again", "`store.again` again", "no setting store.again"),
    ("prefix = \"A\"", "prefixes = \"A\"", "no setting store.prefixes"),
    ("user = \"me\"\n[[", "login = \"me\"\n[[", "no setting credentials.login"),
    ("done: N pages", "done: 7 pages", "no page that is made by running the program has this line"),
]


class Stub(site_commands.Program):
    """A program with little help."""

    def say(self, *words):
        return SETTINGS if words == ("settings",) else HELP[words[:-1]]


def complaints_about(text):
    judge = site_commands.Judge(Stub("nephila"), [MADE])
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        judge.page("page.md", text)
    return said.getvalue().splitlines(), judge


class Commands(unittest.TestCase):
    def test_a_good_page_has_no_complaint_and_all_its_commands_are_seen(self):
        complaints, judge = complaints_about(GOOD)
        self.assertEqual(complaints, [])
        self.assertEqual(judge.counts["commands"], 7)
        self.assertEqual(judge.counts["mentions"], 2)
        self.assertEqual(judge.counts["lines of output"], 1)
        self.assertEqual(judge.counts["settings"], 5)

    def test_every_fault_is_one_complaint(self):
        for good, bad, words in FAULTS:
            self.assertIn(good, GOOD)
            complaints, _ = complaints_about(GOOD.replace(good, bad, 1))
            with self.subTest(bad=bad):
                self.assertEqual(len(complaints), 1, complaints)
                self.assertIn(words, complaints[0])


PAGES = {
    "index.html": '<link rel="stylesheet" href="a/site.css"><p id="top"><a href="b/page.html#part">b</a> <a href="#top">up</a> '
                  '<a href="https://elsewhere.example/">e</a> <img src="a/x.svg"><img src="data:image/png;base64,AA"></p>',
    "b/page.html": '<h2 id="part">x</h2><a href="../index.html">home</a><script src="../a/x.js"></script>',
    "404.html": '<link rel="stylesheet" href="/a/site.css"><a href="/index.html">home</a>',
    "a/site.css": "body { background: url('x.svg') } b { background: url(data:image/png;base64,AA) }",
    "a/x.svg": "<svg/>", "a/x.js": "", "search/search_index.json": "{}", "search/search_index.js": "",
}
BROKEN = [
    ("index.html", "b/page.html#part", "b/gone.html", "a link to nothing"),
    ("index.html", "b/page.html#part", "b/page.html#gone", "has no element 'gone'"),
    ("index.html", 'href="#top"', 'href="#gone"', "has no element 'gone'"),
    ("index.html", 'href="#top"', 'href="/index.html"', "an absolute link"),
    ("index.html", 'href="#top"', 'href="b/"', "a link to a folder"),
    ("index.html", 'href="#top"', 'href="../outside.html"', "a link out of the site"),
    ("index.html", "b/page.html#part", "index.html#top", "no way leads here"),
    ("index.html", "a/x.svg", "https://cdn.example/x.svg", "loads something from elsewhere"),
    ("index.html", "a/x.svg", "//cdn.example/x.svg", "loads something from elsewhere"),
    ("index.html", "a/x.svg", "a/y.svg", "loads a link to nothing"),
    ("index.html", 'rel="stylesheet" href="a/site.css"', 'rel="preconnect" href="https://fonts.example"', "loads something from elsewhere"),
    ("index.html", '<p id="top">', '<p id="top" style="background: url(https://cdn.example/x)">', "loads something from elsewhere"),
    ("index.html", '<p id="top">', '<style>@import "https://cdn.example/x.css";</style><p id="top">', "loads something from elsewhere"),
    ("index.html", '<p id="top">', '<base href="https://cdn.example/"><p id="top">', "a base element"),
    ("b/page.html", '<h2 id="part">', '<h2 id="part"><pre class="mermaid"></pre>', "mermaid"),
    ("b/page.html", "../a/x.js", "https://cdn.example/x.js", "loads something from elsewhere"),
    ("404.html", "/a/site.css", "https://cdn.example/site.css", "loads something from elsewhere"),
    ("a/site.css", "url('x.svg')", "url(https://cdn.example/x.svg)", "loads something from elsewhere"),
    ("a/site.css", "url('x.svg')", "url(y.svg)", "loads a link to nothing"),
]


def complaints_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            site_links.Site(pathlib.Path(folder)).judge()
        return said.getvalue().splitlines()


class Links(unittest.TestCase):
    def test_a_good_site_has_no_complaint(self):
        self.assertEqual(complaints_of(PAGES), [])

    def test_every_fault_is_one_complaint(self):
        for name, good, bad, words in BROKEN:
            self.assertIn(good, PAGES[name])
            complaints = complaints_of({**PAGES, name: PAGES[name].replace(good, bad, 1)})
            # A page to which the changed link led may have lost its only way.
            complaints = [line for line in complaints if words in line or "no way leads here" not in line]
            with self.subTest(bad=bad):
                self.assertEqual(len(complaints), 1, complaints)
                self.assertIn(words, complaints[0])

    def test_a_search_without_its_index_is_a_complaint(self):
        for name in site_links.SEARCH:
            files = {path: text for path, text in PAGES.items() if path != name}
            self.assertEqual(len(complaints_of(files)), 1)


if __name__ == "__main__":
    unittest.main()
