"""Block Lanczos with thick restart: the eigenvalues of largest absolute value of an operator C, self-adjoint in the inner product x^T W y.

Each step applies C to the last block, orthogonalizes the result against the whole basis and extends the projected matrix
T = Q^T W C Q. At the capacity of the basis the best Ritz vectors are kept and the others dropped. Cost of a step: one solve with 8
right-hand sides and 32 n dim operations in two sweeps over the basis.

Invariants: Q^T W Q = I to rounding, except for columns that are zero; C Q = Q T + Z B on the last block, Z the next block.

Sources: Wu, Simon 2000 (thick restart); Zhou, Saad 2008 (blocks); Giraud, Langou, Rozloznik 2005 (a second pass of Gram-Schmidt suffices);
Yamamoto et al. 2015 (Cholesky QR twice).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve.eigen.basis import WIDTH

DEPENDENT = 1e-12       # a column whose norm falls to this fraction lies in the span of the columns before it, to rounding
CANCELED = 1e-3        # fraction of a norm below which orthogonality to the basis is lost and restored by another pass
REMOVED = 0.1           # part of a column in the basis, relative to what is left of it, above which another pass follows
ILL = 1e-6              # smallest pivot of a normalized Gram matrix that Cholesky QR, used twice, copes with


@dataclass(frozen=True)
class Ritz:
    """Ritz pairs, by descending absolute value.

    Attributes
    ----------
    theta : (dim,) float64
    Y : (dim, dim) float64
        Eigenvectors of T: the Ritz vectors are Q Y.
    residuals : (dim,) float64
        ||C x - theta x|| / |theta|; infinite where theta is 0.
    """

    theta: np.ndarray
    Y: np.ndarray
    residuals: np.ndarray


class Lanczos:
    """The state of the iteration.

    Parameters
    ----------
    operator : callable
        (n, 8) -> (n, 8): C times a block; the result is a new array.
    weigh : callable or None
        (n, 8) -> (n, 8): W times a block; None for the identity.
    basis : HostBasis or CudaBasis
        Its capacity is that of the iteration and one block more.
    capacity : int
        Blocks of the basis at which it is restarted.
    seed : int
    """

    def __init__(self, operator, weigh, basis, capacity, seed):
        self.operator, self.basis, self.capacity = operator, basis, capacity
        self.weigh = weigh or (lambda block: block)
        self.rng = np.random.default_rng(seed)
        self.T = np.zeros(((capacity + 1) * WIDTH,) * 2)
        self.blocks = self.kept = self.solves = self.restarts = 0
        self.border = np.zeros((WIDTH, WIDTH))              # B: couples the next block to the last one
        self._begin(0)

    @property
    def dim(self):
        """Columns of the basis that T covers."""
        return self.blocks * WIDTH

    @property
    def is_full(self):
        return self.blocks == self.capacity

    def step(self):
        """Extend T by one block."""
        b, basis = self.blocks, self.basis
        Z = self.operator(basis[b])
        self.solves += 1
        near = 0 if b == self.kept else b - 1               # the blocks that T couples b to, by theory
        H = basis.project(self.weigh(Z), near, b + 1)
        basis.subtract(H, Z, near, b + 1)
        Z, R, rest = self._orthonormal(Z, b + 1)
        rest[near * WIDTH:] += H
        last = slice(b * WIDTH, (b + 1) * WIDTH)
        self.T[:last.stop, last], self.T[last, :last.stop] = rest, rest.T
        self.T[last, last] = (rest[last] + rest[last].T) / 2
        basis[b + 1], self.border = Z, R
        self.blocks = b + 1
        if self.blocks < self.capacity:
            following = slice(last.stop, last.stop + WIDTH)
            self.T[following, last], self.T[last, following] = R, R.T

    def ritz(self):
        """The :class:`Ritz` pairs of T."""
        theta, Y = np.linalg.eigh(self.T[:self.dim, :self.dim])
        order = np.argsort(-np.abs(theta), kind="stable")
        theta, Y = theta[order], Y[:, order]
        with np.errstate(divide="ignore", invalid="ignore"):
            residuals = np.linalg.norm(self.border @ Y[-WIDTH:], axis=0) / np.abs(theta)
        return Ritz(theta, Y, np.where(theta == 0, np.inf, residuals))

    def vectors(self, ritz, wanted):
        """(n, len(wanted)) Ritz vectors with these numbers after one more application of C, which the last block contains: Q becomes
        C Q Y / theta."""
        Y = np.zeros((self.dim + WIDTH, -(-len(wanted) // WIDTH) * WIDTH))
        Y[:self.dim, :len(wanted)] = ritz.Y[:, wanted]
        Y[self.dim:, :len(wanted)] = self.border @ ritz.Y[-WIDTH:, wanted] / ritz.theta[wanted]
        self.basis.rotate(Y)
        return self.basis.columns(Y.shape[1] // WIDTH, len(wanted))

    def restart(self, ritz, wanted):
        """Keep the Ritz vectors with these numbers, a multiple of 8; the next block stays."""
        following = self.basis[self.blocks]                  # behind the blocks that are rotated
        self._keep(ritz.theta[wanted], ritz.Y[:, wanted])
        B = self.border @ ritz.Y[-WIDTH:, wanted]
        r = self.dim
        self.T[r:r + WIDTH, :r], self.T[:r, r:r + WIDTH] = B, B.T
        self.basis[self.blocks] = following
        self.restarts += 1

    def deflate(self, ritz, converged):
        """Keep converged Ritz vectors alone and go on with a random block: finds further copies of multiple eigenvalues."""
        missing = -len(converged) % WIDTH                    # zero columns fill the last block
        theta = np.r_[ritz.theta[converged], np.zeros(missing)]
        self._keep(theta, np.c_[ritz.Y[:, converged], np.zeros((self.dim, missing))])
        self._begin(self.blocks)
        self.restarts += 1

    def _begin(self, blocks):
        """A random block behind ``blocks`` others, to which T does not couple it."""
        self.basis[blocks] = self._orthonormal(self.basis.random(self.rng), blocks)[0]

    def _orthonormal(self, Z, blocks):
        """(Z', R, H) with Z = Q H + Z' R, where Q are the first ``blocks`` and Z' is orthonormal and orthogonal to Q. Dependent columns
        of Z become random ones in Z' and zero rows of R."""
        R, H, part = np.eye(WIDTH), np.zeros((blocks * WIDTH, WIDTH)), np.zeros((1, WIDTH))
        for turn in range(4):
            if blocks:
                part = self.basis.project(self.weigh(Z), 0, blocks)
                self.basis.subtract(part, Z, 0, blocks)
                H += part @ R if turn else part
            Z, U, lost = self._normalized(Z)
            R = U @ R
            if lost > CANCELED and (np.linalg.norm(part, axis=0) <= REMOVED * lost * np.linalg.norm(U, axis=0)).all():
                break
        Z, U, _ = self._normalized(Z)
        return Z, U @ R, H

    def _normalized(self, Z):
        """(Z', R, fraction) with Z = Z' R by Cholesky QR; the fraction of its norm that the worst column kept. Ill-conditioned blocks go
        through Gram-Schmidt column by column."""
        G = self.basis.gram(Z, self.weigh(Z))
        norms = np.sqrt(np.maximum(np.diag(G), 0))
        if norms.min() > DEPENDENT * norms.max():
            C = (G + G.T) / 2 / np.outer(norms, norms)
            if np.linalg.eigvalsh(C)[0] > ILL**2:
                U = np.linalg.cholesky(C).T
                return self.basis.times(Z, np.linalg.inv(U * norms)), U * norms, U.diagonal().min()
        return self._one_by_one(Z, norms.max())

    def _one_by_one(self, Z, largest):
        """The same by Gram-Schmidt, twice for each column; a dependent column becomes a random one."""
        R, xp = np.zeros((WIDTH, WIDTH)), self.basis.xp
        for c in range(WIDTH):
            for attempt in range(3):
                before = self._dot(Z, Z[:, c:c + 1], c + 1)[c] ** 0.5
                for _ in range(2):
                    if c:
                        h = self._dot(Z, Z[:, c:c + 1], c)
                        Z[:, c] -= Z[:, :c] @ xp.asarray(h)
                        R[:c, c] += h * (attempt == 0)
                norm = self._dot(Z, Z[:, c:c + 1], c + 1)[c] ** 0.5
                if norm > DEPENDENT * max(before, largest if attempt == 0 else 0):
                    R[c, c] = norm * (attempt == 0)
                    Z[:, c] /= norm
                    break
                Z[:, c] = self.basis.random(self.rng)[:, 0] if attempt < 2 else 0.0         # the space may be exhausted
        return Z, R, 0.0

    def _dot(self, Z, column, count):
        """(count,) the first columns of Z times one column, on the host."""
        block = self.basis.xp.zeros_like(Z)
        block[:, :1] = column
        return self.basis.gram(Z, self.weigh(block))[:count, 0]

    def _keep(self, theta, Y):
        self.basis.rotate(Y)
        self.T[:] = 0
        self.T[range(len(theta)), range(len(theta))] = theta
        self.blocks = self.kept = len(theta) // WIDTH
