"""Symbolic Cholesky factorization: the structure of L from the pattern of A and an ordering.

``meshsolve.analyze`` returns a :class:`Symbolic`. Its steps are public functions: elimination tree, postorder, column counts, pattern
of L. ``A`` is any matrix that :func:`meshsolve.sparse.matrix.as_csr` takes. The pattern of A + A^T is analyzed, with a full diagonal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.factor.symbolic.cuda import CudaAnalysis
from meshsolve.factor.symbolic.host import ARRAYS, HostAnalysis
from meshsolve.options import as_number, shown, thread_count
from meshsolve.report import Report
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import as_array
from meshsolve.sparse.matrix import Csr, as_csr, symmetric_pattern
from meshsolve.sparse.places import HOST
from meshsolve.types import ArrayLike, Matrix

__all__ = ["Symbolic", "colcount", "etree", "pattern_of_factor", "postorder", "unsymmetric_pattern"]

KINDS: dict[str, Any] = {"cpu": HostAnalysis, "cuda": CudaAnalysis}


def etree(A: Matrix) -> np.ndarray:
    """Return the elimination tree of A in its own order.

    Parameters
    ----------
    A : (n, n) sparse or dense matrix
        The pattern of A + A^T is read.

    Returns
    -------
    parent : (n,) int32
        ``parent[j]`` is the row of the first nonzero below the diagonal in column j of L, or -1 for a root.

    Raises
    ------
    InvalidInputError
        A is not a square matrix, is empty, or has indices out of range.

    Notes
    -----
    ``parent[j] > j`` or ``parent[j] == -1``. Cost close to O(nnz(A)). Source: Liu 1990, "The role of elimination trees in
    sparse factorization" (doi 10.1137/0611010), algorithm 4.2.

    Examples
    --------
    >>> etree([[2, -1, 0], [-1, 2, -1], [0, -1, 2]]).tolist()
    [1, 2, -1]
    """
    A = symmetric_pattern(A)
    return _core.etree(A.indptr, A.indices)


def postorder(parent: ArrayLike) -> np.ndarray:
    """Return a postorder of an elimination tree: children before parents, each subtree a range that ends in its root.

    Parameters
    ----------
    parent : (n,) integers
        ``parent[j] > j``, or -1 for a root, as :func:`etree` returns it. Children are visited in ascending order.

    Returns
    -------
    order : (n,) int32
        ``order[k]`` is the k-th node of the postorder.

    Raises
    ------
    InvalidInputError
        Not a list of integers, or some ``parent[j]`` is neither -1 nor in j + 1 ... n - 1 (names the first). Every forest
        passes this test in a postorder, other graphs never do.

    Notes
    -----
    Cost O(n), no recursion. Source: Liu 1990, section 2.

    Examples
    --------
    >>> postorder([3, 2, 4, 4, -1]).tolist()
    [1, 2, 0, 3, 4]
    """
    given = as_array(parent, "parent")
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise InvalidInputError(f"parent must be a list of integers, got shape {given.shape} of {given.dtype}")
    node = np.arange(len(given))
    wrong = (given != -1) & ((given <= node) | (given >= len(given)))
    if wrong.any():
        j = int(np.argmax(wrong))
        raise InvalidInputError(f"parent[{j}] = {given[j]} must be -1 or in {j + 1}..{len(given) - 1}: this is no elimination tree")
    return _core.postorder(np.ascontiguousarray(given, np.int32))


def colcount(A: Matrix) -> np.ndarray:
    """Count the nonzeros in each column of the Cholesky factor of A in its own order, the diagonal included.

    Parameters
    ----------
    A : (n, n) sparse or dense matrix
        The pattern of A + A^T is read.

    Returns
    -------
    count : (n,) int32
        The sum is nnz(L), the sum of squares is the number of operations of the factorization.

    Raises
    ------
    InvalidInputError
        A is not a square matrix, is empty, or has indices out of range.

    Notes
    -----
    Cost close to O(nnz(A)); L is not formed. Source: Gilbert, Ng, Peyton 1994, "An efficient algorithm to compute row and
    column counts for sparse Cholesky factorization" (doi 10.1137/S089547989223692), section 4.

    Examples
    --------
    >>> colcount([[2, -1, -1], [-1, 2, 0], [-1, 0, 2]]).tolist()
    [3, 2, 1]
    """
    A = symmetric_pattern(A)
    return _core.colcount(A.indptr, A.indices)


def pattern_of_factor(A: Matrix, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the pattern of the Cholesky factor of A in its own order, by columns.

    Parameters
    ----------
    A : (n, n) sparse or dense matrix
        The pattern of A + A^T is read.
    threads : int, optional

    Returns
    -------
    indptr : (n + 1,) int64
    indices : (nnz(L),) int32
        Rows of each column, ascending, the diagonal first.

    Raises
    ------
    InvalidInputError
        A is not a square matrix, is empty, or has indices out of range; ``threads`` is not a positive integer.

    Notes
    -----
    Cost O(nnz(A) + nnz(L)). Source: Ribizel, Anzt 2023, "Parallel symbolic Cholesky factorization": the lowest common
    ancestors of adjacent nonzeros of a row cut its row subtree into paths. The columns of a postorder are the same up to
    renumbering, and parents follow their children in both orders.

    Examples
    --------
    >>> indptr, indices = pattern_of_factor([[2, -1, -1], [-1, 2, 0], [-1, 0, 2]])
    >>> indices.tolist()
    [0, 1, 2, 1, 2, 2]
    """
    A = symmetric_pattern(A)
    bound = _core.analyze(A.indptr, A.indices, np.arange(A.n, dtype=np.int32))
    begin, rows = _core.pattern_lca(A.indptr, A.indices, bound, thread_count(threads))
    indptr = np.zeros(A.n + 1, np.int64)
    np.cumsum(bound.colcount[bound.iperm], out=indptr[1:])
    moved = np.repeat(begin[bound.iperm] - indptr[:-1], np.diff(indptr)) + np.arange(len(rows))
    return indptr, bound.perm[rows[moved]]


