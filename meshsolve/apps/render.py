"""Pictures of meshes without a display: a z-buffer in numpy; matplotlib writes captions and the PNG.

A triangle gives a candidate for each sample in its bounding box; a long thin triangle gives one for each sample between its sides
in each row. Barycentric coordinates select candidates inside, and the largest depth selects the visible one. Only visible samples
are shaded. Cost: O(faces + covered samples of all triangles + rows of thin triangles).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.files import as_path, written_whole
from meshsolve.mesh import Mesh, MeshLike, checked_mesh, measures
from meshsolve.mesh.point_cloud import PointCloud
from meshsolve.options import as_integer, as_number, counted, one_of
from meshsolve.sparse.columns import as_array
from meshsolve.types import ArrayLike, Path

SUPERSAMPLE = 2                     # per axis
CHUNK = 4_000_000                   # candidates in memory at a time
SPARSE = 8                          # ratio of samples in the box of a triangle to those it can cover from which it is drawn row by row
SLACK = 0.01                        # distance in samples beyond the sides of a triangle up to which a row has candidates
CLAY = np.array([0.78, 0.83, 0.89])
INSIDE = np.array([0.86, 0.62, 0.45])       # back faces
SQUARES = np.array([0.93, 0.93, 0.93]), np.array([0.25, 0.45, 0.70])        # the two colors of a checkerboard
CHECKERS = 24                       # squares along the longer side of a map
EDGE = 1e-4                         # slack of barycentric weights, so that no sample falls between two faces in float32
CREASE = 0.82                       # cosine to the vertex normal below which a corner is shaded with the normal of its face


def render(path: Path, mesh: MeshLike, after: MeshLike | None = None, captions: Sequence[str] | None = None,
           title: str | None = None, size: int = 720, azimuth: float = 30.0, elevation: float = 18.0, up: str = "y",
           values: ArrayLike | Sequence[ArrayLike] | None = None, colormap: str = "viridis", lines: int = 0,
           uv: ArrayLike | None = None) -> None:
    """Draw a mesh, or two side by side with the same camera and scale, into a PNG file (written whole or not at all).

    Parameters
    ----------
    path : str or path
        Ends in ``.png``.
    mesh : Mesh or PointCloud
        Of a PointCloud the triangles of its stars are drawn.
    after : Mesh or PointCloud, optional
        Drawn to the right of ``mesh``.
    captions : sequence of str, optional
        One for each panel; sizes by default.
    title : str, optional
    size : int
        About the width and height of one panel in pixels, 300 to 4000.
    azimuth, elevation : float
        Direction of the camera in degrees, about the ``up`` axis and above its equator.
    up : {"y", "z"}
        The axis that points up.
    values : (n,) array, optional
        One number for each vertex (a distance, a mode, a stress), shown in colors with a scale; for two meshes a pair of arrays,
        on one scale. Vertices with NaN or infinity keep the color of the mesh.
    colormap : str
        A colormap of matplotlib, for ``values``.
    lines : int
        Number of lines of equal ``values``.
    uv : (n, 2) array, optional
        Texture coordinates of one mesh, drawn as a checkerboard on it and on its map to the plane next to it.

    Raises
    ------
    InvalidInputError
        Not a mesh, no face, another extension, a missing folder, values of another length or without a finite number, an unknown
        colormap. Texture coordinates of another shape, with NaN, or together with ``after`` or ``values``.
    """
    target = as_path(path)
    if target.suffix.lower() != ".png":
        raise InvalidInputError(f"{path}: pictures are written as .png")
    size = as_integer(size, "size", 300, 4000)
    azimuth, elevation = (as_number(angle, name, -np.inf) for name, angle in (("azimuth", azimuth), ("elevation", elevation)))
    view, lines = _camera(azimuth, elevation, up), as_integer(lines, "lines", 0, 1000)
    meshes = [_surface(m, view) for m in ((mesh,) if after is None else (mesh, after))]
    if uv is None:
        colors, scale = _colors(values, meshes, colormap, lines)
    elif len(meshes) == 1 and values is None:
        meshes, colors = _with_map(meshes[0], uv, view)
        scale = None
    else:
        raise InvalidInputError("uv is drawn for one mesh without values: leave out after and values")
    names = _captions(captions, meshes, after is not None)
    placed = [m.vertices @ view.T for m in meshes]
    placed, shape = _to_pixels(placed, [np.bincount(m.faces.ravel(), minlength=len(m.vertices)) > 0 for m in meshes], size)
    panels = [_draw(x, m.faces, shape, paint) for x, m, paint in zip(placed, meshes, colors)]
    with written_whole(path) as part:
        _write(part, panels, names, title, scale)


def _surface(mesh, view):
    """The triangles to draw. Those of a PointCloud are not oriented alike, so each is turned towards the camera."""
    if isinstance(mesh, PointCloud):
        x, faces = mesh.stars.vertices, np.unique(mesh.stars.faces, axis=0)
        away = measures.area_vectors(x, faces) @ view[2] < 0
        return Mesh(x, np.where(away[:, None], faces[:, ::-1], faces))
    mesh = checked_mesh(mesh)
    if len(mesh.faces) == 0:
        raise InvalidInputError("a mesh without faces cannot be drawn")
    return mesh


def _captions(given, meshes, pair):
    """One text for each mesh; by default its sizes."""
    if given is None:
        names = ["before: ", "after: "] if pair else ["", "map: "]
        return [f"{name}{counted(len(m.vertices), 'vertex')}, {counted(len(m.faces), 'face')}" for name, m in zip(names, meshes)]
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != len(meshes):
        raise InvalidInputError(f"captions must hold {len(meshes)} texts, got {given!r}")
    return given


def _with_map(mesh, uv, view):
    """(the mesh and its map to the plane, which faces the camera and is as large; the same :class:`_Checkers` for both)."""
    points = as_array(uv, "uv")
    if points.shape != (len(mesh.vertices), 2) or points.dtype.kind not in "fiu" or not np.isfinite(points).all():
        raise InvalidInputError(f"uv must be two finite numbers for each of {counted(len(mesh.vertices), 'vertex')}, got {points.dtype} of "
                                f"shape {points.shape}")
    points = points - points.min(axis=0)
    extent = float(points.max()) or 1.0
    seen = mesh.vertices[np.unique(mesh.faces)] @ view.T
    low, high = seen.min(axis=0), seen.max(axis=0)
    flat = np.zeros_like(mesh.vertices)
    flat[:, :2] = (points - points.max(axis=0) / 2) * ((high - low)[:2].max() / extent)
    flat = (flat + (low + high) / 2) @ view
    return [mesh, mesh.with_vertices(flat)], [_Checkers(points, extent / CHECKERS)] * 2


class _Checkers:
    """Colors of a checkerboard in the plane of texture coordinates (n, 2), with squares of one side length."""

    def __init__(self, uv, side):
        self._uv, self._side = uv, side

    def __call__(self, corners, weights, at, shape):
        """(k, 3) colors of samples between these corners."""
        u, v = (np.floor(_interpolated(self._uv[corners, k], weights) / self._side) for k in range(2))
        return np.where(((u + v) % 2 == 0)[:, None], *SQUARES)


def _interpolated(values, weights):
    """(k,) values at samples from (k, 3) values at the corners of their triangles."""
    return values[:, 0] * (1 - weights.sum(axis=1)) + values[:, 1] * weights[:, 0] + values[:, 2] * weights[:, 1]


def _colors(values, meshes, colormap, lines):
    """(:class:`_Colors` or None for each mesh, arguments of the scale)."""
    if values is None:
        return [None] * len(meshes), None
    fields = _fields(values, meshes)
    scale = _scale(fields, colormap)
    return [_Colors(field, *scale, lines) for field in fields], scale


class _Colors:
    """Colors of numbers at vertices, interpolated at each sample: lines are as sharp as the picture.

    Parameters
    ----------
    field : (n,) float64
    low, high : float
    colormap : callable of numbers from 0 to 1
    lines : int
    """

    def __init__(self, field, low, high, colormap, lines):
        self._field, self._low, self._span, self._colormap, self._lines = field, low, high - low or 1.0, colormap, lines

    def __call__(self, corners, weights, at, shape):
        """(k, 3) colors of samples between these corners, (k, 3) vertices; ``at`` are their positions in the panel."""
        with np.errstate(invalid="ignore"):
            x = _interpolated((self._field[corners] - self._low) / self._span, weights)
        known = np.isfinite(x)
        color = np.where(known[:, None], self._colormap(np.where(known, x, 0))[:, :3], CLAY)
        if self._lines:
            band = np.full(shape[0] * shape[1], -1)
            band[at[known]] = np.floor(x[known] * self._lines)
            color[_steps(band.reshape(shape))[at]] *= 0.25
        return color


def _steps(band):
    """(height x width,) mask of samples whose band differs from that of the sample to the right or below, both on the mesh."""
    line = np.zeros(band.shape, bool)
    for own, next_one in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:-1], np.s_[1:])):
        line[own] |= (band[own] != band[next_one]) & (band[own] >= 0) & (band[next_one] >= 0)
    line[:, 1:] |= line[:, :-1]                     # two samples wide, like a pixel
    line[1:] |= line[:-1]
    return line.ravel()


def _fields(values, meshes):
    """One (n,) float64 array for each mesh."""
    given = [values] if len(meshes) == 1 else values
    if not isinstance(given, (list, tuple)) or len(given) != len(meshes):
        raise InvalidInputError(f"values must hold {len(meshes)} arrays, one for each mesh")
    fields = []
    for field, mesh in zip(given, meshes):
        field = as_array(field, "values")
        if field.shape != (len(mesh.vertices),) or field.dtype.kind not in "fiub":
            raise InvalidInputError(f"values must be one number for each of {counted(len(mesh.vertices), 'vertex')}, got {field.shape} of "
                                    f"{field.dtype}")
        fields.append(field.astype(np.float64))
    if not any(np.isfinite(field).any() for field in fields):
        raise InvalidInputError("values has no finite number")
    return fields


def _scale(fields, name):
    """(lowest, highest, colormap) of all fields together."""
    from matplotlib import colormaps

    if name not in colormaps:
        raise InvalidInputError(f"colormap must be one of matplotlib's, such as viridis, coolwarm or twilight, got {name!r}")
    finite = [field[np.isfinite(field)] for field in fields]
    return min(f.min() for f in finite if len(f)), max(f.max() for f in finite if len(f)), colormaps[name]


def _camera(azimuth, elevation, up):
    """(3, 3) unit vectors as rows: right, up and towards the camera."""
    one_of(up, "up", ("y", "z"))
    a, e = np.radians(azimuth), np.radians(elevation)
    towards = np.array([np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)])
    right = np.array([np.cos(a), 0.0, -np.sin(a)])
    view = np.stack([right, np.cross(towards, right), towards])
    return view if up == "y" else view[:, [2, 0, 1]]


def _to_pixels(placed, used, size):
    """Scale all meshes by one factor to samples of a panel; return positions (x right, y down, depth) and the panel's shape."""
    seen = np.concatenate([x[u] for x, u in zip(placed, used)])
    low, high = seen.min(axis=0), seen.max(axis=0)
    extent = np.maximum((high - low)[:2], 1e-3 * (high - low).max() or 1.0)
    aspect = np.clip(extent[0] / extent[1], 0.65, 1.6)
    shape = np.array([max(300, round(size / np.sqrt(aspect))), max(300, round(size * np.sqrt(aspect)))]) * SUPERSAMPLE
    scale = 0.9 * min(shape[1] / extent[0], shape[0] / extent[1])
    flip = np.array([scale, -scale, scale])
    middle = np.array([shape[1] / 2, shape[0] / 2, 0])
    return [(x - (low + high) / 2) * flip + middle for x in placed], shape


