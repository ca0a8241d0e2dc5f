"""Maps to the plane that keep lengths: as rigid as possible (ARAP), and symmetric Dirichlet energy without flips (SLIM).

ARAP alternates rotations of all faces with solves on one factor; faces may flip. SLIM minimizes the symmetric Dirichlet energy, the
sum of A (|J|^2 + |J^-1|^2) over faces of area A, where J is the Jacobian of the map. It is 4 A at an isometry. Each step minimizes the
quadratic proxy sum A |W (J - R)|^2, which has the gradient of the energy at the current map. Here J = T R with a symmetric T and a
rotation R, and W^2 = I + T^-1 + T^-2 + T^-3. The step ends before a face flips.

Sources: Liu, Zhang, Xu, Gotsman, Gortler 2008 (ARAP); Rabinovich, Poranne, Panozzo, Sorkine-Hornung 2017 (SLIM); Smith, Schaefer
2015, section 3.2 (largest step without flips).
Cost: ARAP one factor of n rows and a solve an iteration; SLIM a refactorization of 2 n rows an iteration.
"""

from __future__ import annotations

import functools

import numpy as np

from meshsolve import report
from meshsolve.api import cholesky
from meshsolve.errors import InvalidInputError
from meshsolve.mesh.elements import FLATTEST
from meshsolve.mesh.measures import flattened_faces, map_jacobians
from meshsolve.operators import Assembly
from meshsolve.operators.rigid import FaceRotations, alternate

ZERO = 1e-24            # ARAP energy relative to the squared size of the map that is rounding error
PROXIMAL = 1e-4         # weight of |x - last x|^2 in the proxy relative to the mean mass: makes the translations determined
SHARE = 0.9             # of the step at which a first face has no area
ARMIJO = 1e-4           # share of the decrease that the slope predicts
HALVINGS = 60           # of a step: then the decrease is below rounding errors


def arap(mesh, L, uv, pins, iterations, tol, options):
    """(uv, energy, iterations) from a start uv (n, 2). ``pins`` are None, or rows, ascending, and their images."""
    if pins is None:
        solve = cholesky(L, pin=True, **options).solve
    elif len(pins[0]) == len(uv):
        return uv, FaceRotations(mesh, options["threads"]).fit(uv), 0
    else:
        F = cholesky(L, fixed=pins[0], **options)
        solve = functools.partial(F.solve, fixed_values=pins[1])
    rotations, least = FaceRotations(mesh, options["threads"]), ZERO * float((np.ptp(uv, axis=0) ** 2).sum())
    uv, energy, steps = alternate(rotations, solve, uv, iterations, tol, least)
    return uv, rotations.fit(uv) if energy is None else energy, steps


def slim(mesh, uv, iterations, tol, options):
    """(uv, energy, iterations) from a start uv (n, 2) without flips."""
    energy, steps, factor = _Dirichlet(mesh, options["threads"]), 0, None
    uv = energy.scaled(uv)
    value = energy.value(uv)
    while steps < iterations:
        A, force = energy.proxy(uv)
        factor = cholesky(A, **options) if factor is None else factor.refactor(A)
        step = factor.solve(force.T.ravel()).reshape(2, -1).T
        before, steps = value, steps + 1
        uv, value = _searched(energy, uv, step, value, -2 * float((force * step).sum()))
        report.count(steps, iterations)
        if before - value <= tol * before:
            break
    return uv, value, steps


def _searched(energy, uv, step, value, slope):
    """(uv, energy) at the first step length that lowers the energy enough, halved from the largest one without flips."""
    length = min(1.0, SHARE * energy.first_flip(uv, step))
    for _ in range(HALVINGS):
        trial = uv + length * step
        after = energy.value(trial)
        if after <= value + ARMIJO * length * slope:
            return trial, after
        length *= 0.5
    return uv, value


