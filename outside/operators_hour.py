"""The operator's first hour: docs/operating.md word for word, on one machine.

Commands, settings and the servers' configuration are read from the document; a changed document changes what is run. Each
machine is a loopback address and a folder: `REPLACED` says what stands for what, and nothing else is changed. What the
screens show goes to docs/operators-hour.md (`--write-docs`) and is compared with it otherwise. Sentences of the document that
a command can check are checked, and have to be in the document as they are here.
"""

import difflib
import gzip
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import first_hour
import nats
import small_web
from names import Resolver
from program import kill, wait
from terminal import Terminal

ROOT = pathlib.Path(__file__).resolve().parent.parent
MANUAL = ROOT / "docs/operating.md"
PAGE = ROOT / "docs/operators-hour.md"
MACHINES = ("one", "two", "three", "four")
COMMAND_S = 60
STATUS_S = 30
LEAVE_S = 40
REPLACED = [
    ("the machines `one` to `four`", "addresses 127.N.N.1 to 127.N.N.4, with the ports of the document"),
    ("`0.0.0.0`, `10.0.0.1` and `http: 127.0.0.1`", "the machine's own address"),
    ("`URL` behind `--node`", "`https://one:6374` with `--ca-file` and `--token-file`, as the document says"),
    ("the settings of the document", "and `cluster.events = true`, as its section on events says"),
    ("`/etc/nats`, `/etc/nephila`, `/var/lib/nats`, `/data/nephila`", "a folder for each machine"),
    ("the name of a machine, which a node takes for its own", "`--node NAME`"),
    ("`s3://BUCKET/PREFIX`", "`file:///FOLDER`, as the document says"),
    ("the web", "four small sites behind a proxy on loopback, set in the environment"),
]


class Manual:
    """The document."""

    def __init__(self, verdict):
        self.text, self.verdict = MANUAL.read_text(encoding="utf-8"), verdict
        self.plain = " ".join(self.text.split())

    def block(self, first):
        """The block of code that begins with this line, without its indent and its trailing remarks."""
        found = re.search(rf"^( +){re.escape(first)}.*\n(?:\1.*\n|\s*\n)*", self.text, re.MULTILINE)
        if found is None:
            raise LookupError(f"docs/operating.md has no block that begins with {first!r}")
        indent = len(found.group(1))
        return "\n".join(line[indent:] for line in found.group().rstrip().splitlines()) + "\n"

    def commands(self, first):
        """The commands of a block: what stands beside them, after two blanks, says what they do."""
        found = []
        for line in self.block(first).splitlines():
            command = re.split(r"\s{2,}", line)[0]
            either = re.search(r"\w+(\|\w+)+", command)
            choices = either.group().split("|") if either else [""]
            found += [command.replace(either.group(), word) if either else command for word in choices if command]
        return found

    def command(self, words):
        """A command that stands in the text, between backquotes."""
        if f"`{words}`" not in self.plain:
            self.verdict.fail("untrue", f"docs/operating.md does not name `{words}` any more")
        return words

    def says(self, sentence, is_so, seen=""):
        """The document says so, and it is so."""
        self.verdict.count(statements=1)
        if sentence not in self.plain:
            self.verdict.fail("untrue", f"docs/operating.md does not say {sentence!r} any more")
        elif not is_so:
            self.verdict.fail("untrue", f"docs/operating.md says {sentence!r}, and it is not so: {seen}")


