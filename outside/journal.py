"""Reads what the server wrote down, and the judges that look at nothing else: complete, once, rested, robots.txt."""

import bisect
import collections
import json
import pathlib

import robots
from graph import AGENT, NEVER_WHOLE, PASSING

# The server's clock and the kernel's are one; what is left is rounding.
GRAIN_S = 0.002
# A page is done when its report is on disk; after a fault, what ended so shortly before it may be asked for again.
DURABLE_S = 5.0
# What an answer asks for (Retry-After, Crawl-delay) is written down this long after its last byte at the latest.
WRITTEN_S = 1.0
# A first try and the retries of the shipped settings.
TRIES_MAX = 6


class Journal:
    """All requests in order, connections, and what must not happen at all."""

    def __init__(self, path, sender=None, deaths=None):
        """`sender`: only who says so in the From field. `deaths`: when which sender was killed."""
        self.requests, self.connections, self.lags, self.faults, self.forbidden = [], {}, [], [], []
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if "request" in entry:
                # What somebody sent who was dead by then was sent before: a busy server reads it later.
                dead = (deaths or {}).get(entry["from"])
                if dead is not None:
                    entry["start"], entry["end"] = min(entry["start"], dead), min(entry["end"], dead)
                if sender is None or entry["from"] == sender:
                    self.requests.append(entry)
            elif "open" in entry:
                self.connections[entry["open"]] = [entry["ip"], entry["at"], None]
            elif "close" in entry:
                self.connections[entry["close"]][2] = entry["at"]
            elif "lag" in entry:
                self.lags.append(entry["lag"])
            elif "fault" in entry:
                self.faults.append(entry)
            elif "forbidden" in entry:
                self.forbidden.append(entry)
        self.requests.sort(key=lambda request: request["start"])
        self.by_url = grouped(self.requests, lambda request: (request["origin"], request["path"]))
        self.by_host = grouped(self.requests, lambda request: request["origin"])
        self.by_address = grouped(self.requests, lambda request: address(request["ip"]))

    def whole(self):
        """URLs that were answered whole."""
        return {key for key, asked in self.by_url.items() if any(request["whole"] for request in asked)}


def grouped(items, key):
    """Lists by key, in order."""
    groups = collections.defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def address(ip):
    """What shares a rest: an IPv4 address, or an IPv6 network of 64 bits. Here all IPv6 is ::1."""
    return "::/64" if ":" in ip else ip


def kind_of(web, key):
    """The kind of a page; what is no page (a sitemap) is its path."""
    page = web.hosts[key[0]].pages.get(key[1])
    return page.kind if page else key[1]


def judge_complete(web, journal, verdict):
    """Every wanted page was answered as it is meant to be; nothing else was asked for."""
    lost = collections.defaultdict(list)
    got = 0
    for key, state in web.truth.items():
        asked = journal.by_url.get(key, [])
        if state in ("wanted", "sitemap"):
            kind = kind_of(web, key)
            # A page that passes has to be there in the end; one that never comes has to be asked for.
            if kind in PASSING:
                is_got = any(request["whole"] and request["status"] == 200 for request in asked)
            elif kind in NEVER_WHOLE:
                is_got = bool(asked)
            else:
                is_got = any(request["whole"] for request in asked)
            got += is_got
            if not is_got:
                lost[(kind, web.hosts[key[0]].place, web.hosts[key[0]].robots)].append(key[0] + key[1])
        elif state in ("denied", "out", "unheard") and asked:
            verdict.fail("unwanted", f"{state}: {key[0]}{key[1]} asked {len(asked)} times")
    for key, asked in journal.by_url.items():
        if asked[0]["kind"] in ("unknown", "misdirected"):
            verdict.fail("unwanted", f"{asked[0]['kind']}: {key[0]}{key[1]} at {asked[0]['ip']}")
    for (kind, place, rules), urls in lost.items():
        verdict.fail("lost", f"{len(urls)} of kind {kind}, name {place}, robots.txt {rules}, such as {urls[0]}", len(urls))
    for entry in journal.forbidden:
        verdict.fail("rude", f"dialled {entry['forbidden']}, which is private")
    for entry in journal.faults:
        verdict.fail("judge", f"the web failed: {entry}")
    verdict.count(wanted=got + sum(map(len, lost.values())), got=got)


