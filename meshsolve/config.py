"""Versions and hardware of this installation, for bug reports and benchmark files."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TextIO

from meshsolve import _core
from meshsolve.options import thread_count
from meshsolve.version import __version__


def config():
    """Versions, instruction set, threads and GPU as a dict of str to str."""
    facts = {
        "meshsolve": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "instruction set": _core.isa(),
        "dense kernels": "own",
        "threads": str(thread_count()),
    }
    for package in ("numpy", "scipy", "trimesh", "matplotlib"):
        facts[package] = _version(package)
    facts["cupy"], facts["gpu"] = _gpu()
    return facts


def show_config(file: TextIO | None = None) -> None:
    """Print versions, instruction set, threads and GPU of this installation.

    Parameters
    ----------
    file : text stream, optional
        Standard output by default.
    """
    facts = config()
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}", file=file)


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _gpu():
    try:
        import cupy
    except ImportError:
        return "not installed", "none"
    try:
        found = cupy.cuda.is_available() and cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except Exception as e:                                  # a broken driver may raise anything
        found = f"none: {e}"
    return cupy.__version__, found or "none"
