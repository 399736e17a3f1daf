"""Judges remote spiders: crawls the test web with the built-in spider, then with the spiders of examples/spiders.

    spiders.py NEPHILA TESTWEB EXAMPLES PAGES KILLS

The spiders of version 1 are written from the documents alone (docs/store-v1.md); those of version 2 are `nephila spider`. Each
way, by which the node connects to the spiders (push), by which they connect to it (pull), and by version 2, must end with the
same URLs, outcomes and digests as the built-in one.
With KILLS, spiders are killed and started again at random moments meanwhile. The journal of the web is judged for
politeness by `testweb check`.
"""
import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

from ports import free_ports

SPIDERS = 3
# Maximum number of URLs at a spider.
TICKETS = 64
CRAWL_SECONDS = 900
# Requests and answers of a crawl without rests would say nothing about politeness.
DELAY_MS = 100


def say(text):
    print(text, flush=True)


class Web:
    """The test web, with a journal of its own."""

    def __init__(self, testweb, pages, port, work, name):
        self.testweb, self.journal = testweb, os.path.join(work, name + ".journal")
        self.settings = os.path.join(work, "web.json")
        settings = json.loads(subprocess.run([testweb, "settings"], capture_output=True, text=True, check=True).stdout)
        settings.update(hosts=max(4, pages // 25), pages=pages, http_port=port, addresses=8, latency="5ms", duplicate_share=0.1,
                        redirect_share=0.1, error_share=0.1, private_share=0.1, page_bytes=8000,
                        retry_after="1s")
        settings["robots"].update(private=0.4, closed=0.1, missing=0.2)
        with open(self.settings, "w") as file:
            json.dump(settings, file)
        command = [testweb, "serve", "--settings", self.settings, "--journal", self.journal]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = json.loads(self.process.stdout.readline())

    def judge(self, is_partial=False):
        """Numbers of requests that broke a rest, a limit or robots.txt, of repeated ones, and the words of the judge."""
        self.process.stdin.close()
        self.process.wait(60)
        command = [self.testweb, "check", "--settings", self.settings, "--journal", self.journal, "--start", self.ready["home"],
                   "--host-rest-ms", str(DELAY_MS), "--address-rest-ms", str(DELAY_MS)] + ["--partial"] * is_partial
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "RUST_BACKTRACE": "0"})
        words = done.stdout + done.stderr
        counts = {name: int(count) for name, count in re.findall(r"(\w+): \d+ judged, (\d+) violations", words)}
        return counts["politeness"] + counts["robots"], counts["repeats"], " | ".join(words.strip().splitlines()[:8])


class Spiders(threading.Thread):
    """Processes, some of which are killed and started again."""

    def __init__(self, commands, kills, log):
        super().__init__(daemon=True)
        self.commands = commands
        self.log = open(log, "wb")
        self.running = [self.begin(command) for command in self.commands]
        self.kills, self.killed, self.ends = kills, 0, threading.Event()
        self.chance = random.Random(7)
        self.start()

    def begin(self, command):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def run(self):
        while self.killed < self.kills and not self.ends.wait(self.chance.uniform(0.2, 2.0)):
            place = self.chance.randrange(len(self.running))
            self.running[place].kill()
            self.running[place].wait()
            self.killed += 1
            time.sleep(self.chance.uniform(0, 0.5))
            self.running[place] = self.begin(self.commands[place])

    def stop(self):
        self.ends.set()
        self.join()
        for process in self.running:
            process.kill()
            process.wait()
        self.log.close()


def crawl(nephila, web, folder, more):
    """Crawls the web to its end. Returns seconds."""
    port = web.ready["http_port"]
    command = [nephila, "crawl", web.ready["home"], "-o", folder, "--scope", "any", "--depth", "255", "--delay", "%dms" % DELAY_MS,
               "--progress", "none"]
    for setting in ['spider.dns_servers=["%s"]' % web.ready["dns"], 'spider.allow_addresses=["127.0.0.0/8"]',
                    "spider.ports=[%d]" % port, "frontier.host_delay_factor=0", 'spider.accept_encoding=""',
                    # Other spiders get the URLs of a killed one after this time, two minutes by default.
                    'spider.total_timeout="20s"',
                    # Hosts that answer 503 would rest for a minute each time.
                    'retry.host_rest_first="2s"', 'retry.host_rest_max="2s"', *more]:
        command += ["--set", setting]
    began = time.monotonic()
    with open(folder + ".log", "wb") as log:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=CRAWL_SECONDS)
    # Some pages of the web answer with errors that are tried again much later (23).
    if done.returncode not in (0, 23):
        with open(folder + ".log", errors="replace") as log:
            sys.exit("FAIL  the crawl ended with %d: %s" % (done.returncode, log.read()[-3000:]))
    return time.monotonic() - began


