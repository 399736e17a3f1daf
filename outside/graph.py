"""A web from a seed, and its ground truth: which pages a crawl of its seeds wants, may not have, and never hears of.

Everything follows from the arguments of `Web`, so the server and the judge each make their own copy. Hosts are known
by their origin (`https://www.d3.test:8443`), pages by origin and path. What a page says is in `pages.py`.
"""

import random

import robots

AGENT = "Nephila"

# How often each kind stands among leaves that are no plain page, by weight.
KINDS = {
    "404": 4, "410": 2, "403": 2, "500": 1, "503": 2, "503-bare": 1, "429": 2,
    "cut": 2, "drop": 3, "slow": 1, "dribble": 1, "large": 1,
    "binary": 2, "text": 2, "empty": 1, "twin": 2, "closed": 2, "early": 1, "broken": 1,
    "r-same": 4, "r-cross": 4, "r-out": 2, "r-chain": 3, "r-scheme": 3, "r-loop": 1, "refresh": 2,
    "nofollow-page": 2, "nofollow-field": 2,
}
# The first answer of these is no page; the second try gets one.
PASSING = ("503", "503-bare", "429", "cut", "drop")
# These never become a page, however often they are asked for.
NEVER_WHOLE = ("500", "broken", "r-loop")
# Kinds that read the links they have.
READ = ("html", "slow", "dribble", "closed", "early", "large") + PASSING

ROBOTS = {
    "plain": 9, "ours": 3, "404": 3, "403": 1, "500-twice": 1, "moved": 2, "delay": 1, "changes": 2, "slow": 1,
    "html": 1, "odd": 2, "closed": 1,
}

# Who answers for a name, by weight. The first word of a pair is what stands first in the answer of the resolver.
PLACES = {
    "one": 10, "two": 4, "dead-one": 5, "one-dead": 3, "silent-one": 2, "private-one": 3, "dead6-one": 5, "six-one": 1,
    "six": 1, "alias": 2,
}

SPELLINGS = (
    "absolute", "root", "relative", "protocol", "entities", "fragment", "capitals", "blanks", "dots", "bare", "backslash",
    "single",
)

# Characters that stand unescaped in links of pages in these charsets; the target is named in UTF-8.
CHARSETS = {
    "utf-8": "é", "windows-1251": "д", "koi8-r": "ж", "shift_jis": "あ", "euc-kr": "한", "gb18030": "中", "utf-16": "ø",
    "iso-8859-1": "ü",
}

CODINGS = (None, None, "gzip", "gzip", "deflate", "br", "zstd", "gzip, br")


class Page:
    """One URL of the web."""

    __slots__ = ("origin", "path", "kind", "links", "unread", "target", "status", "coding", "charset", "size", "flags")

    def __init__(self, origin, path, kind="html", size=900):
        self.origin, self.path, self.kind, self.size = origin, path, kind, size
        # Pairs of spelling and (origin, path); those of `unread` are marked nofollow.
        self.links, self.unread = [], []
        self.target, self.status = None, 302
        self.coding, self.charset = None, "utf-8"
        self.flags = set()


class Host:
    """One origin: a scheme, a name and a port."""

    def __init__(self, scheme, name, port, domain, is_wanted):
        self.scheme, self.name, self.port, self.domain, self.is_wanted = scheme, name, port, domain, is_wanted
        self.origin = f"{scheme}://{name}:{port}"
        self.place, self.robots = "one", "plain"
        self.pages, self.sitemap, self.sitemap_kind = {}, [], None
        self.robots_from = None

    def page(self, path, kind="html", size=900):
        """Makes a page."""
        page = Page(self.origin, path, kind, size)
        self.pages[path] = page
        return page


