"""The numeric phase of a Cholesky factorization, for a factor or a Schur complement, and its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve import device
from meshsolve.errors import InvalidInputError, NotPositiveDefiniteError, NotSymmetricError
from meshsolve.factor.base import Factored
from meshsolve.factor.cholesky.singular import ROUNDING, ConstantNullSpace
from meshsolve.factor.sharing import reads
from meshsolve.factor.trial import effect_of, try_known_solutions
from meshsolve.sparse.check_cuda import ANY_SIZE, OTHER_PATTERN, SIZABLE
from meshsolve.sparse.columns import max_abs
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.rows import components

FLOAT32 = 2.0**-100, float(np.finfo(np.float32).max)        # range of the largest entry; solutions of small entries are large
DOUBTFUL = 2 * ROUNDING     # row sum that is looked at again: sums in another order may differ by rounding
ELASTIC = 0.1               # share of positive off-diagonal entries; most cotan Laplacians have fewer, elastic bodies 0.2 to 0.5


class Definite(Factored):
    """A :class:`Factored` of a symmetric matrix whose pivots must be positive.

    A subclass has ``symbolic``, ``precision``, ``threads``, ``perm``, the ``_values`` of later matrices, and ``_solve_free(columns)``.
    """

    _is_factored = False            # a matrix was factored before
    _constraint: Any = None         # only its free rows are analyzed
    skew = 0.0                      # effect of the skew part of the last matrix if it matters, else 0: Doubt.judge
    _block = "A"                    # name in messages of the matrix that must be positive definite

    @reads
    def __getstate__(self):
        """Keep the matrix in place of its factor, which is computed again: the same bits, in a fraction of the bytes."""
        state = super().__getstate__()
        del state["_null_space"]                                # arrays on the GPU, computed again
        return state | {"matrix": device.to_host(state.pop("_factor").matrix())}

    def __setstate__(self, state):
        super().__setstate__({name: value for name, value in state.items() if name != "matrix"})
        with self._engine.place.errors("the Cholesky factorization"):
            self._begin(self._engine)
            self._run(self._engine.place.bring(state["matrix"]))

    def _begin(self, engine):
        """Make an empty factor of the class ``engine``."""
        self._engine, self._null_space = engine, ConstantNullSpace(self.symbolic, engine.place)
        self._factor = engine(self.symbolic, self.precision, self.threads)

    def _run(self, data):
        doubt, self._values.doubt = self._values.doubt, None
        before = None if doubt is None or not self._is_factored else np.array(device.to_host(self._factor.matrix()))
        with self.report.phase("numeric"):
            self._require_factorable(data)
            failed = self._factor.factor(data)
        self._judge(failed, data)
        self.skew = 0.0 if doubt is None else self._settle(doubt, before)
        self._is_factored = True

    def _settle(self, doubt, before):
        """Return the effect of a doubt. If that is large, factor the matrix ``before`` again, and raise."""
        try:
            return self._weigh(doubt)
        except NotSymmetricError:
            if before is not None:
                self._factor.factor(self._engine.place.bring(before))
            raise

    def _weigh(self, doubt):
        """Return the effect of a doubt, or raise NotSymmetricError."""
        solve, free = self._solve_free, getattr(self._constraint, "free", None)
        P = self.symbolic.matrix_pattern
        size = np.sqrt(np.abs(doubt.stored.diagonal_values()))[:, None]
        size[self.symbolic.perm[P.n - self.symbolic.boundary:]] = 0
        found = effect_of(doubt, lambda b: solve(self._bring(b)), size)
        return doubt.judge(*found, None if free is None else device.to_host(free))

    def _run_again(self, A):
        """Factor a matrix on the GPU that may have the pattern of the last one. Its checks are queued with the numeric phase: one read.

        Returns False, and does nothing, if A has another form. The checks that name what is wrong run only if a bit is set. After an
        exception the earlier factor is restored by another numeric phase.
        """
        later = self._values.later(A) if hasattr(self._factor, "factor_again") else None
        if later is None:
            return False
        sizes = ANY_SIZE if self.precision == "double" else FLOAT32
        try:
            with self.report.phase("numeric"):
                coupling = self._values.next_coupling()
                bits, failed = self._factor.factor_again(
                    lambda values, bits: later.check(values, coupling and coupling[2], self._null_space.watched, DOUBTFUL, sizes, bits))
            data = self._examine(A, bits, failed)
            if data is not None:
                self._run(data)
                return True
            self._values.keep_coupling(coupling)
            self._factor.accept()
            doubt, self._values.doubt = self._values.doubt, None        # rounding: the pending factor is that of A
            self.skew = 0.0 if doubt is None else self._weigh(doubt)
        except BaseException:                                   # Ctrl-C as well
            self._factor.restore()
            raise
        return True

    def _examine(self, A, bits, failed):
        """Raise what is wrong with the matrix A of the pending factor, according to the bits of its checks and its failed pivot.

        Returns None, or the values of A if the pending factor is not that of A. Then they lie in another part of the analyzed pattern, or
        the symmetry of A is in doubt.
        """
        narrow = self.precision != "double"
        if bits & ~SIZABLE or (narrow and not bits & SIZABLE):
            data = self._values.of(A)                           # raises what is wrong with A
            doubt = self._values.doubt
            if bits & OTHER_PATTERN or not (doubt is None or doubt.is_rounding):
                return data
            self._require_factorable(data)
        self._judge(failed, self._factor.pending)
        return None

    def _require_factorable(self, data):
        """Raise if all rows of a component sum to 0, or entries are outside the range of a float32 factor."""
        if self.precision != "double":
            self._require_float32(data)
        singular = self._null_space.find(data)
        if singular >= 0:
            raise self._singular_laplacian(singular, data)

    def _require_float32(self, data):
        largest = float(max_abs(data[:, None])[0]) if len(data) else 0.0
        if largest > 0 and not FLOAT32[0] < largest < FLOAT32[1]:
            raise InvalidInputError(f'the entries of A, up to {largest:.3g}, are outside the range of float32: use precision="double"')

    def _judge(self, failed, data):
        """Raise if a pivot has failed."""
        if failed >= 0:
            singular = self._null_space.component(data)
            raise self._singular_laplacian(singular, data) if singular >= 0 else self._not_positive_definite(failed, data)
        self.report.facts.update(bytes=self._factor.nbytes, **getattr(self._factor, "traffic", {}))

    def _try(self, data):
        """Return the error of known solutions, relative to the sizes that the diagonal suggests: about 1 if A is singular to working
        precision."""
        P = self.symbolic.matrix_pattern
        A = sp.csr_array((device.to_host(data), P.indices, P.indptr), shape=(P.n, P.n))
        held = self.symbolic.perm[-self.symbolic.boundary:] if self.symbolic.boundary else slice(0)
        with np.errstate(all="ignore"):
            scale = 1 / np.sqrt(A.diagonal())[:, None]
        scale[held] = 1
        size = np.repeat(scale, 4, axis=1)
        size[held] = 0
        return try_known_solutions(lambda x: A @ x, lambda b: self._solve_free(self._bring(b)), size).error(scale)

    def _singular_laplacian(self, root, data):
        column = int(self.perm[root])
        if self._diagonal(root, data) < 0:                  # the negative Laplacian, as libigl's
            return self._not_positive_definite(root, data)
        if getattr(self._constraint, "centers", False):             # with pin=True the rows next to the pin do not sum to 0
            return NotPositiveDefiniteError(
                f"A is singular to working precision: the weights between the component of column {column} and the row left out by "
                "pin=True are 0, or vanish in rounding compared with its other weights. A may have more components than the analyzed "
                "matrix", column)
        return NotPositiveDefiniteError(
            f"{self._block} is not positive definite: every row of the component of column {column} sums to 0, as in a Laplacian, so it "
            f"takes constants to 0 and is singular: {self._remedy(root, data)}", column)

    def _remedy(self, position, data):
        """Return advice how to make the component of the row at this position of the elimination regular; its rows sum to 0."""
        if self._constraint is not None:
            return ("no row of that component is in fixed=. Add one (three for an elastic body, six in space), or a mass term; "
                    "pin=True and fixed= exclude each other")
        if self._positive_share(position, data) < ELASTIC:
            return "use pin=True, fix some rows (fixed=), or add a mass term"
        return ("use pin=True if it takes only constants to 0. Many of its off-diagonal entries are positive, as in the stiffness of an "
                "elastic body. That takes rotations to 0 as well (rigid motions): fix three of its unknowns, six in space (fixed=), or "
                "use ildl")

    def _positive_share(self, position, data):
        """Return the share of positive off-diagonal entries in the component of the row at this position of the elimination."""
        pattern, data = self.symbolic.matrix_pattern, device.to_host(data)
        _, component = components(Csr(pattern.n, pattern.indptr.astype(np.int64, copy=False), pattern.indices, data))
        row = np.repeat(np.arange(pattern.n), np.diff(pattern.indptr))
        inside = component == component[self.symbolic.perm[position]]
        values = data[inside[row] & (pattern.indices != row)]
        return np.count_nonzero(values > 0) / max(np.count_nonzero(values), 1)

    def _diagonal(self, position, data):
        """Return the diagonal entry of A in the row at this position of the elimination."""
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
            return ("A takes more than constants to 0 (rotations of an elastic body without supports? more components than the analyzed "
                    "matrix?), its weights span more decades than float64 resolves, or A is indefinite: use ildl")
        if diagonal > 0 and self._null_space.nearly(failed, data):
            return (f"A may be a Laplacian, singular by construction in the component of this column: {self._remedy(failed, data)}; "
                    "or A is indefinite: use ildl")
        if diagonal > 0:
            return ("A is indefinite (use ildl: its inertia counts the negative eigenvalues) or singular (an elastic body with "
                    "too few supports?); a multiple of a mass matrix or of the identity, added to A, makes it definite")
        if diagonal == 0:
            return ("its diagonal entry is zero or missing (an isolated or unreferenced vertex, or constraints? ildl takes "
                    "those)")
        return ("its diagonal entry is negative; for a negative definite matrix factor -A (libigl's cotmatrix has that sign), for an "
                "indefinite one use ildl")
