"""Solve one system on all ranks: distribute it, precondition it by Schwarz, iterate with PETSc, gather the solution."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from meshsolve.errors import ConvergenceWarning, InvalidInputError, MeshsolveWarning
from meshsolve.krylov.info import CONVERGED, EXHAUSTED, Info
from meshsolve.options import as_integer, as_number, counted, shown
from meshsolve.petsc.distribute import distribute, gathered, parts_of
from meshsolve.petsc.environment import agreed, communicator, load, require_same
from meshsolve.petsc.schwarz import Schwarz
from meshsolve.report import Report, warn, without_warnings
from meshsolve.sparse.columns import as_rhs
from meshsolve.sparse.constraints import (
    Pinned,
    checked,
    constraint_of,
    in_callers_numbers,
    takes_constants_to_zero,
    without_constraint,
)
from meshsolve.sparse.matrix import as_symmetric
from meshsolve.types import Array, ArrayLike, Matrix

ROUNDS = 3              # iterations that start from the last solution, while its true residual is above the tolerance
RESTART = 200           # vectors of GMRES
REASONS = {             # names of KSP.ConvergedReason
    "DIVERGED_MAX_IT": EXHAUSTED, "DIVERGED_INDEFINITE_MAT": "A is not positive definite",
    "DIVERGED_INDEFINITE_PC": "the preconditioner is not positive definite: A is not, or rounding errors are too large",
    "DIVERGED_NANORINF": "NaN or infinity in the iteration", "DIVERGED_DTOL": "the residual grows",
}
PREFIXES = itertools.count()


@dataclass(repr=False)
class SchwarzInfo(Info):
    """How a system was solved on several ranks: :class:`meshsolve.Info` and the fields of the Schwarz method.

    Attributes
    ----------
    subdomains : int
        Subdomains of all ranks.
    coarse_size : int
        Vectors of the coarse space; 0 without one.
    condition : float
        Condition number of the preconditioned matrix, estimated from the coefficients of the iteration; NaN without an estimate.
    left_out : float
        As :attr:`Schwarz.left_out`.
    """

    subdomains: int = 1
    coarse_size: int = 0
    condition: float = np.nan
    left_out: float = np.inf


def solve(A: Matrix, b: ArrayLike, comm: Any = None, *, fixed: ArrayLike | None = None, pin: bool = False,
          fixed_values: ArrayLike | None = None, subdomains: int = 1, overlap: int = 2,
          coarse: Literal["auto", "modes", "constants", "none"] = "auto", modes: int = 40, restricted: bool = False, rtol: float = 1e-8,
          maxiter: int = 1000, threads: int = 1, options: dict[str, Any] | None = None) -> tuple[Array, SchwarzInfo]:
    """Solve A x = b on all ranks of an MPI program, by conjugate gradients with a two-level Schwarz preconditioner.

    Parameters
    ----------
    A : (n, n) symmetric positive definite matrix of any kind, the same on all ranks; or a distributed PETSc.Mat of type aij
        A matrix whose rows sum to 0 (a Laplacian) is pinned, as with ``pin=True``.
    b : (n,) array, the same on all ranks; for a PETSc.Mat a PETSc.Vec
    comm : communicator of mpi4py or petsc4py, optional
        Default: all ranks; for a PETSc.Mat its own.
    fixed, pin, fixed_values
        As in :func:`meshsolve.solve`; not for a PETSc.Mat.
    subdomains, overlap, coarse, modes, restricted, threads
        As in :class:`Schwarz`. Restricted: GMRES instead of conjugate gradients.
    rtol : float
        The system is solved if ||b - A x|| <= rtol ||b||.
    maxiter : int
    options : dict, optional
        Options of PETSc for the KSP, without a prefix: ``{"ksp_type": "minres", "ksp_monitor": ""}``.

    Returns
    -------
    x : (n,) float64 on every rank; for a PETSc.Mat a PETSc.Vec
        The last iterate if the relative residual stays above ``rtol``; rank 0 then gives a :class:`ConvergenceWarning`.
    info : SchwarzInfo
        ``.iterations``, ``.converged``, ``.relative_residual`` (recomputed), ``.reason``, ``.subdomains``, ``.coarse_size``,
        ``.condition``, ``.report``.

    Raises
    ------
    InvalidInputError
        On all ranks: an input is bad on one rank, or differs between ranks; no PETSc; two MPI libraries in the process.
    NotSymmetricError, NotPositiveDefiniteError, NotLaplacianError, OutOfMemoryError
        On all ranks, with rows and columns of A.

    Notes
    -----
    Each rank holds all of A while it is distributed; pass a PETSc.Mat if that is too much. A rank has a factor of each of its
    subdomains. The number of iterations depends on the subdomains, not on the ranks, and hardly grows with their number if the
    coefficients are smooth. Sums over the ranks differ by rounding: solutions are not the same bit for bit on other numbers of ranks.
    Sources: :mod:`meshsolve.petsc.schwarz`, :mod:`meshsolve.petsc.coarse`.

    Examples
    --------
    In a script that ``mpiexec -n 4 python script.py`` runs:

    >>> import meshsolve as ms, numpy as np
    >>> A = ms.datasets.grid2d(30, 20)
    >>> x, info = ms.petsc.solve(A, np.ones(600))                   # doctest: +SKIP
    """
    schwarz = {"overlap": overlap, "coarse": coarse, "modes": modes, "restricted": restricted, "threads": threads}
    return _solve(A, b, comm, (fixed, pin, fixed_values), subdomains, schwarz, (rtol, maxiter, options))


class Stop(NamedTuple):
    """When an iteration ends, and the options of its KSP."""

    rtol: float
    maxiter: int
    options: dict


class System:
    """A checked system on every rank.

    Attributes
    ----------
    block : Csr
        The matrix of the iteration: the free rows, or all of them.
    rhs : (m,) float64
        Its right-hand side.
    numbers : (m,) integers or None
        Rows of A in the block; None: all.
    inputs : dict
        Arrays that must be the same on all ranks.
    """

    def __init__(self, A, b, fixed, pin, fixed_values):
        M, pin = as_symmetric(A), checked(fixed, pin)
        columns, shape = as_rhs(b, M.n)
        if shape != (M.n,):
            raise InvalidInputError(f"b must have shape ({M.n},), got {shape}: solve one right-hand side at a time")
        self._constraint, self._columns, self._values = constraint_of(M, fixed, pin), columns, fixed_values
        if self._constraint is None:
            without_constraint(fixed_values)
        self.block, self.numbers, self.singular = M.stored, None, False
        if fixed is not None:
            self.block, self.numbers = self._constraint.reduce(M).stored, self._constraint.free
        elif pin:
            self._constraint.require_singular(self.block)
        elif takes_constants_to_zero(self.block):
            self._constraint, self.singular = Pinned(M), True
        self.rhs = np.zeros(self.block.n)
        self.whole(lambda rhs: self.rhs.__iadd__(rhs))
        self.inputs = {"A": self.block.data, "the pattern of A": self.block.indices, "b or fixed_values": self.rhs}

    def whole(self, solve):
        """Return x of all rows from ``solve(rhs)``, the solution of the block for an (m,) right-hand side."""
        def solve_columns(B):
            return np.ascontiguousarray(solve(np.ascontiguousarray(B[:, 0])))[:, None]

        if self._constraint is None:
            return solve_columns(self._columns)[:, 0]
        method = self._constraint.solve if self.numbers is not None else self._constraint.solve_singular
        return method(self._columns, self._values, solve_columns)[:, 0]


def _solve(A, b, comm, constraint, subdomains, schwarz, stop):
    """:func:`solve` of unchecked arguments."""
    PETSc, _ = load()
    distributed, (fixed, pin, fixed_values) = isinstance(A, PETSc.Mat), constraint
    comm = A.getComm().tompi4py() if distributed else communicator(comm)
    with agreed(comm):
        rtol, maxiter, options = stop
        stop = Stop(as_number(rtol, "rtol"), as_integer(maxiter, "maxiter", 0), _as_options(options))
        if distributed:
            _check_distributed(PETSc, A, b, fixed is not None or fixed_values is not None or checked(fixed, pin))
        subdomains = as_integer(subdomains, "subdomains")
    require_same(comm, rtol=stop.rtol, maxiter=stop.maxiter, options=stop.options, subdomains=subdomains)
    if distributed:
        return _iterate(Schwarz(A, subdomains=subdomains, **schwarz), b, stop)
    with without_warnings(MeshsolveWarning if comm.rank else ()):
        with agreed(comm):
            system = System(A, b, fixed, pin, fixed_values)
        return _solve_whole(comm, system, subdomains, schwarz, stop)


def _solve_whole(comm, system, subdomains, schwarz, stop):
    """(x, info) of a :class:`System`."""
    require_same(comm, **system.inputs)
    report = Report()
    with report.phase("partition"):
        with agreed(comm):
            part = parts_of(system.block, comm.size * subdomains)
        P, order, mine = distribute(comm, system.block, part)
    numbers = order if system.numbers is None else system.numbers[order]
    with in_callers_numbers(numbers):
        S = Schwarz(P, part[order[mine]] - part[order[mine]].min(initial=len(order)), **schwarz)
    rhs = P.createVecLeft()
    rhs.array_w[:] = system.rhs[order[mine]]
    x, info = _iterate(S, rhs, stop)
    info.report.merge(report)
    info.singular = system.singular
    solution = gathered(comm, order, x.array_r)
    with without_warnings(MeshsolveWarning):                # given when the right-hand side was made
        return system.whole(lambda rhs: solution), info


def _iterate(S, b, stop):
    """(x, info) by a KSP with the preconditioner S, for distributed vectors. Every rank gets the same info."""
    PETSc, _ = load()
    ksp, x, scale = _ksp(PETSc, S, stop), b.duplicate(), b.norm() or 1.0
    iterations, residuals = 0, []
    with S.report.phase("solve"):
        x.set(0)
        for _ in range(ROUNDS):
            ksp.solve(b, x)
            iterations += ksp.getIterationNumber()
            residuals += [float(value) / scale for value in ksp.getConvergenceHistory()]
            residual = (b - S.P * x).norm() / scale
            if not residual > stop.rtol or ksp.getConvergedReason() < 0 or iterations >= stop.maxiter:
                break
            ksp.setInitialGuessNonzero(True)
            ksp.setTolerances(max_it=stop.maxiter - iterations)
    reason = CONVERGED if residual <= stop.rtol else _reason(ksp)
    S.report.facts.update(iterations=iterations, subdomains=S.subdomains, coarse_size=S.coarse_size, threads=S.threads)
    info = SchwarzInfo("schwarz", bool(residual <= stop.rtol), iterations, float(residual), residuals, reason, S.report,
                       subdomains=S.subdomains, coarse_size=S.coarse_size, condition=_condition(ksp), left_out=S.left_out)
    if not info.converged and S.comm.rank == 0:
        warn(f"petsc.solve: {reason} after {counted(iterations, 'iteration')}, relative residual {residual:.3g}", ConvergenceWarning)
    ksp.destroy()
    return x, info


def _ksp(PETSc, S, stop):
    """Return a KSP for S: conjugate gradients, or GMRES if S is restricted, with the caller's options."""
    ksp = PETSc.KSP().create(S.comm)
    ksp.setType("gmres" if S.restricted else "cg")
    ksp.setOperators(S.P)
    ksp.setPC(S.pc)
    if S.restricted:
        ksp.setPCSide(PETSc.PC.Side.RIGHT)
        ksp.setGMRESRestart(RESTART)
    ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
    ksp.setTolerances(rtol=stop.rtol, max_it=stop.maxiter)
    ksp.setConvergenceHistory(stop.maxiter + 1)
    ksp.setComputeEigenvalues(True)
    prefix, database = f"meshsolve_{next(PREFIXES)}_", PETSc.Options()
    for name, value in stop.options.items():
        database.setValue(prefix + name, value)
    ksp.setOptionsPrefix(prefix)
    ksp.setFromOptions()
    for name in stop.options:
        database.delValue(prefix + name)
    return ksp


