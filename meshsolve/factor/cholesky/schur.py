"""Schur complements by a multifrontal factorization that stops before the last front.

    S = schur_complement(A, rows);  x_K = numpy.linalg.solve(S.matrix, S.reduce(b));  x = S.expand(b, x_K)

The rows K that are kept come last, as one dense front. All others are eliminated into it; it is assembled and left as it is: its block
is the Schur complement. Half a solve, up to it, reduces a right-hand side; the other half, down from it, expands a solution.

Sources: Duff, Reid 1983, "The multifrontal solution of indefinite sparse symmetric linear systems"; for the fronts themselves Liu 1992.
"""

from __future__ import annotations

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.factor.cholesky.host import HostFactor
from meshsolve.factor.cholesky.numeric import Definite
from meshsolve.factor.sharing import changes, reads
from meshsolve.foreign import is_sparse
from meshsolve.options import thread_count
from meshsolve.report import Report
from meshsolve.sparse.columns import as_array, as_rhs
from meshsolve.sparse.constraints import parts_of_values
from meshsolve.sparse.sparse_rhs import solve_sparse
from meshsolve.types import Array, ArrayLike, Matrix


class SchurComplement(Definite):
    """What is left of a symmetric matrix A on some of its rows K when the others, I, are eliminated.

    Made by :func:`meshsolve.schur_complement`. Solving ``S.matrix @ x_K = S.reduce(b)`` and then ``x = S.expand(b, x_K)`` solves
    A x = b. Several threads may use it at once, but for :meth:`refactor`, beside which ``FactorInUseError`` is raised. It can be pickled
    and copied, which costs a numeric phase at the other end.

    Attributes
    ----------
    n : int
        Rows of A.
    rows : (k,) int32
        The rows K that are kept, in the order of :attr:`matrix`.
    perm : (n,) int32
        ``perm[j]`` is the row of A that is eliminated j-th; the last k are :attr:`rows`.
    nnz : int
        Nonzeros of the factor of A_II, of its rows in K, and of one triangle of the Schur complement.
    flops : float
        Sum of the squared column counts of what is eliminated.
    trial : float
        As that of a :class:`CholeskyFactor`, for A_II.
    report : Report
        Seconds per phase (``order``, ``symbolic``, ``numeric``, ``solve``), sizes, bytes.
    """

    precision = "double"
    _block = "the block of A without rows"

    def __init__(self, symbolic, values, data, *, threads=None):
        """``symbolic`` has the rows that are kept as its boundary; ``data`` are the values of A in its pattern, ``values`` brings those of
        later matrices there."""
        super().__init__(values.n, np.float64)
        self.symbolic, self.threads, self._values = symbolic, thread_count(threads), values
        self.report = Report(threads=self.threads, nnz_A=values.nnz, nnz_L=symbolic.nnz, flops=symbolic.flops, rows=symbolic.boundary)
        self.report.merge(symbolic.report)
        self.report.facts["threads"] = self.threads
        self._begin(HostFactor)
        self._run(data)
        self.trial = self._try(data) if self._factor.may_be_singular() else 0.0

    @changes
    def refactor(self, A: Matrix) -> SchurComplement:
        """Make this the Schur complement of another matrix inside the analysed pattern; the numeric phase alone runs.

        Parameters
        ----------
        A : (n, n) symmetric matrix of any kind
            Entries of the analysed pattern that it lacks are zeros. Its lower triangle alone is read where this was made with
            ``lower=True``.

        Returns
        -------
        SchurComplement
            This one.

        Raises
        ------
        PatternMismatchError
            A has an entry outside the analysed pattern.
        NotPositiveDefiniteError
            A pivot of A_II is not positive. After any error the earlier result is still there, with the same bits.
        FactorInUseError
            Another call uses this at this time.
        OutOfMemoryError
            Where there is no memory even to bring that back, it is lost, and all calls say so until the next refactorization.
        """
        self._run(self._values.of(A))
        return self

    @property
    @reads
    def matrix(self) -> np.ndarray:
        """The Schur complement A_KK - A_KI A_II^-1 A_IK as a dense (k, k) float64 array, exactly symmetric, in the order of
        :attr:`rows`. O(k^2), a new array at each call."""
        return self._factor.boundary_block()

    @reads
    def reduce(self, b: ArrayLike) -> Array:
        """The right-hand side for the rows that are kept: b_K - A_KI A_II^-1 b_I.

        Parameters
        ----------
        b : (n,) or (n, m), real or complex

        Returns
        -------
        (k,) or (k, m) array, in the order of :attr:`rows`
            float32 or complex64 where b is, else float64 or complex128; where b lies.

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text.
        FactorInUseError
            Another call is refactoring this.

        Notes
        -----
        Half the time of a solve.
        """
        with self.report.phase("solve"):
            return self._solve_like(b, None, self._factor.reduce, self.n)

    @reads
    def expand(self, b: ArrayLike, x_K: ArrayLike) -> Array:
        """The whole solution from its values at the rows that are kept: A_II x_I = b_I - A_IK x_K.

        Parameters
        ----------
        b : (n,) or (n, m), real or complex
            Its rows K are not looked at, but that they have to be finite.
        x_K : (k,) or (k, m), real or complex
            In the order of :attr:`rows`; as many columns as b.

        Returns
        -------
        (n,) or (n, m) array
            x, with ``x[rows] == x_K``. float32 or complex64 where b is, else float64 (complex128 where b or x_K is complex).

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text.
        FactorInUseError
            Another call is refactoring this.

        Notes
        -----
        The time of a solve.
        """
        if is_sparse(b):
            return solve_sparse(b, self.n, lambda B: self.expand(B, x_K), at_once=True)
        b, given, imaginary = parts_of_values(b, as_array(x_K, "x_K"))
        given, shape = as_rhs(given, len(self.rows), "x_K")
        imaginary = np.zeros_like(given) if imaginary is None else as_rhs(imaginary, len(self.rows), "x_K")[0]
        with self.report.phase("solve"):
            return self._solve_like(b, None, lambda B: self._expand(B, given, shape), self.n, lambda B: self._expand(B, imaginary, shape))

    def _expand(self, columns, given, shape):
        if given.shape[1] != columns.shape[1]:
            k, m = len(self.rows), columns.shape[1]
            raise InvalidInputError(f"x_K has to be ({k}, {m}), with a column for each of b, not {shape}")
        return self._factor.expand(columns, given)

    def _solve_free(self, columns):
        return self._factor.expand(columns, np.zeros((len(self.rows), columns.shape[1])))

    def _remedy(self, position, data):
        return "no row of that component is in rows, so add one (of an elastic body three, six in space), or a mass term there"

    def _causes(self, failed, diagonal, data):
        if diagonal > 0:
            return ("it is indefinite, or singular (an elastic body with too few of its unknowns in rows?); rows may have what makes it "
                    "so, for A and the Schur complement themselves may be indefinite")
        if diagonal == 0:
            return "its diagonal entry is zero or missing (an isolated vertex, or a multiplier?): name that row in rows"
        return "its diagonal entry is negative: name that row in rows, or give -A if that is definite"

    @property
    def n(self) -> int:
        return self.shape[0]

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
        """Bytes of all that is held."""
        return self._factor.nbytes

    def __repr__(self):
        return f"SchurComplement(n={self.n}, rows={len(self.rows)}, nnz={self.nnz}, ordering={self.report.facts['ordering']!r})"
