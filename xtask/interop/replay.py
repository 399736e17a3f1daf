"""Does a WACZ file of `nephila export wacz` open in ReplayWeb.page and in pywb?

    replay.py NEPHILA CACHE [--short] [--pages N] [--look M] [--out DIR] [--large [GB...]]

Serves a site on loopback, crawls it with NEPHILA, exports it, and has py-wacz judge the file. Then the site is stopped.
ReplayWeb.page in a headless Chromium without network, and pywb, show M pages of the file: nothing that a page needs may be
missing, and each must look like the live page. The export is measured beside a copy of the files. At the end, files with
faults are made of the good one: each must be caught. Prints a line per check and one of figures; exits with 1 if one
failed.

CACHE gets everything from elsewhere: virtual environments with pinned packages of PyPI, and ReplayWeb.page, which is under
the AGPL and for that reason never a part of this repository. Needed on the machine: python3, npm, and Chromium (in Debian
`apt install chromium`).

The crawl has these settings because the site is one machine that is our own: no crawl delay and no rest after slow answers
(`--delay 0s`, frontier.host_delay_factor=0), 8 connections to a host and 16 to an address (--host-concurrency,
frontier.slot_connections), loopback addresses and the port of the site are allowed (spider.allow_addresses, spider.ports)
and the two names of the site are found there (--resolve). All else is as it comes.
"""

import argparse
import base64
import hashlib
import gzip
import http.client
import os
import random
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from urllib.parse import unquote, urlsplit

TOOLS = ["playwright==1.65.2", "pillow==13.0.0", "fonttools==4.68.0"]
PYWB, WACZ = ["pywb==2.10.0"], ["wacz==0.6.0"]
PLAYER = "replaywebpage@2.5.3"
PLAYER_SHA512 = "nCj2PSON3BxeSJKE8AsYPyULv0XPZKJWfy4l9PyQre9SqwLZ+WKZVs/sfLqPOQ4GrH+0YkjbwOhr8cSTH08gsQ=="
CHROMIUM = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"]
STAMP = "nephila-tools.txt"
TOOL_SECONDS = 1800
START_SECONDS = 60
# What the export may take: share of the speed of a copy, and memory.
SPEED_MIN = 0.6
MEGABYTES_MAX = 300
# A small archive is copied in no time, and says nothing about speed.
SPEED_BYTES_MIN = 100_000_000
SEED = 20


def environment(path, packages):
    """Makes a virtual environment, unless there is one that has these packages."""
    stamp = os.path.join(path, STAMP)
    try:
        with open(stamp) as file:
            found = file.read().split("\n")
    except OSError:
        found = []
    if not set(packages) <= set(found):
        print("installing %s" % ", ".join(packages), flush=True)
        os.makedirs(path, exist_ok=True)
        subprocess.run(["python3", "-m", "venv", "--clear", path], check=True)
        pip = [path + "/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(pip + packages, check=True)
        with open(stamp, "w") as file:
            file.write("\n".join(packages))
    return path + "/bin/"


def player(cache):
    """The folder of ReplayWeb.page: `ui.js` and `sw.js` of the package as it was published."""
    folder = os.path.join(cache, PLAYER)
    if all(os.path.isfile(os.path.join(folder, name)) for name in ("ui.js", "sw.js")):
        return folder
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["npm", "pack", "--silent", PLAYER], cwd=work, check=True, stdout=subprocess.DEVNULL)
        (name,) = os.listdir(work)
        with open(os.path.join(work, name), "rb") as file:
            found = base64.b64encode(hashlib.sha512(file.read()).digest()).decode()
        if found != PLAYER_SHA512:
            sys.exit("%s is not the package that was tested: sha512-%s" % (PLAYER, found))
        os.makedirs(folder, exist_ok=True)
        with tarfile.open(os.path.join(work, name)) as pack:
            for name in ("ui.js", "sw.js"):
                with open(os.path.join(folder, name), "wb") as out:
                    shutil.copyfileobj(pack.extractfile("package/" + name), out)
    return folder


