"""What solving with a matrix will cost, from its analysis alone: entries, operations, memory, and expected seconds.

Entries and operations are those of the symbolic analysis. Delayed pivots of an indefinite or unsymmetric matrix may add to them. The
seconds follow the model ``flops / rate + nnz(L) / rate``. Both rates are measured at the call: two small problems, a 2-D and a 3-D grid,
are factored by the same method on the same threads. Another matrix has fronts of other sizes, and other programs may run: the seconds
are an estimate, of the right magnitude.
"""

from __future__ import annotations

import functools
import time
from typing import NamedTuple

from meshsolve.options import thread_count
from meshsolve.report import Report

SIDES = {"lu, columns": (80, 12)}    # vertices along the 2-D and the 3-D grid that are factored to measure rates: 0.1 to 0.5 s in all
OTHER_SIDES = 150, 20               # the same for all other methods
REPEATS = 2                         # factorizations of each grid after the first; the fastest counts
BYTES = {"d": 12, "z": 20}          # bytes of an entry and its row number, engine "columns" of LU and incomplete factors


class Size(NamedTuple):
    """A factor that was analyzed but not made: its method, entries, operations, bytes, and the seconds of the analysis."""

    method: str
    nnz: int
    flops: float
    nbytes: int
    seconds: float


class Rates(NamedTuple):
    """Seconds per operation and per entry of a factorization, and per entry of a solve with one right-hand side."""

    flop: float
    entry: float
    solve: float

    def factor(self, size):
        """Expected seconds of the numeric phase."""
        return self.flop * size.flops + self.entry * size.nnz


# ---- sizes ------------------------------------------------------------------------------------------------------------------


def size_of_cholesky(sym):
    """Size of the Cholesky factor of a :class:`Symbolic`."""
    return Size("cholesky", int(sym.nnz), float(sym.flops), int(sym.nbytes), sum(sym.report.seconds.values()))


def size_of_ldlt(M, threads=None):
    """Size of the complete L D L^T of a symmetric :class:`Csr`, without delayed pivots."""
    from meshsolve.factor.ldlt.planning import complete_plan
    from meshsolve.factor.matching import symmetric_pairs

    threads, report, begin = thread_count(threads), Report(), time.perf_counter()
    plan = complete_plan(M, symmetric_pairs(M, threads=threads), "auto", report, threads)
    return Size("ldlt", int(plan.nnz), float(plan.flops), int(plan.symbolic.nbytes), time.perf_counter() - begin)


def size_of_lu(M, threads=None):
    """Size of the LU factors of a :class:`Csr` with the pivots of its matching.

    Raises
    ------
    SingularMatrixError
        A is structurally singular.
    """
    from meshsolve.factor.lu.analysis import matched_pivots

    begin = time.perf_counter()
    pivots = matched_pivots(M, "auto", "auto", Report(), thread_count(threads))
    spent, facts = time.perf_counter() - begin, pivots.facts
    doubles = 2 if M.data.dtype.kind == "c" else 1
    nbytes = 2 * pivots.analysis.symbolic.nbytes * doubles if pivots.engine == "fronts" else facts["nnz_L"] * BYTES["dz"[doubles - 1]]
    return Size(f"lu, {pivots.engine}", int(facts["nnz_L"]), float(facts["flops"]), int(nbytes), spent)


def size_of_parac(M, threads=None):
    """Size of a random factor of :func:`meshsolve.parac`: as many entries for each entry of A as on a 3-D grid. Not an analysis."""
    from meshsolve import api

    L = _grids("parac")[1][0]
    nnz = int(api.parac(L, threads=threads).nnz / L.nnz * M.nnz)
    return Size("parac", nnz, 0.0, nnz * BYTES["d"], 0.0)


# ---- rates ------------------------------------------------------------------------------------------------------------------


@functools.cache
def rates_of(method, threads=None):
    """Measure the :class:`Rates` of a method on this machine, with these threads; once in a process."""
    import numpy as np
    from scipy.optimize import nnls

    rows, seconds, solves = [], [], []
    for A, pin in _grids(method):
        begin = time.perf_counter()
        F = _factored(method, A, pin, threads)
        spent = [F.report.seconds.get("numeric", time.perf_counter() - begin)]
        for _ in range(REPEATS if hasattr(F, "refactor") else 0):
            before = F.report.seconds["numeric"]
            F.refactor(A if method == "cholesky" or not pin else _shifted(A))
            spent.append(F.report.seconds["numeric"] - before)
        rows.append([F.report.facts["flops"], F.nnz])
        seconds.append(min(spent))
        solves.append(_solve_seconds(F, A) / F.nnz)
    weight = 1 / np.array(seconds)                          # relative errors count
    flop, entry = nnls(np.array(rows, float) * weight[:, None], np.ones(len(rows)))[0]
    return Rates(float(flop), float(entry), float(np.mean(solves)))


def _grids(method):
    """The two problems, symmetric positive definite, and whether they are Laplacians."""
    from meshsolve import datasets

    flat, deep = SIDES.get(method, OTHER_SIDES)
    return [(datasets.grid2d(flat, flat, boundary="dirichlet"), False), (datasets.grid3d(deep), True)]


def _factored(method, A, pin, threads):
    from meshsolve import api

    name, _, engine = method.partition(", ")
    if name == "parac":
        return api.parac(A, threads=threads)
    if name == "cholesky":
        return api.cholesky(A, pin=pin, threads=threads, device="cpu")
    shifted = _shifted(A) if pin else A
    if name == "ldlt":
        return api.ildl(shifted, fill_level=None, threads=threads)
    return api.lu(shifted, engine=engine, threads=threads, device="cpu")


def _shifted(A):
    """A Laplacian with a larger diagonal, which is not singular."""
    import scipy.sparse as sp

    return A + 0.01 * A.diagonal().max() * sp.eye_array(A.shape[0], format="csr")


def _solve_seconds(F, A):
    """Seconds of one solve, the fastest of three."""
    b, best = A @ A.diagonal(), float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        F.solve(b) if hasattr(F, "solve") else F @ b
        best = min(best, time.perf_counter() - begin)
    return best
