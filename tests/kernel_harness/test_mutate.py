"""The constructs that mutate.py finds in a source, and its table of results."""

import re

import pytest

from kernel_harness import harness, mutate

SOURCE = """
struct Group {
  __device__ void sync() const { __syncthreads(); }         // its calls are the constructs
};
// __syncthreads() in a comment
__device__ void wait(const int* flag) {
  while (!*static_cast<const volatile int*>(flag)) {}
  __threadfence();
}
extern "C" __global__ void __launch_bounds__(64) k_sum(int* x, const int* flag) {
  Group g;
  wait(flag);
  g.sync();
  x[threadIdx.x] += 1;
  g.sync();
}
"""


def test_constructs_of_a_source():
    sites = list(mutate.sites_of("a.cu", SOURCE))
    assert [(site.function, site.construct, site.number, site.line) for site in sites] == [
        ("wait", "volatile", 0, 7), ("wait", "__threadfence", 0, 8), ("k_sum", "sync", 0, 13), ("k_sum", "sync", 1, 15)]


def test_the_code_of_a_construct_is_that_of_its_function():
    codes = [site.code for site in mutate.sites_of("a.cu", SOURCE)]
    assert codes[0] == codes[1] != codes[2] == codes[3]
    for text, changed in ((SOURCE.replace("+= 1", "+= 2"), [False, False, True, True]), (SOURCE.replace("comment", "remark"), [False] * 4),
                          (SOURCE.replace("Group g;", "Group  g;  // all threads"), [False] * 4)):
        assert [a != site.code for a, site in zip(codes, mutate.sites_of("a.cu", text), strict=True)] == changed


def test_a_call_of_sync_has_the_line_of_its_barrier():
    text = harness.transform(SOURCE, 0)
    assert "void sync(unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) const { __syncthreads(line, file); }" in text
    assert text.count("\n") == SOURCE.count("\n")


def test_every_result_has_a_test_or_a_reason():
    for row in mutate.known().values():
        assert row["result"] in ("found", "survives"), row
        if row["result"] == "found":
            file, name = re.match(r"(tests/[\w/]+\.py)(?:::(\w+))?", row["by"]).groups()
            assert name is None or f"def {name}(" in (mutate.HERE.parents[1] / file).read_text(), row
        elif not row["by"]:
            pytest.fail(f"a survivor without a reason: {row}")
