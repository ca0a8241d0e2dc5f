"""Reports of a computation: seconds per phase, sizes, memory; warnings; progress while it runs.

A :class:`Report` belongs to one result (an ordering, a factor, a flow). ``with report.phase("order")`` adds the time of its block
to a phase. Progress of long native work goes to the callback of :func:`showing_progress`.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from meshsolve.errors import InvalidInputError

logger = logging.getLogger("meshsolve")
PHASES = ("read", "patches", "matching", "order", "symbolic", "assemble", "numeric")        # in the order of printing; others follow
SIZES = ("nnz_A", "nnz_L", "flops", "bytes")        # 0 if they have no meaning, as the operations of a randomized factor
REPEATED = ("assemble", "numeric", "solve")        # phases of each step of a flow
_suppressed: contextvars.ContextVar[tuple[type[Warning], ...]] = contextvars.ContextVar("meshsolve_suppressed", default=())
_collected: contextvars.ContextVar[list[tuple[type[Warning], str]] | None] = contextvars.ContextVar("meshsolve_collected", default=None)
_progress: contextvars.ContextVar[Any] = contextvars.ContextVar("meshsolve_progress", default=None)


class Report:
    """Seconds and sizes of one result; ``as_dict()`` gives a dict for JSON, ``str()`` a table.

    Attributes
    ----------
    seconds : dict of str to float
        Total wall-clock seconds per phase that occurred: ``patches``, ``order``, ``symbolic``, ``numeric``, ``solve`` and others.
    counts : dict of str to int
        Number of runs of each phase: ``seconds["numeric"] / counts["numeric"]`` is the time of a refactorization.
    facts : dict
        Sizes and choices: ``nnz_A``, ``nnz_L``, ``flops``, ``bytes``, ``threads``, ``device``, ``ordering`` and others.
    """

    def __init__(self, **facts: Any) -> None:
        self.seconds: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        self.facts: dict[str, Any] = {"nnz_A": 0, "nnz_L": 0, "flops": 0.0, "bytes": 0, "threads": 1, "device": "cpu", "ordering": None}
        self.facts.update(facts)

    def phase(self, name: str) -> _Phase:
        """Add the time of the ``with`` block to phase ``name``, and pass the name to the progress callback."""
        return _Phase(self, name)

    def add(self, name: str, seconds: float) -> None:
        """Add ``seconds`` and one run to phase ``name``."""
        self.seconds[name] = self.seconds.get(name, 0.0) + float(seconds)
        self.counts[name] = self.counts.get(name, 0) + 1

    def merge(self, other: Report) -> None:
        """Add the seconds of another report; its nonzero facts replace those of this one."""
        for name, seconds in other.seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            self.counts[name] = self.counts.get(name, 0) + other.counts.get(name, 1)
        self.facts.update({k: v for k, v in other.facts.items() if v})

    def as_dict(self) -> dict[str, Any]:
        """Plain dict for JSON: every fact, and the dict ``seconds``."""
        plain = {k: v.item() if hasattr(v, "item") else v for k, v in dict(self.facts).items()}
        return {"seconds": dict(self.seconds), **plain}

    def __getstate__(self):
        """Copies, each made in one step: other threads may add to the report at the same time."""
        return {"seconds": dict(self.seconds), "counts": dict(self.counts), "facts": dict(self.facts)}

    def __str__(self):
        facts, seconds, counts = dict(self.facts), dict(self.seconds), dict(self.counts)
        names = sorted(seconds, key=lambda name: PHASES.index(name) if name in PHASES else len(PHASES))
        shown, steps = _readable_time(sum(seconds.values())), facts.get("steps", 1)
        rows = []
        for name in names:
            count, note = counts.get(name, 1), ""
            if steps > 1 and name in REPEATED:
                note = f"  {shown(seconds[name] / steps)} a step"
            elif count > 1 and name in REPEATED:
                note = f"  {count:,} times, {shown(seconds[name] / count)} each"
            rows.append((name, shown(seconds[name]), note))
        rows += [(name, _readable(name, value), "") for name, value in facts.items() if value is not None and (name not in SIZES or value)]
        width = max(len(name) for name, _, _ in rows)
        return "\n".join(f"{name:<{width}}  {value:>14}{note}" for name, value, note in rows)

    def __repr__(self):
        total = sum(self.seconds.values())
        size = f", nnz_L={self.facts['nnz_L']}" if self.facts["nnz_L"] else ""
        return f"Report({', '.join(self.seconds)}: {total:.4f} s{size})"


def warn(message, category):
    """Warn with the line of the caller outside this package."""
    if issubclass(category, _suppressed.get()):
        return
    collected = _collected.get()
    if collected is not None:
        collected.append((category, message))
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "meshsolve":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextlib.contextmanager
def without_warnings(category):
    """Inside the ``with`` block :func:`warn` gives no warning of this category on this thread. Filters of Python's ``warnings``
    would affect all threads."""
    token = _suppressed.set((*_suppressed.get(), category))
    try:
        yield
    finally:
        _suppressed.reset(token)


@contextlib.contextmanager
def collected_warnings():
    """Inside the ``with`` block :func:`warn` appends (category, message) to the list that this returns, on this thread."""
    token = _collected.set([])
    try:
        yield _collected.get()
    finally:
        _collected.reset(token)


def announce(name):
    """Report to the progress callback that phase ``name`` begins."""
    listener = _progress.get()
    if listener:
        listener.begin(name)


def count(done, total):
    """Report the progress of native work to the callback. The core calls this on the thread that called the core."""
    listener = _progress.get()
    if listener:
        listener.count(done, total)


@contextlib.contextmanager
def progress_to(listener):
    """Inside the ``with`` block work of this thread calls ``listener.begin(phase)`` and ``listener.count(done, total)``; None: no
    calls.

    An exception that they raise ends the work.
    """
    token = _progress.set(listener)
    try:
        yield
    finally:
        _progress.reset(token)


@contextlib.contextmanager
def showing_progress(callback: Callable[[str, int, int], object]) -> Iterator[None]:
    """Call ``callback(phase, done, total)`` while long work runs inside the ``with`` block; total 0 means unknown.

    The callback runs on the calling thread, at most about every 50 ms, for the work of this thread alone. An exception that it
    raises ends that work and is passed to the caller.
    """
    if not callable(callback):
        raise InvalidInputError(f"callback must be a function of (phase, done, total), got {callback!r}")
    with progress_to(_Listener(callback)):
        yield


class _Phase:
    """The ``with`` block of :meth:`Report.phase`; a class is faster than a generator, and small solves take microseconds."""

    __slots__ = ("_report", "_name", "_start")

    def __init__(self, report: Report, name: str) -> None:
        self._report, self._name = report, name

    def __enter__(self) -> Report:
        announce(self._name)
        self._start = time.perf_counter()
        return self._report

    def __exit__(self, *error: object) -> None:
        spent, name, report = time.perf_counter() - self._start, self._name, self._report
        report.seconds[name] = report.seconds.get(name, 0.0) + spent
        report.counts[name] = report.counts.get(name, 0) + 1
        logger.debug("%s: %.6f s", name, spent)


def _readable_time(total):
    """Return a function that formats seconds, in one unit for all phases of ``total`` seconds."""
    return (lambda seconds: f"{1e3 * seconds:.3f} ms") if total < 1 else (lambda seconds: f"{seconds:.4f} s")


def _readable(name, value):
    if name == "bytes":
        return f"{value / 2**20:.1f} MiB" if value >= 2**20 else f"{value / 2**10:.1f} KiB"
    if name == "flops":
        return f"{value:.4g}"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list) and all(isinstance(v, float) for v in value):
        return ", ".join(f"{v:.6g}" for v in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


class _Listener:
    """Combines the phase, which Python reports, with the counts, which the C++ core reports."""

    def __init__(self, callback):
        self.callback, self.phase = callback, "work"

    def begin(self, phase):
        self.phase = phase
        self.callback(phase, 0, 0)

    def count(self, done, total):
        if total:
            self.callback(self.phase, done, total)
