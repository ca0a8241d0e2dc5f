"""Triangular solves by level sets on the GPU, with levels of few and long rows; on the kernel harness and on a GPU."""

import numpy as np
import pytest
from on_device import to_cuda, to_numpy

from meshsolve.factor.trisolve import cuda as trisolve

BASE = 2000                             # rows of the first level, which have no entries


def system(levels, seed=0):
    """(level_ptr, ptr, columns, values) of levels after the first, given by the lengths of their rows; columns in any earlier level."""
    rng, lengths, columns = np.random.default_rng(seed), [np.zeros(BASE, int)], []
    level_ptr = np.append(0, BASE + np.cumsum([0, *map(len, levels)]))
    for begin, rows in zip(level_ptr[1:], levels, strict=False):
        lengths.append(np.array(rows))
        columns += [np.sort(rng.choice(begin, length, replace=False)) for length in rows]
    ptr, columns = np.append(0, np.cumsum(np.concatenate(lengths))), np.concatenate(columns).astype(np.int32)
    return level_ptr.astype(np.int64), ptr.astype(np.int64), columns, rng.standard_normal(len(columns)) / np.sqrt(BASE)


def solved(ptr, columns, values, scale, Y):
    """Solve row by row."""
    Y = Y.copy()
    for i in range(len(ptr) - 1):
        row = slice(ptr[i], ptr[i + 1])
        Y[i] = scale[i] * Y[i] + values[row] @ Y[columns[row]]
    return Y


LEVELS = {
    "one long row each": [[1500]] * 6,
    "a few": [[900, 1200, 2], [300] * 7, [1500, 1], [100]],
    "long, short and empty ones": [[3] * 40, [1800], [2] * 300, [1, 0], [70] * 20, [1500] * 16],
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", LEVELS)
def test_row_after_row(cuda, name, dtype):
    level_ptr, ptr, columns, values = system(LEVELS[name])
    values, rng = values.astype(dtype), np.random.default_rng(1)
    scale, Y = rng.random(len(ptr) - 1) + 0.5, rng.standard_normal((len(ptr) - 1, 3))
    found = to_cuda(Y.copy())
    trisolve.Rows(level_ptr, ptr, columns).solve(to_cuda(values), to_cuda(scale), found)
    assert np.allclose(to_numpy(found), solved(ptr, columns, values, scale, Y), rtol=1e-10, atol=1e-12)


@pytest.mark.sanitize
def test_sums_do_not_depend_on_the_number_of_columns(varied, monkeypatch):
    """For any schedule, by one thread block or by all."""
    level_ptr, ptr, columns, values = system(LEVELS["a few"])
    rows, scale = trisolve.Rows(level_ptr, ptr, columns), np.ones(len(ptr) - 1)
    Y = np.random.default_rng(1).standard_normal((len(scale), 4))

    def solve(Y):
        Y = np.ascontiguousarray(Y)
        rows.solve(values, scale, Y)
        return Y

    together, alone = solve(Y), [solve(Y[:, c:c + 1])[:, 0] for c in range(4)]
    monkeypatch.setattr(trisolve, "ALONE", 64)
    assert np.array_equal(together, solve(Y)) and all(np.array_equal(together[:, c], alone[c]) for c in range(4))


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_long_rows_of_a_narrow_level_take_the_block(gpu, rows):
    """A thread block, not a warp, sums each row. Rounding shows it: ones added to 2^53 by the same thread are lost."""
    level_ptr, ptr, columns, values = system([[BASE] * rows])
    Y = np.ones((len(ptr) - 1, 1))
    Y[0], Y[BASE:] = 2.0**53, 0
    found = to_cuda(Y)
    trisolve.Rows(level_ptr, ptr, columns).solve(to_cuda(np.ones(len(values))), to_cuda(np.ones(len(ptr) - 1)), found)
    lost = 2**53 + BASE - 1 - to_numpy(found)[BASE:, 0]
    assert (lost <= BASE * rows / 512 + 2).all()
