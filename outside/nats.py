"""NATS servers as processes: where the program is, free ports, start, kill, freeze."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

START_S = 30


def program():
    """The server's program: what NEPHILA_NATS_SERVER names, what `.ci/run` installed, or one on the PATH."""
    named = os.environ.get("NEPHILA_NATS_SERVER")
    caches = [os.environ.get("NEPHILA_CACHE"), os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "nephila")]
    installed = [pathlib.Path(cache).expanduser() / "nats/bin/nats-server" for cache in caches if cache]
    found = named or next((path for path in installed if path.is_file()), None) or shutil.which("nats-server")
    if not found:
        raise SystemExit("nats-server is missing: `.ci/run` installs it")
    return str(found)


def free_ports(count):
    """Ports of loopback that nobody has at this moment."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Servers:
    """Three servers that form a cluster on loopback."""

    COUNT = 3

    def __init__(self, folder):
        self.folder = folder
        ports = free_ports(2 * self.COUNT)
        self.ports, routes = ports[:self.COUNT], ports[self.COUNT:]
        self.processes = [None] * self.COUNT
        for number in range(self.COUNT):
            leads = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
            (folder / f"nats-{number}.conf").write_text(
                f"server_name: s{number}\nlisten: 127.0.0.1:{self.ports[number]}\n"
                f"jetstream {{ store_dir: {folder}/nats-{number}, sync_interval: always }}\n"
                f"cluster {{ name: crawl, listen: 127.0.0.1:{routes[number]}, routes: [{leads}] }}\n", encoding="utf-8")
            self.start(number)
        end = time.monotonic() + START_S
        while not all(map(is_open, self.ports)):
            if time.monotonic() > end:
                raise SystemExit("the NATS servers did not start")
            time.sleep(0.1)

    def urls(self):
        """As the settings name them."""
        return "[" + ", ".join(f'"nats://127.0.0.1:{port}"' for port in self.ports) + "]"

    def start(self, number):
        """Starts one, or starts it again."""
        self.processes[number] = subprocess.Popen(
            [program(), "-c", self.folder / f"nats-{number}.conf", "-l", self.folder / f"nats-{number}.log"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self, number):
        """`kill -9`."""
        self.processes[number].kill()
        self.processes[number].wait()

    def freeze(self, number, is_frozen):
        """Stops it without its knowing, or lets it go on."""
        self.processes[number].send_signal(signal.SIGSTOP if is_frozen else signal.SIGCONT)

    def stop(self):
        """Ends all of them."""
        for process in self.processes:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


def is_open(port):
    """Does somebody listen there?"""
    with socket.socket() as tried:
        tried.settimeout(1)
        return tried.connect_ex(("127.0.0.1", port)) == 0
