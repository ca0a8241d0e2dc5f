#!/usr/bin/env bash
# From a clone to passing tests: installs meshsolve into .venv and runs the tests against what was installed.
# usage: bash scripts/test.sh [PYTEST ARGUMENTS]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh "[test,docs]"
# Circuits are compared with ngspice where it is there; root on Debian (a container, CI) gets it.
if ! command -v ngspice >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  (apt-get update -qq && apt-get install -y -qq --no-install-recommends ngspice) >/dev/null 2>&1 || echo "ngspice could not be installed: its tests are skipped" >&2
fi
exec .venv/bin/pytest "$@"
