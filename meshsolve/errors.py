"""Exceptions and warnings of meshsolve.

Every exception derives from :class:`MeshsolveError` and from the built-in exception that fits, and carries the index at
which the input failed, in the caller's numbering, as an attribute.
"""

from __future__ import annotations

from numpy.linalg import LinAlgError


class MeshsolveError(Exception):
    """Base of every exception that meshsolve raises on purpose."""


class InvalidInputError(MeshsolveError, ValueError):
    """An argument has a wrong shape, type, range or value."""


class NotSymmetricError(InvalidInputError):
    """A matrix that has to be symmetric is not; ``.row`` and ``.column`` name the worst entry."""

    def __init__(self, message: str, row: int = -1, column: int = -1) -> None:
        super().__init__(message)
        self.row, self.column = row, column


class NotPositiveDefiniteError(MeshsolveError, ArithmeticError, LinAlgError):
    """A Cholesky pivot is not positive; ``.column`` is the column of A. Also numpy's ``LinAlgError``, as ``numpy.linalg.cholesky``
    raises."""

    def __init__(self, message: str, column: int = -1) -> None:
        super().__init__(message)
        self.column = column


class SingularMatrixError(MeshsolveError, ArithmeticError, LinAlgError):
    """The matrix is singular; ``.index`` is the row or column of A where that shows. Also numpy's ``LinAlgError``."""

    def __init__(self, message: str, index: int = -1) -> None:
        super().__init__(message)
        self.index = index


class NotLaplacianError(InvalidInputError):
    """A matrix that has to be a Laplacian or diagonally dominant is not; ``.row`` is the first such row."""

    def __init__(self, message: str, row: int = -1) -> None:
        super().__init__(message)
        self.row = row


class PatternMismatchError(InvalidInputError):
    """A refactorization was given an entry outside the analysed pattern: ``.row``, ``.column``."""

    def __init__(self, message: str, row: int = -1, column: int = -1) -> None:
        super().__init__(message)
        self.row, self.column = row, column

    @classmethod
    def at(cls, row: int, column: int, what: str = "A") -> PatternMismatchError:
        """The error for this entry of A, in the caller's numbering."""
        return cls(f"{what} has an entry at row {row}, column {column} that is not in the analysed pattern: analyse A anew, or a matrix "
                   "with all entries that will occur (scipy drops zeros from sums of matrices)", row, column)

    @classmethod
    def joining(cls, row: int, column: int) -> PatternMismatchError:
        """The error for an entry between components of which each has a pin of its own."""
        return cls(f"A has an entry at row {row}, column {column} that joins two components of the matrix that was analysed, which have "
                   "a pin each: factor A anew", row, column)


class OutOfMemoryError(MeshsolveError, MemoryError):
    """The work does not fit into memory; estimated before it is tried where that can be done."""


class DeviceUnavailableError(MeshsolveError, RuntimeError):
    """The requested device or its library is not there."""


class FactorInUseError(MeshsolveError, RuntimeError):
    """A factor was to be refactored while another call used it, or to be used while another call refactored it."""


class MeshsolveWarning(UserWarning):
    """Base of every warning of meshsolve."""


class ConvergenceWarning(MeshsolveWarning):
    """An iteration stopped before it reached its tolerance."""
