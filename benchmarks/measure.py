"""Timing, peak memory, the description of the machine, and the JSON file of a run.

Wall-clock and CPU seconds are both recorded. CPU seconds of one-thread runs are valid on a shared machine. Wall-clock
seconds are the time of a user and the only fair measure for several threads.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import math
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time

RESULTS = pathlib.Path(__file__).parent / "results"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "IGL_NUM_THREADS", "MESHSOLVE_NUM_THREADS")
STOLEN = 0.02                   # share of a round's time above which stolen CPU time invalidates the round
LIBRARIES = ("meshsolve", "numpy", "scipy", "libigl", "pymetis", "pypardiso", "mkl", "cholespy", "potpourri3d", "osqp", "torch")


class Stopwatch:
    """Wall and CPU seconds of named phases, in the order in which they ran."""

    def __init__(self):
        self.wall, self.cpu = {}, {}

    @contextlib.contextmanager
    def phase(self, name):
        """Time the ``with`` block; CPU seconds count all threads of the process."""
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.wall[name], self.cpu[name] = time.perf_counter() - wall, time.process_time() - cpu

    def as_dict(self):
        """Plain dict for JSON."""
        return {"wall": self.wall, "cpu": self.cpu}


def summary(values):
    """Median, minimum, quartiles and number of repeated measurements."""
    values = sorted(float(v) for v in values)
    if not values:
        raise ValueError("nothing was measured")
    q1, _, q3 = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": statistics.median(values), "min": values[0], "q1": q1, "q3": q3, "runs": len(values)}


def interleave(tasks, repeat):
    """Run the callables of ``tasks`` round by round, A B A B, so that a disturbance hits all of them. A round during which the host of
    a virtual machine gave its cores to others is run again, up to as many times as there are rounds.

    Returns the last results and the :class:`Stopwatch` readings ``{name: {"wall": [...], "cpu": [...]}}``.
    """
    results, rounds, disturbed = {}, [], []
    while len(rounds) < repeat and len(rounds) + len(disturbed) < 2 * repeat:
        watch, stolen, begin = Stopwatch(), stolen_seconds(), time.perf_counter()
        for name, task in tasks.items():
            with watch.phase(name):
                results[name] = task()
        lost = stolen_seconds() - stolen > STOLEN * (time.perf_counter() - begin)
        (disturbed if lost else rounds).append(watch)
    rounds += disturbed[:repeat - len(rounds)]
    return results, {name: {"wall": [watch.wall[name] for watch in rounds], "cpu": [watch.cpu[name] for watch in rounds]} for name in tasks}


def stolen_seconds():
    """Stolen CPU seconds since this machine started, or 0 if the system does not report them."""
    try:
        counts = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
        return int(counts[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


def clock_for(threads, clock):
    """The clock of a comparison: CPU seconds if requested, but always wall-clock seconds for several threads."""
    return clock if threads == 1 else "wall"


def geometric_mean(values):
    """Geometric mean of positive numbers; NaN for an empty list."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


class PeakMemory:
    """Peak growth of the process, in bytes, since this object was made.

    Linux: the kernel's high-water mark of the resident set (VmHWM) is reset first, so that freed memory does not hide the peak.
    On other systems, or if the mark cannot be reset (``reset`` is false), the peak of the whole process is used, which may be too
    large.
    """

    def __init__(self):
        try:
            self.reset = pathlib.Path("/proc/self/clear_refs").write_text("5") > 0
        except OSError:
            self.reset = False
        self.before = _status("VmRSS") or self._peak()

    def grown(self):
        """Peak minus the resident set at the start."""
        return max(self._peak() - self.before, 0)

    @staticmethod
    def _peak():
        return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _status(field):
    try:
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":")), 0)


def thread_environment(threads):
    """The environment of a process in which every library uses ``threads`` threads."""
    return {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), "MKL_DYNAMIC": "FALSE"}


def child(module, task, threads, limit):
    """The dict that ``python -m module`` prints for a task, given as JSON on its standard input.

    Returns ``{"failed": reason}`` if it crashes, with ``stopped`` if it takes longer than ``limit`` seconds.
    """
    try:
        done = subprocess.run([sys.executable, "-m", module], input=json.dumps(task), text=True, capture_output=True,
                              cwd=pathlib.Path(__file__).parents[1], env=thread_environment(threads), timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"no result after {limit:g} s", "stopped": limit}
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return {"failed": reason[0]}
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def library_threads(threads):
    """Let meshsolve use ``threads`` threads by default inside the ``with`` block."""
    before = os.environ.get("MESHSOLVE_NUM_THREADS")
    os.environ["MESHSOLVE_NUM_THREADS"] = str(threads)
    try:
        yield
    finally:
        del os.environ["MESHSOLVE_NUM_THREADS"]
        if before is not None:
            os.environ["MESHSOLVE_NUM_THREADS"] = before


def machine():
    """Processor, its widest vectors, cores this process may use, memory, frequency governor, load when the run began."""
    return {"cpu": _cpuinfo("model name") or platform.processor(), "vectors": _vectors(_cpuinfo("flags")),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"), "system": platform.platform(),
            "load": os.getloadavg()[0]}


def _cpuinfo(field):
    lines = (_read("/proc/cpuinfo") or "").splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith(field)), "")


def _vectors(flags):
    """The widest vectors on x86, which determine the speed of dense kernels. Processors of one name differ in them."""
    return next((name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags.split()), None)


def _read(path):
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return None


def versions():
    """Versions of Python and of the libraries that are installed."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def git_hash():
    """Commit of this checkout, with ``-dirty`` if files differ from it; None outside a repository."""
    try:
        done = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=pathlib.Path(__file__).parent,
                              capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def dgemm_rate():
    """Gflop/s of scipy's dgemm on matrices of 512 columns, one thread, the best of 50: the speed of a core."""
    source = ("import time, numpy as np; from scipy.linalg.blas import dgemm; A = np.asfortranarray(np.random.rand(512, 512))\n"
              "def once():\n t = time.process_time(); dgemm(1.0, A, A); return time.process_time() - t\n"
              "print(2 * 512 ** 3 / min(once() for _ in range(50)) / 1e9)")
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, env=thread_environment(1), check=True)
    return float(done.stdout)


def describe(bench, threads, clock):
    """The header of every result, taken before the first measurement."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"bench": bench, "date": now, "git": git_hash(), "command": sys.argv[1:], "threads": threads, "clock": clock,
            "machine": machine(), "versions": versions()}


def write_json(run, out=None):
    """Write a result to ``out`` or to ``results/<bench>-<date>-<threads>t.json``, whole or not at all; returns the path."""
    name = f"{run['bench']}-{run['date'][:10]}-{'-'.join(map(str, run['threads']))}t.json"
    path = pathlib.Path(out) if out else RESULTS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps(run, indent=1) + "\n")
    os.replace(scratch, path)
    return path
