# Sourced by the other scripts: a virtual environment in .venv with meshsolve built and installed from this checkout.
# usage: source scripts/env.sh [EXTRA]     EXTRA: "[test]", "[bench]", ...
python="${PYTHON:-python3}"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "meshsolve needs Python 3.11 or newer (PYTHON=... names one)" >&2; exit 1; }
[ -x .venv/bin/python ] || "$python" -m venv .venv
pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check)
# The compiler's tools stay in .venv: pip's own build environment lies in a new folder each time, and everything would be
# compiled again for the next script.
tools=($(.venv/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])'))
command -v cmake >/dev/null || tools+=("cmake>=3.20")
"${pip[@]}" "${tools[@]}"
PATH="$PWD/.venv/bin:$PATH" "${pip[@]}" --no-build-isolation ".${1:-}"
