"""Are captured pages locked in when an archive is browsed?

    attacks.py NEPHILA CACHE [--only NAME...] [--planted] [--verbose]

Serves a site on loopback whose pages are attacks (attacks_pages.py), crawls it with NEPHILA, and stops the site. Then
`nephila serve --read-only --replay` has the archive at an address A and replayed pages at B, and `nephila serve` has the
whole API of a crawl, without a token, at C. Each attack is opened as a person opens a page, in a headless Chromium with
fresh storage. It must report that it ran, in a window that ReplayWeb.page has not rewritten; an attack that did not run
is a failure. Whether it succeeded is judged from outside:

- no request from within gets an answer of A or C that is good (2xx), by the record of a relay before each address
- no request of a page leaves the machine: a proxy gets all of them, writes them down and refuses
- the attack read nothing: what it reads, it reports
- the page of the archive is still there, with the same address and the same content; no window, dialog or download
- the API at C knows no URL of the attack, and has no stop
- A answers the same to a browser with all cookies of the attack as before; no answer sets a cookie
- B has no service worker but the one of the replay, A and C have none
- another capture, opened afterwards in the same browser, is shown as it was captured. Captured pages share the origin B:
  attacks in SHARED may disturb each other there, in that browser; this is reported and counted, and is no failure

`--planted`: the same attacks and the same judge against servers that lock in nothing. There the attacks must succeed.

CACHE is the folder of tools that replay.py makes. Prints a line per attack and one of figures; exits with 1 on a failure.
"""

import argparse
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from urllib.parse import parse_qs, quote, unquote, urlsplit

from attacks_pages import ATTACKS, AWAY, REBOUND, Pages
from ports import free_ports
from replay import CHROMIUM, TOOLS, Check, environment, player

START_SECONDS = 60
RUN_SECONDS = 40
# How long the judge waits after an attack has said that it ran.
SETTLE_MS = 1500
# In the middle of the replayed page.
CLICK = (500, 450)
HEAD_BYTES_MAX = 4 << 20
# Opened as they are at /web/ of both origins: no script may run.
DIRECT = ["evil.html", "image.svg", "document.xml", "document.xhtml"]
# Attacks on the service worker of the replay and its storage, which all captured pages share.
SHARED = ["service-worker-options", "service-worker-gone", "service-worker-message", "other-captures"]
# Attacks that succeed where nothing is locked in, and what the judge must see of it.
PLANTED = {"fetch": "it read", "xhr": "it read", "post-blind": "the API has changed", "beacon": "the API has changed",
           "image": "C answered 200", "top-location": "the page around it went", "window": "a window",
           "dialog": "a dialog", "download": "a download", "elsewhere": "a request elsewhere",
           "service-worker": "service workers of B", "fields": "sets a cookie",
           "cookies-without-end": "the archive answers in another way"}
WORKERS = """async () => (await navigator.serviceWorker.getRegistrations()).map(
  (one) => one.scope + " " + ((one.active || one.waiting || one.installing || {}).scriptURL || ""))"""


