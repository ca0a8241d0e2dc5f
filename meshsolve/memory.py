"""Available memory, checked before large allocations: the free memory of the system, and the limits of a container.

The kernel kills a process without a message if it exceeds the limit of its control group, even if the machine has free memory.
Sources: Linux kernel documentation, "Control Group v2" (memory.max, memory.current), "Memory Resource Controller" (version 1).
"""

from __future__ import annotations

import pathlib

from meshsolve.errors import OutOfMemoryError

NEGLIGIBLE = 2**25                                 # bytes below which memory is not checked: Python itself uses more
POINTER = 8                                        # bytes of a row pointer
PER_ROW = {"cholesky": 130, "ildl": 180, "lu": 70, "parac": 110, "cg": 50, "pattern": 16}  # least bytes per row: lists or vectors
UNLIMITED = 2**60                                  # bytes from which a limit of version 1 means none: a number near 2^63
MEMINFO, OWN_GROUPS = pathlib.Path("/proc/meminfo"), pathlib.Path("/proc/self/cgroup")
GROUPS = pathlib.Path("/sys/fs/cgroup")
FILES = {2: ("memory.max", "memory.current", "inactive_file"),
         1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")}


def ensure_memory(needed, what):
    """Raise :class:`~meshsolve.errors.OutOfMemoryError` if ``needed`` bytes are not available to this process."""
    if needed < NEGLIGIBLE:
        return
    available = available_memory()
    if available is not None and needed > available:
        raise OutOfMemoryError(f"{what} takes {needed / 2**30:.2f} GiB, {available / 2**30:.2f} GiB are available")


def ensure_rows(A, name, per_row=0):
    """:func:`ensure_memory` for the compressed rows of a sparse matrix, and ``per_row`` bytes more for each row."""
    rows = A.shape[0]
    ensure_memory((per_row + (0 if A.format == "csr" else POINTER)) * rows, f"{name} with its {rows:,} rows")


def available_memory():
    """Bytes that can be used without swapping and within the limits of all control groups; None if unknown."""
    known = [_field(MEMINFO, "MemAvailable:", 1024), *_left_to_groups()]
    return min((left for left in known if left is not None), default=None)


def _left_to_groups():
    """Bytes left in each control group of this process and in its ancestors. Inactive file pages count as free: the kernel drops
    them before it kills a process."""
    for folder, (most, used, idle) in _own_groups():
        limit = _number(folder / most)
        now = None if limit is None or limit >= UNLIMITED else _number(folder / used)
        if now is not None:
            yield max(limit - now + (_field(folder / "memory.stat", idle) or 0), 0)


def _own_groups():
    for line in _lines(OWN_GROUPS):
        controllers, path = line.strip().split(":", 2)[1:]
        if controllers and "memory" not in controllers.split(","):
            continue
        root = GROUPS / "memory" if controllers else GROUPS
        folder = root / path.lstrip("/")
        while True:
            yield folder, FILES[1 if controllers else 2]
            if folder == root:
                break
            folder = folder.parent


def _field(file, name, unit=1):
    """The number after ``name`` in a file of "name number" lines."""
    return next((int(line.split()[1]) * unit for line in _lines(file) if line.split()[:1] == [name]), None)


def _number(file):
    """The number in a file; None for "max", and if the file does not exist."""
    text = "".join(_lines(file)).strip()
    return int(text) if text.isdigit() else None


def _lines(file):
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
