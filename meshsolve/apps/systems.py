"""The linear systems of smoothing and flows: M + s L and M + s L M^-1 L at moving positions, on the host and on the GPU.

M is the lumped mass, L the cotangent Laplacian. The pattern never changes; values are computed at the current positions. Lengths and
masses are compared within a component. So each part of a surface becomes what it would become alone.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import device as _device
from meshsolve import order
from meshsolve.errors import InvalidInputError, MeshsolveError
from meshsolve.memory import ensure_memory
from meshsolve.mesh.elements import FLATTEST
from meshsolve.mesh.measures import component_sums, mean_edges
from meshsolve.operators import assembler
from meshsolve.options import thread_count
from meshsolve.sparse.columns import max_abs, reduce_columns
from meshsolve.sparse.cuda import without_diagonal
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import CUDA, HOST, Host
from meshsolve.sparse.product import norm1, residual

AUTO_STEP = 1.0             # automatic dt in squared mean edge lengths of a component: removes noise between neighbors, keeps the shape
AUTO_CONFORMAL = 2e-3       # automatic dt of the conformalized flow in areas: a scan is a sphere after about 50 steps
LEAST_MASS = 1e-10          # smallest mass of a vertex relative to the mean of its component, for a vertex between faces of no area
HELD = 1e-12                # smallest mass relative to the diagonal entry that it is added to, above rounding errors
SQUARED_ENTRY = 36          # peak bytes per entry of the squared Laplacian: the product and its sum with the mass
BILAPLACIAN = {"flattest": 1e-3, "least": 1e-4}     # order 2 squares every weight, so extremes are bounded more tightly


class System:
    """Values of M + s L at moving positions, on the host.

    Positions are relative to the center of the mesh, or of each component: parts far from the origin keep their digits.

    Parameters
    ----------
    mesh : Mesh
    flattest : float
        See :class:`meshsolve.operators.CotanAssembler`.
    least : float
        Smallest mass of a vertex relative to the mean of its component.
    threads : int, optional
    weight : (n,) float64 or 1
        Weight of each vertex' position relative to smoothness.
    border : (k,) integers, optional
        Vertices whose curvature does not count at order 2: those of a fixed boundary. A surface is bent at them without resistance, as a
        plate on simple supports, so that flat sheets stay as they are.
    """

    place: Host = HOST

    def __init__(self, mesh, flattest=FLATTEST, least=LEAST_MASS, threads=None, weight=1.0, border=None):
        self.weight = weight if np.ndim(weight) == 0 else self.place.bring(weight)
        self.mesh, self.least, self.xp, bring = mesh, least, self.place.xp, self.place.bring
        self.has_parts = has_parts(mesh)
        self.assembler = assembler(mesh, flattest, self.place.name, threads)
        self._used = np.zeros(len(mesh.vertices), bool)
        self._used[mesh.faces] = True
        if not self._used.any():
            raise _without_area()
        self.center = reduce_columns("mean", mesh.vertices[self._used])
        if self.has_parts:
            count = np.bincount(mesh.components)
            self.center = (component_sums(mesh.vertices, mesh.components, len(count)) / count[:, None])[mesh.components]
        is_border = np.zeros(len(mesh.vertices), bool)
        is_border[[] if border is None else border] = True
        self.border = bring(is_border)
        self.used, self.rows = (bring(array) for array in (self._used, np.flatnonzero(self._used)))
        self.move(bring(mesh.vertices - self.center))
        if not self.area > 0:
            raise _without_area()
        self.mean_mass = self._mean_mass()

    @property
    def squared_edge(self):
        """The squared mean edge length, positive; (n,) that of each vertex' component if there are several."""
        return squared_edge(self.mesh) if self.has_parts else self.assembler.mean_edge(self.x) ** 2

    def move(self, x):
        """Set the positions to x; compute stiffness values and masses at them."""
        values = self.assembler.values(x)
        self.x, (self.stiffness, self.area_of) = x, values
        self.area = float(self.area_of.sum())

    @property
    def mass(self):
        """(n,) positive masses: the mean mass for an unreferenced vertex, at least ``least`` times it for others."""
        return self.xp.where(self.used, self.xp.maximum(self.area_of, self.least * self.mean_mass), self.mean_mass)

    @property
    def bending_mass(self):
        """(n,) masses that divide the squared curvatures: infinite on the border."""
        return self.xp.where(self.border, np.inf, self.mass)

    def first_order(self, s, stiffness=None):
        """A = M + s L and b = M x, a positive number s or (n,) one of each vertex' component. L is that of the current surface unless its
        values are given."""
        s, weight = self._largest(s)
        data, diagonal = s * (self.stiffness if stiffness is None else stiffness), self.assembler.diagonal
        mass = self.xp.maximum(self.mass * weight, HELD * data[diagonal])
        data[diagonal] += mass
        return self.assembler.matrix(data), mass[:, None] * self.x

    def second_order(self, s):
        """A = M + s L M^-1 L and b = M x; s as in :meth:`first_order`."""
        s, weight = self._largest(s)
        L = self.assembler.matrix(self.stiffness)
        degree = np.diff(L.indptr)
        ensure_memory(SQUARED_ENTRY * min(float(degree @ degree.astype(np.float64)), len(degree) ** 2.0), "the squared Laplacian")
        squared = s * (L @ sp.diags_array(1 / self.bending_mass) @ L)
        mass = np.maximum(self.mass * weight, HELD * squared.diagonal())
        return sp.csr_array(sp.diags_array(mass) + squared), mass[:, None] * self.x

    @property
    def edges(self):
        """The mesh if its edges must join the pattern of a first-order A, so that weights may vanish in later steps; else
        None."""
        return self.mesh

    def ordering(self, A, threads):
        """The ordering of A."""
        return "auto"

    def automatic_step(self, method, area):
        """:func:`automatic_step` for the surface, whose area was ``area`` at first."""
        return automatic_step(self.mesh, method)

    def values_of(self, held):
        """The option ``fixed_values=`` of a solve: the positions of these vertices."""
        return {} if held is None else {"fixed_values": self.x[self.place.bring(held)]}

    def backward_error(self, A, x, b, held=None):
        """max |b - A x| / (|A| |x| + |b|) in the infinity norm, worst column, over the rows that are not held."""
        return _backward_error(_without(b - A @ x, held), np.add.reduceat(np.abs(A.data), A.indptr[:-1]).max(), x, b)   # no row is empty

    def extent(self):
        """The longest side of the box around the surface."""
        x = self.x if len(self.rows) == len(self.x) else self.x[self.rows]
        return float((reduce_columns("max", x) - reduce_columns("min", x)).max())

    def centroids(self):
        """(area, centroid) of the surface; (count,) and (count, 3) on the host for each component if several have faces."""
        if not self.has_parts:
            return self.area, self.area_of @ self.x / self.area
        area_of, x = (_device.to_host(array) for array in (self.area_of, self.x))
        component, count = self.mesh.components, int(self.mesh.components.max()) + 1
        area = component_sums(area_of, component, count)
        return area, component_sums(area_of[:, None] * x, component, count) / np.where(area > 0, area, 1)[:, None]

    def positions(self, x, held=None):
        """x on the host, in the coordinates of the mesh; unreferenced and held vertices do not move."""
        x = _device.to_host(x)
        if not np.isfinite(x).all():
            raise MeshsolveError("the smoothed positions are not finite: the system is too ill-conditioned; try a smaller step")
        moves = self._used.copy()
        if held is not None:
            moves[held] = False
        return np.where(moves[:, None], x + self.center, self.mesh.vertices)

    def _largest(self, s):
        """(the largest s, weights): M and weights of s / s_c in the rows of a component give the solution for its own s_c."""
        if np.ndim(s) == 0:
            return s, self.weight
        most = float(np.max(s))
        return most, self.weight * self.place.bring(most / s)

    def _mean_mass(self):
        """The mean mass of the vertices with faces, or (n,) that of each vertex' component if there are several."""
        whole = self.area / np.count_nonzero(self._used)
        if not self.has_parts:
            return whole
        component, count = self.mesh.components, int(self.mesh.components.max()) + 1
        mean = component_sums(_device.to_host(self.area_of), component, count) / np.bincount(component, minlength=count)
        return self.place.bring(np.where(mean > 0, mean, whole)[component])


