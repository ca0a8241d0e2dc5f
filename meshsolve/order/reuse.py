"""Orderings that matrices of one pattern reuse, for pipelines on many meshes with the same faces.

    with reusing(Orderings()):
        for A in matrices:
            ms.cholesky(A)                  # orders each pattern once

A pattern is recognized by fingerprints of its row lengths and indices, 128 bits each, in O(nnz) time: a few percent of the time of an
ordering. Orderings depend on nothing but the pattern, the method and its options, so results have the same bits.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from meshsolve import _core
from meshsolve.order.ordering import Ordering
from meshsolve.report import Report

MOST_ROWS = 4_000_000                       # of all kept orderings: about 80 MB


class Orderings:
    """The orderings that were used last, of at most ``MOST_ROWS`` rows together."""

    def __init__(self) -> None:
        self._kept: dict[Any, Ordering] = {}                # the last one was used last
        self._lock = threading.Lock()

    def of(self, pattern: Any, method: Any, make: Callable[[], Ordering]) -> Ordering:
        """Return the ordering of a pattern on the host by a method with its options. ``make()`` computes it the first time."""
        lengths = np.diff(pattern.indptr).astype(np.int32)
        key = (method, pattern.n, pattern.diagonal, *(_core.fingerprint(a) for a in (lengths, pattern.indices)))
        with self._lock:
            found = self._kept.pop(key, None)
        result = make() if found is None else replace(found, report=Report(**found.report.facts))       # no time was spent
        with self._lock:
            self._kept[key] = result
            while sum(map(len, self._kept.values())) > MOST_ROWS:
                del self._kept[next(iter(self._kept))]
        return result

    def __len__(self):
        return len(self._kept)


_used: contextvars.ContextVar[Orderings | None] = contextvars.ContextVar("meshsolve_orderings", default=None)


@contextlib.contextmanager
def reusing(orderings: Orderings) -> Iterator[None]:
    """Use ``orderings`` for all patterns that are ordered in the block."""
    token = _used.set(orderings)
    try:
        yield
    finally:
        _used.reset(token)


def reused(pattern: Any, method: Any, make: Callable[[], Ordering]) -> Ordering:
    """Return ``make()``, or in a block of :func:`reusing` the equal ordering of an earlier call."""
    orderings = _used.get()
    return make() if orderings is None else orderings.of(pattern, method, make)
