# Sourced by the other scripts. `environment EXTRA ...` makes a virtual environment in .venv with meshsolve built and installed
# from this checkout, and what its extras name ("test", "docs", ...; see pyproject.toml).
environment() {
  local python="${PYTHON:-python3}"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "meshsolve needs Python 3.11 or newer (PYTHON=... names one)" >&2; exit 1; }
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  local pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check)
  # The compiler's tools stay in .venv: pip's own build environment lies in a new folder each time, and everything would be
  # compiled again for the next script. Other packages are installed before, as some have no wheel and want tools of their own.
  .venv/bin/python - "$@" > .venv/packages.txt <<'PACKAGES'
import sys, tomllib
settings = tomllib.load(open("pyproject.toml", "rb"))
project = settings["project"]
packages = settings["build-system"]["requires"] + project["dependencies"]
print(*packages, *(package for extra in sys.argv[1:] for package in project["optional-dependencies"][extra]), sep="\n")
PACKAGES
  command -v cmake >/dev/null || echo "cmake>=3.20" >> .venv/packages.txt
  "${pip[@]}" -r .venv/packages.txt
  PATH="$PWD/.venv/bin:$PATH" "${pip[@]}" --no-build-isolation .
}
