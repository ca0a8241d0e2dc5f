"""meshsolve behind the interface of its peers; threads by ``MESHSOLVE_NUM_THREADS``."""

from __future__ import annotations

from benchmarks.peers.base import Solver, Unavailable


class Meshsolve(Solver):
    """The calls of a user: ``ms.cholesky``, ``F.solve``, ``F.refactor``, with the scipy matrix."""

    def __init__(self, perm=None):
        super().__init__(perm)
        try:
            import meshsolve

            self.ms, self.cholesky = meshsolve, meshsolve.cholesky
        except (ImportError, AttributeError) as e:
            raise Unavailable(str(e)) from e

    def version(self):
        return f"meshsolve {self.ms.__version__}"

    def rhs(self, B):
        return B

    def first(self, M, watch):
        with watch.phase("cholesky"):
            self.F = self.cholesky(M, device="cpu")

    def refactor(self, M):
        self.F.refactor(M)

    def solve(self, B):
        return self.F.solve(B)

    def facts(self):
        return {"nnz_L": int(self.F.nnz), "flops": float(self.F.flops), "report": self.F.report.as_dict()}


class MeshsolveGiven(Meshsolve):
    """The same with a given permutation and the phases called one by one."""

    first = Solver.first

    def analyze(self, M):
        self.symbolic = self.ms.analyze(M, ordering="natural" if self.perm is None else self.perm)

    def factor(self, M):
        self.F = self.symbolic.factor(M)