class Hour:
    """Three machines and an operator."""

    def __init__(self, nephila, folder, verdict, proxy):
        self.folder, self.verdict, self.manual = folder, verdict, Manual(verdict)
        choose = random.SystemRandom()
        net = f"127.{choose.randrange(60, 120)}.{choose.randrange(1, 250)}"
        self.address = {name: f"{net}.{number}" for number, name in enumerate(MACHINES, 1)}
        self.servers, self.nodes, self.shown = {}, {}, []
        (folder / "bin").mkdir()
        (folder / "bin/nephila").symlink_to(os.path.abspath(nephila.path))
        (folder / "bin/nats-server").symlink_to(nats.program())
        self.environment = {
            "PATH": f"{folder}/bin:{os.environ.get('PATH', '/usr/bin:/bin')}", "HOME": str(folder), "TERM": "xterm",
            "LANG": "C.UTF-8", "NEPHILA_CLUSTER__EVENTS": "true", "NEPHILA_CONFIG": "/dev/null", **proxy,
        }
        self.desk = folder / "desk"
        self.desk.mkdir()

    def here(self, text, machine):
        """A text of the document as it is on a machine of ours."""
        names = "|".join(MACHINES)
        text = re.sub(rf"\b({names})(?=:\d)", lambda found: self.address[found.group(1)], text)
        text = re.sub(rf"(server-)({names})\b", lambda found: found.group(1) + self.address[found.group(2)], text)
        text = re.sub(rf"\b({names})=10\.0\.0\.\d", lambda found: f"{found.group(1)}={self.address[found.group(1)]}", text)
        text = re.sub(r"(--server )([a-z,]+)",
                      lambda found: found.group(1) + ",".join(self.address[name] for name in found.group(2).split(",")), text)
        own = self.folder / machine
        for theirs, ours in (
                ("0.0.0.0", self.address[machine]), ("10.0.0.1", self.address[machine]),
                ("http: 127.0.0.1", f"http: {self.address[machine]}"),
                ("/var/lib/nats", f"{own}/var"),
                ("/etc/nats", f"{own}/nats"), ("/etc/nephila", f"{own}/nephila"), ("/data/nephila", f"{own}/data"),
                ("s3://BUCKET/PREFIX", f"file://{self.folder}/objects")):
            text = text.replace(theirs, ours)
        return text

    # What is typed

    def type(self, command, codes=(0,), note=True, limit=COMMAND_S, until=None, shows=None, **environment):
        """Types a command of the document at the operator's desk, and keeps the screen."""
        self.verdict.count(steps=1)
        named = "--node https://one:6374 --ca-file /etc/nephila/ca.pem --token-file /etc/nephila/operate.token"
        command = command.replace("--node URL", named)
        terminal = Terminal(self.here(command, "one"), self.desk, {**self.environment, **environment})
        is_over = terminal.wait(limit, until)
        if until:
            terminal.interrupt()
        terminal.end()
        screen = terminal.screen()
        if not is_over:
            self.verdict.fail("untrue", f"operators-hour: `{command}` does not end within {limit} s")
        elif not until and terminal.code not in codes:
            last = " | ".join(screen.splitlines()[-3:])
            self.verdict.fail("untrue", f"operators-hour: `{command}` ends with {terminal.code}: {last}")
        if note:
            self.note(command, shows(screen) if shows else screen, terminal.code)
        return terminal.code, screen

    def note(self, command, screen, code=0):
        """Keeps a screen for the page."""
        end = "" if code in (0, None) or code < 0 else f"(exit code {code})"
        self.shown.append("\n".join(part for part in (f"$ {command}", self.masked(screen), end) if part))

    def masked(self, screen):
        """A screen with the words of the document in place of ours, and without what changes from run to run."""
        for name, address in self.address.items():
            screen = screen.replace(address, name)
        for name in MACHINES:
            screen = screen.replace(f"{self.folder}/{name}/data", "/data/nephila").replace(f"{self.folder}/{name}", "/etc")
        screen = screen.replace(str(self.desk) + "/", "").replace(str(self.folder), "")
        # On a busy machine the servers take a second to answer, and the program says so.
        screen = re.sub(r"(?m)^nephila: waiting for the NATS servers .*\n?", "", screen)
        # Which node has how many, and has done how much, hangs on a key that is made anew for each cluster.
        screen = re.sub(r"(?<!^)\b\d+ (partitions|pages)\b", r"N \1", screen)
        # A node that has just started looks for work before it is ready; the manual shows the one or the other.
        screen = re.sub(r"\b(?:crawling|ready   ) N partitions", "crawling N partitions", screen)
        screen = re.sub(r"\b\d+ (fetches open|URLs queued|planned|parked)", r"N \1", screen)
        screen = re.sub(r"(?m)^( *\d+) +(one|two|three|four) +epoch \d+", r"\1  NODE epoch N", screen)
        screen = re.sub(r"partition +\d+", "partition N", screen)
        # What happens first, and what is left at a moment.
        screen = re.sub(r'"host":"https://[a-z]+', '"host":"https://NAME', screen)
        screen = re.sub(r"\b\d+ URLs left", "N URLs left", screen)
        screen = re.sub(r"nats-server [\d.]+", "nats-server VERSION", screen)
        return first_hour.plain(screen, False)

    def chapter(self, heading, words):
        """What comes next on the page."""
        self.shown.append(f"\n## {heading}\n\n{words}")

    def until(self, is_so, limit, step=0.3):
        """Waits; says how long it took, or None."""
        began = time.monotonic()
        while time.monotonic() - began < limit:
            if is_so():
                return time.monotonic() - began
            time.sleep(step)
        return None

    # Machines

    def settings(self, machine, key):
        """The settings file of the document on a machine, with its own key."""
        text = self.manual.block("[identity]")
        own = self.folder / machine / "nephila"
        own.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.desk / "keys/ca.pem", own / "ca.pem")
        shutil.copy(self.desk / "keys" / key, own / "node.nk")
        for name in ("pem", "key"):
            shutil.copy(self.desk / f"keys/node-{machine}.{name}", own / f"node.{name}")
        for name in ("operate.token", "read.token", "node.token"):
            shutil.copy(self.desk / "keys" / name, own / name)
        (own / "nephila.toml").write_text(self.here(text, machine), encoding="utf-8")
        return {"NEPHILA_CONFIG": str(own / "nephila.toml")}

    def give_server_files(self, machine):
        """Beside a server's configuration, as the document says: accounts.conf, ca.pem and its own files."""
        own = self.folder / machine / "nats"
        own.mkdir(parents=True, exist_ok=True)
        for path in (self.desk / "keys").iterdir():
            if path.name in ("accounts.conf", "ca.pem") or path.name.startswith(f"server-{self.address[machine]}."):
                shutil.copy(path, own / path.name)

    def start_server(self, machine):
        """A NATS server with the configuration of the document."""
        self.give_server_files(machine)
        conf = self.here(self.manual.block("server_name: one"), machine)
        conf = conf.replace("server_name: one", f"server_name: {machine}")
        conf = conf.replace(f"server-{self.address['one']}", f"server-{self.address[machine]}")
        path = self.folder / machine / "nats/nats.conf"
        path.write_text(conf, encoding="utf-8")
        self.servers[machine] = subprocess.Popen(
            [nats.program(), "-c", path, "-l", path.with_suffix(".log")], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start_node(self, machine):
        """A node with the command of the document."""
        command = self.manual.command("nephila serve -o /data/nephila")
        words = [self.folder / "bin/nephila", *self.here(command, machine).split()[1:], "--node", machine]
        with open(self.folder / f"{machine}.txt", "a", encoding="utf-8") as said:
            self.nodes[machine] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                env={**self.environment, **self.settings(machine, f"node-{machine}.nk")})

    def ask(self, *words, **environment):
        """A question whose screen is not kept: exit code and what it says."""
        done = subprocess.run([self.folder / "bin/nephila", *words], cwd=self.desk, env={**self.environment, **environment},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_S, check=False)
        return done.returncode, done.stdout + done.stderr

    def is_well(self):
        """Does every partition have a live owner, and is there no alarm?"""
        return self.ask("cluster", "status")[0] == 0

    def owned(self):
        """How many partitions each node has."""
        _, words = self.ask("cluster", "partitions")
        owners = re.findall(r"^\s*\d+\s+(one|two|three|four)\b", words, re.MULTILINE)
        return {name: owners.count(name) for name in set(owners)}

    def reload(self):
        """`accounts.conf` goes to the servers again, and they read it."""
        for machine, server in self.servers.items():
            self.give_server_files(machine)
            server.send_signal(signal.SIGHUP)

    def end(self):
        """Nothing of ours is left."""
        for process in list(self.nodes.values()) + list(self.servers.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                kill(process)

    # The hour

    def files(self):
        """What the document takes for given."""
        (self.desk / "seeds.txt").write_text("https://a.example/\nhttps://b.example/\nhttps://shop.example/\n", encoding="utf-8")
        (self.desk / "more.txt").write_text("https://b.example/one\n", encoding="utf-8")
        (self.desk / "map.xml").write_text(first_hour.FILES["map.xml"].replace("docs.example.org/guide/1", "b.example/two"),
                                           encoding="utf-8")
        (self.desk / "old.cdxj").write_text(
            'example,a)/first 20250101000000 {"url":"https://a.example/first","status":"200"}\n', encoding="utf-8")
        visits = "b1\t5\t20261115120000\thttps://page.example/\thttps://a.example/second\t2\tx\n"
        (self.desk / "reflog.gz").write_bytes(gzip.compress(visits.encode(), mtime=0))
        made = "nephila crawl https://b.example/two --contact https://you.example/bot -o old --limit 1 -q; " \
            "cp old/archive/*.warc.gz old.warc.gz"
        subprocess.run(["bash", "-c", made], cwd=self.desk, env=self.environment, check=False, capture_output=True)

    def found(self):
        """Three machines from nothing."""
        manual = self.manual
        self.chapter("Three machines from nothing", "Keys, three servers, three nodes, and whether all is well.")
        self.keys = manual.commands("nephila cluster keys keys")[0]
        self.type(self.keys)
        made = {path.name: path.read_bytes() for path in (self.desk / "keys").iterdir() if path.suffix in (".nk", ".key", ".token")}
        self.ask(*self.here(self.keys, "one").split()[1:])
        kept = {path.name: path.read_bytes() for path in (self.desk / "keys").iterdir() if path.suffix in (".nk", ".key", ".token")}
        is_printed = any(data.decode().splitlines()[-1].strip() in self.shown[-1] for data in made.values())
        manual.says("Nothing in DIR is ever changed or printed", made == kept and not is_printed)
        for machine in MACHINES[:3]:
            self.start_server(machine)
        self.environment.update(self.operator())
        self.until(lambda: all(is_open(self.address[name], 4222) for name in MACHINES[:3]), STATUS_S)
        self.type(manual.command("nephila doctor"), shows=of_the_cluster)
        for machine in MACHINES[:3]:
            self.start_node(machine)
        began = time.monotonic()
        self.until(lambda: len(self.owned()) == 3 and self.is_well(), STATUS_S)
        took = time.monotonic() - began
        manual.says("Each takes its share of the partitions within some seconds", took < STATUS_S, "not within half a minute")
        self.verdict.note(f"three nodes had all partitions {took:.0f} s after their start")
        manual.says("It exits with 0 when every partition has a live owner and there is no alarm", self.is_well())
        self.type(manual.command("nephila cluster status"))
        self.type(manual.command("nephila doctor"), shows=of_the_cluster)

    def operator(self):
        """The settings of whoever runs `nephila job`: those of a node, with `operator.nk`."""
        self.settings("one", "node-one.nk")
        own = self.folder / "one/nephila"
        text = (own / "nephila.toml").read_text(encoding="utf-8")
        shutil.copy(self.desk / "keys/operator.nk", own / "operator.nk")
        (own / "operator.toml").write_text(text.replace("node.nk", "operator.nk"), encoding="utf-8")
        return {"NEPHILA_CONFIG": str(own / "operator.toml")}

    def work(self):
        """A job, and questions about it."""
        manual = self.manual
        self.chapter("A job", "From anywhere that reaches the servers, with the operator's key.")
        self.type(manual.command("nephila job create news -i seeds.txt --scope domain"))
        self.type("nephila job wait news", shows=last_line)
        self.type(manual.command("nephila job list"))
        self.type("nephila job pause news")
        self.type("nephila job resume news")
        self.chapter("Asking a cluster", "The commands of that section, one after the other. What nobody has found is unknown, "
                     "and exit code 1 says so.")
        for command in manual.commands("nephila explain https://a.example/page --node"):
            is_followed = " -f " in command
            self.type(command, codes=(0, 1) if "a.example/page" in command else (0,),
                      until=r"\n.*\n" if is_followed else None, shows=first_lines if is_followed else few_lines)

    def over_http(self):
        """What the section on HTTP says of tokens."""
        manual = self.manual
        base = f"https://{self.address['one']}:6374"
        own = self.folder / "one/nephila"
        token, read, node = ((own / f"{name}.token").read_text(encoding="utf-8").strip() for name in ("operate", "read", "node"))
        trust = ssl.create_default_context(cafile=own / "ca.pem")

        def status(url, token=None, method="GET"):
            return answered(url, trust, token, method)

        manual.says("They need no token", status(f"{base}/livez") == 200 and status(f"{base}/readyz") == 200)
        manual.says("with a token, also one that only reads", (status(f"{base}/metrics"), status(f"{base}/metrics", read)) == (401, 200))
        manual.says("the token goes as `Authorization: Bearer TOKEN`", status(f"{base}/api/v1/jobs", token) == 200)
        manual.says("if some may only ask", status(f"{base}/api/v1/jobs", read) == 200
                    and status(f"{base}/api/v1/jobs/news/pause", read, "POST") in (401, 403), "who may only ask has paused a job")
        manual.says("nodes prove to each other that they know it, and only ask; it is never sent",
                    status(f"{base}/api/v1/jobs", node) == 401, "the secret of nodes is taken for a token")

    def faults(self):
        """A node dies, one is drained and comes back, one joins."""
        manual = self.manual
        self.chapter("A node dies", "`kill -9`. What the table of faults says of it is measured.")
        kill(self.nodes["two"])
        began = time.monotonic()
        self.until(lambda: "two" not in self.owned(), 60)
        self.until(self.is_well, STATUS_S)
        took = time.monotonic() - began
        manual.says("its partitions are taken over 15 s later (`cluster.lease_ttl`)", 9 < took < 40, f"{took:.0f} s")
        self.type("nephila cluster status")
        self.start_node("two")
        self.until(lambda: self.owned().get("two", 0) > 60 and self.is_well(), STATUS_S)
        self.chapter("A server dies", "The other two go on.")
        kill(self.servers["three"])
        took = self.until(lambda: self.ask("job", "list")[0] == 0 and self.is_well(), STATUS_S)
        manual.says("the other two go on", took is not None, "nobody answers")
        self.type("nephila job list")
        self.start_server("three")
        self.chapter("A node is drained, and comes back", "As for an upgrade; here it comes back with the same program.")
        self.type(manual.command("nephila cluster drain NODE").replace("NODE", "three"))
        code = wait(self.nodes["three"], LEAVE_S)
        manual.says("it finishes what is open, hands over, leaves", code is not None, "it still runs")
        self.until(self.is_well, STATUS_S)
        self.type("nephila cluster status")
        self.start_node("three")
        self.until(lambda: self.owned().get("three", 0) > 60 and self.is_well(), STATUS_S)
        self.chapter("One more machine", "A key for it, which the servers hear of, and the same settings.")
        command = "nephila cluster keys keys --set cluster.name=news --node four=10.0.0.4"
        before = {path.name: path.read_bytes() for path in (self.desk / "keys").glob("*.nk")}
        self.type(command, shows=first_lines)
        after = {path.name: path.read_bytes() for path in (self.desk / "keys").glob("*.nk")}
        manual.says("asked again with one more `--node` or `--server` it makes what is missing",
                    after.keys() - before.keys() == {"node-four.nk"} and before.items() <= after.items(), sorted(after))
        self.reload()
        self.start_node("four")
        took = self.until(lambda: self.owned().get("four", 0) > 20 and self.is_well(), STATUS_S)
        manual.says("it takes partitions from those that have most", took is not None, f"{self.owned()}")
        self.type("nephila cluster status")

    def orders(self):
        """Pins, stops, rests, and a key that was stolen."""
        manual = self.manual
        self.chapter("Where a domain is crawled", "The map, a pin, and where it is.")
        for command in manual.commands("nephila cluster map --node URL"):
            self.type(command, shows=domains)
        pin, pins, unpin = manual.commands("nephila cluster pin example.org")
        self.type(pin)
        self.until(lambda: "is there" in self.ask("cluster", "pins")[1], STATUS_S)
        self.type(pins)
        self.type(unpin)
        self.chapter("A complaint", "What is stopped, and asked more slowly.")
        for command in manual.commands("nephila stop add a.example"):
            self.type(command)
        self.type(manual.command("nephila host set a.example --delay 10s"))
        self.chapter("A key that was stolen", "Its file goes, a new one is made, the servers are told, and drop who has the old one.")
        stolen = self.folder / "stolen.nk"
        shutil.copy(self.desk / "keys/operator.nk", stolen)
        thief = {"NEPHILA_CLUSTER__NKEY_FILE": str(stolen)}
        before = self.ask("job", "list", **thief)[0]
        self.type("rm keys/operator.nk", note=False)
        manual.says("A key that was stolen: remove its file, run `nephila cluster keys` again for a new one", before == 0, "it is no key")
        self.type(self.keys, note=False)
        self.reload()
        self.environment.update(self.operator())
        self.until(lambda: self.ask("job", "list")[0] == 0, STATUS_S)
        code, words = self.ask("job", "list", **thief)
        manual.says("They then drop the connections of the old key", code != 0, words)
        self.note("nephila job list        # with the stolen key", words, code)
        self.type("nephila job list")
        if not self.until(self.is_well, STATUS_S):
            self.verdict.fail("untrue", "operators-hour: with new keys the cluster is not well")
        self.chapter("Who we are, and proof", "A key for signatures, what goes to the site that `contact` names, and what was promised.")
        commands = [line for line in manual.commands("nephila identity key") if line.startswith("nephila ")]
        identity = {"NEPHILA_IDENTITY__KEY_FILE": f"{self.folder}/one/nephila/key.pem",
                    "NEPHILA_IDENTITY__AGENT_URL": "https://crawler.example"}
        for number, command in enumerate(commands):
            self.type(command, shows=identity_lines, **(identity if number else {}))
        mode = (self.folder / "one/nephila/key.pem").stat().st_mode & 0o777
        manual.says("once; mode 0600, the same file on all nodes", mode == 0o600, oct(mode))
        also = " ".join(f"--also {self.folder}/{name}/data" for name in self.nodes if name != "one")
        code, words = self.ask("politeness", "report", "-o", f"{self.folder}/one/data", *also.split())
        manual.says("What several nodes did is judged as one with `--also FOLDER` for each further node", code == 0, words[-300:])
        for machine, node in self.nodes.items():
            if node.poll() is not None:
                self.verdict.fail("untrue", f"node {machine} ended by itself with {node.returncode}")


def answered(url, trust, token, method):
    """The status that a node answers with."""
    request = urllib.request.Request(url, method=method, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10, context=trust) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def identity_lines(screen):
    """Keys and signatures are others each time."""
    screen = re.sub(r"[A-Za-z0-9_+/=-]{40,}", "KEY", screen)
    return few_lines(re.sub(r"\b\d{10}\b", "DATE", screen))


def resolve(bound):
    """Knows no name: whoever asks for one (`doctor` does) is answered, and nobody outside is asked."""
    answers = Resolver({}, {})
    while True:
        data, sender = bound.recvfrom(4096)
        bound.sendto(answers.answer(data), sender)


def of_the_cluster(screen):
    """What doctor says of this machine is another thing on each."""
    lines = [line for line in screen.splitlines() if re.match(r"\w+ +cluster", line)]
    lines = [re.sub(r"\d+ messages, the last is \d+", "N messages, the last is N", line) for line in lines]
    return "\n".join(["…"] + [re.sub(r"server (one|two|three)", "server N", line) for line in lines])


def domains(screen):
    """Where a domain is hangs on a key that is made anew for each cluster; how far it is, on the moment."""
    lines = [line for line in screen.splitlines() if not line.startswith("nephila: domains by node")]
    return "\n".join(lines[:1] + sorted(re.sub(r"^([a-z.]+)(,| +).*", r"\1\2…", line) for line in lines[1:]))


def last_line(screen):
    """How it ends: what comes before depends on the moment."""
    return "\n".join(["…"] + screen.splitlines()[-1:])


def first_lines(screen):
    """How it begins."""
    return "\n".join(screen.splitlines()[:2] + ["…"])


def few_lines(screen):
    """Long lists are cut."""
    lines = screen.splitlines()
    return "\n".join(lines[:12] + ["…"] * (len(lines) > 12))


def is_open(address, port):
    """Does somebody listen there?"""
    with socket.socket() as tried:
        tried.settimeout(1)
        return tried.connect_ex((address, port)) == 0


def operators_hour(nephila, folder, options, verdict):
    """Follows the document."""
    web = folder / "web"
    web.mkdir()
    server = subprocess.Popen([sys.executable, pathlib.Path(__file__).parent / "small_web.py", web],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    hour = None
    try:
        ready = json.loads(server.stdout.readline())
        resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        resolver.bind(("127.0.0.1", 0))
        threading.Thread(target=resolve, args=(resolver,), daemon=True).start()
        fixed = small_web.fixed() + ["c.example=127.36.0.99"]
        hour = Hour(nephila, folder, verdict, {
            "NEPHILA_SPIDER__PROXY": f"http://127.0.0.1:{ready['port']}",
            "NEPHILA_SPIDER__CA_FILE": os.path.abspath(ready["ca"]),
            "NEPHILA_SPIDER__ALLOW_ADDRESSES": '["127.32.0.0/12"]',
            "NEPHILA_SPIDER__DNS_FIXED": json.dumps(fixed),
            "NEPHILA_SPIDER__DNS_SERVERS": json.dumps([f"127.0.0.1:{resolver.getsockname()[1]}"]),
        })
        hour.files()
        hour.found()
        hour.work()
        hour.over_http()
        if not options.short:
            # Leases and moving partitions take their time.
            hour.faults()
        hour.orders()
    finally:
        if hour is not None:
            hour.end()
        server.stdin.close()
        server.wait(30)
    made = page(hour)
    if options.write_docs:
        PAGE.write_text(made, encoding="utf-8")
        verdict.note(f"wrote {PAGE.relative_to(ROOT)}")
        return
    kept = chapters(PAGE.read_text(encoding="utf-8") if PAGE.exists() else "")
    made = chapters(made)
    for heading in made if options.short else {**kept, **made}:
        both = kept.get(heading, []), made.get(heading, [])
        for line in list(difflib.unified_diff(*both, lineterm="", n=0))[2:]:
            if not line.startswith("@@"):
                verdict.fail("untrue", f"docs/operators-hour.md, {heading}: {line}")


def chapters(text):
    """The lines of a page, by their heading."""
    found, heading = {}, "beginning"
    for line in text.splitlines():
        heading = line[3:] if line.startswith("## ") else heading
        found.setdefault(heading, []).append(line)
    return found


def page(hour):
    """The page for readers."""
    out = ["# The operator's first hour", "", (
        "What an operator sees who follows [operating.md](operating.md): its commands, settings and configuration of servers, word "
        "for word, on one machine. This page is generated by `cargo xtask outside operators-hour --write-docs` and compared by "
        "`cargo xtask outside`; do not edit it. Times, sizes, and counts that differ from run to run stand as words."), "",
        "| in the document | here |", "|---|---|"]
    out += [f"| {theirs} | {ours} |" for theirs, ours in REPLACED]
    text = ""
    for part in hour.shown:
        is_heading = part.startswith("\n## ")
        if is_heading:
            text += ("\n```\n" if text else "") + part + "\n\n```text"
        else:
            text += ("\n\n" if not text.endswith("```text") else "\n") + part
    return "\n".join(out) + "\n" + text + "\n```\n"
