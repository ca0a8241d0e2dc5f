#!/usr/bin/env bash
# From a clone to passing tests: installs meshsolve into .venv and runs the tests against what was installed.
# usage: bash scripts/test.sh [PYTEST ARGUMENTS]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh "[test]"
exec .venv/bin/pytest "$@"
