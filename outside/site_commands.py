"""Judges the commands and settings that the manual names: `site_commands.py NEPHILA [PAGE...]`.

Every `nephila` command in a block of code or between backquotes has to exist: its subcommands, its options, the values of options
that have a closed list, and, in a block, the arguments that it cannot do without. The judge is the program itself, by `--help`.
Every setting that a page names (`--set section.key=…`, a line below `[section]`, `section.key` between backquotes) has to be one
that `nephila settings` prints. A line that a `console` block shows below a command has to stand in a page that is made by running
the program (`MADE`). Without pages: README.md and all pages under docs/. Ends with one line of figures; a complaint is a line that
begins with FAIL.
"""

import functools
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Pages that are made by running the program: what another page shows of an output is a quotation from them.
MADE = ["docs/first-hour.md", "docs/operators-hour.md", "docs/tour.md"]
# Blocks in these languages may have commands.
SHELL = {"", "console", "sh", "bash", "text"}
HELP_S = 60
# Ends of names of files, which look like keys of settings: `robots.txt`, `store.rs`.
FILES = {"txt", "md", "rs", "py", "mjs", "json", "jsonl", "toml", "html", "xml", "pem", "key", "warc", "cdxj", "log", "yml", "wacz"}
# In the text of a page these stand for arguments that are left out.
LEFT_OUT = {"…", "..."}
# Placeholder between alternatives such as `pause|resume`.
EITHER = "\x00"


class Help:
    """What `--help` says about one command."""

    def __init__(self, text):
        self.options, self.commands, self.arguments = {}, set(), []
        usage = re.search(r"^Usage: nephila(.*(?:\n {2,}\S.*)*)", text, re.MULTILINE)
        words = " ".join(usage.group(1).split()) if usage else ""
        required = re.sub(r"\[[^\]]*\](?:\.\.\.)?", " ", words)
        self.required_options = set(re.findall(r"(--[a-z][a-z0-9-]*)", required))
        self.required = len(re.findall(r"<[^>]*>", re.sub(r"--[a-z][a-z0-9-]* <[^>]*>", " ", required).replace("<COMMAND>", "")))
        section, names = "", []
        for line in text.splitlines():
            if line and not line.startswith(" "):
                section, names = line.rstrip(":"), []
            elif section == "Commands":
                if name := re.match(r"  ([a-z][a-z-]*)(?:\s|$)", line):
                    self.commands.add(name.group(1))
            elif option := re.match(r"\s+(?=-)(-\w)?(?:, )?(--[a-z][a-z0-9-]*)?(?: ([<\[]\S*))?(?:\s{2}.*)?$", line):
                names = [name for name in option.groups()[:2] if name]
                entry = {"value": bool(option.group(3)), "values": set()}
                self.options.update({name: entry for name in names})
            elif section == "Arguments" and re.match(r"  [<\[]\w", line):
                names = [len(self.arguments)]
                self.arguments.append({"values": set()})
            elif names:
                self.more(names[0], names, line)

    def more(self, first, names, line):
        """A line of the description of an option or argument: its possible values and other names."""
        entry = self.arguments[first] if isinstance(first, int) else self.options[first]
        if one := re.match(r"\s+- ([\w.-]+): ", line):
            entry["values"].add(one.group(1))
        elif listed := re.search(r"\[possible values: ([^\]]*)\]", line):
            entry["values"].update(listed.group(1).split(", "))
        elif alias := re.search(r"\[alias(?:es)?: ([^\]]*)\]", line):
            self.options.update({name: entry for name in alias.group(1).split(", ")})