def as_relaxation(relax: Any) -> list[tuple[float, float, float]] | None:
    """Check the table ``relax=`` of :func:`meshsolve.analyze` and return its rows (columns, share, zeros); None stays None."""
    if relax is None:
        return None
    if isinstance(relax, (str, dict)) or not hasattr(relax, "__iter__"):
        raise InvalidInputError(f"relax must be a list of (columns, share) or (columns, share, zeros), got {shown(relax)}")
    table = []
    for k, row in enumerate(relax):
        if not isinstance(row, (tuple, list, np.ndarray)) or len(row) not in (2, 3):
            raise InvalidInputError(f"relax[{k}] must be (columns, share) or (columns, share, zeros), got {shown(row)}")
        numbers = [np.inf if isinstance(x, float) and x == np.inf else as_number(x, f"relax[{k}][{i}]") for i, x in enumerate(row)]
        if numbers[1] > 1:
            raise InvalidInputError(f"relax[{k}][1] must be a share of zeros from 0 to 1, got {shown(row[1])}")
        table.append((numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else np.inf))
    return table


def unsymmetric_pattern(A: Matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the exact pattern of L and U of a square matrix in its own order, with the diagonal entries as pivots.

    Parameters
    ----------
    A : (n, n) sparse or dense matrix
        The diagonal is taken as full.

    Returns
    -------
    l_indptr, l_indices, u_indptr, u_indices : int64 and int32 arrays
        L and U by columns, rows ascending, without the diagonal.

    Raises
    ------
    InvalidInputError
        A is not a square matrix, is empty, or has indices out of range.

    Notes
    -----
    Sources: Gilbert, Peierls 1988 (reach); Eisenstat, Liu 1992 (pruning). Code: factor/symbolic/unsymmetric.cpp.

    Examples
    --------
    >>> l_indptr, l_indices, u_indptr, u_indices = unsymmetric_pattern([[4, 1, 0], [1, 4, 0], [2, 0, 4]])
    >>> l_indices.tolist(), u_indices.tolist()
    ([1, 2, 2], [0])
    """
    columns = as_csr(as_csr(A, dtype=None).to_scipy().T, dtype=None)
    return _core.unsymmetric(columns.indptr, columns.indices)


class Symbolic(Sealed):
    """The symbolic Cholesky factorization of one pattern in one ordering; made by ``meshsolve.analyze``.

    The given ordering is followed by a postorder in which the columns of a relaxed supernode are adjacent. It changes neither nnz(L)
    nor the number of operations. Arrays are read-only views. An analysis can be pickled.

    Attributes
    ----------
    perm : (n,) int32
        ``perm[k]`` is the old index of the k-th new row: ``A[perm][:, perm]`` is what is factored.
    parent : (n,) int32
        Elimination tree in new numbers, -1 for a root; ``parent[j] > j``, postordered.
    colcount : (n,) int32
        Nonzeros of each column of L with the diagonal.
    nnz : int
        Nonzeros of L.
    flops : float
        Sum of ``colcount**2``.
    supernodes : (s + 1,) int32
        Columns ``supernodes[i]`` to ``supernodes[i + 1] - 1`` are stored as one dense block (relaxed: with a few zeros).
    nbytes : int
        Estimate of the memory of a float64 factor: the dense blocks and their row lists.
    ordering : Ordering or None
        The ordering from which ``perm`` was made.
    lower : bool
        True if only the lower triangle of A, and of matrices that are factored later, is read.
    boundary : int
        Rows at the end that are not eliminated: 0 except for a Schur complement.
    report : Report
        Phase ``symbolic``.
    """

    ordering: Any
    report: Report
    lower: bool = False
    _threads: int
    _analysis: Any                  # of KINDS

    @classmethod
    def build(cls, pattern: Csr, ordering_perm: ArrayLike, ordering: Any = None, threads: int = 1, place: str = "cpu",
              known: Any = None, boundary: int = 0, relax: Any = None) -> Self:
        """Analyze a checked symmetric pattern (both triangles stored, with or without diagonal).

        Parameters
        ----------
        pattern : Csr
            As :func:`meshsolve.sparse.matrix.as_symmetric` or ``symmetric_pattern`` return it; values are ignored.
        ordering_perm : (n,) integers
            ``ordering_perm[k]`` = old index of the k-th row of the ordering.
        ordering : Ordering, optional
            Kept as :attr:`ordering`.
        threads : int
        place : {"cpu", "cuda"}
            Where the analysis is made; the result is the same. With ``"cuda"`` the arrays of the pattern lie on the GPU and the
            analysis stays on the GPU. It is copied to the host when :attr:`perm`, :attr:`parent`, ... are first read.
        known : (parent, colcount), optional
            Elimination tree and column counts of this pattern in this ordering, not checked: see
            :class:`meshsolve.order.ordering.Elimination`. Only for ``place="cpu"``.
        boundary : int
            Number of rows kept at the end of the ordering, as one dense supernode that is not eliminated. Only for
            ``place="cpu"``.
        relax : list of (columns, share) or (columns, share, zeros), optional
            When supernodes are merged, see :func:`meshsolve.analyze`.

        Raises
        ------
        InvalidInputError
            ``ordering_perm`` is no permutation of 0..n-1; ``threads`` is not a positive integer.

        Notes
        -----
        Cost close to O(nnz(A)), memory O(nnz(A) + n). Sources: Liu 1990 (tree); Gilbert, Ng, Peyton 1994 (counts); Ashcraft,
        Grimes 1989 (relaxed supernodes); Ribizel, Anzt 2023 (row lists).
        """
        self, relax = cls(), as_relaxation(relax)
        self.ordering, self._threads = replace(ordering, elimination=None) if known else ordering, thread_count(threads)
        self.report = Report(nnz_A=pattern.nnz, threads=self._threads, ordering=getattr(ordering, "method", None))
        with self.report.phase("symbolic"):
            self._analysis = KINDS[place].of(pattern, ordering_perm, self._threads, known, boundary, relax)
        self.report.facts.update(nnz_L=self.nnz, flops=self.flops, bytes=self.nbytes)
        return self

    @property
    def pattern_on_device(self):
        """The analyzed pattern as a Csr on the GPU; uploaded once if it lies on the host."""
        return self._analysis.pattern_on_device

    def keep_on_device(self, pattern):
        """Use the analyzed pattern on the GPU, which would be uploaded otherwise."""
        self._analysis.keep_on_device(pattern)

    @property
    def analysis_on_device(self):
        """The :class:`~meshsolve.factor.symbolic.cuda.DeviceAnalysis`; uploaded once if it lies on the host."""
        return self._analysis.analysis_on_device

    @property
    def forest_on_device(self):
        """The :class:`~meshsolve.factor.symbolic.tours.Forest` of the supernodes, computed once."""
        return self._analysis.forest_on_device

    def pattern_in(self, place):
        """Return the analyzed pattern at ``HOST`` or ``CUDA``."""
        return self.matrix_pattern if place is HOST else self.pattern_on_device

    def analysis_in(self, place):
        """Return the arrays of the analysis (``perm``, ``iperm``, ``parent``, ...) at ``HOST`` or ``CUDA``."""
        return self.native if place is HOST else self.analysis_on_device

    def pattern(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the pattern of L by columns: (indptr int64, indices int32), rows ascending, the diagonal first.

        It is computed at each call, in O(nnz(L)), by LCA enumeration (Ribizel, Anzt 2023).
        """
        return _core.pattern_lca(self.matrix_pattern.indptr, self.matrix_pattern.indices, self.native, self._threads)

    @property
    def n(self) -> int:
        return self._analysis.n

    @property
    def matrix_pattern(self):
        """The analyzed pattern with both triangles, on the host: a Csr, or the TreePattern that a factor put in its place."""
        return self._analysis.matrix_pattern

    @matrix_pattern.setter
    def matrix_pattern(self, pattern):
        self._analysis.matrix_pattern = pattern

    @property
    def native(self):
        """The analysis in the C++ core; copied from the GPU at the first use."""
        return self._analysis.native

    @property
    def perm(self) -> np.ndarray:
        return self._analysis.perm

    @property
    def parent(self) -> np.ndarray:
        return self.native.parent

    @property
    def colcount(self) -> np.ndarray:
        return self.native.colcount

    @property
    def nnz(self) -> int:
        return self._analysis.nnz

    @property
    def flops(self) -> float:
        return self._analysis.flops

    @property
    def boundary(self) -> int:
        return self._analysis.boundary

    @property
    def supernodes(self) -> np.ndarray:
        return self.native.first

    @property
    def nbytes(self) -> int:
        return self._analysis.nbytes

    def __repr__(self):
        return f"Symbolic(n={self.n}, nnz={self.nnz}, flops={self.flops:.4g}, supernodes={len(self.supernodes) - 1})"

    def __getstate__(self):
        kept = {name: value for name, value in self.__dict__.items() if name != "_analysis"}
        arrays = [np.array(getattr(self.native, name)) for name in ARRAYS]
        return kept | {"pattern": self.matrix_pattern, "arrays": [*arrays, self.boundary]}

    def __setstate__(self, state):
        self._analysis = HostAnalysis(state["pattern"], _core.restore_analysis(*state["arrays"]))
        self.__dict__.update({name: value for name, value in state.items() if name not in ("pattern", "arrays")})