class _Dirichlet:
    """The symmetric Dirichlet energy of maps of one mesh."""

    def __init__(self, mesh, threads):
        self._faces, self._n = mesh.faces, len(mesh.vertices)
        flat = flattened_faces(mesh.vertices, mesh.faces)
        base, along, height = flat.T
        longest = np.maximum(np.maximum(base**2, along**2 + height**2), (along - base) ** 2 + height**2)
        thin = base * height <= FLATTEST * longest
        if thin.any():
            raise InvalidInputError(f"method='slim' needs faces with an area, face {int(thin.argmax())} has none; use 'arap', or remove it")
        self._flat, self._area = flat, 0.5 * base * height
        second = np.stack([1 / base, -along / (base * height)], axis=1)
        third = np.stack([np.zeros_like(base), 1 / height], axis=1)
        self._hats = np.stack([-second - third, second, third], axis=1)                  # (m, 3, 2) gradients
        self._stiffness = self._area[:, None, None] * np.einsum("fia,fja->fij", self._hats, self._hats)
        self._plan = Assembly.of_elements(np.hstack([self._faces, self._faces + self._n]), 2 * self._n, threads)

    def jacobians(self, uv):
        """(4, m) entries J00, J01, J10, J11 of the map."""
        return map_jacobians(self._flat, self._faces, uv)

    def value(self, uv):
        """The energy, infinite if a face is flipped or has no area."""
        J = self.jacobians(uv)
        determinant = _determinant(J)
        if not (determinant > 0).all():
            return np.inf
        with np.errstate(over="ignore"):
            return float((self._area * (J * J).sum(axis=0) * (1 + determinant**-2)).sum())

    def scaled(self, uv):
        """The map in the scale of least energy."""
        J = self.jacobians(uv)
        squares = self._area * (J * J).sum(axis=0)
        return uv * ((squares / _determinant(J) ** 2).sum() / squares.sum()) ** 0.25

    def proxy(self, uv):
        """(A (2 n, 2 n), force (n, 2)): A step = force is the step of the proxy, and -2 force the gradient of the energy."""
        J = self.jacobians(uv)
        determinant, cosine, sine = _determinant(J), J[0] + J[3], J[2] - J[1]
        length = np.hypot(cosine, sine)                     # positive where the determinant is
        R = np.stack([cosine, -sine, sine, cosine]).reshape(2, 2, -1) / length
        T = np.einsum("abf,cbf->acf", J.reshape(2, 2, -1), R)
        inverse = np.stack([T[1, 1], -T[0, 1], -T[1, 0], T[0, 0]]).reshape(2, 2, -1) / determinant
        square = np.einsum("abf,bcf->acf", inverse, inverse)
        cube = np.einsum("abf,bcf->acf", square, inverse)
        weights = np.eye(2)[:, :, None] + inverse + square + cube
        blocks = np.einsum("abf,fij->faibj", 0.5 * (weights + weights.transpose(1, 0, 2)), self._stiffness)
        k, i = np.arange(2)[:, None], np.arange(3)
        blocks[:, k, i, k, i] += (PROXIMAL * self._n / (3 * self._area.sum()) * self._area)[:, None, None]
        pull = self._area * np.einsum("abf,bcf->acf", cube - T, R)
        at_corners = np.einsum("acf,fic->afi", pull, self._hats)
        force = [np.bincount(self._faces.ravel(), part.ravel(), self._n) for part in at_corners]
        return self._plan(blocks.reshape(-1, 6, 6)), np.stack(force, axis=1)

    def first_flip(self, uv, step):
        """The least positive length of the step at which a face has no area, or infinity."""
        J, d = self.jacobians(uv), self.jacobians(step)
        a, c = _determinant(d), _determinant(J)
        b = J[0] * d[3] + J[3] * d[0] - J[1] * d[2] - J[2] * d[1]
        root = np.sqrt(np.maximum(b * b - 4 * a * c, 0))
        q = -0.5 * (b + np.copysign(root, b))
        with np.errstate(divide="ignore", invalid="ignore"):
            both = np.stack([q / a, c / q])
        return float(np.where((b * b >= 4 * a * c) & (both > 0), both, np.inf).min(initial=np.inf))


def _determinant(J):
    return J[0] * J[3] - J[1] * J[2]
