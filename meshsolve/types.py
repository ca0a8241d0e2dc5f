"""Names for what public functions take and give, for type checkers and for readers of signatures.

scipy and CuPy have no types of their own, so a matrix is ``Any`` to a checker; what it may be is checked when it comes in,
by :mod:`meshsolve.sparse`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from numpy.typing import ArrayLike, DTypeLike

__all__ = ["Array", "ArrayLike", "Auto", "Boundary", "Callback", "Chosen", "DTypeLike", "Device", "Effort", "Matrix", "Memory",
           "Path", "Place", "Precision", "Sparse", "System", "Trans"]

Matrix: TypeAlias = Any                 # scipy sparse array or matrix of any format, dense array, CuPy sparse matrix
Sparse: TypeAlias = Any                 # scipy.sparse.csr_array or csc_array
Array: TypeAlias = Any                  # numpy array; CuPy array where the argument lies on the GPU
Path: TypeAlias = str | os.PathLike[str]
Callback: TypeAlias = Callable[..., object]

Auto: TypeAlias = Literal["auto"]
Device: TypeAlias = Literal["auto", "cpu", "cuda"]
Place: TypeAlias = Literal["cpu", "cuda"]
Memory: TypeAlias = Literal["ram", "disk"]
Precision: TypeAlias = Literal["double", "single", "mixed"]
Effort: TypeAlias = Literal["default", "fast", "quality"]
Boundary: TypeAlias = Literal["neumann", "dirichlet"]
System: TypeAlias = Literal["A", "L", "Lt"]
Trans: TypeAlias = Literal["N", "T", "H"]
Chosen: TypeAlias = Literal["auto", "cholesky", "lu", "ildl", "ilu", "parac"]
