"""Overlapping Schwarz preconditioner of a distributed matrix, with our Cholesky factors in the subdomains and a coarse space.

One level: M = sum of R_i^T W_i A_i^-1 W_i R_i, where R_i restricts to subdomain i with its layers of overlap. W_i^2 is a partition of
unity, 1 / (number of subdomains that have a row): with modes, iterations then do not grow with that number. Without modes W_i = I,
which coefficients with jumps need. Restricted: the result of a row comes from the subdomain that owns it, and W_i = I.
Two levels, balanced (Mandel 1993): P^T M P + Q with Q = Z (Z^T A Z)^-1 Z^T and P = I - A Q. Symmetric positive definite if M is.
Source: Toselli, Widlund 2005, "Domain decomposition methods", chapters 2 and 3; Cai, Sarkis 1999 (restricted).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from meshsolve.api import cholesky
from meshsolve.errors import InvalidInputError, MeshsolveWarning, PatternMismatchError
from meshsolve.options import as_flag, as_integer, one_of, shown, thread_count
from meshsolve.petsc.coarse import Coarse, constants, modes
from meshsolve.petsc.distribute import local_csr, local_parts
from meshsolve.petsc.environment import agreed, load, require_same
from meshsolve.report import Report, warn
from meshsolve.sparse.columns import as_array
from meshsolve.sparse.constraints import in_callers_numbers
from meshsolve.types import ArrayLike

ROW_SUM = 1e-14         # row sums relative to those of absolute values, for all rows of a component, up to which they are 0 in rounding
KINDS = ("auto", "modes", "constants", "none")


class Schwarz:
    """Two-level Schwarz preconditioner of a distributed symmetric positive definite matrix, for a KSP, SNES or TS of your own.

    Parameters
    ----------
    P : PETSc.Mat of type aij, real, square
    part : (m,) integers from 0, optional
        Subdomain of each of the m rows of this rank, counted on this rank. Default: ``subdomains`` connected parts of nearly equal size.
    subdomains : int
        Subdomains of each rank. More of them need less memory for factors, and a larger coarse space.
    overlap : int >= 0
        Layers of neighbors that a subdomain has besides its own rows.
    coarse : {"auto", "modes", "constants", "none"}
        Vectors of the coarse space, see :mod:`meshsolve.petsc.coarse`. ``"auto"``: no coarse space for a single subdomain, else modes.
    modes : int
        Most modes of a subdomain. The modes with eigenvalues up to 0.1 are used.
    restricted : bool
        Restricted Schwarz, which is not symmetric: for GMRES and the like, not for CG.
    threads : int
        Threads of each rank. PETSc programs use a rank for each core, so the default is 1.

    Attributes
    ----------
    pc : PETSc.PC
        ``ksp.setPC(S.pc)``.
    subdomains, coarse_size : int
        Subdomains of all ranks; vectors of the coarse space.
    left_out : float
        Smallest computed eigenvalue of all modes that were left out; about 1 / left_out bounds the condition number. Infinity if no
        such eigenvalue was computed.
    report : Report
    error : Exception or None
        Why the last set-up by PETSc failed. The preconditioner then returns NaN, and the iteration ends with ``DIVERGED_NANORINF``.

    Raises
    ------
    InvalidInputError
        On all ranks: P is no square aij matrix; a bad ``part``; an option out of range.
    NotSymmetricError, NotPositiveDefiniteError, OutOfMemoryError
        On all ranks, as :func:`meshsolve.cholesky`; rows and columns are those of P.

    Notes
    -----
    Every call is collective. New values in P are factored again when the KSP is set up, or by :meth:`setUp`; the vectors of the coarse
    space stay. An application costs a solve in each subdomain, two products with P and two coarse solves.

    Examples
    --------
    >>> import meshsolve as ms
    >>> P, rows = ms.petsc.matrix(ms.datasets.grid2d(30, 20))       # doctest: +SKIP
    >>> S = ms.petsc.Schwarz(P, overlap=1)                          # doctest: +SKIP
    >>> ksp.setPC(S.pc)                                             # doctest: +SKIP
    """

    def __init__(self, P: Any, part: ArrayLike | None = None, *, subdomains: int = 1, overlap: int = 2,
                 coarse: Literal["auto", "modes", "constants", "none"] = "auto", modes: int = 40, restricted: bool = False,
                 threads: int = 1) -> None:
        PETSc, MPI = load()
        self.P, self.report = _checked(PETSc, P), Report()
        self.comm = P.getComm().tompi4py()
        with agreed(self.comm):
            subdomains, overlap = as_integer(subdomains, "subdomains"), as_integer(overlap, "overlap", 0)
            kind, self._most = one_of(coarse, "coarse", KINDS), as_integer(modes, "modes")
            self.restricted, self.threads = as_flag(restricted, "restricted"), thread_count(threads)
            local = local_parts(P, subdomains) if part is None else _as_local_part(part, P.getLocalSize()[0])
        require_same(self.comm, overlap=overlap, coarse=kind, modes=self._most, restricted=self.restricted)
        number = int(local.max(initial=-1)) + 1
        self.subdomains = self.comm.allreduce(number)
        self._kind = ("none" if self.subdomains == 1 else "modes") if kind == "auto" else kind
        self._domains(PETSc, local, overlap, number, self.comm.allreduce(number, MPI.MAX))
        self._coarse: Coarse | None = None
        self._factors: list[Any] = [None] * len(self._rows)
        self.left_out, self.error = np.inf, None
        self.setUp()
        self.pc = PETSc.PC().createPython(_Context(self), comm=self.comm)
        self.pc.setOperators(P)

    @property
    def coarse_size(self) -> int:
        return 0 if self._coarse is None else self._coarse.size

    def setUp(self) -> None:
        """Factor the subdomains again after P has new values, with the errors of the constructor. The pattern may change as well."""
        self.error = None
        with self.report.phase("factor"):
            blocks = [_regular(local_csr(S)) for S in self.P.createSubMatrices(self._sets)[:len(self._rows)]]
            with agreed(self.comm):
                for k, (S, rows) in enumerate(zip(blocks, self._rows)):
                    with in_callers_numbers(rows):
                        self._factors[k] = _factored(self._factors[k], S, self.threads)
        if self._kind != "none":
            with self.report.phase("coarse"):
                if self._coarse is None:
                    self._coarse = self._coarse_space(blocks)
                self._coarse.update(self.P, self.threads)
        self._state = self.P.handle, self.P.stateGet()

    def apply(self, r: Any, y: Any) -> None:
        """y = B^-1 r for distributed vectors; NaN if r has NaN or the last set-up failed."""
        if self.error is not None:
            y.set(np.nan)
        elif self._coarse is None:
            self._one_level(r, y)
        else:
            q = self._coarse.apply(r)
            self._one_level(r - self.P * q, y)
            y.axpy(1, q - self._coarse.apply(self.P * y))

    def _domains(self, PETSc, part, overlap, number, most):
        """Make the index sets of the subdomains with overlap, and the scatter of a vector to all of them, one after the other."""
        first = self.P.getOwnershipRange()[0]
        # All calls are collective: a rank with fewer subdomains than another passes empty ones.
        own = [first + np.flatnonzero(part == k) for k in range(most)]
        self._sets = [PETSc.IS().createGeneral(rows.astype(PETSc.IntType), comm=PETSc.COMM_SELF) for rows in own]
        for rows in self._sets:
            self.P.increaseOverlap(rows, overlap)
            rows.sort()
        self._rows = [rows.getIndices() for rows in self._sets[:number]]
        self._ends = np.cumsum([0, *map(len, self._rows)])
        everything = np.concatenate([*self._rows, np.zeros(0, PETSc.IntType)]).astype(PETSc.IntType)
        self._local = PETSc.Vec().createSeq(len(everything), comm=PETSc.COMM_SELF)
        self._scatter = PETSc.Scatter().create(self.P.createVecRight(), PETSc.IS().createGeneral(everything, comm=PETSc.COMM_SELF),
                                               self._local, None)
        count = self.P.createVecRight()                     # subdomains that have each row
        for rows in self._sets[:number]:
            count.setValues(rows, np.ones(rows.getLocalSize()), addv=True)
        count.assemble()
        self._unity = 1 / self._restricted_to_domains(count)
        self._before = self._after = np.sqrt(self._unity) if self._kind == "modes" else np.ones(len(everything))
        if self.restricted:
            self._before, self._after = 1.0, np.concatenate([np.isin(rows, mine) for rows, mine in zip(self._rows, own)] or [[]])

    def _slices(self):
        return [slice(begin, end) for begin, end in zip(self._ends, self._ends[1:])]

    def _restricted_to_domains(self, v):
        """Return the values of a distributed vector in the rows of all subdomains of this rank."""
        self._scatter.scatter(v, self._local)
        return self._local.array_r.copy()

    def _coarse_space(self, blocks):
        """Return the :class:`Coarse` of blocks of A, one for each subdomain of this rank."""
        D, sums = self._unity, self._restricted_to_domains(self.P.getRowSum())
        vectors, left_out = [], np.inf
        with agreed(self.comm):
            for S, s in zip(blocks, self._slices()):
                V, least = (constants(S, D[s]), np.inf) if self._kind == "constants" else modes(S, sums[s], D[s], self._most, self.threads)
                vectors.append(V)
                left_out = min(left_out, least)
        self.left_out = min(self.comm.allgather(left_out))
        return Coarse(self.P, list(zip(self._sets, vectors)), self.comm)

    def _one_level(self, r, y):
        self._scatter.scatter(r, self._local)
        local = self._local.array_w
        local *= self._before
        for F, s in zip(self._factors, self._slices()):
            local[s] = F @ local[s] if np.isfinite(local[s]).all() else np.nan
        local *= self._after
        y.set(0)
        self._scatter.scatter(self._local, y, addv=True, mode="reverse")


class _Context:
    """What PETSc calls. Errors become NaN: an exception would pass through PETSc and end the process."""

    def __init__(self, schwarz):
        self.schwarz = schwarz

    def setUp(self, pc):
        S, P = self.schwarz, pc.getOperators()[1]
        if S.error is None and S._state == (P.handle, P.stateGet()):
            return
        S.P = P
        try:
            S.setUp()
        except Exception as e:
            S.error = e
            warn(f"Schwarz: {e}", MeshsolveWarning)

    def apply(self, pc, x, y):
        self.schwarz.apply(x, y)


def _regular(S):
    """Return a block of A, in which one diagonal entry of each whole component of a singular Laplacian is doubled.

    That does not change the solutions for right-hand sides of mean 0.
    """
    count, component = connected_components(S, directed=False)
    sums, sizes = np.zeros((2, count))
    np.maximum.at(sums, component, abs(S.sum(axis=1)))
    np.maximum.at(sizes, component, abs(S).sum(axis=1))
    pins = np.unique(component, return_index=True)[1][(sums <= ROW_SUM * sizes) & (sizes > 0)]
    if len(pins):
        S = sp.csr_array(S + sp.csr_array((S.diagonal()[pins], (pins, pins)), shape=S.shape))
    return S


def _factored(factor, S, threads):
    """Return the Cholesky factor of a block: new values of an earlier factor if the pattern is the same."""
    if factor is not None:
        try:
            return factor.refactor(S)
        except PatternMismatchError:
            pass
    return cholesky(S, threads=threads, device="cpu")


def _checked(PETSc, P):
    """Return P; raise InvalidInputError on all ranks if it is no square matrix of type aij."""
    if not isinstance(P, PETSc.Mat):
        raise InvalidInputError(f"P must be a PETSc.Mat, got {shown(P)}: ms.petsc.matrix makes one")
    if P.getType() not in ("seqaij", "mpiaij"):
        raise InvalidInputError(f"P must have type aij, got {P.getType()}: P.convert(\"aij\")")
    if P.getSize()[0] != P.getSize()[1]:
        raise InvalidInputError(f"P must be square, got {P.getSize()[0]} x {P.getSize()[1]}")
    return P


def _as_local_part(part, m):
    """Return checked subdomains of the m rows of a rank as int64."""
    given = as_array(part, "part")
    if given.shape != (m,) or (m and given.dtype.kind not in "iu"):
        raise InvalidInputError(f"part must hold {m} integers, one for each row of this rank, got {given.dtype} of shape {given.shape}")
    if m and not np.array_equal(np.unique(given), np.arange(given.max() + 1)):
        raise InvalidInputError(f"part must hold the numbers 0 ... k - 1, each of them, got values from {given.min()} to {given.max()}")
    return given.astype(np.int64)
