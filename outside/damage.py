"""Kinds of damage to the folder of a crawl. Each has to be named by the start of the crawl, by `verify` or by `doctor`.

A crawl of a small web is killed twice on its way; each damage is done to a copy of its folder, and the copy goes on. What
is said of it is compared with what is said of a copy that was not damaged.
"""

import concurrent.futures
import re
import shutil
import time

import archive
import journal as journals
from parts import CHANGED, CHANGED_SHORT, Run
from program import kill, wait
from verdict import Verdict

SMALL = [
    ("store.bytes_max", "60000", "a closed archive file is needed beside the open one, without fetching a gigabyte"),
    ("worker.dirty_bytes_max", "20000", "tables on disk are needed beside journals, without a million URLs"),
    ("worker.dirty_bytes_all_max", "100000", "likewise"),
]
# Copies that are crawled at the same time.
AT_ONCE = 6
LIMIT_S = 150
# The crawl whose copies are damaged is killed twice, or on a slow machine until its folder has everything.
ROUNDS_MAX = 5
# The exit code of a crawl that does not begin in a damaged folder; `--mend` makes it (docs/damage.md).
REFUSED = 17
# A line with one of these says that something is wrong.
ALARM = re.compile(
    r"\b(fail|error|warn|damage|corrupt|gone|missing|defect|cannot|broken|wrong|differ|not there|no such|torn|lost|"
    r"does not|do not|unreadable|again|invalid|mismatch|other key|another)", re.IGNORECASE)


def is_rich(folder):
    """Does a folder have everything that is damaged: tables, a closed archive file and an open one?"""
    return any(folder.glob("state/partition-*/tables/urls-*.run")) and len(archive.files(folder)) > 1


def largest(paths):
    return max(paths, key=lambda path: path.stat().st_size)


def journal_of(folder):
    return largest((folder / "state").glob("partition-*/log/*.journal"))


def runs_of(folder, table):
    """All files of one table of the partition with the most state: some may be old ones that nobody reads any more."""
    return sorted(manifest_of(folder).parent.glob(f"{table}-*.run"))


def manifest_of(folder):
    return largest((folder / "state").glob("partition-*/tables/manifest"))


def open_warc(folder):
    return max(archive.files(folder), key=lambda path: path.name)


def closed_warc(folder):
    return min(archive.files(folder), key=lambda path: path.name)


def index_of(folder):
    return min((folder / "archive").glob("*.cdxj"))


def log_of(folder):
    return largest((folder / "logs").iterdir())


GZIP_HEAD = b"\x1f\x8b\x08"
GZIP_HEAD_BYTES = 10


def flip(at):
    """Turns one bit over, at a share of the file's length."""
    def act(path):
        data = bytearray(path.read_bytes())
        place = min(len(data) - 1, int(len(data) * at))
        # The head of a gzip member has bytes that mean nothing (time, system): a bit there harms nobody, and no sum covers it.
        head = data.rfind(GZIP_HEAD, 0, place + len(GZIP_HEAD)) if ".warc.gz" in path.name else -1
        if 0 <= head <= place < head + GZIP_HEAD_BYTES:
            place = min(len(data) - 1, head + GZIP_HEAD_BYTES + 4)
        data[place] ^= 0x10
        path.write_bytes(data)
        return f"{path.name}, byte {place} of {len(data)}"
    return act


def cut(share=None, bytes_off=None):
    """Takes away the end of a file."""
    def act(path):
        size = path.stat().st_size
        left = int(size * share) if share is not None else max(0, size - bytes_off)
        with open(path, "r+b") as file:
            file.truncate(left)
        return f"{path.name}, {left} bytes of {size}"
    return act


def zeros(path):
    """Writes a sector of zeros into the middle."""
    data = bytearray(path.read_bytes())
    at = len(data) // 2
    end = min(len(data), at + 512)
    data[at:end] = bytes(end - at)
    path.write_bytes(data)
    return f"{path.name}, {end - at} bytes at {at}"


