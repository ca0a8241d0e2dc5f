"""What :mod:`meshsolve.torch` and :mod:`meshsolve.jax` share: factors of a sequence of matrices, and
operators as functions of positions.
"""
