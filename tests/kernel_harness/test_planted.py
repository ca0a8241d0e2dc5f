"""The harness finds the faults listed in README.md, and reports nothing for correct kernels."""

import functools
import json
import os
import pathlib
import sys
import tempfile

import numpy as np
import pytest

from kernel_harness import Harness, KernelError, sanitized
from kernel_harness.harness import Library

PLANTED = pathlib.Path(__file__).parent / "planted"
FAULTS = PLANTED / "faults.cu"
RACES = PLANTED / "races.cu"


def run(kernel, grid, block, args, shared=0, file=FAULTS, **variation):
    harness = Harness(**variation)
    harness.launch(harness.function(file, kernel), (grid,), (block,), shared, args)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kernel, grid, block, says", [
    ("k_divergent_barrier", 1, 64, r"divergent __syncthreads: block \(0,0,0\) thread"),
    ("k_deadlock", 1, 32, "deadlock|divergent"),
    ("k_absent_lane", 1, 32, "lane that takes no part"),
])
def test_faults_that_every_build_finds(kernel, grid, block, says, seed):
    with pytest.raises(KernelError, match=says):
        run(kernel, grid, block, [np.zeros(64, np.int32)], seed=seed)


def test_a_spin_without_progress_ends():
    with pytest.raises(KernelError, match=r"timeout: block \(\d,0,0\) .* spins without progress"):
        run("k_grid_barrier", 4, 32, [np.zeros(1, np.int32)], resident=2, timeout=0.2)
    arrived = np.zeros(1, np.int32)
    run("k_grid_barrier", 4, 32, [arrived], resident=4)
    assert arrived[0] == 4


def test_a_timeout_is_reported():
    arrived, stalled = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run("k_patient_barrier", 4, 32, [arrived, stalled], resident=2)
    assert stalled[0] == 1 and arrived[0] == 4
    arrived[:] = stalled[:] = 0
    run("k_patient_barrier", 2, 32, [arrived, stalled], resident=2)
    assert stalled[0] == 0


def test_shared_memory_begins_as_garbage():
    out = np.zeros(1, np.int32)
    run("k_uninitialized", 2, 32, [out])
    assert out[0] != 32


def test_the_harness_is_usable_after_a_failure():
    for _ in range(3):
        with pytest.raises(KernelError):
            run("k_divergent_barrier", 8, 64, [np.zeros(64, np.int32)], resident=4)
    run("k_lost_update", 1, 32, [np.zeros(1, np.int32)])


@pytest.mark.parametrize("args, says", [
    ([np.zeros(1, np.int64)], "i8 array, the kernel takes \\*i4"),
    ([np.zeros(8, np.int32)[::2]], "not contiguous"),
    ([np.int32(3)], "int32, the kernel takes"),
    ([], "takes 1 arguments, got 0"),
])
def test_wrong_arguments_are_refused(args, says):
    with pytest.raises(KernelError, match=says):
        run("k_lost_update", 1, 32, args)


@pytest.mark.parametrize("source, says", [
    ("__shared__ int file_scope[4];", "2: __shared__ at file scope"),
    ('extern "C" __global__ void k_a() { __shared__ int a, b[4]; }', "2: one __shared__ variable"),
    ('extern "C" __global__ void k_a() { asm("nop;"); }', "2: asm"),
    ('extern "C" __global__ void k_a() { __activemask(); }', "2: __activemask"),
    ("__global__ void k_a() {}", '2: write: extern "C"'),
])
def test_code_of_another_meaning_in_gcc_is_refused(tmp_path, source, says):
    file = tmp_path / "refused.cu"
    file.write_text(f"// a line\n{source}\n")
    with pytest.raises(SyntaxError, match=says):
        Harness().function(file, "k_a")


# ---- races between threads of a block


def out():
    return np.zeros(64, np.int32)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kernel, args", [
    ("k_overwritten", [out()]), ("k_lockstep", [out()]), ("k_weak_barrier", [out()]), ("k_byte", [out()]), ("k_plain_read", [out()]),
    ("k_flag", [out(), np.zeros(1, np.int32), np.int32(0)]),
])
def test_races_are_found_with_every_schedule(kernel, args, seed):
    if kernel == "k_flag":
        args[1][:] = 0
    with pytest.raises(KernelError, match=r"data race: thread \d+ at .*races.cu:\d+|data race: thread .* at .*cuda.hpp"):
        run(kernel, 1, 64, args, file=RACES, sanitize="races", seed=seed)


def test_fences_around_a_flag_order_its_payload():
    sent = out()
    run("k_flag", 1, 64, [sent, np.zeros(1, np.int32), np.int32(1)], file=RACES, sanitize="races")
    assert np.array_equal(sent[:32], np.arange(32)[::-1])


def lines_of(kernel, words):
    """Lines of races.cu from the name of a kernel on with one of the words."""
    code = RACES.read_text().split("\n")
    begin = next(number for number, line in enumerate(code, 1) if f"{kernel}(" in line)
    return [number for number, line in enumerate(code, 1) if number > begin and any(word in line for word in words)]


def test_needed_constructs_are_listed():
    run("k_needed", 1, 64, [out(), np.zeros(1, np.int32)], file=RACES, sanitize="races")
    needed = next(library for library in Library.loaded if library.file.name.startswith("races.")).needed_lines()
    assert [(str(RACES), line) in needed for line in lines_of("k_needed", ["__syncthreads", "volatile"])] == [True, False, True]