class Check:
    """Counts and prints."""

    def __init__(self):
        self.checks = self.failed = 0

    def say(self, good, what, wrong=()):
        self.checks += 1
        self.failed += not good
        print(("ok    " if good else "FAIL  ") + what, flush=True)
        if not good:
            for line in list(wrong)[:12]:
                print("      " + line)
        return good


def crawl(check, nephila, site, folder, *more):
    ports = ["%s:%d:127.0.0.1" % (host, site.port) for host in (WWW, MEDIA)]
    command = [nephila, "crawl", site.page(0), "-o", folder, "--page-requisites", "--progress", "none",
               "--delay", "0s", "--host-concurrency", "8", "-c", "16", "--resolve", ports[0], "--resolve", ports[1],
               "--set", "frontier.slot_connections=16", "--set", "frontier.host_delay_factor=0",
               "--set", 'spider.allow_addresses=["127.0.0.0/8"]', "--set", "spider.ports=[%d]" % site.port, *more]
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    seconds = time.monotonic() - begun
    said = (done.stdout + done.stderr).splitlines()
    return check.say(done.returncode == 0, "nephila crawls %d pages in %.0f s" % (site.pages, seconds), said)


def export(check, nephila, folder, to, figures):
    """Exports with titles from the archive, then with titles from the tables, in turns with a copy of the files."""
    files = archive_files(folder)
    bytes = sum(os.path.getsize(path) for path in files)
    # Once, so that all rounds find the files in memory.
    copied(files, to + ".copy")
    for how in ("archive", "tables"):
        if how == "tables":
            tables = subprocess.run([nephila, "export", "parquet", "-q", "-o", folder])
            check.say(tables.returncode == 0, "nephila writes tables")
        copies, runs = [], []
        for _ in range(ROUNDS):
            copies.append(copied(files, to + ".copy"))
            runs.append(Measured([nephila, "export", "wacz", "-q", "-o", folder, "--to", to]))
        found = compared(copies, runs)
        check.say(all(run.code == 0 for run in runs), "export of %.1f MB, titles from the %s: %s"
                  % (bytes / 1e6, how, words(found)), found["said"])
        check.say(found["megabytes"] < MEGABYTES_MAX, "memory under %d MB" % MEGABYTES_MAX)
        if how == "tables" and bytes >= SPEED_BYTES_MIN:
            check.say(found["share"] >= SPEED_MIN, "at least %.0f %% of the speed of a copy" % (100 * SPEED_MIN))
        figures["export_%s" % how] = "%.2fs/%.2fs/%.0fMB" % (found["export"], found["copy"], found["megabytes"])


def validate(wacz, package):
    """What py-wacz says, and whether it is content."""
    done = subprocess.run([wacz + "wacz", "validate", "-f", package], capture_output=True, text=True, timeout=TOOL_SECONDS)
    said = done.stdout + done.stderr
    return done.returncode == 0 and "succeeded" in said and "Invalid" not in said, said.splitlines()


def fetched(site, url):
    """Status, place and body of a live URL, without content coding."""
    parts = urlsplit(url)
    return request(site.port, url[len("http://") + len(parts.netloc):], {"Host": parts.netloc})


def request(port, target, head):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", target, headers=head)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.getheader("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    return answer.status, answer.getheader("Location"), body