class Web:
    """All hosts, their addresses, and what a crawl wants of them."""

    def __init__(self, seed, hosts, pages, ports, net, is_calm=False):
        """`ports`: http, http without IPv6, https. `net`: second number of all addresses. `is_calm`: no failing pages."""
        self.seed, self.net, self.is_calm = seed, net, is_calm
        self.port, self.port4, self.ports_tls = ports
        self.random = random.Random(f"outside {seed}")
        self.hosts, self.names, self.aliases = {}, {}, {}
        self.silent, self.private, self.live = set(), set(), {}
        self.make_hosts(hosts)
        self.place_hosts()
        self.make_pages(pages)
        self.seeds = self.choose_seeds()
        self.truth = {}
        self.walk()

    # Hosts and addresses

    def make_hosts(self, count):
        """One domain in ten is out of scope; a domain has up to seven hosts; four in ten speak TLS."""
        domains = max(4, count // 6)
        unwanted = max(1, domains // 10)
        for number in range(count):
            domain = f"d{number % domains}.test"
            turn = number // domains
            name = f"www.{domain}" if turn == 0 else f"h{turn}.{domain}"
            is_tls = self.random.random() < 0.4
            scheme, port = ("https", self.ports_tls) if is_tls else ("http", self.port)
            host = Host(scheme, name, port, domain, number % domains >= unwanted)
            self.hosts[host.origin] = host
        self.wanted = [host for host in self.hosts.values() if host.is_wanted]
        self.unwanted = [host for host in self.hosts.values() if not host.is_wanted]

    def place_hosts(self):
        """Gives every name its addresses. Two hosts in three share an address with up to three others."""
        shared = 0
        in_order = list(self.hosts.values())
        self.random.shuffle(in_order)
        # The first of them show every kind, however few hosts there are.
        kinds = list(PLACES) + self.random.choices(list(PLACES), list(PLACES.values()), k=len(in_order))
        moved = {}
        for number, host in enumerate(in_order):
            host.place = kinds[number]
            own = f"127.{self.net}.{number // 250}.{number % 250 + 1}"
            if self.random.random() < 0.66:
                home = f"127.{self.net}.{100 + shared // 1000}.{shared // 4 % 250 + 1}"
                shared += 1
            else:
                home = own
            spare = f"127.{self.net}.{150 + number // 250}.{number % 250 + 1}"
            private = f"127.200.{self.net}.{number % 250 + 1}"
            place = host.place
            if place == "dead6-one" and host.scheme == "http":
                # Nobody listens on ::1 at this port.
                moved[host.origin] = host
                del self.hosts[host.origin]
                host.port, host.origin = self.port4, f"http://{host.name}:{self.port4}"
                self.hosts[host.origin] = host
            elif place == "dead6-one":
                place = host.place = "dead-one"
            four, six = {
                "one": ([home], []), "two": ([home, spare], []), "dead-one": ([spare, home], []),
                "one-dead": ([home, spare], []), "silent-one": ([spare, home], []), "private-one": ([private, home], []),
                "dead6-one": ([home], ["::1"]), "six-one": ([home], ["::1"]), "six": ([], ["::1"]), "alias": ([home], []),
            }[place]
            self.names[host.name] = (four, six)
            alive = {"two": [home, spare], "six-one": [home, "::1"], "six": ["::1"]}.get(place, [home])
            self.live[host.origin] = alive
            if place == "silent-one":
                self.silent.add((spare, host.port))
            if place == "private-one":
                self.private.add((private, host.port))
            if place == "alias":
                self.aliases[host.name] = f"alias-of-{host.name}"
                self.names[f"alias-of-{host.name}"] = self.names[host.name]
        in_order = sorted(self.hosts.values(), key=lambda host: host.origin)
        self.hosts = {host.origin: host for host in in_order}
        self.wanted = [host for host in in_order if host.is_wanted]
        self.unwanted = [host for host in in_order if not host.is_wanted]

    def addresses(self):
        """Where somebody listens: pairs of address and port."""
        return sorted({(ip, self.hosts[origin].port) for origin, ips in self.live.items() for ip in ips})

    # Pages

    def make_pages(self, total):
        """Spreads the pages over the hosts, large and small, and makes them."""
        # Every kind stands in the web once, however small it is.
        self.due = self.kinds() + ([] if self.is_calm else ["drop"] * 3)
        self.random.shuffle(self.due)
        weights = [min(2.2, max(0.3, self.random.lognormvariate(0, 0.6))) for _ in self.hosts]
        share = total / sum(weights)
        # The first hosts show every kind of robots.txt.
        kinds = [kind for kind in ROBOTS if not (self.is_calm and kind in ("500-twice", "closed"))]
        weights_of = [ROBOTS[kind] for kind in kinds]
        kinds_first = [kind for kind in kinds if kind != "plain"]
        for number, (host, weight) in enumerate(zip(self.hosts.values(), weights)):
            if number < len(kinds_first) and len(self.hosts) >= 2 * len(kinds_first):
                host.robots = kinds_first[number]
            else:
                host.robots = self.random.choices(kinds, weights_of)[0]
            count = max(4, int(weight * share))
            if host.robots == "delay":
                # It rests for four seconds each time.
                count = min(count, 14, 3 + total // len(self.hosts) // 2)
            if self.live[host.origin] == ["::1"] or "::1" in self.live[host.origin]:
                # All of ::/64 is one address to a crawler, with one rest.
                count = min(count, max(6, total // len(self.hosts) // 2))
            self.fill(host, count)
        for host in self.wanted:
            if host.robots == "moved":
                others = [other for other in self.wanted if other is not host and other.robots in ("plain", "404")]
                host.robots_from = self.random.choice(others).origin if others else None
        for host in self.wanted:
            if host.name.startswith("www."):
                root = host.pages["/"]
                for other in self.wanted:
                    if other.domain == host.domain and other is not host:
                        root.links.append(("absolute", (other.origin, "/")))

    def kinds(self):
        """The kinds that this web has beside plain pages."""
        return [kind for kind in KINDS if not (self.is_calm and kind in PASSING + NEVER_WHOLE + ("slow", "dribble"))]

    def path(self, number):
        """A path in one of the ways sites number their pages."""
        return self.random.choice((
            f"/p/{number}.html", f"/dir{number % 7}/item-{number}", f"/q?id={number}&cat={number % 5}",
            f"/u/caf%C3%A9-{number}", f"/Case/{number}/Index.HTM", f"/deep/er/{number}/",
        ))

    def fill(self, host, count):
        """A tree of pages under the root, with links across it and to other hosts, and odd ones among its leaves."""
        pick = self.random
        paths = ["/"] + [self.path(number) for number in range(1, count)]
        first_leaf = (count - 2) // 4 + 1
        kinds = self.kinds()
        pages = []
        for number, path in enumerate(paths):
            kind = "html"
            if number >= first_leaf and pick.random() < 0.3:
                kind = pick.choices(kinds, [KINDS[kind] for kind in kinds])[0]
                if self.due and host.is_wanted and host.robots != "closed":
                    kind = self.due.pop()
            page = host.page(path, kind, pick.choice((400, 1500, 3000, 8000, 20000)))
            if kind == "large":
                page.size = pick.randrange(1_000_000, 3_000_000)
            if kind in READ + ("twin", "refresh"):
                page.coding = pick.choice(CODINGS)
            if kind == "html":
                page.charset = pick.choice(["utf-8"] * 6 + list(CHARSETS))
            for flag, chance in (("chunked", 0.3), ("base", 0.15), ("close", 0.08)):
                if pick.random() < chance:
                    page.flags.add(flag)
            pages.append(page)
        for number in range(1, count):
            parent = pages[(number - 1) // 4]
            parent.links.append((pick.choice(SPELLINGS), (host.origin, paths[number])))
        for number, page in enumerate(pages):
            self.adorn(host, page, number, paths)
        if host.robots in ("plain", "ours", "delay", "odd") and pick.random() < 0.4:
            host.sitemap_kind = pick.choice(("plain", "gzip", "index"))
            for number in range(pick.randrange(1, 6)):
                host.sitemap.append(host.page(f"/listed/{number}").path)

    def adorn(self, host, page, number, paths):
        """Gives a page its target, or links that somebody may not or will not follow."""
        pick = self.random
        origin = host.origin

        def leads_to(chance, spelling, path, where=page.links):
            if number and pick.random() < chance:
                where.append((spelling, (origin, host.page(path).path)))

        kind = page.kind
        page.status = pick.choice((301, 302, 303, 307, 308))
        if kind in ("r-same", "refresh"):
            page.target = (origin, host.page(f"/here/{number}").path)
        elif kind == "r-cross":
            other = pick.choice(self.wanted)
            page.target = (other.origin, other.page(f"/there/{host.name}/{number}").path)
        elif kind == "r-scheme":
            others = [other for other in self.wanted if other.scheme != host.scheme]
            other = pick.choice(others or self.wanted)
            page.target = (other.origin, other.page(f"/other/{host.name}/{number}").path)
        elif kind == "r-out":
            page.target = (pick.choice(self.unwanted).origin, f"/never/{host.name}/{number}")
        elif kind == "r-loop":
            back = host.page(f"/round/{number}", "r-loop")
            page.target, back.target = (origin, back.path), (origin, page.path)
        elif kind == "r-chain":
            for step in range(3):
                other = pick.choice(self.wanted) if step % 2 else host
                after = other.page(f"/chain/{host.name}/{number}/{step}", "r-chain" if step < 2 else "html")
                page.target = (after.origin, after.path)
                page = after
        elif kind in ("nofollow-page", "nofollow-field"):
            page.unread.append(("absolute", (origin, host.page(f"/hidden/{number}").path)))
        elif kind == "html":
            for _ in range(pick.randrange(5)):
                page.links.append(("absolute", (pick.choice(list(self.hosts)), "/")))
            for _ in range(pick.randrange(7)):
                page.links.append((pick.choice(SPELLINGS), (origin, pick.choice(paths))))
            leads_to(0.04, "absolute", f"/private/{number}")
            leads_to(0.03, "relative", f"/private/open-{number}")
            leads_to(0.03, "absolute", f"/z{number}/secret")
            leads_to(0.03, "nofollow", f"/hidden/{number}", page.unread)
            leads_to(0.10, "raw", f"/raw/{escaped(CHARSETS[page.charset])}-{number}")
            if number and pick.random() < 0.03:
                page.flags.add("link-field")
                page.target = (origin, host.page(f"/next/{number}").path)
            if host.robots == "changes":
                for side in "ab":
                    leads_to(0.1, "absolute", f"/turn-{side}/{number}")

    def choose_seeds(self):
        """The www host of each wanted domain."""
        return [host.origin + "/" for host in self.wanted if host.name.startswith("www.")]

    # robots.txt

    def robots_text(self, host, version):
        """What a host says of itself. `version` counts how often it was asked; it matters to those that change."""
        rules = "Disallow: /private/\nAllow: /private/open-\nDisallow: /*/secret$\n"
        everybody = "User-agent: *\n" + rules
        sitemap = f"Sitemap: {host.origin}{self.sitemap_path(host)}\n" if host.sitemap else ""
        kind = host.robots
        if kind == "ours":
            return ("User-agent: *\nDisallow: /\n\nUser-agent: other\nDisallow: /p/\n\n"
                    f"User-Agent: {AGENT.lower()}\nDisallow: /private/\nDisallow: /*/secret$\n\n{sitemap}")
        if kind == "delay":
            return everybody + "Crawl-delay: 4\n" + sitemap
        if kind == "changes":
            return everybody + f"Disallow: /turn-{'ab'[version % 2]}/\n"
        if kind == "html":
            return "<!doctype html><title>Not found</title><p>Nothing is here."
        if kind == "odd":
            text = "\ufeff# a comment\nDISALLOW: /\n\nuser-agent : *   # all\n\n" + rules.replace("Dis", "dIS") + sitemap
            return text.replace("\n", "\r\n")
        if kind == "closed":
            return "User-agent: *\nDisallow: /\n"
        return everybody + sitemap

    def rules(self, host, version=0):
        """The rules in force once robots.txt has been answered."""
        if host.robots in ("404", "403", "html"):
            return []
        return robots.parse(self.robots_text(host, version), AGENT)[0]

    def crawl_delay(self, host):
        """What a host asks for between two requests, in seconds."""
        return 4.0 if host.robots == "delay" else 0.0

    @staticmethod
    def sitemap_path(host):
        """Where a host's sitemap is."""
        return {"plain": "/sitemap.xml", "gzip": "/sitemap.xml.gz", "index": "/sitemaps.xml"}[host.sitemap_kind]

    # Truth

    def walk(self):
        """Follows every link as a crawler with `--scope domain` does, and notes what it wants.

        wanted, sitemap, denied (robots.txt), out (of scope), either (its robots.txt changes).
        """
        waiting = []

        def see(key):
            origin, path = key
            if key in self.truth:
                return
            host = self.hosts[origin]
            if not host.is_wanted:
                self.truth[key] = "out"
            elif path.startswith("/turn-"):
                self.truth[key] = "either"
            elif not robots.allows(self.rules(host), path):
                self.truth[key] = "denied"
            else:
                self.truth[key] = "wanted"
                waiting.append(key)

        for seed in self.seeds:
            see((seed[:-1], "/"))
        visited = set()
        while waiting:
            origin, path = waiting.pop()
            host = self.hosts[origin]
            if origin not in visited:
                visited.add(origin)
                if host.sitemap:
                    self.truth[(origin, self.sitemap_path(host))] = "sitemap"
                    if host.sitemap_kind == "index":
                        self.truth[(origin, "/sitemap-1.xml")] = "sitemap"
                    for listed in host.sitemap:
                        see((origin, listed))
            page = host.pages[path]
            if page.kind in READ:
                for _, key in page.links:
                    see(key)
            if page.target:
                see(page.target)
        for host in self.hosts.values():
            for path in host.pages:
                self.truth.setdefault((host.origin, path), "unheard")


def escaped(text):
    """A text as it stands in a path: UTF-8, escaped."""
    return "".join(f"%{byte:02X}" for byte in text.encode())