def excused_by(faults):
    """Did a fault come between two requests, before what the first one got could be written down?"""
    def is_faulted(one, two):
        at = bisect.bisect_left(faults, one["end"] - GRAIN_S)
        is_behind = at < len(faults) and faults[at] < two["start"] and faults[at] - one["end"] < DURABLE_S
        during = bisect.bisect_left(faults, one["start"])
        return is_behind or during < len(faults) and faults[during] <= one["end"] + GRAIN_S
    return is_faulted


def judge_once(web, journal, is_excused, verdict):
    """Nothing that was answered is asked for again, unless a fault came in between."""
    repeated = 0
    for key, asked in journal.by_url.items():
        host = web.hosts.get(key[0])
        if host is None or asked[0]["kind"] in ("robots", "robots-of"):
            continue
        kind = asked[0]["kind"]
        faulty = 0
        for one, two in zip(asked, asked[1:]):
            is_faulted = is_excused(one, two)
            faulty += is_faulted
            is_second_try = kind in NEVER_WHOLE or kind in PASSING and not (one["whole"] and one["status"] == 200)
            if is_faulted:
                repeated += 1
            elif not is_second_try and one["whole"]:
                verdict.fail("doubled", f"{key[0]}{key[1]} ({kind}) again after {two['start'] - one['end']:.1f} s")
            elif not is_second_try and not one["whole"]:
                verdict.fail("doubled", f"{key[0]}{key[1]} ({kind}) was cut by the crawler and asked for again")
        if len(asked) - faulty > TRIES_MAX:
            verdict.fail("doubled", f"{key[0]}{key[1]} ({kind}) asked {len(asked)} times, at most {TRIES_MAX} are promised")
    verdict.count(repeated=repeated)


def is_between(faults, one, two):
    """Was there a fault after one request began and before the other did?"""
    at = bisect.bisect_left(faults, one["start"])
    return at < len(faults) and faults[at] <= two["start"]


def is_cut_off(faults, one):
    """Was the process killed so soon after an answer that it cannot have written down what that asks for?"""
    at = bisect.bisect_left(faults, one["end"] - GRAIN_S)
    return at < len(faults) and faults[at] - one["end"] < WRITTEN_S


def judge_rests(web, journal, faults, settings, verdict):
    """Between the end of one request and the start of the next a host and an address rest; second tries included."""
    tightest = {}
    host_delay, slot_delay, factor = (settings[name] for name in ("host_delay", "slot_delay", "host_delay_factor"))

    def judge(groups, what, promise):
        for name, requests in groups.items():
            # The one that ended last, and what its end promised.
            last = None
            for request in requests:
                if last is not None:
                    is_faulted = is_between(faults, last, request)
                    is_unread = is_cut_off(faults, last)
                    gap, promised = request["start"] - last["end"], promise(name, last, is_faulted, is_unread)
                    if gap < promised - GRAIN_S:
                        verdict.fail("rude", (
                            f"{what} {name} rested {gap:.3f} s of {promised:.3f} s between {last['path']} "
                            f"({last['kind']}, whole: {last['whole']}) and {request['path']} ({request['kind']})"
                            + (", with a fault in between" if is_faulted else "")))
                    tightest[what] = min(tightest.get(what, 1e9), gap - promised)
                    verdict.count(gaps=1)
                if last is None or request["end"] >= last["end"]:
                    last = request

    def knows_rules(origin, last):
        """Was there an earlier copy of robots.txt that some process had time to write down?"""
        return any(one["kind"] == "robots" and one["whole"] and one["end"] < last["start"] and not is_cut_off(faults, one)
                   for one in journal.by_host[origin])

    def of_host(origin, last, is_faulted, is_unread):
        host = web.hosts.get(origin)
        promised = host_delay
        if is_unread and last["kind"] == "robots" and not knows_rules(origin, last):
            # What this answer asks for died with the process that read it.
            verdict.count(unread=1)
        else:
            promised = max(promised, web.crawl_delay(host) if host else 0)
        if last["whole"] and not is_faulted:
            # A slow server gets more rest; the server saw less of it than the client did. This one is our own choice and
            # is not among what the README promises to remember over a restart.
            promised = max(promised, min(60.0, factor * (last["end"] - last["read"])))
        if last["whole"] and last["status"] in (429, 503) and last["kind"] in ("503", "429"):
            if is_unread:
                verdict.count(unread=1)
            else:
                promised = max(promised, 3.0)
        return promised

    judge(journal.by_host, "host", of_host)
    judge(journal.by_address, "address", lambda *_: slot_delay)
    verdict.note("tightest rests: " + ", ".join(f"{what} {gap * 1000:+.0f} ms" for what, gap in tightest.items()))