def replay_in_pywb(tools, package, site, numbers, bodies):
    """What pywb answers in another way than the live site did, in words; and the number of answers."""
    with tempfile.TemporaryDirectory() as home:
        for command in (["init", "c"], ["add", "--unpack-wacz", "c", package]):
            done = subprocess.run([tools + "wb-manager", *command], cwd=home, capture_output=True, text=True,
                                  timeout=TOOL_SECONDS)
            if done.returncode != 0:
                return ["pywb does not take it: " + (done.stdout + done.stderr).strip().splitlines()[-1]], 0
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with open(os.path.join(home, "wayback.log"), "wb") as log:
            server = subprocess.Popen([tools + "wayback", "-p", str(port), "-b", "127.0.0.1"], cwd=home,
                                      stdout=log, stderr=log)
        wrong, count = [], 0
        try:
            until = time.monotonic() + START_SECONDS
            while time.monotonic() < until and server.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.2)
            for number in numbers:
                for url in site.needs(number):
                    count += 1
                    try:
                        found = request(port, "/c/id_/" + url, {"Accept-Encoding": "gzip"})
                    except (OSError, http.client.HTTPException) as error:
                        found = (repr(error), None, b"")
                    status, place, body = bodies[url]
                    if found[0] != status or found[2] != body or (place or "") not in (found[1] or ""):
                        wrong.append("%s: %s, %d bytes; live %s, %d bytes" % (url, found[0], len(found[2]), status, len(body)))
        finally:
            server.terminate()
            server.wait()
        return wrong, count


class Replay:
    """Looks at pages in ReplayWeb.page, and compares them with live ones."""

    def __init__(self, chromium, folder, site, live):
        self.chromium, self.folder, self.site, self.live = chromium, folder, site, live

    def look(self, package, numbers, out=None, extra=""):
        """What is missing, what was asked of others, and the largest difference."""
        missing, elsewhere, shares, seconds = [], [], [], []
        browser = Browser(self.chromium, live=False)
        server = archive_server(self.folder, package, extra)
        try:
            tab = browser.tab()
            for number in numbers:
                begun = time.monotonic()
                look = browser.look_replayed(tab, server, self.site, number)
                seconds.append(time.monotonic() - begun)
                missing += look.missing(self.site.needs(number))
                elsewhere += look.elsewhere
                shares.append((difference(look.picture, self.live[number].picture), number))
                if out:
                    save(out, "%d-replayed.png" % number, look.picture)
        finally:
            browser.close()
            server.stop()
        missing += ["the page with the archive asks for " + path for path in server.unknown]
        most = max((count for count in server.ranges), default=0)
        return {"missing": missing, "elsewhere": elsewhere, "share": max(shares)[0], "seconds": max(seconds),
                "differ": ["page %d: %.4f %%" % (number, 100 * share) for share, number in shares if share > DIFFERENCE_MAX],
                "reads": len(server.ranges), "own": len(browser.proxy.asked) - len(elsewhere), "most": most}


def save(out, name, picture):
    with open(os.path.join(out, name), "wb") as file:
        file.write(picture)