class Program:
    """The program, asked for its help and its settings."""

    def __init__(self, path):
        self.path = path

    def say(self, *words):
        done = subprocess.run([self.path, *words], capture_output=True, text=True, timeout=HELP_S, check=True)
        return done.stdout

    @functools.cache
    def help(self, path):
        return Help(self.say(*path, "--help"))

    @functools.cache
    def settings(self):
        """The keys of each section."""
        sections, section = {}, ""
        for line in self.say("settings").splitlines():
            # Tables of which there may be several are printed as comments.
            if found := re.match(r"(?:# )?\[\[?([a-z_.]+)\]\]?$", line):
                section = found.group(1)
                sections.setdefault(section, set())
            elif section and (found := re.match(r"(?:# )?([a-z0-9_]+) = ", line)):
                sections[section].add(found.group(1))
        return sections

    def has_setting(self, section, key):
        """Whether there is such a setting. The keys of a table in a list (`[[spiders.allow]]`) are not printed."""
        sections = self.settings()
        outer, _, inner = section.rpartition(".")
        return key in sections.get(section, ()) or inner in sections.get(outer, ())

    def complaints(self, words, is_whole):
        """What is wrong with a command, given as words without `nephila`."""
        path, place, seen, found, waiting = (), 0, set(), [], list(words)
        while waiting:
            word = waiting.pop(0)
            if word in LEFT_OUT:
                is_whole = False
            elif word == "--":
                break
            elif word.startswith("-") and word != "-":
                found += self.option(path, word, waiting, seen)
            elif self.help(path).commands:
                if word not in self.help(path).commands:
                    return found + [f"there is no command `nephila {' '.join((*path, word))}`"]
                path += (word,)
            else:
                arguments = self.help(path).arguments
                values = arguments[min(place, len(arguments) - 1)]["values"] if arguments else set()
                if is_whole and not arguments:
                    found.append(f"`nephila {' '.join(path)}` takes no {word!r}")
                elif values and word not in values:
                    found.append(f"`nephila {' '.join(path)}` knows no {word!r}")
                place += 1
        return found + (self.missing(path, place, seen) if is_whole else [])

    def option(self, path, word, waiting, seen):
        """What is wrong with an option. Takes its value out of the words that wait."""
        name, has_value, value = word.partition("=")
        known = self.help(path).options
        if not name.startswith("--") and len(name) > 2 and name[:2] in known and not known[name[:2]]["value"]:
            waiting.insert(0, "-" + name[2:])
            name = name[:2]
        if name not in known:
            return [f"`nephila {' '.join(path)}` has no option {name}"]
        seen.add(name)
        if not known[name]["value"]:
            return []
        if not has_value:
            if not waiting:
                return []
            value = waiting.pop(0)
        values = known[name]["values"]
        if values and value not in values and not value.isupper():
            return [f"{name} of `nephila {' '.join(path)}` knows no {value!r}"]
        if name == "--set":
            section, _, key = value.partition("=")[0].rpartition(".")
            if section and not self.has_setting(section, key) or not section and key not in self.settings():
                return [f"there is no setting {value.partition('=')[0]}"]
        return []

    def missing(self, path, place, seen):
        """What a whole command lacks."""
        about, name = self.help(path), " ".join(("nephila", *path))
        if about.commands:
            return [f"`{name}` needs one of: {', '.join(sorted(about.commands))}"]
        found = [f"`{name}` needs {option}" for option in about.required_options if not self.same(about, option) & seen]
        if place < about.required:
            found.append(f"`{name}` needs {about.required} arguments")
        return found

    @staticmethod
    def same(about, option):
        """All names of an option."""
        return {name for name, entry in about.options.items() if entry is about.options.get(option)}


def blocks(text):
    """The blocks of code of a page: language, number of the first line, lines. Indented blocks have the language ''."""
    lines, found, at, inner = text.splitlines(), [], 0, 0
    while at < len(lines):
        line, was_blank = lines[at], at == 0 or not lines[at - 1].strip()
        indent = len(line) - len(line.lstrip())
        fence = re.match(r"( *)(`{3,}|~{3,})\s*(\w*)", line)
        if fence:
            end = next((n for n in range(at + 1, len(lines)) if lines[n].strip().startswith(fence.group(2))), len(lines))
            found.append((fence.group(3), at + 2, [line[indent:] for line in lines[at + 1:end]]))
            at = end + 1
            continue
        # The text of an entry of a list is indented itself, as far as the words behind its mark.
        if mark := re.match(r" {0,3}(?:[-*]|\d+\.) +", line):
            inner = mark.end()
        elif line.strip() and not indent and was_blank:
            inner = 0
        if not line.strip() or indent < inner + 4 or not was_blank:
            at += 1
            continue
        end = at
        while end < len(lines) and (lines[end].startswith(" " * (inner + 4)) or not lines[end].strip()):
            end += 1
        found.append(("", at + 1, [line[inner + 4:] for line in lines[at:end]]))
        at = end
    return found


def without_remark(line):
    """A line of a block without what stands behind two blanks, or behind a blank and `#`, outside of quotes."""
    quote = ""
    for at, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif line[at:at + 2] in ("  ", " #"):
            return line[:at]
    return line


def is_open(text):
    """Whether a quote is not closed, or the line goes on."""
    try:
        shlex.split(text)
    except ValueError:
        return True
    return text.rstrip().endswith("\\")


def split(line):
    """The `nephila` commands of a line of a shell, as words without `nephila`; alternatives make several of one."""
    line = re.sub(r"\s\d?>&\d|\s\d(?=>)", " ", re.sub(r"(?<=\w)\|(?=\w)", EITHER, line))
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split, lexer.commenters = True, ""
    commands, words, is_target = [], [], False
    for word in [*lexer, ";"]:
        if word and not set(word) - set("|&;()"):
            commands.append(words)
            words, is_target = [], False
        elif word and not set(word) - set("<>"):
            is_target = True
        elif is_target:
            is_target = False
        elif words or not re.match(r"[A-Z_]+=", word):
            words.append(word)
    return [chosen for words in commands if words[:1] == ["nephila"] for chosen in alternatives(words[1:])]


