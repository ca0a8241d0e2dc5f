#!/usr/bin/env bash
# Builds the core for aarch64 with a cross compiler and runs tests of it on an emulated processor: for Debian 12 on x86-64,
# as root. Slower by a factor of ten; tests that compile or start other programs do not run there. Everything but Debian's
# cross compiler and QEMU goes into build/aarch64. PYTHON: one of the version that Debian has, 3.11.
# usage: bash scripts/emulate.sh [PYTEST ARGUMENTS]     by default a tour of the core
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD/build/aarch64 version=3.11 triple=aarch64-linux-gnu
mkdir -p "$here/debs" "$here/lists/partial"
command -v qemu-aarch64-static "$triple-g++" >/dev/null || { apt-get update -qq; apt-get install -y -qq qemu-user-static "g++-$triple"; } >/dev/null

if [ ! -x "$here/root/usr/bin/python$version" ]; then       # Debian's Python and its libraries, unpacked, not installed
  apt=(apt-get -qq -oAPT::Architecture=arm64 -oAPT::Architectures=arm64 "-oDir::State::Lists=$here/lists" -oAPT::Sandbox::User=root)
  "${apt[@]}" update
  (cd "$here/debs" && "${apt[@]}" download libc6 libgcc-s1 libstdc++6 libgomp1 zlib1g libexpat1 libssl3 libffi8 libbz2-1.0 liblzma5 \
    libsqlite3-0 libuuid1 libcrypt1 "python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib" "libpython$version-dev")
  for package in "$here"/debs/*.deb; do dpkg -x "$package" "$here/root"; done
fi
[ -x "$here/venv/bin/cmake" ] || { "${PYTHON:-python$version}" -m venv "$here/venv"; "$here/venv/bin/pip" -q install cmake ninja nanobind; }
if [ ! -d "$here/site/pytest" ]; then
  mapfile -t needed < <("$here/venv/bin/python" -c "import tomllib
for name in tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'] + ['pytest', 'hypothesis']: print(name)")
  "$here/venv/bin/pip" -q install --target "$here/site" --only-binary=:all: --python-version $version --implementation cp \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 \
    "${needed[@]}"
fi

headers=$here/root/usr/include
"$here/venv/bin/cmake" -S . -B "$here/core" -G Ninja -DCMAKE_MAKE_PROGRAM="$here/venv/bin/ninja" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 "-DCMAKE_CXX_COMPILER=$triple-g++" -DPython_EXECUTABLE="$here/venv/bin/python" \
  "-DCMAKE_CXX_FLAGS=-I$headers/python$version -I$headers" ${CXX_LAUNCHER:+-DCMAKE_CXX_COMPILER_LAUNCHER=$CXX_LAUNCHER} \
  -DSKBUILD_PROJECT_NAME=meshsolve -DSKBUILD_PROJECT_VERSION=0 -DSKBUILD_SOABI="cpython-${version/./}-$triple" >/dev/null
"$here/venv/bin/cmake" --build "$here/core"

rm -rf "$here/run" && mkdir "$here/run"                       # a copy: the checkout may hold a core for this machine
cp -r meshsolve tests pyproject.toml "$here/run"
rm -f "$here"/run/meshsolve/_core*.so
cp "$here"/core/_core*.so "$here/run/meshsolve"
cd "$here/run"
[ $# -gt 0 ] || set -- tests/factor/cholesky tests/factor/symbolic tests/order tests/patches tests/krylov tests/test_right_hand_sides.py
exec qemu-aarch64-static -L "$here/root" -E "LD_LIBRARY_PATH=$here/root/usr/lib/$triple" -E "PYTHONPATH=$here/run:$here/site" \
  "$here/root/usr/bin/python$version" -m pytest -q -p no:cacheprovider -k "not cuda and not kernel and not instruction_set" "$@"
