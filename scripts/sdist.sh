#!/usr/bin/env bash
# The source distribution as a stranger meets it: built into dist/, its metadata checked, installed in a clean virtual environment,
# and one system factored there. PYTHON=... names the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/tools"
"$work/tools/bin/python" -m pip install --quiet --disable-pip-version-check build twine
rm -f dist/*.tar.gz
"$work/tools/bin/python" -m build --sdist
"$work/tools/bin/python" -m twine check --strict dist/*.tar.gz
"${PYTHON:-python3}" -m venv "$work/clean"
"$work/clean/bin/python" -m pip install --quiet --disable-pip-version-check dist/*.tar.gz
cd "$work"                                 # what is imported is what was installed
clean/bin/python - <<'PY'
import numpy as np
import meshsolve as ms

A = ms.datasets.grid2d(60, 50, boundary="dirichlet")
b = np.arange(3000.0)
error = np.abs(A @ ms.cholesky(A).solve(b) - b).max() / b.max()
print(f"meshsolve {ms.__version__} from {ms.__file__}: error {error:.1e}")
assert error < 1e-12
PY
