"""Distances, curves, vectors and maps with device="cuda" compared with the host, on stand-ins for CuPy, and on a GPU with -m gpu."""

import numpy as np

import meshsolve as ms

SPHERE = ms.datasets.icosphere(1)
SPHERE = SPHERE.with_vertices(SPHERE.vertices * [1, 1.2, 1.5] + 0.05 * np.sin(9 * SPHERE.vertices[:, ::-1]))       # no symmetry


def test_the_results_of_the_host(gpu):
    """A sphere and a component without a source."""
    mesh = ms.Mesh(np.vstack([SPHERE.vertices, SPHERE.vertices[:4] + 9]), np.vstack([SPHERE.faces, [[42, 43, 44], [42, 44, 45]]]))
    host, cuda = (ms.apps.Geodesics(mesh, device=device) for device in ("cpu", "cuda"))
    point, edge = ([3], [[0.2, 0.3, 0.5]]), SPHERE.edges[5]
    for call in (lambda G: G.distance([0, 4]), lambda G: G.each(np.arange(18) * 2), lambda G: G.distance(point), lambda G: G.extend([0, 4], [1, 2]),
                 lambda G: G.transport(point, [[1, 2, 3]]), lambda G: G.log_map(7), lambda G: G.log_map(7, "affine"), lambda G: G.signed_distance(edge),
                 lambda G: G.signed_distance(([3, 4, 9], [[0.2, 0.3, 0.5]] * 3), "each")):
        expected, found = call(host), call(cuda)
        finite = np.isfinite(expected)
        assert np.array_equal(finite, np.isfinite(found)) and np.abs(expected[finite] - found[finite]).max() < 1e-9
    fields = [ms.apps.direction_field(SPHERE, 4, device=device) for device in ("cpu", "cuda")]
    assert abs(fields[0].energy - fields[1].energy) < 1e-9 and fields[1].index.sum() == 8
