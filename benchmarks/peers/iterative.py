"""Preconditioned conjugate gradients of other libraries: pyamg's two multigrids and ilupp's IC(0).

Each peer has ``setup(A)``, which is timed, and ``solve(b, rtol)``, which returns the solution and the iterations. They run on
one thread.
"""

from __future__ import annotations

import warnings

import scipy.sparse as sp
import scipy.sparse.linalg as spla

from benchmarks.peers.base import Unavailable

MAXITER = 3000


def counted_cg(A, b, M, rtol):
    """scipy's CG: the solution and the number of iterations."""
    steps = []
    x, _ = spla.cg(A, b, rtol=rtol, maxiter=MAXITER, M=M, callback=lambda _: steps.append(1))
    return x, len(steps)


class Multigrid:
    """pyamg's smoothed aggregation or classical Ruge-Stuben multigrid, symmetric Gauss-Seidel, as preconditioner of scipy's CG.

    pyamg's own CG stops on singular matrices if rounding makes a curvature negative.
    """

    def __init__(self, kind):
        try:
            import pyamg
        except ImportError as e:
            raise Unavailable(f"{e} (pip install pyamg)") from e
        self.pyamg, self.kind, self.A, self.M = pyamg, kind, None, None

    def version(self):
        return f"pyamg {self.pyamg.__version__}"

    def setup(self, A):
        make = self.pyamg.smoothed_aggregation_solver if self.kind == "sa" else self.pyamg.ruge_stuben_solver
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.A, self.M = A, make(sp.csr_matrix(A)).aspreconditioner()

    def solve(self, b, rtol):
        return counted_cg(self.A, b, self.M, rtol)


class IncompleteCholesky:
    """ilupp's IC(0) as preconditioner of scipy's CG; a singular Laplacian is shifted by 1e-10 of its diagonal in the factor."""

    def __init__(self):
        try:
            import ilupp
        except ImportError as e:
            raise Unavailable(f"{e} (pip install ilupp)") from e
        self.ilupp, self.A, self.M = ilupp, None, None

    def version(self):
        import importlib.metadata

        return f"ilupp {importlib.metadata.version('ilupp')}"

    def setup(self, A):
        self.A = A
        self.M = self.ilupp.IChol0Preconditioner(sp.csr_matrix(A + 1e-10 * sp.diags_array(A.diagonal())))

    def solve(self, b, rtol):
        return counted_cg(self.A, b, self.M, rtol)


class Parac:
    """The calls of a user: ``ms.parac`` and ``ms.cg``."""

    def __init__(self, threads=1, **options):
        import meshsolve

        self.ms, self.threads, self.options = meshsolve, threads, options
        self.A = self.P = None

    def version(self):
        return f"meshsolve {self.ms.__version__}"

    def setup(self, A):
        self.A, self.P = A, self.ms.parac(A, threads=self.threads, device="cpu", **self.options)

    def solve(self, b, rtol):
        x, info = self.ms.cg(self.A, b, M=self.P, rtol=rtol, maxiter=MAXITER, threads=self.threads)
        return x, info.iterations


ITERATIVE = {
    "pyamg-sa": lambda: Multigrid("sa"),
    "pyamg-rs": lambda: Multigrid("rs"),
    "ilupp-ic0": IncompleteCholesky,
}
