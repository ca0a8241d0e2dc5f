"""Every .cu file compiles for the architectures of nvrtc.py. Registers, stack and spills of each kernel are within kernel_limits.json.

A new .cu file is found by itself; ``python tests/nvrtc.py --write`` records its limits.
"""

import json

import nvrtc
import pytest

from meshsolve.factor.ldlt.fronts_cuda import STATIC

needs_nvrtc = pytest.mark.skipif(nvrtc.library() is None, reason="no NVRTC: pip install nvidia-cuda-nvrtc-cu12")
SLACK = 8                           # tolerance in registers for other compiler versions; none for stack and spills


def limits():
    return json.loads(nvrtc.LIMITS.read_text())


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("file, architecture", [(file, number) for file in nvrtc.sources() for number in nvrtc.architectures(file)],
                         ids=lambda value: getattr(value, "name", None))
def test_kernels_compile_within_their_limits(file, architecture):
    found = nvrtc.compile_kernels(file, architecture)
    recorded = limits().get(file.relative_to(nvrtc.PACKAGE).as_posix(), {})
    here = {kernel: machines[f"sm_{architecture}"] for kernel, machines in recorded.items() if f"sm_{architecture}" in machines}
    assert sorted(found) == sorted(here), "record the limits: python tests/nvrtc.py --write"
    for kernel, numbers in found.items():
        most = here[kernel]
        assert numbers["registers"] <= most["registers"] + SLACK, (kernel, numbers, most)
        assert all(numbers[name] <= most[name] for name in ("stack", "spill_stores", "spill_loads", "shared")), (kernel, numbers, most)


def test_no_kernel_spills():
    for kernels in limits().values():
        for kernel, machines in kernels.items():
            for numbers in machines.values():
                assert numbers["spill_stores"] == numbers["spill_loads"] == 0, (kernel, numbers)


def test_dynamic_shared_memory_leaves_space_for_static():
    """The limit per block is for dynamic and static shared memory together."""
    static = {"factor/lu/fronts/fronts.cu": 0, "factor/ldlt/complete.cu": STATIC}
    for file, most in static.items():
        panels = {name: machines for name, machines in limits()[file].items() if name.startswith("k_panel")}
        assert panels and all(numbers["shared"] <= most for machines in panels.values() for numbers in machines.values())


def test_limits_name_existing_kernels():
    assert {file for file in limits()} == {file.relative_to(nvrtc.PACKAGE).as_posix() for file in nvrtc.sources()}


def test_the_report_is_read_as_ptxas_writes_it():
    log = """ptxas info    : Compiling entry function 'k_solve' for 'sm_90'
    ptxas info    : Function properties for k_solve
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
    ptxas info    : Used 31 registers, used 1 barriers, 4096 bytes smem"""
    assert nvrtc.parse(log) == {"k_solve": {"registers": 31, "stack": 16, "spill_stores": 8, "spill_loads": 4, "shared": 4096}}


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("name", ["parac/ordered", "parac/rounds", "ildl/rows"])
def test_bitwise_equal_factors_do_not_contract_products(name):
    """A fused multiply-add in sums or samples would change bits, and then samples or pivots, compared with the CPU."""
    ptx = nvrtc.ptx_of(nvrtc.PACKAGE / f"factor/{name}.cu", 90, "-DMESHSOLVE_UNFUSED")
    assert "div.rn.f64" in ptx and "fma.rn.f64" not in ptx


@needs_nvrtc
@pytest.mark.parametrize("architecture, scalar, expected", [(80, "double", True), (90, "double", True), (100, "double", True),
                                                            (80, "float", False), (86, "double", False), (89, "double", False),
                                                            (103, "double", False), (120, "double", False)])
def test_tensor_cores_multiply_where_they_are_fast(architecture, scalar, expected):
    """All versions copy asynchronously."""
    if architecture not in nvrtc.known_architectures():
        pytest.skip(f"this NVRTC does not know sm_{architecture}")
    ptx = nvrtc.ptx_of(nvrtc.PACKAGE / "factor/cholesky/queue.cu", architecture, *nvrtc.macros_of(scalar, architecture))
    assert ("mma.sync.aligned.m8n8k4.row.col.f64" in ptx) == expected and "cp.async.ca.shared.global" in ptx


@needs_nvrtc
def test_a_compiler_error_is_raised(tmp_path):
    file = tmp_path / "wrong.cu"
    file.write_text('extern "C" __global__ void k_wrong() { undeclared(); }')
    with pytest.raises(SyntaxError, match="undeclared"):
        nvrtc.compile_kernels(file, 80)
