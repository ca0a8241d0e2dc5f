"""The backend interface of the GPU: the choice of a device, errors without one, and use after errors."""

import pathlib
import sys
from unittest import mock

import numpy as np
import pytest
import scipy.linalg as sl
from cases import each
from kernel_harness import Harness, KernelError
from kernel_harness.harness import _argument
from kernel_harness.strict import FUNCTIONS, METHODS, Array, Strict

import meshsolve as ms
from meshsolve import device
from meshsolve.config import config
from meshsolve.device.cuda import CuPy, reason_without, source
from meshsolve.device.reductions import is_any, max_of_columns, powers_of_two, sum_of_columns
from meshsolve.errors import DeviceUnavailableError, InvalidInputError, OutOfMemoryError
from meshsolve.sparse.lists_cuda import bincount

PRIMITIVES = pathlib.Path(__file__).resolve().parents[1] / "kernel_harness" / "planted" / "primitives.cu"


@pytest.fixture
def no_cupy():
    with mock.patch.dict(sys.modules, {"cupy": None}), mock.patch.object(device, "_cupy", reason_without):
        yield


class OnDevice:
    """An array whose DLPack device is a GPU."""

    __cuda_array_interface__ = {}


def test_without_cupy(no_cupy):
    assert not device.available()
    assert device.choose("auto", 10**9) == device.choose("auto", 0, OnDevice()) == device.choose("cpu") == "cpu"
    for call in (lambda: device.choose("cuda"), device.xp, lambda: device.to_device(np.zeros(3)), lambda: device.dense("trsm", np.eye(2), np.eye(2))):
        with pytest.raises(DeviceUnavailableError, match=r"pip install '\.\[cuda12\]'"):
            call()


def test_cupy_without_a_gpu():
    cupy = mock.Mock()
    cupy.cuda.is_available.return_value = False
    with mock.patch.dict(sys.modules, {"cupy": cupy}):
        assert "no CUDA device" in reason_without()
        cupy.cuda.is_available.side_effect = RuntimeError("driver mismatch")
        assert "driver mismatch" in reason_without()
        cupy.cuda.is_available = mock.Mock(return_value=True)
        assert reason_without() is None
        cupy.ones.side_effect = RuntimeError("libnvrtc.so.13 not found")            # cupy-cuda13x without [ctk]
        assert "pip install" in reason_without() and "libnvrtc" in reason_without()


def test_a_small_problem_starts_no_device():
    """A CUDA context takes half a second and 300 MB, so small problems do not look for a device."""
    with mock.patch.object(device, "available", side_effect=AssertionError):
        assert device.choose("auto", device.AUTO_SIZE - 1, np.ones(3)) == "cpu"


def test_a_changed_header_changes_the_kernel_cache_key(tmp_path):
    (tmp_path / "a.cu").write_text('#include "b/b.cuh"\nkernel\n')
    (tmp_path / "b").mkdir()
    (tmp_path / "b/b.cuh").write_text('#pragma once\n# include "c.hpp"\n#include "b/b.cuh"\n')
    (tmp_path / "c.hpp").write_text("one")
    one = source(tmp_path / "a.cu", tmp_path)
    assert one.startswith('#include "b/b.cuh"\nkernel\n') and one == source(tmp_path / "a.cu", tmp_path)
    (tmp_path / "c.hpp").write_text("two")
    assert source(tmp_path / "a.cu", tmp_path) != one


@each("file", sorted(device.PACKAGE.rglob("*.cu")))
def test_every_header_of_a_kernel_is_in_the_package(file):
    assert source(file).startswith(file.read_text())


def test_auto_takes_the_device_for_large_or_device_input():
    with device.use(Harness()):
        assert device.choose("auto", device.AUTO_SIZE - 1) == "cpu"
        assert device.choose("auto", device.AUTO_SIZE) == device.choose("auto", 1, np.zeros(1), OnDevice()) == "cuda"
        assert device.choose("cpu", 10**9, OnDevice()) == "cpu" and device.choose("cuda") == "cuda"


