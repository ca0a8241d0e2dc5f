"""Each supported CUDA function, and the helpers of common.cuh, compared with numpy."""

import pathlib

import numpy as np
import pytest

from kernel_harness import Harness

SURFACE = pathlib.Path(__file__).parent / "planted" / "surface.cu"
VARIATIONS = [dict(), dict(seed=1), dict(seed=7, resident=3)]


@pytest.fixture(params=VARIATIONS, ids=str)
def run(request):
    harness = Harness(**request.param)

    def launch(kernel, grid, block, *args, shared=0):
        grid, block = (size if isinstance(size, tuple) else (size,) for size in (grid, block))
        harness.launch(harness.function(SURFACE, kernel), grid, block, shared, args)

    return launch


def ints(*shape):
    return np.zeros(shape, np.int32)


def test_warp_functions(run):
    v = np.random.default_rng(0).integers(0, 50, 128).astype(np.int32)
    up, down, other, ballot, match, reduced = ints(128), ints(128), ints(128), np.zeros(128, np.uint32), np.zeros(128, np.uint32), ints(128, 4)
    run("k_warp_words", 2, 64, v, up, down, other, ballot, match, reduced)
    lane = np.arange(128) % 32
    warp = v.reshape(-1, 32).repeat(32, axis=0)
    assert np.array_equal(up, np.where(lane >= 3, np.roll(v, 3), v))
    assert np.array_equal(down, np.where(lane % 16 < 11, np.roll(v, -5), v))
    assert np.array_equal(other, v[np.arange(128) ^ 9])
    weight = 1 << np.arange(32, dtype=np.uint32)
    assert np.array_equal(ballot, ((warp & 1) * weight).sum(1, dtype=np.uint32))
    assert np.array_equal(match, ((warp % 5 == v[:, None] % 5) * weight).sum(1, dtype=np.uint32))
    assert np.array_equal(reduced, np.stack([warp.sum(1), warp.min(1), (warp == 7).any(1), (warp < 1000).all(1)], axis=1))


@pytest.mark.parametrize("block", [32, 96, 1024])
def test_block_functions(run, block):
    v = np.random.default_rng(1).integers(-9, 50, 2 * block).astype(np.int32)
    before, total, largest, odd = (ints(2 * block) for _ in range(4))
    run("k_block_words", 2, block, v, before, total, largest, odd)
    rows = v.reshape(2, block)
    assert np.array_equal(before.reshape(2, block), np.cumsum(rows, 1) - rows)
    for got, expected in ((total, rows.sum(1)), (largest, rows.max(1)), (odd, (rows & 1).sum(1))):
        assert np.array_equal(got.reshape(2, block), np.broadcast_to(expected[:, None], rows.shape))


@pytest.mark.parametrize("n", [0, 1, 31, 64, 333])
def test_scans_and_sorts(run, n):
    v = np.random.default_rng(n).integers(-99, 99, n + 1).astype(np.int32)
    row, total = v.copy(), ints(1)
    run("k_running_sums", 1, 64, row, np.int32(n), total)
    assert np.array_equal(row[:n], np.cumsum(v[:n]) - v[:n]) and row[n] == v[n] and total[0] == v[:n].sum()
    by_block, by_thread = v.copy(), v.copy()
    run("k_sort", 1, 64, by_block, by_thread, np.int32(n))
    expected = np.append(np.sort(v[:n]), v[n])
    assert np.array_equal(by_block, expected) and np.array_equal(by_thread, expected)


def test_quotients_equal_those_of_ieee_division(run):
    """Mantissas at random and next to powers of two, where reciprocals are hardest; numbers from all over the range."""
    rng, n = np.random.default_rng(4), 40_000
    ends = rng.integers(0, 64, (2, n))
    mantissas = np.choose(rng.integers(0, 3, (2, n)), [rng.integers(0, 1 << 52, (2, n)), ends, (1 << 52) - 1 - ends])
    exponents = 1023 + np.where(rng.random((2, n)) < 0.9, rng.integers(-40, 40, (2, n)), rng.integers(-1000, 1000, (2, n)))
    a, b = ((exponents << 52 | mantissas) | rng.integers(0, 2, (2, n)) << 63).view(np.float64)
    a[:5] = 0
    known, out, largest = np.zeros(n), np.zeros(n), ints(128)
    run("k_divide", 2, 64, np.int32(n), a, b, known, out, largest)
    with np.errstate(over="ignore", under="ignore"):
        assert np.array_equal(known, a / b) and np.array_equal(out, a / b)
    assert set(largest[::32]) == {20} and len(set(largest)) == 1


def test_search(run):
    row = np.sort(np.random.default_rng(2).integers(0, 40, 57)).astype(np.int32)
    wanted, found = np.arange(-2, 45, dtype=np.int32), ints(47)
    run("k_search", 2, 32, row, np.int32(57), wanted, np.int32(47), found)
    assert np.array_equal(found, np.searchsorted(row, wanted))


def test_atomics(run):
    v = np.random.default_rng(3).integers(1, 500, 1000).astype(np.int32)
    sums, fsum, dsum = np.array([0, 999, 0, 0, 0], np.int32), np.zeros(1, np.float32), np.zeros(1)
    big, swapped = np.zeros(1, np.uint64), ints(2)
    run("k_atomics", 3, 64, v, np.int32(1000), sums, fsum, dsum, big, swapped)
    assert sums.tolist() == [v.sum(), v.min(), v.max(), np.bitwise_or.reduce(1 << (v & 15)), -1000]
    assert fsum[0] == dsum[0] == v.sum() and swapped[0] == swapped[1] > 0
    assert big[0] == (v.astype(np.uint64) << np.uint64(32) | np.arange(1000, dtype=np.uint64)).max()


def test_bits(run):
    x = np.random.default_rng(4).integers(0, 2**32, 32).astype(np.uint32)
    x[0] = 0
    out = ints(32, 5)
    run("k_bits", 1, 32, x, out)
    text = [f"{int(k):032b}" for k in x]
    expected = [[t.count("1"), 32 - t.rindex("1") if "1" in t else 0, (t + "1").index("1"), int(t[::-1], 2), int(k) >> 2] for t, k in zip(text, x)]
    assert np.array_equal(out, np.array(expected, np.int64).astype(np.uint32).view(np.int32).reshape(32, 5))


def test_indices_and_shared_memory(run):
    n, out = 50, ints(12, 50)
    run("k_indices", (2, 3, 2), (4, 4, 4), out, np.int32(n), shared=4 * n)
    assert np.array_equal(out, np.arange(n)[::-1] + 1000 * np.arange(12)[:, None])
