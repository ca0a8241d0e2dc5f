"""Times of the viewer's actions, by phase, for its plots."""

from __future__ import annotations

import contextlib
import time

import numpy as np

KEPT = 500                          # number of actions kept; an animation may run for hours


class Timings:
    """The last actions: names, wall times, and times of each phase of the solver, in seconds."""

    def __init__(self, kept=KEPT):
        self.kept, self.rows = kept, []

    def __len__(self):
        return len(self.rows)

    @contextlib.contextmanager
    def measure(self, action, phases=dict):
        """Time the ``with`` block. ``phases()`` returns the total seconds of each phase. A block that raises is not recorded."""
        before, start = phases(), time.perf_counter()
        yield
        seconds, after = time.perf_counter() - start, phases()
        spent = {name: s - before.get(name, 0.0) for name, s in after.items() if s > before.get(name, 0.0)}
        self.rows = [*self.rows, (action, seconds, spent)][-self.kept:]

    def seconds(self, action):
        """Return the wall seconds (k,) of every ``action``, oldest first."""
        return np.array([row[1] for row in self.rows if row[0] == action])

    def phases(self, action):
        """Return the seconds (k,) of each phase, name to array, with zeros if a phase did not run."""
        rows = [row[2] for row in self.rows if row[0] == action]
        return {name: np.array([row.get(name, 0.0) for row in rows]) for name in dict.fromkeys(n for row in rows for n in row)}

    @property
    def last(self):
        """The last action as text, empty at the start."""
        if not self.rows:
            return ""
        action, seconds, spent = self.rows[-1]
        parts = ", ".join(f"{name} {1e3 * s:.1f}" for name, s in spent.items())
        return f"{action}: {1e3 * seconds:.1f} ms" + (f" ({parts})" if parts else "")
