"""What the judges found: complaints by kind, counts, and whether a complaint is about a finding that is known to be open."""

import collections
import threading

# Of each kind of complaint so many are shown.
SHOWN_MAX = 6


class Verdict:
    """Collects what one part of the run found."""

    def __init__(self, part, known=()):
        self.known, self.open = known, []
        self.part, self.failed, self.counts, self.notes = part, collections.defaultdict(list), collections.Counter(), []
        self.totals = collections.Counter()
        self.lock = threading.Lock()

    def fail(self, kind, words, count=1):
        """Something does not hold."""
        with self.lock:
            if any(text in f"{kind}: {words}" for text in self.known):
                self.open.append(f"{kind}: {words}")
                return
            self.failed[kind].append(words)
            self.totals[kind] += count

    def count(self, **counts):
        """Adds to the figures."""
        with self.lock:
            self.counts.update(counts)

    def note(self, words):
        """Worth saying, and no complaint."""
        with self.lock:
            self.notes.append(words)

    def show(self):
        """Prints all of it."""
        figures = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in self.counts.items())
        print(f"{self.part}: {figures}")
        for words in self.notes:
            print(f"  {words}")
        if self.open:
            print(f"  known to be open: {len(self.open)}")
            for words in self.open[:SHOWN_MAX]:
                print(f"    {words}")
        for kind, complaints in self.failed.items():
            print(f"  FAIL {kind}: {self.totals[kind]}")
            for words in complaints[:SHOWN_MAX]:
                print(f"    {words}")
        print(end="", flush=True)
