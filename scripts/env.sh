# Sourced by the other scripts: a virtual environment in .venv with meshsolve built and installed from this checkout.
# usage: source scripts/env.sh [EXTRA]     EXTRA: "[test]", "[bench]", ...
python="${PYTHON:-python3}"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "meshsolve needs Python 3.11 or newer (PYTHON=... names one)" >&2; exit 1; }
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check ".${1:-}"
