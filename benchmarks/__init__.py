"""Benchmarks: meshsolve beside its peers, in one run, on the same matrices. See README.md in this folder."""
