"""First impressions: import time, tab completion, and the printed form of results."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms

A = ms.datasets.grid2d(9, 8, boundary="dirichlet")
L = ms.datasets.grid2d(9, 8)
DECK = "RC\nV1 in 0 PULSE(0 1 0 1n 1n 1 2) AC 1\nR1 in out 1k\nC1 out 0 1u\n.end\n"


LATE = ("scipy.ndimage", "scipy.io", "scipy.spatial", "scipy.optimize", "scipy.stats", "matplotlib", "PIL", "trimesh", "tqdm", "torch", "jax", "cupy",
        "cupyx", "polyscope", "meshio", "nvmath")


def test_optional_packages_are_imported_lazily():
    """numpy, scipy.sparse and its linalg are needed (90 % of the time); everything else is imported on use."""
    code = f"import sys, meshsolve.cli; print([name for name in {LATE} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", [ms, ms.order, ms.apps, ms.apps.circuit, ms.datasets, ms.torch], ids=lambda m: m.__name__)
def test_completion_offers_only_public_names(module):
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)


@pytest.mark.parametrize("make, shown", [
    (lambda: ms.cholesky(A), ["CholeskyFactor(n=72, nnz=", "dtype=float64", "ordering='amd'", "device='cpu'"]),
    (lambda: ms.lu(A + 1j * sp.eye_array(72)), ["LUFactor(n=72", "complex128", "engine="]),
    (lambda: ms.ildl(ms.datasets.kkt(30, 12)), ["IldlFactor(n=42", "mode='complete'"]),
    (lambda: ms.parac(L), ["ParacFactor(n=72", "ordering='rounds'"]),
    (lambda: ms.factorized(A), ["CholeskyFactor(n=72"]),
    (lambda: ms.analyze(A), ["Symbolic(n=72"]),
    (lambda: ms.order.nested_dissection(ms.datasets.icosphere(5)), ["Ordering('nd', n=10242, tree of "]),
    (lambda: ms.order.nested_dissection(ms.datasets.icosphere(5)).tree, ["SeparatorTree(", " nodes, 1 of them roots)"]),
    (lambda: ms.order.amd(A), ["Ordering('amd', n=72)"]),
    (lambda: ms.PatchMesh(ms.datasets.icosphere(3), patch_size=128).patch(0), ["Patch(", "ribbon)"]),
    (lambda: ms.solve(A, np.ones(72))[1], ["Info(method='cholesky', converged=True, iterations=0, relative_residual=", "reason='direct'"]),
    (lambda: ms.cg(A, np.ones((72, 3)), M=ms.cholesky(A))[1], ["Info(method='cg', converged=True, iterations=1", "reason='converged'"]),
    (lambda: ms.cg(A, np.ones((72, 0)))[1], ["Info(method='cg'", "relative_residual=0"]),
], ids=lambda case: "" if callable(case) else case[0].split("(")[0])
def test_results_print_in_one_line(make, shown):
    text = repr(make())
    assert all(part in text for part in shown), text
    assert "\n" not in text and len(text) < 160


def test_results_of_circuits_print_in_one_line(tmp_path):
    (tmp_path / "rc.sp").write_text(DECK)
    circuit = ms.apps.circuit.read(tmp_path / "rc.sp")
    assert repr(circuit) == "Circuit('RC', 2 nodes, R: 1, C: 1, V: 1)"
    assert repr(circuit.op()) == "OperatingPoint(2 nodes)"
    assert repr(circuit.transient(1e-4, 1e-3)) == "Waveforms(11 points of time from 0 to 0.001, 2 nodes)"
    assert repr(circuit.ac("lin", 3, 10, 30, nodes=["out"])) == "Waveforms(3 points of frequency from 10 to 30, 1 node)"
