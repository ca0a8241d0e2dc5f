"""Runs the library's CUDA kernels on the CPU, see README.md. `Harness` replaces CuPy as backend of `meshsolve.device`."""

from kernel_harness.harness import Harness, KernelError, OnDevice

__all__ = ["Harness", "KernelError", "OnDevice"]
