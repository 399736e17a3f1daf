"""A reader of robots.txt written from RFC 9309 and docs/robots.md: which paths a text forbids to one agent.

It judges the crawler and shares nothing with it. It reads only what this web serves: no misspelt keys, no UTF-16.
"""

import re


def parse(text, agent):
    """The rules for `agent` as pairs of (is an allow, pattern), and the longest Crawl-delay in seconds, or None."""
    groups = []
    current = None
    is_open = False
    for line in re.split(r"\r\n|\r|\n", text.lstrip("\ufeff")):
        key, colon, value = line.split("#", 1)[0].partition(":")
        if not colon:
            continue
        key, value = key.strip().lower(), value.strip()
        if key == "user-agent":
            if not is_open:
                current = {"agents": [], "rules": [], "delay": None}
                groups.append(current)
                is_open = True
            current["agents"].append(token(value))
        elif current is not None and key in ("allow", "disallow"):
            is_open = False
            if value:
                current["rules"].append((key == "allow", value))
        elif current is not None and key == "crawl-delay":
            # Not a rule: a group goes on behind it (docs/robots.md, "Which rules are ours").
            try:
                current["delay"] = float(value)
            except ValueError:
                pass
    ours = [group for group in groups if agent.lower() in group["agents"]]
    if not ours:
        ours = [group for group in groups if "*" in group["agents"]]
    rules = [rule for group in ours for rule in group["rules"]]
    delays = [group["delay"] for group in ours if group["delay"] is not None]
    return rules, max(delays, default=None)


def token(value):
    """The product token of a User-agent line: letters, `-` and `_`, without case; `*` stands for all."""
    if value.startswith("*"):
        return "*"
    return re.match(r"[A-Za-z_-]*", value).group().lower()


def allows(rules, path):
    """Does the longest rule that matches allow the path? Of two equally long ones, Allow wins."""
    best = (-1, True)
    for is_allow, pattern in rules:
        if matches(pattern, path):
            best = max(best, (len(pattern.encode()), is_allow))
    return best[1]


def matches(pattern, path):
    """`*` is any text, `$` at the end is the end."""
    is_anchored = pattern.endswith("$")
    parts = (pattern[:-1] if is_anchored else pattern).split("*")
    expression = ".*".join(re.escape(part) for part in parts)
    return re.match(expression + (r"\Z" if is_anchored else ""), path, re.DOTALL) is not None
