"""A cluster under faults: several nodes and three NATS servers, killed and frozen while they are busy.

A repeat is excused by a fault of the node that had asked first, or of the servers, and by no other: who was left alone has
to do everything once. Before each fault the nodes are asked how much they have open and queued.
"""

import collections
import random
import re
import signal
import time
import types
import urllib.request

import archive
import journal as journals
import logbook
import parts
from graph import NEVER_WHOLE, PASSING, Web
from nats import Servers, free_ports
from program import Server, flags, kill, wait

# What this part sets otherwise than it is shipped, besides what `killed` does.
CHANGED = [
    ("frontier.host_delay", "4s", "work has to last while the faults fall"),
    ("cluster.partitions", "64", "four nodes need no more"),
]
RESTS = {"host_delay": 4.0, "slot_delay": 0.5, "host_delay_factor": 5}
# Between two faults, in seconds.
BETWEEN_S = (2.5, 5.5)
# Kinds of faults by weight, and how long each lasts.
KINDS = {
    "node killed": (45, (0.1, 6.0)), "node frozen": (20, (1.0, 22.0)), "server killed": (22, (0.5, 8.0)),
    "server frozen": (8, (1.0, 8.0)), "servers killed": (5, (1.0, 5.0)),
}
# A fault waits until somebody has a ticket open, and looks so often, but no longer than that.
IDLE_LOOK_S, IDLE_MAX_S = 0.3, 40.0
# A page is done when its outcome is in the log: what a node had got so long before its fault may be asked for again. It
# writes every second or so; while a server is away it holds what it has.
DURABLE_S = 8.0
# After the servers are back: 6 to 13 s for a new leader (docs/operating.md), and what is held for it.
SERVERS_S = 30.0
# A frozen node finds out that it was frozen.
WAKES_S = 5.0
# A cluster is busy for this long at most once the faults are over.
COMPLETE_S = 1800
LEAVE_S = 60


class Fault:
    """From when to when, and whose. `node` is none if it was the servers'."""

    def __init__(self, kind, number):
        self.kind, self.number, self.began, self.ended = kind, number, time.monotonic(), None
        self.node = number if kind.startswith("node") else None

    def excuses(self, one, two):
        """May this be why an answer was asked for again?"""
        if self.node is not None and node_of(one) != self.node:
            return False
        after = SERVERS_S if self.node is None else WAKES_S
        return self.began <= two["start"] and one["start"] <= self.ended + after and self.began <= one["end"] + DURABLE_S


def node_of(request):
    """The number of the node that sent a request."""
    return int(re.match(r"node-(\d+)-", request["from"] or "node--1-").group(1))


