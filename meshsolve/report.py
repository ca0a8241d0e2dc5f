"""What a piece of work did: seconds per phase, sizes, memory; progress while it runs.

A :class:`Report` belongs to one result (an ordering, a factor, a flow). Phases are timed with ``with report.phase("order")``
and add up when they occur again. Progress of long native work goes to the callable given to :func:`showing_progress`.
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
PHASES = ("read", "patches", "matching", "order", "symbolic", "assemble", "numeric")        # told in this order, others behind them
SIZES = ("nnz_A", "nnz_L", "flops", "bytes")        # 0 where they have no meaning, as the operations of a factor that is drawn
REPEATED = ("assemble", "numeric", "solve")        # phases that a flow runs at each step
_kept_quiet: contextvars.ContextVar[tuple[type[Warning], ...]] = contextvars.ContextVar("meshsolve_kept_quiet", default=())
_progress: contextvars.ContextVar[Any] = contextvars.ContextVar("meshsolve_progress", default=None)


class Report:
    """Seconds and sizes of one result; ``as_dict()`` for machines, ``str()`` for people.

    Attributes
    ----------
    seconds : dict of str to float
        Wall-clock seconds per phase: ``patches``, ``order``, ``symbolic``, ``numeric``, ``solve`` as they occur, added up.
    counts : dict of str to int
        How often each phase ran: ``seconds["numeric"] / counts["numeric"]`` is the time of a refactorization.
    facts : dict
        Sizes and choices: ``nnz_A``, ``nnz_L``, ``flops``, ``bytes``, ``threads``, ``device``, ``ordering`` and others.
    """

    def __init__(self, **facts: Any) -> None:
        self.seconds: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        self.facts: dict[str, Any] = {"nnz_A": 0, "nnz_L": 0, "flops": 0.0, "bytes": 0, "threads": 1, "device": "cpu", "ordering": None}
        self.facts.update(facts)

    def phase(self, name: str) -> _Phase:
        """Add the time of the ``with`` block to phase ``name`` and tell the progress callable of it."""
        return _Phase(self, name)

    def add(self, name: str, seconds: float) -> None:
        """Add ``seconds`` to phase ``name``, which has run once more."""
        self.seconds[name] = self.seconds.get(name, 0.0) + float(seconds)
        self.counts[name] = self.counts.get(name, 0) + 1

    def merge(self, other: Report) -> None:
        """Take over another report: its seconds are added, its facts win."""
        for name, seconds in other.seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            self.counts[name] = self.counts.get(name, 0) + other.counts.get(name, 1)
        self.facts.update({k: v for k, v in other.facts.items() if v})

    def as_dict(self) -> dict[str, Any]:
        """Plain dict for JSON: ``seconds`` (a dict) beside every fact."""
        plain = {k: v.item() if hasattr(v, "item") else v for k, v in dict(self.facts).items()}
        return {"seconds": dict(self.seconds), **plain}

    def __getstate__(self):
        """Copies, each made at once: threads that solve may add to what is told meanwhile."""
        return {"seconds": dict(self.seconds), "counts": dict(self.counts), "facts": dict(self.facts)}

    def __str__(self):
        facts, seconds, counts = dict(self.facts), dict(self.seconds), dict(self.counts)
        names = sorted(seconds, key=lambda name: PHASES.index(name) if name in PHASES else len(PHASES))
        told, steps = _readable_time(sum(seconds.values())), facts.get("steps", 1)
        rows = []
        for name in names:
            count, note = counts.get(name, 1), ""
            if steps > 1 and name in REPEATED:
                note = f"  {told(seconds[name] / steps)} a step"
            elif count > 1 and name in REPEATED:
                note = f"  {count:,} times, {told(seconds[name] / count)} each"
            rows.append((name, told(seconds[name]), note))
        rows += [(name, _readable(name, value), "") for name, value in facts.items() if value is not None and (name not in SIZES or value)]
        width = max(len(name) for name, _, _ in rows)
        return "\n".join(f"{name:<{width}}  {value:>14}{note}" for name, value, note in rows)

    def __repr__(self):
        total = sum(self.seconds.values())
        size = f", nnz_L={self.facts['nnz_L']}" if self.facts["nnz_L"] else ""
        return f"Report({', '.join(self.seconds)}: {total:.4f} s{size})"


class _Phase:
    """The ``with`` block of :meth:`Report.phase`; a class, because small solves run thousands of times a second."""

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
    """How seconds are told where all are ``total`` together: the same unit for each phase."""
    return (lambda seconds: f"{1e3 * seconds:.3f} ms") if total < 1 else (lambda seconds: f"{seconds:.4f} s")


def _readable(name, value):
    if name == "bytes":
        return f"{value / 2**20:.1f} MiB" if value >= 2**20 else f"{value / 2**10:.1f} KiB"
    if name == "flops":
        return f"{value:.4g}"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def warn(message, category):
    """Warn at the line outside this package from which it was called, however deep in it the reason was found."""
    if issubclass(category, _kept_quiet.get()):
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "meshsolve":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextlib.contextmanager
def without_warnings(category):
    """Inside the ``with`` block :func:`warn` says nothing of this category, on this thread: the caller tells of it himself. The filters of
    Python's warnings belong to all threads."""
    token = _kept_quiet.set((*_kept_quiet.get(), category))
    try:
        yield
    finally:
        _kept_quiet.reset(token)


def announce(name):
    """Tell the progress callable that phase ``name`` begins."""
    teller = _progress.get()
    if teller:
        teller.begin(name)


def count(done, total):
    """Tell the progress callable how far native work is. The core calls this, on the thread that called the core."""
    teller = _progress.get()
    if teller:
        teller.count(done, total)


@contextlib.contextmanager
def telling(teller):
    """Inside the ``with`` block work of this thread calls ``teller.begin(phase)`` and ``teller.count(done, total)``; None is told nothing.

    What they raise ends the work.
    """
    token = _progress.set(teller)
    try:
        yield
    finally:
        _progress.reset(token)


@contextlib.contextmanager
def showing_progress(tell: Callable[[str, int, int], object]) -> Iterator[None]:
    """Call ``tell(phase, done, total)`` while long work runs inside the ``with`` block; total 0 means unknown.

    The callable runs on the calling thread, at most about every 50 ms, and is told of the work of this thread alone. An
    exception that it raises ends that work and comes out of the call.
    """
    if not callable(tell):
        raise InvalidInputError(f"tell has to be a function of (phase, done, total), not {tell!r}")
    with telling(_Teller(tell)):
        yield


class _Teller:
    """Passes on what Python knows, the phase, with what the C++ core knows, the counts."""

    def __init__(self, tell):
        self.tell, self.phase = tell, "work"

    def begin(self, phase):
        self.phase = phase
        self.tell(phase, 0, 0)

    def count(self, done, total):
        if total:
            self.tell(self.phase, done, total)
