#!/usr/bin/env bash
# From a clone to passing tests: installs meshsolve into .venv and runs the tests against what was installed.
# usage: bash scripts/test.sh [PYTEST ARGUMENTS]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
environment test docs viewer
# Circuits are compared with ngspice where it is there, the viewer draws by EGL; root on Debian (a container, CI) gets both.
missing=()
command -v ngspice >/dev/null || missing+=(ngspice)
{ ldconfig -p 2>/dev/null | grep -q "libEGL_mesa"; } || missing+=(libegl1 libegl-mesa0 libgl1-mesa-dri libx11-6)
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  (apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}") >/dev/null 2>&1 ||
    echo "${missing[*]} could not be installed: the tests that need them are skipped" >&2
fi
# The tests of ms.petsc need PETSc: MESHSOLVE_TEST_PETSC=1 installs it, which takes two minutes and is left out otherwise. The steps are
# those of docs/petsc.md.
install_petsc() {
  apt-get update -qq && apt-get install -y -qq --no-install-recommends libpetsc-real-dev pkg-config &&
    .venv/bin/pip install -q mpi4py "setuptools<80" wheel &&
    PETSC_DIR=/usr/lib/petsc CFLAGS="-O1 -g0" .venv/bin/pip install -q --no-build-isolation "petsc4py==$(pkg-config --modversion PETSc)"
}
if [ "${MESHSOLVE_TEST_PETSC:-0}" = 1 ] && ! .venv/bin/python -c "import petsc4py" 2>/dev/null; then
  install_petsc >/dev/null 2>&1 || echo "PETSc could not be installed: the tests that need it are skipped" >&2
fi
# A process for each core: most tests keep one busy. -n 0 runs them in this one (for --pdb). Threads of OpenBLAS and OpenMP would
# compete with the other processes, and spin while they wait: the tests of eigenpairs take 8 times as long with them.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
unset PYTHONDONTWRITEBYTECODE           # the next run need not compile the tests
exec .venv/bin/pytest -n auto --dist worksteal "$@"