class Cluster:
    """Web, servers, nodes, and a job."""

    def __init__(self, nephila, folder, options):
        self.nephila, self.folder, self.options = nephila, folder, options
        arguments = {"seed": options.seed, "hosts": options.hosts, "pages": options.pages, "net": 35, "is_calm": False}
        self.server = Server(folder, **arguments)
        self.web = Web(ports=self.server.ready["ports"], **arguments)
        self.nats = Servers(folder)
        self.api = free_ports(options.nodes)
        self.nodes, self.starts, self.deaths = [None] * options.nodes, collections.Counter(), {}
        self.faults, self.open, self.ended_by_itself = [], [], []
        changed = [one for one in parts.CHANGED if one[0] != "identity.from"] + CHANGED
        self.settings = flags(self.server.places() + changed + [
            ("cluster.name", "outside"), ("cluster.servers", self.nats.urls()), ("cluster.replicas", "3"),
            ("cluster.discover", "false"),
        ])

    def sender(self, number):
        """Whom a request of a node's process is from."""
        return f"node-{number}-{self.starts[number]}@outside.test"

    def out(self, number):
        """A node's folder."""
        return self.folder / f"node-{number}"

    def start(self, number):
        """Starts a node, or starts it again."""
        self.starts[number] += 1
        self.nodes[number] = self.nephila.start(
            ["serve", "-o", self.out(number), "--node", f"n{number}", *self.settings,
             *flags([("identity.from", f'"{self.sender(number)}"'), ("api.listen", f'"127.0.0.1:{self.api[number]}"')])],
            self.folder / f"node-{number}.txt")

    def ask(self, *words, tries=20, timeout=120):
        """Asks the cluster through its servers; they may be away for a moment."""
        for _ in range(tries):
            code, out, complaints = self.nephila.ask(*words, *self.settings, timeout=timeout)
            if code == 0:
                break
            time.sleep(2)
        return code, out, complaints

    def opened(self):
        """How many tickets are open on all nodes that answer, and how many URLs wait."""
        tickets = waiting = 0
        for port in self.api:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=1) as answer:
                    text = answer.read().decode()
                tickets += int(re.search(r"^nephila_frontier_open_tickets (\d+)", text, re.MULTILINE).group(1))
                waiting += sum(map(int, re.findall(r"^nephila_frontier_urls{.*} (\d+)", text, re.MULTILINE)))
            except (OSError, AttributeError):
                continue
        return tickets, waiting

    def begin(self, fault):
        """The fault begins."""
        number = fault.number
        if fault.kind == "node killed":
            self.deaths[self.sender(number)] = kill(self.nodes[number])
        elif fault.kind == "node frozen":
            self.nodes[number].send_signal(signal.SIGSTOP)
        elif fault.kind == "server frozen":
            self.nats.freeze(number, True)
        else:
            for server in range(Servers.COUNT) if fault.kind == "servers killed" else (number,):
                self.nats.kill(server)

    def end(self, fault):
        """And is over."""
        number = fault.number
        if fault.kind == "node killed":
            self.start(number)
        elif fault.kind == "node frozen":
            self.nodes[number].send_signal(signal.SIGCONT)
        elif fault.kind == "server frozen":
            self.nats.freeze(number, False)
        else:
            for server in range(Servers.COUNT) if fault.kind == "servers killed" else (number,):
                self.nats.start(server)
        fault.ended = time.monotonic()

    def suffer(self, choose, verdict):
        """All faults, one after the other; the next one may come before the last is over, if it is of another kind."""
        running = []
        due = time.monotonic() + 2 * BETWEEN_S[1]
        idle_until = due + IDLE_MAX_S
        while len(self.faults) < self.options.faults or running:
            time.sleep(0.05)
            now = time.monotonic()
            for ends, fault in list(running):
                if now >= ends:
                    running.remove((ends, fault))
                    self.end(fault)
            for number, node in enumerate(self.nodes):
                is_away = any(fault.kind == "node killed" and fault.number == number for _, fault in running)
                if not is_away and node.poll() is not None:
                    verdict.fail("end", f"node {number} ended by itself with {node.returncode}")
                    self.start(number)
            if now < due or len(self.faults) == self.options.faults:
                continue
            due = now + choose.uniform(*BETWEEN_S)
            kind = choose.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
            is_of_nodes = kind.startswith("node")
            number = choose.randrange(self.options.nodes if is_of_nodes else Servers.COUNT)
            if any(fault.kind.startswith("node") == is_of_nodes for _, fault in running):
                due = now + 0.5
                continue
            tickets, waiting = self.opened()
            if not tickets and now < idle_until:
                # It mends the last faults: the next one falls when it is at work again.
                due = now + IDLE_LOOK_S
                continue
            idle_until = due + IDLE_MAX_S
            self.open.append((tickets, waiting))
            fault = Fault(kind, number)
            self.begin(fault)
            self.faults.append(fault)
            running.append((now + choose.uniform(*KINDS[kind][1]), fault))
            verdict.count(faults=1)
            if len(self.faults) % 10 == 0:
                print(f"  {len(self.faults)} faults, tickets open and URLs waiting at the last: {self.open[-1]}", flush=True)

    def stop(self):
        """Whatever happened, nothing of ours is left."""
        for node in self.nodes:
            if node is not None and node.poll() is None:
                node.send_signal(signal.SIGCONT)
                node.send_signal(signal.SIGINT)
        for number, node in enumerate(self.nodes):
            if node is not None and wait(node, LEAVE_S) is None:
                kill(node)
                yield number
        self.nats.stop()
        self.server.stop()

    def judge(self, verdict):
        """What the journal, the logs and the archives of all nodes together tell."""
        if self.server.complaints():
            verdict.fail("judge", self.server.complaints()[-400:])
        seen = journals.Journal(self.server.journal, deaths=self.deaths)
        moments = sorted(moment for fault in self.faults for moment in (fault.began, fault.ended))
        journals.judge_complete(self.web, seen, verdict)
        journals.judge_once(self.web, seen, lambda one, two: any(f.excuses(one, two) for f in self.faults), verdict)
        journals.judge_rests(self.web, seen, moments, RESTS, verdict)
        journals.judge_robots(self.web, seen, verdict)
        journals.judge_at_once(seen, verdict)
        verdict.count(requests=len(seen.requests))
        captures = collections.defaultdict(list)
        for number in range(self.options.nodes):
            own = types.SimpleNamespace(requests=[one for one in seen.requests if node_of(one) == number])
            verdict.note(f"node {number}: {len(own.requests)} requests, {self.starts[number]} starts")
            logbook.judge(self.nephila, self.out(number), own, self.faults, verdict)
            archive.judge(self.web, self.out(number), seen, verdict, is_whole=False)
            for url, found in archive.read(self.out(number), verdict)[0].items():
                captures[url] += found
            text = (self.folder / f"node-{number}.txt").read_text(encoding="utf-8", errors="replace")
            if "panicked" in text:
                verdict.fail("end", f"node {number} panicked")
        archive.judge_whole(self.web, captures, seen, verdict)
        moved = [one for one in seen.requests if one["kind"] == "robots-of"]
        owners = collections.defaultdict(set)
        for one in seen.requests:
            if one["kind"] not in ("robots", "robots-of"):
                owners[one["origin"].split("//")[1].split(":")[0]].add(node_of(one))
        across = [one for one in moved if node_of(one) not in owners[one["path"].removeprefix("/robots-of/")]]
        verdict.note(f"robots.txt that moved to another host: {len(moved)} answers, {len(across)} asked for by a node that never "
                     "asked the host whose rules they are")
        if self.open:
            tickets, waiting = (sorted(pair[which] for pair in self.open) for which in (0, 1))
            idle = sum(not pair[0] for pair in self.open)
            verdict.note(f"at each fault, on the nodes that answered: tickets open {spread(tickets)}, URLs waiting {spread(waiting)}; "
                         f"{idle} of {len(self.open)} faults fell on an idle cluster")
            verdict.note("tickets open at each fault: " + " ".join(str(pair[0]) for pair in self.open))
            if idle * 10 > len(self.open):
                verdict.fail("judge", f"{idle} of {len(self.open)} faults fell on an idle cluster: use more --pages")
        kinds = collections.Counter(fault.kind for fault in self.faults)
        verdict.note("faults: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))


def spread(figures):
    """Least, middle and most."""
    return f"{figures[0]} to {figures[-1]}, {figures[len(figures) // 2]} in the middle"


def cluster(nephila, folder, options, verdict):
    """The whole part."""
    run = Cluster(nephila, folder, options)
    stuck = []
    try:
        for number in range(options.nodes):
            run.start(number)
        seeds = folder / "seeds.txt"
        seeds.write_text("\n".join(run.web.seeds) + "\n", encoding="utf-8")
        code, out, complaints = run.ask("job", "create", "outside", "-i", seeds, "--scope", "domain", "-d", "255")
        if code:
            verdict.fail("end", f"job create ends with {code}: {(out + complaints)[-300:]}")
            return
        began = time.monotonic()
        run.suffer(random.Random(options.seed), verdict)
        verdict.note(f"all faults were over after {time.monotonic() - began:.0f} s, with {run.opened()} tickets open and URLs waiting")
        code, out, complaints = run.ask("job", "wait", "outside", "--timeout", f"{COMPLETE_S}s", tries=3, timeout=COMPLETE_S + 60)
        verdict.note(f"job wait ended with {code} after {time.monotonic() - began:.0f} s: {(complaints + out).strip()[-200:]}")
        if code:
            verdict.fail("end", f"job wait ends with {code}: {(complaints + out)[-300:]}")
    finally:
        stuck = list(run.stop())
    for number in stuck:
        verdict.fail("end", f"node {number} does not end within {LEAVE_S} s")
    run.judge(verdict)
