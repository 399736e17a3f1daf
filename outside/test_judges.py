"""The judges can fail: a journal of a perfect crawl gives no complaint, and each fault that is put into it gives one."""

import json
import pathlib
import tempfile
import unittest

import journal as journals
import robots
from cluster import Fault
from graph import NEVER_WHOLE, PASSING, Web
from verdict import Verdict

RESTS = {"host_delay": 2.0, "slot_delay": 0.5, "host_delay_factor": 5}


def perfect(web):
    """The requests of a crawl that does everything right, one at a time."""
    clock, requests = 100.0, []

    def ask(origin, path, kind, status=200, is_whole=True, **more):
        nonlocal clock
        requests.append({
            "request": len(requests), "first": True, "start": clock, "read": clock, "end": clock + 0.1,
            "ip": web.live[origin][0], "origin": origin, "method": "GET", "path": path, "status": status, "whole": is_whole,
            "kind": kind, "from": None, "agent": "Nephila", **more})
        clock += 5

    for host in web.wanted:
        if host.robots_from:
            ask(host.origin, "/robots.txt", "robots", 301, version=0)
            ask(host.robots_from, f"/robots-of/{host.name}", "robots-of", version=0)
        else:
            ask(host.origin, "/robots.txt", "robots", 404 if host.robots in ("404", "403") else 200, version=0)
    for (origin, path), state in web.truth.items():
        if state not in ("wanted", "sitemap"):
            continue
        kind = journals.kind_of(web, (origin, path))
        if kind in PASSING or kind in NEVER_WHOLE:
            ask(origin, path, kind, 503, is_whole=False)
        if kind not in NEVER_WHOLE:
            ask(origin, path, kind)
    return requests


def judged(web, requests, faults=()):
    """What the judges say of these requests."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "journal.jsonl")
        path.write_text("".join(json.dumps(request) + "\n" for request in requests), encoding="utf-8")
        verdict = Verdict("planted")
        journals.judge(web, journals.Journal(path), faults, RESTS, verdict)
    return verdict


class Judges(unittest.TestCase):
    """One fault each."""

    @classmethod
    def setUpClass(cls):
        cls.web = Web(seed=5, hosts=26, pages=300, ports=(8001, 8002, 8003), net=40)
        cls.requests = perfect(cls.web)

    def plant(self, kind, change, faults=()):
        """The fault is found, and it is the only kind that is."""
        requests = [dict(request) for request in self.requests]
        change(requests)
        self.assertEqual(list(judged(self.web, requests, faults).totals), [kind] if kind else [])

    def page(self, requests, kind="html"):
        """The last request for a page of this kind, since nothing follows it closely."""
        return [request for request in requests if request["kind"] == kind][-1]

    def test_a_perfect_crawl_gives_no_complaint(self):
        self.plant(None, lambda requests: None)

    def test_a_page_that_is_not_asked_for_is_lost(self):
        self.plant("lost", lambda requests: requests.remove(self.page(requests)))

    def test_a_page_whose_second_try_never_comes_is_lost(self):
        self.plant("lost", lambda requests: requests.remove(self.page(requests, "503")))

    def test_a_page_that_is_asked_for_twice_is_doubled(self):
        def twice(requests):
            again = dict(self.page(requests))
            again.update(start=again["start"] + 9000, read=again["read"] + 9000, end=again["end"] + 9000)
            requests.append(again)
        self.plant("doubled", twice)
        at = self.page(self.requests)["end"]
        self.plant(None, twice, faults=[at + 1])
        self.plant("doubled", twice, faults=[at + 600])

    def test_a_second_try_that_comes_at_once_is_rude(self):
        def at_once(requests):
            first, second = [request for request in requests if request["path"] == self.page(requests, "drop")["path"]
                             and request["origin"] == self.page(requests, "drop")["origin"]]
            second.update(start=first["end"] + 0.01, read=first["end"] + 0.01, end=first["end"] + 0.1)
        self.plant("rude", at_once)

    def test_a_slow_answer_gives_a_longer_rest(self):
        def slow(requests):
            page = self.page(requests)
            page.update(start=page["start"] - 2, read=page["start"] - 2)
            requests.append({**page, "path": "/robots.txt", "kind": "robots", "version": 0, "start": page["end"] + 4,
                             "read": page["end"] + 4, "end": page["end"] + 4.1, "ip": "127.40.99.99"})
        self.plant("rude", slow)

    def test_a_forbidden_page_is_found(self):
        def forbidden(requests):
            origin, path = next(key for key, state in self.web.truth.items() if state == "denied")
            requests.append({**requests[-1], "origin": origin, "path": path, "kind": "html", "start": 90000, "read": 90000,
                             "end": 90000.1})
        requests = [dict(request) for request in self.requests]
        forbidden(requests)
        self.assertEqual(set(judged(self.web, requests).totals), {"unwanted", "robots"})

    def test_a_page_before_its_robots_txt_is_found(self):
        def without(requests):
            host = next(host for host in self.web.wanted if host.robots == "plain")
            requests.remove(next(request for request in requests
                                 if request["origin"] == host.origin and request["kind"] == "robots"))
        self.plant("robots", without)


class Faults(unittest.TestCase):
    """What a fault of a cluster excuses."""

    def test_a_node_that_was_left_alone_has_no_excuse(self):
        one = {"start": 100.0, "end": 100.1, "from": "node-2-1@outside.test"}
        two = {"start": 130.0, "end": 130.1, "from": "node-1-1@outside.test"}
        for kind, number, began, ended, is_excuse in (
                ("node killed", 2, 101, 103, True), ("node killed", 1, 101, 103, False), ("node killed", 2, 120, 121, False),
                ("node killed", 2, 131, 132, False), ("node frozen", 2, 90, 99, True), ("node frozen", 2, 70, 80, False),
                ("server killed", 1, 80, 85, True), ("servers killed", 0, 20, 30, False)):
            fault = Fault(kind, number)
            fault.began, fault.ended = began, ended
            self.assertEqual(fault.excuses(one, two), is_excuse, (kind, number, began))


class Robots(unittest.TestCase):
    """The reader of robots.txt."""

    def test_the_longest_rule_decides_and_allow_wins_a_tie(self):
        rules, delay = robots.parse("User-agent: *\nDisallow: /\n\nUser-agent: NEPHILA/2\nCrawl-delay: 3\nDisallow: /a\n"
                                    "Allow: /a/b\nDisallow: /*.pdf$\nDisallow:\n", "nephila")
        self.assertEqual(delay, 3.0)
        for path, is_allowed in (("/", True), ("/a", False), ("/a/b", True), ("/x.pdf", False), ("/x.pdf?y", True)):
            self.assertEqual(robots.allows(rules, path), is_allowed, path)

    def test_a_group_that_names_us_replaces_the_one_for_all(self):
        self.assertEqual(robots.parse("User-agent: *\nDisallow: /\nUser-agent: nephila\nAllow: /x\n", "Nephila")[0], [(True, "/x")])
        self.assertEqual(robots.parse("User-agent: nephila-news\nDisallow: /\n", "Nephila")[0], [])


if __name__ == "__main__":
    unittest.main()
