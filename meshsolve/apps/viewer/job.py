"""An action in a thread of its own, with progress and cancel, so that the window keeps drawing.

Progress and cancel use the callback of :func:`meshsolve.report.showing_progress`: an exception that it raises ends the work.
"""

from __future__ import annotations

import threading
import time
import warnings

from meshsolve.errors import MeshsolveError
from meshsolve.report import showing_progress


class Canceled(KeyboardInterrupt):
    """Ends the work of a job. It takes the way of Ctrl-C through the library."""


class Job:
    """A call ``work()`` in a thread.

    Parameters
    ----------
    name : str
        What is shown while the job runs.
    work : function without arguments

    Attributes
    ----------
    phase : str
        Phase of the solver that runs now, or empty.
    share : float from 0 to 1
        Progress within the phase; 0 while it is unknown.
    result
        What ``work`` returned, or None.
    error : str
        Why the job failed, in one line; empty after a success.
    warnings : str
        Warnings of the library, joined.
    """

    def __init__(self, name, work):
        self.name, self.phase, self.share = name, "", 0.0
        self.result, self.error, self.warnings = None, "", ""
        self._work, self._canceled, self._began = work, threading.Event(), time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"meshsolve {name}", daemon=True)
        self._thread.start()

    def cancel(self):
        """End the work at its next report of progress, which native work makes about every 50 ms."""
        self._canceled.set()

    @property
    def is_canceled(self):
        """True after :meth:`cancel`."""
        return self._canceled.is_set()

    @property
    def is_running(self):
        return self._thread.is_alive()

    @property
    def seconds(self):
        """Seconds since the start."""
        return time.monotonic() - self._began

    def wait(self, seconds=None):
        """Wait for the end, at most ``seconds``. Returns True if the job has ended."""
        self._thread.join(seconds)
        return not self.is_running

    def _run(self):
        def listening():
            with showing_progress(self._listen):
                return self._work()

        self.result, self.error, self.warnings = outcome(self.name, listening)

    def _listen(self, phase, done, total):
        self.phase, self.share = phase, min(done / total, 1.0) if total else 0.0
        if self.is_canceled:
            raise Canceled


def outcome(name, work):
    """Call ``work()`` and return its result, the error in one line or an empty text, and the warnings in one line."""
    result, error = None, ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = work()
        except Canceled:
            error = f"{name}: canceled, nothing has changed"
        except MemoryError:
            error = f"{name}: not enough memory"
        except (MeshsolveError, OSError) as e:
            error = " ".join(str(e).split())
        except Exception as e:                              # a bug must not close the window and lose the user's work
            error = f"{type(e).__name__}: {' '.join(str(e).split())}"
    return result, error, "; ".join(dict.fromkeys(str(w.message) for w in caught))
