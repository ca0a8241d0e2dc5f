"""Iterations and what they tell about themselves."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Info:
    """How a solution was found.

    Attributes
    ----------
    method : str
        What solved the system, for example ``"cholesky"``.
    converged : bool
    iterations : int
        0 for a direct method.
    relative_residual : float
        ||b - A x|| / ||b|| in the 2-norm, worst column, recomputed in float64.
    residuals : list of float
        The relative residual at each iteration.
    reason : str
        Why it stopped.
    report : Report or None
    """

    method: str
    converged: bool
    iterations: int
    relative_residual: float
    residuals: list = field(default_factory=list)
    reason: str = ""
    report: object = None
