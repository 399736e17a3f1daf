"""`cargo xtask outside`: an outside judge of Nephila, written from its documentation alone.

Runs a crawl of a web of its own that is killed again and again, one whose disk is full, one whose clock is set, damages
copies of a crawl's folder, and follows the README as four people would. Everything stays on loopback and ends by itself.
"""

import argparse
import concurrent.futures
import pathlib
import shutil
import sys
import tempfile
import time

import cluster
import damage
import first_hour
import operators_hour
import parts
from program import Nephila
from verdict import Verdict

PARTS = {
    "killed": parts.killed, "full": parts.full, "clock": parts.clock, "damage": damage.damage,
    "first-hour": first_hour.first_hour, "cluster": cluster.cluster,
    "operators-hour": operators_hour.operators_hour,
}
# What runs by itself; the rest is asked for by name.
USUAL = [name for name in PARTS if name != "cluster"]
# Sizes of the short form, which CI runs: below 90 s on two busy cores.
SHORT = {"pages": 170, "hosts": 36, "kills": 5, "damages": 8, "hosts_small": 12, "pages_small": 60}


def options():
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="cargo xtask outside", description=__doc__)
    parser.add_argument("--nephila", type=pathlib.Path, required=True)
    parser.add_argument("--pages", type=int, default=20000)
    parser.add_argument("--hosts", type=int, default=300)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--damages", type=int, default=len(damage.KINDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--open", action="append", default=[])
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.set_defaults(hosts_small=24, pages_small=240)
    said = parser.parse_args()
    if said.short:
        for name, value in SHORT.items():
            setattr(said, name, value)
    return said


def main():
    """Runs the parts at the same time, since they mostly wait, and says what they found."""
    said = options()
    began = time.monotonic()
    print("settings that differ from the shipped ones, besides addresses, ports and certificates:")
    for name, value, why in parts.CHANGED + parts.CHANGED_SHORT * said.short:
        print(f"  {name} = {value}: {why}")
    for where, changed in (("full disk", parts.CHANGED_DISK), ("damage", damage.SMALL), ("first hour", first_hour.CHANGED),
                           ("cluster", cluster.CHANGED)):
        for name, value, why in changed:
            print(f"  {where}: {name} = {value}: {why}")
    folder = said.keep or pathlib.Path(tempfile.mkdtemp(prefix="outside-"))
    chosen = said.only or USUAL
    verdicts = {name: Verdict(name, said.open) for name in chosen}
    nephila = Nephila(said.nephila)
    with concurrent.futures.ThreadPoolExecutor(len(PARTS)) as pool:
        running = {pool.submit(PARTS[name], nephila, parts.clean(folder / name), said, verdicts[name]): name for name in chosen}
        for future in concurrent.futures.as_completed(running):
            name = running[future]
            error = future.exception()
            if error is not None:
                verdicts[name].fail("judge", f"the judge itself failed: {error!r}")
            verdicts[name].show()
    if said.keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    return finish(verdicts.values(), time.monotonic() - began)


def finish(verdicts, seconds):
    """One line of figures, and the exit code."""
    def total(*kinds):
        return sum(verdict.totals[kind] for verdict in verdicts for kind in kinds)

    def count(name):
        return sum(verdict.counts[name] for verdict in verdicts)

    known = sum(len(verdict.open) for verdict in verdicts)
    failed = sum(sum(verdict.totals.values()) for verdict in verdicts)
    print(
        f"outside: {count('got')} of {count('wanted')} wanted pages, {count('requests')} requests, {count('kills')} kills, "
        f"{count('faults')} faults of a cluster, "
        f"{count('jumps')} clock jumps, {count('full')} full disks, {count('repeated')} repeats after faults; "
        f"lost {total('lost')}, doubled {total('doubled')}, rude {total('rude', 'robots')} of {count('gaps')} rests, "
        f"unwanted {total('unwanted')}, log {total('log')}, archive {total('archive')}, "
        f"damages named {count('named')} of {count('damages')}, first hours {count('steps')} steps and {count('statements')} statements, "
        f"untrue {total('untrue')}; {failed} complaints, {known} known to be open, in {seconds:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