def judge_robots(web, journal, verdict):
    """robots.txt was asked for before anything else, and what was asked for is what the copy in force allows."""
    judged = 0
    for origin, requests in journal.by_host.items():
        host = web.hosts.get(origin)
        if host is None:
            continue
        rules = None
        moved = [request for request in journal.requests
                 if host.robots_from and request["kind"] == "robots-of" and request["path"] == f"/robots-of/{host.name}"]
        for request in requests:
            if request["kind"] == "robots":
                if not request["whole"] or request["status"] >= 500:
                    continue
                if request["status"] == 301:
                    # In force once the other host has answered.
                    rules = "moved" if rules is None else rules
                elif request["status"] == 200:
                    rules = robots.parse(web.robots_text(host, request["version"]), AGENT)[0]
                else:
                    rules = []
                continue
            if request["kind"] == "robots-of":
                continue
            judged += 1
            if rules == "moved":
                if not any(answer["whole"] and answer["end"] < request["start"] for answer in moved):
                    verdict.fail("robots", f"{origin}{request['path']} before its robots.txt had been read")
                rules = web.rules(host)
            if rules is None:
                verdict.fail("robots", f"{origin}{request['path']} before its robots.txt had been read")
            elif not robots.allows(rules, request["path"]):
                verdict.fail("robots", f"{origin}{request['path']} is forbidden by the copy in force")
    verdict.count(by_robots=judged)


def judge_at_once(journal, verdict):
    """One request at a time to a host and to an address; connections are counted."""
    for what, groups in (("host", journal.by_host), ("address", journal.by_address)):
        for name, requests in groups.items():
            moments = [(request["start"], 1) for request in requests] + [(request["end"], -1) for request in requests]
            open_now = 0
            for _, change in sorted(moments, key=lambda moment: (moment[0], moment[1])):
                open_now += change
                if open_now > 1:
                    verdict.fail("rude", f"two requests at once to {what} {name}")
                    break
    most, spans = 0, grouped(journal.connections.values(), lambda connection: address(connection[0]))
    for connections in spans.values():
        moments = [(opened, 1) for _, opened, _ in connections]
        moments += [(closed, -1) for _, _, closed in connections if closed is not None]
        open_now = 0
        for _, change in sorted(moments):
            open_now += change
            most = max(most, open_now)
    verdict.note(f"connections open to an address at once: at most {most}")


def judge(web, journal, faults, settings, verdict):
    """All of it."""
    judge_complete(web, journal, verdict)
    judge_once(web, journal, excused_by(sorted(faults)), verdict)
    judge_rests(web, journal, sorted(faults), settings, verdict)
    judge_robots(web, journal, verdict)
    judge_at_once(journal, verdict)
    verdict.count(requests=len(journal.requests), connections=len(journal.connections))
    if journal.lags:
        verdict.note(f"the web itself was late by up to {max(journal.lags):.1f} s")


