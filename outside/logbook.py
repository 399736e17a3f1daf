"""The crawler's own log against the server's journal: every request has a line, and no line tells of another one.

A line of `nephila log` says with `requests` how many requests its fetch made; without the field it made one.
"""

import collections
import json

# A fetch that a fault cut off may not have reached the server; its line says so (docs/damage.md).
CUT_OFF = "may have been asked"


def lines(nephila, folder, verdict):
    """The log as JSON objects."""
    code, words, complaints = nephila.ask("log", "-o", folder, "--format", "jsonl")
    if code:
        verdict.fail("log", f"nephila log ends with {code}: {complaints.strip()[-200:]}")
    found = []
    for line in words.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            verdict.fail("log", f"a line of the log is no JSON: {line[:120]}")
    return found


def judge(nephila, folder, journal, faults, verdict):
    """Compares both, URL by URL."""
    told, cut_off, answered = collections.Counter(), collections.Counter(), collections.defaultdict(collections.Counter)
    found = lines(nephila, folder, verdict)
    for line in found:
        requests = line.get("requests", 1)
        told[line["url"]] += requests
        if CUT_OFF in line.get("detail", ""):
            cut_off[line["url"]] += max(requests, 1)
        if line.get("status"):
            answered[line["url"]][line["status"]] += 1
    seen = collections.Counter(request["origin"] + request["path"] for request in journal.requests)
    statuses = collections.defaultdict(collections.Counter)
    for request in journal.requests:
        if request["whole"]:
            statuses[request["origin"] + request["path"]][request["status"]] += 1
    for url, count in seen.items():
        if count > told[url]:
            verdict.fail("log", f"{url}: the server saw {count} requests, the log has {told[url]}", count - told[url])
    for url, count in told.items():
        if count - cut_off[url] > seen[url]:
            verdict.fail("log", f"{url}: the log has {count} requests, the server saw {seen[url]}", count - seen[url])
    if not faults:
        for url, counts in statuses.items():
            for status, count in counts.items():
                # A 304 or a cut answer has its line, too; what is compared is what the server sent whole.
                if answered[url][status] < count:
                    verdict.fail("log", f"{url}: {count} whole answers {status}, {answered[url][status]} in the log")
    verdict.count(log_lines=len(found))
