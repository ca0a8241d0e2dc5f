"""The coarse space of a two-level Schwarz method: few vectors of each subdomain, on which A is solved exactly.

Let D be the partition of unity of a subdomain, 1 / (number of subdomains that have a row), and A_i its block of A. "constants" takes D
times 1 on each connected piece (Nicolaides 1987). "modes" takes D v for the lowest modes of N v = lambda D A_i D v, where N is the
Neumann matrix: A_i without the edges that leave the subdomain. The condition number is then at most C (1 + 1 / lambda), lambda the
smallest eigenvalue left out, whatever the number of subdomains and the jumps of the coefficients.
Source: Spillane, Dolean, Hauret, Nataf, Pechstein, Scheichl 2014 (GenEO), with A_i in place of the overlap on the right. Entries above
the diagonal that are positive count nothing in N, so N is always semidefinite.
Cost: a shift-invert Lanczos iteration a subdomain; then two products with A for each product with the coarse inverse.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from meshsolve.api import cholesky
from meshsolve.eigen import eigsh
from meshsolve.errors import ConvergenceWarning
from meshsolve.petsc.distribute import local_csr
from meshsolve.petsc.environment import agreed, load
from meshsolve.report import without_warnings

FIRST = 8               # modes of a subdomain that are computed at first; twice as many while all are below the threshold
THRESHOLD = 0.1         # eigenvalue above which a mode is left out: 1 / 0.1 bounds the condition number up to a constant
TOL = 1e-3              # residual of a mode; more accurate ones do not save iterations
DENSE = 2000            # rows up to which the inverse of the coarse matrix is stored
NULL = 1e-12            # eigenvalue of the coarse matrix up to which it counts as 0; vectors have unit energy in their subdomain


def constants(S, D):
    """Return D times the indicator of each connected piece of a subdomain, (n, pieces), of unit length in the diagonal of S."""
    count, piece = connected_components(S, directed=False)
    V = D[:, None] * (piece[:, None] == np.arange(count))
    return V / np.sqrt(S.diagonal() @ V**2)


def modes(S, row_sums, D, most, threads):
    """Return D times the lowest modes of a subdomain, (n, k), and the smallest computed eigenvalue that was left out, or infinity.

    Parameters
    ----------
    S : (n, n) csr_array
        Block of A.
    row_sums : (n,)
        Row sums of A itself.
    D : (n,)
        Partition of unity.
    most : int
        Largest number of modes.
    """
    n = S.shape[0]
    if n == 1:
        return D[:, None] / np.sqrt(S.diagonal()), np.inf
    N, B = neumann(S, row_sums), sp.diags_array(D) @ S @ sp.diags_array(D)
    k = min(FIRST, most + 1, n - 1)
    while True:
        with without_warnings(ConvergenceWarning):          # a rough mode serves as well
            values, V, _ = eigsh(N, k, M=B, tol=TOL, count=False, device="cpu", threads=threads)
        if values[-1] > THRESHOLD or k == min(most + 1, n - 1):
            break
        k = min(2 * k, most + 1, n - 1)
    taken = max(1, min(int(np.count_nonzero(values <= THRESHOLD)), most))
    return D[:, None] * V[:, :taken], float(values[taken]) if taken < len(values) else np.inf


def neumann(S, row_sums):
    """Return the Neumann matrix of a subdomain: the graph Laplacian of its negative entries, and what the rows of A sum to."""
    off = S - sp.diags_array(S.diagonal())
    off.data = np.minimum(off.data, 0)
    return sp.csr_array(off + sp.diags_array(np.maximum(row_sums, 0) - off.sum(axis=1)))


class Coarse:
    """Z (Z^T A Z)^-1 Z^T for a distributed A.

    Parameters
    ----------
    P : PETSc.Mat
        The matrix A.
    blocks : list of (PETSc.IS, (n, k) array)
        Rows of each subdomain of this rank, and its vectors.
    comm : communicator of mpi4py
    """

    def __init__(self, P, blocks, comm):
        PETSc, _ = load()
        self.comm = comm
        self.Z = _assembled(PETSc, P, blocks, comm)
        self.c = self.Z.createVecRight()
        self.mine = slice(*self.c.getOwnershipRange())
        self.size = self.Z.getSize()[1]

    def update(self, P, threads):
        """Compute the inverse of Z^T A Z for the values of A, on each rank."""
        E = sp.csr_array(sp.vstack(self.comm.allgather(local_csr(P.ptap(self.Z)))))
        E = sp.csr_array((E + E.T) / 2)
        with agreed(self.comm):
            if self.size <= DENSE:
                self.inverse = _pseudo_inverse(E.toarray())
            else:
                self.inverse = cholesky(E + NULL * sp.eye_array(self.size), threads=threads, device="cpu")

    def apply(self, r):
        """Return Z (Z^T A Z)^-1 Z^T r, a new vector."""
        self.Z.multTranspose(r, self.c)
        c = np.concatenate(self.comm.allgather(self.c.array_r.copy()))
        self.c.array_w[:] = (self.inverse @ c)[self.mine] if np.isfinite(c).all() else np.nan
        return self.Z * self.c


def _assembled(PETSc, P, blocks, comm):
    """Return Z as a PETSc.Mat whose columns are those of the subdomains, in the order of the ranks."""
    width = sum(V.shape[1] for _, V in blocks)
    entries = P.createVecRight()                            # entries of each row of Z
    for rows, V in blocks:
        entries.setValues(rows, np.full(rows.getLocalSize(), float(V.shape[1])), addv=True)
    entries.assemble()
    most = int(entries.max()[1])                            # one number for all rows: an empty array on some rank would make others wait
    Z = PETSc.Mat().createAIJ((P.getSizes()[0], (width, None)), nnz=(min(most, width), most), comm=comm)
    at = Z.getOwnershipRangeColumn()[0]
    for rows, V in blocks:
        Z.setValues(rows, np.arange(at, at := at + V.shape[1], dtype=PETSc.IntType), V)
    Z.assemble()
    return Z


def _pseudo_inverse(E):
    """Return the inverse of a symmetric semidefinite matrix on the span of its eigenvectors that are not null vectors."""
    values, V = np.linalg.eigh(E)
    kept = values > NULL * max(values[-1], 1.0)
    return (V[:, kept] / values[kept]) @ V[:, kept].T