def plant_faults(check, replay, tools, package, work, site, folder, bodies, number):
    """Each check must catch the fault that it is for."""
    bad = os.path.join(work, "bad.wacz")
    image, other = site.image_a(number), site.image_a((number + 1) % site.pages)
    see = lambda **more: replay.look(bad, [number], **more)
    pywb = lambda: replay_in_pywb(tools["pywb"], bad, site, [number], bodies)[0]

    edited(package, bad, {})
    found = see()
    wrong = found["missing"] + found["differ"] + found["elsewhere"] + pywb()
    check.say(not wrong, "a file that was written again without a fault passes", wrong)
    without_url(package, bad, image)
    found = see()
    only = all(image in quoted for quoted in map(unquote, found["missing"]))
    check.say(only, "with an image gone, nothing else is missing", found["missing"])
    check.say(any(image in line for line in found["missing"]), "caught: an image is gone, by ReplayWeb.page")
    check.say(bool(found["differ"]), "caught: an image is gone, by the picture (%.2f %%)" % (100 * found["share"]))
    check.say(any(image in line for line in pywb()), "caught: an image is gone, by pywb")
    check.say(any(image in line for line in judge(bad, folder, site)[0]), "caught: an image is gone, by the index")
    with_other_body(package, bad, image, other)
    found = see()
    check.say(bool(found["differ"]) and not found["missing"], "caught: another image, by the picture alone (%.2f %%)"
              % (100 * found["share"]), found["missing"])
    check.say(validate(tools["wacz"], bad)[0], "py-wacz sees nothing wrong in that")
    check.say(any(image in line for line in pywb()), "caught: another image, by pywb")
    without_url(package, bad, site.www("/style/%d.css" % (number % GROUPS)))
    check.say(bool(see()["missing"]), "caught: a style sheet is gone, by ReplayWeb.page")
    without_url(package, bad, site.page(number))
    check.say(bool(see()["missing"]), "caught: the page is gone, by ReplayWeb.page")
    cut(package, bad)
    try:
        wrong = judge(bad, folder, site)[0]
    except EOFError as error:
        wrong = [str(error)]
    check.say(bool(wrong), "caught: half an index, by the index")
    check.say(bool(see()["missing"]), "caught: half an index, by ReplayWeb.page")
    with_flipped_bit(package, bad)
    check.say(not validate(tools["wacz"], bad)[0], "caught: a wrong bit in the archive, by py-wacz")
    without_page(package, bad, site.page(number))
    check.say(any(site.page(number) in line for line in judge(bad, folder, site)[0]), "caught: a page is not in the list")
    shutil.copyfile(package, bad)
    leak = '<img src="http://elsewhere.test/a.png" alt="">'
    check.say(any("elsewhere.test" in line for line in see(extra=leak)["elsewhere"]), "caught: an image from elsewhere")
    os.remove(bad)


def large(check, nephila, work, sizes, figures):
    """Memory and speed at sizes in GB."""
    site = Site(40)
    server = serve(site)
    small = os.path.join(work, "small")
    crawl(check, nephila, site, small, "--set", "store.compression=none")
    server.stop()
    for size in sizes:
        found = measure(nephila, small, work, int(size * 1e9))
        check.say(found["is_whole"], "export of %.1f GB in %d files with %d captures: %s"
                  % (found["bytes"] / 1e9, found["files"], found["captures"], words(found)), found["said"])
        check.say(found["megabytes"] < MEGABYTES_MAX, "memory under %d MB" % MEGABYTES_MAX)
        check.say(found["share"] >= SPEED_MIN, "at least %.0f %% of the speed of a copy" % (100 * SPEED_MIN))
        figures["large_%gGB" % size] = "%.1fs/%.1fs/%.0fMB" % (found["export"], found["copy"], found["megabytes"])


def main(args):
    begun = time.monotonic()
    check, figures = Check(), {}
    cache, nephila = os.path.abspath(args.cache), os.path.abspath(args.nephila)
    tools = {"pywb": environment(os.path.join(cache, "archive-tools"), PYWB),
             "wacz": environment(os.path.join(cache, "wacz-tools"), WACZ)}
    chromium = args.chromium or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if not chromium:
        sys.exit("no Chromium here: install the package chromium, or name a program with --chromium")
    folder = player(cache)
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        if args.large is not None:
            large(check, nephila, work, args.large or [5, 20, 50], figures)
        else:
            opens(check, nephila, tools, chromium, folder, work, args, figures)
    figures = " ".join("%s=%s" % pair for pair in figures.items())
    print("replay: %d checks, %d failed, %.0f s, %s" % (check.checks, check.failed, time.monotonic() - begun, figures))
    sys.exit(check.failed > 0)