def _draw(x, faces, shape, colors=None):
    """(height, width, 3) colors of one panel, shaded and averaged over the samples of a pixel."""
    face, weights, depth = _visible(x, faces, shape)
    seen = face >= 0
    image = np.ones((shape[0] * shape[1], 3))
    normal, back = _normals(x, faces, face[seen], weights[seen])
    if colors is None:
        paint = np.where(back[:, None], INSIDE, CLAY)
    else:
        paint = colors(faces[face[seen]], weights[seen], np.flatnonzero(seen), tuple(shape))
    image[seen] = _shade(normal, paint)
    image = image.reshape(*shape, 3)
    image *= _ambient(depth.reshape(shape), seen.reshape(shape), 0.02 * max(shape))[..., None]
    small = image.reshape(shape[0] // SUPERSAMPLE, SUPERSAMPLE, shape[1] // SUPERSAMPLE, SUPERSAMPLE, 3).mean(axis=(1, 3))
    return np.clip(small, 0, 1)


def _visible(x, faces, shape):
    """The nearest face of each sample (-1: none), the weights of its corners 1 and 2 at the sample, and the depth."""
    samples = shape[0] * shape[1]
    nearest, weights = np.full(samples, -1, np.int32), np.zeros((samples, 2), np.float32)
    depth = np.full(samples, -np.inf, np.float32)
    for face, planes, low, wide, number in _boxes([x[faces[:, k]] for k in range(3)], shape):
        at, f, w, z = _candidates(planes, low, wide, number, shape[1])
        np.maximum.at(depth, at, z)
        front = z == depth[at]
        nearest[at[front]], weights[at[front]] = face[f[front]], w[front]
    return nearest, weights, depth


def _boxes(corners, shape):
    """Boxes of samples that triangles may cover, about CHUNK samples at a time. Each has the triangle, its planes, the first
    sample (x, y), the width and the number of samples of each box."""
    flat = np.stack([c[:, :2] for c in corners])
    low = np.maximum(np.ceil(flat.min(axis=0) - 0.5), 0).astype(np.int32)
    high = np.minimum(np.floor(flat.max(axis=0) - 0.5), shape[::-1] - 1).astype(np.int32)
    size = np.maximum(high - low + 1, 0)
    number = size[:, 0].astype(np.int64) * size[:, 1]
    area = 0.5 * np.abs(_doubled_area(*corners))
    is_sparse = number > SPARSE * (area + size.sum(axis=1))
    drawn = np.flatnonzero((number > 0) & ~is_sparse)
    planes = _planes([c[drawn] for c in corners], low[drawn] + 0.5)
    for part in _chunks(number[drawn], CHUNK):
        face = drawn[part]
        yield face, planes[part], low[face], size[face, 0], number[face]
    drawn = np.flatnonzero(is_sparse & (area > 0))
    for part in _chunks(size[drawn, 1], CHUNK // 8):            # a row takes as much memory as eight candidates
        yield _rows(drawn[part], [c[drawn[part]] for c in corners], low[drawn[part]], high[drawn[part]])


def _chunks(number, most):
    """Slices of an array of counts with sums of about ``most``."""
    ends = np.cumsum(number)
    cuts = np.searchsorted(ends, np.arange(most, ends[-1] if len(ends) else 0, most))
    return (slice(a, b) for a, b in zip([0, *cuts], [*cuts, len(ends)]) if b > a)


def _rows(face, corners, low, high):
    """Boxes of one row each, between the sides of the triangles ``face``."""
    rows = high[:, 1] - low[:, 1] + 1
    of = np.repeat(np.arange(len(face)), rows)
    y = low[of, 1] + np.arange(len(of)) - np.repeat(np.cumsum(rows) - rows, rows)
    left, right = np.full(len(of), np.inf), np.full(len(of), -np.inf)
    for p, q in zip(corners, corners[1:] + corners[:1]):
        rise = q[:, 1] - p[:, 1]
        t = (y + 0.5 - p[of, 1]) / np.where(rise != 0, rise, 1)[of]
        at = np.where((rise[of] != 0) & (t >= 0) & (t <= 1), p[of, 0] + t * (q[:, 0] - p[:, 0])[of], np.nan)
        left, right = np.fmin(left, at), np.fmax(right, at)
    first = np.maximum(np.ceil(np.maximum(left, -1.0) - 0.5 - SLACK), low[of, 0])           # without a crossing there is no sample
    last = np.minimum(np.floor(np.maximum(right, -1.0) - 0.5 + SLACK), high[of, 0])
    kept = np.flatnonzero(last >= first)
    of, first = of[kept], np.stack([first[kept], y[kept]], axis=1).astype(np.int32)
    wide = last[kept].astype(np.int32) - first[:, 0] + 1
    return face[of], _planes([c[of] for c in corners], first + 0.5), first, wide, wide.astype(np.int64)


def _doubled_area(a, b, c):
    """(k,) twice the signed area on the screen."""
    ab, ac = b - a, c - a
    return ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0]


def _planes(corners, origin):
    """(k, 9) float32: the weights of corners 1 and 2 and the depth, each at ``origin`` and its slope along x and y."""
    a, b, c = corners
    ab, ac, area = b - a, c - a, _doubled_area(a, b, c)
    inverse = np.divide(1, area, out=np.full_like(area, np.nan), where=area != 0)  # NaN if seen edge-on: no sample is inside
    dx, dy = (origin - a[:, :2]).T
    ux, uy, vx, vy = ac[:, 1] * inverse, -ac[:, 0] * inverse, -ab[:, 1] * inverse, ab[:, 0] * inverse
    u, v = ux * dx + uy * dy, vx * dx + vy * dy
    z = a[:, 2] + u * ab[:, 2] + v * ac[:, 2]
    zx, zy = ux * ab[:, 2] + vx * ac[:, 2], uy * ab[:, 2] + vy * ac[:, 2]
    return np.stack([u, ux, uy, v, vx, vy, z, zx, zy], axis=1, dtype=np.float32)


def _candidates(planes, low, wide, number, width):
    """Samples inside triangles: their numbers, triangles, weights of corners 1 and 2, depths."""
    u0, ux, uy, v0, vx, vy, z0, zx, zy = np.ascontiguousarray(planes.T)
    f = np.repeat(np.arange(len(planes), dtype=np.int32), number)
    k = np.arange(len(f), dtype=np.int32) - np.repeat((np.cumsum(number) - number).astype(np.int32), number)
    dy = ((k + 0.5) * (1.0 / wide).take(f)).astype(np.int32)            # k // wide, which takes four times as long
    dx = k - dy * wide.take(f)
    u = u0.take(f) + ux.take(f) * dx + uy.take(f) * dy
    v = v0.take(f) + vx.take(f) * dx + vy.take(f) * dy
    inside = np.flatnonzero((u >= -EDGE) & (v >= -EDGE) & (u + v <= 1 + EDGE))
    f, dx, dy = f.take(inside), dx.take(inside), dy.take(inside)
    z = z0.take(f) + zx.take(f) * dx + zy.take(f) * dy
    at = (low[:, 1].take(f) + dy) * np.int64(width) + low[:, 0].take(f) + dx
    return at, f, np.stack([u.take(inside), v.take(inside)], axis=1), z.astype(np.float32)


def _normals(x, faces, face, weights):
    """Unit normals towards the camera at samples of ``face``, and a mask of samples on back faces."""
    x = x * np.array([1, -1, 1])                    # y points up
    a, b, c = (x[faces[:, k]] for k in range(3))
    flat = np.cross(b - a, c - a)
    at_vertex = np.stack([np.bincount(faces.ravel(), np.repeat(flat[:, k], 3), minlength=len(x)) for k in range(3)], axis=1)
    flat, at_vertex = _unit(flat)[face], _unit(at_vertex)
    u, v = weights.T
    normal = np.zeros_like(flat)
    for k, share in enumerate((1 - u - v, u, v)):
        corner = at_vertex[faces[face, k]]
        creased = np.einsum("ij,ij->i", corner, flat) < CREASE
        normal += share[:, None] * np.where(creased[:, None], flat, corner)
    back = flat[:, 2] < 0
    if np.count_nonzero(back) > len(back) / 2:      # most faces point inwards: the mesh is inverted
        back = ~back
    normal = _unit(normal)
    return np.where(normal[:, 2:] < 0, -normal, normal), back


def _shade(normal, paint):
    """(k, 3) colors ``paint`` under a warm key light from the upper left, a cool fill light and a sky light."""
    key = np.maximum(normal @ _unit(np.array([-0.45, 0.6, 0.66])), 0)
    fill = np.maximum(normal @ _unit(np.array([0.8, 0.05, 0.5])), 0)
    sky = 0.5 + 0.5 * normal[:, 1]
    half = np.maximum(normal @ _unit(np.array([-0.25, 0.33, 0.91])), 0)
    light = (0.78 * key[:, None] * np.array([1.0, 0.97, 0.92]) + 0.20 * fill[:, None] * np.array([0.80, 0.9, 1.0])
             + 0.20 * sky[:, None] * np.array([0.9, 0.95, 1.0]) + 0.07)
    color = paint ** 2.2 * light + 0.10 * half[:, None] ** 40
    return np.clip(color, 0, 1) ** (1 / 2.2)


def _ambient(depth, seen, radius):
    """Factors that darken samples deeper than their surroundings on the screen (Luft, Colditz, Deussen 2006)."""
    from scipy.ndimage import gaussian_filter, zoom  # imported here: it takes a sixth of the time of `import meshsolve`

    if not seen.any():
        return np.ones(depth.shape)
    coarse, radius = slice(None, None, 4), radius / 4
    some, filled = seen[coarse, coarse], np.where(seen, depth, depth[seen].min())
    weight = np.maximum(gaussian_filter(some.astype(np.float32), radius), 1e-3)
    around = gaussian_filter(np.where(some, filled[coarse, coarse], 0), radius) / weight
    around = zoom(around, np.array(depth.shape) / around.shape, order=1, grid_mode=True, mode="nearest")
    return np.where(seen, 1 - 0.4 * np.clip((around - filled) / (8 * radius), 0, 1), 1.0)


def _write(path, panels, captions, title, scale=None):
    """Write panels side by side on white, with captions below and the color scale on the right."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    gap, foot, head, side = 24, 56, 56 if title else 16, 96 if scale else 0
    height, width = panels[0].shape[:2]
    canvas = np.ones((height + head + foot, len(panels) * width + (len(panels) + 1) * gap + side, 3))
    for k, panel in enumerate(panels):
        left = gap + k * (width + gap)
        canvas[head:head + height, left:left + width] = panel
    rows, columns = canvas.shape[:2]
    figure = Figure(figsize=(columns / 100, rows / 100), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    figure.figimage(canvas, 0, 0, origin="upper")
    for k, caption in enumerate(captions):
        middle = (gap + (k + 0.5) * width + k * gap) / columns
        figure.text(middle, 0.45 * foot / rows, caption, ha="center", va="center", fontsize=13, color="#333333")
    if scale:
        _write_scale(figure, scale, [(columns - side) / columns, (foot + 0.2 * height) / rows, 16 / columns, 0.6 * height / rows])
    if title:
        figure.text(0.5, 1 - 0.5 * head / rows, title, ha="center", va="center", fontsize=16, color="#111111")
    figure.savefig(path, dpi=100, format="png")


def _write_scale(figure, scale, place):
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    low, high, colormap = scale
    axes = figure.add_axes(place, zorder=2)         # in front of the picture
    figure.colorbar(ScalarMappable(Normalize(low, high if high > low else low + 1), colormap), cax=axes)
    axes.tick_params(labelsize=11, labelcolor="#333333", length=3)


def _unit(v):
    length = np.linalg.norm(v, axis=-1, keepdims=True)
    return v / np.where(length > 0, length, 1)
