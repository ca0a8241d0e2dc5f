"""Cases and checks shared by the tests of the CUDA path of the Cholesky factorization.

Bounds: L to 1e-13 (float64) and 2e-6 (float32) of its largest entry; the same for solutions of these well-conditioned systems.
"""

import numpy as np
from on_device import to_numpy
from zoo import zoo

from meshsolve.factor.fronts import cuda as fronts

ZOO = zoo()
BOUND = {"double": 1e-13, "single": 2e-6, "mixed": 1e-13}
WAYS = {                                                    # limits of tiny, small and dense fronts: fronts.LIMITS
    "shared memory": fronts.Limits(512, 6016, 384),
    "blocks only": fronts.Limits(0, 6016, 384),
    "tiles": fronts.Limits(0, 0, 384),
    "all four": fronts.Limits(64, 300, 20),
    "libraries": fronts.Limits(40, 100, 0),
}


def close(x, reference, bound):
    x, reference = to_numpy(x), np.asarray(reference)
    assert x.shape == reference.shape and x.dtype == reference.dtype
    assert np.abs(x - reference).max(initial=0) <= bound * np.abs(reference).max(initial=1)