def opens(check, nephila, tools, chromium, folder, work, args, figures):
    pages = args.pages or (300 if args.short else 20_000)
    look = min(args.look or (5 if args.short else 50), pages)
    out = args.out or os.path.join(work, "pictures")
    os.makedirs(out, exist_ok=True)
    site = Site(pages, leaves=args.leaves)
    numbers = sorted(random.Random(SEED).sample(range(pages), look))

    server = serve(site)
    crawled, package = os.path.join(work, "crawl"), os.path.join(work, "site.wacz")
    if not crawl(check, nephila, site, crawled):
        return
    browser, live, wrong = Browser(chromium, live=True), {}, []
    tab = browser.tab()
    for number in numbers:
        live[number] = browser.look_live(tab, site, number)
        wrong += live[number].missing(site.needs(number))
        wrong += ["not known to be needed: " + url for url in live[number].answers.keys() - site.needs(number).keys()]
        save(out, "%d-live.png" % number, live[number].picture)
    figures["chromium"] = browser.version
    browser.close()
    check.say(not wrong, "Chromium shows %d live pages" % look, wrong)
    check.say(len({it.picture for it in live.values()}) == look, "each looks different")
    bodies = {url: fetched(site, url) for number in numbers for url in site.needs(number)}
    server.stop()

    export(check, nephila, crawled, package, figures)
    good, said = validate(tools["wacz"], package)
    check.say(good, "py-wacz validates %.1f MB" % (os.path.getsize(package) / 1e6), said)
    wrong, captures = judge(package, crawled, site)
    check.say(not wrong, "all %d pages, titles, %d captures and archive files are in it"
              % (len(site.html_pages()), captures), wrong)

    replay = Replay(chromium, folder, site, live)
    found = replay.look(package, numbers, out)
    needed = sum(len(site.needs(number)) for number in numbers)
    check.say(not found["missing"], "ReplayWeb.page shows %d pages, %d requisites missing of %d (%d reads of the file, at "
              "most %.1f s a page)" % (look, len(found["missing"]), needed, found["reads"], found["seconds"]), found["missing"])
    check.say(not found["elsewhere"], "nothing comes from elsewhere (Chromium itself asked %d times in vain)"
              % found["own"], found["elsewhere"])
    check.say(not found["differ"], "each looks as the live page did: at most %.4f %% of the pixels differ, allowed %.1f %%"
              % (100 * found["share"], 100 * DIFFERENCE_MAX), found["differ"])
    wrong, count = replay_in_pywb(tools["pywb"], package, site, numbers, bodies)
    check.say(count > 0 and not wrong, "pywb replays %d answers of %d pages byte for byte" % (count, look), wrong)
    if not args.no_faults:
        # A page whose image is not behind a redirect.
        plant_faults(check, replay, tools, package, work, site, crawled, bodies, next(it for it in numbers if it % 7))
    figures.update(pages=pages, captures=captures, looked_at=look, needed=needed, missing=len(found["missing"]),
                   elsewhere=len(found["elsewhere"]), difference_max="%.6f" % found["share"], pywb_wrong=len(wrong),
                   pywb_answers=count)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nephila", help="the program")
    parser.add_argument("cache", help="folder for tools")
    parser.add_argument("--short", action="store_true", help="300 pages, 5 of them looked at")
    parser.add_argument("--pages", type=int, help="pages of the site [default: 20000]")
    parser.add_argument("--look", type=int, help="pages to look at [default: 50]")
    parser.add_argument("--out", help="folder for pictures")
    parser.add_argument("--work", help="folder for temporary files")
    parser.add_argument("--chromium", help="the browser [default: found in PATH]")
    parser.add_argument("--leaves", action="store_true", help="frames, and images that have moved, are at another host")
    parser.add_argument("--no-faults", action="store_true", help="do not check the checks")
    parser.add_argument("--large", type=float, nargs="*", metavar="GB", help="only memory and speed [default: 5 20 50]")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    python = environment(os.path.join(os.path.abspath(given.cache), "replay-tools"), TOOLS) + "python"
    if sys.prefix != os.path.dirname(os.path.dirname(python)):
        # Again, with the packages of the environment.
        os.execv(python, [python, *sys.argv])
    from replay_browser import DIFFERENCE_MAX, Browser, archive_server, difference
    from replay_large import ROUNDS, Measured, archive_files, compared, copied, measure, words
    from replay_pack import cut, edited, judge, with_flipped_bit, with_other_body, without_page, without_url
    from replay_site import GROUPS, MEDIA, WWW, Site, serve

    main(given)
