"""Judges deploy/: `judge.py --nephila FILE --nats FILE --promtool FILE [--write]`, by `cargo xtask deploy`.

Runs every rule on what kustomize, Helm and compose make of deploy/, starts servers and nodes with it on loopback, and plants faults
that the rules have to find. A complaint is a line that begins with FAIL; the last line has the figures.

Invariant: nothing is written but temporary folders, unless `--write` makes the copies of alerts and settings again.
"""

import argparse
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile
import time

import composed
import live
import newer
import planted
import promised
import rules
from render import COMPLETE, LEFT_OUT, Deployment, Failed, Tools

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("nephila", "nats", "promtool"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--write", action="store_true")
    return parser.parse_args()


def judged(check, deployment):
    """The complaints of a check; what it could not read is one."""
    try:
        return [f"{check.__name__}: {complaint}" for complaint in check(deployment)]
    except Failed as error:
        return [f"{check.__name__}: {error}"]


def lived(part, deployment, *more):
    """What a part returns that starts programs in a folder of its own."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            return part(deployment, pathlib.Path(folder), *more)
    except (Failed, OSError, subprocess.SubprocessError) as error:
        return str(error)


def main():
    said = arguments()
    begun = time.monotonic()
    tools = Tools(said.nephila, said.nats, said.promtool, pathlib.Path(sys.executable).parent)
    deployment = Deployment(ROOT, tools)
    if said.write:
        for path, text in rules.made(deployment).items():
            (deployment.folder / path).write_text(text, encoding="utf-8")
    if deployment.kustomize("base") is LEFT_OUT:
        print("left out: kustomize, and the comparison of the chart with it: no kubectl on the PATH")
    wrong = {values: planted.probes(deployment.helm(values)) for values in ("", COMPLETE)}
    with concurrent.futures.ThreadPoolExecutor() as beside:
        checks = beside.submit(lambda: [line for check in rules.ALL + composed.ALL for line in judged(check, deployment)])
        faults = beside.submit(planted.missed, ROOT, tools)
        folders = beside.submit(lived, newer.judge, deployment)
        services = beside.submit(lived, live.compose, deployment)
        alone = beside.submit(lived, promised.served, deployment)
        pods = lived(live.kubernetes, deployment, wrong)
        complaints = checks.result() + faults.result()
        complaints += named("folders", folders.result()) + named("compose", services.result())
    complaints += named("kubernetes", pods) + named("serve", alone.result())
    times, documents = {}, []
    if not isinstance(pods, str) and not isinstance(alone.result(), str):
        _, times, unseen, document = pods
        complaints += [f"planted: a node answers {fault}" for fault in unseen]
        documents = [found for found in (document, alone.result()[1]) if found]
    if len(documents) == 2:
        found = promised.names(deployment, documents)
        complaints += promised.judge(found, said.write)
        # Planted as well: one name less, and one more.
        if not promised.judge(found - {"exit 11 Stopped"}, False) or not promised.judge(found | {"exit 99 New"}, False):
            complaints.append("planted: a name is gone or new, and nobody complains")
    for line in complaints:
        print(f"FAIL {line}")
    sizes = [len(docs) for _, docs in deployment.sets()]
    planted_count = len(planted.FAULTS) + sum(map(len, wrong.values())) + 2
    told = ", ".join(f"{name} {seconds:.1f}" for name, seconds in times.items())
    print(
        f"deploy: {len(rules.ALL + composed.ALL)} checks, {sum(sizes)} documents in {len(sizes)} sets, "
        f"{len(deployment.compose()['services'])} services, {planted_count} faults planted, "
        f"{len(newer.ROWS)} folders, {told}, {len(complaints)} complaints, {time.monotonic() - begun:.0f} s"
    )
    return 1 if complaints else 0


def named(part, found):
    """The complaints of a part: a sentence if it could not go on, else the first of what it returned."""
    lines = [found] if isinstance(found, str) else found if isinstance(found, list) else found[0]
    return [f"{part}: {line}" for line in lines]


if __name__ == "__main__":
    sys.exit(main())
