"""The parts of a run: a crawl that is killed again and again, one whose disk is full, one whose clock is set."""

import errno
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import archive
import journal as journals
import logbook
from graph import Web
from program import Server, flags, kill, wait

# What this run sets otherwise than it is shipped, and why. Rests, retries, timeouts and sizes stay as they are.
CHANGED = [
    ("identity.from", "run-N@outside.test", "the journal tells by it which process asked; N counts the starts"),
    ("retry.back_off_first", "4s", "an hour is too long to wait for; what is judged is that the second try comes"),
    ("retry.back_off_other_first", "3s", "15 minutes, likewise"),
    ("retry.back_off_broken_first", "3s", "a day, likewise"),
    ("retry.back_off_max", "6s", "a week, likewise"),
]
CHANGED_SHORT = [("retry.host_rest_first", "3s", "a minute is most of what the short form may take")]
CHANGED_DISK = [
    ("crawl.disk_free_min", "0", "the crawl waits when 512 MiB are left; the disk here is smaller, and has to fill up"),
]

# How long a crawl may take: at least this, and for each page of a host.
LIMIT_S = 240
LIMIT_PAGE_S = 8
# Where no small disk can be mounted: no file grows beyond this.
FILE_LIMIT = 24_000
# The exit code of a crawl that has second tries left for later.
LATER = 23