def gone(path):
    """Removes a file or a folder."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return path.name


def swap(path):
    """Puts the journal of another partition in the place of this one."""
    others = [other for other in path.parents[2].glob("partition-*/log/*.journal") if other != path]
    shutil.copyfile(largest(others), path)
    return f"{path.parents[1].name} has the journal of {largest(others).parents[1].name}"


def garble(path):
    """Overwrites a part of the middle with zeros."""
    data = bytearray(path.read_bytes())
    at = len(data) // 2
    data[at:at + 12] = bytes(len(data[at:at + 12]))
    path.write_bytes(data)
    return f"{path.name} at {at}"


STATE = r"partition|journal|state|log of"
# Name, what it is done to, what is done, and a word of whoever names it.
KINDS = [
    ("key: one bit", lambda folder: folder / "state/secret", flip(0.5), r"secret|key"),
    ("key: gone", lambda folder: folder / "state/secret", gone, r"secret|key"),
    ("journal: gone", journal_of, gone, STATE),
    ("partition: gone", lambda folder: journal_of(folder).parents[1], gone, STATE),
    ("archive file, closed: gone", closed_warc, gone, r"warc|archive"),
    ("archive file, open: one bit", open_warc, flip(0.5), r"warc|archive"),
    ("journal: one bit in the middle", journal_of, flip(0.5), STATE),
    ("manifest: one bit", manifest_of, flip(0.5), r"manifest|partition|table|state"),
    ("archive file, closed: one bit", closed_warc, flip(0.5), r"warc|archive"),
    ("archive file, closed: cut", closed_warc, cut(share=0.7), r"warc|archive"),
    ("journal: one bit in its head", journal_of, flip(0.0), STATE),
    ("journal: one bit near the end", journal_of, flip(0.97), STATE),
    ("journal: half of it", journal_of, cut(share=0.5), STATE),
    ("journal: 300 bytes less", journal_of, cut(bytes_off=300), STATE),
    ("journal: a sector of zeros", journal_of, zeros, STATE),
    ("journal: empty", journal_of, cut(share=0), STATE),
    ("journal: of another partition", journal_of, swap, STATE),
    ("key: empty", lambda folder: folder / "state/secret", cut(share=0), r"secret|key"),
    ("manifest: gone", manifest_of, gone, r"manifest|partition|table|state"),
    ("manifest: empty", manifest_of, cut(share=0), r"manifest|partition|table|state"),
    ("table of URLs: one bit", lambda folder: runs_of(folder, "urls"), flip(0.5), r"\.run|partition|table|state"),
    ("table of hosts: one bit at the end", lambda folder: runs_of(folder, "hosts"), flip(0.98), r"\.run|partition|table|state"),
    ("table of URLs: gone", lambda folder: runs_of(folder, "urls"), gone, r"\.run|partition|table|state"),
    ("table of URLs: cut", lambda folder: runs_of(folder, "urls"), cut(share=0.6), r"\.run|partition|table|state"),
    ("tables of a partition: gone", lambda folder: manifest_of(folder).parent, gone, r"partition|table|state"),
    ("all state: gone", lambda folder: folder / "state", gone, r"state|partition|key|secret"),
    ("archive file, open: gone", open_warc, gone, r"warc|archive"),
    ("archive file, open: 700 bytes less", open_warc, cut(bytes_off=700), r"warc|archive"),
    ("index of a file: one bit", index_of, flip(0.5), r"cdxj|index"),
    ("index of a file: gone", index_of, gone, r"cdxj|index"),
    ("job: garbled", lambda folder: folder / "job.json", garble, r"job"),
    ("job: gone", lambda folder: folder / "job.json", gone, r"job|crawl|seed"),
    ("log: garbled", log_of, garble, r"log|line"),
    ("log: gone", log_of, gone, r"log|line"),
]


class Case:
    """A copy of the folder, what was done to it, and what was said of it."""

    def __init__(self, base, folder, number, kind):
        self.name, self.place, self.act, self.word = kind
        self.number, self.folder = number, folder
        self.sender = f"d{number}@outside.test"
        shutil.copytree(base, folder, ignore=lambda _, names: [name for name in names if name == "control"])
        self.done, self.mended = "nothing", None
        if self.act:
            places = self.place(folder)
            self.done = ", ".join([self.act(place) for place in (places if isinstance(places, list) else [places])])
            if not self.done:
                raise ValueError("the folder has nothing of that kind")

    def run(self, run):
        """Asks the three who may name it, `verify` and `doctor` before the crawl mends what it can and after it."""
        asked = [run.nephila.ask("verify", self.folder), run.nephila.ask("doctor", "-o", self.folder)]
        said = run.folder / f"said-{self.number}.txt"
        command = [self.folder if word == run.out else word for word in run.command]
        command += ["--set", f'identity.from="{self.sender}"']
        self.code = self.crawl(run, command, said)
        if self.code == REFUSED:
            # What it refuses to go on with, it goes on with when it is told to.
            self.mended = self.crawl(run, [*command, "--mend"], said)
        asked += [run.nephila.ask("verify", self.folder), run.nephila.ask("doctor", "-o", self.folder)]
        self.words = said.read_text(encoding="utf-8", errors="replace")
        self.words += "".join(out + complaints for _, out, complaints in asked)

    @staticmethod
    def crawl(run, command, said):
        """Goes on with the crawl until it ends."""
        process = run.nephila.start(command, said)
        code = wait(process, LIMIT_S)
        if code is None:
            kill(process)
        return code

    def plain(self):
        """What was said, without numbers, times and the name of the copy."""
        lines = self.words.replace(str(self.folder), "DIR").splitlines()
        return {re.sub(r"\d+(\.\d+)?", "0", line).strip() for line in lines if line.strip()}

    def names_it(self, usual):
        """The line that names the damage, which nobody says of a folder that is whole."""
        for line in sorted(self.plain() - usual):
            if ALARM.search(line) and re.search(self.word, line, re.IGNORECASE):
                return line
        return None


def damage(nephila, folder, options, verdict):
    """Does all of it."""
    run = Run(nephila, folder, options, 35, 16, 110, CHANGED + CHANGED_SHORT + SMALL, is_calm=True)
    try:
        for number in range(ROUNDS_MAX):
            process = run.start()
            time.sleep(6)
            kill(process)
            if number and is_rich(run.out):
                break
        time.sleep(1)
        before = journals.Journal(run.server.journal).whole()
        kinds = [("nothing", None, None, "")] + KINDS[:options.damages]
        cases = []
        for number, kind in enumerate(kinds):
            try:
                cases.append(Case(run.out, folder / f"copy-{number}", number, kind))
            except (OSError, ValueError) as error:
                verdict.fail("damage", f"{kind[0]} could not be done: {error}")
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(lambda case: case.run(run), cases):
                pass
    finally:
        run.server.stop()
    usual = cases[0].plain()
    for case in cases:
        judge(run, case, before, usual, verdict)


def judge(run, case, before, usual, verdict):
    """Named, and nothing lost without a word."""
    seen = journals.Journal(run.server.journal, case.sender)
    whole = before | seen.whole()
    lost = [key for key, state in run.web.truth.items() if state in ("wanted", "sitemap") and key not in whole]
    named = case.names_it(usual)
    if "panicked" in case.words:
        verdict.fail("damage", f"{case.name}: the program panicked")
    if case.act is None:
        if lost or case.code != 0:
            verdict.fail("lost", f"without any damage {len(lost)} pages are missing, exit code {case.code}")
        kept = Verdict("")
        archive.judge(run.web, case.folder, seen, kept, is_whole=False)
        for words in kept.failed["archive"]:
            verdict.fail("archive", words)
        return
    verdict.count(damages=1, named=int(named is not None))
    if named is None:
        words = f"{case.name} ({case.done}) is named by nobody; exit code {case.code}"
        if lost:
            words += f", and {len(lost)} pages were lost without a word, such as {lost[0][0]}{lost[0][1]}"
        verdict.fail("damage", words)
    else:
        verdict.note(f"{case.name}: {named[:150]}")
    ended = case.code if case.mended is None else case.mended
    if ended is None or ended == REFUSED:
        verdict.fail("damage", f"{case.name} ({case.done}): the crawl {'refuses to go on with --mend' if ended else 'does not end'}")
    elif ended == 0 and lost and named is not None:
        verdict.count(fetched_with_loss=1)
        verdict.note(f"{case.name}: {len(lost)} pages missing, with a word")
