"""Seconds of what the viewer did, phase by phase, for its plots."""

from __future__ import annotations

import contextlib
import time

import numpy as np

KEPT = 500                          # a live animation runs for hours


class Timings:
    """The last actions: their names, wall seconds and the seconds of each phase of the solver."""

    def __init__(self, kept=KEPT):
        self.kept, self.rows = kept, []

    def __len__(self):
        return len(self.rows)

    @contextlib.contextmanager
    def measure(self, action, phases=dict):
        """Time the block; ``phases()`` gives the seconds of each phase so far. A block that fails is left out."""
        before, start = phases(), time.perf_counter()
        yield
        seconds, after = time.perf_counter() - start, phases()
        spent = {name: s - before.get(name, 0.0) for name, s in after.items() if s > before.get(name, 0.0)}
        self.rows = [*self.rows, (action, seconds, spent)][-self.kept:]

    def seconds(self, action):
        """(k,) wall seconds of every ``action``, oldest first."""
        return np.array([row[1] for row in self.rows if row[0] == action])

    def phases(self, action):
        """Phase name to (k,) seconds, zeros where a phase did not run."""
        rows = [row[2] for row in self.rows if row[0] == action]
        return {name: np.array([row.get(name, 0.0) for row in rows]) for name in dict.fromkeys(n for row in rows for n in row)}

    @property
    def last(self):
        """The last action in words, empty at the start."""
        if not self.rows:
            return ""
        action, seconds, spent = self.rows[-1]
        parts = ", ".join(f"{name} {1e3 * s:.1f}" for name, s in spent.items())
        return f"{action}: {1e3 * seconds:.1f} ms" + (f" ({parts})" if parts else "")
