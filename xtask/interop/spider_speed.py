"""Measures spiders of version 2 beside the built-in spider, in one run.

    spider_speed.py NEPHILA TESTWEB --pages N --hosts N --rounds N [--cases a,b] [--judge]

Cases:

  many     many hosts, no rests: built-in, one spider, one spider over TLS; pages a second, and CPU of node and spider together
  distant  100 ms of round trip between node and spider, rests as shipped: pages of the same time beside the built-in spider
  site     one host: the node with its built-in spider, and with four spiders; each process has the same limit of CPU (a
           control group), which stands for a machine
  site-gzip  the same, the site sends gzip

Servers are on loopback. Changed settings: rests are off in `many` and `site` (64 connections to a host), since they measure
work; budgets of domains are off.
"""
import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from ports import free_ports

RUN_SECONDS = 600
ROUND_TRIP = 0.1
# Share of one core that a process of the case `site` has.
SHARE = 0.2
SPIDERS = 4
DISTANT_PAGES = 20
DISTANT_HOSTS = 200


def say(text):
    print(text, flush=True)


class Group:
    """A control group that gives its processes a share of one core. A period of 10 ms, so that nothing waits long."""

    def __init__(self, name, share):
        old = "/sys/fs/cgroup/cpu"
        self.folder = os.path.join(old if os.path.isdir(old) else "/sys/fs/cgroup", "nephila-%d-%s" % (os.getpid(), name))
        os.mkdir(self.folder)
        if self.folder.startswith(old):
            self.put("cpu.cfs_period_us", "10000")
            self.put("cpu.cfs_quota_us", str(int(share * 10000)))
        else:
            self.put("cpu.max", "%d 10000" % int(share * 10000))

    def put(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def begin(self):
        """Called in the new process, before its program."""
        self.put("cgroup.procs", str(os.getpid()))

    def end(self):
        for _ in range(100):
            try:
                return os.rmdir(self.folder)
            except OSError:
                time.sleep(0.05)


class Process:
    """A process, its CPU seconds, and its control group."""

    def __init__(self, command, log, share=None, name=""):
        self.group = Group(name, share) if share else None
        self.log = open(log, "wb")
        self.began = time.monotonic()
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                      preexec_fn=self.group.begin if self.group else None)

    def wait(self, seconds):
        """Exit code, wall-clock seconds and CPU seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pid, status, usage = os.wait4(self.child.pid, os.WNOHANG)
            if pid:
                return self.ended(status, usage)
            time.sleep(0.005)
        self.child.kill()
        return self.ended(*os.wait4(self.child.pid, 0)[1:])

    def ended(self, status, usage):
        wall = time.monotonic() - self.began
        self.child.returncode = status
        self.log.close()
        if self.group:
            self.group.end()
        return os.waitstatus_to_exitcode(status), wall, usage.ru_utime + usage.ru_stime

    def has_ended(self):
        return os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def stop(self):
        self.child.terminate()
        return self.wait(30)


class Distance(threading.Thread):
    """A proxy that delivers every byte half a round trip later, in both directions."""

    def __init__(self, to):
        super().__init__(daemon=True)
        self.to, self.port, self.ready = to, None, threading.Event()
        self.start()
        self.ready.wait()

    def run(self):
        asyncio.run(self.serve())

    async def serve(self):
        server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await server.serve_forever()

    async def accept(self, reader, writer):
        try:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            return writer.close()
        await asyncio.gather(self.carry(reader, other_writer), self.carry(other_reader, writer))

    async def carry(self, reader, writer):
        waiting = asyncio.Queue(1000)

        async def deliver():
            while True:
                at, data = await waiting.get()
                await asyncio.sleep(at - time.monotonic())
                if not data:
                    return writer.close()
                writer.write(data)
                await writer.drain()

        task = asyncio.ensure_future(deliver())
        try:
            while True:
                data = await reader.read(1 << 16)
                await waiting.put((time.monotonic() + ROUND_TRIP / 2, data))
                if not data:
                    break
            await task
        except OSError:
            task.cancel()


class Web:
    def __init__(self, args, work, **settings):
        self.journal = os.path.join(work, "journal")
        file = os.path.join(work, "web.json")
        with open(file, "w") as out:
            json.dump({"links": 40, "addresses": 1, **settings}, out)
        command = [args.testweb, "serve", "--settings", file]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = json.loads(self.process.stdout.readline())
        listed = subprocess.run([args.testweb, "list", "--settings", file], capture_output=True, text=True, check=True)
        self.pages = listed.stdout.count("\n")

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)


def crawl(args, work, web, spiders=0, tls=False, distant=False, rests=False, share=None):
    """Crawls the web to its end. Pages a second, CPU seconds for 1,000 pages of the node and of its spiders."""
    folder = os.path.join(work, "crawl")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["sync", "-f", work], check=True)
    (port,) = free_ports(1)
    command = [args.nephila, "crawl", web.ready["home"], "--scope", "any", "-d", "255", "--quiet", "--config", "/dev/null", "-o", folder]
    if not rests:
        command += ["--delay", "0s", "-c", "64", "--host-concurrency", "64"]
    settings = ['spider.dns_servers=["%s"]' % web.ready["dns"], "spider.ports=[%d]" % web.ready["http_port"],
                'spider.allow_addresses=["127.0.0.0/8"]', "budget.domain_urls=1000000000", "budget.domain_urls_per_day=1000000000"]
    if not args.encodings:
        settings.append('spider.accept_encoding=""')
    if spiders:
        settings.append('spiders.listen="127.0.0.1:%d"' % port)
    if tls:
        settings += ["spiders.tls_cert=%s" % os.path.join(work, "keys/node-one.pem"), "spiders.tls_key=%s" % os.path.join(work, "keys/node-one.key")]
    for setting in settings:
        command += ["--set", setting]
    node = Process(command, os.path.join(work, "node.log"), share, "node")
    to = Distance(port).port if distant else port
    crew = []
    for number in range(spiders):
        spider = [args.nephila, "spider", "--node", "127.0.0.1:%d" % to, "--name", "s%d" % number, "--concurrency", "256"]
        spider += ["--ca", os.path.join(work, "keys/ca.pem")] * tls
        crew.append(Process(spider, os.path.join(work, "spider%d.log" % number), share, "spider%d" % number))
    time.sleep(1)
    for number, spider in enumerate(crew):
        if spider.has_ended():
            node.stop()
            with open(os.path.join(work, "spider%d.log" % number), errors="replace") as log:
                sys.exit("FAIL  a spider ended at once: " + log.read()[-2000:])
    code, wall, cpu = node.wait(RUN_SECONDS)
    of_spiders = sum(spider.stop()[2] for spider in crew)
    if code != 0:
        with open(os.path.join(work, "node.log"), errors="replace") as log:
            sys.exit("FAIL  the crawl ended with %s: %s" % (code, log.read()[-2000:]))
    done = subprocess.run([args.nephila, "log", "-o", folder, "--json"], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kept = [line for line in lines if line.get("outcome") == "ok" and line.get("warc") and not line["url"].endswith("/robots.txt")]
    if len(kept) != web.pages:
        sys.exit("FAIL  %d of %d pages were fetched" % (len(kept), web.pages))
    # From the first page to the last: start and end are the same for all.
    times = [line["at"] for line in kept]
    seconds = (max(times) - min(times)) / 1000
    return web.pages / seconds, cpu * 1000 / web.pages, of_spiders * 1000 / web.pages


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nephila")
    parser.add_argument("testweb")
    parser.add_argument("--pages", type=int, default=30_000)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default="many,distant,site,site-gzip")
    parser.add_argument("--judge", action="store_true")
    args = parser.parse_args()
    figures, missed = [], []

    def median(values):
        return statistics.median(values)

    def goal(name, value, holds):
        figures.append("%s %.2f" % (name, value))
        if not holds:
            missed.append(name)

    with tempfile.TemporaryDirectory() as work:
        subprocess.run([args.nephila, "cluster", "keys", os.path.join(work, "keys"), "--node", "one=127.0.0.1"], check=True, capture_output=True)
        for case in args.cases.split(","):
            args.encodings = case == "site-gzip"
            pages, hosts, web, ways = args.pages, args.hosts, {}, {}
            if case == "many":
                ways = {"built-in": {}, "plain": {"spiders": 1}, "TLS": {"spiders": 1, "tls": True}}
            elif case == "distant":
                pages, hosts = DISTANT_HOSTS * DISTANT_PAGES, DISTANT_HOSTS
                # Hosts of one size, hardly two of which share an address, so that all end together and only their rests count.
                web = {"size_exponent": 0.0, "addresses": 60_000}
                ways = {"built-in": {"rests": True}, "distant": {"spiders": 1, "tls": True, "rests": True, "distant": True}}
            else:
                pages, hosts = args.pages // 5, 1
                web = {"encodings": ["gzip"]} if args.encodings else {}
                ways = {"built-in": {"share": SHARE}, "spiders": {"spiders": SPIDERS, "share": SHARE}}
            results = {way: [] for way in ways}
            for number in range(1 if case == "distant" else args.rounds):
                # Back and forth, so that other load meets all of them.
                order = list(ways) if number % 2 == 0 else list(ways)[::-1]
                for way in order:
                    server = Web(args, work, pages=pages, hosts=hosts, **web)
                    rate, node, spiders = crawl(args, work, server, **ways[way])
                    server.end()
                    results[way].append((rate, node, spiders))
                    say("%s, round %d: %s: %.0f pages/s; CPU ms a page: node %.2f, spiders %.2f" % (
                        case, number + 1, way, rate, node, spiders))
            base = results["built-in"]
            for way in list(ways)[1:]:
                rate = median(one[0] / other[0] for one, other in zip(results[way], base))
                cpu = median((one[1] + one[2]) / other[1] for one, other in zip(results[way], base))
                node = median(one[1] / other[1] for one, other in zip(results[way], base))
                if case == "many":
                    goal("many, %s: rate" % way, rate, rate >= (0.85 if way == "plain" else 0.75))
                    goal("many, %s: CPU of both" % way, cpu, cpu <= 1.25)
                elif case == "distant":
                    goal("distant: rate", rate, rate >= 0.95)
                else:
                    goal("%s: rate" % case, rate, rate >= 3)
                figures.append("%s, %s: CPU of the node %.2f" % (case, way, node))
    say("spider speed: %s; missed: %s" % ("; ".join(figures), ", ".join(missed) or "none"))
    sys.exit(bool(missed) and args.judge)


main()
