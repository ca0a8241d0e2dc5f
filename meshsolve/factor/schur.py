"""What Schur complements share: the dense matrix, right-hand sides reduced to the kept rows, solutions expanded to all rows.

    S = A_KK - A_KI A_II^-1 A_IK

K are the rows that are kept, I the rows that are eliminated. Source: Golub, Van Loan 2013, "Matrix computations", section 3.2.11.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.factor.base import Factored, solve_complex
from meshsolve.factor.sharing import reads
from meshsolve.foreign import is_sparse
from meshsolve.report import Report
from meshsolve.sparse.columns import as_rhs
from meshsolve.sparse.constraints import parts_of_values
from meshsolve.sparse.places import PLACES, where
from meshsolve.sparse.sparse_rhs import solve_sparse
from meshsolve.types import Array, ArrayLike


class Condensed(Factored):
    """A Schur complement, and the factor of the rows that were eliminated.

    A subclass has ``rows``, ``report``, ``_dense()``, ``_reduced(columns)`` and ``_expanded(columns, x_K)``; columns have the dtype of
    the matrix.
    """

    report: Report
    _dense: Callable[[], Array]
    _reduced: Callable[[Array], Array]

    @property
    def n(self) -> int:
        return self.shape[0]

    @property
    @reads
    def matrix(self) -> Array:
        """The Schur complement A_KK - A_KI A_II^-1 A_IK as a dense (k, k) array, in the order of :attr:`rows`.

        float64 or complex128; exactly symmetric for a symmetric A. On the GPU it is a CuPy array. O(k^2), a new array at each call.
        """
        with self._errors("the Schur complement"):
            return self._dense()

    @reads
    def reduce(self, b: ArrayLike) -> Array:
        """Return the right-hand side for the kept rows: b_K - A_KI A_II^-1 b_I.

        Parameters
        ----------
        b : (n,) or (n, m), real or complex

        Returns
        -------
        (k,) or (k, m) array, in the order of :attr:`rows`, on the device of b
            float32 or complex64 if b is and A is not wider, else float64 or complex128.

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text.
        FactorInUseError
            Another call is refactoring this.

        Notes
        -----
        Cost: half a solve if A is symmetric, else one solve.
        """
        return self._solve_parts(b, self._reduced)

    @reads
    def expand(self, b: ArrayLike, x_K: ArrayLike) -> Array:
        """Return the whole solution from its values in the kept rows: A_II x_I = b_I - A_IK x_K.

        Parameters
        ----------
        b : (n,) or (n, m), real or complex
            The values in the rows K must be finite, but are not used.
        x_K : (k,) or (k, m), real or complex
            In the order of :attr:`rows`; as many columns as b. On any device.

        Returns
        -------
        (n,) or (n, m) array, on the device of b
            x, with ``x[rows] == x_K``. float32 or complex64 if b is and A is not wider, else float64, or complex128 if A, b or x_K is
            complex.

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text.
        FactorInUseError
            Another call is refactoring this.

        Notes
        -----
        Cost: one solve.
        """
        if is_sparse(b):
            return solve_sparse(b, self.n, lambda B: self.expand(B, x_K), at_once=True)
        home = where(x_K)
        kept = home.array(x_K, "x_K")
        if self.dtype.kind == "c":
            real = imaginary = self._expansion(kept, np.complex128)
        else:
            b, part, rest = parts_of_values(b, kept)
            real, imaginary = (self._expansion(v, np.float64) for v in (part, home.xp.zeros_like(part) if rest is None else rest))
        return self._solve_parts(b, real, imaginary)

    def _solve_parts(self, b, solve, solve_imaginary=None):
        """Apply ``solve`` to the columns of b: to complex columns if A is complex, else to real and imaginary parts."""
        with self._errors("the solve"), self.report.phase("solve"):
            if self.dtype.kind == "c":
                return solve_complex(b, self.n, solve)
            return self._solve_like(b, None, solve, self.n, solve_imaginary)

    def _expansion(self, kept, dtype):
        """The solution of the rows I as a function of the columns of b."""
        home = where(kept)
        if dtype == np.float64:
            inner, shape = home.rhs(kept, len(self.rows), "x_K")
            inner = PLACES[self._place].bring(inner)
        else:
            inner, shape = as_rhs(kept, len(self.rows), "x_K", dtype)

        def solve(columns):
            if inner.shape[1] != columns.shape[1]:
                k, m = len(self.rows), columns.shape[1]
                raise InvalidInputError(f"x_K must be ({k}, {m}), one column for each column of b; got {shape}")
            return self._expanded(columns, inner)
        return solve