@pytest.mark.parametrize("nth, says", [(0, "data race"), (1, ""), (2, "data race")], ids=["needed", "redundant", "volatile"])
def test_a_construct_is_taken_away(nth, says):
    line = lines_of("k_needed", ["__syncthreads", "volatile"])[nth]
    code = ("import numpy as np; from kernel_harness.test_planted import *; "
            'run("k_needed", 1, 64, [out(), np.zeros(1, np.int32)], file=RACES)')
    child = sanitized.python(["-c", code], "races", MESHSOLVE_HARNESS_WITHOUT=f"planted/races.cu:{line}")
    check(child.returncode, child.stderr, says)


# ---- faults found by sanitizers: a process for each sanitizer, which runs each fault in a copy of itself

FAULTY = [("k_missing_barrier", 1, 128, 0, "thread", "data race"),
          ("k_lost_update", 2, 32, 0, "thread", "data race"),
          ("k_shared_overrun", 1, 32, 128, "address", "AddressSanitizer"),
          ("k_static_overrun", 1, 32, 0, "address", "planted/faults.cu"),
          ("k_signed_overflow", 1, 32, 0, "address", "signed integer overflow"),
          ("k_misaligned", 1, 32, 0, "address", "misaligned address"),
          ("k_null", 1, 32, 0, "address", "SEGV")]
SOLVES = [("none", "address", ""), ("none", "thread", ""),
          ("overrun", "address", "heap-buffer-overflow"),
          ("no barrier", "thread", "data race"),
          ("no fence", "thread", "data race"),
          ("no acquire", "thread", "data race"),
          ("plain flag", "thread", "data race")]


def run_fault(kernel, grid, block, shared):
    args = {"k_missing_barrier": [np.ones(128, np.int32), np.zeros(1, np.int32)],
            "k_static_overrun": [np.zeros(32, np.int32), np.int32(33)]}.get(kernel, [np.zeros(32, np.int32)])
    for seed in (0, 1):
        run(kernel, grid, block, args, shared=shared, seed=seed)


def run_solves(plant):
    for seed in (0, 1, 2):
        solve(plant, seed)


def run_all(sanitizer):
    """Run the faults that a sanitizer finds, each in a copy of this process; print {name: [exit code, messages]} as JSON."""
    cases = {case[0]: (run_fault, case[:4]) for case in FAULTY if case[4] == sanitizer}
    cases |= {case[0]: (run_solves, case[:1]) for case in SOLVES if case[1] == sanitizer}
    found = {}
    for name, (function, arguments) in cases.items():
        with tempfile.TemporaryFile("w+") as messages:
            child = os.fork()
            if child == 0:
                os.dup2(messages.fileno(), 2)
                function(*arguments)
                sys.exit()                                  # ThreadSanitizer has its exit code here
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            messages.seek(0)
            found[name] = code, messages.read()
    print(json.dumps(found))


@functools.cache
def sanitized_run(sanitizer):
    child = sanitized.python(["-c", f"from kernel_harness.test_planted import run_all; run_all({sanitizer!r})"], sanitizer)
    assert child.stdout, child.stderr[-3000:]
    return json.loads(child.stdout.splitlines()[-1])


PLANTS = ("none", "overrun", "no barrier", "no fence", "no acquire", "plain flag")


def solve(plant, seed, n=200):
    """The persistent triangular solve of planted/solve.cu, compared with numpy if no fault is planted."""
    rng = np.random.default_rng(0)
    indptr = np.minimum(2 * np.arange(n + 1), 2 * n).astype(np.int32) - 2
    indptr[0] = 0
    indices = np.array([max(0, i - 1 - int(rng.integers(0, 9))) for i in range(1, n) for _ in range(2)], np.int32)
    data, b = rng.uniform(-0.1, 0.1, len(indices)), rng.standard_normal(n)
    x, done, head = np.zeros(n), np.zeros(n, np.int32), np.zeros(1, np.int32)
    args = [indptr, indices, data, b, x, done, head, np.int32(n), np.int32(PLANTS.index(plant))]
    run("k_solve", 4, 64, args, file=PLANTED / "solve.cu", resident=4, seed=seed)
    expected = b.copy()
    for i in range(1, n):
        expected[i] -= data[indptr[i]:indptr[i + 1]] @ expected[indices[indptr[i]:indptr[i + 1]]]
    assert plant != "none" or np.allclose(x, expected, atol=1e-12)


def check(code, messages, says):
    assert (code != 0) == bool(says), messages[-3000:]
    assert says in messages, messages[-3000:]


def test_a_clean_persistent_kernel_is_right():
    for seed in range(4):
        solve("none", seed)


@pytest.mark.slow
@pytest.mark.parametrize("plant, sanitizer, says", SOLVES)
def test_planted_in_a_persistent_kernel(plant, sanitizer, says):
    check(*sanitized_run(sanitizer)[plant], says)


@pytest.mark.slow
@pytest.mark.parametrize("kernel, grid, block, shared, sanitizer, says", FAULTY)
def test_planted_faults(kernel, grid, block, shared, sanitizer, says):
    check(*sanitized_run(sanitizer)[kernel], says)
