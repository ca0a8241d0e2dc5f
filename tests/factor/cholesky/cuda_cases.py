"""Cases and checks shared by the tests of the CUDA path of the Cholesky factorization.

Bounds: L to 1e-13 (float64) and 2e-6 (float32) of its largest entry; the same for solutions of these well-conditioned systems.
"""

import numpy as np
from on_device import to_numpy
from zoo import zoo

from meshsolve.factor.fronts import cuda as fronts

ZOO = zoo()
BOUND = {"double": 1e-13, "single": 2e-6, "mixed": 1e-13}
WAYS = {                                                    # of the numeric phase: scalars of shared memory of a thread block and of a warp;
    "as launched": (None, fronts.Limits(512, 6016, 384)),   # of a solve: limits of tiny, small and dense fronts
    "queue alone": ((0, 0), fronts.Limits(0, 0, 384)),
    "small subtrees": ((800, 100), fronts.Limits(0, 6016, 384)),
    "no subtrees of warps": ((1500, 0), fronts.Limits(64, 300, 20)),
    "large subtrees": ((6016, 752), fronts.Limits(40, 100, 0)),
}


def use_way(monkeypatch, way):
    """Set the sizes that decide how fronts are factored and solved."""
    workspace, limits = WAYS[way]
    monkeypatch.setattr(fronts, "LIMITS", limits)
    if workspace is not None:
        monkeypatch.setattr(fronts, "workspace_of_device", lambda: workspace)


def close(x, reference, bound):
    x, reference = to_numpy(x), np.asarray(reference)
    assert x.shape == reference.shape and x.dtype == reference.dtype
    assert np.abs(x - reference).max(initial=0) <= bound * np.abs(reference).max(initial=1)
