#!/usr/bin/env bash
# The C++ core under AddressSanitizer and UBSan, then under ThreadSanitizer: builds each into build/sanitize-* and runs the tests
# marked `native` with it. PYTHON=... names an interpreter that has nanobind and the packages of the tests; else .venv is made.
# usage: bash scripts/sanitize.sh [address] [thread] [-- PYTEST ARGUMENTS]
set -euo pipefail
cd "$(dirname "$0")/.."
kinds=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do kinds+=("$1"); shift; done
[ $# -eq 0 ] || shift
[ ${#kinds[@]} -gt 0 ] || kinds=(address thread)
if [ -z "${PYTHON:-}" ]; then
  source scripts/env.sh
  environment test
  PYTHON="$PWD/.venv/bin/python"
fi
export PATH="$(dirname "$PYTHON"):$PATH"

build() {                                  # build KIND FLAGS: an instrumented package in build/sanitize-KIND/stage
  local folder="build/sanitize-$1"
  cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$PYTHON" -DMESHSOLVE_SANITIZE="$2" \
    ${CXX:+-DCMAKE_CXX_COMPILER="$CXX"} ${CXX_LAUNCHER:+-DCMAKE_CXX_COMPILER_LAUNCHER="$CXX_LAUNCHER"} >/dev/null
  cmake --build "$folder" --target _core
  rm -rf "$folder/stage"
  mkdir -p "$folder/stage"
  cp -r meshsolve "$folder/stage/"
  find "$folder/stage" -name '*.so' -delete
  cp "$folder"/_core*.so "$folder/stage/meshsolve/"
}

runtime() { "${CXX:-g++}" -print-file-name="$1"; }

for kind in "${kinds[@]}"; do
  case "$kind" in
    address) flags=address,undefined; isa=v3; preload="$(runtime libasan.so):$(runtime libstdc++.so.6)" ;;
    thread) flags=thread; isa=v4; preload="$(runtime libtsan.so)" ;;
    *) echo "unknown sanitizer '$kind': address or thread" >&2; exit 2 ;;
  esac
  build "$kind" "$flags"
  echo "== $kind"
  # Python itself is not instrumented: what it leaks, and what threads do through its lock, is not looked at. Frames that outlive their
  # function (detect_stack_use_after_return) are aligned to 32 bytes, and vectors of AVX-512 need 64.
  env MESHSOLVE_ISA="$isa" LD_PRELOAD="$preload" PYTHONPATH="$PWD/build/sanitize-$kind/stage" PYTHONMALLOC=malloc MESHSOLVE_NUM_THREADS=2 \
    ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:allocator_may_return_null=1 \
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    TSAN_OPTIONS=ignore_noninstrumented_modules=1:report_signal_unsafe=0:exitcode=66:halt_on_error=1 \
    "$PYTHON" -P -m pytest -m native -p no:cacheprovider "$@"
done
