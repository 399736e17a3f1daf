#!/usr/bin/env python3
"""Follows the events of a crawl or a cluster, and goes on where it was when it is started again.

    consumer.py FOLDER            the crawl in this folder, by `nephila log`
    consumer.py http://NODE:6374  a cluster, over HTTP; the token, if one is needed, stands in NEPHILA_TOKEN

It prints a line for each event: id, time, kind, URL or host. How far it came stands in ./position (or STATE): the last
position, and the ids of what came behind it, so that what comes again after it was killed is known again.
"""

import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request

STATE = os.environ.get("STATE", "position")
NEPHILA = os.environ.get("NEPHILA", "nephila")


def load():
    """The position, and what was seen behind it. A line that is torn names nothing."""
    try:
        with open(STATE) as file:
            position, *seen = file.read().split("\n")
            return position, set(seen)
    except FileNotFoundError:
        return begin("beginning"), set()


def begin(position):
    """A new position, as a whole or not at all."""
    with open(STATE + ".new", "w") as file:
        file.write(position + "\n")
    os.replace(STATE + ".new", STATE)
    return position


def from_folder(folder, position):
    command = [NEPHILA, "log", "-f", "--from", position, "-o", folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        yield from program.stdout


def from_node(node, position):
    while True:
        query = urllib.parse.urlencode({"from": position, "wait": "20s"})
        request = urllib.request.Request(f"{node}/api/v1/events?{query}")
        if token := os.environ.get("NEPHILA_TOKEN"):
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=60) as page:
            for line in page.read().decode().splitlines():
                yield line
                if (event := json.loads(line))["kind"] == "position":
                    position = event["position"]


def main():
    source = sys.argv[1]
    position, seen = load()
    state = open(STATE, "a")
    lines = from_node if source.startswith("http") else from_folder
    for line in lines(source, position):
        event = json.loads(line)
        if event["kind"] == "position":
            # Everything before it is done, and does not come again.
            seen.clear()
            begin(event["position"])
            state = open(STATE, "a")
        elif event["id"] not in seen:
            # Do what you have to do here. Killed between this and the next line, you do it twice: if that matters, write the
            # id down in the same transaction.
            what = event.get("url") or event.get("host", "")
            print(event["id"], event.get("at", ""), event["kind"], what, flush=True)
            state.write(event["id"] + "\n")
            state.flush()
            seen.add(event["id"])


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
