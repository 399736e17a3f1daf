"""The program under test and the web it is let loose on: how both are started, what is set, and how they end."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
# Where the web lives: any second number from 32 to 47. Addresses outside are private to the crawler.
ALLOWED = '["127.32.0.0/12", "::1/128"]'
END_S = 30


class Nephila:
    """The crawler's program, with the environment it runs in."""

    def __init__(self, path):
        self.path = str(path)
        # Nobody's settings file and no proxy of this machine lead it elsewhere.
        skipped = ("NEPHILA_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
        self.environment = {name: value for name, value in os.environ.items() if not name.upper().startswith(skipped)}
        self.environment["NEPHILA_CONFIG"] = "/dev/null"

    def start(self, arguments, said, file_limit=None, **environment):
        """Starts it; what it says goes to the end of a file."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, resource.RLIM_INFINITY))

        with open(said, "a", encoding="utf-8") as out:
            return subprocess.Popen(
                [self.path, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env={**self.environment, **environment}, preexec_fn=limit if file_limit else None)

    def ask(self, *arguments, timeout=120):
        """Runs it to its end: status, standard output, standard error."""
        done = subprocess.run(
            [self.path, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            env=self.environment, timeout=timeout)
        return done.returncode, done.stdout, done.stderr


class Server:
    """The web in a process of its own, and the settings that lead the crawler there."""

    def __init__(self, folder, **arguments):
        self.folder, self.arguments = folder, arguments
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "server.txt", "w", encoding="utf-8") as complaints:
            self.process = subprocess.Popen(
                [sys.executable, HERE / "server.py", folder, json.dumps(arguments)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=complaints, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the web did not start: " + (folder / "server.txt").read_text())
        self.ready = json.loads(line)
        self.journal = folder / "journal.jsonl"

    def places(self):
        """Addresses and names, which no two machines have in common."""
        return [
            ("spider.dns_servers", f'["127.0.0.1:{self.ready["dns"]}"]'), ("spider.ports", str(self.ready["ports"])),
            ("spider.allow_addresses", ALLOWED), ("spider.ca_file", f'"{self.ready["ca"]}"'),
        ]

    def stop(self):
        """Ends it once its journal is written."""
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def complaints(self):
        """What the web itself did wrong."""
        return (self.folder / "server.txt").read_text(encoding="utf-8").strip()


def flags(settings):
    """Settings as arguments."""
    return [word for name, value, *_ in settings for word in ("--set", f"{name}={value}")]


def wait(process, seconds):
    """The exit code, or None when it still runs after this time."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def kill(process):
    """`kill -9`, and the moment at which it was gone."""
    process.kill()
    process.wait()
    return time.monotonic()
