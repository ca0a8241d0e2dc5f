#!/usr/bin/env bash
# From a clone to a smoothed scan: installs meshsolve into .venv, makes a scan-like mesh where no file is given, and removes
# its noise.   usage: bash scripts/demo.sh [MESH]
set -euo pipefail
mesh="${1:+$(realpath -m -- "$1")}"
[ -z "$mesh" ] || [ -f "$mesh" ] || { echo "there is no file $mesh" >&2; exit 1; }
cd "$(dirname "$0")/.."
source scripts/env.sh
environment
if [ -z "$mesh" ]; then
  mesh=data/scan.ply
  [ -f "$mesh" ] || .venv/bin/python -P data/make_data.py -o "$mesh"
fi
mkdir -p out
.venv/bin/meshsolve smooth "$mesh" -o out/smoothed.ply --render out/smoothed.png --report out/report.json
echo "wrote out/smoothed.ply, out/smoothed.png and out/report.json"
