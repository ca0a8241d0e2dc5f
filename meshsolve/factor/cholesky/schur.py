"""Schur complements by a multifrontal factorization that stops before the last front.

    S = schur_complement(A, rows);  x_K = numpy.linalg.solve(S.matrix, S.reduce(b));  x = S.expand(b, x_K)

The kept rows K are ordered last and form one dense front. All other rows are eliminated; the last front is assembled but not factored,
and is the Schur complement. The forward half of a solve reduces a right-hand side, the backward half expands a solution.

Sources: Duff, Reid 1983, "The multifrontal solution of indefinite sparse symmetric linear systems"; Liu 1992 (fronts).
"""

from __future__ import annotations

import numpy as np

from meshsolve.factor.cholesky.host import HostFactor
from meshsolve.factor.cholesky.numeric import Definite
from meshsolve.factor.schur import Condensed
from meshsolve.factor.sharing import changes
from meshsolve.options import thread_count
from meshsolve.report import Report
from meshsolve.types import Matrix


class SchurComplement(Condensed, Definite):
    """The Schur complement of a symmetric matrix A on rows K, when the others, I, are eliminated.

    Made by :func:`meshsolve.schur_complement`. Solving ``S.matrix @ x_K = S.reduce(b)`` and then ``x = S.expand(b, x_K)`` solves
    A x = b. With ``device="cuda"`` it lies on the GPU, and so does :attr:`matrix`. Several threads may use it at once, except during
    :meth:`refactor`, when other calls raise ``FactorInUseError``. It can be pickled and copied; the copy repeats the numeric phase.

    Attributes
    ----------
    n : int
        Rows of A.
    rows : (k,) int32
        The kept rows K, in the order of :attr:`matrix`.
    perm : (n,) int32
        ``perm[j]`` is the row of A that is eliminated j-th; the last k are :attr:`rows`.
    nnz : int
        Nonzeros of the factor of A_II, of its rows in K, and of one triangle of the Schur complement.
    flops : float
        Sum of the squared column counts of the eliminated columns.
    trial : float
        Error of known solutions with A_II, as that of a :class:`CholeskyFactor`.
    report : Report
        Seconds per phase (``order``, ``symbolic``, ``numeric``, ``solve``), sizes, bytes.
    """

    precision = "double"
    _checks_late = True
    _block = "the block of A without rows"

    def __init__(self, symbolic, values, data, *, threads=None, engine=HostFactor):
        """``symbolic`` has the kept rows as its boundary. ``data`` are the values of A in its pattern; ``values`` gathers those of later
        matrices. ``engine``: class of the factor, `HostFactor` or `SchurFactor`."""
        super().__init__(values.n, np.float64)
        self.symbolic, self.threads, self._values, self._place = symbolic, thread_count(threads), values, values.place.name
        self.report = Report(threads=self.threads, nnz_A=values.nnz, nnz_L=symbolic.nnz, flops=symbolic.flops, rows=symbolic.boundary)
        self.report.merge(symbolic.report)
        self.report.facts.update(threads=self.threads, device=self._place)
        with self._errors("the Schur complement"):
            self._begin(engine)
            self._run(data)
            self.trial = self._try(data) if self._factor.may_be_singular() else 0.0

    @changes
    def refactor(self, A: Matrix) -> SchurComplement:
        """Compute the Schur complement of another matrix inside the analyzed pattern. Only the numeric phase runs.

        Parameters
        ----------
        A : (n, n) symmetric matrix of any kind
            Entries of the analyzed pattern that A lacks are zeros. With ``lower=True`` only the lower triangle is read.

        Returns
        -------
        SchurComplement
            This one.

        Raises
        ------
        PatternMismatchError
            A has an entry outside the analyzed pattern.
        NotPositiveDefiniteError
            A pivot of A_II is not positive. After any error the earlier result is restored, with the same bits.
        FactorInUseError
            Another call uses this.
        OutOfMemoryError
            If there is not even memory to restore the earlier result, it is lost, and all calls raise this until the next refactorization.
        """
        with self._errors("the Schur complement"):
            if not self._run_again(A):
                self._run(self._values.of(A))
        return self

    @property
    def rows(self) -> np.ndarray:
        return self.perm[-self.symbolic.boundary:]

    @property
    def perm(self) -> np.ndarray:
        return self.symbolic.perm

    @property
    def nnz(self) -> int:
        return self.symbolic.nnz

    @property
    def flops(self) -> float:
        return self.symbolic.flops

    @property
    def nbytes(self) -> int:
        """Bytes of the factor."""
        return self._factor.nbytes

    def __repr__(self):
        return f"SchurComplement(n={self.n}, rows={len(self.rows)}, nnz={self.nnz}, ordering={self.report.facts['ordering']!r})"

    def _dense(self):
        return self._factor.boundary_block()

    def _reduced(self, columns):
        return self._factor.reduce(columns)

    def _expanded(self, columns, x_K):
        return self._factor.expand(columns, x_K)

    def _solve_free(self, columns):
        return self._factor.expand(columns, self._values.place.xp.zeros((len(self.rows), columns.shape[1])))

    def _remedy(self, position, data):
        return "add a row of that component to rows (for an elastic body three unknowns, in space six), or a mass term"

    def _causes(self, failed, diagonal, data):
        if diagonal > 0:
            return ("it is indefinite, or singular because rows has too few unknowns of an elastic body. Add rows that make it so; A and "
                    "the Schur complement may be indefinite")
        if diagonal == 0:
            return "its diagonal entry is zero or missing (an isolated vertex or a multiplier). Add that row to rows"
        return "its diagonal entry is negative. Add that row to rows, or pass -A if that is definite"
