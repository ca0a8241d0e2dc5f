"""Eigenvectors of a mesh's Laplacian by LOBPCG, with the approximate factor of ParAC as preconditioner.

There is no complete factorization, so memory stays O(edges).
Source: Knyazev 2001, "Toward the optimal preconditioned eigensolver" (LOBPCG as in scipy).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from meshsolve import api
from meshsolve.errors import ConvergenceWarning, InvalidInputError, MeshsolveWarning
from meshsolve.operators import cotan_laplacian, graph_laplacian, mass_matrix
from meshsolve.options import as_integer, counted, one_of
from meshsolve.report import warn

LAPLACIANS = ("graph", "cotan")
DENSE = 200                         # largest number of rows for the dense solver
RTOL = 3e-4                         # residual tolerance, times median(diagonal) / sqrt(n); collapsed triangles distort the mean
POOR = 0.5                          # relative residual above which a warning is issued


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The smallest nonzero eigenvalues, ascending, and their eigenvectors, which are 0 outside the largest component.

    Attributes
    ----------
    values : (k,) float64
    vectors : (n, k) float64
        Orthonormal (in the mass matrix, for the cotangent Laplacian). The largest entry of each is positive.
    residuals : (k,) float64
        ``|M^-1/2 (L v - value M v)| / value``, a bound on the relative error of each value. The error is about its square.
    iterations : int
        Iterations of LOBPCG; 0 for the dense solver.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    iterations: int


def eigenvectors(mesh, count=8, laplacian="graph", seed=0, threads=None):
    """Compute the ``count`` smallest nonzero eigenvalues of a Laplacian of the mesh's largest component, with eigenvectors.

    Parameters
    ----------
    mesh : Mesh
    count : int from 1 to 100
    laplacian : {"graph", "cotan"}
        Unit weights, or the generalized problem L v = value M v with cotangent weights and lumped masses.
    seed : int >= 0
    threads : int, optional

    Returns
    -------
    Spectrum

    Raises
    ------
    InvalidInputError
        The largest component has at most ``count`` vertices, or zero area (cotan).

    Warns
    -----
    ConvergenceWarning
        The iteration stopped before its tolerance.
    """
    count = as_integer(count, "count", 1, 100)
    one_of(laplacian, "laplacian", LAPLACIANS)
    rows = np.flatnonzero(mesh.components == np.bincount(mesh.components).argmax())
    if len(rows) <= count:
        raise InvalidInputError(f"count must be below the {counted(len(rows), 'vertex')} of the largest component, got {count}")
    L = graph_laplacian(mesh) if laplacian == "graph" else cotan_laplacian(mesh)
    L, mass = L[rows][:, rows], np.ones(len(rows))
    if laplacian == "cotan":
        mass = mass_matrix(mesh).diagonal()[rows]
        if not mass.mean() > 0:
            raise InvalidInputError("the largest component has zero area: use laplacian=\"graph\"")
        mass = np.maximum(mass, 1e-10 * mass.mean())
    small = len(rows) <= max(DENSE, 5 * (count + 4))
    values, vectors, iterations = _dense(L, mass, count) if small else _lobpcg(L, mass, count, seed, threads)
    defect = (L @ vectors - mass[:, None] * vectors * values) / np.sqrt(mass)[:, None]
    residuals = np.linalg.norm(defect, axis=0) / values
    if residuals.max() > POOR:
        warn(f"LOBPCG stopped at a relative residual of {residuals.max():.2g}: the eigenvectors may be "
             "inaccurate", ConvergenceWarning)
    extended = np.zeros((len(mesh.vertices), count))
    extended[rows] = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(count)])
    return Spectrum(values, extended, residuals, iterations)


def _dense(L, mass, count):
    values, vectors = scipy.linalg.eigh(L.toarray(), np.diag(mass))
    return values[1:count + 1], vectors[:, 1:count + 1], 0


def _lobpcg(L, mass, count, seed, threads):
    """Iterate in the variable sqrt(M) v, a standard eigenproblem, with some extra vectors for faster convergence."""
    root = np.sqrt(mass)
    scale = sp.diags_array(1 / root)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MeshsolveWarning)           # positive off-diagonal entries do not matter in a preconditioner
        P = api.parac(L, rhs=10 * count, seed=seed, threads=threads)
    A = sp.csr_array(scale @ L @ scale)
    M = spla.LinearOperator(A.shape, matvec=lambda r: root * (P @ (root * r.ravel())),
                            matmat=lambda R: root[:, None] * (P @ (root[:, None] * R)), dtype=np.float64)
    X = np.random.default_rng(seed).standard_normal((len(mass), count + max(2, count // 4)))
    X -= np.outer(root, root @ X / mass.sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)                # scipy's convergence warning; the caller checks residuals
        tol = RTOL * np.median(A.diagonal()) / len(mass) ** 0.5
        values, vectors, history = spla.lobpcg(A, X, M=M, Y=root[:, None], largest=False, maxiter=300, tol=tol,
                                               retResidualNormsHistory=True)
    return values[:count], vectors[:, :count] / root[:, None], len(history) - 1
