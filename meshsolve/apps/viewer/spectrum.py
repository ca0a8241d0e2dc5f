"""Eigenvectors of a mesh's Laplacian by :func:`meshsolve.eigsh`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from meshsolve.eigen import eigsh
from meshsolve.errors import InvalidInputError
from meshsolve.operators import cotan_laplacian, graph_laplacian, mass_matrix
from meshsolve.options import as_integer, counted, one_of

LAPLACIANS = ("graph", "cotan")


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The smallest nonzero eigenvalues, ascending, and their eigenvectors, which are 0 outside the largest component.

    Attributes
    ----------
    values : (k,) float64
    vectors : (n, k) float64
        Orthonormal (in the mass matrix, for the cotangent Laplacian). The largest entry of each is positive.
    residuals : (k,) float64
        ``||L v - value M v|| / ((||L||_1 + value ||M||_1) ||v||)``.
    iterations : int
        Blocks of 8 solves; 0 for the dense solver.
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
        The iteration stopped before its tolerance, or eigenvalues are missing.
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
    w, X, info = eigsh(L, count, M=sp.diags_array(mass), pin=True, seed=seed, device="cpu", threads=threads)
    extended = np.zeros((len(mesh.vertices), count))
    extended[rows] = X
    return Spectrum(w, extended, info.residuals, info.iterations)
