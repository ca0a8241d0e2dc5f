"""The numeric phase of a Cholesky factorization, whatever it is for, and what is said where a matrix has no factor."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve import device
from meshsolve.errors import NotPositiveDefiniteError
from meshsolve.factor.base import Factored
from meshsolve.factor.cholesky.singular import ConstantNullSpace
from meshsolve.factor.sharing import reads
from meshsolve.factor.trial import try_known_solutions
from meshsolve.sparse.constraints import components
from meshsolve.sparse.matrix import Csr

ELASTIC = 0.1               # share of positive off-diagonal entries: cotan Laplacians have fewer as a rule, elastic bodies 0.2 to 0.5


class Definite(Factored):
    """A :class:`Factored` of a symmetric matrix whose pivots have to be positive.

    A subclass has ``symbolic``, ``precision``, ``threads``, ``perm``, the ``_values`` of later matrices, and ``_solve_free(columns)``.
    """

    _constraint: Any = None         # whose free rows alone are analysed
    _block = "A"                    # what has to be positive definite, in messages

    def _begin(self, engine):
        """What factors, before there is a factor: ``engine`` is its class."""
        self._engine, self._null_space = engine, ConstantNullSpace(self.symbolic, engine)
        self._factor = engine(self.symbolic, self.precision, self.threads)

    def _run(self, data):
        with self.report.phase("numeric"):
            singular = self._null_space.find(data)
            if singular >= 0:
                raise self._singular_laplacian(singular, data)
            failed = self._factor.factor(data)
        if failed >= 0:
            singular = self._null_space.component(data)
            raise self._singular_laplacian(singular, data) if singular >= 0 else self._not_positive_definite(failed, data)
        self.report.facts["bytes"] = self._factor.nbytes

    def _try(self, data):
        """Error of known solutions, relative to the sizes that the diagonal suggests: about 1 if A is singular to working precision."""
        P = self.symbolic.matrix_pattern
        A = sp.csr_array((device.to_host(data), P.indices, P.indptr), shape=(P.n, P.n))
        held = self.symbolic.perm[-self.symbolic.boundary:] if self.symbolic.boundary else slice(0)
        with np.errstate(all="ignore"):
            scale = 1 / np.sqrt(A.diagonal())[:, None]
        scale[held] = 1
        size = np.repeat(scale, 4, axis=1)
        size[held] = 0
        return try_known_solutions(lambda x: A @ x, lambda b: self._solve_free(self._engine.bring(b)), size).error(scale)

    def _singular_laplacian(self, root, data):
        column = int(self.perm[root])
        if self._diagonal(root, data) < 0:                  # the other sign of libigl's
            return self._not_positive_definite(root, data)
        if getattr(self._constraint, "centers", False):             # with pin=True the rows beside the pin do not sum to 0
            return NotPositiveDefiniteError(
                "A is singular to working precision: the weights that join the component of column "
                f"{column} to the row that is left out (pin=True) are 0, in more components than when A was analysed, or vanish in "
                "rounding beside its others", column)
        return NotPositiveDefiniteError(
            f"{self._block} is not positive definite: every row of the component of column {column} sums to 0, as a Laplacian's do, so it "
            f"takes constants to 0 and is singular: {self._remedy(root, data)}", column)

    def _remedy(self, position, data):
        """What makes the component of the row that is eliminated there regular, whose rows sum to 0."""
        if self._constraint is not None:
            return ("no row of that component is in fixed=, so add one (of an elastic body three, six in space), or a mass term there; "
                    "pin=True and fixed= exclude each other")
        if self._positive_share(position, data) < ELASTIC:
            return "use pin=True, fix some rows (fixed=), or add a mass term"
        return ("use pin=True if constants are all that it takes to 0. Many of its off-diagonal entries are positive, as in the stiffness "
                "of an elastic body: that takes rotations to 0 as well (rigid motions), and three of its unknowns, six in space, have to "
                "be fixed (fixed=), or ildl taken")

    def _positive_share(self, position, data):
        """Of the off-diagonal entries in the component of the row that is eliminated there: which share is positive."""
        pattern, data = self.symbolic.matrix_pattern, device.to_host(data)
        _, component = components(Csr(pattern.n, pattern.indptr.astype(np.int64, copy=False), pattern.indices, data))
        row = np.repeat(np.arange(pattern.n), np.diff(pattern.indptr))
        there = component == component[self.symbolic.perm[position]]
        values = data[there[row] & (pattern.indices != row)]
        return np.count_nonzero(values > 0) / max(np.count_nonzero(values), 1)

    def _diagonal(self, position, data):
        """The diagonal entry of A in the row that is eliminated there."""
        row = int(self.symbolic.perm[position])
        pattern = self.symbolic.matrix_pattern
        span = slice(pattern.indptr[row], pattern.indptr[row + 1])
        return float(device.to_host(data[span])[pattern.indices[span] == row].sum())

    def _not_positive_definite(self, failed, data):
        column, diagonal = int(self.perm[failed]), self._diagonal(failed, data)
        return NotPositiveDefiniteError(
            f"{self._block} is not positive definite: the pivot of column {column} is not positive (diagonal entry {diagonal:.3g}); "
            f"{self._causes(failed, diagonal, data)}", column)

    def _causes(self, failed, diagonal, data):
        if diagonal > 0 and getattr(self._constraint, "centers", False):
            return ("A takes more than constants to 0 (rotations of an elastic body without supports? more components than when it was "
                    "analysed?), its weights span more decades than float64 resolves, or A is indefinite: ildl takes it")
        if diagonal > 0 and self._null_space.nearly(failed, data):
            return (f"A may be a Laplacian, singular by construction in the component of this column: {self._remedy(failed, data)}; "
                    "or A is indefinite: ildl takes it")
        if diagonal > 0:
            return ("A is indefinite (ildl takes it, and its inertia counts the negative eigenvalues) or singular (an elastic body with "
                    "too few supports?); added to A, a multiple of a mass matrix or of the identity makes it definite")
        if diagonal == 0:
            return ("its diagonal entry is zero or missing (an isolated or unreferenced vertex, or constraints? ildl takes "
                    "those)")
        return ("its diagonal entry is negative; for a negative definite matrix factor -A (libigl's cotmatrix has that sign), for an "
                "indefinite one take ildl")

    @reads
    def __getstate__(self):
        """The matrix stands for its factor, which is made again: the same bits, in a fraction of the bytes."""
        state = super().__getstate__()
        del state["_null_space"]                                # arrays of the device, soon found again
        return state | {"matrix": device.to_host(state.pop("_factor").matrix())}

    def __setstate__(self, state):
        super().__setstate__({name: value for name, value in state.items() if name != "matrix"})
        with self._engine.errors("the Cholesky factorization"):
            self._begin(self._engine)
            self._run(self._engine.bring(state["matrix"]))