@pytest.mark.parametrize("given", ["gpu", "CUDA", None, 0, ["cuda"], np.array(["cpu"])])
def test_unknown_devices(given):
    with pytest.raises(InvalidInputError, match="device must be one of"):
        device.choose(given)
    with pytest.raises(InvalidInputError, match="device must be one of"):
        device.on_cpu(given, "this runs")


@pytest.mark.parametrize("call", [ms.analyze, ms.cholesky, ms.lu, ms.ildl, ms.parac, ms.factorized,
                                  lambda A, **options: ms.solve(A, np.ones(4), **options)])
def test_every_factorization_checks_device(call):
    for wrong in ({"device": np.array(["cpu", "cpu"])}, {"device": None}):
        with pytest.raises(InvalidInputError, match="device (must|has to) be one of"):
            call(np.eye(4), **wrong)


def test_calls_that_run_on_the_cpu_only():
    device.on_cpu("cpu", "this runs")
    with pytest.raises(DeviceUnavailableError, match="this runs on the CPU only"):
        device.on_cpu("cuda", "this runs")


def test_a_stand_in_ends_with_its_context():
    before = device.available()
    with pytest.raises(KeyError), device.use(Harness()):
        assert device.available() and device.xp() is np
        raise KeyError
    assert device.available() == before


def test_python_numbers_are_refused_as_arguments():
    K = device.kernels("patches/kmeans.cu")
    with device.use(Harness()) as harness:
        with pytest.raises(TypeError, match="k_roots, argument 0"):
            device.launch(K.k_roots, 1, 32, 0, (3, np.zeros(3, np.int32), np.zeros(3, np.int32)))
        device.launch(K.k_roots, 0, 32, 0, (np.int32(0), np.zeros(3, np.int32), np.zeros(3, np.int32)))      # nothing to do
        assert not harness.launches


def test_too_much_shared_memory():
    K = device.kernels("patches/kmeans.cu")
    with device.use(Harness(shared_limit=1024)), pytest.raises(KernelError, match="at most 1024"):
        assert device.shared_limit() == 1024
        device.launch(K.k_roots, 1, 32, 2048, (np.int32(0), np.zeros(3, np.int32), np.zeros(3, np.int32)))


def test_launches_that_a_gpu_refuses():
    """The harness alone would run these launches."""
    K, nothing = device.kernels("patches/cut.cu"), np.zeros(1, np.int32)
    with device.use(Harness()):
        with pytest.raises(KernelError, match="128 threads per block, above its __launch_bounds__ of 64"):
            device.launch(K.k_merge, 1, 128, 0, ())
        with pytest.raises(KernelError, match="49152 bytes of dynamic and [1-9][0-9]* of static shared memory"):
            device.launch(K.k_cut, 1, 256, 48 << 10, ())
        device.launch(K.k_lowest_vertex, 1, 256, 0, (np.int32(0), nothing, nothing, nothing, nothing))


class Failing(Harness):
    """A device whose memory is full, or that is lost."""

    class Lost(Exception):
        pass

    device_errors = (Lost,)
    released = False

    def release(self):
        self.released = True


def test_out_of_memory_and_a_lost_device_are_exceptions():
    with device.use(Failing()) as failing:
        with pytest.raises(OutOfMemoryError, match="patches: not enough GPU memory"), device.errors("patches"):
            raise MemoryError("8 TB")
        assert failing.released
        with pytest.raises(DeviceUnavailableError, match="patches: the GPU failed .illegal address"), device.errors("patches"):
            raise Failing.Lost("illegal address")
        with device.errors("patches"):
            assert device.scalar(device.to_device(np.array([7]))) == 7


def test_out_of_memory_is_not_wrapped_twice():
    with device.use(Failing()), pytest.raises(OutOfMemoryError, match="^the table is too large$"), device.errors("the factor"):
        raise OutOfMemoryError("the table is too large")