def results(nephila, folder):
    """The last outcome of every URL that was asked for, and the digest of each that was fetched well."""
    done = subprocess.run([nephila, "log", "-o", folder, "--json"], capture_output=True, text=True, check=True)
    outcomes, spiders = {}, collections.Counter()
    for line in done.stdout.splitlines():
        line = json.loads(line)
        if "outcome" not in line or not line["outcome"]:
            continue
        ok = line["outcome"] == "ok" and not line["url"].endswith("/robots.txt")
        outcomes[line["url"]] = (line["outcome"], line.get("digest") if ok else None)
        found = re.search(r"by the spider (\w[\w.]*)", line.get("detail") or "")
        if line.get("status"):
            spiders[found[1] if found else "the node"] += 1
    return outcomes, spiders


def differences(expected, found):
    for url in sorted(expected.keys() | found.keys()):
        if expected.get(url) != found.get(url):
            yield "%s: %s, by spiders %s" % (url, expected.get(url), found.get(url))


def main():
    nephila, testweb, examples, pages, kills = sys.argv[1:]
    pages, kills = int(pages), int(kills)
    failed, figures = 0, []
    with tempfile.TemporaryDirectory() as work:
        (port,) = free_ports(1)
        web = Web(testweb, pages, port, work, "built-in")
        folder = os.path.join(work, "built-in")
        seconds = crawl(nephila, web, folder, [])
        expected, _ = results(nephila, folder)
        rude, repeats, words = web.judge()
        say("built-in: %d URLs in %.0f s, %d rude, %d repeated" % (len(expected), seconds, rude, repeats))
        failed += rude + repeats > 0
        for way in ("push", "pull", "version 2"):
            web = Web(testweb, pages, port, work, way)
            store, listen, *ports = free_ports(2 + SPIDERS)
            settings = ['spiders.store_listen="127.0.0.1:%d"' % store]
            script = os.path.join(examples, "spider_%s.py" % way)
            commands = None
            if way == "version 2":
                settings = ['spiders.listen="127.0.0.1:%d"' % listen]
                commands = [[nephila, "spider", "--node", "127.0.0.1:%d" % listen, "--name", "127.0.0.1"]] * SPIDERS
            elif way == "push":
                settings.append("spiders.connect=%s" % json.dumps(["127.0.0.1:%d" % port for port in ports]))
                addresses = [["127.0.0.1:%d" % port, "127.0.0.1:%d" % store] for port in ports]
            else:
                settings.append('spiders.v1_listen="127.0.0.1:%d"' % listen)
                addresses = [["127.0.0.1:%d" % listen, "127.0.0.1:%d" % store]] * SPIDERS
            commands = commands or [[sys.executable, script, *each, "nephila"] for each in addresses]
            spiders = Spiders(commands, kills, os.path.join(work, way + ".out"))
            folder = os.path.join(work, way)
            try:
                seconds = crawl(nephila, web, folder, settings)
            finally:
                spiders.stop()
            found, used = results(nephila, folder)
            rude, repeats, words = web.judge(is_partial=kills > 0)
            wrong = list(differences(expected, found))
            for line in wrong[:20]:
                say("FAIL  " + line)
            # A spider that is killed takes its open URLs with it; they are fetched again.
            if rude or repeats > spiders.killed * TICKETS or set(used) != {"127.0.0.1"}:
                say("FAIL  %s; fetched by %s" % (words, dict(used)))
                failed += 1
            failed += bool(wrong)
            say("%s: %d URLs in %.0f s, %d differ, %d rude, %d repeated, %d kills" % (
                way, len(found), seconds, len(wrong), rude, repeats, spiders.killed))
            figures.append("%s=%d/%d" % (way, len(found) - len(wrong), len(expected)))
    say("spiders: %s, pages=%d, failed=%d" % (", ".join(figures), pages, failed))
    sys.exit(failed > 0)


main()