def ask(port, target, method="GET", body=None, head=()):
    """Status, fields and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, target, body=body, headers=dict(head))
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def visit(page, place):
    """Status and body of a page that a person opens."""
    try:
        answer = page.goto(place)
        return answer.status, answer.body()
    except Error as error:
        return str(error).splitlines()[0], b""


class Relay:
    """Passes requests on to a port, and writes down each one with the status of its answer."""

    def __init__(self, port):
        self.target, self.seen, self.lock = port, [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        """One request: the connection ends after it."""
        entry = None
        try:
            with client, client.makefile("rb") as reader:
                lines = []
                while (line := reader.readline(HEAD_BYTES_MAX)) not in (b"\r\n", b"\n", b""):
                    lines.append(line)
                if not lines:
                    return
                fields = {name.strip().lower(): value.strip() for name, _, value in
                          (line.decode("latin-1").partition(":") for line in lines[1:])}
                method, target = lines[0].decode("latin-1").split(" ")[:2]
                entry = {"method": method, "target": target, "fields": fields, "status": 0, "answer": {}}
                with self.lock:
                    self.seen.append(entry)
                body = reader.read(int(fields.get("content-length", 0)))
                kept = [line for line in lines if not line.lower().startswith((b"connection:", b"keep-alive:"))]
                with socket.create_connection(("127.0.0.1", self.target), 30) as server:
                    server.sendall(b"".join(kept) + b"Connection: close\r\n\r\n" + body)
                    head = b""
                    while piece := server.recv(1 << 16):
                        if entry["status"] == 0:
                            head += piece
                            if b"\r\n\r\n" in head:
                                self.note(entry, head)
                        client.sendall(piece)
        except OSError:
            pass

    @staticmethod
    def note(entry, head):
        lines = head.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        entry["answer"] = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines[1:]}
        entry["status"] = int(lines[0].split(" ")[1])

    def stop(self):
        self.listener.close()


class Process:
    """A server of the program, until it is stopped."""

    def __init__(self, command, port, log):
        with open(log, "wb") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    self.stop()
                    with open(log, errors="replace") as file:
                        sys.exit("FAIL  %s does not answer: %s" % (" ".join(command), file.read()[-2000:]))
                time.sleep(0.1)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def serve(answer, port=0):
    """A server in Python. `answer(method, target, body)` gives status, kind, fields and body."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def reply(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, kind, fields, text = answer(self.command, self.path, body)
            text = text if isinstance(text, bytes) else text.encode()
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": len(text), **fields}.items():
                self.send_header(name, str(value))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_CONNECT = reply

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def handle_error(self, request, address):
            """Clients hang up when they like."""

    server = Server(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


def stop(server):
    server.shutdown()
    server.server_close()


def serve_pages(pages, port=0):
    def answer(_method, target, _body):
        found = pages.answer(urlsplit(target).path)
        return (404, "text/plain", {}, "none") if found is None else (200, *found)
    return serve(answer, port)


class Locked:
    """The program itself, over a crawl of the site."""

    def __init__(self, nephila, folder, work, ports, site, pages, check):
        self.ports = ports
        live = serve_pages(pages, ports["SITE"])
        crawled, other = os.path.join(work, "crawl"), os.path.join(work, "other")
        for to, seed in ((crawled, site + "/"), (other, site + "/victim")):
            command = [nephila, "crawl", seed, "-o", to, "--page-requisites", "--delay", "0s", "--progress", "none",
                       "--set", 'spider.allow_addresses=["127.0.0.0/8"]', "--set", "spider.ports=[%d]" % ports["SITE"],
                       "--set", "frontier.host_delay_factor=0"]
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            # Pages name addresses where nobody answers: some URLs are to be tried again (23).
            if done.returncode not in (0, 23):
                sys.exit("FAIL  the crawl ended with %d: %s" % (done.returncode, done.stderr[-2000:]))
        stop(live)
        # The crawl at C wants all URLs of the site, so that one that an attack adds is kept.
        self.processes = []
        for port, log, command in ((ports["A"], "a.log", ["-o", crawled, "--read-only", "--replay", folder, "--replay-listen",
                                                          "127.0.0.1:%d" % ports["B"]]), (ports["C"], "c.log", ["-o", other])):
            command = [nephila, "serve", *command, "--set", "api.listen=127.0.0.1:%d" % port]
            self.processes.append(Process(command, port, os.path.join(work, log)))

    def stop(self):
        for process in self.processes:
            process.stop()


class Open:
    """Servers that lock in nothing: no sandbox, no policy, and an API for every origin."""

    def __init__(self, ports, pages):
        added = []
        anyone = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*", "Service-Worker-Allowed": "/"}

        def archive(_method, target, _body):
            if target == "/favicon.ico":
                return 404, "text/plain", {}, "none"
            parts, asked = urlsplit(target), parse_qs(urlsplit(target).query)
            if parts.path == "/replay":
                place = "http://127.0.0.1:%d%s" % (ports["B"], urlsplit(asked["url"][0]).path)
                return 200, "text/html", {}, '<!doctype html><title>A</title><p>archive<iframe style="width:90vw;height:80vh" src="%s"></iframe>' % place
            return 200, "text/plain", anyone, "archive"

        def replay(_method, target, _body):
            # Without a captured name in the path, the page itself.
            path = re.sub(r"^/(web|replay/w/archive)/\w*/https?://[^/]+", "", urlsplit(target).path)
            found = pages.answer(path)
            return (200, "text/plain", anyone, "none") if found is None else (200, found[0], {**found[1], **anyone}, found[2])

        def api(method, target, body):
            if target.startswith("/api/v1/explain"):
                url = parse_qs(urlsplit(target).query)["url"][0]
                return 200, "application/json", anyone, json.dumps({"standing": "queued" if url in added else "not known"})
            if method == "POST":
                added.extend(line.strip() for line in body.decode().splitlines())
            return 200, "application/json", anyone, '{"offered": 0, "stops": []}'

        self.servers = [serve(answer, ports[name]) for name, answer in (("A", archive), ("B", replay), ("C", api))]

    def stop(self):
        for server in self.servers:
            stop(server)


class Judge:
    """Opens attacks in a browser, and looks from outside."""

    def __init__(self, chromium, ports, site, is_open, verbose):
        self.ports, self.site, self.is_open, self.verbose = ports, site, is_open, verbose
        self.origin = {name: "http://127.0.0.1:%d" % port for name, port in ports.items()}
        self.relays = {name: Relay(ports[name]) for name in "ABC"}
        self.away = []
        self.proxy = serve(self.refuse)
        rules = ["MAP 127.0.0.1:%d 127.0.0.1:%d" % (ports[name], self.relays[name].port) for name in "ABC"]
        # The replay may have another name of this machine, so that it shares no cookies with the archive.
        _, _, body = ask(ports["A"], urlsplit(self.wrapper("victim"))._replace(scheme="", netloc="").geturl())
        found = re.search(r'<iframe[^>]* src="(http://([\w.]+):%d)/' % ports["B"], body.decode())
        if not found:
            sys.exit("FAIL  the page of the archive has no frame of the replay: %s" % body.decode()[:500])
        self.origin["B"] = found[1]
        if found[2] != "127.0.0.1":
            rules.append("MAP %s:%d 127.0.0.1:%d" % (found[2], ports["B"], self.relays["B"].port))
        rules += ["MAP %s:%d 127.0.0.1:%d" % (REBOUND, ports["C"], self.relays["C"].port)]
        args = ["--host-resolver-rules=" + ", ".join(rules)]
        args += ["--proxy-server=http://127.0.0.1:%d" % self.proxy.server_address[1], "--proxy-bypass-list=" + REBOUND]
        args += ["--disable-domain-reliability"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=chromium, args=args)
        self.asked = self.refused = 0

    def refuse(self, method, target, _body):
        if AWAY in target:
            self.away.append("%s %s" % (method, target))
        return 502, "text/plain", {}, "refused"

    def close(self):
        self.browser.close()
        self.playwright.stop()
        stop(self.proxy)
        for relay in self.relays.values():
            relay.stop()

    def wrapper(self, name):
        return "%s/replay?url=%s&at=%s" % (self.origin["A"], quote("%s/%s" % (self.site, name), safe=""), self.at(name))

    def at(self, name):
        if self.is_open:
            return "20260101000000"
        target = "/web/cdx?fl=timestamp&output=text&limit=1&url=" + quote("%s/%s" % (self.site, name), safe="")
        status, _, body = ask(self.ports["A"], target)
        if status != 200:
            sys.exit("FAIL  %s was not captured: %d" % (name, status))
        return body.decode().split()[0]

    def standing(self, url):
        status, _, body = ask(self.ports["C"], "/api/v1/explain?url=" + quote(url, safe=""))
        return json.loads(body).get("standing") if status == 200 else "status %d" % status

    def markers(self, name):
        marker = "%s/marker-%s" % (self.site, name)
        return [marker, marker + "?form=", "%s/marker-evil" % self.site]

    def outside(self, name):
        """State that no attack may change."""
        stops = ask(self.ports["C"], "/api/v1/stops")
        return {"urls": [self.standing(url) for url in self.markers(name)], "stops": (stops[0], stops[2])}

    def attack(self, name):
        """Whether it ran, and what it achieved; each a list of words."""
        for relay in self.relays.values():
            relay.seen.clear()
        self.away.clear()
        before, wrapper = self.outside(name), self.wrapper(name)
        context = self.browser.new_context(accept_downloads=True)
        lines, made, wrong, moved = [], [], [], []
        context.on("console", lambda said: lines.append(said.text))
        page = context.new_page()
        context.on("page", lambda other: made.append("a window: " + other.url))
        context.on("dialog", lambda dialog: (made.append("a dialog: " + dialog.message), dialog.dismiss()))
        page.on("download", lambda download: made.append("a download: " + download.url))
        page.goto("about:blank#before")
        page.on("framenavigated", lambda frame: moved.append(frame.url) if frame == page.main_frame else None)
        page.goto(wrapper, wait_until="commit")
        page.wait_for_load_state("domcontentloaded")
        html = page.evaluate("document.documentElement.outerHTML")
        until = time.monotonic() + RUN_SECONDS
        while time.monotonic() < until and not any(line.startswith(("attack-ran", "attack-broke")) for line in lines):
            if len(moved) > 1:
                break
            if "attack-waits " in lines and not made:
                page.mouse.click(*CLICK)
            page.wait_for_timeout(100)
        page.wait_for_timeout(SETTLE_MS)

        if len(moved) != 1 or page.url != wrapper:
            wrong.append("the page around it went to %s" % (moved[1:] or page.url))
        elif page.evaluate("document.documentElement.outerHTML") != html or page.evaluate("name"):
            wrong.append("the page around it has changed")
        wrong += made
        wrong += ["it read " + line[len("attack-got "):] for line in lines if line.startswith("attack-got")]
        # Of A, this page is the one good answer.
        own = urlsplit(wrapper)
        first = True
        for letter in "AC":
            for entry in list(self.relays[letter].seen):
                is_own = letter == "A" and first and entry["target"] == "%s?%s" % (own.path, own.query)
                first = first and not is_own
                if is_own and entry["status"] != 200:
                    wrong.append("the archive does not answer: %d" % entry["status"])
                if is_own:
                    continue
                self.asked += 1
                self.refused += entry["status"] >= 400
                if entry["status"] < 400 and entry["status"] != 0:
                    wrong.append("%s answered %d to %s %s" % (letter, entry["status"], entry["method"], entry["target"]))
        if first:
            wrong.append("the relay saw nothing")
        wrong += ["%s sets a cookie: %s" % (letter, entry["answer"]["set-cookie"]) for letter in "ABC"
                  for entry in self.relays[letter].seen if "set-cookie" in entry["answer"]]
        wrong += ["a request elsewhere: " + what for what in dict.fromkeys(self.away)]
        after = self.outside(name)
        wrong += ["the API has changed: %s, before %s" % (after[key], before[key]) for key in before if after[key] != before[key]]
        page.close()
        wrong += self.afterwards(context, name)
        context.close()
        ran = any(line.startswith("attack-ran") for line in lines) and "attack-began raw" in lines \
            and not any(line.startswith("attack-not") for line in lines)
        if self.verbose:
            for line in lines:
                if not line.startswith("Unsafe attempt"):
                    print("        " + line[:200].strip())
        # Attacks that leave their own page end there.
        ran = ran or (self.is_open and bool(wrong)) or (bool(wrong) and "attack-began raw" in lines)
        steps = sum(line.startswith("attack-did") for line in lines)
        return ran, steps, list(dict.fromkeys(wrong)), lines

    def afterwards(self, context, name):
        """What the attack has left in the browser."""
        wrong, page = [], context.new_page()
        # With all cookies that are there now.
        cookies = "; ".join("%s=%s" % (it["name"], it["value"]) for it in context.cookies(self.origin["A"] + "/replay"))
        if "captured=" in cookies:
            wrong.append("a captured cookie was set again")
        found = visit(page, self.wrapper("victim"))
        plain = ask(self.ports["A"], self.wrapper("victim")[len(self.origin["A"]):])
        if found != (plain[0], plain[2]):
            wrong.append("the archive answers in another way: %s instead of %d, with %d bytes of cookies"
                         % (found[0], plain[0], len(cookies)))
        elif not self.is_open:
            wrong += self.victim(page)
        for letter, place in (("A", self.wrapper("victim")), ("B", self.origin["B"] + "/replay.js"), ("C", self.origin["C"] + "/api/v1/stats")):
            status, _ = visit(page, place)
            if status != 200:
                wrong.append("%s does not answer a person: %s" % (letter, status))
                continue
            workers = page.evaluate(WORKERS)
            own = self.origin["B"] + "/replay/ " + self.origin["B"] + "/replay/sw.js"
            strange = [it for it in workers if it != own]
            if strange and not (letter == "B" and all(it.startswith(self.origin["B"] + "/replay/") and "/replay/sw.js" in it for it in strange)):
                wrong.append("service workers of %s: %s" % (letter, ", ".join(strange)))
        for worker in context.service_workers:
            if not worker.url.startswith(self.origin["B"] + "/replay/sw.js"):
                wrong.append("a service worker: " + worker.url)
        page.close()
        return wrong

    def victim(self, page):
        until, text = time.monotonic() + 20, None
        while time.monotonic() < until:
            for frame in page.frames:
                if frame.url.endswith(self.site + "/victim") and "/replay/w/" in frame.url:
                    try:
                        text = frame.evaluate("document.body && document.body.textContent.trim()")
                    except Error:
                        continue
                    if text == "the victim as captured":
                        return []
            page.wait_for_timeout(100)
        return ["another capture is shown as %r" % text]

    def direct(self, name):
        """A capture opened as it is, at both origins and by the API."""
        wrong, steps, at = [], 0, self.at(name)
        url = "%s/%s" % (self.site, name)
        for place in ("%s/web/%sid_/%s" % (self.origin["A"], at, url), "%s/web/%sid_/%s" % (self.origin["B"], at, url),
                      "%s/web/%s" % (self.origin["A"], url), "%s/api/v1/pages?as=body&url=%s" % (self.origin["A"], quote(url, safe=""))):
            for relay in self.relays.values():
                relay.seen.clear()
            context = self.browser.new_context()
            lines, page = [], context.new_page()
            context.on("console", lambda said: lines.append(said.text))
            is_kept = False
            try:
                status = page.goto(place).status
            except Error as error:
                # A file that is kept instead of shown.
                is_kept, status = "Download is starting" in str(error), 0
            page.wait_for_timeout(SETTLE_MS)
            steps += 1
            if status != 200 and not is_kept:
                wrong.append("%s: did not run, status %d" % (place, status))
            if any(line.startswith("attack-") for line in lines) or (not is_kept and "evil" == page.title()):
                wrong.append("%s: its script ran" % place)
            if not is_kept and page.evaluate("origin") != "null" and page.evaluate("document.contentType") != "text/plain":
                wrong.append("%s: it has the origin %s" % (place, page.evaluate("origin")))
            if self.relays["C"].seen:
                wrong.append("%s: it reached C" % place)
            context.close()
        return wrong, steps

    def rebound(self):
        """A name of others that leads to this machine, opened by a person."""
        wrong, steps = [], 0
        for path in ("/api/v1/stats", "/api/v1/events", "/web/cdx?url=*"):
            self.relays["C"].seen.clear()
            page = self.browser.new_page()
            answer = page.goto("http://%s:%d%s" % (REBOUND, self.ports["C"], path))
            if not self.relays["C"].seen:
                wrong.append("did not run: the name does not lead to C")
            if answer.status < 400:
                wrong.append("%s is answered with %d" % (path, answer.status))
            page.close()
            steps += 1
        return wrong, steps


def planted(check, chromium, work, ports, site, pages, args):
    servers = Open(ports, pages)
    judge = Judge(chromium, ports, site, True, args.verbose)
    for name in args.only or PLANTED:
        _, _, wrong, _ = judge.attack(name)
        seen = next((line for line in wrong if line.startswith(PLANTED.get(name, "")) or PLANTED[name] in line), None)
        check.say(bool(seen), "%s succeeds where nothing is locked in: %s" % (name, seen and seen[:120]), wrong)
    judge.close()
    servers.stop()
    return {}


def locked(check, chromium, nephila, folder, work, ports, site, pages, args):
    servers = Locked(nephila, folder, work, ports, site, pages, check)
    judge, attacks, succeeded, idle, steps_all, disturbed = None, 0, 0, 0, 0, 0
    try:
        judge = Judge(chromium, ports, site, False, args.verbose)
        for name in args.only or [*ATTACKS, *("direct-" + it for it in DIRECT), "rebinding-direct"]:
            attacks += 1
            ran = True
            if name == "rebinding-direct":
                wrong, steps = judge.rebound()
            elif name.startswith("direct-"):
                wrong, steps = judge.direct(name[len("direct-"):])
            else:
                ran, steps, wrong, lines = judge.attack(name)
                if not ran:
                    idle += 1
                    wrong = ["did not run"] + [line for line in lines if line.startswith(("attack-", "Refused"))][-6:] + wrong
            steps_all += steps
            note = ""
            if name in SHARED and ran:
                for line in [it for it in wrong if it.startswith("another capture")]:
                    wrong.remove(line)
                    note, disturbed = "; on its own origin: " + line, disturbed + 1
            succeeded += bool(wrong) and ran
            text = wrong[0] if wrong else "%d steps, none succeeded" % steps
            check.say(not wrong, "%s: %s%s" % (name, text, note), wrong[1:])
        if not args.only:
            marker = site + "/marker-control"
            before = judge.standing(marker)
            ask(ports["C"], "/api/v1/urls", "POST", marker)
            until = time.monotonic() + 10
            while judge.standing(marker) == before and time.monotonic() < until:
                time.sleep(0.1)
            check.say(judge.standing(marker) != before, "the judge sees a URL that was added: %s, before %s" % (judge.standing(marker), before))
        return {"attacks": attacks, "succeeded": succeeded, "did_not_run": idle, "disturbed": disturbed, "steps": steps_all, "reached_A_or_C": judge.asked,
                "refused_there": judge.refused, "chromium": judge.browser.version}
    finally:
        if judge:
            judge.close()
        servers.stop()


def main(args):
    begun, check = time.monotonic(), Check()
    chromium = args.chromium or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if not chromium:
        sys.exit("no Chromium here: install the package chromium, or name a program with --chromium")
    ports = dict(zip(("A", "B", "C", "SITE"), free_ports(4)))
    site = "http://127.0.0.1:%d" % ports["SITE"]
    pages = Pages({name: ports[name] for name in "ABC"}, site)
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        if args.planted:
            figures = planted(check, chromium, work, ports, site, pages, args)
        else:
            figures = locked(check, chromium, os.path.abspath(args.nephila), player(os.path.abspath(args.cache)), work, ports, site, pages, args)
    words = "".join(", %s=%s" % pair for pair in figures.items())
    print("attacks: %d checks, %d failed, %.0f s%s" % (check.checks, check.failed, time.monotonic() - begun, words))
    sys.exit(check.failed > 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nephila", help="the program")
    parser.add_argument("cache", help="folder for tools")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these attacks")
    parser.add_argument("--planted", action="store_true", help="against servers that lock in nothing: the judge must see it")
    parser.add_argument("--verbose", action="store_true", help="what attacks report")
    parser.add_argument("--work", help="folder for temporary files")
    parser.add_argument("--chromium", help="the browser [default: found in PATH]")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    python = environment(os.path.join(os.path.abspath(given.cache), "replay-tools"), TOOLS) + "python"
    if sys.prefix != os.path.dirname(os.path.dirname(python)):
        # Again, with the packages of the environment.
        os.execv(python, [python, *sys.argv])
    from playwright.sync_api import Error, sync_playwright

    main(given)