def test_a_stall_is_an_exception(cuda):
    flag = device.to_device(np.zeros(1, np.int32))
    device.check_stall(flag, "the solve")
    flag[0] = 1
    with pytest.raises(DeviceUnavailableError, match="the solve: a kernel made no progress"):
        device.check_stall(flag, "the solve")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_calls(cuda, dtype):
    """Views with a leading dimension larger than their number of rows. Other entries stay."""
    rng = np.random.default_rng(0)
    tolerance = dict(rtol=0, atol=1e-11 if dtype == np.float64 else 1e-3)
    front = np.asfortranarray(rng.standard_normal((40, 40)).astype(dtype))
    front[:10, :10] += 10 * np.eye(10)
    on_device = device.to_device(front)
    a, b = on_device[:10, :10], on_device[10:30, :10]
    device.dense("trsm", a, b)
    got, L = device.to_host(on_device), np.tril(front[:10, :10])
    panel = sl.solve_triangular(L, front[10:30, :10].T, lower=True).T
    assert np.allclose(got[10:30, :10], panel, **tolerance)
    got[10:30, :10] = front[10:30, :10]
    assert np.array_equal(got, front)
    x, y, z = (device.to_device(np.asfortranarray(rng.standard_normal(shape).astype(dtype))) for shape in ((6, 5), (6, 3), (5, 3)))
    expected = device.to_host(x) - device.to_host(y) @ device.to_host(z).T
    device.dense("gemm", x, y, z)
    assert np.allclose(device.to_host(x), expected, **tolerance)
    device.dense("trsm", a, b[:10], side="L", trans="N")
    assert np.allclose(device.to_host(b[:10]), sl.solve_triangular(L, panel[:10], lower=True), **tolerance)


@pytest.mark.slow
def test_a_grid_that_is_too_long_in_y_is_refused():
    K = device.kernels("krylov/vectors.cu")
    with device.use(Harness()), pytest.raises(KernelError, match="at most 65535 are allowed in y and z"):
        empty = np.zeros(0)
        device.launch(K.k_dot, (1, 65536), 32, 0, (np.int32(0), np.int32(0), empty, empty, empty))


# ---- reductions -------------------------------------------------------------------------------------------------------


