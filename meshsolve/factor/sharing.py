"""Which calls may use a factor at the same time: any number of calls that read it, or one that changes it.

    @reads                                  # solve(), L, logdet(), a copy
    @changes                                # refactor()

The second of two calls that exclude each other raises :class:`FactorInUseError`, and the factor is unchanged. If it waited, it would
solve with one matrix or the other by chance. Cost: half a microsecond per call.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from meshsolve.errors import FactorInUseError

Method = TypeVar("Method", bound=Callable[..., Any])

_lock = threading.RLock()                   # for a few instructions, of all factors: none has one to be copied or forked with it
_forks = 0                                  # of the processes from the first one to this

REFACTORED = ("the factor is being refactored by another call, of another thread or around this one: call when that has returned, or give "
              "each thread a factor of its own, copy.copy(F)")
USED = ("another call, of another thread or around this one, is using the factor, which a refactorization changes: call when that has "
        "returned, or give each thread a factor of its own, copy.copy(F)")


class Sharing:
    """The calls that use a factor just now.

    Attributes
    ----------
    readers, writers : dict
        A key for each call, and how many forks ago of its process it began: a child has no threads to end what they began.
    """

    __slots__ = ("readers", "writers", "_turns", "_turns_of")

    def __init__(self):
        self.readers, self.writers = {}, {}
        self._turns, self._turns_of = None, -1

    def begin_to_change(self, call):
        """Note a call that changes the factor."""
        with _lock:
            if self.writers:
                raise FactorInUseError(REFACTORED)
            for other, forks in list(self.readers.items()):
                if forks == _forks:
                    raise FactorInUseError(USED)
                del self.readers[other]                             # of a thread that this process does not have
            self.writers[call] = _forks

    def turn(self):
        """A lock for what readers cannot do at once; calls inside calls pass it."""
        if self._turns_of != _forks:
            with _lock:
                if self._turns_of != _forks:
                    self._turns, self._turns_of = threading.RLock(), _forks
        return self._turns


def reads(method: Method) -> Method:
    """Decorate a method of a :class:`~meshsolve.factor.base.Factor` that many threads may call at once, unless another changes it."""
    @functools.wraps(method)
    def guarded(self, *args, **kwargs):
        sharing, call = self._sharing, object()
        try:                                                        # from before the call is noted: Ctrl-C may come right after
            with _lock:
                if sharing.writers:                                 # also of a parent: a child has what was half written
                    raise FactorInUseError(REFACTORED)
                sharing.readers[call] = _forks
            return method(self, *args, **kwargs)
        finally:
            sharing.readers.pop(call, None)
    return guarded                                                  # type: ignore[return-value]


def reads_in_turn(method: Method) -> Method:
    """As :func:`reads`, for methods that look at several parts of a factor, of which a solve may exchange all for better ones, or that
    work on a GPU."""
    @reads
    @functools.wraps(method)
    def guarded(self, *args, **kwargs):
        with self._sharing.turn():
            return method(self, *args, **kwargs)
    return guarded                                                  # type: ignore[return-value]


def changes(method: Method) -> Method:
    """Decorate a method during which no other call may use the factor."""
    @functools.wraps(method)
    def guarded(self, *args, **kwargs):
        sharing, call = self._sharing, object()
        try:
            sharing.begin_to_change(call)
            return method(self, *args, **kwargs)
        finally:
            sharing.writers.pop(call, None)
    return guarded                                                  # type: ignore[return-value]


def _count_fork():
    global _forks
    _forks += 1
    _lock.release()


if hasattr(os, "register_at_fork"):                                 # not on Windows, which has none
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_count_fork)