class CudaSystem(System):
    """The same on the GPU; the mesh stays on the host."""

    place, edges = CUDA, None

    def second_order(self, s):
        indptr, indices, data, diagonal = self.assembler.squared(self.stiffness, self.bending_mass)
        s, weight = self._largest(s)
        data *= s
        mass = self.xp.maximum(self.mass * weight, HELD * data[diagonal])
        data[diagonal] += mass
        return CUDA.csr(data, indices, indptr, self.assembler.shape), mass[:, None] * self.x

    def ordering(self, A, threads):
        """Nested dissection that starts from the patches of the operators."""
        pattern = Csr(A.shape[0], A.indptr.astype(np.int64), A.indices.astype(np.int32))
        return order.dissect_cuda(without_diagonal(pattern), 0, thread_count(threads), mesh_patches=self.assembler.patches)

    def automatic_step(self, method, area):
        return automatic_step(self.mesh, method) if self.has_parts else _step_of(method, self.squared_edge, area)

    def backward_error(self, A, x, b, held=None):
        pattern = A.indptr.astype(np.int64), A.indices.astype(np.int32)
        return _backward_error(_without(residual(*pattern, A.data, x, b), held), norm1(*pattern, A.data), x, b)


SYSTEMS: dict[str, type[System]] = {"cpu": System, "cuda": CudaSystem}


