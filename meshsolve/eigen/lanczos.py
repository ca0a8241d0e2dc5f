"""Block Lanczos with thick restart: the eigenvalues of largest absolute value of an operator C, self-adjoint in the inner product x^T W y.

Each step applies C to the last block and extends the projected matrix T = Q^T W C Q. The result is made orthogonal to the last two
blocks, to which alone T couples it. Every second step then makes the last two blocks, which are "raw", orthogonal to the whole basis:
two sweeps over the basis for 16 columns, for memory bounds their time. At the capacity of the basis the best Ritz vectors are kept and
the others dropped. Cost of a step: one solve with 8 right-hand sides and 32 n dim operations in one sweep.

A raw block has lost orthogonality by eps |theta_1| / ||B||, its successor by |theta_1| / ||B|| times as much. T has errors of the
square of the first loss, because C is symmetric. If the second is not small, its block is dropped, and from then on each step makes its
block orthogonal to the whole basis.

Invariants: Q^T W Q = I to rounding, except for raw blocks and for columns that are zero. C Q = Q T, plus Z B on the last block, where Z is
the next block.

Sources: Wu, Simon 2000 (thick restart); Zhou, Saad 2008 (blocks); Simon 1984 (the error of T); Bielich et al. 2022 (delayed
orthogonalization); Giraud, Langou, Rozloznik 2005 (a second pass of Gram-Schmidt suffices); Yamamoto et al. 2015 (Cholesky QR twice).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve.eigen.basis import WIDTH

DEPENDENT = 1e-12       # a column whose norm falls to this fraction lies in the span of the columns before it, to rounding
CANCELED = 1e-3        # fraction of a norm below which orthogonality to the basis is lost and restored by another pass
REMOVED = 0.1           # part of a column in the basis, relative to what is left of it, above which another pass follows
LOST = 1e-6             # largest part of the second raw block in the basis, relative to its norm, that one pass removes to rounding
RAW = 2                 # blocks that one sweep over the basis makes orthogonal
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
        ||C z - theta z|| / |theta| of z = C x / theta, for x = Q Y, estimated from ||C|| on the last block; infinite where theta is 0.
    left : (dim,) float64
        ||C x - theta x|| / |theta|: times |lambda - sigma|, this is ||A z - lambda M z|| relative to ||M z||.
    """

    theta: np.ndarray
    Y: np.ndarray
    residuals: np.ndarray
    left: np.ndarray

    def values(self, sigma):
        """The eigenvalues of the pencil that belong to those of the operator; -inf where theta is 0."""
        with np.errstate(divide="ignore"):
            return np.where(self.theta == 0, -np.inf, sigma + 1 / self.theta)


