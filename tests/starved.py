"""Run Python in a child process in which allocations of the C++ core fail.

After starve(least, most, k), allocations of ``least`` to ``most`` bytes fail, except the first k. After starve_aligned() only those
of ``aligned_block`` fail. feed() ends both. refused() returns whether an allocation failed. After no_threads(), thread creation fails.
"""

import functools
import os
import platform
import subprocess
import sys
import tempfile

import pytest

SOURCE = r"""
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <new>
#include <pthread.h>

extern "C" {
void* __libc_memalign(size_t, size_t);

static std::atomic<size_t> least{0}, most{0};
static std::atomic<long> left{0};
static std::atomic<bool> hungry{false}, all{true};

void feed() { hungry = false; }
static void refuse(size_t from, size_t to, long k, bool any) {
  feed();
  least = from;
  most = to;
  left = k;
  all = any;
  hungry = true;
}
void starve(size_t from, size_t to, long k) { refuse(from, to, k, true); }
void starve_aligned(size_t from, size_t to, long k) { refuse(from, to, k, false); }
int refused() { return left < 0; }

static bool refuses(size_t bytes) { return hungry && bytes >= least && bytes <= most && left.fetch_sub(1) <= 0; }

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  if (!refuses(bytes)) return __libc_memalign(alignment, bytes);
  errno = ENOMEM;
  return nullptr;
}

static std::atomic<bool> single{false};
void no_threads() { single = true; }
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) noexcept {
  static const auto create = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return single ? EAGAIN : create(thread, attributes, run, argument);
}
}

void* operator new(size_t bytes) {
  void* const block = all && refuses(bytes) ? nullptr : std::malloc(bytes);
  if (!block) throw std::bad_alloc();
  return block;
}
"""
PREPARED = """
import ctypes
core = ctypes.CDLL(None)
starve, starve_aligned, feed, refused, no_threads = core.starve, core.starve_aligned, core.feed, core.refused, core.no_threads
starve.argtypes = starve_aligned.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_long]
"""
available = pytest.mark.skipif(platform.libc_ver()[0] != "glibc" or "LD_PRELOAD" in os.environ,
                               reason="replaces functions of the GNU C library")


@functools.cache
def library():
    """Build the preloaded library and return its path."""
    folder = tempfile.mkdtemp()
    built = os.path.join(folder, "starved.so")
    subprocess.run(["g++", "-shared", "-fPIC", "-O1", "-x", "c++", "-", "-o", built, "-ldl"], input=SOURCE, text=True, check=True)
    return built


def python(code, timeout=600):
    """Run the code and return its output; a failure or a timeout is an error."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LD_PRELOAD": library()}
    done = subprocess.run([sys.executable, "-c", PREPARED + code], capture_output=True, text=True, timeout=timeout, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