def automatic_step(mesh, method):
    """The time step of a method that ``"auto"`` stands for: it removes noise between neighbors and scales with the mesh.

    A number, or (n,) that of each vertex' component if there are several.
    """
    area = mesh.face_areas
    if has_parts(mesh):
        component = mesh.components
        area = component_sums(area, component[mesh.faces[:, 0]], int(component.max()) + 1)[component]
    else:
        area = float(area.sum())
    return _step_of(method, squared_edge(mesh), area)


def has_parts(mesh):
    """True if several components of the mesh have faces."""
    return bool((mesh.components[mesh.faces] != mesh.components[mesh.faces[:1, :1]]).any())


def squared_edge(mesh):
    """The squared mean edge length, or (n,) that of each vertex' component if there are several.

    InvalidInputError if no edge has a positive length.
    """
    mean = mesh.edge_lengths.mean() if len(mesh.edges) else 0.0
    if not mean > 0:
        raise _without_area()
    if not has_parts(mesh):
        return float(mean) ** 2
    means = mean_edges(mesh)
    return np.where(means > 0, means, mean)[mesh.components] ** 2


def _without(r, held):
    """r with zeros in the rows that are held."""
    if held is not None:
        r[held if isinstance(r, np.ndarray) else CUDA.bring(held)] = 0
    return r


def _without_area():
    return InvalidInputError("the mesh has no face with an area: there is nothing to smooth")


def _backward_error(left, norm, x, b):
    """The backward error of x from the residual and the norm of A."""
    size = norm * max_abs(x) + max_abs(b)
    return float((max_abs(left) / (size + (size == 0))).max())


def _step_of(method, squared, area):
    if method == "conformalized":
        step = AUTO_CONFORMAL * np.asarray(area)
        return np.where(step > 0, step, squared)[()]
    return squared ** 2 if method == "bi-Laplacian" else AUTO_STEP * squared
