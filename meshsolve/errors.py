"""Exceptions and warnings of meshsolve.

Every exception derives from :class:`MeshsolveError` and from the built-in exception that fits. An attribute has the row, column
or index that failed, in the caller's numbering.
"""

from __future__ import annotations

from typing import Any

from numpy.linalg import LinAlgError


class MeshsolveError(Exception):
    """Base of every exception that meshsolve raises on purpose."""


class InvalidInputError(MeshsolveError, ValueError):
    """An argument has a wrong shape, type, range or value."""


class NotSymmetricError(InvalidInputError):
    """The matrix must be symmetric; ``.row`` and ``.column`` name the worst entry."""

    def __init__(self, message: str, row: int = -1, column: int = -1) -> None:
        super().__init__(message)
        self.row, self.column = row, column


class NotPositiveDefiniteError(MeshsolveError, ArithmeticError, LinAlgError):
    """A Cholesky pivot is not positive; ``.column`` is the column of A. Also a ``LinAlgError``, which ``numpy.linalg.cholesky``
    raises. For a quadratic function without a minimum, ``.direction`` is an array (n,) along which it falls without end, else None."""

    def __init__(self, message: str, column: int = -1, direction: Any = None) -> None:
        super().__init__(message)
        self.column, self.direction = column, direction


class SingularMatrixError(MeshsolveError, ArithmeticError, LinAlgError):
    """The matrix is singular; ``.index`` is a row or column of A involved, or -1. Also numpy's ``LinAlgError``."""

    def __init__(self, message: str, index: int = -1) -> None:
        super().__init__(message)
        self.index = index


class NotLaplacianError(InvalidInputError):
    """The matrix must be a Laplacian, or diagonally dominant; ``.row`` is the first row that fails."""

    def __init__(self, message: str, row: int = -1) -> None:
        super().__init__(message)
        self.row = row


class PatternMismatchError(InvalidInputError):
    """A matrix for a refactorization has an entry outside the analyzed pattern: ``.row``, ``.column``."""

    def __init__(self, message: str, row: int = -1, column: int = -1) -> None:
        super().__init__(message)
        self.row, self.column = row, column

    @classmethod
    def at(cls, row: int, column: int, what: str = "A") -> PatternMismatchError:
        """The error for this entry of A, in the caller's numbering."""
        return cls(f"{what} has an entry at row {row}, column {column} that is not in the analyzed pattern: analyze A again, or a matrix "
                   "with all entries that will occur (scipy drops zeros from sums of matrices)", row, column)

    @classmethod
    def joining(cls, row: int, column: int) -> PatternMismatchError:
        """The error for an entry between two components with a pin each."""
        return cls(f"A has an entry at row {row}, column {column} that joins two components of the analyzed matrix, which have a pin "
                   "each: factor A again", row, column)


class OutOfMemoryError(MeshsolveError, MemoryError):
    """The work does not fit into memory; if possible this is estimated before the work begins."""


class DeviceUnavailableError(MeshsolveError, RuntimeError):
    """The requested device or its library is not available."""


class FactorInUseError(MeshsolveError, RuntimeError):
    """A factor was refactored while another call used it, or used while another call refactored it."""


class MeshsolveWarning(UserWarning):
    """Base of every warning of meshsolve."""


class ConvergenceWarning(MeshsolveWarning):
    """An iteration stopped before it reached its tolerance."""