def reductions_are_numpys(most_rows):
    rng = np.random.default_rng(0)
    for n in (1, 31, most_rows):
        for k in (1, 3):
            x = rng.standard_normal((n, k)) - 9
            for given in (x, np.asfortranarray(x), x.astype(np.float32)):
                on_gpu = device.to_device(given)
                assert np.array_equal(device.to_host(max_of_columns(on_gpu)), given.max(axis=0))
                assert np.array_equal(device.to_host(max_of_columns(on_gpu, magnitudes=True)), abs(given).max(axis=0))
                rtol = 1e-5 if given.dtype == np.float32 else 1e-13
                assert np.allclose(device.to_host(sum_of_columns(on_gpu)), given.sum(axis=0), rtol=rtol)
        x[n // 2, 1], x[-1, 2] = np.nan, np.inf
        assert np.array_equal(device.to_host(max_of_columns(device.to_device(x))), x.max(axis=0), equal_nan=True)
        for place in (None, 0, n // 2, n - 1):
            assert is_any(device.to_device(np.arange(n) == place)) == (place is not None)


def test_reductions(cuda):
    reductions_are_numpys(3000)


def test_powers_of_two(cuda):
    size = np.array([0, 1, 0.75, 3, 1e-300, 5e-324, 1e300, np.inf, np.nan])
    down, up = map(device.to_host, powers_of_two(device.to_device(size), 1000))
    expected = np.clip(np.frexp(size)[1], -1000, 1000)
    assert np.array_equal(up, np.ldexp(1.0, expected)) and np.array_equal(down, np.ldexp(1.0, -expected))


def test_reductions_on_other_schedules(varied):
    reductions_are_numpys(1000)


def test_reductions_of_more_than_a_grid_has_threads(short_grids, monkeypatch):
    monkeypatch.setattr(device, "MOST_ACROSS", 2)
    reductions_are_numpys(1000)


@pytest.mark.sanitize
def test_reductions_are_clean():
    with device.use(Harness(seed=1)):
        reductions_are_numpys(600)


@pytest.mark.sanitize
def test_columns_that_share_a_thread_block(monkeypatch):
    monkeypatch.setattr(device, "MOST_ACROSS", 2)
    with device.use(Harness(seed=1, block=64)):
        x = np.random.default_rng(0).standard_normal((150, 5))
        assert np.array_equal(max_of_columns(x), x.max(axis=0)) and np.allclose(sum_of_columns(x), x.sum(axis=0), rtol=1e-13)


@pytest.mark.sanitize
@pytest.mark.parametrize("seed", [0, 1])
def test_operations_of_a_thread_block(seed):
    """Sums, maxima, scans and sorts of device/common.cuh, one after the other."""
    rng, count = np.random.default_rng(seed), 250
    given, rows, unsorted = rng.integers(0, 99, 97).astype(np.int32), rng.integers(0, 9, count), rng.integers(0, 999, count)
    memory, numbers = np.concatenate([rows, unsorted]).astype(np.int32), np.zeros((11, 96), np.int32)
    harness = Harness(seed=seed)
    harness.launch(harness.function(PRIMITIVES, "k_primitives"), (1,), (96,), 0, (given, np.int32(count), memory, numbers))
    expected = []
    for x in (given[:96], given[1:]):
        expected += [np.cumsum(x) - x, np.full(96, x.sum()), np.full(96, x.max()), np.full(96, -x.min())]
    for _ in range(2):
        total, rows = rows.sum(), np.cumsum(rows) - rows
        expected.append(total + rows[::-1][:96])
    expected.append(np.sort(unsorted)[::-1][:96])
    assert np.array_equal(numbers, expected)


@pytest.mark.sanitize
def test_a_wait_in_vain_ends_the_others():
    flag, stalled, ended = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(4, np.int32)
    harness = Harness()
    harness.launch(harness.function(PRIMITIVES, "k_wait_in_vain"), (4,), (32,), 0, (flag, stalled, ended))
    assert stalled[0] == 1 and ended.all()


def test_a_reduction_of_an_empty_array(cuda):
    assert not is_any(device.to_device(np.zeros(0, bool)))


# ---- CuPy as it is ----------------------------------------------------------------------------------------------------


def test_options_of_cupy_are_not_repeated():
    from meshsolve.device.cuda import OPTIONS

    assert not {"--device-as-default-execution-space", "-default-device", "-ftz=true"} & set(OPTIONS)


@pytest.fixture
def pretended():
    """The CuPy backend with a pretended module, whose driver counts queries of attributes."""
    cupy = mock.Mock()
    current = cupy.cuda.Device.return_value
    current.id, asked = 3, mock.PropertyMock(return_value={"MaxSharedMemoryPerBlockOptin": 232448, "MultiProcessorCount": 132})
    type(current).attributes = asked
    with mock.patch.dict(sys.modules, {"cupy": cupy}):
        yield CuPy(), current, asked


def test_a_deferred_read_waits_for_its_own_event(pretended):
    owner = pretended[0]
    event, owner.xp.cuda.Stream.return_value = owner.xp.cuda.Event.return_value, mock.MagicMock()
    read = owner.to_host_later(mock.sentinel.array)
    assert event.record.call_count == 1 and event.synchronize.call_count == 0
    assert read() is owner.xp.asnumpy.return_value
    assert event.synchronize.call_count == 1 and owner.xp.cuda.Stream.call_args.kwargs == {"non_blocking": True}


def test_device_attributes_are_queried_once(pretended):
    owner, current, asked = pretended
    assert [(owner.shared_limit, owner.multiprocessors) for _ in range(3)] == [(232448, 132)] * 3 and asked.call_count == 1
    current.id, asked.return_value = 4, {"MaxSharedMemoryPerBlockOptin": 166912}
    assert owner.shared_limit == 166912 and asked.call_count == 2


@pytest.mark.parametrize("capability, scalar, expected", [("80", "double", True), ("90", "double", True), ("100", "double", True),
                                                          ("90", "float", False), ("90", "", False), ("86", "double", False),
                                                          ("120", "double", False)])
def test_the_current_device_decides_on_tensor_cores(pretended, capability, scalar, expected):
    owner, current, _ = pretended
    current.compute_capability = capability
    with mock.patch("meshsolve.device.cuda._function") as compiled:
        owner.function(mock.sentinel.path, "k_dot", scalar)
    options = compiled.call_args.args[2]
    assert ("-DMESHSOLVE_TENSOR_CORES" in options) == expected and (f"-DSCALAR={scalar}" in options) == bool(scalar)


def test_a_sort_of_cupy_without_memory(pretended):
    """Thrust throws std::bad_alloc, which CuPy does not convert to its OutOfMemoryError."""
    with device.use(pretended[0]), pytest.raises(OutOfMemoryError, match="patches: not enough GPU memory"), device.errors("patches"):
        raise MemoryError("std::bad_alloc")


@pytest.mark.parametrize("static, dynamic, raises", [(0, 48 << 10, False), (0, (48 << 10) + 8, True), (640, 48512, False),
                                                     (640, 48640, True), (48 << 10, 0, False)])
def test_large_launches_raise_the_shared_memory_limit(pretended, static, dynamic, raises):
    """A driver refuses blocks with more than 48 kB in all, unless the limit of the kernel was raised.

    It is raised to the maximum at once, because another thread must not lower it again."""
    function = mock.Mock(spec=("__call__", "shared_size_bytes", "max_dynamic_shared_size_bytes"), shared_size_bytes=static,
                         max_dynamic_shared_size_bytes=None)
    pretended[0].launch(function, (5,), (64,), dynamic, [np.int32(1)])
    function.assert_called_once_with((5,), (64,), (np.int32(1),), shared_mem=dynamic)
    assert function.max_dynamic_shared_size_bytes == (232448 - static if raises else None)


def test_the_configuration_names_a_broken_driver():
    cupy = mock.Mock(__version__="14.2.0")
    cupy.cuda.is_available.side_effect = RuntimeError("driver mismatch")
    with mock.patch.dict(sys.modules, {"cupy": cupy}):
        assert config()["gpu"] == "none: driver mismatch"
        cupy.cuda.is_available = mock.Mock(return_value=False)
        assert config()["gpu"] == "none"


def test_dlpack_identifies_gpu_arrays():
    class Foreign:
        def __init__(self, kind):
            self.kind = kind

        def __dlpack_device__(self):
            return self.kind, 0

    assert device.holds(Foreign(2)) and not device.holds(Foreign(1)) and not device.holds(np.ones(1))


def test_strict_arrays_have_only_names_of_cupy():
    cupy = pytest.importorskip("cupy")
    missing = [name for name in FUNCTIONS if not hasattr(cupy.linalg if "." in name else cupy, name.split(".")[-1])]
    assert not missing and all(hasattr(cupy.ndarray, name) for name in METHODS)


@pytest.mark.parametrize("labels, count", [([2, 0, 2, -1, 5, 2], 4), ([], 3), ([], 0), ([-1, -1], 2), (list(range(700)), 700)])
def test_labels_are_counted(cuda, labels, count):
    labels = np.array(labels, np.int32)
    found = device.to_host(bincount(device.to_device(labels), count))
    assert found.dtype == np.int64 and found.tolist() == [np.count_nonzero(labels == k) for k in range(count)]


@pytest.mark.parametrize("wrong", [lambda xp: xp.bincount(xp.zeros(0, int)), lambda xp: xp.bincount(xp.zeros(9, int), minlength=257),
                                   lambda xp: xp.bincount(xp.arange(257))])
def test_strict_refuses_large_histograms(wrong):
    xp = Strict.xp
    assert xp.bincount(xp.arange(256)).get().tolist() == 256 * [1]
    with pytest.raises(ValueError, match="bincount"):
        wrong(xp)


def test_strict_entries_are_no_indices():
    """CuPy's arrays have no __index__, but slices accept them."""
    a = Strict.xp.arange(5)
    assert a[a[1]:a[3]].get().tolist() == [1, 2]
    for wrong in (lambda: [7, 8][a[1]], lambda: range(a[3]), lambda: np.zeros(5)[a[1]]):
        with pytest.raises((TypeError, IndexError)):
            wrong()


def test_strict_uploads_strided_arrays_by_rows():
    front = np.asfortranarray(np.zeros((6, 5)))
    uploaded = [Strict().to_device(a).flags for a in (front, front[:, 1:3], front[:4], front.T)]
    assert [flags.f_contiguous for flags in uploaded] == [True, True, False, False]
    assert [flags.c_contiguous for flags in uploaded] == [False, False, True, True]


@pytest.mark.parametrize("wrong", [lambda a, xp: a + np.ones(3), lambda a, xp: np.ones(3) + a, lambda a, xp: xp.concatenate([a, np.ones(3)]),
                                   lambda a, xp: np.asarray(a), lambda a, xp: a[np.arange(2)], lambda a, xp: list(a),
                                   lambda a, xp: xp.lexsort((a, a)), lambda a, xp: xp.interp(a, a, a), lambda a, xp: a.searchsorted(a),
                                   lambda a, xp: a.max(initial=0), lambda a, xp: xp.sum(a, where=a > 1), lambda a, xp: xp.argsort(a, kind="quicksort")])
def test_strict_refuses_the_same_as_cupy(wrong):
    with device.use(Strict()) as strict, pytest.raises((TypeError, AttributeError, NotImplementedError)):
        wrong(strict.to_device(np.arange(3.0)), strict.xp)


def test_new_strict_arrays_hold_garbage():
    xp = Strict.xp
    assert np.isnan(xp.empty(3).get()).all() and np.isnan(xp.empty_like(xp.zeros((2, 2), np.float32)).get()).all()
    assert all((xp.empty(3, dtype).get() != 0).all() for dtype in (np.int8, np.int32, np.uint64, bool))


def test_strict_refuses_several_values_for_one_entry():
    xp = Strict.xp
    a, twice = xp.zeros(4), xp.asarray([1, 1])
    a[twice] = 3.0
    a[xp.asarray([0, 2])] = xp.ones(2)
    assert a.get().tolist() == [1, 3, 1, 0]
    with pytest.raises(ValueError, match="any of them"):
        a[twice] = xp.ones(2)


def test_only_arrays_made_empty_are_null_pointers():
    """As on a GPU, an empty slice is no null pointer: a kernel that tests for null takes it for an array with entries."""
    made, part = np.empty(0, np.int32), np.zeros(4, np.int32)[2:2]
    assert _argument("k", 0, "*i4", made).value is None and _argument("k", 0, "*i4", made.reshape(0, 3)[:, 1]).value is None
    assert _argument("k", 0, "*i4", part).value is not None and _argument("k", 0, "*i4", part[:0]).value is not None


def test_strict_computes_by_rows():
    a, xp = Array(np.asfortranarray(np.arange(6.0).reshape(2, 3))), Strict.xp
    for made in (a + 1, -a, 2 - a, a > 1, a[xp.asarray([1, 0])], a[:, xp.asarray([1, 0])], xp.maximum(a, a.T[0, 0]), xp.stack([a, a])):
        assert made.flags.c_contiguous
    assert a[:1].strides == a.strides and xp.empty_like(a).flags.f_contiguous and a.get().flags.c_contiguous
    assert xp.asfortranarray(a).flags.f_contiguous and xp.array(a).flags.f_contiguous and a.astype(np.float32).flags.f_contiguous
