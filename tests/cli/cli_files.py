"""Helpers of the command line tests for files."""

import scipy.io

PHASES = {"order", "symbolic", "numeric", "solve"}


def mmread(path):
    return scipy.io.mmread(path, spmatrix=False)


def listing(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}
