"""Benchmarks: meshsolve and its peers, in one run, on the same matrices. See README.md in this folder."""
