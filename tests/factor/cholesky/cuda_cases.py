"""Cases and checks shared by the tests of the CUDA path of the Cholesky factorization.

Bounds: L to 1e-13 (float64) and 2e-6 (float32) of its largest entry; the same for solutions of these well-conditioned systems.
"""

import numpy as np
from on_device import to_numpy
from zoo import zoo

from meshsolve.factor.fronts import cuda as fronts

ZOO = zoo()
BOUND = {"double": 1e-13, "single": 2e-6, "mixed": 1e-13}
WAYS = {                                                    # scalars of shared memory of a thread block and of a warp
    "as launched": None,
    "queue alone": (0, 0),
    "small subtrees": (800, 100),
    "no subtrees of warps": (1500, 0),
    "large subtrees": (6016, 752),
}


def use_way(monkeypatch, way):
    """Set the sizes that decide which fronts are factored in shared memory."""
    if WAYS[way] is not None:
        monkeypatch.setattr(fronts, "workspace_of_device", lambda: WAYS[way])


def close(x, reference, bound):
    x, reference = to_numpy(x), np.asarray(reference)
    assert x.shape == reference.shape and x.dtype == reference.dtype
    assert np.abs(x - reference).max(initial=0) <= bound * np.abs(reference).max(initial=1)