class Run:
    """One crawl of one web: its folder, its server, its command, its faults."""

    def __init__(self, nephila, folder, options, net, hosts, pages, changed=(), is_calm=False, out=None):
        self.nephila, self.folder, self.options = nephila, folder, options
        self.arguments = {"seed": options.seed, "hosts": hosts, "pages": pages, "net": net, "is_calm": is_calm}
        self.server = Server(folder, **self.arguments)
        self.web = Web(ports=self.server.ready["ports"], **self.arguments)
        self.out = out or folder / "crawl"
        self.said = folder / "said.txt"
        seeds = folder / "seeds.txt"
        seeds.write_text("\n".join(self.web.seeds) + "\n", encoding="utf-8")
        settings = self.server.places() + [one for one in changed if one[0] != "identity.from"]
        self.command = ["crawl", "--progress", "plain", "-d", "255", "--scope", "domain", "-i", seeds, "-o", self.out,
                        *flags(settings)]
        self.faults, self.deaths, self.starts = [], {}, 0
        per_host = max(pages // hosts, 1)
        self.limit = LIMIT_S + per_host * LIMIT_PAGE_S

    def start(self, *more, **kwargs):
        """Starts or goes on. Each process says who it is, so that the journal knows what a dead one had sent."""
        self.starts += 1
        sender = f'identity.from="run-{self.starts}@outside.test"'
        return self.nephila.start([*self.command, "--set", sender, *more], self.said, **kwargs)

    def suffer(self, process, seconds):
        """A fault that lasts: whatever ends meanwhile may have to be done again."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and process.poll() is None:
            self.faults.append(time.monotonic())
            time.sleep(0.5)
        self.faults.append(time.monotonic())

    def kill(self, process):
        """`kill -9` of the process that was started last."""
        self.faults.append(kill(process))
        self.deaths[f"run-{self.starts}@outside.test"] = self.faults[-1]

    def finish(self, process, verdict):
        """Waits for the end of the crawl."""
        code = wait(process, self.limit)
        if code is None:
            verdict.fail("end", f"the crawl still runs after {self.limit} s")
            process.send_signal(signal.SIGINT)
            if wait(process, 60) is None:
                self.kill(process)
        elif code not in self.codes():
            verdict.fail("end", f"the crawl ended with {code}: {self.last_words()}")
        return code

    def codes(self):
        """What a crawl that did everything may end with: 9 if robots.txt forbids a seed, which is then not answered."""
        is_denied = any(self.web.truth[(seed[:-1], "/")] == "denied" for seed in self.web.seeds)
        return (0, 9) if is_denied else (0,)

    def last_words(self):
        """The end of what the crawl said."""
        return " | ".join(self.said.read_text(encoding="utf-8", errors="replace").splitlines()[-4:])[-600:]

    def judge(self, verdict):
        """Everything that the journal, the log and the archive tell."""
        self.server.stop()
        if self.server.complaints():
            verdict.fail("judge", self.server.complaints()[-400:])
        seen = journals.Journal(self.server.journal, deaths=self.deaths)
        rests = {"host_delay": 2.0, "slot_delay": 0.5, "host_delay_factor": 5}
        journals.judge(self.web, seen, self.faults, rests, verdict)
        logbook.judge(self.nephila, self.out, seen, self.faults, verdict)
        archive.judge(self.web, self.out, seen, verdict)
        code, words, complaints = self.nephila.ask("verify", self.out)
        if code:
            verdict.fail("archive", f"verify ends with {code}: {(words + complaints).strip()[-300:]}")
        code, words, complaints = self.nephila.ask("politeness", "report", "-o", self.out)
        is_rude = bool(verdict.totals["rude"])
        if code not in (0, 1) or is_rude != (code == 1):
            last = (words + complaints).strip().splitlines()[:3]
            verdict.fail("log", f"politeness report ends with {code}, the server saw {verdict.totals['rude']} broken promises: {last}")
        if "panicked" in self.said.read_text(encoding="utf-8", errors="replace"):
            verdict.fail("end", "the program panicked: " + self.last_words())


def killed(nephila, folder, options, verdict):
    """A crawl that is killed again and again, also while it recovers, and goes on each time."""
    changed = CHANGED + (CHANGED_SHORT if options.short else [])
    run = Run(nephila, folder, options, 32, options.hosts, options.pages, changed)
    choose = random.Random(options.seed)
    began = time.monotonic()
    process = run.start()
    try:
        for number in range(options.kills):
            # A host rests after each start, so a process that lives for less than that fetches nothing.
            life = choose.uniform(0.02, 1.5) if choose.random() < 0.25 else choose.uniform(3.5, 8.0)
            code = wait(process, life)
            if code is not None:
                verdict.note(f"ended by itself with {code} after {number} of {options.kills} kills")
                if number < options.kills:
                    verdict.fail("end", f"{options.kills} kills were asked for, the crawl took {number}: use more --pages")
                break
            run.kill(process)
            verdict.count(kills=1)
            if number % 10 == 9:
                print(f"  killed {number + 1} times in {time.monotonic() - began:.0f} s", flush=True)
            process = run.start()
        code = run.finish(process, verdict)
        verdict.note(f"{time.monotonic() - began:.0f} s, exit code {code}: {run.last_words()}")
    finally:
        if process.poll() is None:
            kill(process)
        run.server.stop()
    run.judge(verdict)


def full(nephila, folder, options, verdict):
    """A crawl whose disk is full for a while, and then has room again."""
    disk = folder / "disk"
    disk.mkdir(parents=True)
    is_mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(disk)], capture_output=True, check=False).returncode == 0
    process = None
    try:
        run = Run(nephila, folder, options, 33, options.hosts_small, options.pages_small,
                  CHANGED + CHANGED_SHORT + CHANGED_DISK, is_calm=True, out=disk / "crawl")
        process = run.start() if is_mounted else run.start(file_limit=FILE_LIMIT)
        if is_mounted:
            time.sleep(6)
            fill(disk / "filler")
            verdict.count(full=1)
            run.suffer(process, 8)
            code = process.poll()
            (disk / "filler").unlink()
        else:
            verdict.note(f"no tmpfs can be mounted here: files cannot grow beyond {FILE_LIMIT} bytes instead")
            run.suffer(process, 14)
            code = process.poll()
            if code is None:
                run.kill(process)
                code = "killed"
            verdict.count(full=1)
        verdict.note(f"while full: {'still running' if code is None else code}; {run.last_words()}")
        if process.poll() is not None:
            run.faults.append(time.monotonic())
            process = run.start()
        run.finish(process, verdict)
        run.faults.append(time.monotonic())
        run.judge(verdict)
    finally:
        if process is not None and process.poll() is None:
            kill(process)
        if is_mounted:
            subprocess.run(["umount", "-l", str(disk)], check=False)


def fill(path):
    """Writes until nothing goes in any more."""
    with open(path, "wb", buffering=0) as out:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    out.write(b"x" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


def clock(nephila, folder, options, verdict):
    """A crawl whose clock is set forward and back while it runs and while it does not."""
    if not os.path.exists(FAKETIME):
        verdict.note("libfaketime is not installed: left out")
        return
    run = Run(nephila, folder, options, 34, options.hosts_small, options.pages_small, CHANGED + CHANGED_SHORT, is_calm=True)
    offset = folder / "offset"
    offset.write_text("+0\n", encoding="ascii")
    # The monotonic clock is the kernel's own: what goes by it must not notice.
    environment = {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1",
                   "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    process = run.start(**environment)
    try:
        for number, jump in enumerate(("+3600", "-3600", "+172800", "+31536000", "-86400", "+0")):
            if wait(process, 3) is not None:
                break
            offset.write_text(jump + "\n", encoding="ascii")
            verdict.count(jumps=1)
            if number % 2:
                time.sleep(1)
                run.kill(process)
                process = run.start(**environment)
        # A second try that was planned by a wrong clock may lie up to a day ahead; the crawl says so and ends with 23. At its
        # time the same command goes on.
        for hours in (2, 4, 30):
            if wait(process, run.limit) != LATER:
                break
            verdict.count(later=1)
            offset.write_text(f"+{hours * 3600}\n", encoding="ascii")
            process = run.start(**environment)
        run.finish(process, verdict)
    finally:
        if process.poll() is None:
            kill(process)
    run.judge(verdict)


def clean(folder):
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    pathlib.Path(folder).mkdir(parents=True)
    return pathlib.Path(folder)
