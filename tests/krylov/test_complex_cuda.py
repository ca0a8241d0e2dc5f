"""Complex right-hand sides on the GPU, for both iterations: the same results as from the host."""

import numpy as np
import pytest
from on_device import to_cuda, to_numpy

import meshsolve as ms

SYSTEMS = {
    "cg": (ms.cg, ms.datasets.grid2d(16, 16, boundary="dirichlet"), lambda A: ms.parac(A, device="cuda")),
    "sqmr": (ms.sqmr, ms.datasets.kkt(150, 60, seed=2), lambda A: ms.ildl(A, fill_level=1, device="cuda")),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_complex_right_hand_sides_on_the_gpu(cuda, name):
    """Shapes (n,) and (n, k), real and complex starts, on the host and on the GPU."""
    solve, A, factor = SYSTEMS[name]
    M, n, rng = factor(A), A.shape[0], np.random.default_rng(8)
    for shape in ((n,), (n, 2)):
        b = A @ (rng.standard_normal(shape) + 1j * rng.standard_normal(shape))
        x, info = solve(A, b, M=M)
        y, other = solve(A, to_cuda(b), M=M)
        assert np.array_equal(to_numpy(y), x) and np.array_equal(info.iterations, other.iterations) and info.converged
        for x0 in (x, to_cuda(x)):
            z, more = solve(A, to_cuda(b), M=M, x0=x0)
            assert np.array_equal(to_numpy(z), x) and not np.any(more.iterations)
        assert solve(A, to_cuda(b), M=M, x0=to_cuda(x.real.copy()))[1].converged
        with pytest.raises(ms.InvalidInputError, match="x0 is complex"):
            solve(A, to_cuda(b.real.copy()), M=M, x0=to_cuda(x))