class Lanczos:
    """The state of the iteration. Its vectors still lack rows without mass.

    Parameters
    ----------
    operator : callable
        (n, 8), out -> (n, 8): C times a block; the result is ``out``, or a new array.
    weigh : callable or None
        (n, 8) -> (n, 8): W times a block; None for the identity.
    basis : HostBasis or CudaBasis
        Its capacity is that of the iteration and one block more.
    capacity : int
        Blocks of the basis at which it is restarted.
    seed : int
    start : (n, 8) array, optional
        The first block, which is overwritten; by default random.
    is_uneven : bool
        Random blocks are multiplied by C: in rows where C is tiny, entries of another size would stay in all results as rounding errors.
    """

    is_complete = is_deflated = False
    sigma = 0.0                         # the shift of C, if it has one

    def __init__(self, operator, weigh, basis, capacity, seed, start=None, is_uneven=False):
        self.operator, self.basis, self.capacity = operator, basis, capacity
        self.weigh, self.is_weighed = weigh or (lambda block: block), weigh is not None
        self.rng, self.is_uneven = np.random.default_rng(seed), is_uneven
        self.T = np.zeros(((capacity + 1) * WIDTH,) * 2)
        self.blocks = self.kept = self.solves = self.restarts = 0
        self.raw, self.is_delayed = 0, True                 # raw blocks, the next one among them; whether there may be any
        self.border = np.zeros((WIDTH, WIDTH))              # B: couples the next block to the last one
        self._begin(0, self._random() if start is None else start)

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
        Z = self.operator(basis[b], basis.space(b + 1))
        self.solves += 1
        near = 0 if b == self.kept else b - 1               # the blocks that T couples b to, by theory
        H = basis.project(self.weigh(Z), near, b + 1)
        basis.subtract(H, Z, near, b + 1)
        Z, R, left = self._normalized(Z)
        rest = np.zeros(((b + 1) * WIDTH, WIDTH))
        if near == 0 or not self.is_delayed or left <= CANCELED:
            if self.raw:                                    # Z has the errors of a raw block
                self._clean()
                self.step()
                return
            Z, U, rest = self._orthonormal(Z, b + 1)
            rest, R = rest @ R, U @ R
        else:
            self.raw += 1
        rest[near * WIDTH:] += H
        last = slice(b * WIDTH, (b + 1) * WIDTH)
        self.T[:last.stop, last], self.T[last, :last.stop] = rest, rest.T
        self.T[last, last] = (rest[last] + rest[last].T) / 2
        basis[b + 1], self.blocks = Z, b + 1
        self._couple(R)
        if self.raw == RAW:
            self._clean()
        if self.blocks == b:                                # the last raw block was dropped
            self.step()

    def ritz(self):
        """The :class:`Ritz` pairs of T."""
        if self.raw:
            self._clean()
        theta, Y = np.linalg.eigh(self.T[:self.dim, :self.dim])
        order = np.argsort(-np.abs(theta), kind="stable")
        theta, Y = theta[order], Y[:, order]
        last = np.linalg.norm(self.T[:self.dim + WIDTH, self.dim - WIDTH:self.dim], 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.linalg.norm(self.border @ Y[-WIDTH:], axis=0) / np.abs(theta)
            residuals = left * np.minimum(last / np.abs(theta), 1)
        return Ritz(theta, Y, np.where(theta == 0, np.inf, residuals), np.where(theta == 0, np.inf, left))

    def vectors(self, ritz, wanted, scale):
        """(n, len(wanted)) Ritz vectors with these numbers after one more application of C, which the last block contains: C Q Y / theta.
        Rows are multiplied by ``scale``."""
        Y = ritz.Y[:, wanted]
        return self.basis.combine(np.r_[Y, self.border @ Y[-WIDTH:] / ritz.theta[wanted]], scale)

    def filtered(self, ritz, weights):
        """(n, 8) the first block after multiplication of its Ritz vectors by weights."""
        return self.basis.combine((ritz.Y * weights) @ ritz.Y[:WIDTH].T, np.ones(self.basis.n))

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
        self._begin(self.blocks, self._random())
        self.restarts, self.is_deflated = self.restarts + 1, True

    def _begin(self, blocks, block):
        """Go on with a block behind ``blocks`` others, to which T does not couple it."""
        self.basis[blocks] = self._orthonormal(block, blocks)[0]

    def _random(self):
        """A block of random columns, in the range of C where that matters."""
        block = self.basis.random(self.rng)
        return self.operator(block, None) if self.is_uneven else block

    def _couple(self, B):
        """The next block has the coefficients B in C times the last one."""
        b = self.blocks
        self.border, self._coefficients(b, b - 1)[...], self._coefficients(b - 1, b)[...] = B, B, B.T

    def _clean(self):
        """Make the raw blocks orthonormal, and orthogonal to the basis. Where they were Q U, they are Q, and T belongs to Q."""
        first, raw, basis = self.blocks - self.raw + 1, self.raw, self.basis
        Z = basis.several(first, raw)
        part = basis.project(self._weighed(Z), 0, first)
        basis.subtract(part, Z, 0, first)
        for i in range(raw):
            basis[first + i] = Z[i]
        self.raw, self.blocks = 0, first
        if abs(part).max() > LOST:                          # C times the first raw block must be computed again
            self.is_delayed = False
            basis[first], U, _ = self._orthonormal(basis[first], first)
            self._couple(U @ self._coefficients(first, first - 1))
            return
        G = basis.project(self._weighed(basis.several(first, raw)), first, first + raw)
        U = np.linalg.cholesky((G + G.T) / 2).T
        basis.rotate(np.linalg.inv(U), first)
        U1, inverse = U[:WIDTH, :WIDTH], np.linalg.inv(U[:WIDTH, :WIDTH])
        self._couple(U1 @ self._coefficients(first, first - 1))
        if raw == RAW:
            A = self._coefficients(first, first)
            A[...] = inverse.T @ A @ inverse
            A[...] = (A + A.T) / 2
            self.blocks += 1
            self._couple(U[WIDTH:, WIDTH:] @ self._coefficients(first + 1, first) @ inverse)

    def _coefficients(self, row, column):
        """(8, 8) a block of T, as a view."""
        return self.T[row * WIDTH:(row + 1) * WIDTH, column * WIDTH:(column + 1) * WIDTH]

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
                before = max(self._dot(Z, Z[:, c:c + 1], c + 1)[c], 0.0) ** 0.5
                for _ in range(2):
                    if c:
                        h = self._dot(Z, Z[:, c:c + 1], c)
                        Z[:, c] -= Z[:, :c] @ xp.asarray(h)
                        R[:c, c] += h * (attempt == 0)
                norm = max(self._dot(Z, Z[:, c:c + 1], c + 1)[c], 0.0) ** 0.5
                if norm > DEPENDENT * max(before, largest if attempt == 0 else 0):
                    R[c, c] = norm * (attempt == 0)
                    Z[:, c] /= norm
                    break
                Z[:, c] = self._random()[:, 0] if attempt < 2 else 0.0         # the space may be exhausted
        return Z, R, 0.0

    def _dot(self, Z, column, count):
        """(count,) the first columns of Z times one column, on the host."""
        block = self.basis.xp.zeros_like(Z)
        block[:, :1] = column
        return self.basis.gram(Z, self.weigh(block))[:count, 0]

    def _weighed(self, blocks):
        """W times several blocks."""
        return self.basis.xp.stack([self.weigh(blocks[i]) for i in range(len(blocks))]) if self.is_weighed else blocks

    def _keep(self, theta, Y):
        self.basis.rotate(Y)
        self.T[:] = 0
        self.T[range(len(theta)), range(len(theta))] = theta
        self.blocks = self.kept = len(theta) // WIDTH
