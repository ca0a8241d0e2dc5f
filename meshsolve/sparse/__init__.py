"""Sparse matrices and blocks of columns on the host and on the GPU."""
