"""The two connections of a spider, the same for both dialects. Not run by itself: the two spiders import it."""
import contextlib
import ipaddress
import os
import select
import socket
import sys
import threading
import time

from spider import Fetch

UPDATE_SECONDS = float(os.environ.get("SPIDER_UPDATE_SECONDS", "25"))
STORE_TRIES = 30  # one a second; then the record is dropped, and the node sends the URL again
SLOTS = threading.BoundedSemaphore(64)


def address(text):
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


class Store:
    """One kept connection to the store, made again when it breaks."""

    def __init__(self, to):
        self.to, self.sock, self.lock = to, None, threading.Lock()

    def send(self, record):
        for _ in range(STORE_TRIES):
            with self.lock:
                try:
                    # The store never answers: something to read is the end of the connection.
                    if self.sock is None or select.select([self.sock], [], [], 0)[0]:
                        self.sock = socket.create_connection(self.to, 30)
                    return self.sock.sendall(record)
                except OSError as error:
                    print("store:", error, file=sys.stderr)
                    self.sock = None
            time.sleep(1)


def serve(control, store, agent, form, more=""):
    """Work off the lines of a control connection until it closes. The form is that of DONE, more asks for a URL."""
    lock = threading.Lock()

    def say(text):
        with lock, contextlib.suppress(OSError):  # the reader notices the end
            control.sendall(text.encode("ascii"))

    def report(trans, over):
        while not over.wait(UPDATE_SECONDS):
            say(form.format(trans, "WORKING"))

    def work(trans, doc, ip, url):
        over = threading.Event()
        reporter = threading.Thread(target=report, args=(trans, over), daemon=True)
        reporter.start()
        record = Fetch(ip, url, agent).run(doc)
        over.set()
        reporter.join()
        say(form.format(trans, "DONE"))
        store.send(record)
        SLOTS.release()
        say(more)

    control.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    with control, control.makefile("rb") as lines, contextlib.suppress(OSError):
        while (line := lines.readline(16384)).endswith(b"\n"):
            try:
                trans, doc, ip, *_, url = line.decode("ascii").split()
                job = int(trans), int(doc), str(ipaddress.ip_address(ip)), url
                if job[1] >> 32 or len(url) > 8192:
                    raise ValueError
            except ValueError:
                print("not understood:", line, file=sys.stderr)
                continue
            SLOTS.acquire()
            threading.Thread(target=work, args=job, daemon=True).start()