def _condition(ksp):
    """Return the ratio of the extreme eigenvalues that the iteration estimates, or NaN."""
    values = np.real(ksp.computeEigenvalues())
    return float(values.max() / values.min()) if len(values) and values.min() > 0 else np.nan


def _reason(ksp):
    """Return why a KSP stopped without a solution, in words."""
    names = type(ksp).ConvergedReason
    number = ksp.getConvergedReason()
    name = next((name for name in dir(names) if name.startswith("DIVERGED") and getattr(names, name) == number), None)
    if name is None:                                        # PETSc's residual has converged, the true one has not
        return "rounding errors keep the true residual above rtol"
    return REASONS.get(name, name)


def _as_options(options):
    """Return checked options of a KSP."""
    if options is None:
        return {}
    if not isinstance(options, dict) or not all(isinstance(name, str) and name.startswith("ksp_") for name in options):
        raise InvalidInputError(f'options must be a dict of PETSc options of a KSP, such as {{"ksp_type": "minres"}}, got {shown(options)}')
    return dict(options)


def _check_distributed(PETSc, A, b, constrained):
    """Raise InvalidInputError if the arguments do not fit a PETSc.Mat."""
    if constrained:
        raise InvalidInputError("fixed= and pin=True need a matrix that every rank has, A is a PETSc.Mat: use A.zeroRowsColumns")
    if not isinstance(b, PETSc.Vec) or b.getSizes() != A.getSizes()[0]:
        raise InvalidInputError(f"b must be a PETSc.Vec with the rows of A, got {shown(b)}: A.createVecLeft() makes one")
