"""Eigenpairs of sparse symmetric pencils: :func:`eigsh`."""

from meshsolve.eigen.pairs import EigenInfo, Eigenpairs, eigsh

__all__ = ["EigenInfo", "Eigenpairs", "eigsh"]