def alternatives(words):
    for at, word in enumerate(words):
        if EITHER in word:
            return [one for choice in word.split(EITHER) for one in alternatives([*words[:at], choice, *words[at + 1:]])]
    return [words]


def lines_of(block):
    """The lines of a shell in a block, each with its number: remarks are left out, and lines that go on are one."""
    language, first, lines = block
    at, found = 0, []
    while at < len(lines):
        number, line = first + at, lines[at]
        at += 1
        if language == "console" and not line.startswith("$ "):
            continue
        line = line.removeprefix("$ ")
        while is_open(without_remark(line)) and at < len(lines):
            line = line.rstrip().removesuffix("\\").rstrip() + " " + lines[at].removeprefix("> ").strip()
            at += 1
        line = without_remark(line)
        if re.match(r"(?:[A-Z_]+=\S* )*nephila\s", line) or re.search(r"[|;&(] *nephila\s", line):
            found.append((number, line))
    return found


def outputs(block):
    """The lines of a `console` block that are output."""
    language, first, lines = block
    if language != "console":
        return []
    found, is_command = [], False
    for number, line in enumerate(lines, first):
        starts = line.startswith("$ ")
        if not starts and not is_command and line.strip() and line.strip() not in LEFT_OUT | {"^C"}:
            found.append((number, line))
        is_command = (starts or is_command) and line.endswith("\\")
    return found


def prose(text):
    """The paragraphs of a page outside of its blocks, each with the number of its first line. A row of a table is one."""
    hidden = {number for _, first, lines in blocks(text) for number in range(first, first + len(lines))}
    found, is_open_still = [], False
    for number, line in enumerate(text.splitlines(), 1):
        is_row = line.startswith("|")
        if is_open_still and line.strip() and not is_row:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        elif number not in hidden and line.strip():
            found.append((number, line))
        is_open_still = number not in hidden and bool(line.strip()) and not is_row
    return found


class Judge:
    """What was checked, and what did not hold."""

    def __init__(self, program, made):
        self.program, self.made = program, {line.strip() for text in made for line in text.splitlines()}
        self.counts = {"commands": 0, "mentions": 0, "settings": 0, "lines of output": 0}
        self.failed = 0

    def fail(self, page, number, words):
        self.failed += 1
        print(f"FAIL {page}:{number}: {words}", flush=True)

    def page(self, name, text):
        for block in blocks(text):
            self.block(name, block)
        for number, paragraph in prose(text):
            for code in paragraph.split("`")[1::2]:
                self.mention(name, number, code.replace("\\|", "|"))

    def block(self, name, block):
        if block[0] in SHELL:
            for number, line in lines_of(block):
                for words in self.words(name, number, line):
                    self.counts["commands"] += 1
                    for complaint in self.program.complaints(words, True):
                        self.fail(name, number, complaint)
        for number, line in outputs(block):
            self.counts["lines of output"] += 1
            if line.strip() not in self.made:
                self.fail(name, number, f"no page that is made by running the program has this line: {line.strip()}")
        section = ""
        for number, line in enumerate(block[2], block[1]):
            if head := re.match(r"(?:# )?\[\[?([a-z_.]+)\]\]?\s*(?:#.*)?$", line):
                is_ours = head.group(1).partition(".")[0] in self.program.settings()
                section = head.group(1) if is_ours and block[0] in ("", "toml") else ""
            elif section and (key := re.match(r"#? ?([a-z0-9_]+)\s*=", line)):
                self.setting(name, number, section, key.group(1))

    def words(self, name, number, line):
        try:
            return split(line)
        except ValueError as error:
            self.fail(name, number, f"no shell reads this ({error}): {line}")
            return []

    def mention(self, name, number, code):
        """Text between backquotes: a command, which may be a part of one, or a setting."""
        if code.startswith("nephila "):
            for words in self.words(name, number, without_remark(code)):
                self.counts["mentions"] += 1
                for complaint in self.program.complaints(words, False):
                    self.fail(name, number, complaint)
        elif setting := re.match(r"([a-z_]+)\.([a-z0-9_]+)(?:\s*=.*)?$", code):
            section, key = setting.groups()
            if section in self.program.settings() and key not in FILES:
                self.setting(name, number, section, key)

    def setting(self, name, number, section, key):
        self.counts["settings"] += 1
        if not self.program.has_setting(section, key):
            self.fail(name, number, f"there is no setting {section}.{key}")


def main():
    program, pages = Program(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]
    if not pages:
        found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        pages = [page.relative_to(ROOT).as_posix() for page in found]
    judge = Judge(program, [(ROOT / page).read_text(encoding="utf-8") for page in MADE])
    for page in pages:
        judge.page(page, (ROOT / page).read_text(encoding="utf-8"))
    counted = ", ".join(f"{number} {name}" for name, number in judge.counts.items())
    print(f"site commands: {len(pages)} pages, {counted}, {judge.failed} complaints")
    return 1 if judge.failed else 0


if __name__ == "__main__":
    sys.exit(main())
